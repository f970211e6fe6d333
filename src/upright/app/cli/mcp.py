"""`upright tools mcp`: what Upright knows, for an agent, over the Model Context Protocol.

The request API alone: names of the catalogue, no file, no network, nothing is started. An answer is the page that a
person would read.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any, ParamSpec

import click

from upright.app.cli.output import Output

if TYPE_CHECKING:
    from mcp.server import MCPServer

P = ParamSpec("P")
_WIDTH = 100
_MOST_LOG_CHARACTERS = 4_000_000
_LONGEST_NAME, _MOST_NAMES = 1_000, 8
"""Of a model, a box, a line of a log; and of those that are compared."""
_WHAT_FOR = (
    "Upright plans open-weight models on GPU machines: whether a model fits, with how much context, how fast (with"
    " bands), by which engine and flags; and says why an engine's log ends as it does. Boxes and models are names of"
    " its catalogue, such as 1x-rtx-4090, 8x-h100, dgx-spark, gpt-oss-120b, kimi-k2.6; an unknown name is"
    " answered with those nearest to it. What it does not know it says."
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the tools and what they take as JSON, and end.")
def command(as_json: bool) -> None:
    """Answer agents over MCP, on stdin and stdout: recommend, plan, compare, render, explain, diagnose.

    \b
    claude mcp add upright -- upright tools mcp
    codex mcp add upright -- upright tools mcp

    Nothing is started, no file is read and nothing is fetched. It needs the extra: pip install 'upright[mcp]'.
    """
    made = server()
    if as_json:
        import anyio

        tools = anyio.run(made.list_tools)
        Output(as_json, None).answer([tool.model_dump(mode="json", exclude_none=True) for tool in tools])
        return
    sys.stdout = os.fdopen(os.dup(1), "w", encoding="utf-8")  # JSON, which no terminal reads: the SDK wants its bytes
    made.run("stdio")


def server() -> MCPServer[Any]:
    from upright import __version__
    from upright.base.errors import EngineError

    try:
        from mcp.server import MCPServer
    except ImportError:
        raise EngineError("MCP's package is not installed", hint="pip install 'upright[mcp]'") from None
    made: MCPServer[Any] = MCPServer("upright", title="Upright", instructions=_WHAT_FOR, version=__version__)
    for tool in (recommend, plan, compare, render, explain, diagnose):
        made.tool(structured_output=False)(_told_plainly(tool))
    return made


def recommend(box: str, users: int = 1, context: int | None = None, use: str = "coding-agent") -> str:
    """Models for this box, best first, with context, tokens per second and how sure that is.

    use: coding-agent, chat, batch or long-documents. A box is a name such as 1x-rtx-4090 or 8x-h100.
    """
    from upright.app.pages.recommend_page import recommend_page
    from upright.planning.requests import library

    return recommend_page(library.recommend(box, use=use, users=users, context_tokens=context), _WIDTH)


def plan(model: str, box: str, users: int = 1, context: int | None = None, engine: str | None = None) -> str:
    """Whether the model fits on the box: context, tokens per second, memory by term, and what else could be done."""
    from upright.app.pages.plan_page import plan_page

    planned = _planned(model, box, users, context, engine)
    own, placed = planned.of_own_type(), planned.placements()
    return plan_page(planned.plans, planned.request.choice, _WIDTH, planned.instead(), placed=placed, own=own)


def compare(models: list[str], boxes: list[str], users: int = 1, context: int | None = None) -> str:
    """Models and boxes side by side: what each step up buys."""
    from upright.app.pages.compare_page import compare_page
    from upright.planning.requests.comparison import compare as compared

    return compare_page(compared(models, boxes, users=users, context_tokens=context), _WIDTH)


def render(model: str, box: str, users: int = 1, context: int | None = None, engine: str | None = None) -> str:
    """The engine's exact command for that plan, as a shell script with a reason for every flag."""
    from upright.base.errors import UsageError
    from upright.planning.rendering.targets import rendered_files
    from upright.planning.requests import library

    best = _planned(model, box, users, context, engine).best
    if not best.fits:
        raise UsageError(f"{model} does not fit on {box}", hint="ask for the plan: it says what would fit")
    return "\n".join(rendered_files([library.render(best)], "shell").values())


def explain(name: str) -> str:
    """A failure's code, a flag, a field, a term, a GPU, a model, or a line of a log."""
    from upright.app.pages.explanation_page import explanation_pages
    from upright.base.terminal.safe_output import console
    from upright.facts.catalog.explaining import explain as explained

    shown = console(width=_WIDTH)
    with shown.capture() as page:
        explanation_pages(shown, explained(name))
    return page.get()


def diagnose(log: str) -> str:
    """Why an engine fell, by the text of its log: cause or possibilities, how sure, and what to change."""
    from upright.app.pages.diagnosis_page import diagnosis_page
    from upright.serving.diagnose.diagnose import diagnose as diagnosed

    return diagnosis_page(diagnosed(BytesIO(log[-_MOST_LOG_CHARACTERS:].encode()), subject="the log"), _WIDTH)


def _planned(model: str, box: str, users: int, context: int | None, engine: str | None) -> Any:
    from upright.planning.requests import library
    from upright.planning.requests.plan_request import PlanRequest, plan_request

    goal = library.goal_with(None, {"users": users, "context_tokens": context, "engine": engine})
    machine, goal = library.on_boxes(box, goal)
    return plan_request(PlanRequest(library.artifact_choice_for(model), machine, goal))


def _refuse_beyond_bounds(asked: dict[str, Any]) -> None:
    """What an agent sends may be anybody's words."""
    from upright.base.errors import UsageError

    for name, given in asked.items():
        if name == "log":
            continue  # its end is what is read
        if isinstance(given, list) and not 1 <= len(given) <= _MOST_NAMES:
            raise UsageError(f"{name}: {len(given)} names; 1 to {_MOST_NAMES} are compared")
        words = given if isinstance(given, list) else [given]
        if any(isinstance(word, str) and len(word) > _LONGEST_NAME for word in words):
            raise UsageError(f"{name}: a name is longer than {_LONGEST_NAME:,} characters")


def _told_plainly(tool: Callable[P, str]) -> Callable[P, str]:
    """Without colours and control characters; an expected error is its two lines."""

    @functools.wraps(tool)
    def answered(*args: P.args, **kwargs: P.kwargs) -> str:
        from mcp.server.mcpserver.exceptions import ToolError

        from upright.base.errors import UprightError
        from upright.base.terminal.safe_output import uncoloured
        from upright.base.untrusted_text import escape_controls

        try:
            _refuse_beyond_bounds(kwargs)
            return escape_controls(uncoloured(tool(*args, **kwargs)))
        except UprightError as error:
            raise ToolError(escape_controls(f"{error.message}\n{error.hint or ''}".strip())) from None

    return answered
