"""Quotes foreign text so that it stays where it is put: on one line, at home, inside its quotes."""

from __future__ import annotations

import re
import shlex

from upright.base.errors import UsageError

# What YAML 1.1 takes for a switch, a number or nothing.
_NO_TEXT = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"}


def one_line(text: str) -> str:
    """For comments and unit lines, where a line of its own would be a command, and a last backslash takes the next."""
    return "".join(char if char.isprintable() else " " for char in text).rstrip("\\")


def escaped(text: str) -> str:
    """Backslashes doubled, and what cannot be printed by number, as systemd and YAML read it."""
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in text.replace("\\", "\\\\"))


def shell_word(text: str) -> str:
    """What cannot be printed goes by its bytes, which bash reads in every locale."""
    if text.isprintable():
        return shlex.quote(text)
    plain = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(char if char.isprintable() else _by_bytes(char) for char in plain) + "'"


def array_word(text: str) -> str:
    """A word of an array in bash: commas are quoted, so that nobody reads them as what parts its words."""
    word = shell_word(text)
    return f"'{word}'" if word == text and "," in text else word


def _by_bytes(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in character.encode())


def shell_path(path: str) -> str:
    """A path of the host, or a repository."""
    if not path.startswith("~"):
        return shell_word(path)
    rest = expand_home(path, "")
    return '"$HOME"' + (shell_word(rest) if rest else "")


def yaml_text(text: str) -> str:
    """A string of YAML, whatever is in it. JSON's own escapes would cut letters beyond the first plane in two."""
    return '"' + escaped(text).replace('"', '\\"') + '"'


def yaml_name(name: str) -> str:
    """Bare where every reader takes it for text."""
    return name if re.fullmatch(r"[a-z][a-z0-9-]*", name) and name not in _NO_TEXT else yaml_text(name)


def expand_home(path: str, home: str | None) -> str:
    """A leading ~ as the target calls it; `home` is None for a target that has no person's home."""
    if not path.isprintable():
        raise UsageError(f"{path!r} cannot be written on one line", hint="rename the folder, or link to it")
    if not path.startswith("~"):
        return path
    if home is None or path[1:2] not in ("", "/"):
        raise UsageError(f"{path}: whose home that is, this target cannot know", hint="write the whole path: /home/...")
    return home + path[1:]


def volume_source(path: str) -> str:
    """The same path. Container runtimes cut a volume at its colons, so that one in a path would name another target."""
    if ":" in path:
        raise UsageError(
            f"{path} has a colon, and a container's volume is cut there",
            hint="rename the folder, or link to it by a name without one",
        )
    return path
