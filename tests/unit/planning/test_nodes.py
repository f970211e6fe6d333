"""Several boxes as one model, or a replica on each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from tests import recipes
from upright.app.cli.main import cli
from upright.base.errors import UsageError
from upright.facts.catalog import links
from upright.facts.records.model import Model
from upright.facts.records.plan import Goal, Plan
from upright.planning.choosing import plan
from upright.planning.choosing.multi_node import joined_boxes, network


def kimi() -> Model:
    return next(model for model in recipes.artifacts() if model.name == "Kimi-K2.6")


def planned(box: str, **wishes: object) -> Plan:
    return plan(recipes.box(box), kimi(), Goal(engine="vllm", **wishes))[0]  # type: ignore[arg-type]


def test_two_boxes_hold_what_one_cannot() -> None:
    alone = planned("4x-rtx-pro-6000-workstation")
    both = planned("4x-rtx-pro-6000-workstation", nodes=2, link="ethernet-100g")
    assert not alone.fits
    assert both.fits
    assert (both.parallel.tensor, both.parallel.pipeline, both.parallel.nodes) == (4, 2, 2)
    assert len(both.budgets) == 8
    (note,) = [note for note in both.notes if note.code in ("one-model", "replicas")]
    assert note.code == "one-model"
    assert "one box cannot hold it" in note.message


def test_what_fits_on_one_box_is_better_as_replicas() -> None:
    alone, both = planned("hgx-b200-lambda"), planned("hgx-b200-lambda", nodes=2)
    assert alone.fits
    assert both.fits
    (note,) = [note for note in both.notes if note.code in ("one-model", "replicas")]
    assert note.code == "replicas"
    # The weights are there once, not twice: the cache is more than twice as large.
    assert both.kv.low_tokens > 2 * alone.kv.low_tokens
    assert alone.speed is not None
    assert both.speed is not None
    assert (both.speed.decode.best or 0) <= (alone.speed.decode.best or 0)


def test_the_network_is_a_term_of_the_step() -> None:
    near, far = (planned("hgx-b200-lambda", nodes=2, link=link) for link in ("infiniband-400g", "ethernet-10g"))
    terms = [
        term.milliseconds
        for found in (near, far)
        if found.speed
        for term in found.speed.terms
        if term.term == "network"
    ]
    assert len(terms) == 2
    # Two messages of 7168 x 2 bytes: latency, and little else.
    assert terms[0] == pytest.approx(2 * (4e-3 + 7168 * 2 / 400e6), rel=0.02)
    assert terms[1] > 10 * terms[0]
    assert near.speed is not None
    assert far.speed is not None
    assert near.speed.decode.best is not None
    assert far.speed.decode.best is not None
    assert near.speed.decode.best >= far.speed.decode.best
    assert near.speed.basis == "derived"
    assert "links/infiniband-400g" in near.speed.why


def test_ranks_across_boxes_pay_for_every_layer() -> None:
    stages = planned("hgx-b200-lambda", nodes=2, link="ethernet-100g")
    ranks = planned("hgx-b200-lambda", nodes=2, link="ethernet-100g", tensor_parallel=16)
    assert (ranks.parallel.tensor, ranks.parallel.pipeline) == (16, 1)
    assert stages.speed is not None
    assert ranks.speed is not None
    (slow,) = [term for term in ranks.speed.terms if term.term == "network"]
    assert "123 all-reduces" in slow.why
    assert slow.milliseconds > 12
    assert (stages.speed.decode.best or 0) > (ranks.speed.decode.best or 0)


def test_gpus_and_wires_are_those_of_every_box() -> None:
    one = recipes.box("hgx-b200-lambda")
    two = joined_boxes(one, 2)
    assert [gpu.index for gpu in two.gpus] == list(range(16))
    assert len(two.links) == 2 * len(one.links)
    assert all(link.a // 8 == link.b // 8 for link in two.links)
    assert two.name == f"2 x {one.name}"


def test_misuse_says_what_would_be_right() -> None:
    with pytest.raises(UsageError, match="no network named pcie5-p2p-same-numa") as caught:
        network("pcie5-p2p-same-numa")
    assert caught.value.hint is not None
    assert "infiniband-400g" in caught.value.hint
    with pytest.raises(UsageError, match="between boxes"):
        planned("hgx-b200-lambda", link="ethernet-100g")
    with pytest.raises(UsageError, match="at least one box"):
        planned("hgx-b200-lambda", nodes=0)


def test_llama_cpp_serves_from_one_box() -> None:
    model = next(model for model in recipes.artifacts() if model.format == "gguf")
    found = plan(recipes.box("hgx-b200-lambda"), model, Goal(nodes=2))[0]
    assert "one-box" in {objection.code for objection in found.objections}


def test_every_network_has_a_latency_and_a_bandwidth() -> None:
    rows = [row for row in links() if row.path == "network"]
    assert len(rows) >= 4
    for row in rows:
        assert row.latency_us is not None
        assert row.bandwidth_gb_s is not None
        assert (row.latency_us.value or 0) > 0 < (row.bandwidth_gb_s.value or 0)


def asked(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(cli, ["plan", *words, "--json"])
    (best, *_) = json.loads(done.stdout)["plans"]
    return best


def test_another_artifact_is_taken_where_the_native_one_does_not_fit_two_boxes_either():
    """235 GB of native weights are too much for two machines of 128 GB, 144 GB of NVFP4 are not."""
    best = asked("qwen3-235b-a22b", "--box", "dgx-spark", "--nodes", "2")
    assert best["fits"]
    assert "NVFP4" in best["model"]
    assert best["parallel"]["nodes"] == 2


@pytest.mark.parametrize(
    ("words", "nodes"),
    [
        (("--box", "2x-dgx-spark"), 2),
        (("--box", "2x-gb10", "--engine", "vllm"), 2),
        (("--box", "3x-m3-ultra"), 3),
        (("--box", "2x-hgx-h200"), 2),
        (("--box", "gb10", "--nodes", "2"), 2),
        (("--box", "gb10"), 1),
        (("--box", "2x-rtx-5090", "--ram", "128GB"), 1),
        (("--box", "8x-h100"), 1),
    ],
)
def test_a_name_of_several_machines_is_so_many_boxes(words: tuple[str, ...], nodes: int):
    """A GPU that shares its system's memory is a machine of its own, whatever its name says of how many."""
    best = asked("gpt-oss-120b", *words)
    assert best["goal"]["nodes"] == nodes
    assert best["box"].startswith(f"{nodes} x ") == (nodes > 1)


