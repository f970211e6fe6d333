"""argv -> Result, on another machine, through the user's own ssh.

Their configuration, keys, agent and host key checking apply; we only add a shared connection and refuse to prompt.
Several commands travel as one shell script and come back framed by their sizes: one round trip, whatever they print.
"""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Sequence
from pathlib import Path

from upright.base.errors import HostError, UsageError
from upright.base.host.contract import TIMED_OUT, Result, which_argv
from upright.base.untrusted_text import checked_name

CONNECT_SECONDS = 10
SSH_COMMAND_VARIABLE = "UPRIGHT_SSH_COMMAND"
# An address with colons of its own needs brackets before a port.
_TARGET = re.compile(
    r"(?:(?P<user>[^\s@]+)@)?(?P<host>\[[^\s\]]+\]|[^\s:@\[]+|[^\s@\[]*:[^\s@\[]*:[^\s@\[]*)(?::(?P<port>\d+))?"
)
_SSH_FAILED = 255
_NO_ROOM = 98


class SshHost:
    """The machine that `ssh TARGET` reaches: a name of the user's ssh configuration, or user@host, or host:port."""

    def __init__(self, target: str, *, command: Sequence[str] | None = None) -> None:
        destination, port = _parse(target)
        self.name = target
        self._folder = Path(tempfile.mkdtemp(prefix="upright-ssh-"))
        base = list(command) if command is not None else shlex.split(os.environ.get(SSH_COMMAND_VARIABLE, "ssh"))
        quiet = ("-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}", *(("-p", port) if port else ()))
        shared = ("-o", "ControlMaster=auto", "-o", f"ControlPath={self._folder}/%C", "-o", "ControlPersist=30")
        self._argv = [*base, *quiet, *shared]
        self._own_argv = [*base, *quiet, "-o", "ControlMaster=no", "-o", "ControlPath=none"]
        self._destination = destination
        self._finalizer = weakref.finalize(self, _close, [*self._argv, "-O", "exit", destination], self._folder)

    def run(self, argv: Sequence[str], *, timeout_seconds: float = 20) -> Result:
        return self.gather([argv], timeout_seconds=timeout_seconds)[0]

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        if not commands:
            return []
        mark = f"upright-{secrets.token_hex(8)}"
        done = self._shell(_script(commands, mark, timeout_seconds), timeout_seconds)
        results = _frames(done.stdout, mark, len(commands))
        if len(results) != len(commands):
            last_line = (_text(done.stderr).strip().splitlines() or ["it did not say why"])[-1]
            raise HostError(f"{self.name} gave {len(results)} of {len(commands)} answers, then: {last_line}")
        return results

    def feed(self, script: str, *, timeout_seconds: float = 20) -> Result:
        """A shell script through stdin: no word of it is in a process listing, here or there."""
        done = self._shell(script, timeout_seconds)
        return Result(done.returncode, _text(done.stdout), _text(done.stderr))

    def client(self, *options: str, command: str | None = None) -> list[str]:
        """The argv of an ssh of its own, for what stays connected: a tunnel, a log that is followed."""
        return [*self._own_argv, *options, self._destination, *([command] if command else [])]

    def read_text(self, path: str) -> str | None:
        reply = self.run(["cat", path])
        return reply.out if reply.ok else None

    def which(self, program: str) -> str | None:
        reply = self.run(which_argv(program))
        return reply.out.strip() if reply.ok else None

    def close(self) -> None:
        """Ends the shared connection; it would end by itself after half a minute."""
        self._finalizer()

    def _shell(self, script: str, timeout_seconds: float) -> subprocess.CompletedProcess[bytes]:
        limit = timeout_seconds + CONNECT_SECONDS + 5
        try:
            done = subprocess.run(
                [*self._argv, "-T", self._destination, "exec sh -s"],
                input=script.encode(),
                capture_output=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise HostError(f"{self.name} did not answer within {limit:g} s") from None
        except OSError as error:
            raise HostError(f"cannot start {self._argv[0]}: {error.strerror}", hint="install openssh-client") from None
        self._complain(done)
        return done

    def _complain(self, done: subprocess.CompletedProcess[bytes]) -> None:
        if done.returncode == _SSH_FAILED:
            lines = done.stderr.decode(errors="replace").strip().splitlines() or ["ssh gave no reason"]
            raise HostError(
                f"cannot reach {self.name}: {lines[-1]}", hint=f"this must work without questions: {self._hint()}"
            )
        if done.returncode == _NO_ROOM:
            raise HostError(f"{self.name} has no room for temporary files", hint="its /tmp is full or read-only")

    def _hint(self) -> str:
        return shlex.join(["ssh", "-o", "BatchMode=yes", self._destination, "true"])


def _parse(target: str) -> tuple[str, str | None]:
    """`box`, `me@box`, `me@box:2222`, `[fd00::1]:2222`. What ssh would take for an option is refused."""
    match = _TARGET.fullmatch(checked_name(target))
    if match is None or match["host"].startswith("-") or (match["user"] or "").startswith("-"):
        raise UsageError(f"{target!r} is not a machine that ssh can reach", hint="write ssh:HOST or ssh:USER@HOST:PORT")
    host = match["host"].strip("[]")
    return (f"{match['user']}@{host}" if match["user"] else host), match["port"]


def _script(commands: Sequence[Sequence[str]], mark: str, timeout_seconds: float) -> str:
    """Runs the commands side by side; then, in order, one header with code and sizes, and what each one wrote.

    A command that waits on a dead disk cannot be killed: the watchdog ends the waiting, and its code is 124.
    """
    lines = [
        f"d=$(mktemp -d) || exit {_NO_ROOM}; trap 'rm -rf \"$d\"' EXIT; trap : USR1",
        f"limit=; command -v timeout >/dev/null 2>&1 && limit='timeout -k 1 {timeout_seconds:g}'",
        f"{{ sleep {timeout_seconds + 2:g} & nap=$!; trap 'kill $nap; exit' TERM; wait $nap; kill -USR1 $$; }}"
        " </dev/null >/dev/null 2>&1 & dog=$! all=",
    ]
    for number, argv in enumerate(commands):
        redirect = f'</dev/null >"$d/{number}.out" 2>"$d/{number}.err"'
        lines.append(f'{{ $limit {shlex.join(argv)} {redirect}; echo $? >"$d/{number}.rc"; }} >/dev/null 2>&1 &')
        lines.append('all="$all $!"')
    lines += [
        "wait $all; kill $dog 2>/dev/null",
        f"i=0; while [ $i -lt {len(commands)} ]; do",
        f'rc=$(cat "$d/$i.rc" 2>/dev/null) || rc={TIMED_OUT}',
        f'printf \'{mark} %d %d %d\\n\' "$rc" "$(wc -c <"$d/$i.out")" "$(wc -c <"$d/$i.err")"',
        'cat "$d/$i.out" "$d/$i.err"; i=$((i+1)); done',
    ]
    return "\n".join(lines) + "\n"


def _frames(stream: bytes, mark: str, count: int) -> list[Result]:
    """The answers that came back whole. What a login shell prints before the first mark is not ours."""
    position = stream.find(mark.encode())
    results: list[Result] = []
    while position >= 0 and len(results) < count:
        end = stream.find(b"\n", position)
        header = stream[position:end].split()
        if end < 0 or len(header) != 4 or header[0] != mark.encode():
            break
        code, out_size, err_size = (int(word) for word in header[1:])
        start, middle, position = end + 1, end + 1 + out_size, end + 1 + out_size + err_size
        if len(stream) < position:
            break
        results.append(Result(code, _text(stream[start:middle]), _text(stream[middle:position])))
    return results


def _text(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _close(argv: list[str], folder: Path) -> None:
    if any(folder.iterdir()):
        subprocess.run(argv, capture_output=True, timeout=5, check=False)
    shutil.rmtree(folder, ignore_errors=True)
