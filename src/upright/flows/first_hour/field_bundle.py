"""A field test and its deployments as one redacted file, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError, StoreError, UprightError
from upright.base.progress import Tell
from upright.evidence.bundle.identities import identities_of
from upright.evidence.bundle.redacting import Redactor
from upright.evidence.share.anonymous import box_kind
from upright.evidence.share.making_statements import make_statement
from upright.evidence.share.statement import MOST_BYTES, Statement, read_statement
from upright.facts.records.base import canonical, from_json
from upright.facts.records.box import Box
from upright.facts.records.first_hour import FieldBundle, FieldTest
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir, write_atomically

_MOST_DEPLOYMENTS = 64


def pack(
    test: FieldTest, deployments: Sequence[DeploymentDir], folder: DeploymentDir, path: Path, *, tell: Tell
) -> FieldBundle:
    """The same folders give the same bytes. A deployment of which nothing can be stated is told and left out."""
    statements: list[dict[str, Any]] = []
    for directory in deployments:
        if not directory.has(Recipe):
            continue
        try:
            statements.append(make_statement(directory).model_dump(mode="json"))
        except UprightError as error:
            tell(f"not in the bundle: {directory.name}: {error.message}")
    bundle = FieldBundle(**_redacted(test, [folder, *deployments]), statements=tuple(statements))
    content = bundle.to_json().encode()
    for directory in (folder, *deployments):
        if any(len(secret) >= 6 and secret.encode() in content for secret in identities_of(directory).secrets):
            raise StoreError(
                "the bundle still holds a secret; nothing was written", hint="this is a bug: tell us of it"
            )
    write_atomically(path, content)
    return bundle


def _redacted(test: FieldTest, folders: Sequence[DeploymentDir]) -> dict[str, Any]:
    """The kind of box in place of its name, names of files in place of paths."""
    content, times = test.model_dump(mode="json"), dict[str, int]()
    content["box"] = box_kind(folders[0].read(Box))
    for step in content["steps"]:
        if step["model"] and Path(step["model"]).exists():
            step["model"] = Path(step["model"]).name
    for folder in folders:
        redactor = Redactor(identities_of(folder))
        content = redactor.data(content)
        for what, count in redactor.times.items():
            times[what] = times.get(what, 0) + count
    return {"test": FieldTest.model_validate(content), "redactions": times}


def open_field_bundle(path: Path) -> FieldBundle:
    """Somebody's file: bounded before it is read, and nothing in it is believed yet."""
    try:
        content = file_bytes(path, _MOST_DEPLOYMENTS * MOST_BYTES)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from None
    bundle = from_json(FieldBundle, content, where=str(path))
    if len(bundle.statements) > _MOST_DEPLOYMENTS:
        raise RecordError(f"{path} holds more than {_MOST_DEPLOYMENTS} deployments")
    return bundle


def statements_of(bundle: FieldBundle) -> Iterator[Statement]:
    """As `verify` reads them: a statement has one spelling."""
    for number, content in enumerate(bundle.statements, 1):
        yield read_statement(canonical(content), f"statement {number}")
