"""Keys of a configuration with checked types, and a record of which were asked for.

A reader can only use what it names, so what nobody named is left over and can be told. A key that is absent is taken
from the library's defaults for this type of model, and that is noted: a default is a fact about the library, not about
the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn

from upright.base.errors import ReadError
from upright.base.untrusted_text import on_one_line
from upright.facts.records.model import LibraryDefault

LARGEST = 2**40
MOST_LAYERS = 10_000
Scalar = int | float | bool | str | None


NEVER_NOTHING = frozenset({"hidden_size", "num_attention_heads", "num_hidden_layers", "vocab_size"})
"""Keys of which a model has at least one, or it is none."""


class ConfigKeys:
    """One part of a configuration, and what was asked of it."""

    def __init__(
        self,
        values: Mapping[str, Any],
        file: str,
        *,
        defaults: Mapping[str, Any] | None = None,
        other_names: Mapping[str, str] | None = None,
        source: str = "",
        path: str = "",
    ) -> None:
        self.values = values
        self.file = file
        self.path = path
        self.asked: set[str] = set()
        self.assumed: dict[str, LibraryDefault] = {}
        self.refused: dict[str, str] = {}
        self.absent: dict[str, Literal["cache", "weights"]] = {}
        """Keys that were asked for, that nobody has a value for: taken as none."""
        self.parts: dict[str, ConfigKeys] = {}
        self.decides: Literal["cache", "weights"] = "cache"
        """What is being read: defaults are noted with it."""
        self._defaults = defaults or {}
        self.other_names = other_names or {}
        self._source = source

    def __contains__(self, name: str) -> bool:
        """Whether the configuration itself has a value for the key."""
        self.asked.add(name)
        return self.values.get(name) is not None

    def get(self, *names: str) -> Any:
        """The first of these names that the configuration has; else the library's default for one of them."""
        for name in names:
            self.asked.add(name)
            other = self.other_names.get(name)
            if name in self.values:
                if other is not None and other in self.values and self.values[other] == self.values[name]:
                    self.asked.add(other)  # said twice, and the same
                return self.values[name]
            if other is not None and other in self.values:
                self.asked.add(other)
                return self.values[other]
        for name in names:
            for spelled in (name, self.other_names.get(name, name)):
                if spelled in self._defaults:
                    default = self._defaults[spelled]
                    if default is None:
                        self.absent.setdefault(name, self.decides)
                    else:
                        self.assume(name, default, self._source)
                    return default
        self.absent.setdefault(names[0], self.decides)
        return None

    def integer(self, *names: str) -> int | None:
        """A whole number; a broken one is an error that names the key."""
        number = self.get(*names)
        if isinstance(number, list | tuple | dict | str):
            self.refuse(next((name for name in names if name in self.values), names[0]), "is no number here")
            return None
        if number is None:
            return None
        whole = int(number) if isinstance(number, float) and number.is_integer() else number
        if type(whole) is not int or not 0 <= whole <= LARGEST:
            self._broken(names, number)
        return whole

    def required(self, *names: str) -> int:
        number = self.integer(*names)
        if number is None:
            raise ReadError(f"{self.file} has no {self.path}{names[0]}")
        if number == 0 and names[0] in NEVER_NOTHING:
            self._broken(names, number)
        return number

    def flag(self, name: str, default: bool = False) -> bool:
        answer = self.get(name)
        if answer is None and name not in self.values:
            self.assume(name, default, "the library's rule")
        return default if answer is None else bool(answer)

    def word(self, *names: str) -> str | None:
        answer = self.get(*names)
        return answer if isinstance(answer, str) else None

    def numbers(self, name: str, *, most: int = MOST_LAYERS) -> tuple[int, ...] | None:
        """A list of whole numbers, or None."""
        entries = self.get(name)
        if entries is None:
            return None
        if not isinstance(entries, Sequence) or isinstance(entries, str) or len(entries) > most:
            self._broken((name,), entries)
        if any(type(entry) is not int or not -1 <= entry <= LARGEST for entry in entries):
            self._broken((name,), entries)
        return tuple(entries)

    def kinds(self, name: str, layers: int) -> tuple[Any, ...] | None:
        """A list with an entry for each layer (more are draft layers), or None; a shorter list is refused."""
        entries = self.get(name)
        if entries is None:
            return None
        if not isinstance(entries, list | tuple) or len(entries) > 2 * MOST_LAYERS:
            self._broken((name,), entries)
        if len(entries) < layers:
            self.refuse(name, f"{len(entries)} entries for {layers} layers")
            return None
        return tuple(entries[:layers])

    def part(self, name: str) -> ConfigKeys | None:
        """A mapping inside the configuration, tracked in its turn."""
        self.asked.add(name)
        inner = self.values.get(name)
        if not isinstance(inner, Mapping):
            self.absent.setdefault(name, self.decides)
            return None
        if name not in self.parts:
            self.parts[name] = ConfigKeys(inner, self.file, path=f"{self.path}{name}.")
        return self.parts[name]

    def assume(self, name: str, default: Any, source: str) -> None:
        """Notes a default that was taken in place of an absent key."""
        shown: Scalar = default if isinstance(default, int | float | bool) else on_one_line(str(default)[:80])
        if name not in self.assumed:
            why = on_one_line(source) or "the library's rule"
            self.assumed[name] = LibraryDefault(key=f"{self.path}{name}", value=shown, source=why, decides=self.decides)

    def refuse(self, name: str, why: str = "") -> None:
        """The key is there, and what it says is not understood."""
        self.asked.add(name)
        self.refused[name] = on_one_line(why)

    def ignore(self, *names: str) -> None:
        """Keys that this family has and that do not decide memory."""
        self.asked.update(names)

    def left_over(self, twins: Mapping[str, str]) -> Iterable[tuple[str, Any]]:
        """Keys that no reader asked for, with their values; inner parts included, those that repeat a twin not."""
        for name, entry in self.values.items():
            twin = twins.get(name)
            repeated = twin in self.asked and twin in self.values and self.values[twin] == entry
            if name not in self.asked and not repeated:
                yield f"{self.path}{name}", entry
        for part in self.parts.values():
            yield from part.left_over(twins)

    def all_assumed(self) -> tuple[LibraryDefault, ...]:
        """Defaults first, then keys that are absent and taken as none, then those of inner parts."""
        nothing = (
            LibraryDefault(key=f"{self.path}{name}", value=None, source="absent: taken as none", decides=decides)
            for name, decides in self.absent.items()
            if name not in self.assumed and name not in self.refused
        )
        inner = (assumed for part in self.parts.values() for assumed in part.all_assumed())
        return (*self.assumed.values(), *nothing, *inner)

    def all_refused(self) -> dict[str, str]:
        found = {f"{self.path}{name}": why for name, why in self.refused.items()}
        for part in self.parts.values():
            found |= part.all_refused()
        return found

    def _broken(self, names: Sequence[str], entry: object) -> NoReturn:
        name = next((each for each in names if each in self.values), names[0])
        raise ReadError(f"{self.file} is broken: {self.path}{name} is {str(entry)[:60]}")
