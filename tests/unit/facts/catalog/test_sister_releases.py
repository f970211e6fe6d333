"""Who names one release never gets another: over every name that the catalogue answers to."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.facts import catalog
from upright.facts.catalog.rows.model import ModelRow
from upright.facts.catalog.sister_releases import release_named, release_of, releases
from upright.facts.records.model import Model
from upright.models.reading.catalogue import catalogued_repository
from upright.planning.choosing.artifacts import artifact_choice

ROWS = catalog.models()
NAMED = [(row, release) for row in ROWS for release in releases(row)]
TYPED = [(row, release, name) for row, release in NAMED for name in (release, release.rpartition("/")[2].lower())]


def unread(source: str) -> Model:
    raise AssertionError(f"{source} is known, and was to be read")


@pytest.mark.parametrize(("row", "release", "name"), TYPED, ids=lambda part: part if isinstance(part, str) else part.id)
def test_a_release_by_name_is_planned_read_and_fetched_as_itself(row: ModelRow, release: str, name: str) -> None:
    if name == row.id:
        assert release_named(row, name) is None
        return
    considered = artifact_choice(name, unread)
    models = [considered.model, *considered.choose_from]
    sources = [model.source.partition(":")[0] for model in models]
    by_repository = {artifact.repository: artifact for artifact in row.artifacts}
    assert {release_of(row, by_repository[source]) for source in sources} == {release}
    fetched = catalogued_repository(name)
    assert fetched is not None
    assert release_of(row, by_repository[fetched.partition(":")[0]]) == release


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_an_artifact_by_its_name_without_owner_is_that_one(row: ModelRow) -> None:
    for artifact in row.artifacts:
        short = artifact.repository.rpartition("/")[2]
        if artifact.quant or release_named(row, short) or short.lower() == row.id:
            continue
        assert artifact_choice(short, unread).model.source.rpartition("/")[2].lower() == short.lower()


@pytest.mark.parametrize(
    ("name", "context"),
    [
        ("qwen3-235b-a22b-instruct-2507", 262_144),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", 262_144),
        ("Qwen/Qwen3-235B-A22B", 40_960),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", 262_144),
        ("moonshotai/Kimi-K2-Instruct", 131_072),
        ("moonshotai/Kimi-K2-Instruct-0905", 262_144),
    ],
)
def test_the_context_is_the_releases_own(name: str, context: int) -> None:
    considered = artifact_choice(name, unread)
    models = (considered.model, *considered.choose_from)
    assert {model.architecture.context_limit_tokens for model in models} == {context}


def test_every_recorded_configuration_is_planned_by_its_name() -> None:
    folder = Path(catalog.__file__).parent / "configurations"
    names = [path.stem.replace("--", "/") for path in sorted(folder.glob("*.json"))]
    assert len(names) > 40
    assert [name for name in names if catalog.find_model(name) is None] == []
