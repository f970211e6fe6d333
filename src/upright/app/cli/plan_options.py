"""Options that decide a plan, shared by the verbs that need one, and the plan and recipe made from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from upright.app.cli.options import (
    BANDWIDTH,
    MEMORY,
    RANKS,
    TOKENS,
    Number,
    engine_option,
    goal_options,
    port_option,
    refuse_empty,
    typed_words,
    was_typed,
)
from upright.app.cli.output import note

if TYPE_CHECKING:
    from upright.app.cli.output import Output
    from upright.facts.records.plan import Goal
    from upright.planning.requests.plan_arguments import NamedBox
    from upright.planning.requests.preparation import Prepared

F = TypeVar("F", bound=Callable[..., Any])
RAM_UNKNOWN = "system RAM of this box is not specified: with enough of it,"
GOAL = {
    "context": "context_tokens",
    "users": "users",
    "use": "use",
    "engine": "engine",
    "engine_version": "engine_version",
    "kv_dtype": "kv_dtype",
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "dp": "data_parallel",
    "dcp": "decode_context_parallel",
    "expert_parallel": "expert_parallel",
    "gpu_memory_utilization": "memory_fraction",
    "max_num_seqs": "sequences",
    "max_num_batched_tokens": "batched_tokens",
    "place": "place",
    "draft": "draft",
    "acceptance": "acceptance",
    "min_speed": "minimum_tokens_per_second",
    "first_answer": "first_answer_seconds",
    "image": "image",
    "nodes": "nodes",
    "link": "link",
}
"""Options that are wishes, and the goal's fields that hold them."""

MACHINE = ("box", "host_memory", "host_bandwidth")
"""Options that say which machine."""
PLAN_OPTIONS = (*GOAL, "host_cache", *MACHINE)
"""Options of `plan`; `render` and `check` share them but for JUDGED."""
GOAL_ONLY = ("use", "acceptance", "min_speed", "first_answer")
"""Wishes that judge a plan and change no recipe."""
FOR_ANY_MODEL = ("context", "users", "use", "min_speed", "first_answer")
"""Wishes that hold whatever the model is."""
SERVING = ("port", "served_name", "model_path", "image", "vision", "no_prefix_caching")
"""Options that `render` and `check` share beyond those."""


def box_options(function: F) -> F:
    """Which machine."""
    for option in (
        click.option(
            "--host-bandwidth",
            type=BANDWIDTH,
            help="Bandwidth of system RAM, where the box does not say: 460GB/s, 8xDDR5-6400, or a processor "
            "such as 'EPYC 9554'. A figure that no number of channels has in theory counts as measured.",
        ),
        click.option(
            "--ram",
            "--host-memory",
            "host_memory",
            type=MEMORY,
            help="System RAM, where the box does not say: 512GB.",
        ),
        click.option(
            "--box",
            "--gpu",
            "box",
            callback=refuse_empty,
            help="A machine, or GPUs as you call them: 8x-rtx-pro-6000-server, '2x RTX 3090', 'MacBook Pro M4 Max "
            "64GB', '24GB 936GB/s' for any other card; or a box.json, a recording, ssh:HOST.  [default: this machine]",
        ),
    ):
        function = option(function)
    return function


use_option = click.option(
    "--use",
    type=click.Choice(["coding-agent", "chat", "batch", "long-documents"]),
    default="coding-agent",
    show_default=True,
    help="The shape of the load.",
)


def floor_options(function: F) -> F:
    """What is too slow."""
    for option in (
        click.option(
            "--first-answer",
            type=Number(min=0),
            help="Seconds that a first prompt of 20,000 tokens may take; slower ways stand behind.  "
            "[default: 60 for coding-agent]",
        ),
        click.option(
            "--min-speed",
            type=Number(min=0),
            help="Slowest tokens a second that will do for one user.  [default: 20 for coding-agent, where there is a "
            "way]",
        ),
    ):
        function = option(function)
    return function


def node_options(function: F) -> F:
    """Several boxes as one model."""
    for option in (
        click.option("--link", help="The network between them: a name of `upright catalog list links`."),
        click.option("--nodes", type=click.IntRange(1, 64), default=1, help="Such boxes as one model.  [default: 1]"),
    ):
        function = option(function)
    return function


host_cache_option = click.option(
    "--host-cache",
    type=MEMORY,
    help="System RAM behind the KV cache, for conversations that wait: 64GB.  [default: none, or the engine's own]",
)


place_option = click.option(
    "--place",
    metavar="LAYERS",
    help="Layers of routed experts on the GPUs, the others in system RAM: none, filled, or so many on each GPU: 3+3.  "
    "[default: filled]",
)


