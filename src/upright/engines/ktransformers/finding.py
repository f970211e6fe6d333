"""Where KTransformers is looked for: sglang-kt installs SGLang's own command."""

from __future__ import annotations

from upright.engines.facets.finding import PackageFinding

FINDING = PackageFinding(
    name="kt",
    module="sglang.launch_server",
    distributions={"sglang-kt": ""},
    help=("run", "--help"),
)
