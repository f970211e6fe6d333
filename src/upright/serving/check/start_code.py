"""A recipe -> what the engine's own start code says of it, for a GPU that need not be there.

The engine's interpreter runs the engine's own code on stand-ins for the driver, in a process that has no network, may
write to one temporary folder, and is bounded in time and memory. Weights are not needed, and code that comes with a
model is never run.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_text
from upright.base.errors import EngineError
from upright.base.host import passed_environment, with_absolute_program
from upright.base.units import GIB
from upright.engines.facets.proof import StartCode
from upright.facts import catalog
from upright.facts.catalog.rows.hardware import GpuRow
from upright.facts.records.box import Box
from upright.facts.records.check import StartAnswer
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import KEY_CONFIG, KEY_FILE, Recipe

CPU_SECONDS = 120
"""Of one question. Ten to twenty are usual."""
PATIENCE_SECONDS = 600
"""A clock for a machine that is busy, of each question."""
MEMORY_BYTES = 8 * GIB
_LAUNCH = """
import importlib.util, sys
folder = sys.argv[1]
spec = importlib.util.spec_from_file_location("stand_in", folder + "/__init__.py", submodule_search_locations=[folder])
module = importlib.util.module_from_spec(spec)
sys.modules["stand_in"] = module
spec.loader.exec_module(module)
from stand_in.asking import main
main()
"""
# What says nothing of the start here, or what the stand-in says itself; behind each whether a value follows.
_LEFT_OUT = {
    "--host": True, "--port": True, "--api-key": True, "--served-model-name": True, "--download-dir": True,
    "--tokenizer": True, "--load-format": True, "--trust-remote-code": False, "--revision": True,
    "--chat-template": True, "--config": True, "--ssl-keyfile": True, "--ssl-certfile": True,
    "--reasoning-parser": True, "--tool-call-parser": True, "--enable-auto-tool-choice": False,
}  # fmt: skip
_OUTSIDE = frozenset({"kv_cache", "state", "graphs_outside", "host_reserve"})
_NEVER_ASKED = (
    "kernels that are launched or compiled, CUDA graphs, NCCL and free memory as it really is are not asked",
    "backends are chosen by what could be imported here: none is told",
)


@dataclass(frozen=True)
class StandInGpu:
    """What the engine is told to run on."""

    name: str
    compute_capability: str
    memory_bytes: int
    count: int
    multiprocessors: int
    shared_memory_bytes: int

    def message(self) -> dict[str, Any]:
        major, _, minor = self.compute_capability.partition(".")
        return {
            "name": self.name, "capability": [int(major), int(minor or 0)], "count": self.count,
            "memory_bytes": self.memory_bytes, "multiprocessors": self.multiprocessors,
            "shared_memory_bytes": self.shared_memory_bytes,
        }  # fmt: skip


@dataclass(frozen=True)
class StartQuestion:
    """One command for some cards of one kind."""

    name: str
    config: Mapping[str, Any]
    words: tuple[str, ...]
    gpus: int
    memory_bytes: int
    free_bytes: int | None = None
    bounded: bool = False
    """Whether the pool is asked without a plan too, with all that the card could have free."""

    def message(self) -> dict[str, Any]:
        return {
            "name": self.name, "config": dict(self.config), "words": list(self.words), "gpus": self.gpus,
            "memory_bytes": self.memory_bytes, "free_bytes": self.free_bytes, "bounded": self.bounded,
        }  # fmt: skip


def check_start(
    recipe: Recipe, start_code: StartCode, interpreter: str, *, model: Model | None, box: Box | None, plan: Plan | None
) -> StartAnswer:
    """Not known, with the reason, where something is missing that the question needs."""
    config = recorded_configuration(recipe, model)
    if config is None:
        return _unasked("its config.json is neither beside its weights nor recorded: fetch the model")
    gpu = _gpu(recipe, box)
    if gpu is None:
        return _unasked("the stand-in answers for NVIDIA's GPUs of the catalogue, and this is none")
    free = free_bytes(plan) if plan is not None and box is not None else None
    question = StartQuestion(
        recipe.served_name, config, start_words(recipe), gpu.count, gpu.memory_bytes, free, bounded=box is not None
    )
    about: Mapping[str, Any] = {}
    for message in ask_start_code(start_code, interpreter, gpu, [question]):
        if "about" in message:
            about = message["about"]
        else:
            return start_answer(message, about)
    return _unasked("the engine's process ended before it answered")


def start_answer(message: Mapping[str, Any], about: Mapping[str, Any]) -> StartAnswer:
    """What came from the engine's process, checked like anything from outside."""
    facts = message.get("facts", {})
    missing = [f"not here: {name}" for name in about.get("missing", ())]
    return StartAnswer(
        verdict=message["verdict"],
        stage=str(message.get("stage", "")),
        sentence=str(message.get("sentence", "")),
        file=str(message.get("file", "")),
        line=int(message.get("line", 0)),
        why=str(message.get("why", "")),
        asked_version=about.get("version"),
        weight_bytes=facts.get("weight_bytes"),
        block_tokens=facts.get("block_size"),
        free_bytes=facts.get("free_bytes"),
        free_at_most=facts.get("at_most", False),
        pool_tokens=facts.get("pool_tokens"),
        not_asked=(*missing, *about.get("not_confined", ()), *_NEVER_ASKED),
    )


