"""Compiles kernel launches in a child interpreter, and remembers what each needs.

Remembered by the text of the extracted source, the Triton version, the target, the arguments and the payload itself;
what could not be determined is never remembered.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.home import home
from upright.base.host import NEUTRAL_FOLDER, passed_environment, with_absolute_program
from upright.engines.facets.kernels import Arguments
from upright.facts.records.base import canonical
from upright.facts.store import write_atomically
from upright.proof.kernels.capture import LauncherCall
from upright.proof.kernels.interpreter import Interpreter
from upright.proof.kernels.targets import CompileTarget

PAYLOAD = Path(__file__).parent / "payload"
LIMIT_SECONDS = 90.0
_BOOT = "import sys; sys.path.append({folder!r}); from payload.__main__ import main; main()"
Until = Literal["shared", "binary", "value"]
"""How far: to the shared memory, to the binary, or only to what the function returns."""
Counted = Callable[[int, int], None]


@dataclass(frozen=True)
class CompileTask:
    """One call to capture; each of its launches is compiled once a variant."""

    call: LauncherCall
    until: Until = "shared"
    kernel: str | None = None
    """Only this kernel of the call; None for all that it launches."""
    variants: tuple[Mapping[str, int], ...] = ()
    """Launch constants to put in place of the engine's; none means as the engine chooses."""

    def description(self) -> dict[str, Any]:
        return {
            "module": self.call.extracted.entry,
            "launcher": self.call.extracted.launcher,
            "arguments": self.call.arguments,
            "until": self.until,
            "kernel": self.kernel,
            "variants": [dict(variant) for variant in self.variants],
        }


@dataclass(frozen=True)
class CompileOutcome:
    """What became of one launch. `error` says why there is no figure."""

    kernel: str
    constants: Arguments = field(default_factory=dict)
    variant: Arguments = field(default_factory=dict)
    num_warps: int | None = None
    num_stages: int | None = None
    shared_bytes: int | None = None
    tensor_memory_columns: int | None = None
    registers: int | None = None
    stack_bytes: int | None = None
    spill_bytes: int | None = None
    cpu_seconds: float | None = None
    value: Any = None
    error: str | None = None
    cached: bool = False
    group: int | None = None
    """Of an autotuned kernel: outcomes of one group are the configurations that the GPU chooses one from."""


def compile_tasks(
    tasks: Sequence[CompileTask],
    target: CompileTarget,
    interpreter: Interpreter,
    *,
    limit_seconds: float = LIMIT_SECONDS,
    workers: int | None = None,
    tell: Counted | None = None,
) -> list[list[CompileOutcome]]:
    """For each task the outcomes of its launches, in order; only what is not remembered is compiled."""
    keys = [_key(task, target, interpreter) for task in tasks]
    outcomes = {key: task_outcomes for key in keys if (task_outcomes := _recall(key)) is not None}
    groups: dict[str, dict[str, CompileTask]] = {}
    for key, task in zip(keys, tasks, strict=True):
        if key not in outcomes:
            groups.setdefault(task.call.extracted.digest, {})[key] = task
    for group in groups.values():
        limits = {"workers": workers or os.cpu_count() or 1, "limit_seconds": limit_seconds}
        for key, task_outcomes in _compiled(group, target, interpreter, limits, tell).items():
            outcomes[key] = task_outcomes
            _remember(key, task_outcomes)
    return [outcomes[key] for key in keys]


def _compiled(
    group: Mapping[str, CompileTask],
    target: CompileTarget,
    interpreter: Interpreter,
    limits: Mapping[str, Any],
    tell: Counted | None,
) -> dict[str, list[CompileOutcome]]:
    """Tasks of one extracted source, in one child interpreter."""
    described = [{"id": key, **task.description()} for key, task in group.items()]
    with tempfile.TemporaryDirectory(prefix="upright-kernels-") as scratch:
        folder = Path(scratch, "modules")
        folder.mkdir()
        for name, text in next(iter(group.values())).call.extracted.modules.items():
            (folder / f"{name}.py").write_text(text, encoding="utf-8")
        job = {
            "capability": target.capability,
            "device_name": target.device_name,
            "modules": str(folder),
            "tasks": described,
            **limits,
        }
        answers = _run(job, interpreter, Path(scratch), tell)
    return {key: _outcomes(task, answers.get(key, [])) for key, task in group.items()}


