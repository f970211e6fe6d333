"""The engine itself, as a process."""

from __future__ import annotations

from upright.facts.records.recipe import KEY, KEY_CONFIG, KEY_FILE, PASSED_VALUE, Recipe
from upright.serving.launch.runtimes.contract import Command, DeploymentPaths


class ProcessRuntime:
    name = "process"
    program: str | None = None

    def command(self, recipe: Recipe, site: DeploymentPaths, *, container: str, label: str) -> Command:
        files = {KEY_FILE: site.key_file, KEY_CONFIG: site.key_config}
        return Command(
            argv=tuple(files.get(word, word) for word in recipe.argv),
            environment={
                variable.name: variable.value or ""
                for variable in recipe.environment
                if variable.value not in (KEY, PASSED_VALUE)
            },
            passed=recipe.passed,
            key_variable=next((variable.name for variable in recipe.environment if variable.value == KEY), None),
        )

    def present(self, recipe: Recipe) -> None:
        return None

    def pull(self, recipe: Recipe) -> Command:
        raise AssertionError("a process is not pulled")

    def remove(self, container: str) -> None:
        return None


PROCESS = ProcessRuntime()