def ask_start_code(
    start_code: StartCode, interpreter: str, gpu: StandInGpu, questions: Sequence[StartQuestion]
) -> Iterator[Mapping[str, Any]]:
    """First what is to know of the engine, then an answer a question, each as it comes."""
    task = {
        "gpu": gpu.message(), "seconds": CPU_SECONDS, "memory_bytes": MEMORY_BYTES,
        "questions": [question.message() for question in questions],
    }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="upright-start-") as folder:
        environment = passed_environment(os.environ, "engine") | {"HOME": folder, "TMPDIR": folder}
        argv = with_absolute_program([interpreter, "-B", "-c", _LAUNCH, str(start_code.folder)])
        talk = Path(folder) / "talk.txt"
        (Path(folder) / "task.json").write_text(json.dumps(task), encoding="utf-8")
        with (
            (Path(folder) / "task.json").open(encoding="utf-8") as told,
            talk.open("w", encoding="utf-8") as said,
            _started(
                argv,
                patience=PATIENCE_SECONDS * max(1, len(questions)),
                stdin=told,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                env=environment,
                cwd=folder,
            ) as process,
        ):
            assert process.stdout is not None
            answered = False
            for line in process.stdout:
                answered = True
                yield parse_json(line)
            if process.wait() and not answered:
                last = (talk.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"])[
                    -1
                ]
                raise EngineError(
                    f"{interpreter} could not ask the engine's start code: {last[:300]}",
                    hint="is the engine installed there?",
                )


@contextlib.contextmanager
def _started(argv: list[str], *, patience: float, **how: Any) -> Iterator[subprocess.Popen[str]]:
    """It ends with us, and after so long by itself: its processor time is bounded by the kernel."""
    try:
        process = subprocess.Popen(argv, start_new_session=True, **how)
    except OSError as error:
        raise EngineError(f"{argv[0]} cannot be run: {error.strerror}") from None
    clock = threading.Timer(patience, lambda: _end(process))
    clock.daemon = True
    clock.start()
    try:
        with process:
            yield process
            _end(process)
    finally:
        clock.cancel()
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, 9)


def start_words(recipe: Recipe) -> tuple[str, ...]:
    """The recipe's flags, without those that the stand-in answers for."""
    words: list[str] = []
    for setting in recipe.arguments:
        name = setting.name.partition("=")[0]
        if not name.startswith("-") or name == "-m" or name in _LEFT_OUT or setting.value in (KEY_FILE, KEY_CONFIG):
            continue
        words += [setting.name] if setting.value is None else [setting.name, setting.value]
    return tuple(words)


def recorded_configuration(recipe: Recipe, model: Model | None) -> Mapping[str, Any] | None:
    """The config.json beside the weights, or the one that the catalogue recorded of this very repository."""
    for path in (model.path if model else None, recipe.model_path):
        file = Path(path or "/nowhere") / "config.json"
        if file.is_file():
            content: Mapping[str, Any] = parse_json(file_text(file, errors="replace"))
            return content
    source = model.source if model else recipe.circumstances.artifact if recipe.circumstances else None
    name = (source or "").replace("/", "--")
    return catalog.configuration(name) if name and name in catalog.configurations() else None


def free_bytes(plan: Plan) -> int | None:
    """What the plan leaves for the cache of the tightest rank."""
    left = [
        budget.capacity_bytes
        - sum(line.bytes for line in plan.ledger if line.device == budget.device and line.term not in _OUTSIDE)
        for budget in plan.budgets
        if budget.device != "host"
    ]
    return max(0, min(left)) if left else None


def _gpu(recipe: Recipe, box: Box | None) -> StandInGpu | None:
    """The box's own, or of a recipe alone any card of its capability: the pool is not asked of that."""
    about = recipe.circumstances
    capability = box.gpus[0].compute_capability if box and box.gpus else about.compute_capability if about else None
    rows = [row for row in catalog.rows("gpus").values() if isinstance(row, GpuRow) and row.vendor == "nvidia"]
    named = box.gpus[0].row if box and box.gpus else None
    fitting = [row for row in rows if row.id == named] or [row for row in rows if row.compute_capability == capability]
    if not fitting or capability is None:
        return None
    return stand_in_gpu(fitting[0], max(recipe.gpus, 1) * recipe.nodes)


def stand_in_gpu(row: GpuRow, count: int) -> StandInGpu:
    return StandInGpu(
        row.device_names[0],
        row.compute_capability,
        int(row.memory_reported_mib.value or 0) << 20,
        count,
        int(row.sm_count.value or 0),
        int(row.shared_memory_block_kib.value or 0) << 10,
    )


def _unasked(why: str) -> StartAnswer:
    return StartAnswer(verdict="not-known", stage="not asked", why=why, not_asked=_NEVER_ASKED)
