"""Verbs with their options -> a script that completes them in a shell, without starting Python.

What a person may type next is written into the script: a shell answers in milliseconds, and only the names of
deployments are looked up, in their folder, when they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable

from upright.app.completion import bash, fish, zsh
from upright.app.completion.words import Completion, OptionWords, VerbWords

__all__ = ["SHELLS", "Completion", "OptionWords", "VerbWords"]

SHELLS: dict[str, Callable[[Completion], str]] = {"bash": bash.script, "zsh": zsh.script, "fish": fish.script}
