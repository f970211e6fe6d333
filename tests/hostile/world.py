"""A home, sockets, memory and a process outside -> what an answer reached of them, told as JSON.

Run as a program, by whoever is to be attacked: `python -m tests.hostile.world WAY...`.
"""

from __future__ import annotations

import ctypes
import getpass
import json
import os
import secrets
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ANSWER = Path(__file__).with_name("answer.py")
KEPT = {".ssh/id_ed25519": "PRIVATE KEY\n", ".bashrc": "# mine\n", "projects/a/file": "work\n", "notes": "notes\n"}


@contextmanager
def world() -> Iterator[dict[str, Any]]:
    """Everything that a person has and an answer wants; HOME is the folder to put it in."""
    home, mark = Path(os.environ["HOME"]), f"upright-test-{secrets.token_hex(6)}"
    for name, text in KEPT.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    (home / ".ssh").chmod(0o700)
    in_tmp, in_shm = Path("/tmp") / mark, Path("/dev/shm") / mark
    libc, segment = ctypes.CDLL(None, use_errno=True), secrets.randbelow(1 << 30) + 1
    with ExitStack() as stack:
        for path in (in_tmp, in_shm):
            path.write_text("of the host\n")
            stack.callback(path.unlink)
        by_path, abstract, port = (stack.enter_context(socket.socket(kind)) for kind in (1, 1, 2))
        (home / "socket").unlink(missing_ok=True)
        by_path.bind(str(home / "socket"))
        (home / "socket").chmod(0o777)
        abstract.bind("\0" + mark)
        port.bind(("127.0.0.1", 0))
        for server in (by_path, abstract, port):
            server.listen(8)
        number = libc.shmget(segment, 4096, 0o1666)
        stack.callback(libc.shmctl, number, 0, None)
        yield {
            "home": str(home), "user": getpass.getuser(), "mark": mark, "in_tmp": str(in_tmp), "in_shm": str(in_shm),
            "socket": str(home / "socket"), "abstract": mark, "port": port.getsockname()[1], "segment": segment,
            "pid": os.getpid(), "project": str(ROOT), "packages": _packages(),
            "python": sys.base_prefix, "machine": socket.gethostname(),
            "secret": os.environ["UPRIGHT_TEST_SECRET"], "names": ["HOME", "LANG", "LC_CTYPE", "PATH", "TMPDIR", "PWD"],
        }  # fmt: skip
        for place in ("/", "/usr", "/usr/lib", "/etc", "/dev", "/var/tmp", str(Path(os.__file__).parent)):
            (Path(place) / mark).unlink(missing_ok=True)


def _packages() -> list[str]:
    beside = (str(Path(os.__file__).parent / name) for name in ("site-packages", "dist-packages"))
    return [*beside, *(path for path in sys.path if path.endswith("-packages"))]


def harm(place: dict[str, Any]) -> list[str]:
    """What is other than it was."""
    home = Path(place["home"])
    changed = [name for name, text in KEPT.items() if not (home / name).exists() or (home / name).read_text() != text]
    changed += sorted({path.name for path in home.iterdir()} - {name.split("/")[0] for name in KEPT} - {"socket"})
    changed += [path for path in (place["in_tmp"], place["in_shm"]) if Path(path).read_text() != "of the host\n"]
    planted = ("/", "/usr", "/usr/lib", "/etc", "/dev", "/var/tmp", str(Path(os.__file__).parent))
    changed += [folder for folder in planted if (Path(folder) / place["mark"]).exists()]
    return changed


def main(*ways: str) -> None:
    from tests.hostile.sandboxed import inside

    told = {}
    for way in ways:
        with world() as place:
            told[way] = {"inside": inside(way, ANSWER.read_text(), place), "harm": harm(place)}
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
