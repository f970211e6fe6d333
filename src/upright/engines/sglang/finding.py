"""Where SGLang is looked for."""

from __future__ import annotations

from upright.engines.facets.finding import PackageFinding

FINDING = PackageFinding(
    name="sglang",
    module="sglang.launch_server",
    distributions={"sglang": ""},
    help=("serve", "--help"),
)