def engine_options(function: F) -> F:
    """Which engine, and how it divides the model and the memory: what `plan` and recipes are asked for alike."""
    for option in (
        host_cache_option,
        click.option("--image", help="Container image: a name of the catalogue, NAME:TAG or a digest."),
        click.option("--draft", is_flag=True, help="With a draft model (EAGLE3, MTP)."),
        click.option(
            "--gpu-memory-utilization",
            type=Number(min=0),
            help="Share of each GPU for the engine, whatever the engine calls it.",
        ),
        click.option(
            "--max-num-batched-tokens",
            "--ubatch",
            "max_num_batched_tokens",
            type=TOKENS,
            help="Tokens that the engine computes at once: fewer leave more for the KV cache.",
        ),
        click.option(
            "--max-num-seqs",
            type=click.IntRange(1, 4096),
            help="Requests that the engine may run at once: fewer leave more for the KV cache.  "
            "[default: as many as fit]",
        ),
        place_option,
        click.option("--kv-dtype", help="Type of the KV cache, as the engine spells it: bf16, fp8, q8_0."),
        click.option(
            "--expert-parallel/--no-expert-parallel",
            default=None,
            help="Whole experts on ranks (EP), or a slice of each.  [default: as the weights can be divided]",
        ),
        click.option(
            "--dcp",
            type=RANKS,
            help="Decode context parallel (DCP): ranks over which one copy of the KV cache is sharded.",
        ),
        click.option("--dp", type=RANKS, help="Replicas of attention that share the experts (DP attention with EP)."),
        click.option("--pp", type=RANKS, help="Pipeline stages."),
        click.option("--tp", type=RANKS, help="Ranks of tensor parallelism."),
        click.option("--engine-version", help="Only this version of it, such as 0.32.0."),
        engine_option,
    ):
        function = option(function)
    return function


def recipe_options(function: F) -> F:
    """Everything that decides a recipe."""
    for option in (
        click.option(
            "--no-prefix-caching", is_flag=True, help="For prompts that share nothing; agents repeat theirs every turn."
        ),
        click.option("--vision", is_flag=True, help="Serve images too; the safe start is text only."),
        click.option(
            "--model-path", help="Where the weights are on the target.  [default: as read, or the repository]"
        ),
        click.option("--served-name", help="The name that clients use."),
        engine_options,
        port_option,
        node_options,
        goal_options,
        box_options,
    ):
        function = option(function)
    return function


def prepare_from_options(model: str, **wanted: Any) -> Prepared:
    """The best plan and its recipe, for a box that need not be here."""
    from upright.planning.rendering.recipe import RenderOptions
    from upright.planning.requests.plan_arguments import make_plan_request, weights_path
    from upright.planning.requests.preparation import prepare

    request = make_plan_request(model, named_box(wanted), goal_of(wanted), host_cache_gib=wanted["host_cache"])
    wishes = RenderOptions(
        served_name=wanted["served_name"],
        vision=wanted["vision"],
        prefix_caching=not wanted["no_prefix_caching"],
        image=wanted["image"],
        leader=wanted.get("leader") or "node-0",
        must_be_installed=False,
    )
    path = wanted["model_path"]
    return prepare(request, lambda artifact: path or weights_path(artifact), port=wanted["port"], wishes=wishes)


def answer_objections(output: Output, model: str, made: Prepared) -> None:
    """What stands against the plan, for a verb that was to have its recipe."""
    from upright.app.pages.deployment_pages import objections_page
    from upright.planning.requests.plan_request import ram_wanted, ram_words

    output.answer(made.plan, lambda console: objections_page(console, made.plan))
    if made.ram_unknown:
        note(f"{RAM_UNKNOWN} {ram_words(made.model)}")
    output.next("plan", model, *typed_words(*PLAN_OPTIONS), *(ram_wanted(made.plan) if made.ram_unknown else ()))
    output.no()


def goal_of(wanted: dict[str, Any]) -> Goal:
    """The options that are wishes, as a Goal; the fields that are set are those that a person typed."""
    from pydantic import ValidationError

    from upright.base.errors import UsageError
    from upright.facts.records.plan import Goal

    usual = Goal()
    wishes = {field: (option, wanted[option]) for option, field in GOAL.items() if option in wanted}
    typed = {f: wish for f, (option, wish) in wishes.items() if wish != getattr(usual, f) or was_typed(option)}
    try:
        return Goal(**typed)
    except ValidationError as error:
        field = str(error.errors()[0]["loc"][0])
        raise UsageError(f"{typed[field]!s:.40} is out of range for {field}") from None


def named_box(wanted: dict[str, Any]) -> NamedBox:
    """The options that say which machine."""
    from upright.planning.requests.plan_arguments import NamedBox

    return NamedBox(*(wanted[option] for option in MACHINE))
