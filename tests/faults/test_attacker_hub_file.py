"""A hub's file: a header, a configuration, a log or a server's words, with anything in them, shown on a terminal."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text

from tests import hostile_strings as hostile
from tests.conftest import TINY_FOLDER, Upright
from upright.base.terminal import safe_output as terminal
from upright.base.untrusted_text import escape_controls
from upright.evidence.report.markdown import _plain
from upright.evidence.report.tables import _no_formula

NOT_PROMISED = (
    "that a line feed in words that are no name, such as a reason in a record, starts no line of its own in a page",
)


@pytest.mark.promise(
    "nothing that a file, a log or a server says is obeyed by the terminal: escapes are shown by number"
)
@pytest.mark.parametrize("name", hostile.STRINGS)
def test_the_door_shows_what_it_is_given(name: str, monkeypatch: pytest.MonkeyPatch):
    text = hostile.STRINGS[name].replace("\n", " ")
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal.EscapingStream(raw))
    print(text[:5000])
    console = terminal.console(width=80)
    console.print(text[:5000])
    console.print(Text(text[:5000], style="red"))
    table = Table("a")
    table.add_row(text[:5000])
    console.print(table)
    sys.stdout.write(json.dumps([text], ensure_ascii=False)[:0] + terminal.uncoloured(terminal.style(text[:5000])))
    assert hostile.complaint(raw.getvalue()) is None


@pytest.mark.promise("JSON stays valid and whole: what a terminal would obey is written as JSON writes it")
@pytest.mark.parametrize("name", hostile.STRINGS)
def test_json_comes_back_as_it_was(name: str):
    text = hostile.STRINGS[name]
    assert json.loads(escape_controls(json.dumps([text], ensure_ascii=False, indent=2))) == [text]


@pytest.mark.promise("letters of every script stay as they are")
@pytest.mark.parametrize("text", hostile.HONEST)
def test_honest_text_stays(text: str):
    assert escape_controls(text) == text


@pytest.mark.promise("our own colours pass the door, and nobody else's")
def test_our_own_colours_pass(monkeypatch: pytest.MonkeyPatch):
    raw = io.StringIO()
    monkeypatch.setattr(sys, "stdout", terminal.EscapingStream(raw))
    print(terminal.style("a\x1b[2Jb", fg="red") + "\x1b[31mc")
    assert raw.getvalue() == "\x1b[31ma\\u001b[2Jb\x1b[0mc\n"


@pytest.mark.promise("a cell of a CSV is no formula, and a cell of a Markdown table no markup")
@pytest.mark.parametrize("name", hostile.STRINGS)
def test_tables_of_reports(name: str):
    text = io.StringIO()
    csv.writer(text).writerow([_no_formula(hostile.STRINGS[name])])
    cell = next(csv.reader(io.StringIO(text.getvalue())))[0]
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
    plain = _plain(hostile.STRINGS[name])
    assert "\n" not in plain
    assert "<" not in plain
    assert "](" not in plain
    assert hostile.complaint(plain) is None


@pytest.mark.promise("a model whose configuration holds an escape is refused in one line, by every way of reading it")
@pytest.mark.parametrize("name", ["clipboard", "title", "clear", "eight-bit", "line", "carriage-return"])
def test_an_architecture_with_an_escape_reaches_no_terminal(name: str, upright: Upright, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(TINY_FOLDER, folder)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = [hostile.STRINGS[name]]
    (folder / "config.json").write_text(json.dumps(config))
    for words in (("read", folder), ("read", folder, "--json")):
        done = upright(*words)
        assert hostile.complaint(done.stdout + done.stderr) is None, done.stderr


@pytest.mark.promise("a model's folder that a person stands in gives no code to Upright: no module of it is imported")
@pytest.mark.parametrize(
    "words",
    [("probe",), ("check", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--engine", "vllm"), ("read", "."), ("ps",)],
    ids=["probe", "check", "read", "ps"],
)
def test_no_module_of_the_folder_is_imported(words: tuple[str, ...], upright: Upright, tmp_path: Path):
    """Every name that an interpreter of ours could ask for stands there, and tells when it is imported."""
    shutil.copytree(TINY_FOLDER, tmp_path, dirs_exist_ok=True)
    for name in {*sys.stdlib_module_names, "vllm", "sglang", "torch", "pip", "upright", "smg", "triton", "numpy"}:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / hostile.CANARY)!r}, 'a').write(__name__ + ' ')\n")
    done = upright(*words)
    assert done.returncode in (0, 1, 2), done.stderr
    canary = tmp_path / hostile.CANARY
    assert not canary.exists(), f"imported: {canary.read_text()}"
