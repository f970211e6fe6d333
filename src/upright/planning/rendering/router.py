"""Fleet + what its boxes serve -> the router's Recipe: smg, with a reason for every flag.

The keys and the list of boxes are files in one folder, which the recipe calls its model: a box that is drained leaves
the list, and smg reads the list again as soon as it changes. What starts smg from that folder is fleet/payload.
"""

from __future__ import annotations

from dataclasses import dataclass

from upright.base.errors import EngineError
from upright.facts.catalog import get
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.fleet import Fleet
from upright.facts.records.plan import Use
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.rendering.container import ROUTER

SMG_VERSION = "1.13.0"
IMAGE = f"docker.io/lightseekorg/smg:{SMG_VERSION}"


@dataclass(frozen=True)
class PolicyChoice:
    """A policy and what it does, as its source says."""

    policy: str
    why: str
    more: tuple[Setting, ...] = ()


_SOURCE = "smg 1.13.0, model_gateway/src/policies"
_LEAST_THRESHOLD = 0.5
_SHORT_OPENING = 2 / 3
"""Of a usual one: what still counts as a new task."""
BY_USE: dict[Use, PolicyChoice] = {
    "coding-agent": PolicyChoice(
        "cache_aware",
        "each turn begins with the whole conversation before it, and the box that read that has it in its cache "
        "(prefix_hash looks at the first 1024 characters, which all agents share; consistent_hashing wants a header)",
    ),
    "chat": PolicyChoice("cache_aware", "a conversation stays where its history is in the cache"),
    "long-documents": PolicyChoice("cache_aware", "questions about a document go where it was read"),
    "batch": PolicyChoice(
        "power_of_two",
        "nothing is asked twice: the emptier of two boxes drawn at random",
        (
            Setting(
                name="--power-of-two-load-metric",
                value="requests",
                reason="requests in flight, which the router counts itself: not every engine reports its load",
            ),
        ),
    ),
}


def router_recipe(
    fleet: Fleet, *, folder: str, program: str, served_name: str, context_tokens: int, version: str | None = None
) -> Recipe:
    """`folder` holds the keys and the list of boxes, on the machine that runs it; `program` is smg's Python."""
    version = version or SMG_VERSION
    settings = tuple(_settings(fleet, folder))
    known = nearest_flags(ROUTER, version)
    strange = [setting.name for setting in settings[1:] if known and setting.name not in known]
    if strange:
        raise EngineError(f"smg {version} takes no {strange[0]}")
    router = fleet.router
    return Recipe(
        made_from=(fleet.reference,),
        engine=ROUTER,
        engine_version=version,
        runtime=router.runtime,
        program=program,
        installed=True,
        image=router.image or IMAGE,
        image_about="upstream's release; pin the digest of what you pulled",
        key_way="file",
        arguments=settings,
        model_path=folder,
        served_name=served_name,
        host=router.address,
        port=router.port,
        context_tokens=context_tokens,
        users=_at_once(fleet),
        health_path="/readiness",
        metrics_path=None,
        notes=(
            "/v1/models, /health, /loads and /engine_metrics of smg answer without a key",
            "what starts smg adds the keys, the list of boxes and --enable-wasm: no process listing shows a key",
        ),
    )


def policy_choice(fleet: Fleet) -> PolicyChoice:
    """The policy that was asked for, or the one that suits the use."""
    wanted = fleet.router.policy
    suited = BY_USE[fleet.goal.use]
    if wanted in ("auto", suited.policy):
        return suited
    return PolicyChoice(wanted, "asked for in fleet.yaml")


def _settings(fleet: Fleet, folder: str) -> list[Setting]:
    router, choice = fleet.router, policy_choice(fleet)
    boxes, users, at_once = len(fleet.boxes), fleet.goal.users, _at_once(fleet)
    rows = [
        ("-B", folder, "smg by its own Python, from the folder with its keys; -B: nothing is written there"),
        ("--host", router.address, "where clients reach it"),
        ("--port", router.port, "where clients ask"),
        ("--prometheus-host", "127.0.0.1", "metrics name boxes and models: for this machine alone"),
        ("--prometheus-port", router.metrics_port, "where Prometheus asks"),
        ("--policy", choice.policy, choice.why),
    ]
    settings = [Setting(name=name, value=str(argument), reason=why) for name, argument, why in rows]
    settings += choice.more
    if choice.policy == "cache_aware":
        settings += [
            _threshold(fleet.goal.use),
            _of("--balance-abs-threshold", max(2, users), "so many requests over the mean make a box too full"),
        ]
    settings += [
        _of("--health-check-interval-secs", router.health_seconds, "a dead box is found within two of these"),
        _of("--health-failure-threshold", 2, "one slow answer is not a death"),
        _of("--health-success-threshold", 1, "a box was proved before it was put on the list"),
        _of("--health-check-timeout-secs", 5, "a box under load still answers /health"),
        Setting(
            name="--no-remove-unhealthy-workers",
            reason="a dead box stays on the list and is taken again when it is back",
        ),
        _of("--worker-startup-check-interval", 1, "the default looks for a new box only every 30 s"),
        _of(
            "--discovery-check-interval-secs", 5, "the list is read when it changes; this is for disks that do not tell"
        ),
        _of("--request-timeout-secs", router.request_seconds, "long answers are what agents wait for"),
        _of("--retry-max-retries", 3, "a request that no box has begun to answer goes to another one"),
        _of("--retry-max-backoff-ms", 2000, "the default waits up to 30 s between two boxes"),
        _of("--cb-timeout-duration-secs", 10, "a box that failed ten times is tried again after this"),
        _of(
            "--max-concurrent-requests", at_once, f"four times what {boxes} boxes with {users} users each serve at once"
        ),
        _of("--queue-size", at_once, "as many wait for a place; more are told 429 at once"),
        _of("--queue-timeout-secs", 60, "and not for ever"),
        Setting(name="--disable-tokenizer-autoload", reason="engines count their own tokens: nothing is fetched"),
        _of("--history-backend", "none", "conversations are the clients': none is kept here"),
        _of("--shutdown-grace-period-secs", 30, "running answers may end"),
    ]
    return settings


def _threshold(use: Use) -> Setting:
    """Above what the first turn of everybody shares: at less, all of them go where the first one went."""
    row = get("usages", use)
    assert isinstance(row, UsageRow)
    shared, opening = row.shared_tokens.value or 0.0, row.opening_tokens.median or row.opening_tokens.value or 0.0
    least, usual = (shared / (shared + opening * part) for part in (_SHORT_OPENING, 1))
    return Setting(
        name="--cache-threshold",
        value=f"{max(_LEAST_THRESHOLD, least):.2g}",
        reason=f"a turn that repeats more than this of its text stays; a new task shares {shared:,.0f} "
        f"of {shared + opening:,.0f} tokens with others ({usual:.2f}) and goes where there is room",
        source=f"{_SOURCE}/cache_aware.rs: only a longer match than this decides the box; "
        f"usages {use}: shared_tokens, opening_tokens",
    )


def _of(name: str, value: int | str, why: str) -> Setting:
    return Setting(name=name, value=str(value), reason=why)


def _at_once(fleet: Fleet) -> int:
    if fleet.router.requests_at_once is not None:
        return fleet.router.requests_at_once
    return 4 * sum((box.goal or fleet.goal).users for box in fleet.boxes)
