"""A running endpoint -> Evidence, rung by rung; the climb ends at the first rung that fails."""

from __future__ import annotations

from collections.abc import Callable

from upright.endpoint.client import Endpoint
from upright.errors import UsageError
from upright.proving.prompts import PromptSet
from upright.proving.rung import Rung
from upright.proving.rungs import smoke
from upright.records.deployment import Deployment
from upright.records.evidence import Evidence, Observation

RUNGS: tuple[Rung, ...] = (smoke.RUNG,)


def rung_names() -> tuple[str, ...]:
    return tuple(rung.name for rung in RUNGS)


def prove(
    deployment: Deployment,
    endpoint: Endpoint,
    prompts: PromptSet,
    *,
    to: str = "smoke",
    on_observation: Callable[[Observation], None] | None = None,
) -> Evidence:
    """Climb up to and including `to`. Each observation is handed on as it is made, so that none is lost."""
    if to not in rung_names():
        raise UsageError(f"no rung named {to}", hint=f"rungs: {', '.join(rung_names())}")
    observations: list[Observation] = []
    for rung in RUNGS:
        for observation in rung.climb(endpoint, prompts):
            observations.append(observation)
            if on_observation is not None:
                on_observation(observation)
        if rung.name == to or any(item.verdict == "failed" for item in observations):
            break
    return Evidence(
        made_from=(deployment.reference,),
        deployment=deployment.name,
        engine=deployment.engine,
        engine_version=deployment.engine_version,
        to_rung=to,
        observations=tuple(observations),
    )
