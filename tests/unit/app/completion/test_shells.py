"""The scripts in the shells that they are for: real ones, with a Tab typed where only a terminal shows it."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.command import run
from tests.programs import needs
from upright.app.completion import SHELLS, Completion, OptionWords, VerbWords
from upright.app.completion.words import plain

LINES = (
    ("upright pla", "plan"),
    ("upright plan kimi-k2.", "kimi-k2.6"),
    ("upright plan kimi-k2.6 --bo", "--box"),
    ("upright plan kimi-k2.6 --box 8x-rtx-pro-6000-w", "8x-rtx-pro-6000-workstation"),
    ("upright plan kimi-k2.6 --users 4 --engine ik", "ik_llama.cpp"),
    ("upright fleet si", "size"),
    ("upright fleet size kimi-k2.6 --wh", "--why"),
    ("upright bench --api mess", "messages"),
    ("upright prove --to smo", "smoke"),
    ("upright logs mine-", "mine-at-home"),
)
BASH = """
source "$1"; shift
while read -ra COMP_WORDS; do
  if [[ ${COMP_WORDS[-1]} == _ ]]; then COMP_WORDS[-1]=''; fi
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _upright; echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    for shell in SHELLS:
        written = run(["completion", shell], dict(os.environ), folder, 60)
        assert written.returncode == 0, written.stderr
        (folder / shell).write_text(written.stdout)
    return {shell: folder / shell for shell in SHELLS}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "deployments/mine-at-home").mkdir(parents=True)
    (tmp_path / "deployments/mine-$(touch planted)").mkdir()
    return {**os.environ, "UPRIGHT_HOME": str(tmp_path), "TERM": "dumb", "HOME": str(tmp_path)}


def test_bash_offers_what_can_follow(scripts: dict[str, Path], environment: dict[str, str]):
    asked = "".join(f"{line}\n" for line, _ in LINES)
    done = subprocess.run(
        ["bash", "-c", BASH, "bash", scripts["bash"]], input=asked, capture_output=True, text=True, env=environment,
        check=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    for (line, wanted), offered in zip(LINES, done.stdout.splitlines(), strict=True):
        assert wanted in offered.split(), line


def test_fish_offers_what_can_follow(scripts: dict[str, Path], environment: dict[str, str]):
    needs("fish")
    asked = "".join(f"echo '== '; complete -C '{line}';" for line, _ in LINES)
    done = subprocess.run(
        ["fish", "-N", "-c", f"source {scripts['fish']}; {asked}"],
        capture_output=True, text=True, env=environment, check=True, timeout=60,
    )  # fmt: skip
    for (line, wanted), offered in zip(LINES, done.stdout.split("== \n")[1:], strict=True):
        assert wanted in [word.partition("\t")[0] for word in offered.splitlines()], line


TERMINALS = {"bash": ("bash", "--norc", "--noprofile", "-i"), "zsh": ("zsh", "-f", "-i")}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_tab_in_a_terminal_completes(shell: str, scripts: dict[str, Path], environment: dict[str, str]):
    needs(shell)
    with terminal(TERMINALS[shell], environment) as screen:
        typed(screen, f"PS1='> '; source {scripts[shell]}\n", "> ")
        for line, wanted in LINES:
            if wanted not in ("kimi-k2.6", "mine-at-home"):  # several begin so
                typed(screen, f"{line}\t", wanted)
                typed(screen, "\x15\n", "> ")


@contextmanager
def terminal(argv: tuple[str, ...], environment: dict[str, str]) -> Iterator[int]:
    child, screen = pty.fork()
    if child == 0:
        os.execvpe(argv[0], argv, environment)
    try:
        yield screen
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(screen)


def typed(screen: int, keys: str, wanted: str) -> None:
    """What the terminal shows after these keys holds what is wanted, soon."""
    os.write(screen, keys.encode())
    text, deadline = "", time.monotonic() + 20
    while wanted not in text:
        assert time.monotonic() < deadline, f"{keys!r}: {text!r}"
        if select.select([screen], [], [], 0.2)[0]:
            text += os.read(screen, 65536).decode(errors="replace")


def test_a_name_that_a_shell_would_run_is_not_offered(scripts: dict[str, Path], environment: dict[str, str]):
    assert plain(("a", "$(touch planted)", "b;c", "`d`", "e f", "-g", "h'i", "j\nk")) == ("a",)
    verb = VerbWords(
        ("x",), "it's `touch planted` $(touch planted) \\", (OptionWords(("--a",), "names", "'; touch planted"),), None
    )
    hostile = Completion((verb,), {"names": ("$(touch planted)",)}, "/nowhere/'; touch planted")
    folder = Path(environment["UPRIGHT_HOME"])
    for shell, script in SHELLS.items():
        path = folder / f"hostile.{shell}"
        path.write_text(script(hostile))
        subprocess.run([shell, "-c", f"source {path}"], cwd=folder, env=environment, check=False, timeout=30)
    subprocess.run(
        ["bash", "-c", BASH, "bash", scripts["bash"]], input="upright logs _\nupright logs mine-\n", text=True,
        cwd=folder, env=environment, check=True, timeout=30, capture_output=True,
    )  # fmt: skip
    assert not (folder / "planted").exists()


@pytest.mark.timing
def test_completing_is_quick(scripts: dict[str, Path], environment: dict[str, str]):
    """At most 8 times an interpreter that does nothing."""

    def seconds(*argv: str, text: str = "") -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run(argv, input=text, capture_output=True, text=True, env=environment, check=True)
            times.append(time.perf_counter() - began)
        return sorted(times)[3]

    nothing = seconds("python3", "-c", "pass")
    asked = seconds("bash", "-c", BASH, "bash", str(scripts["bash"]), text="upright plan kimi-k2.6 --box 8x-rtx\n")
    assert asked < 8 * nothing, f"{asked / nothing:.1f} times"
