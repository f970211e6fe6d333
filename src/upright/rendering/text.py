"""Words of others -> text that stays where it is put: on one line, at home, inside its quotes."""

from __future__ import annotations

import shlex

from upright.errors import UsageError


def one_line(text: str) -> str:
    """For comments and unit lines, where a line of its own would be a command."""
    return "".join(each if each.isprintable() else " " for each in text)


def escaped(text: str) -> str:
    """Backslashes doubled, and what cannot be printed by number, as bash's $'' and systemd read it."""
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in text.replace("\\", "\\\\"))


def shell_word(text: str) -> str:
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + escaped(text).replace("'", "\\'") + "'"


def shell_path(path: str) -> str:
    """A path of the host, or a repository."""
    if not path.startswith("~"):
        return shell_word(path)
    rest = at_home(path, "")
    return '"$HOME"' + (shell_word(rest) if rest else "")


def at_home(path: str, home: str | None) -> str:
    """A leading ~ as the target calls it; `home` is None for a target that has no person's home."""
    if not path.isprintable():
        raise UsageError(f"{path!r} cannot be written on one line", hint="rename the folder, or link to it")
    if not path.startswith("~"):
        return path
    if home is None or path[1:2] not in ("", "/"):
        raise UsageError(f"{path}: whose home that is, this target cannot know", hint="write the whole path: /home/...")
    return home + path[1:]
