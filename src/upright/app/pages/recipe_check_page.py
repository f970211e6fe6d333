"""What an engine's parser said of a recipe -> the page that a person reads."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from upright.base.terminal.wrapping import print_wrapped
from upright.base.untrusted_text import LONGEST_NAME, on_one_line
from upright.facts.records.check import RecipeCheck

_COLOURS = {"accepted": "green", "refused": "red", "unverified": "yellow"}


def recipe_check_page(console: Console, check: RecipeCheck) -> None:
    attribution = "judged by" if check.verdict == "unverified" else "by"
    verdict = Text.assemble((check.verdict, _COLOURS[check.verdict]), f", {attribution} {check.judged_by}")
    console.print(verdict, soft_wrap=True)
    console.print(f"  {check.settings} settings, {len(check.refusals)} refused")
    for refusal in check.refusals:
        console.print(f"  {on_one_line(refusal.setting, LONGEST_NAME)}", style="red", markup=False)
        print_wrapped(console, refusal.message, 4)
    for remark in check.remarks:
        print_wrapped(console, remark, 2)
