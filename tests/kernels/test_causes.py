"""Whatever goes wrong in between is `could not determine`, with its cause; never `fits`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from upright.engines.facets.kernels import KernelRoute, Shapes
from upright.facts.records.kernel import KernelVerdict
from upright.proof.kernels import Compiler, target
from upright.proof.kernels.check import kernel_verdicts
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import of_capability

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
SHAPES = Shapes(8, 1, 64, 64)
HEAD = """
import os
import time
import triton
import triton.language as tl
from vllm.nowhere import gone

@triton.constexpr_function
def crash():
    getattr(os, "abort")()

@triton.constexpr_function
def sleep():
    getattr(time, "sleep")(600)
"""
GOOD = """
@triton.jit
def kernel(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)

def launch(q):
    kernel[(1,)](q, BLOCK=16)
"""


@pytest.fixture
def judged(tmp_path: Path, compiler: Compiler):
    def run(text: str, silicon=None, limit_seconds: float = 60) -> KernelVerdict:
        (tmp_path / "vllm").mkdir(exist_ok=True)
        (tmp_path / "vllm/ops.py").write_text(HEAD + text)
        arguments = {"q": {"tensor": "float32", "shape": [1024]}}
        way = KernelRoute("test", ("vllm/ops.py",), "launch", lambda _shapes: dict(arguments), "a test")
        source = EngineSource("vllm", None, tmp_path, "a test")
        limited = Compiler(compiler.interpreter, limit_seconds)
        (found,) = kernel_verdicts([(way, SHAPES)], source, silicon or target("sm_120"), limited)
        return found

    return run


def test_a_good_kernel_fits(judged) -> None:
    assert judged(GOOD).verdict == "fits"


@pytest.mark.parametrize(
    ("change", "to", "cause"),
    [
        ("    tl.store", "    crash()\n    tl.store", r"the compiler crashed \(SIGABRT\)"),
        ("    kernel[(1,)](q, BLOCK=16)", "    gone(q)", r"gone \(imported from vllm.nowhere\) is not in the engine"),
        ("    kernel[(1,)](q, BLOCK=16)", "    kernel[(1,)](q, BLOCK=absent)", "name 'absent' is not defined"),
        ("BLOCK: tl.constexpr):\n", "BLOCK: tl.constexpr):\n    absent(x)\n", "absent is not defined"),
        ("@triton.jit", "@triton.autotune(configs=[1, 2], key=[])\n@triton.jit", "autotuned: which of its 2 configur"),
        ("    kernel[(1,)](q, BLOCK=16)", "    q.cpu()", "asks for tensor.cpu"),
        ("    kernel[(1,)](q, BLOCK=16)", "    pass", "launched no Triton kernel"),
        ("def launch(q)", "def launch(q, unheard_of)", "asks for unheard_of, which is not known here"),
        ("def launch(q)", "def other(q)", "no function launch"),
        ("tl.arange(0, BLOCK)", "tl.arange(0, 15)", "arange"),
    ],
)
def test_a_cause_for_everything_that_goes_wrong(judged, change: str, to: str, cause: str) -> None:
    assert change in GOOD
    found = judged(GOOD.replace(change, to))
    assert found.verdict == "could-not-determine"
    assert found.needed_bytes is None

    assert re.search(cause, found.why), found.why


def test_a_compile_that_takes_too_long_is_stopped(judged) -> None:
    found = judged(GOOD.replace("    tl.store", "    sleep()\n    tl.store"), limit_seconds=3)
    assert (found.verdict, found.why) == ("could-not-determine", "the compiler was stopped after 3 s")


def test_a_target_that_no_row_knows(judged) -> None:
    found = judged(GOOD, of_capability("9.5"))
    assert found.verdict == "could-not-determine"
    assert "no catalogue row" in found.why or "sm_95" in found.why


def test_what_could_not_be_determined_is_not_remembered(judged, kernels_home: Path) -> None:
    kept = set((kernels_home / "kernels/compiled").glob("*"))
    judged(GOOD.replace("    tl.store", "    crash()\n    tl.store"))
    assert set((kernels_home / "kernels/compiled").glob("*")) == kept
