"""Runs the person's own client in this terminal, with the settings and the key in its environment alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from urllib.parse import urlsplit

from upright.base.errors import UsageError
from upright.serving.connect.agents import SESSION
from upright.serving.connect.client_settings import ClientSettings
from upright.serving.connect.clients import CLIENTS
from upright.serving.connect.first_requests import first_requests
from upright.serving.connect.served_model import ServedModel

_LOOK_SECONDS, _GRACE_SECONDS = 0.2, 10
_LEFT_OUT = (
    "ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
    "OPENAI_API_BASE", "OPENAI_BASE_URL", "OPENAI_ORGANIZATION", "OPENAI_ORG_ID", "OPENAI_PROJECT",
)  # fmt: skip
"""They would win over the settings, and send a person's code and our key elsewhere."""
_NO_PROXY = ("NO_PROXY", "no_proxy")


def client_named(name: str) -> str:
    """By its own name, or by the command that people type for it."""
    programs = {_program(client): client for client in CLIENTS if _program(client)}
    client = name if name in CLIENTS else programs.get(name)
    if client is None or _program(client) is None:
        startable = ", ".join(str(program) for program in programs)
        raise UsageError(f"{name} is no client that can be started in a terminal", hint=f"one of {startable}")
    return client


def refuse_missing_client(client: str) -> None:
    """Before anything is downloaded or started."""
    program = str(_program(client))
    if shutil.which(program) is None:
        ways = (row.install for row in first_requests() if row.client == client and row.install)
        raise UsageError(
            f"{client} is not installed: there is no command {program}", hint=next(ways, f"install {client} first")
        )


def variant_in(client: str, arguments: Sequence[str]) -> str | None:
    """The client's own argument that makes its first request another one, if the person gave it."""
    return next((row.variant for row in first_requests() if row.client == client and row.variant in arguments), None)


def smaller_variant(client: str) -> str | None:
    return next((row.variant for row in first_requests() if row.client == client and row.variant), None)


def run_client(settings: ClientSettings, key: str, arguments: Sequence[str]) -> int:
    """Its exit code. Ctrl-C is the client's while it runs; what would end us ends it, and is KeyboardInterrupt then."""
    argv = command_line(settings, arguments)
    with _signals_noted() as ends:
        client = subprocess.Popen(argv, env=environment(settings, key, os.environ))
        while True:
            try:
                return client.wait(_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                if ends:
                    _end(client)
                    raise KeyboardInterrupt from None


def command_line(settings: ClientSettings, arguments: Sequence[str]) -> list[str]:
    """A word that begins the client's session stands only where the person says nothing."""
    ours = [] if arguments and settings.arguments == SESSION else settings.arguments
    return [str(settings.program), *ours, *arguments]


def _end(client: subprocess.Popen[bytes]) -> None:
    client.terminate()
    try:
        client.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        client.kill()
        client.wait()


def environment(settings: ClientSettings, key: str, person: Mapping[str, str]) -> dict[str, str]:
    """The person's own, with the settings laid over it; what would win over ours is left out, and no proxy is asked."""
    keys = dict.fromkeys(settings.key_variables, key)
    kept = {name: text for name, text in person.items() if name not in _LEFT_OUT}
    host = str(urlsplit(settings.base_url).hostname)
    direct = {name: ",".join(filter(None, (person.get(name), host))) for name in _NO_PROXY}
    return {**kept, **direct, **settings.environment, **keys}


def _program(client: str) -> str | None:
    """None also where settings must be on the disk first."""
    settings = CLIENTS[client](ServedModel("any", "http://127.0.0.1:1", "any", "key", 4096))
    return settings.program if settings.environment or settings.arguments else None


@contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Handlers of ours that only note: none is inherited, as an ignored signal would be, and none loses a client that
    is just being started."""
    ends: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number != signal.SIGINT:
            ends.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield ends
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
