"""`upright tools mcp` as an agent's client has it: the official SDK over stdin and stdout of a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli

mcp = pytest.importorskip("mcp")
Ask = Callable[[list[tuple[str, dict[str, Any]]]], tuple[Any, list[Any]]]
KERNEL = "RuntimeError: CUDA error: no kernel image is available for execution on the device"


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """The list of tools, and what each call was answered."""
    environment = {**os.environ, "UPRIGHT_HOME": str(tmp_path)}
    command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "upright", "tools", "mcp"], env=environment)

    async def talk(calls: list[tuple[str, dict[str, Any]]]) -> tuple[Any, list[Any]]:
        async with mcp.stdio_client(command) as streams, mcp.ClientSession(*streams) as session:
            await session.initialize()
            return await session.list_tools(), [await session.call_tool(name, given) for name, given in calls]

    return lambda calls: anyio.run(talk, calls)


def test_every_tool_answers_as_its_verb_does(ask: Ask):
    calls: list[tuple[str, dict[str, Any]]] = [
        ("recommend", {"box": "1x-rtx-4090"}),
        ("plan", {"model": "gpt-oss-20b", "box": "1x-rtx-4090"}),
        ("compare", {"models": ["gpt-oss-20b"], "boxes": ["1x-rtx-4090", "1x-rtx-3090"]}),
        ("render", {"model": "gpt-oss-20b", "box": "1x-rtx-4090"}),
        ("explain", {"name": "MLA"}),
        ("diagnose", {"log": KERNEL}),
    ]
    listed, answers = ask(calls)
    assert sorted(tool.name for tool in listed.tools) == sorted(name for name, _ in calls)
    assert all(tool.description for tool in listed.tools)
    told = {name: answer.content[0].text for (name, _), answer in zip(calls, answers, strict=True)}
    assert not [name for (name, _), answer in zip(calls, answers, strict=True) if answer.is_error]
    for name, words in {
        "recommend": ("--box", "1x-rtx-4090"), "plan": ("gpt-oss-20b", "--box", "1x-rtx-4090"), "explain": ("MLA",),
    }.items():  # fmt: skip
        first = CliRunner().invoke(cli, [name, *words], prog_name="upright").output.splitlines()[0]
        assert told[name].splitlines()[0] == first
    assert "llama-server" in told["render"]
    assert "cuda-no-kernel-image" in told["diagnose"]


def test_what_it_cannot_answer_it_says(ask: Ask):
    _, answers = ask(
        [
            ("plan", {"model": "gpt-oss-20b", "box": "1x-rtx-4091"}),
            ("plan", {"model": "../../etc/passwd", "box": "1x-rtx-4090"}),
            ("plan", {"model": "gpt-oss-20b", "box": "ssh:somewhere"}),
            ("render", {"model": "kimi-k2.6", "box": "1x-rtx-3090"}),
            ("plan", {"model": "A" * 5_000, "box": "1x-rtx-4090"}),
            ("compare", {"models": ["gpt-oss-20b"] * 9, "boxes": ["1x-rtx-4090"]}),
            ("compare", {"models": [], "boxes": ["1x-rtx-4090"]}),
        ]
    )
    told = [answer.content[0].text for answer in answers]
    assert all(answer.is_error for answer in answers)
    assert "1x-rtx-4090" in told[0]
    assert "does not fit" in told[3]
    assert "longer than 1,000 characters" in told[4]
    assert "9 names; 1 to 8" in told[5]
    assert "0 names; 1 to 8" in told[6]
    assert not [text for text in told if "Traceback" in text]
