"""Where llama-server is looked for, and which build it is."""

from __future__ import annotations

from upright.engines.facets.finding import ProgramFinding

FINDING = ProgramFinding(
    name="llama-server",
    # `version: 8681 (abc)` in older builds and in the fork, `version: 0.7.0 (build 11669, commit abc)` in newer ones.
    version=r"version:\s*(?:\S+ \(build )?(?P<build>\d+)(?:, commit | \()(?P<commit>\w+)\)",
    mark="b",
    variable="UPRIGHT_LLAMA_SERVER",
    places=("$HOME/llama.cpp/build/bin",),
)
