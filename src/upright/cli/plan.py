"""plan: a model, a box and a goal -> what fits, as a page or as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from upright.cli.options import goal_options, model_argument
from upright.cli.output import Output, output_options, page_width

if TYPE_CHECKING:
    from upright.records.box import Box
    from upright.records.model import Model
    from upright.records.plan import Goal

SHOWN = 6
USES = ("coding-agent", "chat", "batch", "long-documents")


@click.command(name="plan")
@model_argument
@click.option("--box", help="A name of the catalogue, a box.json, a recording, or ssh:HOST.  [default: this machine]")
@click.option("--host-memory", type=click.FloatRange(min=1), help="GiB of main memory, where the box does not say.")
@goal_options
@click.option("--use", type=click.Choice(USES), default=USES[0], show_default=True, help="The shape of the load.")
@click.option("--engine", help="Only this engine: vllm, sglang, llama.cpp, ik_llama.cpp.")
@click.option("--engine-version", help="Only this version of it, such as 0.32.0.")
@click.option("--tp", type=click.IntRange(1), help="Ranks of tensor parallelism.")
@click.option("--pp", type=click.IntRange(1), help="Pipeline stages.")
@click.option("--dcp", type=click.IntRange(1), help="Ranks that share one copy of the cache (vLLM).")
@click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it: bf16, fp8, q8_0.")
@click.option(
    "--gpu-memory-utilization", type=float, help="Share of each GPU for the engine (SGLang: --mem-fraction-static)."
)
@click.option("--draft", is_flag=True, help="With a draft model.")
@output_options
def command(output: Output, model: str, box: str | None, host_memory: float | None, **wanted: Any) -> None:
    """Say whether the model fits, with how much context."""
    import gc

    # A plan lives for half a second and most of that is imports: collecting garbage would be a sixth of it.
    gc.disable()
    try:
        _plan(output, model, box, host_memory, wanted)
    finally:
        gc.enable()


def _plan(output: Output, model: str, box: str | None, host_memory: float | None, wanted: dict[str, Any]) -> None:
    from upright.cli.plan_page import plan_page
    from upright.planning import plan
    from upright.planning.artifacts import Choice, choice, smaller

    goal, machine = _goal(**wanted), _box(box, host_memory)
    chosen = Choice(_read(model)) if Path(model).exists() else choice(model, _read)
    plans = plan(machine, chosen.model, goal, choose_from=chosen.choose_from, others=chosen.others)
    best = plans[0]
    if output.wants_record:
        shown = [{**found.to_dict(), "fits": found.fits} for found in plans[:SHOWN]]
        output.answer({"fits": best.fits, "plans": shown})
    offers = [found for found in best.nearest if found.options or found.artifact]
    instead = [] if best.fits or offers else smaller(machine, goal, chosen.model)
    output.show(plan_page(plans, chosen, page_width(), instead))
    where = _box_words(box, host_memory)
    if best.fits:
        named = model if best.model == chosen.model.name else _source(best.model, chosen.choose_from)
        output.next("up", *_same_words(named, wanted))
        return
    if offers:
        engine = ["--engine", wanted["engine"]] if wanted["engine"] and not offers[0].artifact else []
        output.next("plan", offers[0].artifact or model, *where, *engine, *offers[0].options)
    elif instead:
        output.next("plan", instead[0].model, *where)
    else:
        output.next("catalog", "list", "models")
    output.no()


def _source(name: str, artifacts: Iterable[Model]) -> str:
    return next(artifact.source for artifact in artifacts if artifact.name == name)


def _goal(**wanted: Any) -> Goal:
    from upright.records.plan import Goal, Use

    assert get_args(Use) == USES
    return Goal(
        context_tokens=wanted["context"],
        users=wanted["users"],
        use=wanted["use"],
        engine=wanted["engine"],
        engine_version=wanted["engine_version"],
        tensor_parallel=wanted["tp"],
        pipeline_parallel=wanted["pp"],
        decode_context_parallel=wanted["dcp"],
        kv_dtype=wanted["kv_dtype"],
        memory_fraction=wanted["gpu_memory_utilization"],
        draft=wanted["draft"],
    )


def _box(text: str | None, host_memory: float | None) -> Box:
    from upright import catalog
    from upright.records.base import Figure
    from upright.units import GIB

    if text is not None and catalog.find("boxes", text) is not None and not Path(text).exists():
        box = catalog.box_record(text)
    else:
        from upright.probing import box_of

        box = box_of(text)
    if host_memory is None:
        return box
    said = Figure(value=int(host_memory * GIB), basis="assumed", source="--host-memory")
    return box.model_copy(update={"memory_bytes": said, "memory_available_bytes": said})


def _read(text: str) -> Any:
    from upright.reading import read

    return read(text)


def _same_words(model: str, wanted: dict[str, Any]) -> list[str]:
    words = [model]
    if wanted["context"] is not None:
        words += ["--context", str(wanted["context"])]
    if wanted["users"] != 1:
        words += ["--users", str(wanted["users"])]
    return words


def _box_words(box: str | None, host_memory: float | None) -> list[str]:
    words = [] if box is None else ["--box", box]
    return words if host_memory is None else [*words, "--host-memory", f"{host_memory:g}"]
