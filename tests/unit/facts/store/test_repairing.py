"""`store repair`: a damaged log makes room for a new one, and nothing is thrown away."""

from __future__ import annotations

import pytest

from tests.unit.facts.store.samples import observation
from upright.base.errors import StoreError
from upright.facts.store import DeploymentDir, check, repair


def test_a_sound_directory_is_left_alone(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    before = {path.name: path.read_bytes() for path in directory.path.iterdir()}
    assert repair(directory.path) == []
    assert {path.name: path.read_bytes() for path in directory.path.iterdir()} == before


def test_a_damaged_log_is_set_aside_whole_and_a_new_one_begins(directory: DeploymentDir) -> None:
    for turn in (1, 2):
        for number in range(3):
            directory.append(observation(number))
        damaged = directory.evidence_file.read_bytes().replace(b"answer 2", b"answer 9")
        directory.evidence_file.write_bytes(damaged)
        words = repair(directory.path, dry_run=True)
        assert directory.evidence_file.read_bytes() == damaged
        assert repair(directory.path) == words
        assert words == [
            f"the evidence no longer fits its chain: kept in evidence.damaged-{turn}.jsonl, and a new log begins"
        ]
        assert (directory.path / f"evidence.damaged-{turn}.jsonl").read_bytes() == damaged
        assert [finding.severity for finding in check(directory.path)] == ["note"] * turn
        assert list(directory.observations()) == []


def test_a_log_that_lost_its_end_is_set_aside_too(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    directory.evidence_file.unlink()
    with pytest.raises(StoreError, match="1 were acknowledged"):
        directory.append(observation(2))
    assert len(repair(directory.path)) == 1
    directory.append(observation(2))
    assert [item.check for item in directory.observations()] == ["check-2"]


def test_a_torn_tail_is_mended(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    with directory.evidence_file.open("ab") as file:
        file.write(b"torn")
    assert repair(directory.path, dry_run=True) == ["the torn tail of the evidence would be set aside"]
    assert repair(directory.path) == ["4 bytes of a torn line are now in evidence.torn-1"]
    assert [item.check for item in directory.observations()] == ["check-1"]


def test_a_log_that_is_being_written_is_not_touched(directory: DeploymentDir) -> None:
    directory.append(observation(1))
    directory.evidence_file.write_bytes(directory.evidence_file.read_bytes().replace(b"passed", b"failed"))
    import os

    from upright.facts.store.journal import lock

    descriptor = lock(directory.evidence_file)
    try:
        with pytest.raises(StoreError, match="being written"):
            repair(directory.path)
    finally:
        os.close(descriptor)
