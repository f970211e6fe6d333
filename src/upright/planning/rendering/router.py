"""Fleet + what its boxes serve -> the router's Recipe: smg, with a reason for every flag.

The keys and the list of boxes are files in one folder, which the recipe calls its model: a box that is drained leaves
the list, and smg reads the list again as soon as it changes. What starts smg from that folder is fleet/payload.
"""

from __future__ import annotations

from upright.base.errors import EngineError
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.fleet import Fleet
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.choosing.routing import SMG_VERSION, RouterPolicy, router_policy
from upright.planning.rendering.container import ROUTER

IMAGE = f"docker.io/lightseekorg/smg:{SMG_VERSION}"


_REQUESTS_IN_FLIGHT = Setting(
    name="--power-of-two-load-metric",
    value="requests",
    reason="requests in flight, which the router counts itself: not every engine reports its load",
)


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


def policy_choice(fleet: Fleet) -> RouterPolicy:
    router, goal = fleet.router, fleet.goal
    return router_policy(goal.use, goal.users, policy=router.policy, cache_threshold=router.cache_threshold)


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
    if choice.policy == "power_of_two" and fleet.goal.use == "batch":
        settings.append(_REQUESTS_IN_FLIGHT)
    if choice.cache_threshold is not None:
        threshold = Setting(
            name="--cache-threshold",
            value=f"{choice.cache_threshold:g}",
            reason=choice.threshold_why,
            source=choice.threshold_source,
        )
        spill = _of(
            "--balance-abs-threshold", choice.spill_requests, "so many requests over the mean make a box too full"
        )
        settings += [threshold, spill]
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


def _of(name: str, value: int | str, why: str) -> Setting:
    return Setting(name=name, value=str(value), reason=why)


def _at_once(fleet: Fleet) -> int:
    if fleet.router.requests_at_once is not None:
        return fleet.router.requests_at_once
    return 4 * sum((box.goal or fleet.goal).users for box in fleet.boxes)
