"""A file or its text -> the record in it, whichever kind it is.

JSON is what machines write, YAML what people edit. This is the one place of the room that opens a file.
"""

from importlib import import_module
from pathlib import Path
from typing import Any, overload

from upright.base.bounds.bounded_json import MOST_TEXT_BYTES, TOO_LONG, parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError
from upright.base.yaml12 import from_yaml
from upright.facts.records.base import R, Record, from_dict

KINDS = {
    "box": "upright.facts.records.box:Box",
    "model": "upright.facts.records.model:Model",
    "kernel-check": "upright.facts.records.kernel:KernelCheck",
    "tile-search": "upright.facts.records.kernel:TileSearch",
    "moe-check": "upright.facts.records.kernel:MoeCheck",
    "plan": "upright.facts.records.plan:Plan",
    "recommendation": "upright.facts.records.recommendation:Recommendation",
    "comparison": "upright.facts.records.comparison:Comparison",
    "recipe": "upright.facts.records.recipe:Recipe",
    "recipe-check": "upright.facts.records.check:RecipeCheck",
    "rehearsal": "upright.facts.records.rehearsal:Rehearsal",
    "deployment": "upright.facts.records.deployment:Deployment",
    "residuals": "upright.facts.records.residuals:Residuals",
    "diagnosis": "upright.facts.records.diagnosis:Diagnosis",
    "attempts": "upright.facts.records.diagnosis:Attempts",
    "evidence": "upright.facts.records.evidence:Evidence",
    "reference": "upright.facts.records.reference:Reference",
    "benchmark": "upright.facts.records.benchmark:Benchmark",
    "agent-trace": "upright.facts.records.trace:AgentTrace",
    "fleet": "upright.facts.records.fleet:Fleet",
    "sizing": "upright.facts.records.sizing:Sizing",
    "speculation": "upright.facts.records.speculation:Speculation",
    "field-test": "upright.facts.records.first_hour:FieldTest",
    "field-bundle": "upright.facts.records.first_hour:FieldBundle",
    "fleet-state": "upright.facts.records.fleet:FleetState",
}
"""Every kind of record and where its class is, in the order of the line."""


@overload
def load(source: Path | str | bytes, kind: type[R], *, where: str | None = None) -> R: ...
@overload
def load(source: Path | str | bytes, *, where: str | None = None) -> Record: ...
def load(source: Path | str | bytes, kind: type[Record] | None = None, *, where: str | None = None) -> Record:
    """The record in a file (a Path) or in a text, of that kind if one is asked for.

    An older schema is upgraded; a digest is checked if there is one.
    """
    where = where or (str(source) if isinstance(source, Path) else "record")
    if isinstance(source, Path):
        try:
            source = file_bytes(source)
        except OSError as error:
            raise RecordError(f"{where} cannot be read: {error.strerror}") from None
    payload = parse(source, where=where)
    named = payload.get("record")
    if not isinstance(named, str) or named not in KINDS:
        problem = (
            f"names no record kind that is known: {named}" if "record" in payload else "does not name its record kind"
        )
        raise RecordError(
            f"{where} {problem}", hint=f"its first line should be `record: KIND`; kinds: {', '.join(KINDS)}"
        )
    return from_dict(kind or record_class(named), payload, where=where)


def record_class(kind: str) -> type[Record]:
    module, name = KINDS[kind].split(":")
    record_type: type[Record] = getattr(import_module(module), name)
    return record_type


def parse(text: str | bytes, *, where: str) -> dict[str, Any]:
    """The object that a text of JSON or YAML holds."""
    if len(text) > MOST_TEXT_BYTES:
        raise RecordError(f"{where} is refused: {TOO_LONG}")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise RecordError(f"{where} is not text: {error.reason} at byte {error.start}") from None
    try:
        payload = parse_json(text) if text.lstrip().startswith("{") else _yaml(text, where)
    except ValueError as error:
        raise RecordError(f"{where} is not JSON: {error}") from None
    if not isinstance(payload, dict):
        raise RecordError(f"{where} is not a record: expected names and values")
    return payload


def _yaml(text: str, where: str) -> Any:
    import yaml

    try:
        return from_yaml(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise RecordError(f"{where}{place} is not YAML: {problem}") from None
    except ValueError as error:  # an int of more digits than Python converts
        raise RecordError(f"{where} is not YAML: {error}") from None
