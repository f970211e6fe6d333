"""`store check`: every way a log can be spoiled is found, with the line and the word for it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.facts.store.samples import deployment, observation
from upright.base.errors import UsageError
from upright.facts.store import DeploymentDir, StoreFinding, check

_COUNT = 6
Lines = list[bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound deployment with six lines of evidence; tests spoil copies of its log."""
    directory = DeploymentDir(tmp_path_factory.mktemp("whole"))
    directory.write(deployment(directory.name))
    for number in range(_COUNT):
        directory.append(observation(number, response={"text": "ä" * number}))
    return directory.path


def test_a_sound_directory_has_no_findings(whole: Path) -> None:
    assert check(whole) == []


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        pytest.param(lambda o: [*o[:2], o[2].replace(b"passed", b"failed"), *o[3:]], ("changed", 3), id="changed"),
        pytest.param(lambda o: [*o[:3], o[3][:-90] + b"\n", *o[4:]], ("truncated", 4), id="cut inside"),
        pytest.param(lambda o: [*o[:2], *o[3:]], ("missing", 3), id="missing"),
        pytest.param(lambda o: o[1:], ("missing", 1), id="first missing"),
        pytest.param(lambda o: o[:-1], ("missing", 5), id="last missing"),
        pytest.param(lambda o: o[:-3], ("missing", 3), id="last three missing"),
        pytest.param(lambda o: [], ("missing", None), id="all missing"),
        pytest.param(lambda o: [*o[:-1], o[-1][:50]], ("truncated", 5), id="last cut"),
        pytest.param(lambda o: [o[0], o[2], o[1], *o[3:]], ("reordered", 3), id="two exchanged"),
        pytest.param(lambda o: [*o[:3], o[1], *o[3:]], ("duplicated", 4), id="duplicated"),
        pytest.param(lambda o: [*o, o[-1]], ("duplicated", 7), id="last duplicated"),
        pytest.param(lambda o: [*o[:2], _forged(o[2]), *o[3:]], ("replaced", 4), id="replaced with its digest"),
        pytest.param(lambda o: [*o[:-1], _forged(o[-1])], ("replaced", 6), id="last replaced with its digest"),
        pytest.param(lambda o: [*o[:2], b"\n", *o[2:]], ("truncated", 3), id="empty line"),
    ],
)
def test_what_was_done_to_the_log_is_told(
    whole: Path, tmp_path: Path, spoil: Callable[[Lines], Lines], expected: tuple[str, int | None]
) -> None:
    found = _check_spoiled(whole, tmp_path, spoil)
    assert [(finding.code, finding.line) for finding in found] == [expected]
    assert found[0].severity == "problem"


@given(data=st.data())
def test_one_changed_byte_is_found_on_its_line(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    number = data.draw(st.integers(0, _COUNT - 1))

    def spoil(lines: Lines) -> Lines:
        line = lines[number]
        at = data.draw(st.integers(0, len(line) - 2))
        byte = data.draw(st.integers(0, 255).filter(lambda value: value not in (line[at], 10)))
        return [*lines[:number], line[:at] + bytes([byte]) + line[at + 1 :], *lines[number + 1 :]]

    found = _check_spoiled(whole, tmp_path_factory.mktemp("byte"), spoil)
    assert (found[0].severity, found[0].line) == ("problem", number + 1)
    assert found[0].code in {"changed", "truncated"}


@given(order=st.permutations(range(_COUNT)).map(tuple), kept=st.integers(0, _COUNT))
def test_any_other_order_and_any_missing_line_is_found(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, order: tuple[int, ...], kept: int
) -> None:
    chosen = order[:kept]
    found = _check_spoiled(whole, tmp_path_factory.mktemp("order"), lambda lines: [lines[index] for index in chosen])
    assert bool(found) == (chosen != tuple(range(_COUNT)))


@given(data=st.data())
def test_a_log_cut_anywhere_is_found(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    def spoil(lines: Lines) -> Lines:
        text = b"".join(lines)
        return [text[: data.draw(st.integers(0, len(text) - 1))]]

    found = _check_spoiled(whole, tmp_path_factory.mktemp("cut"), spoil)
    assert {finding.code for finding in found} <= {"missing", "truncated"}
    assert found


def test_a_torn_tail_that_was_never_acknowledged_is_a_note(whole: Path, tmp_path: Path) -> None:
    found = _check_spoiled(whole, tmp_path, lambda lines: [*lines, b'{"seq":7,'])
    assert [(finding.severity, finding.code) for finding in found] == [("note", "torn")]


def test_without_its_head_a_log_is_sound_with_a_note(whole: Path, tmp_path: Path) -> None:
    path = _copy(whole, tmp_path, lambda lines: lines)
    (path / "evidence.head").unlink()
    assert [(finding.severity, finding.code) for finding in check(path)] == [("note", "no-head")]


def test_a_record_that_was_changed_or_is_missing_is_a_problem(whole: Path, tmp_path: Path) -> None:
    path = _copy(whole, tmp_path, lambda lines: lines)
    file = path / "deployment.json"
    file.write_text(file.read_text().replace('"context_tokens": 4096', '"context_tokens": 65536'))
    assert [finding.message for finding in check(path)] == [
        "was changed after it was written: its digest does not fit its content"
    ]
    file.unlink()
    assert [finding.code for finding in check(path)] == ["no-deployment"]


def test_a_record_made_from_another_parent_is_a_problem(whole: Path, tmp_path: Path) -> None:
    path = _copy(whole, tmp_path, lambda lines: lines)
    (path / "recipe.json").write_text(_recipe().to_json())
    directory = DeploymentDir(path)
    directory.write(deployment(path.name).model_copy(update={"made_from": (_recipe().reference,)}))
    assert check(path) == []
    directory.write(deployment(path.name).model_copy(update={"made_from": ("recipe:" + "ab" * 32,)}))
    found = check(path)
    assert [(finding.code, finding.file) for finding in found] == [("other-parent", "deployment.json")]
    assert "was made from recipe abababababab" in found[0].message


def test_a_copy_under_another_name_is_a_note(whole: Path, tmp_path: Path) -> None:
    path = _copy(whole, tmp_path, lambda lines: lines).rename(tmp_path / "copy")
    assert [(finding.severity, finding.code) for finding in check(path)] == [("note", "renamed")]


def test_what_is_no_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        check(tmp_path / "nothing")


def _check_spoiled(whole: Path, folder: Path, spoil: Callable[[Lines], Lines]) -> list[StoreFinding]:
    return check(_copy(whole, folder, spoil))


def _copy(whole: Path, folder: Path, spoil: Callable[[Lines], Lines]) -> Path:
    folder = folder / whole.name
    folder.mkdir()
    for name in ("deployment.json", "evidence.head"):
        (folder / name).write_bytes((whole / name).read_bytes())
    lines = (whole / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "evidence.jsonl").write_bytes(b"".join(spoil(lines)))
    return folder


def _forged(line: bytes) -> bytes:
    """Another verdict, with a digest that fits."""
    body = line[: line.rindex(b',"digest"')].replace(b"passed", b"failed")
    return body + b',"digest":"' + hashlib.sha256(body).hexdigest().encode() + b'"}\n'


def _recipe():
    from upright.facts.records.recipe import Recipe

    return Recipe(
        engine="llama.cpp",
        engine_version=None,
        runtime="process",
        program="/bin/true",
        arguments=(),
        model_path="/m.gguf",
        served_name="m",
        host="127.0.0.1",
        port=8080,
        context_tokens=4096,
        users=1,
        health_path="/health",
        metrics_path=None,
    )
