"""box + model -> plan -> recipe -> deployment -> evidence -> report: the whole flow on one screen.

`upright run` executes `run`; the other verbs stop along the way. Nothing here decides anything: each arrow is a verb of
its room, each record is on disk before the next one is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from upright.base.progress import Tell
from upright.facts.records.deployment import Deployment
from upright.facts.records.evidence import Evidence
from upright.facts.records.plan import Goal
from upright.facts.records.rehearsal import Rehearsal
from upright.flows.line.preparing import LaunchTarget, Prepared, prepare_model
from upright.flows.line.rehearsing import check_without_weights, rehearse_without_weights
from upright.flows.line.starting import register, start
from upright.flows.line.weights import fetch_if_missing
from upright.flows.line.writing_reports import write_report
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.rung import ProofOptions
from upright.serving.connect import ClientSettings, connect
from upright.serving.fetch import BackgroundFetch
from upright.serving.launch import status, stop
from upright.serving.launch.locks import without_restarts


@dataclass(frozen=True)
class LineRun:
    """Everything that one run made. Without a recipe the answer was no, and nothing was started."""

    prepared: Prepared
    deployment: Deployment | None = None
    evidence: Evidence | None = None
    settings: ClientSettings | None = None
    page: Path | None = None

    @property
    def stands(self) -> bool:
        return self.evidence is not None and self.evidence.passed


def run(
    source: str, goal: Goal, on: LaunchTarget, *, port: int, to: str, keep: bool, tell: Tell, weights: BackgroundFetch
) -> LineRun:
    rehearsed: Rehearsal | None = None
    host = on.host()
    with weights:
        locate = fetch_if_missing(source, weights) if on.machine is None else None
        prepared = prepare_model(source, goal, host, port=port, tell=tell, on=on, locate=locate)
        if prepared.recipe is None:
            return LineRun(prepared)
        if weights.under_way and on.runtime == "process":
            check_without_weights(prepared.recipe, tell=tell)
            rehearsed = rehearse_without_weights(source, prepared, host, tell=tell)
        weights.wait()
    directory = register(prepared, on)
    if rehearsed is not None:
        directory.write(rehearsed)
    try:
        with without_restarts(directory):
            start(prepared, directory, tell=tell, on=on)
            evidence = prove_deployment(directory, ProofOptions(to), tell)
        settings = connect(directory.read(Deployment), directory.key_file)
    except BaseException:  # Ctrl-C too: what `run` started, `run` ends
        if directory.has(Deployment):
            stop(directory)
        raise
    if not keep:
        tell("stopping")
        stop(directory)
    page = write_report(directory)
    return LineRun(prepared, status(directory), evidence, settings, page)
