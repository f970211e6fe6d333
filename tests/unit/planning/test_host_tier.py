"""System RAM behind the KV cache: counted, refused where it is not there, in the recipe by the engine's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.recipes import box
from upright.base.units import GIB
from upright.engines import ENGINES
from upright.facts.catalog.recorded_flags import recorded_flags, recorded_versions
from upright.facts.records.loading import load
from upright.facts.records.plan import DeviceBudget, Plan
from upright.planning.choosing.agent_cache import WARM
from upright.planning.placement.host_tier import DISK, TIER, with_host_cache

KIMI = ("kimi-k2.6", "--box", "8x-rtx-pro-6000-server", "--ram", "1024")
GPT = ("gpt-oss-20b", "--box", "1x-rtx-4090", "--ram", "96", "--engine", "llama.cpp")


def planned(upright: Upright, *words: str | Path) -> dict[str, Any]:
    return json.loads(upright("plan", *words, "--json").stdout)["plans"][0]


def settings(upright: Upright, *words: str | Path) -> dict[str, str | None]:
    recipe = json.loads(upright("render", *words, "--json").stdout)
    return {setting["name"]: setting["value"] for setting in recipe["arguments"]}


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        ((*KIMI, "--engine", "vllm"), {"--kv-offloading-size": "400"}),
        ((*KIMI, "--engine", "vllm", "--engine-version", "0.31.0"), {"--kv-offloading-size": "400"}),
        ((*KIMI, "--engine", "sglang"), {"--enable-hierarchical-cache": None, "--hicache-size": "53"}),
        ((*GPT, "--ram", "512"), {"--cache-ram": "409600"}),
    ],
)
def test_the_recipe_has_the_engines_own_words(upright: Upright, words: tuple[str, ...], flags: dict[str, str | None]):
    without, having = settings(upright, *words), settings(upright, *words, "--host-cache", "400")
    assert {name: having[name] for name in having if name not in without} == flags
    assert "accepted" in upright("check", *words, "--host-cache", "400").stdout


@pytest.mark.parametrize("engine", [name for name, engine in ENGINES.items() if engine.tiers is not None])
def test_every_recorded_version_takes_the_words(engine: str):
    """Where the switch is there the size is too; a version without it is offered nothing."""
    tiers = ENGINES[engine].tiers
    assert tiers is not None
    versions = [flags for version in recorded_versions(engine) if (flags := recorded_flags(engine, version))]
    assert all(tiers.flag in flags for flags in versions)


def test_its_bytes_are_counted_against_system_ram(upright: Upright):
    plan = planned(upright, *KIMI, "--host-cache", "103")
    (line,) = [line for line in plan["ledger"] if line["term"] == "host_cache"]
    assert (line["device"], line["bytes"]) == ("host", 103 * GIB)
    (note,) = [note["message"] for note in plan["notes"] if note["code"] == TIER]
    assert "keep 3 more conversations" in note
    assert "one more GiB keeps 1,909 more tokens" in note


def test_agents_are_counted_by_tier(upright: Upright):
    def told(agents: str) -> dict[str, str]:
        notes = planned(upright, *KIMI, "--host-cache", "103", "--agents", agents)["notes"]
        return {note["code"]: note["message"] for note in notes if note["code"] in (WARM, DISK)}

    assert told("5") == {WARM: "5 agents, 65,536 tokens each: 2 stay warm in the KV cache, 3 in system RAM"}
    assert "2 stay warm in the KV cache, 3 in system RAM, 1 is read again" in told("6")[WARM]
    assert "what it is worth here is not known" in told("6")[DISK]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        ((*GPT, "--host-cache", "120"), "host-cache-too-large", "120 GiB of system RAM are asked for"),
        ((*KIMI, "--engine", "sglang", "--host-cache", "2"), "host-cache-too-small", "the engine refuses that"),
        ((*KIMI, "--engine", "ktransformers", "--host-cache", "2"), "no-host-cache", "is not known"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(upright: Upright, words: tuple[str, ...], code: str, told: str):
    plan = planned(upright, *words)
    objections = {objection["code"]: objection for objection in plan["objections"]}
    assert told in objections[code]["message"]
    remedy = objections[code]["remedy"].split()
    if remedy[0] == "--host-cache":
        assert f"next: upright plan {words[0]}" in upright("plan", *words).stderr
        assert planned(upright, *words[:-2], *remedy)["objections"] == []


def test_without_a_gpu_vllm_has_none(upright: Upright, tmp_path: Path):
    file = tmp_path / "plan.json"
    upright("plan", *KIMI, "--engine", "vllm", "-o", file)
    plan = load(file, Plan)
    ram = DeviceBudget(device="host", capacity_bytes=64 * GIB, basis="assumed", why="no GPU here")
    (objection,) = with_host_cache(plan.model_copy(update={"budgets": (ram,)}), box(KIMI[2]), 8 * GIB).objections
    assert objection.code == "no-host-cache"
    assert "GPUs only" in objection.message


def test_a_plans_file_keeps_it(upright: Upright, tmp_path: Path):
    file = tmp_path / "plan.json"
    upright("plan", *KIMI, "--engine", "vllm", "--host-cache", "103", "-o", file)
    assert settings(upright, file)["--kv-offloading-size"] == "103"


def test_ram_that_is_not_specified_is_not_counted_and_that_is_told(upright: Upright):
    (note,) = [note for note in planned(upright, *KIMI[:3], "--host-cache", "64")["notes"] if note["code"] == TIER]
    assert "how much RAM is free is not known" in note["message"]
