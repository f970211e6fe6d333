"""The deployments of the published runs, as plans and recipes of ours."""

from __future__ import annotations

from dataclasses import dataclass, field

from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions

COMMUNITY_IMAGE = "voip-glm-kimi-canonical-20260514"
NIGHTLY = "vllm-cu130-nightly"


@dataclass(frozen=True)
class Published:
    """One published run: what it ran on, and what it wanted."""

    model: str
    """Name of the artifact."""
    box: str
    goal: Goal
    targets: tuple[str, ...]
    """Besides the script in scripts/, if there is one."""
    port: int = 8000
    wishes: RenderOptions = field(default_factory=RenderOptions)
    model_path: str | None = None


def _wishes(**changes: object) -> RenderOptions:
    return RenderOptions(must_be_installed=False, **changes)  # type: ignore[arg-type]


PUBLISHED = {
    "kimi-k26-community-docker": Published(
        "Kimi-K2.6",
        "8x-rtx-pro-6000-server-dual-socket",
        Goal(engine="vllm", kv_dtype="fp8", decode_context_parallel=8, image=COMMUNITY_IMAGE),
        ("compose", "kubernetes", "quadlet"),
        port=5000,
        wishes=_wishes(image=COMMUNITY_IMAGE),
    ),
    "kimi-k26-vllm": Published(
        "Kimi-K2.6",
        "8x-rtx-pro-6000-server-dual-socket",
        Goal(engine="vllm", engine_version="0.32.0", memory_fraction=0.92),
        ("systemd",),
        wishes=_wishes(),
    ),
    "kimi-k26-sglang": Published(
        "Kimi-K2.6",
        "8x-rtx-pro-6000-server-dual-socket",
        Goal(engine="sglang", engine_version="0.5.23"),
        ("docker", "systemd", "compose", "kubernetes"),
        port=30000,
        wishes=_wishes(),
    ),
    "kimi-k26-ik-llama": Published(
        "Kimi-K2.6-GGUF:IQ3_K",
        "2x-rtx-pro-6000-max-q-epyc-9175f",
        Goal(engine="ik_llama.cpp", context_tokens=131_072),
        ("shell", "systemd"),
        wishes=_wishes(served_name="kimi-k2.6-IQ3_K"),
        model_path="/models/Kimi-K2.6-IQ3_K-00001-of-00012.gguf",
    ),
    "kimi-k26-b200-eagle3": Published(
        "Kimi-K2.6",
        "synthetic-hgx-b200",
        Goal(engine="vllm", image=NIGHTLY, kv_dtype="fp8", draft=True, users=32, context_tokens=16_384),
        ("docker", "kubernetes"),
        port=8001,
        wishes=_wishes(image=NIGHTLY, served_name="kimi-k2.6", vision=True),
    ),
    "kimi-k2-thinking-nvfp4-sglang": Published(
        "Kimi-K2-Thinking-NVFP4",
        "8x-rtx-pro-6000-server-dual-socket",
        Goal(engine="sglang", engine_version="0.5.23", users=16, context_tokens=4_096, use="batch"),
        ("shell", "docker"),
        port=30000,
        wishes=_wishes(),
    ),
}


def recipe(name: str, *, draft: bool = False) -> Recipe:
    """With `draft`, the same recipe with a draft model, whether or not it fits beside the rest."""
    seed = PUBLISHED[name]
    row = catalog.model(seed.model)
    model = next(found for found in records(row) if found.name == seed.model)
    box = catalog.box_record(seed.box)
    made = plan(box, model, seed.goal.model_copy(update={"draft": seed.goal.draft or draft}))[0]
    assert draft or made.fits, made.objections
    return render(made, model, box, model_path=seed.model_path or model.source, port=seed.port, wishes=seed.wishes)
