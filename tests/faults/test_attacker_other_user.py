"""Another user of the machine: he lists processes, opens what he may, and waits in folders that many share."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.person import UID
from upright.facts import store
from upright.serving.launch import status, stop
from upright.serving.launch.processes import members

NOT_PROMISED = (
    "that he cannot see that an engine runs, of which model and on which port: command lines are everybody's to read",
    "that he cannot ask loopback ports: the engine's key stands between, not the address",
)
OTHER = f"""
import json, os, sys
os.setgroups([]); os.setgid({UID + 1}); os.setuid({UID + 1})
key, folder = sys.argv[1], sys.argv[2]
seen = []
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        try:
            content = open(f"/proc/{{pid}}/{{name}}", "rb").read()
        except OSError:
            continue
        if key.encode() in content and int(pid) != os.getpid():
            seen.append([pid, name])
for path in sys.argv[3:]:
    try:
        open(path, "rb").read()
        seen.append(["read", path])
    except OSError:
        pass
    for flags in (os.O_WRONLY, os.O_WRONLY | os.O_CREAT):
        try:
            os.close(os.open(path, flags))
            seen.append(["written", path])
        except OSError:
            pass
try:
    os.listdir(folder)
    seen.append(["listed", folder])
except OSError:
    pass
print(json.dumps(seen))
"""


def _as_another(key: str, folder: Path, files: list[Path]) -> list[object]:
    """What he saw; where there is only one user, modes say what he would."""
    if os.geteuid() != 0:
        return [str(path) for path in (folder, *files) if path.stat().st_mode & 0o077 and path == folder]
    argv = [sys.executable, "-I", "-S", "-c", OTHER, key, str(folder), *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    seen: list[object] = json.loads(done.stdout)
    return seen


@pytest.fixture
def shared_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home in a folder that everybody may enter, made by a person whose umask hides nothing."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    before = os.umask(0)
    yield tmp_path / "home"
    os.umask(before)


@pytest.mark.engine
@pytest.mark.promise("no command line or environment that he can read holds a key, and no file of a deployment opens")
def test_a_running_engine_shows_him_no_key(shared_home, upright: Upright, llama_server, tiny_model):
    done = upright("up", tiny_model, "--port", "18433", UPRIGHT_LLAMA_SERVER=str(llama_server))
    assert done.returncode == 0, done.stderr
    directory = store.find(None)
    try:
        key, now = directory.key(), status(directory)
        assert key not in done.stdout + done.stderr
        own = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in (now.supervisor.pid, *members(now.process))]
        assert not any(key.encode() in line for line in own)
        assert not any(key in path.read_text() for path in directory.path.glob("*.json*"))
        files = sorted(path for path in directory.path.rglob("*") if path.is_file())
        assert len(files) > 5
        assert _as_another(key, directory.path, files) == []
        assert stat.S_IMODE(directory.key_file.stat().st_mode) == 0o600
    finally:
        stop(directory)


@pytest.mark.promise("he writes into no folder of the store, whatever the umask: a recipe of his is never yours")
def test_no_folder_of_the_store_is_open(shared_home, upright: Upright):
    store.create("mine").key()
    store.server_directory("theirs").key()
    assert upright("bench", "--list").returncode == 0
    assert (
        upright("plan", "kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "-o", shared_home / "p/plan.json").returncode
        == 0
    )
    folders = [shared_home, *(path for path in shared_home.rglob("*") if path.is_dir())]
    assert len(folders) >= 5
    assert [str(path) for path in folders if path.stat().st_mode & 0o022] == []
    files = [path for path in shared_home.rglob("*") if path.is_file()]
    assert [str(path) for path in files if path.stat().st_mode & 0o022] == []
