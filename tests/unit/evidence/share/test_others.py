"""What others measured: one vote a signer, far ones left out, and only from indexes that a person learns from."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.base.home import home
from upright.evidence.share.index_building import build_index
from upright.evidence.share.index_evidence import index_evidence, median_by_signer
from upright.evidence.share.index_reading import PinnedIndex, pin
from upright.evidence.share.pointers import Pointer
from upright.facts import catalog

AT = "2026-11-01T00:00:00Z"


def pointer(number: int, rate: float | None, signer: str | None, **changes: object) -> Pointer:
    stated = {
        "model": "kimi-k2.6", "gpu": "h200-sxm", "gpus": 8, "engine": "vllm", "engine_version": "0.32.0",
        "level": "consistent", "tokens_per_second": rate, "at": AT, "identity": f"{number:064x}",
        "url": "https://example.org/b", "signer": signer,
    }  # fmt: skip
    return Pointer.model_validate({**stated, **changes})


PEOPLE = [pointer(number, 61 + 7 * number / 11, f"SHA256:{number}") for number in range(12)]


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))


def test_people_and_their_range() -> None:
    evidence = median_by_signer(PEOPLE, ("lab",))
    assert evidence is not None
    assert evidence.sentence == (
        "12 people measured 61 to 68 tok/s a user on such a box: evidence of others, as lab has it"
    )


def test_a_flood_by_one_signer_is_one_vote() -> None:
    flood = [pointer(1000 + number, 500.0, "SHA256:flood") for number in range(500)]
    evidence = median_by_signer([*PEOPLE, *flood], ("lab",))
    assert evidence is not None
    assert (evidence.people, evidence.low, evidence.high, evidence.outliers) == (12, 61, 68, 1)


@pytest.mark.parametrize(
    "changes",
    [{"level": "claimed"}, {"level": "stale"}, {"signer": None}, {"tokens_per_second": None}, {"revoked": "wrong"}],
    ids=str,
)
def test_what_does_not_count(changes: dict[str, object]) -> None:
    assert median_by_signer([pointer(1, 60.0, "SHA256:1").model_copy(update=changes)], ("lab",)) is None


def test_one_person_is_said_to_be_one() -> None:
    evidence = median_by_signer([pointer(1, 60.4, "SHA256:1"), pointer(2, 60.0, "SHA256:1")], ("lab",))
    assert evidence is not None
    assert evidence.sentence.startswith("1 person measured 60 tok/s a user")


def test_it_is_opt_in(tmp_path: Path) -> None:
    box = catalog.box_record("8x-h200")
    build_index(tmp_path / "index", PEOPLE, key=None, at=AT)
    assert index_evidence("kimi-k2.6", box) is None
    pin(PinnedIndex(name="lab", url=str(tmp_path / "index"), keys=()))
    assert index_evidence("kimi-k2.6", box) is None, "an index that was only added"
    pin(PinnedIndex(name="lab", url=str(tmp_path / "index"), keys=(), learn=True))
    evidence = index_evidence("kimi-k2.6", box)
    assert evidence is not None
    assert evidence.people == 12
    assert index_evidence("kimi-k2.6", catalog.box_record("4x-h200")) is None, "another box"
    assert home().exists()
