"""Pointers of indexes -> the page that a person reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from upright.base.terminal.wrapping import print_wrapped
from upright.base.untrusted_text import on_one_line

if TYPE_CHECKING:
    from rich.console import Console

    from upright.evidence.share.index_building import BuiltIndex
    from upright.evidence.share.index_checking import CheckedPointer
    from upright.evidence.share.index_reading import IndexedPointers
    from upright.evidence.share.pointers import Pointer


def search_page(console: Console, answers: Sequence[IndexedPointers]) -> None:
    for answer in answers:
        took = answer.reading
        came = f"{took.files} files, {took.bytes / 1000:,.1f} kB read" + (", from the cache" if took.offline else "")
        if answer.version:
            print_wrapped(console, f"{answer.index.name}: version {answer.version} of {answer.at[:10]}, {came}")
        else:
            print_wrapped(console, f"{answer.index.name}: what is here of it")
        for pointer in answer.pointers:
            print_wrapped(console, _row(pointer), 2)
        if not answer.pointers:
            print_wrapped(console, "nothing of this model on such a box", 2)
        if answer.earlier:
            print_wrapped(console, f"{answer.earlier:,} older ones are not shown", 2)


def pointer_page(console: Console, pointer: Pointer) -> None:
    print_wrapped(console, _row(pointer))
    print_wrapped(console, f"identity {pointer.identity}", 2)
    print_wrapped(console, on_one_line(f"kept at {pointer.url}"), 2)
    print_wrapped(
        console, on_one_line(f"signed by {pointer.signer}") if pointer.signer else "unsigned: nobody stands for it", 2
    )


def built_page(console: Console, made: BuiltIndex) -> None:
    count = f"{made.added:,} added, {made.pointers:,} pointers; {made.shards_written:,} files new"
    console.print(f"version {made.version}: {count}", soft_wrap=True)


def checked_page(console: Console, checked: Sequence[CheckedPointer]) -> None:
    for entry in checked:
        verdict = f"refused: {entry.refused}" if entry.refused else f"taken: {entry.level}"
        print_wrapped(console, on_one_line(f"{entry.identity[:12]}  {verdict}, {entry.url}"))


def _row(pointer: Pointer) -> str:
    rate = f"{pointer.tokens_per_second:,.1f} tok/s" if pointer.tokens_per_second is not None else "no figure"
    state = f"revoked: {pointer.revoked}" if pointer.revoked else f"the index says {pointer.level}"
    engine = f"{pointer.engine} {pointer.engine_version or ''}".strip()
    box = f"{pointer.gpus}x {pointer.gpu}" if pointer.gpus else pointer.gpu
    about = f"{pointer.model} on {box}, {engine}, {pointer.at[:10]}"
    return on_one_line(f"{pointer.identity[:12]}  {state}, {rate} a user: {about}")
