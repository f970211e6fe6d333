"""A pointer's words against the bundle's own, and nothing of one's own is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.evidence.share.tampering import FOLDER, recorded
from tests.unit.evidence.share.test_index import AT, pointer
from upright.base.errors import RecordError, UsageError
from upright.evidence.share.index_building import build_index
from upright.evidence.share.index_reading import PinnedIndex, pin
from upright.evidence.share.index_requests import build_from_files, fetch_known_bundle, make_pointer
from upright.evidence.share.pointers import Pointer


@pytest.fixture
def honest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pointer:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    kept = tmp_path / "kept.bundle.json"
    kept.write_bytes(recorded(FOLDER / "01.json.gz"))
    return make_pointer(kept, str(kept))[0]


def indexed(folder: Path, told: Pointer) -> str:
    build_index(folder, [told], key=None, at=AT)
    pin(PinnedIndex(name="mine", url=str(folder), keys=()))
    return told.identity


def test_an_honest_one_is_brought_and_brought_again(honest: Pointer, tmp_path: Path) -> None:
    identity = indexed(tmp_path / "index", honest)
    for _ in range(2):
        path, verification = fetch_known_bundle(identity)
        assert (path.read_bytes(), verification.level) == (recorded(FOLDER / "01.json.gz"), "consistent")


@pytest.mark.parametrize(
    "change",
    [{"model": "kimi-k2.6"}, {"gpu": "b200"}, {"gpus": 8}, {"engine": "vllm"}, {"tokens_per_second": 99_999.0}],
    ids=lambda change: next(iter(change)),
)
def test_a_pointer_that_says_more_than_its_bundle(honest: Pointer, tmp_path: Path, change: dict[str, object]) -> None:
    identity = indexed(tmp_path / "index", honest.model_copy(update=change))
    with pytest.raises(RecordError, match="is not what the index says"):
        fetch_known_bundle(identity)
    assert list(Path.cwd().iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".sig"])
def test_nothing_that_is_there_is_written_over_or_taken(honest: Pointer, tmp_path: Path, suffix: str) -> None:
    identity = indexed(tmp_path / "index", honest)
    own = Path(f"{identity[:12]}.bundle.json{suffix}")
    own.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        fetch_known_bundle(identity)
    assert own.read_text() == "mine"


@pytest.mark.parametrize("change", [{"level": "reproduced"}, {"revoked": "by me"}], ids=["level", "revoked"])
def test_what_no_author_may_say(tmp_path: Path, change: dict[str, str]) -> None:
    (tmp_path / "new.jsonl").write_text(pointer(1).model_copy(update=change).model_dump_json())
    with pytest.raises(RecordError, match="says of itself"):
        build_from_files(tmp_path / "index", [tmp_path / "new.jsonl"], None, {})
