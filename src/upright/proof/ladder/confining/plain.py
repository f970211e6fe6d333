"""A value <-> plain data in a bounded frame, between a process that is trusted and one that is not.

None, flags, numbers, text, bytes and containers of them travel by value; anything else stays where it is and is
named by a number. What arrives is made of Python's own types, whatever the sender's were.
"""

from __future__ import annotations

import json
import os

TYPE_CHECKING = False  # typing itself would cost a bare interpreter as much time as starting
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

READY = b"ready\n"
"""Told once, when the walls stand."""
FRAME_BYTES = 1 << 20
DEPTH = 32
_SMALL = 1 << 53
_CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


class ChannelError(Exception):
    """The other side is gone, or what it sent is no frame."""


class EndedError(ChannelError):
    """The other side is gone."""


def encode(content: Any, keep: Callable[[Any], int], depth: int = DEPTH) -> Any:
    """`keep` is given what is not plain, and names it."""
    if content is None or isinstance(content, bool | float | str):
        return _exact(content)
    if isinstance(content, int):
        return int(content) if -_SMALL < content < _SMALL else {"int": hex(content)}
    if isinstance(content, bytes | bytearray):
        return {"bytes": bytes(content).hex()}
    if isinstance(content, list | tuple | set | frozenset | dict) and depth == 0:
        raise ValueError(f"nested deeper than {DEPTH}")
    if isinstance(content, dict):
        return {
            "dict": [[encode(key, keep, depth - 1), encode(member, keep, depth - 1)] for key, member in content.items()]
        }
    if isinstance(content, list):
        return [encode(member, keep, depth - 1) for member in content]
    for name, kind in _CONTAINERS.items():
        if isinstance(content, kind):  # type: ignore[arg-type]
            return {name: [encode(member, keep, depth - 1) for member in content]}
    return {"kept": keep(content)}


def decode(tree: Any, kept: Callable[[int], Any]) -> Any:
    """`kept` is given the number of what is not plain."""
    if isinstance(tree, list):
        return [decode(member, kept) for member in tree]
    if not isinstance(tree, dict):
        return tree
    if len(tree) != 1:
        raise ChannelError("not plain data")
    name, inner = next(iter(tree.items()))
    if name == "int":
        return int(str(inner), 16)
    if name == "bytes":
        return bytes.fromhex(str(inner))
    if name == "dict":
        return {decode(key, kept): decode(member, kept) for key, member in inner}
    if name == "kept":
        return kept(int(inner))
    if name not in _CONTAINERS:
        raise ChannelError("not plain data")
    return _CONTAINERS[name]([decode(member, kept) for member in inner])


def send(channel: int, message: dict[str, Any]) -> None:
    frame = json.dumps(message).encode()
    if len(frame) > FRAME_BYTES:
        raise ValueError(f"{len(frame)} bytes are too many: {FRAME_BYTES} at most")
    rest = memoryview(len(frame).to_bytes(4, "big") + frame)
    while rest:
        rest = rest[os.write(channel, rest) :]


def receive(channel: int) -> dict[str, Any]:
    length = int.from_bytes(_exactly(channel, 4), "big")
    if length > FRAME_BYTES:
        raise ChannelError(f"a frame of {length} bytes: {FRAME_BYTES} at most")
    try:
        message = json.loads(_exactly(channel, length))
    except (ValueError, RecursionError):
        raise ChannelError("a frame that is no JSON") from None
    if not isinstance(message, dict):
        raise ChannelError("a frame that is no object")
    return message


def printable(text: str, most: int = 300) -> str:
    """One line that a terminal can take."""
    shown = "".join(sign if sign.isprintable() else " " for sign in text[: 2 * most])
    return " ".join(shown.split())[:most]


def _exact(content: Any) -> Any:
    """Of Python's own type, also if it was of one made from it."""
    if isinstance(content, str):
        return str.__str__(content)
    return float(content) if isinstance(content, float) else content


def _exactly(channel: int, length: int) -> bytes:
    frame = bytearray()
    while len(frame) < length:
        if not (piece := os.read(channel, length - len(frame))):
            raise EndedError("it ended")
        frame += piece
    return bytes(frame)
