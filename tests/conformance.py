"""A deployment -> what the rung `clients` and the official SDKs find of it today, and what the docs say of it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anthropic
import openai

from tests.command import command
from tests.sdk_clients import CITY, GREEDY, QUESTION, WEATHER

RECORDINGS = Path(__file__).parent / "recordings/conformance"
LONG = [{"role": "user", "content": "one two three four " * 8_000}]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def upright(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*command(), *words],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        check=False,
    )


def found_today(name: str, run: Run = upright) -> dict[str, Any]:
    """By the command as a person runs it, and by the SDKs told nothing but what `connect` prints."""
    evidence = _json(run("prove", name, "--only", "clients", "--json"))
    seen = [item for item in evidence["observations"] if item["rung"] == "clients"]
    told = {client: _json(run("connect", name, "--client", client, "--json")) for client in ("openai", "anthropic")}
    return {
        "engine": evidence["engine"],
        "engine_version": evidence["engine_version"],
        "date": datetime.now(UTC).date().isoformat(),
        "sdks": {"openai": openai.__version__, "anthropic": anthropic.__version__},
        "checks": {item["check"]: {"verdict": item["verdict"], "words": item["reason"]} for item in seen},
        "by_sdk": {**_by_openai(told["openai"]), **_by_anthropic(told["anthropic"])},
    }


def verdicts(found: dict[str, Any]) -> dict[str, str]:
    """What must be the same again: the words hold counts that differ from run to run, and how a client fares depends on
    the context too."""
    checks = {check: item["verdict"] for check, item in found["checks"].items() if not check.startswith("for ")}
    return checks | found["by_sdk"]


def conforms(found: dict[str, Any]) -> None:
    """As it was recorded for the docs; UPRIGHT_TEST_RECORD=1 records it anew."""
    if os.environ.get("UPRIGHT_TEST_RECORD"):
        record(found)
    before = recorded(found["engine"])
    if found["engine_version"] == before["engine_version"]:
        assert verdicts(found) == verdicts(before), "scripts/conformance records it anew"


def recorded(engine: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDINGS / f"{engine}.json").read_text())
    return found


def record(found: dict[str, Any]) -> Path:
    file = RECORDINGS / f"{found['engine']}.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return file


def _by_openai(told: dict[str, Any]) -> dict[str, str]:
    model = told["model"]
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": CITY}}
    with openai.OpenAI(base_url=told["base_url"], api_key=_key(told), max_retries=0, timeout=120) as client:
        chat, responses = client.chat.completions.create, client.responses.create
        asked: dict[str, Any] = {"model": model, "input": "What is the capital of France?", "max_output_tokens": 48}

        def helper() -> None:
            with client.responses.stream(**asked) as stream:
                assert [event.type for event in stream][-1] == "response.completed"

        return {
            "openai: models.list": _works(lambda: next(iter(client.models.list()))),
            "openai: chat": _works(lambda: chat(model=model, messages=QUESTION, max_tokens=32)),
            "openai: chat, streamed": _works(
                lambda: list(chat(model=model, messages=QUESTION, max_tokens=32, stream=True))
            ),
            "openai: a tool call": _works(
                lambda: _some(chat(model=model, messages=WEATHER, tools=[tool], **GREEDY).choices[0].message.tool_calls)
            ),
            "openai: responses.create": _works(lambda: _some(responses(**asked).output_text)),
            "openai: responses.create, streamed": _works(lambda: list(responses(**asked, stream=True))),
            "openai: responses.stream": _works(helper),
            "openai: a prompt that is too long": _raises(
                openai.BadRequestError, lambda: chat(model=model, messages=LONG, max_tokens=8)
            ),
        }


def _by_anthropic(told: dict[str, Any]) -> dict[str, str]:
    asked: dict[str, Any] = {"model": told["model"], "messages": QUESTION, "max_tokens": 48}
    tool = {"name": "get_weather", "input_schema": CITY}
    thinking = {"type": "enabled", "budget_tokens": 1024}
    with _nothing_set(), anthropic.Anthropic(
        base_url=told["base_url"], auth_token=_key(told), max_retries=0, timeout=120
    ) as client:  # fmt: skip
        create = client.messages.create

        def streamed() -> None:
            with client.messages.stream(**asked) as stream:
                assert _some(stream.get_final_text())

        def thought() -> None:
            made = create(**{**asked, "max_tokens": 1100}, thinking=thinking)
            assert made.content[0].type == "thinking"

        def by_header() -> None:
            with anthropic.Anthropic(base_url=told["base_url"], api_key=_key(told), max_retries=0) as other:
                other.messages.create(**asked)

        use = {**asked, "messages": WEATHER, "tools": [tool], "extra_body": GREEDY}
        return {
            "anthropic: messages.create": _works(lambda: create(**asked)),
            "anthropic: messages.stream": _works(streamed),
            "anthropic: a tool's use": _works(
                lambda: _some([block for block in create(**use).content if block.type == "tool_use"])
            ),
            "anthropic: thinking": _works(thought),
            "anthropic: count_tokens": _works(
                lambda: client.messages.count_tokens(model=told["model"], messages=QUESTION)
            ),
            "anthropic: a prompt that is too long": _raises(
                anthropic.BadRequestError, lambda: create(**{**asked, "messages": LONG})
            ),
            "anthropic: ANTHROPIC_API_KEY": _works(by_header),
        }


@contextmanager
def _nothing_set() -> Iterator[None]:
    kept = {name: os.environ.pop(name) for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


def _works(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception as error:
        return type(error).__name__
    return "works"


def _raises(kind: type[Exception], act: Callable[[], object]) -> str:
    try:
        act()
    except kind:
        return "works"
    except Exception as error:
        return type(error).__name__
    return "is answered"


def _some(value: Any) -> Any:
    assert value
    return value


def _key(told: dict[str, Any]) -> str:
    return Path(told["key_file"]).read_text().strip()


def _json(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)
