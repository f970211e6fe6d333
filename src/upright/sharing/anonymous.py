"""Records of a deployment -> the same records without paths, names, prompts and answers.

What is not there cannot leak: each record keeps the fields that a reader can check, and the rest is taken out by field
before any pattern looks for what a pattern can find. Digests are made anew along the line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from upright.records.benchmark import Benchmark, Cell
from upright.records.box import Box
from upright.records.evidence import Evidence, Observation
from upright.records.model import Model
from upright.records.plan import Plan
from upright.records.recipe import ELSEWHERE, Recipe, Setting
from upright.records.residuals import Residuals

HOST, PORT = "127.0.0.1", 8000
"""Of every shared recipe: where it answered is nobody's business, and no part of what was measured."""


def box_kind(box: Box) -> str:
    """`8x NVIDIA RTX PRO 6000`, or the processor of a box without GPUs."""
    if not box.gpus:
        return box.cpu.name
    names = list(dict.fromkeys(gpu.name for gpu in box.gpus))
    return " + ".join(f"{sum(gpu.name == name for gpu in box.gpus)}x {name}" for name in names)


def gpu_kind(box: Box) -> str | None:
    """The catalogue's row of its first GPU, or the driver's name for it."""
    first = box.gpus[0] if box.gpus else None
    return (first.row or first.name) if first else None


def shared_box(box: Box) -> Box:
    gpus = tuple(gpu.model_copy(update={"bus_id": None}) for gpu in box.gpus)
    engines = tuple(
        install.model_copy(update={"program": _name(install.program), "flags": None}) for install in box.engines
    )
    return box.model_copy(
        update={
            "name": box_kind(box), "gpus": gpus, "engines": engines, "disks": (), "model_cache": None,
            "containers": (), "settings": (), "made_from": (),
        }
    )  # fmt: skip


def shared_model(model: Model) -> Model:
    source = model.source if model.revision else _name(model.source)
    return model.model_copy(update={"source": source, "path": None, "made_from": ()})


def shared_plan(plan: Plan, model: Model, box: Box) -> Plan:
    return plan.model_copy(
        update={"box": box.name, "model": model.name, "made_from": (model.reference, box.reference), "nearest": ()}
    )


def shared_recipe(recipe: Recipe) -> Recipe:
    """The same wherever it runs: what it was made from, and where it lies and answers, are no part of it."""
    told = recipe.circumstances
    artifact = told.artifact if told else None
    circumstances = told.model_copy(update={"artifact": _name(artifact) if artifact else None}) if told else None
    changes = {recipe.model_path: _weights(recipe), recipe.host: HOST, str(recipe.port): str(PORT)}
    return recipe.model_copy(
        update={
            "made_from": (), "program": _name(recipe.program), "circumstances": circumstances,
            "arguments": tuple(_setting(setting, changes) for setting in recipe.arguments),
            "environment": tuple(_setting(setting, {}) for setting in recipe.environment),
            "model_path": _weights(recipe), "draft": _name(recipe.draft) if recipe.draft else None,
            "host": HOST, "port": PORT, "image_about": None, "notes": (),
        }
    )  # fmt: skip


def shared_residuals(residuals: Residuals, plan: Plan) -> Residuals:
    return residuals.model_copy(
        update={"made_from": (plan.reference,), "deployment": plan.model, "box": plan.box, "model": plan.model}
    )


def shared_evidence(evidence: Evidence, name: str, digest: str, *, was: str) -> Evidence:
    """Verdicts and figures; questions by their names alone, and nothing of what was answered."""
    seen = tuple(
        _observation(observation, digest)
        for observation in evidence.observations
        if observation.subject in (None, f"recipe:{was}")
    )
    return evidence.model_copy(
        update={
            "made_from": (f"recipe:{digest}",), "deployment": name, "observations": seen,
            "ended": None, "steps": (),
        }
    )  # fmt: skip


def shared_benchmark(benchmark: Benchmark, name: str, digest: str, *, was: str) -> Benchmark | None:
    """Cells of this recipe; None if there are none."""
    cells = tuple(_cell(cell, digest) for cell in benchmark.cells if cell.recipe == was)
    if not cells:
        return None
    return benchmark.model_copy(
        update={
            "made_from": (f"recipe:{digest}",), "title": name, "deployment": None, "base_url": None,
            "model": name, "cells": cells, "subjects": {}, "skipped": (), "finding": None,
        }
    )  # fmt: skip


def _cell(cell: Cell, digest: str) -> Cell:
    return cell.model_copy(update={"recipe": digest, "error_samples": {}})


def _observation(observation: Observation, digest: str) -> Observation:
    return observation.model_copy(
        update={"request": {}, "response": None, "reason": observation.verdict, "subject": f"recipe:{digest}"}
    )


def _setting(setting: Setting, changes: Mapping[str, str]) -> Setting:
    """Why it is there may be a person's own words; `upright explain` has ours."""
    text = setting.value
    if text is not None and text in changes:
        text = changes[text]
    elif text is not None and text.startswith(("/", "~")):
        text = _name(text)
    return Setting(name=setting.name, value=text, reason="")


def _weights(recipe: Recipe) -> str:
    return recipe.model_path if _is_repository(recipe.model_path) else _name(recipe.model_path)


def _is_repository(path: str) -> bool:
    return path.count("/") == 1 and not path.startswith((".", "/", "~")) and not path.endswith(".gguf")


def _name(path: str) -> str:
    """The last part of a path; a repository of the hub is none."""
    if _is_repository(path) or path.startswith(ELSEWHERE):
        return path
    return PurePosixPath(path).name or path
