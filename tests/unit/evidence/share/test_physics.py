"""The ruler is ours: what a bundle claims of its box and its clocks does not raise the ceiling."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.faults.test_attacker_claim import larger_gpu
from tests.unit.evidence.share.tampering import Tree, cells, copied, encoded, seal
from upright.evidence.share.physics import hardware
from upright.evidence.share.statement import identity_of, read_statement
from upright.evidence.share.verifying import verify
from upright.facts.records.base import from_dict
from upright.facts.records.box import Box


def heavy(bundle: Tree) -> None:
    """A model so large that no group of boxes reads it at this speed."""
    model = bundle["predicate"]["records"]["model"]
    for line in model["weights"]:
        line["bytes"] *= 10**7
    for file in model["files"]:
        file["tensor_bytes"] *= 10**7


def many_nodes(bundle: Tree) -> None:
    bundle["predicate"]["records"]["recipe"]["nodes"] = 10**12


def many_sockets(bundle: Tree) -> None:
    bundle["predicate"]["records"]["box"]["cpu"]["sockets"] = 10**12


def fast_gpu(bundle: Tree) -> None:
    larger_gpu(bundle)
    gpu = bundle["predicate"]["records"]["box"]["gpus"][0]
    gpu["name"], gpu["row"] = "NVIDIA Unheard Of", None
    gpu["memory_bandwidth_bytes_per_second"] = {"value": 9 * 10**15, "basis": "probed", "source": "itself"}


def one_piece(bundle: Tree) -> None:
    for cell in cells(bundle):
        cell["samples"]["pieces"] = [1] * len(cell["samples"]["pieces"])
        cell["tpot_seconds"] = None


@pytest.mark.parametrize("change", [many_nodes, many_sockets, fast_gpu, one_piece])
def test_no_claim_raises_the_ceiling(change: Callable[[Tree], None]) -> None:
    bundle = copied()
    heavy(bundle)
    change(bundle)
    seal(bundle)
    content = encoded(bundle)
    checks = verify(read_statement(content, "it"), identity_of(content)).checks
    assert [check.outcome for check in checks if check.code == "bandwidth"] == ["broken"], checks


def test_a_gpu_that_nobody_knows_leaves_a_claim() -> None:
    bundle = copied()
    fast_gpu(bundle)
    predicate = bundle["predicate"]
    predicate["box"]["kind"] = predicate["records"]["box"]["name"] = "1x NVIDIA Unheard Of"
    predicate["box"]["gpu"] = "NVIDIA Unheard Of"
    seal(bundle)
    content = encoded(bundle)
    verification = verify(read_statement(content, "it"), identity_of(content))
    assert [check.outcome for check in hardware(from_dict(Box, predicate["records"]["box"]))] == ["unknown"]
    assert verification.level == "claimed", verification.broken
