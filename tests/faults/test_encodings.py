"""A machine without UTF-8 (`LC_ALL=C`, an old code page): every verb says what it has to say, and JSON stays JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.measured import measured
from tests.poisoned import planted

MACHINES = {
    "C": {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": ""},
    "POSIX": {"PYTHONUTF8": "0", "LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "latin-1"},
    "code page": {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONIOENCODING": "cp437:strict"},
}
PAGES = (
    "plan kimi-k2.6 --box 8x-rtx-pro-6000-server", "recommend --box hgx-b200", "ps", "explain tp",
    "catalog show gpus rtx-5090", "diagnose engine.log", "residuals d", "report d -o page.html", "connect d", "probe",
    "logs d", "compare kimi-k2.6 --box hgx-b200 --box 8x-rtx-pro-6000-server", "store check d", "bundle d -o b.tar.gz",
    "render kimi-k2.6 --box hgx-b200", "check recipe.json", "bench d --dry-run", "prove d --dry-run", "--help",
    "fetch kimi-k2.6 --dry-run", "read config.json", "monitor d -o monitoring", "kernels --help", "top d --once",
)  # fmt: skip
TEXT = "Größe 日本語 · … → ×"


def _home(folder: Path) -> None:
    planted(folder / "home", TEXT, folder)
    (folder / "config.json").write_text(json.dumps({"model_type": TEXT, "architectures": [TEXT]}, ensure_ascii=False))


SAMPLE = (0, 3, 5, 6)


def _pages() -> list[object]:
    """A few for every run, all of them where there is time."""
    crossed = [(page, list(MACHINES)[at % len(MACHINES)]) for at, page in enumerate(PAGES)]
    return [pytest.param(*pair, marks=() if at in SAMPLE else pytest.mark.slow) for at, pair in enumerate(crossed)]


@pytest.mark.parametrize(("page", "machine"), _pages())
def test_a_page_is_written_in_the_letters_that_there_are(page: str, machine: str, tmp_path: Path):
    _home(tmp_path)
    done = measured(*page.split(), folder=tmp_path, **MACHINES[machine])
    assert done.code in (0, 1, 2), done
    assert "this is a bug" not in done.talk, done.talk[-3000:]
    assert "Traceback" not in done.talk, done.talk[-3000:]


@pytest.mark.parametrize("words", ["ps --json", pytest.param("explain tp --json", marks=pytest.mark.slow)])
@pytest.mark.parametrize("machine", ["C", pytest.param("code page", marks=pytest.mark.slow)])
def test_json_is_the_same_everywhere(words: str, machine: str, tmp_path: Path):
    _home(tmp_path)
    told = []
    for settings, encoding in (({"PYTHONUTF8": "1"}, "utf-8"), (MACHINES[machine], "cp437")):
        environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path / "home"), **settings}
        argv = [sys.executable, "-m", "upright", *words.split()]
        done = subprocess.run(argv, stdout=subprocess.PIPE, env=environment, cwd=tmp_path, check=False)
        told.append(json.loads(done.stdout.decode(encoding)))
    assert told[0] == told[1]
    assert "日本語" in str(told[0]) or words != "ps --json"
