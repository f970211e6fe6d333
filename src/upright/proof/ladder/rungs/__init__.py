"""One file per rung, each with its `RUNG`; the ladder is this table."""

from upright.proof.ladder.rung import LadderRung
from upright.proof.ladder.rungs import (
    arguments,
    boot,
    clients,
    context,
    endurance,
    equivalence,
    parallel,
    rehearse,
    smoke,
    soak,
    speculation,
    task,
    tools,
)

RUNGS: tuple[LadderRung, ...] = (
    arguments.RUNG,
    rehearse.RUNG,
    boot.RUNG,
    smoke.RUNG,
    tools.RUNG,
    context.RUNG,
    endurance.RUNG,
    task.RUNG,
    speculation.RUNG,
    clients.RUNG,
    parallel.RUNG,
    soak.RUNG,
    equivalence.RUNG,
)
"""In the order they are climbed."""
