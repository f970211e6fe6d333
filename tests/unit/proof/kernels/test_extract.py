"""What is kept of an engine's file, and what stands in for the rest. No Triton needed."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from upright.base.errors import EngineError
from upright.proof.kernels.extract import extract

LAUNCHER = """
import math
from functools import lru_cache

import torch
import triton
import triton.language as tl

from engine.deeper import helper, CONSTANT as RENAMED
from engine.nowhere import gone
from sglang.srt.utils import is_cuda

_is_cuda = is_cuda()
if _is_cuda:
    CAPABILITY = torch.cuda.get_device_capability()
else:
    CAPABILITY = (0, 0)


@triton.jit
def inner(x):
    return x


@triton.jit
def kernel(pointer, BLOCK: tl.constexpr, other: torch.Tensor):
    inner(pointer)


@triton.autotune(configs=[1, 2, 3], key=["n"])
@triton.jit
def tuned(pointer):
    pass


def unrelated():
    return gone()


def launch(q: torch.Tensor, block=None) -> torch.Tensor:
    size = [helper(item) for item in range(3)]
    if CAPABILITY[0] > 100:
        gone(size)
    kernel[(1,)](q, BLOCK=RENAMED, other=math.pi)


def launch_tuned(q):
    tuned[(1,)](q)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    package = tmp_path / "engine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "launcher.py").write_text(LAUNCHER)
    (package / "deeper.py").write_text(
        "import os\nfrom .deepest import base\nCONSTANT = 16\n\n\n"
        "def inner():\n    return 0\n\n\ndef helper(x: int) -> int:\n    return base(x) + inner()\n\n\n"
        "def unused():\n    return os\n"
    )
    (package / "deepest.py").write_text(
        "try:\n    import nothing\nexcept ImportError:\n    nothing = None\n\ndef base(x):\n    return x\n"
    )
    return tmp_path


def names(text: str) -> set[str]:
    tree = ast.parse(text)
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_only_what_the_launcher_needs_is_kept_each_file_a_module_of_its_own(root: Path) -> None:
    found = extract(root, root / "engine/launcher.py", "launch")
    assert set(found.modules) == {"engine__launcher", "engine__deeper", "engine__deepest"}
    assert names(found.modules["engine__launcher"]) == {"inner", "kernel", "launch"}
    assert names(found.modules["engine__deeper"]) == {"inner", "helper"}  # two functions named inner never meet
    assert "import os" not in found.modules["engine__deeper"]
    assert "base = lazily('engine__deepest', 'base')" in found.modules["engine__deeper"]


def test_both_branches_of_a_condition_are_kept(root: Path) -> None:
    text = extract(root, root / "engine/launcher.py", "launch").modules["engine__launcher"]
    assert "CAPABILITY = torch.cuda.get_device_capability()" in text
    assert "CAPABILITY = (0, 0)" in text


def test_names_that_no_file_defines_fail_only_when_used(root: Path) -> None:
    text = extract(root, root / "engine/launcher.py", "launch").modules["engine__launcher"]
    assert "gone = missing('gone', 'engine.nowhere')" in text
    assert "from payload.standins import torch as torch" in text
    assert "from payload.standins import yes as is_cuda" in text


def test_annotations_go_except_constexpr(root: Path) -> None:
    text = extract(root, root / "engine/launcher.py", "launch").modules["engine__launcher"]
    assert "BLOCK: tl.constexpr, other)" in text
    assert "def launch(q, block=None):" in text


def test_an_autotuned_kernel_says_so_when_launched(root: Path) -> None:
    text = extract(root, root / "engine/launcher.py", "launch_tuned").modules["engine__launcher"]
    assert "autotuned('tuned', lambda: [1, 2, 3])" in text
    assert "triton.autotune" not in text


def test_the_digest_changes_with_what_is_needed_and_with_nothing_else(root: Path) -> None:
    file = root / "engine/launcher.py"
    before = extract(root, file, "launch").digest
    assert extract(root, file, "launch", {file: LAUNCHER.replace("return gone()", "return 1")}).digest == before
    assert extract(root, file, "launch", {file: LAUNCHER.replace("range(3)", "range(4)")}).digest != before


def test_parameters_say_what_is_required(root: Path) -> None:
    found = extract(root, root / "engine/launcher.py", "launch")
    assert [(item.name, item.required) for item in found.parameters] == [("q", True), ("block", False)]


def test_a_launcher_that_is_not_there_is_an_error_by_name(root: Path) -> None:
    with pytest.raises(EngineError, match="no function absent"):
        extract(root, root / "engine/launcher.py", "absent")


def test_a_file_that_is_not_python_is_an_error_by_name(root: Path) -> None:
    (root / "engine/launcher.py").write_text("def launch(:\n")
    with pytest.raises(EngineError, match=r"launcher\.py cannot be read as Python"):
        extract(root, root / "engine/launcher.py", "launch")


def test_switches_come_with_the_default_that_the_engine_states(tmp_path: Path) -> None:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/envs.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    VLLM_A: bool = False\n    VLLM_B: int = 7\n"
    )
    (tmp_path / "vllm/ops.py").write_text(
        "import vllm.envs as envs\n\ndef launch():\n    return envs.VLLM_B, envs.VLLM_C\n"
    )
    text = extract(tmp_path, tmp_path / "vllm/ops.py", "launch").modules["vllm__ops"]
    assert "{'VLLM_B': 7}" in text  # VLLM_A is not read here, VLLM_C is not stated: asking for it refuses
