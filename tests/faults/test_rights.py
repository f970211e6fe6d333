"""No root and a home that cannot be written: every verb answers, or says in one line what it may not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BOX = "--box hgx-b200"
VERBS = (
    "index add a /nowhere", f"plan kimi-k2.6 {BOX} -o home/p.json", "bench --base-url http://127.0.0.1:9 --model m",
    "ps", "probe", f"plan kimi-k2.6 {BOX}", f"render kimi-k2.6 {BOX} -o home/unit", "catalog add a /nowhere --key x",
    "recommend", f"recommend {BOX}", "connect --write", "diagnose secret", "report secret", "read secret",
    "store check x",
    "prove --base-url http://127.0.0.1:9 --model m", "record --base-url http://127.0.0.1:9 --for 1s", "rehearse tiny",
    "fetch a/b --dry-run", "monitor -o home/m", "index search kimi-k2.6", "field-test --dry-run", "calibrate",
    "site build home/s", "fleet status x", "bundle --read secret", "verify secret",
    "engine list", "explain tp", "top --once",
    "diagnose home", "completion bash", "fleet render secret --into home/out",
    "compare kimi-k2.6 --box hgx-b200 --svg home/x.svg",
)  # fmt: skip
WITHOUT_ROOT = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
"""Nothing of the person's own rights is lost by it, and all of root's."""


def _asked(verb: str, folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    (folder / "secret").write_text("{}")
    (folder / "secret").chmod(0o000)
    home.chmod(0o500)
    lead = WITHOUT_ROOT if os.geteuid() == 0 else ()
    environment = {**os.environ, "HOME": str(home), "UPRIGHT_HOME": str(home / "upright"), "NO_COLOR": "1"}
    try:
        done = subprocess.run(
            [*lead, sys.executable, "-m", "upright", *verb.split()], capture_output=True, text=True, env=environment,
            cwd=folder, stdin=subprocess.DEVNULL, timeout=120, check=False,
        )  # fmt: skip
    finally:
        home.chmod(0o700)
    assert done.returncode in (0, 1, 2), done
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    assert "this is a bug" not in done.stderr, done.stderr[-3000:]
    if done.returncode == 2:
        assert "error: " in done.stderr, done.stderr
    assert list(home.iterdir()) == []


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux has unshare")
@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=() if at < 2 else pytest.mark.slow) for at, verb in enumerate(VERBS)]
)
def test_a_verb_says_what_it_may_not(verb: str, tmp_path: Path):
    _asked(verb, tmp_path)
