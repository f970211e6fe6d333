"""Questions on stdin -> an answer a line on stdout.

Each is answered in a process of its own. What one of them had to import is imported here before the next begins: of ten
seconds a question, imports are six.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import shutil
import sys
import time
from typing import Any

from .confined import confine

VARIABLES = {
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1",
    "VLLM_PLUGINS": "", "VLLM_LOGGING_LEVEL": "ERROR", "TORCHDYNAMO_DISABLE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1", "HUMMING_DISABLE_PARALLEL_BUILD": "1", "PYTHONDONTWRITEBYTECODE": "1",
}  # fmt: skip


def main() -> None:
    asked = json.load(sys.stdin)
    folder = os.getcwd()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever the engine prints is talk
    os.environ.update(VARIABLES, HOME=folder, TMPDIR=folder, XDG_CACHE_HOME=folder, TRITON_CACHE_DIR=folder)
    os.environ.setdefault("CUDA_HOME", "/nonexistent")
    lacking = confine(folder, asked["seconds"] * max(1, len(asked["questions"])), asked["memory_bytes"])
    from . import gpu as gpus
    from . import operators
    from .start import stand_in_engine
    from .verdict import missing_companions

    gpu = gpus.Gpu(**(asked["gpu"] | {"capability": tuple(asked["gpu"]["capability"])}))
    fake = operators.fake_tensors()
    gpus.stand_in(gpu)
    absent = stand_in_engine(gpu)
    missing = missing_companions()
    about = {
        "version": _version(),
        "not_confined": lacking,
        "absent": absent,
        "missing": missing,
    }
    _tell(answers, {"about": about})
    learned = os.path.join(folder, "modules.json")
    for question in asked["questions"]:
        _import(learned, fake)
        child = os.fork()
        if child == 0:
            gpu.count, gpu.memory_bytes = question["gpus"], question["memory_bytes"]
            os.environ["TMPDIR"] = folder
            resource.setrlimit(resource.RLIMIT_CPU, (asked["seconds"], asked["seconds"] + 5))
            before = set(sys.modules)
            _tell(answers, _answer(question, os.path.join(folder, "model"), fake, missing))
            with open(learned, "w") as file:
                json.dump([name for name in sys.modules if name not in before], file)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            code = os.waitstatus_to_exitcode(status)
            why = f"it ended with {code}: beyond {asked['seconds']} s of processor time or its memory"
            _tell(answers, {"name": question["name"], "verdict": "not-known", "why": why})
        shutil.rmtree(os.path.join(folder, "model"), ignore_errors=True)


def _import(learned: str, fake: Any) -> None:
    """As a question did: on fake tensors. What fails here is left to the next question."""
    import torch

    try:
        with open(learned) as file:
            names = json.load(file)
        os.unlink(learned)
    except OSError:
        return
    with fake, torch.device("cuda", 0):
        for name in names:
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def _answer(question: Any, folder: str, fake: Any, lacking: list[str]) -> dict[str, Any]:
    from .start import Asked, RefusedError, start
    from .verdict import judged

    asked, began = Asked(), time.process_time()
    answer: dict[str, Any] = {"name": question["name"], "verdict": "accepts"}
    try:
        start(question, folder, fake, asked)
    except RefusedError as refused:
        answer |= {"verdict": "refuses", "sentence": str(refused), "file": "", "line": 0}
    except BaseException as error:
        answer |= judged(error, lacking)
        if "auto_map" in question["config"] and answer["file"].startswith("vllm/transformers_utils/"):
            answer |= {"verdict": "not-known", "why": "its configuration is code of the model's, which is not run here"}
        if os.environ.get("UPRIGHT_TRACE_STAND_IN"):
            import traceback

            traceback.print_exception(error)
    return answer | {"stage": asked.stage, "facts": asked.facts, "seconds": round(time.process_time() - began, 1)}


def _version() -> str:
    import importlib.metadata

    return importlib.metadata.version("vllm").partition("+")[0]


def _tell(answers: Any, line: dict[str, Any]) -> None:
    answers.write(json.dumps(line, default=str) + "\n")
    answers.flush()
