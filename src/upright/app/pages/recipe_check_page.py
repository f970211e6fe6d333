"""What an engine's parser said of a recipe -> the page that a person reads."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from upright.base.terminal.wrapping import print_wrapped
from upright.base.units import format_memory, format_tokens
from upright.base.untrusted_text import LONGEST_NAME, on_one_line
from upright.facts.records.check import RecipeCheck, StartAnswer

_COLOURS = {"accepted": "green", "refused": "red", "unverified": "yellow"}


def recipe_check_page(console: Console, check: RecipeCheck) -> None:
    attribution = "judged by" if check.verdict == "unverified" else "by"
    verdict = Text.assemble((check.verdict, _COLOURS[check.verdict]), f", {attribution} {check.judged_by}")
    console.print(verdict, soft_wrap=True)
    console.print(f"  {check.settings} settings, {len(check.refusals)} refused")
    for refusal in check.refusals:
        console.print(f"  {on_one_line(refusal.setting, LONGEST_NAME)}", style="red", markup=False)
        print_wrapped(console, refusal.message, 4)
    if check.start is not None:
        _start_lines(console, check.start)
    for remark in check.remarks:
        print_wrapped(console, remark, 2)


_START = {
    "accepts": ("its start code accepts", "green"),
    "refuses": ("its start code refuses", "red"),
    "not-known": ("its start code: not known", "yellow"),
}


def _start_lines(console: Console, start: StartAnswer) -> None:
    words, colour = _START[start.verdict]
    version = f", version {start.asked_version}" if start.asked_version else ""
    console.print(Text.assemble("  ", (words, colour), f"{version}, as far as: {start.stage}"), soft_wrap=True)
    if start.why:
        print_wrapped(console, start.why, 4)
    if start.verdict != "refuses" and start.sentence:
        print_wrapped(console, f"{start.sentence} ({start.file}:{start.line})" if start.file else start.sentence, 4)
    if start.weight_bytes is not None:
        blocks = f", blocks of {start.block_tokens} tokens" if start.block_tokens else ""
        print_wrapped(console, f"weights of a rank {format_memory(start.weight_bytes)}{blocks}", 4)
    if start.pool_tokens is not None and start.free_bytes is not None:
        pool = f"cache of {format_tokens(start.pool_tokens)} tokens in {format_memory(start.free_bytes)}"
        free = "the most that the card has beside the weights" if start.free_at_most else "our plan's"
        print_wrapped(console, f"{pool}: the tokens are the engine's own, the free memory is {free}", 4)
    for remark in start.not_asked:
        print_wrapped(console, remark, 4)
