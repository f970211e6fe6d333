"""Records that a disk, an editor or a stranger damaged: one bad record is one line, and no command ends in a bug."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.unit.facts.store.samples import deployment, observation
from upright.base.bounds.bounded_json import DEEPEST, deeper, parse_json
from upright.base.errors import RecordError, UprightError
from upright.facts.records.base import from_json
from upright.facts.records.deployment import Deployment
from upright.facts.records.loading import KINDS, load, parse, record_class
from upright.facts.store import DeploymentDir
from upright.facts.store.journal import seal_line

ROOT = Path(__file__).parent.parent.parent
VERBS = ("restart", "down", "connect", "bundle", "report", "residuals", "diagnose", "prove", "bench", "record")
WHOLE = deployment("whole").to_json()
DEEP = {
    "lists": "[" * 100_000,
    "mappings": '{"a":' * 100_000,
    "closed": "[" * 100_000 + "]" * 100_000,
    "just parsed": '{"record": "deployment", "schema": 3, "name": ' + "[" * 900 + "]" * 900 + "}",
    "inside": WHOLE.replace('"history": []', '"history": ' + "[" * 400 + "]" * 400),
    "yaml": "record: deployment\nname: " + "[" * 100_000,
    "yaml lines": "\n".join(" " * count + "-" for count in range(2_000)),
}
LAUGHS = "record: deployment\nschema: 3\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
)
DAMAGED = {
    **DEEP,
    "laughs": LAUGHS,
    "itself": "record: deployment\nschema: 3\nname: &a [*a]\n",
    "nothing": "",
    "null": "null",
    "bytes": "\x00" * 4096,
    "number": '{"record": "deployment", "schema": 3, "name": ' + "9" * 5000 + "}",
    "infinity": '{"record": "deployment", "schema": 1e999, "name": NaN}',
    "half a surrogate": '{"record": "deployment", "schema": 3, "name": "\\ud83d"}',
    "other record": '{"record": ["deployment"], "schema": {}}',
    "cut": WHOLE[:200],
    "twice": WHOLE + WHOLE,
    "keys": "record: deployment\nschema: 3\n1: 2\n? [a]\n: b\n",
}


def _planted(name: str, home: Path) -> None:
    """Between others that are whole."""
    for which in ("before", "whole", "later"):
        (home / "deployments" / which).mkdir(parents=True)
        stopped = deployment(which).model_copy(update={"state": "stopped"}).to_json()
        (home / "deployments" / which / "deployment.json").write_text(DAMAGED[name] if which == "whole" else stopped)


@pytest.mark.parametrize("name", DAMAGED)
def test_one_bad_record_is_one_line(name: str, upright: Upright, tmp_path: Path):
    _planted(name, tmp_path / "home")
    listed = upright("ps", "--json")
    assert listed.returncode == 0, listed.stderr
    states = {row["name"]: row["state"] for row in json.loads(listed.stdout)}
    assert states == {"before": "stopped", "whole": "unreadable", "later": "stopped"}
    checked = upright("store", "check")
    assert checked.returncode == 1, checked.stderr
    assert checked.stdout.count("\n") < 12


@pytest.mark.parametrize("name", ["lists", "just parsed", "laughs", "half a surrogate"])
def test_every_verb_says_it_in_a_line(name: str, upright: Upright, tmp_path: Path):
    _planted(name, tmp_path / "home")
    assert upright("ps").stdout.count("\n") < 12
    for verb in VERBS:
        done = upright(verb, "whole")
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode in (1, 2) or verb == "bundle", (verb, done.stdout)
        assert len(done.stderr) < 2000


@pytest.mark.parametrize("name", DAMAGED)
@pytest.mark.parametrize("read", [load, parse, from_json], ids=["load", "parse", "from_json"])
def test_every_way_of_reading_refuses_it(name: str, read: Callable[..., object]):
    text = DAMAGED[name]
    try:
        if read is from_json:
            from_json(Deployment, text, where="file")
        else:
            read(text, where="file")
    except UprightError as error:
        message = error.message
    else:
        assert read is parse, "only the record's own check could find it"
        return
    assert len(message) < 1000


def test_evidence_may_be_nested_no_deeper(tmp_path: Path):
    """By somebody who can count digests."""
    directory = DeploymentDir(tmp_path)
    directory.append(observation(1))
    first = directory.last()
    assert first is not None
    deep: object = []
    for _ in range(300):
        deep = [deep]
    line, _ = seal_line(2, first.digest, "observation", 1, {"response": deep})
    with directory.evidence_file.open("ab") as file:
        file.write(line)
    for read in (directory.last, lambda: list(directory.observations()), lambda: directory.append(observation(3))):
        with pytest.raises(RecordError, match="nested more than"):
            read()


def test_depth_is_counted():
    for levels in (1, 5, DEEPEST - 1, DEEPEST):
        assert parse_json("[" * levels + "]" * levels) is not None
    for text in ("[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1)):
        with pytest.raises(ValueError, match="nested"):
            parse_json(text)
    assert not deeper([[]], 2)
    assert deeper([[]], 1)


def test_json_is_read_through_one_door():
    """`json.loads` ends in a RecursionError that nobody expects; these know what they read, or catch it."""
    allowed = {
        "base/bounds/bounded_json.py", "models/reading/safetensors.py", "engines/sglang/parser.py",
        "models/deriving/configuration.py", "proof/benchmark/scheduled_server.py", "proof/benchmark/server.py",
    }  # fmt: skip
    source = ROOT / "src/upright"
    users = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if "json.loads(" in path.read_text() and not {"payload", "confining"} & set(path.parts)
    }
    assert users <= allowed, f"use upright.base.bounds.bounded_json.parse_json: {users - allowed}"


def _mutants(text: str, chance: random.Random, count: int) -> Iterator[bytes]:
    """Bytes flipped, cut out, doubled, and values put in the place of others."""
    whole = text.encode()
    pieces = [b"{", b"[", b"null", b"-1", b"1e999", b'"\\ud800"', b"\xff\xfe", b"\x00", b"true", b'"x"', b"9" * 400]
    for _ in range(count):
        mutant = bytearray(whole)
        for _ in range(chance.choice((1, 1, 1, 4, 16))):
            at = chance.randrange(len(mutant) or 1)
            end = at + int(chance.expovariate(0.1))
            kind = chance.randrange(4)
            if kind == 0:
                mutant[at:end] = b""
            elif kind == 1:
                mutant[at:end] = chance.choice(pieces)
            elif kind == 2:
                mutant[at:at] = mutant[at:end]
            elif mutant:
                mutant[min(at, len(mutant) - 1)] ^= 1 << chance.randrange(8)
        yield bytes(mutant)


def _examples() -> dict[str, str]:
    """Of each kind the smallest record that the project's own fixtures hold."""
    records: dict[str, str] = {}
    paths = [path for path in sorted((ROOT / "tests").rglob("*.json")) if path.stat().st_size < 200_000]
    for path in sorted(paths, key=lambda path: path.stat().st_size):
        try:
            content = json.loads(path.read_text())
        except ValueError:
            continue
        if isinstance(content, dict) and content.get("record") in KINDS:
            content.pop("digest", None)
            is_long = path.stat().st_size > 50_000
            records.setdefault(content["record"], json.dumps(_shortened(content) if is_long else content))
    return records


