"""Every published run of the catalogue: its names are known or it is said why not, and its columns say what it was."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from upright.engines import ENGINES
from upright.facts import catalog
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.placement.engine_support import ranks_of
from upright.planning.speed.published import engine_of, gpu_of

RUNS = catalog.measurements()

NO_GPU = {
    "none": "a run on processors",
    "RTX 4090 48GB": "memory that its vendor never sold; its driver's name is that of the card with 24 GB",
    "2x5090+2x4090+2x3090+A6000": "several kinds in one box",
    "1 consumer GPU (14GB used)": "not said which",
    "16GB consumer GPU": "not said which",
    "2 GPUs (model not stated)": "not said which",
    "1 GPU": "not said which",
    "PCIe4 x16 GPU": "not said which",
}
NO_MODEL = {
    "DeepSeek-R1-family GGUF (~132 GiB on 2 GPUs)": "not said which of the family, nor which build",
    "DeepSeek-R1/V3": "not said which of the two",
    "DeepSeek-R1-0528 (THIREUS-6.2478)": "a mix of types of somebody's own",
    "DeepSeek-TNG-R1T2-Chimera": "a merge that the catalogue does not have",
    "step-3.5-flash": "a model that the catalogue does not have",
    "nemotron-cascade-2-30b-a3b": "a model that the catalogue does not have",
    "qwen3-4b": "a dense model that tells how fast weights are read; the catalogue does not have it",
    **dict.fromkeys(
        ("solar-open-100b", "mixtral-8x7b", "deepseek-v2-lite", "nemotron-h-30b", "hunyuan-a13b"),
        "a model that the catalogue does not have",
    ),
}
NO_ENGINE: dict[str, str] = {}

OTHER_RUNS = {"m389": "its note has the figures of two other runs, with drafts"}
_DRAFT = re.compile(r"\b(?:eagle|mtp|dflash|dspark|nextn|n-?gram|draft)", re.I)
_NO_DRAFT = re.compile(r"\b(?:no|before|without) (?:mtp|draft|speculat)", re.I)
_FP8_CACHE = re.compile(r"fp8 (?:kv|cache)|kv[- ]cache[- ]dtype fp8", re.I)


def test_every_name_is_known_or_it_is_said_why_not() -> None:
    faults = [
        *_unknown("GPU", lambda run: run.gpu, lambda run: gpu_of(run) is not None, NO_GPU),
        *_unknown("model", lambda run: run.model, _model_known, NO_MODEL),
        *_unknown("engine", lambda run: run.engine, lambda run: engine_of(run) in ENGINES, NO_ENGINE),
    ]
    assert not faults, "\n".join(faults)


def _unknown(
    what: str, name: Callable[[MeasurementRow], str], known: Callable[[MeasurementRow], bool], listed: dict[str, str]
) -> Iterator[str]:
    left = dict(listed)
    for run in RUNS:
        if known(run):
            if name(run) in listed:
                yield f"{run.id}: the {what} {name(run)} is known, and listed as not"
        elif name(run) not in listed:
            yield f"{run.id}: no row of the catalogue is the {what} {name(run)}"
        left.pop(name(run), None)
    yield from (f"no run has the {what} {unused}" for unused in left)


def _model_known(run: MeasurementRow) -> bool:
    return any(catalog.find_model(name) for name in (run.model, run.model.rpartition("/")[2]))


def test_columns_say_what_notes_say() -> None:
    faults = [f"{run.id}: {fault}" for run in RUNS if run.id not in OTHER_RUNS for fault in _left_out(run)]
    assert not faults, "\n".join(faults)


def _left_out(run: MeasurementRow) -> Iterator[str]:
    said = f"{run.notes or ''}; {run.flags or ''}"
    if run.speculation in (None, "none") and _DRAFT.search(said) and not _NO_DRAFT.search(said):
        yield f"a draft is in its notes, and speculation is {run.speculation}: {said}"
    if "fp8" not in (run.kv_dtype or "") and _FP8_CACHE.search(said):
        yield f"an fp8 cache is in its notes, and kv_dtype is {run.kv_dtype}: {said}"
    planned = engine_of(run) in ENGINES and not ENGINES[engine_of(run)].by_name_only
    if planned and ranks_of(engine_of(run)) and (run.gpu_count or 0) > 1 and not run.parallelism:
        yield f"{run.engine} on {run.gpu_count} GPUs, and not how they share the work"


def test_a_guides_figures_come_with_the_settings_of_its_command() -> None:
    """lambda.ai's command has --tensor-parallel-size 8, --kv-cache-dtype fp8, no prefix caching and a draft."""
    run = next(run for run in RUNS if run.id == "m311")
    assert (run.parallelism, run.speculation, run.kv_dtype) == ("TP8", "EAGLE3 k=3", "fp8")
    assert "--no-enable-prefix-caching" in (run.flags or "")
    assert run.engine_version == "vllm/vllm-openai:cu130-nightly"
