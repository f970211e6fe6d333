"""Advice that once cost an evening or a power cycle: on the page, in the JSON, in the recipe and in `check`.

Every example goes through the four verbs as a person types them. What a planner's room decides is tested in
tests/unit/engines/constraints; here nothing may be lost on the way to a page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner, Result

from upright.app.cli.main import cli

SM120 = "8x-rtx-pro-6000-server"
COMMUNITY = "voip-glm-kimi-canonical-20260514"
NO_DCP = "constraints/vllm-sm12-sparse-mla-no-dcp"
MOST_UNIFIED = "constraints/vllm-unified-memory-most"


@dataclass(frozen=True)
class Example:
    """What four verbs say of one request."""

    request: str
    page: tuple[str, ...]
    """Sentences of `plan`."""
    absent: tuple[str, ...] = ()
    """What neither the page nor the recipe says."""
    plan: Mapping[str, object] = field(default_factory=dict)
    """Fields of the first plan of `plan --json`; a dot goes down."""
    recipe: Mapping[str, str | None] = field(default_factory=dict)
    """Flags and variables of `render --json`; None for one that is not set."""
    refused: str | None = None
    """A word of the refusal by `render` and `check`; None if both accept."""


EXAMPLES = {
    "a million tokens of sparse MLA are not had by sharing a cache": Example(
        "nvidia/GLM-5.2-NVFP4 --context 1024k --box " + SM120,
        page=("does not fit", "DCP 2, 4, 8 not offered", NO_DCP),
        plan={"fits": False, "parallel.decode_context": 1},
        refused="1,048,576 tokens",
    ),
    "DCP that a backend refuses, asked for": Example(
        f"nvidia/GLM-5.2-NVFP4 --box {SM120} --engine vllm --dcp 8",
        page=(NO_DCP, f"next: upright plan nvidia/GLM-5.2-NVFP4 --box {SM120} --engine vllm --dcp 1"),
        absent=("Other models", "fits this box"),
        plan={"fits": False, "objections.0.code": "constraint", "objections.0.remedy": "--dcp 1"},
        refused="sparse MLA",
    ),
    "unified memory keeps a reserve": Example(
        "gpt-oss-120b --box dgx-spark --engine vllm",
        page=("fits",),
        absent=("0.94", "0.9 "),
        plan={"fits": True, "memory_fraction": 0.8},
        recipe={"--gpu-memory-utilization": "0.8"},
    ),
    "unified memory, asked for too much": Example(
        "gpt-oss-120b --box dgx-spark --gpu-memory-utilization 0.94 --engine vllm",
        page=("does not fit", MOST_UNIFIED, "--gpu-memory-utilization 0.80"),
        plan={"fits": False},
        refused="0.94",
    ),
    "FP8 blocks are not cut (MiniMax M2.7)": Example(
        f"minimax-m2.7 --engine vllm --engine-version 0.31.0 --box {SM120}",
        page=("TP 8 not offered", "constraints/vllm-block-fp8-split"),
        plan={"fits": True, "parallel.tensor": 8, "parallel.expert": True},
        recipe={"--enable-expert-parallel": "", "--tensor-parallel-size": "8"},
    ),
    "FP8 blocks are not cut (Qwen3 Coder 480B)": Example(
        f"qwen3-coder-480b --engine vllm --engine-version 0.31.0 --box {SM120}",
        page=("TP 8 not offered", "constraints/vllm-block-fp8-split"),
        plan={"fits": True, "parallel.expert": True},
        recipe={"--enable-expert-parallel": ""},
    ),
    "a release that does not think has no reasoning parser": Example(
        "qwen3-235b-a22b-instruct-2507 --engine vllm --box " + SM120,
        page=("Qwen3-235B-A22B-Instruct-2507", "one user up to 262,144"),
        absent=("--reasoning-parser",),
        plan={"fits": True},
        recipe={"--reasoning-parser": None, "--tool-call-parser": "hermes"},
    ),
    "a release that thinks has one": Example(
        "Qwen/Qwen3-235B-A22B-Thinking-2507-FP8 --engine vllm --box " + SM120,
        page=("Qwen3-235B-A22B-Thinking-2507-FP8: fits",),
        plan={"fits": True, "model": "Qwen3-235B-A22B-Thinking-2507-FP8"},
        recipe={"--reasoning-parser": "qwen3"},
    ),
    "a community image is an engine of its own": Example(
        f"kimi-k2.6 --image {COMMUNITY} --box {SM120}",
        page=("vLLM 0.20.2rc1.dev249", "fp8 KV"),
        absent=("--disable-custom-all-reduce",),
        plan={"fits": True, "goal.image": COMMUNITY, "kv.dtype": "fp8"},
        recipe={
            "--disable-custom-all-reduce": None,
            "VLLM_ENABLE_PCIE_ALLREDUCE": "1",
            "LD_PRELOAD": "/opt/libnccl-pr2127.so.2.30.3",
            "VLLM_NCCL_SO_PATH": "/opt/libnccl-pr2127.so.2.30.3",
        },
    ),
    "a build without a published size is planned by its shapes": Example(
        "minimax-m2.7 --box 2x-rtx-pro-6000-workstation",
        page=("MiniMax-M2.7-NVFP4: fits",),
        plan={"fits": True, "model": "MiniMax-M2.7-NVFP4", "parallel.tensor": 2},
        recipe={"--tensor-parallel-size": "2"},
    ),
    "system RAM that nobody gave is asked for": Example(
        "kimi-k2.6 --box 2x-rtx-5090",
        page=("not known, it depends on system RAM", "about 526 GiB of system RAM are needed", "--ram 768GB"),
        absent=("16 GiB",),
        plan={"fits": False},
        refused="system RAM",
    ),
    "users belong to the placement that is shown: experts on the GPUs leave what was asked for": Example(
        "kimi-k2.6 --box 4x-rtx-pro-6000-workstation --host-memory 512 --host-bandwidth 300",
        page=("1 user x 65,536", "one user up to 262,144", "as planned: experts take", "thinking is turned off"),
        absent=("63 users", "2 users"),
        plan={"fits": True, "users_at_context": 1, "goal.users": 1},
        recipe={"--parallel": "1"},
    ),
    "SGLang shares a cache only with a backend that returns the log-sum-exp": Example(
        f"kimi-k2.6 --engine sglang --dcp 8 --box {SM120}",
        page=("DCP8",),
        plan={"fits": True, "parallel.decode_context": 8},
        recipe={"--dcp-size": "8", "--attention-backend": "flashinfer"},
    ),
    "sparse MLA on B200 takes the type of its fast backend": Example(
        "glm-5.2 --engine vllm --box hgx-b200",
        page=("fp8_e4m3 KV",),
        absent=("fp8_ds_mla",),
        plan={"fits": True, "kv.dtype": "fp8_e4m3"},
        recipe={"--kv-cache-dtype": "fp8_e4m3"},
    ),
    "NVFP4 is not the first choice on Hopper": Example(
        "glm-5.2 --engine vllm --box hgx-h200",
        page=("GLM-5.2-FP8 as its maker published it",),
        absent=("NVFP4",),
        plan={"fits": True, "model": "GLM-5.2-FP8"},
        recipe={"serve": "zai-org/GLM-5.2-FP8", "--kv-cache-dtype": "fp8_ds_mla"},
    ),
    "fp8 of an indexer model is its packed layout": Example(
        "glm-5 --engine vllm --kv-dtype fp8 --box hgx-h200",
        page=("61,464 B/token",),
        absent=("55,224",),
        plan={"kv.bytes_per_token": 61_464},
        recipe={"--kv-cache-dtype": "fp8"},
    ),
    "DCP is a step with its price, and drift is said": Example(
        f"kimi-k2.6 --engine vllm --dcp 8 --box {SM120}",
        page=(
            "DCP 8 costs 3% of decode",
            "constraints/vllm-dcp-kimi-drift",
            "upright prove --only context",
            "published",
        ),
        plan={"fits": True, "parallel.decode_context": 8},
        recipe={"--decode-context-parallel-size": "8"},
    ),
    "DCP is no default": Example(
        f"kimi-k2.6 --engine vllm --box {SM120}",
        page=("the context rung accepts it or not", "published"),
        plan={"fits": True, "parallel.decode_context": 1},
        recipe={"--decode-context-parallel-size": None},
    ),
}
NAMED = pytest.mark.parametrize("name", EXAMPLES)


@cache
def said(verb: str, request: str, *options: str) -> Result:
    return CliRunner().invoke(cli, [verb, *request.split(), *options], prog_name="upright", env={"COLUMNS": "80"})


def one_line(done: Result) -> str:
    return " ".join(done.output.split())


def below(record: Any, path: str) -> object:
    for part in path.split("."):
        record = record[int(part)] if part.isdigit() else record[part]
    return record


@NAMED
def test_the_page_says_it(name: str) -> None:
    example = EXAMPLES[name]
    shown = one_line(said("plan", example.request))
    assert [sentence for sentence in example.page if sentence not in shown] == []
    assert [sentence for sentence in example.absent if sentence in shown] == []


@NAMED
def test_the_json_says_it(name: str) -> None:
    example = EXAMPLES[name]
    first = json.loads(said("plan", example.request, "--json").stdout)["plans"][0]
    assert {path: below(first, path) for path in example.plan} == dict(example.plan)


@NAMED
def test_the_recipe_obeys_it(name: str) -> None:
    example = EXAMPLES[name]
    done = said("render", example.request, "--json")
    if example.refused is not None:
        assert done.exit_code == 1
        assert example.refused in one_line(done)
        return
    recipe = json.loads(done.stdout)
    settings = {setting["name"]: setting["value"] or "" for setting in (*recipe["arguments"], *recipe["environment"])}
    assert {flag: settings.get(flag) for flag in example.recipe} == dict(example.recipe)
    command = one_line(said("render", example.request))
    assert [sentence for sentence in example.absent if sentence in command] == []


@NAMED
def test_check_repeats_it(name: str) -> None:
    example = EXAMPLES[name]
    done = said("check", example.request)
    if example.refused is not None:
        assert done.exit_code == 1
        assert example.refused in one_line(done)
    else:
        assert done.exit_code == 0
        assert " 0 refused" in one_line(done)
