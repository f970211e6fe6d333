"""What a raised exception is worth: only what vLLM's own check says is a refusal."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from upright.engines.vllm.payload import verdict
from upright.engines.vllm.payload.verdict import Raised, judged

ENGINE = """
def checks(tensor):
    assert tensor != 6, "eight heads"

def bare(tensor):
    assert tensor != 6

def raises(sentence):
    raise ValueError(
        sentence
    )

def fails():
    return {}["absent"]

def calls(other):
    other()

def hides():
    try:
        raise ImportError("libcuda.so.1")
    except ImportError as error:
        raise RuntimeError("no kernel") from error
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package of that name, in an environment of that name too."""
    folder = tmp_path / "vllm" / "site-packages" / "vllm"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(ENGINE)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.delitem(sys.modules, "vllm", raising=False)
    verdict._engine_folder.cache_clear()
    vllm = importlib.import_module("vllm")

    yield vllm
    sys.modules.pop("vllm", None)
    verdict._engine_folder.cache_clear()


def of(call, *lacking: str) -> Raised:
    try:
        call()
    except Exception as error:
        return judged(error, list(lacking))
    raise AssertionError("it raised nothing")


def test_a_check_of_the_engines_is_a_refusal_with_its_line(engine: ModuleType):
    said = of(lambda: engine.checks(6))
    assert (said["verdict"], said["sentence"], said["file"], said["line"]) == (
        "refuses", "AssertionError: eight heads", "vllm/__init__.py", 3,
    )  # fmt: skip


def test_a_bare_assertion_says_its_source(engine: ModuleType):
    assert of(lambda: engine.bare(6))["sentence"] == "AssertionError: assert tensor != 6"


def test_a_statement_of_several_lines_is_found(engine: ModuleType):
    assert of(lambda: engine.raises("DCP is at most 4"))["verdict"] == "refuses"


def test_what_fails_by_itself_is_not_known(engine: ModuleType):
    assert of(engine.fails)["verdict"] == "not-known"


def test_what_another_package_raises_is_not_known_although_the_environment_has_the_engines_name(
    engine: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    other = tmp_path / "vllm" / "site-packages" / "torchlike"
    other.mkdir()
    (other / "__init__.py").write_text("def swap():\n    raise RuntimeError('cannot swap')\n")
    torchlike = importlib.import_module("torchlike")

    said = of(lambda: engine.calls(torchlike.swap))
    sys.modules.pop("torchlike")
    assert said["verdict"] == "not-known"
    assert "not vLLM's own words" in said["why"]


@pytest.mark.parametrize(
    "sentence", ["Install a FlashInfer build", "FLASH_ATTN: [ImportError: no module]", "deep_gemm is not installed"]
)
def test_a_sentence_about_an_import_is_not_known(engine: ModuleType, sentence: str):
    assert of(lambda: engine.raises(sentence))["verdict"] == "not-known"


def test_a_backend_that_lacks_a_package_alone_leaves_it_open_and_one_that_lacks_silicon_does_not(engine: ModuleType):
    lacking = "FLASHINFER_SM120: [FLASHINFER_SM120 requires FlashInfer's decode API]"
    too_old = "FLASHMLA_SPARSE: [compute capability not supported, FLASHMLA_SPARSE requires FlashMLA]"
    assert of(lambda: engine.raises(f"Reasons: {{{too_old}, {lacking}}}"))["verdict"] == "not-known"
    assert of(lambda: engine.raises(f"Reasons: {{{too_old}}}"))["verdict"] == "refuses"


def test_an_import_behind_it_is_not_known(engine: ModuleType):
    assert of(engine.hides)["verdict"] == "not-known"


def test_a_choice_of_kernels_without_their_packages_is_not_known(engine: ModuleType):
    sentence = "No valid attention backend found"
    assert of(lambda: engine.raises(sentence), "flashinfer-python 0.7.0")["verdict"] == "not-known"
    assert of(lambda: engine.raises(sentence))["verdict"] == "refuses"
    assert of(lambda: engine.raises("TP 6 does not divide 8"), "flashinfer-python 0.7.0")["verdict"] == "refuses"
