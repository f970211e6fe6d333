"""Names and directories."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.facts.store.samples import deployment
from upright.base.errors import RecordError, StoreError, UsageError
from upright.facts import store
from upright.facts.records.plan import Plan
from upright.facts.store import DeploymentDir


@pytest.mark.parametrize(
    ("name", "directory"),
    [
        ("tiny", "tiny"),
        ("unsloth/Kimi-K2.5:Q4_K_XL", "unsloth-Kimi-K2.5-Q4_K_XL"),
        ("../../etc", "etc"),
        ("...", "deployment"),
        ("", "deployment"),
        ("a b\n", "a-b"),
    ],
)
def test_a_name_becomes_one_directory_and_no_path(own_home: Path, name: str, directory: str) -> None:
    assert store.create(name).path == own_home / "deployments" / directory


def test_a_name_that_is_taken_gets_a_number() -> None:
    assert [store.create("tiny").name for _ in range(3)] == ["tiny", "tiny-2", "tiny-3"]


def test_the_directory_and_the_key_are_the_users_alone(directory: DeploymentDir) -> None:
    key = directory.key()
    assert key.startswith("sk-upright-")
    assert len(key) > 40
    assert directory.key() == key
    assert directory.path.stat().st_mode & 0o777 == 0o700
    assert directory.key_file.stat().st_mode & 0o777 == 0o600


def test_find_takes_a_name_or_a_directory(directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store.find("tiny") == store.find(str(directory.path)) == store.find(None) == directory
    monkeypatch.chdir(directory.path.parent)
    assert store.find("./tiny") == directory


def test_find_by_name_reads_no_other(directory: DeploymentDir, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("upright.facts.store.directories.deployments", lambda: pytest.fail("it listed them all"))
    assert store.find("tiny") == directory


def test_a_name_that_is_not_there_is_told_with_a_hint(directory: DeploymentDir) -> None:
    for name, hint in (("tiyn", "did you mean tiny?"), ("kimi", "known: tiny"), ("../..", "known: tiny")):
        with pytest.raises(UsageError, match="no deployment named") as caught:
            store.find(name)
        assert caught.value.hint == hint


def test_an_empty_home_has_no_last_deployment(own_home: Path) -> None:
    assert store.deployments() == []
    with pytest.raises(UsageError, match="there is no deployment yet"):
        store.find(None)
    store.create("begun")  # a directory without a record is no deployment yet
    with pytest.raises(UsageError, match="there is no deployment yet"):
        store.find(None)


def test_a_home_that_is_a_file_is_told(own_home: Path) -> None:
    own_home.write_text("")
    with pytest.raises(StoreError, match="cannot be written"):
        store.create("tiny")


def test_a_record_that_was_not_written_is_told(directory: DeploymentDir) -> None:
    assert not directory.has(Plan)
    with pytest.raises(RecordError, match="deployment tiny has no plan record"):
        directory.read(Plan)


def test_the_last_one_is_the_one_created_last_not_the_one_changed_last() -> None:
    for number, name in enumerate(("first", "second")):
        store.create(name).write(deployment(name, created_at=f"2026-11-15T00:00:0{number}.000+00:00"))
    first = store.find("first")
    first.write(deployment("first", created_at="2026-11-15T00:00:00.000+00:00").changed("later", state="stopped"))
    assert store.find(None).name == "second"