def test_several_boxes_are_the_same_in_every_verb():
    wanted = asked("gpt-oss-120b", "--box", "2x-dgx-spark")
    shown = (wanted["model"], wanted["engine"], wanted["speed"]["decode"])

    def answer(*words: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)
        return content

    for box in (("--box", "2x-dgx-spark"), ("--box", "dgx-spark", "--nodes", "2")):
        assert asked("gpt-oss-120b", *box)["parallel"] == wanted["parallel"]
        (column,) = answer("compare", "gpt-oss-120b", *box)["columns"]
        assert (column["model"], column["engine"], column["decode"]) == shown
        assert column["box"] == "2 x dgx-spark"
        recommended = answer("recommend", *box, "--all")
        offer = next(one for one in recommended["offers"] if one["model"] == "gpt-oss-120b")
        assert (offer["artifact"], offer["engine"], offer["decode"]) == shown
    refused = CliRunner().invoke(cli, ["plan", "gpt-oss-120b", "--box", "2x-dgx-spark", "--nodes", "3"])
    assert "2x-dgx-spark are 2 boxes, and --nodes says 3" in str(refused.exception)


def test_a_replica_on_each_box_is_the_best_of_one():
    """One DGX Spark would take the GGUF, not the build that two of them share."""
    notes = {note["code"]: note["message"] for note in asked("gpt-oss-120b", "--box", "2x-dgx-spark")["notes"]}
    alone = asked("gpt-oss-120b", "--box", "dgx-spark")
    assert f"against {alone['speed']['decode']['best']:.0f};" in notes["one-model"]
