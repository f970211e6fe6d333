"""A verification, a statement that was made -> the page that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from upright.base.terminal.wrapping import print_wrapped
from upright.base.untrusted_text import on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from upright.evidence.share.checks import Verification
    from upright.evidence.share.making_statements import SharedStatement
    from upright.evidence.share.sending import SentParcel
    from upright.evidence.share.statement import Headline

_MARK = {"holds": "ok", "broken": "NO", "unknown": "?"}
_COLOUR = {"broken": "red", "stale": "yellow", "claimed": "yellow"}


def verification_page(console: Console, verification: Verification) -> None:
    from rich.text import Text

    level = verification.level
    shown = f"reproduced by {verification.reproduced_by}" if level == "reproduced" else level
    about = on_one_line(f"{verification.model} on {verification.box}, {verification.engine}")
    console.print(Text.assemble((shown, _COLOUR.get(level, "green")), f": {about}"), soft_wrap=True)
    for check in verification.checks:
        print_wrapped(console, f"{_MARK[check.outcome]:<3}{check.code}: {check.reason}", 2)
    if verification.unverified_signers:
        print_wrapped(
            console,
            f"repeated by {verification.unverified_signers} unverified signers: --key FILE names whom you know",
            2,
        )
    print_wrapped(console, f"identity {verification.identity}", 2)
    if verification.signed_by is None:
        print_wrapped(console, "unsigned: nobody stands for it", 2)


def shared_page(console: Console, shared: SharedStatement, *, sends: bool = False) -> None:
    from upright.base.units import format_size

    predicate = shared.statement.predicate
    verb = "wrote" if shared.path.exists() else "would write"
    console.print(f"{verb} {shared.path}, {format_size(len(shared.content))}", soft_wrap=True, markup=False)
    print_wrapped(console, f"identity {shared.statement.identity}", 2)
    print_wrapped(console, f"{predicate.model.name} on {predicate.box.kind}, {predicate.engine.name}", 2)
    for headline in predicate.headlines:
        if headline.metric in ("output", "user", "ttft"):
            print_wrapped(console, _headline(headline), 2)
    for redaction in predicate.redactions:
        print_wrapped(console, f"taken out: {redaction.what}, {redaction.times} times", 2)
    print_wrapped(
        console, f"signed: {shared.signature}" if shared.signature else "unsigned: --sign KEY says who claims it", 2
    )
    if not sends:
        print_wrapped(console, "nothing was sent: --send does, after asking", 2)


def sent_page(console: Console, sent: SentParcel) -> None:
    print_wrapped(console, f"sent to {sent.address} as {sent.branch}")
    for line in sent.answer:
        print_wrapped(console, line, 2)
    opened = f"pull request: {sent.pull_request}" if sent.pull_request else "open a pull request of that branch there"
    print_wrapped(console, opened, 2)


def _headline(headline: Headline) -> str:
    figure = f"{headline.figure:,.1f}" if headline.unit == "tok/s" else f"{headline.figure:,.4f}"
    cells = "1 cell" if headline.repeats == 1 else f"{headline.repeats} cells"
    return f"{headline.shape}: {headline.metric} {figure} {headline.unit}, {cells}"
