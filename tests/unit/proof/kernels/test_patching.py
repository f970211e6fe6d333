"""States of a patch, by bytes alone: no Triton, and rows of our own."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from upright.base.errors import EngineError
from upright.facts import catalog
from upright.facts.catalog.rows.patch import PatchRow
from upright.proof.kernels import patching
from upright.proof.kernels.sources import EngineSource

TEXT = "def launch(q):\n    n = 2\n    kernel[(1,)](q, n)\n"


@pytest.fixture
def row() -> PatchRow:
    proof = {"way": "mla-decode", "target": "sm_120", "heads": 8, "kv_heads": 1, "key_dim": 576, "value_dim": 512}
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    return PatchRow.model_validate(
        {
            "id": "a-patch",
            "name": "a patch",
            "engine": "vllm",
            "versions": "<0.9",
            "expires": "0.9.0",
            "why": "a test",
            "files": [{"path": "vllm/ops.py", "sha256": digest, "versions": "<0.9"}],
            "edit": {"kind": "statement-before", "function": "launch", "anchor": "kernel", "code": "n = 1"},
            "proofs": [{**proof, "kv_dtype": "bfloat16"}],
            "grade": "A",
            "sources": ["a test"],
        }
    )


@pytest.fixture
def source(tmp_path: Path) -> EngineSource:
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm/ops.py").write_text(TEXT)
    return EngineSource("vllm", "0.8.0", tmp_path, "a test", installed=True)


def test_written_and_reverted_to_every_byte(row: PatchRow, source: EngineSource) -> None:
    file = source.root / "vllm/ops.py"
    file.chmod(0o640)
    found = patching.match_patch(row, source)
    assert found.state == "applicable"
    assert "+    n = 1\n" in patching.diff(found)
    assert patching.diff(found).startswith("--- a/vllm/ops.py\n+++ b/vllm/ops.py\n")
    patching.write(found, patching.patched_text(found))
    assert file.read_text() == TEXT.replace("    kernel", "    n = 1\n    kernel")
    assert found.backup.read_text() == TEXT
    assert file.stat().st_mode & 0o777 == 0o640
    patching.revert(patching.match_patch(row, source))
    assert file.read_text() == TEXT
    assert [path.name for path in file.parent.iterdir()] == ["ops.py"]


def test_a_patched_file_that_was_changed_since_is_left_alone(row: PatchRow, source: EngineSource) -> None:
    found = patching.match_patch(row, source)
    patching.write(found, patching.patched_text(found))
    with (source.root / "vllm/ops.py").open("a") as file:
        file.write("# later\n")
    changed = patching.match_patch(row, source)
    assert (changed.state, patching.refusal(changed, [])) == ("changed", "it was patched, and changed since")
    with pytest.raises(EngineError, match="cannot be reverted: it was patched, and changed since"):
        patching.revert(changed)


def test_a_backup_that_is_not_the_original_is_never_put_back(row: PatchRow, source: EngineSource) -> None:
    found = patching.match_patch(row, source)
    patching.write(found, patching.patched_text(found))
    found.backup.write_text("def launch(q): ...\n")
    assert patching.match_patch(row, source).state == "changed"


def test_a_release_past_the_end_is_not_needed_and_others_are_unknown(row: PatchRow, source: EngineSource) -> None:
    (source.root / "vllm/ops.py").write_text("other = 1\n")
    assert patching.match_patch(row, source).state == "unknown-file"
    later = EngineSource("vllm", "0.9.1", source.root, "a test")
    assert patching.match_patch(row, later).state == "not-needed"
    (source.root / "vllm/ops.py").unlink()
    assert patching.match_patch(row, source).state == "absent"


def test_a_patch_of_another_engine_is_named() -> None:
    with pytest.raises(EngineError, match="is a patch for sglang, not for vllm"):
        patching.patch("sglang-sm120-extend-tiles", "vllm")


@pytest.mark.parametrize("row", patching.patches(), ids=lambda row: row.id)
def test_rows_say_when_they_end_and_whom_they_know(row: PatchRow) -> None:
    from upright.proof.kernels.capture import kernel_route
    from upright.proof.kernels.targets import target

    assert catalog.get("patches", row.id) is row
    for proof in row.proofs:
        assert kernel_route(row.engine, proof.way).tile is not None
        assert target(proof.target).limit_bytes == 101376