def _shortened(content: Any) -> Any:
    """Two of every list: a thousand alike would be changed and read again for nothing."""
    if isinstance(content, dict):
        return {name: _shortened(part) for name, part in content.items()}
    return [_shortened(part) for part in content[:2]] if isinstance(content, list) else content


EXAMPLES = _examples()


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("count", [60, pytest.param(4000, marks=pytest.mark.slow)])
def test_a_mutant_is_a_record_or_an_expected_error(kind: str, count: int):
    """Of every kind, as JSON and as YAML. What is taken can be written and read again."""
    taken = longest = 0
    for text in (EXAMPLES[kind], load(EXAMPLES[kind]).to_yaml()):
        for mutant in _mutants(text, random.Random(kind), count):
            try:
                record = load(mutant, where="file")
                again = from_json(record_class(record.kind), record.to_json())
            except UprightError as error:
                longest = max(longest, len(error.message))
                continue
            taken += 1
            assert again == record
            assert again.digest == record.digest
    assert taken < 2 * count
    assert longest < 20_000


def test_most_kinds_are_tried():
    assert len(EXAMPLES) >= 6, EXAMPLES.keys()
    assert all(import_module(where.partition(":")[0]) for where in KINDS.values())


def test_a_bug_ends_with_two_and_never_with_one(upright: Upright, tmp_path: Path):
    """One is an answer: "no". A traceback is shown through the door, and says what to do with it."""
    done = upright("ps", PYTHONPATH=str(_broken(tmp_path)))
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" in done.stderr
    assert "error: this is a bug of upright" in done.stderr
    assert "\x1b" not in done.stderr


def _broken(folder: Path) -> Path:
    """A sitecustomize that breaks the store, with an escape in the error."""
    (folder / "sitecustomize.py").write_text(
        "import upright.facts.store as store\n"
        "def deployments():\n    raise RuntimeError('a\\x1b]0;pwned\\x07b')\n"
        "store.deployments = deployments\n"
    )
    return folder
