"""The catalogue's rows, compiled into the wheel: nothing parses YAML when a command starts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledCatalog(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        sys.path.insert(0, str(Path(self.root) / "src"))
        try:
            from upright.facts.catalog.loader import compile_ours
        except ImportError as error:  # built where its own dependencies are not: the first command compiles
            self.app.display_warning(f"the catalogue is not compiled: {error}")
            return
        finally:
            sys.path.pop(0)
        compile_ours()
        build_data["artifacts"].append("src/upright/facts/catalog/compiled/*.rows")
