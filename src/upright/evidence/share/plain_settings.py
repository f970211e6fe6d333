"""A recipe's settings and image -> the same, with only what is plain: numbers, switches and short words.

What a flag may hold is not known for every engine and version, so a text is kept for being harmless, never for not
looking harmful.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from upright.base.bounds.values import decoded
from upright.facts.records.recipe import ELSEWHERE, KEY, KEY_CONFIG, KEY_FILE, PASSED, Setting

REDACTED = "[redacted]"
_STANDING = frozenset({KEY_FILE, KEY, KEY_CONFIG, PASSED, REDACTED})
_PLAIN = re.compile(r"[A-Za-z0-9._+-]{1,40}(?:[,=][A-Za-z0-9._+-]{1,40}){0,15}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?|true|false", re.IGNORECASE)
_TENSORS = re.compile(r"[A-Za-z0-9._=,+*()\\|\[\]^$-]{1,200}")
_SECRET = re.compile(
    r"key|token(?!s|iz)|passw|passphrase|pwd|secret|credential|auth(?!or)|cookie|bearer", re.IGNORECASE
)
_ADDRESS = re.compile(
    r"(?:^|[-_.])(?:host|hosts|hostname|addr|address|ip|url|uri|endpoint|peer|peers|proxy|rpc|domain|origins?|user)"
    r"(?:$|[-_.])|addr",
    re.IGNORECASE,
)
_HOST_LIKE = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
_FILE = re.compile(r"\.(?:gguf|jinja|json|yaml|yml|toml|safetensors|txt|py|cfg)$")
_REGISTRIES = frozenset({"docker.io", "ghcr.io", "quay.io", "nvcr.io"})
_PACKAGE = re.compile(r"[A-Za-z0-9._-]{1,80}(?:\[[A-Za-z0-9,._-]{1,80}\])?(?:[=<>!~]=?=?[A-Za-z0-9.+!*_-]{1,60})?")
_DEEPEST = 8


def plain_setting(setting: Setting, changes: Mapping[str, str]) -> Setting:
    """Why it is there may be a person's own words; `upright explain` has ours."""
    name, equals, inside = setting.name.partition("=")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name):
        name = plain_text("", name, changes)
    if equals:
        name += equals + plain_text(name, inside, changes)
    text = None if setting.value is None else plain_text(name, setting.value, changes)
    return Setting(name=name, value=text, reason="")


def plain_text(name: str, text: str, changes: Mapping[str, str]) -> str:
    """The text if it is plain, the last part of a path, or that something was there."""
    if text in _STANDING:
        return text
    if _SECRET.search(name):
        return REDACTED
    if text in changes:
        return changes[text]
    if text.startswith(("{", "[")):
        return _plain_json(text, changes)
    if text.startswith(ELSEWHERE):
        return text
    if text.startswith(("/", "~")):
        text = PurePosixPath(text).name
    if _NUMBER.fullmatch(text):
        return text
    if name in ("--override-tensor", "-ot") and _TENSORS.fullmatch(text):
        return text
    named = _ADDRESS.search(name) or (_HOST_LIKE.fullmatch(text) and not _FILE.search(text))
    return text if _PLAIN.fullmatch(text) and not named else REDACTED


def plain_image(image: str | None) -> str | None:
    """Without the host of a registry that is not everybody's."""
    if image is None:
        return None
    host, slash, rest = image.partition("/")
    private = slash and host not in _REGISTRIES and (host == "localhost" or not {".", ":"}.isdisjoint(host))
    return f"{REDACTED}/{rest}" if private else image


def plain_package(package: str) -> str:
    return package if _PACKAGE.fullmatch(package) else REDACTED


def _plain_json(text: str, changes: Mapping[str, str]) -> str:
    try:
        tree = decoded(text)
        plain = _plain_tree("", tree, changes, 0)
    except (ValueError, RecursionError):
        return REDACTED
    return text if plain == tree else json.dumps(plain, separators=(",", ":"))


def _plain_tree(name: str, tree: Any, changes: Mapping[str, str], depth: int) -> Any:
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(tree, dict):
        return {
            plain_text("", part, changes): _plain_tree(part, branch, changes, depth + 1)
            for part, branch in tree.items()
        }
    if isinstance(tree, list):
        return [_plain_tree(name, branch, changes, depth + 1) for branch in tree]
    if isinstance(tree, str):
        return plain_text(name, tree, changes) if not tree.startswith(("{", "[")) or tree == REDACTED else REDACTED
    return REDACTED if _SECRET.search(name) and not isinstance(tree, bool) else tree
