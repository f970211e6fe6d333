"""Each patch on a copy of each engine's real file: from no to yes, one function, and back to every byte."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from tests.kernels.conftest import Engine
from upright.proof.kernels import Compiler, find_source, patching
from upright.proof.kernels.sources import EngineSource

pytestmark = [pytest.mark.kernels, pytest.mark.slow]
CASES = [("sglang", "0.5.8", "sglang-sm120-extend-tiles"), ("vllm", "0.32.0", "vllm-mla-fp8-one-stage")]


@pytest.fixture
def copy(engine: Engine, tmp_path: Path):
    """The file of a release in a directory of its own, as an installation has it."""

    def make(name: str, version: str, row: str, path: str | None = None) -> EngineSource:
        source = engine(name, version)
        file = path or patching.patch(row, name).files[0].path
        (tmp_path / file).parent.mkdir(parents=True)
        shutil.copy(source.root / file, tmp_path / file)
        (tmp_path / f"{name}-{version}.dist-info").mkdir()
        return find_source(name, source=str(tmp_path))

    return make


@pytest.mark.parametrize(("name", "version", "row"), CASES)
def test_no_becomes_yes_in_one_function_and_back(copy, compiler: Compiler, name: str, version: str, row: str) -> None:
    source = copy(name, version, row)
    found = patching.match_patch(patching.patch(row, name), source)
    assert (found.state, found.source.version) == ("applicable", version)
    assert found.file is not None
    original, mode = found.file.read_bytes(), found.file.stat().st_mode
    before = patching.patch_verdicts(found, compiler)
    assert {one.verdict for one in before if one.needed_bytes} == {"does-not-fit"}
    assert patching.refusal(found, before) is None

    patching.write(found, patching.patched_text(found))
    applied = patching.match_patch(found.row, source)
    assert applied.state == "applied"
    assert {one.verdict for one in patching.patch_verdicts(applied, compiler)} == {"fits"}
    patched = found.file.read_bytes()
    assert patching.changed_functions(original.decode(), patched.decode()) == {found.row.edit.function}
    trees = [
        {n.name: ast.dump(n) for n in ast.parse(t).body if isinstance(n, ast.FunctionDef)} for t in (original, patched)
    ]
    assert {key for key in trees[0] if trees[0][key] != trees[1][key]} == {found.row.edit.function}
    assert patching.refusal(applied, []) == "it is applied already"

    patching.revert(applied)
    assert found.file.read_bytes() == original
    assert found.file.stat().st_mode == mode
    assert not found.backup.exists()
    assert patching.match_patch(found.row, source).state == "applicable"


@pytest.mark.parametrize("version", ["0.5.9", "0.5.23"])
def test_a_release_that_has_it_is_refused_with_the_reason(engine: Engine, compiler: Compiler, version: str) -> None:
    found = patching.match_patch(patching.patch("sglang-sm120-extend-tiles", "sglang"), engine("sglang", version))
    assert found.state == "not-needed"
    before = patching.patch_verdicts(found, compiler)
    reason = patching.refusal(found, before)
    assert reason is not None
    assert reason.startswith("not needed: sglang 0.5.9 and later have it; _fwd_kernel needs 71,680 of 101,376 bytes")


def test_a_file_of_unknown_bytes_is_refused(copy, compiler: Compiler) -> None:
    source = copy("sglang", "0.5.8", "sglang-sm120-extend-tiles")
    row = patching.patch("sglang-sm120-extend-tiles", "sglang")
    file = source.root / row.files[0].path
    file.write_bytes(file.read_bytes() + b"# somebody was here\n")
    found = patching.match_patch(row, source)
    assert found.state == "unknown-file"
    reason = patching.refusal(found, patching.patch_verdicts(found, compiler))
    assert reason == "its bytes are not those of a release that the patch knows"


def test_the_same_fix_made_by_hand_needs_no_patch(copy, compiler: Compiler) -> None:
    source = copy("sglang", "0.5.8", "sglang-sm120-extend-tiles")
    row = patching.patch("sglang-sm120-extend-tiles", "sglang")
    file = source.root / row.files[0].path
    file.write_text(patching.apply_edit(file.read_text(), row.edit) + "# by hand\n")
    found = patching.match_patch(row, source)
    reason = patching.refusal(found, patching.patch_verdicts(found, compiler))
    assert reason is not None
    assert reason.startswith("not needed: it fits")
