"""Records of a deployment -> the same records without paths, names, prompts and answers.

What is not there cannot leak: each record keeps the fields that a reader can check, and the rest is taken out by field
before any pattern looks for what a pattern can find. Digests are made anew along the line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, TypeVar

from upright.base.bounds.bounded_json import parse_json
from upright.facts.records.base import Figure, Part
from upright.facts.records.benchmark import Benchmark, Cell
from upright.facts.records.box import Box
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import KEY, KEY_CONFIG, KEY_FILE, PASSED_VALUE, UNKNOWN_FOLDER, Recipe, Setting
from upright.facts.records.residuals import Residuals

P = TypeVar("P", bound=Part)
_PATH = re.compile(r"(?<![\w/.~\]])~?/[^\s,;:()]+")
_EVERYWHERE = re.compile(r"/proc/[a-z]+|/sys/devices/system/[a-z0-9_/]+|/props|/metrics")
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
    gpus = tuple(_without_paths(gpu).model_copy(update={"bus_id": None}) for gpu in box.gpus)
    engines = tuple(
        install.model_copy(update={"program": _name(install.program), "flags": None}) for install in box.engines
    )
    return _without_paths(box).model_copy(
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
    changes = {
        recipe.served_name: recipe.served_name, recipe.model_path: _weights(recipe), recipe.host: HOST,
        str(recipe.port): str(PORT), **({recipe.draft: _name(recipe.draft)} if recipe.draft else {}),
    }  # fmt: skip
    return recipe.model_copy(
        update={
            "made_from": (), "program": _name(recipe.program), "circumstances": circumstances,
            "arguments": tuple(plain_setting(setting, changes) for setting in recipe.arguments),
            "environment": tuple(plain_setting(setting, {}) for setting in recipe.environment),
            "image": plain_image(recipe.image), "packages": tuple(map(plain_package, recipe.packages)),
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


def _without_paths(part: P) -> P:
    """Figures say where they were read; of paths only those that every machine has."""
    changes: dict[str, object] = {}
    for name in type(part).model_fields:
        branch = getattr(part, name)
        if isinstance(branch, Figure) and branch.source is not None:
            changes[name] = branch.model_copy(update={"source": _PATH.sub(_kept_path, branch.source)})
        elif isinstance(branch, Part):
            changes[name] = _without_paths(branch)
        elif isinstance(branch, tuple):
            changes[name] = tuple(_without_paths(leaf) if isinstance(leaf, Part) else leaf for leaf in branch)
    return part.model_copy(update=changes)


def _kept_path(path: re.Match[str]) -> str:
    return path[0] if _EVERYWHERE.fullmatch(path[0]) else "[path]"


def _weights(recipe: Recipe) -> str:
    return recipe.model_path if _is_repository(recipe.model_path) else _name(recipe.model_path)


def _is_repository(path: str) -> bool:
    return path.count("/") == 1 and not path.startswith((".", "/", "~")) and not path.endswith(".gguf")


def _name(path: str) -> str:
    """The last part of a path; a repository of the hub is none."""
    if _is_repository(path) or path.startswith(UNKNOWN_FOLDER):
        return path
    return PurePosixPath(path).name or path


REDACTED = "[redacted]"
_STANDING = frozenset({KEY_FILE, KEY, KEY_CONFIG, PASSED_VALUE, REDACTED})
_PLAIN = re.compile(r"[A-Za-z0-9._+-]{1,40}(?:[,=][A-Za-z0-9._+-]{1,40}){0,15}")
_NUMBER = re.compile(r"[+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?|true|false", re.IGNORECASE)
_TENSORS = re.compile(r"[A-Za-z0-9._=,+*()\\|\[\]^$-]{1,200}")
_SECRET = re.compile(
    r"key|token(?!s|iz)|passw|passphrase|pwd|secret|credential|auth(?!or)|cookie|bearer", re.IGNORECASE
)
_ADDRESS = re.compile(
    r"(?:^|[-_.])(?:host|hosts|hostname|addr|address|ip|url|uri|endpoint|peer|peers|proxy|rpc|domain|origins?|user)"
    r"(?:$|[-_.])|addr",
    re.IGNORECASE,
)
_HOST_LIKE = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
_FILE = re.compile(r"\.(?:gguf|jinja|json|yaml|yml|toml|safetensors|txt|py|cfg)$")
_REGISTRIES = frozenset({"docker.io", "ghcr.io", "quay.io", "nvcr.io"})
_PACKAGE = re.compile(r"[A-Za-z0-9._-]{1,80}(?:\[[A-Za-z0-9,._-]{1,80}\])?(?:[=<>!~]=?=?[A-Za-z0-9.+!*_-]{1,60})?")
_DEEPEST = 8


def plain_setting(setting: Setting, changes: Mapping[str, str]) -> Setting:
    """Why it is there may be a person's own words; `upright explain` has ours."""
    name, equals, inside = setting.name.partition("=")
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,80}", name):
        name = plain_text("", name, changes)
    if equals:
        name += equals + plain_text(name, inside, changes)
    text = None if setting.value is None else plain_text(name, setting.value, changes)
    return Setting(name=name, value=text, reason="")


def plain_text(name: str, text: str, changes: Mapping[str, str]) -> str:
    """The text if it is plain, the last part of a path, or that something was there."""
    if text in _STANDING:
        return text
    if _SECRET.search(name):
        return REDACTED
    if text in changes:
        return changes[text]
    if text.startswith(("{", "[")):
        return _plain_json(text, changes)
    if text.startswith(UNKNOWN_FOLDER):
        return text
    if text.startswith(("/", "~")):
        text = PurePosixPath(text).name
    if _NUMBER.fullmatch(text):
        return text
    if name in ("--override-tensor", "-ot") and _TENSORS.fullmatch(text):
        return text
    named = _ADDRESS.search(name) or (_HOST_LIKE.fullmatch(text) and not _FILE.search(text))
    return text if _PLAIN.fullmatch(text) and not named else REDACTED


def plain_image(image: str | None) -> str | None:
    """Without the host of a registry that is not everybody's."""
    if image is None:
        return None
    host, slash, rest = image.partition("/")
    private = slash and host not in _REGISTRIES and (host == "localhost" or not {".", ":"}.isdisjoint(host))
    return f"{REDACTED}/{rest}" if private else image


def plain_package(package: str) -> str:
    return package if _PACKAGE.fullmatch(package) else REDACTED


def _plain_json(text: str, changes: Mapping[str, str]) -> str:
    try:
        tree = parse_json(text)
        plain = _plain_tree("", tree, changes, 0)
    except (ValueError, RecursionError):
        return REDACTED
    return text if plain == tree else json.dumps(plain, separators=(",", ":"))


def _plain_tree(name: str, tree: Any, changes: Mapping[str, str], depth: int) -> Any:
    if depth > _DEEPEST:
        return REDACTED
    if isinstance(tree, dict):
        return {
            plain_text("", part, changes): _plain_tree(part, branch, changes, depth + 1)
            for part, branch in tree.items()
        }
    if isinstance(tree, list):
        return [_plain_tree(name, branch, changes, depth + 1) for branch in tree]
    if isinstance(tree, str):
        return plain_text(name, tree, changes) if not tree.startswith(("{", "[")) or tree == REDACTED else REDACTED
    return REDACTED if _SECRET.search(name) and not isinstance(tree, bool) else tree
