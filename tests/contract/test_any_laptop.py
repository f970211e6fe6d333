"""What knows runs on any laptop: no verb that only reads and reckons needs a module of POSIX, on Windows or a Mac."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from upright.app.cli.verbs import VERBS

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.53 GiB of"
    " which 1.06 GiB is free.\n"
)
PLAN = "plan gpt-oss-120b --box 1x-h100 --json"
KNOWING = {
    "": 0,
    "recommend --box 1x-rtx-4090": 0,
    PLAN: 0,
    "plan kimi-k2.6 --box 8x-rtx-pro-6000-server": 0,
    "compare gpt-oss-120b --box 1x-rtx-5090 --box 1x-h100": 0,
    "render gpt-oss-20b --box 1x-rtx-4090": 0,
    "check gpt-oss-20b --box 1x-rtx-4090": 0,
    "tools read gpt-oss-20b": 0,
    "explain DCP": 0,
    "catalog show gpus rtx-4090": 0,
    "fleet size gpt-oss-120b --box 1x-h100 --users 10": 0,
    "diagnose fell.log": 1,
    "tools completion zsh": 0,
    "probe": 0,
    "ps": 0,
}
"""What is typed, and the exit code: 1 says that the log shows a failure."""
STANDING_IN = """
import json, sys
sys.path.insert(0, sys.argv[1])
import elsewhere
elsewhere.stand_in(sys.argv[2])
from upright.app.cli import main
"""
TYPED = """
from click.testing import CliRunner
told = {}
for line in json.loads(sys.argv[3]):
    ended = CliRunner().invoke(main.cli, line.split(), prog_name="upright")
    told[line] = ended.exit_code, ended.stdout, repr(ended.exception)
print(json.dumps(told))
"""
IMPORTED = """
from importlib import import_module
for verb in json.loads(sys.argv[3]):
    print(import_module("upright.app.cli." + verb.replace("-", "_")).command.name)
"""
ACTING = """
from pathlib import Path
from upright.base.bounds.files import open_lock, take_lock
main.cli.main = lambda **_: take_lock(open_lock(Path("lock")))
sys.argv = ["upright", "up", "x"]
main.main()
"""


@pytest.mark.parametrize("system", ["win32", "darwin"])
def test_what_knows_needs_no_posix_and_answers_the_same(system: str, tmp_path: Path) -> None:
    (tmp_path / "fell.log").write_text(OUT_OF_MEMORY, encoding="utf-8")

    ended = _python(STANDING_IN + TYPED, tmp_path, system, list(KNOWING))

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    for line, code in KNOWING.items():
        assert told[line][0] == code, f"{line}: {told[line][2]}"
        assert told[line][1].strip(), line
    here = _python("import sys; from upright.app.cli import main; sys.argv[1:] = sys.argv[3:]; main.main()", tmp_path)
    assert json.loads(told[PLAN][1]) == json.loads(here.stdout)


def test_every_verb_can_be_asked_there_what_it_does(tmp_path: Path) -> None:
    ended = _python(STANDING_IN + IMPORTED, tmp_path, "win32", list(VERBS))

    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == len(VERBS)


def test_what_acts_says_plainly_what_is_missing(tmp_path: Path) -> None:
    """A lock is the first that any verb that acts asks of the system."""
    ended = _python(STANDING_IN + ACTING, tmp_path, "win32", [])

    assert ended.returncode == 2
    assert "this needs Linux or macOS: win32 has no fcntl" in ended.stderr
    assert "WSL" in ended.stderr
    assert "bug" not in ended.stderr


def _python(
    program: str, place: Path, system: str = "", words: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    arguments = [str(Path(__file__).parent), system, *(PLAN.split() if words is None else [json.dumps(words)])]
    environment = {**os.environ, "UPRIGHT_HOME": str(place / "home"), "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