def _run(job: Mapping[str, Any], interpreter: Interpreter, scratch: Path, tell: Counted | None) -> dict[str, list[Any]]:
    environment = {
        **{
            n: setting
            for n, setting in passed_environment(os.environ, "engine").items()
            if not n.startswith(("TRITON", "PYTHON"))
        },
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TRITON_DEFAULT_FP_FUSION": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(scratch),
    }
    launches = sum(max(1, len(task["variants"])) for task in job["tasks"])
    answers: dict[str, list[Any]] = {}
    with (scratch / "stderr").open("w+", encoding="utf-8", errors="replace") as talk:
        child = subprocess.Popen(
            with_absolute_program([interpreter.program, "-c", _BOOT.format(folder=str(PAYLOAD.parent))]),
            cwd=NEUTRAL_FOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=talk,
            encoding="utf-8", errors="replace", env=environment,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            with contextlib.suppress(BrokenPipeError), child.stdin:
                json.dump(job, child.stdin)
            for done, line in enumerate(child.stdout, start=1):
                answer = parse_json(line)
                answers.setdefault(answer["task"], []).append(answer)
                if tell is not None:
                    tell(done, max(done, launches))
            code = child.wait()
        finally:
            child.kill()
            child.stdout.close()
            child.wait()
        if code != 0:
            talk.seek(0)
            last = (talk.read().strip().splitlines() or ["it said nothing"])[-1][:300]
            for task in job["tasks"]:
                error = f"the compiling interpreter ended with code {code}: {last}"
                answers.setdefault(task["id"], [{"error": error, "launch": 0}])
    return answers


def _outcomes(task: CompileTask, answers: list[dict[str, Any]]) -> list[CompileOutcome]:
    if not answers:
        return [
            CompileOutcome(kernel=task.call.extracted.launcher, error=f"{task.kernel} is not launched for these shapes")
        ]
    order = {json.dumps(dict(variant), sort_keys=True): place for place, variant in enumerate(task.variants)}
    answers.sort(key=lambda reply: (reply["launch"], order.get(json.dumps(reply.get("variant"), sort_keys=True), 0)))
    names = CompileOutcome.__dataclass_fields__
    outcome_fields = [{key: field_value for key, field_value in answer.items() if key in names} for answer in answers]
    return [CompileOutcome(**{"kernel": task.call.extracted.launcher, **answer}) for answer in outcome_fields]


def _key(task: CompileTask, target: CompileTarget, interpreter: Interpreter) -> str:
    parts = [task.call.extracted.digest, _payload_digest(), interpreter.triton, target.capability, task.description()]
    return hashlib.sha256(canonical(parts)).hexdigest()


@lru_cache
def _payload_digest() -> str:
    content = b"\0".join(file.read_bytes() for file in sorted(PAYLOAD.glob("*.py")))
    return hashlib.sha256(content).hexdigest()


def _folder() -> Path:
    return home() / "kernels" / "compiled"


def _recall(key: str) -> list[CompileOutcome] | None:
    try:
        kept = parse_json(file_bytes(_folder() / f"{key}.json"))
        return [CompileOutcome(**{**entry, "cached": True}) for entry in kept]
    except (OSError, ValueError, TypeError):
        return None


def _remember(key: str, outcomes: Sequence[CompileOutcome]) -> None:
    if all(outcome.error is None for outcome in outcomes):
        _folder().mkdir(parents=True, exist_ok=True)
        write_atomically(
            _folder() / f"{key}.json", json.dumps([vars(kept_outcome) for kept_outcome in outcomes]).encode()
        )
