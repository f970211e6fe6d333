"""`upright demo`: the whole line on a model that comes with the package; only its report stays.

`upright demo` executes `demonstrate`. A failure stays as a deployment, so that `logs` and `diagnose` can tell of it.
"""

from __future__ import annotations

import gzip
import shutil
import socket
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from upright.base.errors import UprightError
from upright.base.home import home, make_private
from upright.base.host import LocalHost
from upright.base.progress import Tell
from upright.engines import ENGINES, engine_named
from upright.facts.records.box import Box
from upright.facts.records.deployment import Deployment
from upright.facts.records.plan import Goal
from upright.facts.store import DeploymentDir, write_atomically
from upright.flows.line.agent import ended_like_ctrl_c, signals_kept_off
from upright.flows.line.flow import LineRun
from upright.flows.line.preparing import prepare_model
from upright.flows.line.starting import register, start
from upright.flows.line.writing_reports import write_report
from upright.planning.probing import probe
from upright.planning.rendering.recipe import refuse_blind_variable
from upright.planning.requests.engine_installs import InstallMethod, install_methods, method_here
from upright.proof.ladder.climbing import prove_deployment
from upright.proof.ladder.rung import ProofOptions
from upright.serving.connect import connect
from upright.serving.launch import status, stop
from upright.serving.launch.locks import without_restarts

TINY_MODEL = Path(__file__).parent / "payload/tiny-kimi-q8_0.gguf.gz"
"""With Kimi's own head sizes, mostly zeros: llama.cpp serves any, ik_llama.cpp no others."""
PROVED_TO = "smoke"
CONTEXT_TOKENS = 4096


@dataclass(frozen=True)
class Demonstration:
    """How far it came. Without a run this machine has no engine that loads the model."""

    box: Box
    run: LineRun | None = None
    missing: str = ""
    """The program that was not found."""
    ways: tuple[InstallMethod, ...] = ()
    """How to get it."""
    here: InstallMethod | None = None
    """The one of them that this machine can do as it is."""


def demonstrate(*, tell: Tell) -> Demonstration:
    tell("probing this machine")
    box = probe(LocalHost())
    loaders = [name for name, engine in ENGINES.items() if "gguf" in engine.loads and not engine.by_name_only]
    if not {install.engine for install in box.engines} & set(loaders):
        refuse_blind_variable(engine_named(loaders[0]).finding, box)
        ways = _ways(loaders[0], box)
        here = method_here(ways, LocalHost())
        return Demonstration(box, missing=engine_named(loaders[0]).program, ways=ways, here=here)
    with ended_like_ctrl_c():
        return Demonstration(box, _run(box, lambda line: tell(line.replace(f"{_folder()}/", ""))))


def _ways(engine: str, box: Box) -> tuple[InstallMethod, ...]:
    """Those for CPUs, which are quicker to get and enough here."""
    return install_methods(engine, box.model_copy(update={"gpus": ()}))


def _folder() -> Path:
    return home() / "demo"


def _unpacked() -> Path:
    """The model, where an engine can map it."""
    make_private(_folder())
    model = _folder() / TINY_MODEL.stem
    with gzip.open(TINY_MODEL) as packed:
        write_atomically(model, packed.read())
    return model


def _run(box: Box, tell: Tell) -> LineRun:
    goal = Goal(context_tokens=CONTEXT_TOKENS)
    with ExitStack() as ends:
        model = _unpacked()
        ends.callback(model.unlink, missing_ok=True)
        prepared = prepare_model(str(model), goal, LocalHost(), port=_free_port(), tell=tell, box=box)
        if prepared.recipe is None:
            return LineRun(prepared)
        directory = register(prepared)
        try:
            with without_restarts(directory):
                start(prepared, directory, tell=tell)
                evidence = prove_deployment(directory, ProofOptions(PROVED_TO), tell)
            settings = connect(directory.read(Deployment), directory.key_file)
            tell("stopping")
            stop(directory)
            done = LineRun(prepared, status(directory), evidence, settings, _kept_report(directory))
        except UprightError:
            _ended(directory)
            ends.pop_all()  # the deployment stays, and its model with it
            raise
        except BaseException:
            _ended(directory)
            _removed(directory)
            raise
        _removed(directory)
        return done


def _free_port() -> int:
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def _kept_report(directory: DeploymentDir) -> Path:
    return write_report(directory, _folder() / "report.html")


def _ended(directory: DeploymentDir) -> None:
    with signals_kept_off(), suppress(UprightError):
        if directory.has(Deployment):
            stop(directory)


def _removed(directory: DeploymentDir) -> None:
    with signals_kept_off():
        shutil.rmtree(directory.path, ignore_errors=True)
