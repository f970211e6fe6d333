"""The engine itself, as a process."""

from __future__ import annotations

from upright.launching.runtimes.contract import Command, Site
from upright.records.recipe import KEY, KEY_CONFIG, KEY_FILE, PASSED, Recipe


class ProcessRuntime:
    name = "process"
    program: str | None = None

    def command(self, recipe: Recipe, site: Site, *, container: str, label: str) -> Command:
        files = {KEY_FILE: site.key_file, KEY_CONFIG: site.key_config}
        return Command(
            argv=tuple(files.get(word, word) for word in recipe.argv),
            environment={each.name: each.value or "" for each in recipe.environment if each.value not in (KEY, PASSED)},
            passed=recipe.passed,
            key_variable=next((each.name for each in recipe.environment if each.value == KEY), None),
        )

    def present(self, recipe: Recipe) -> None:
        return None

    def pull(self, recipe: Recipe) -> Command:
        raise AssertionError("a process is not pulled")

    def remove(self, container: str) -> None:
        return None


PROCESS = ProcessRuntime()
