"""The rung `clients` on a server over HTTP: a whole one passes, each planted fault of the protocol is named."""

from __future__ import annotations

import pytest

from tests.scripted.protocol import FAULTS, MODEL, Fault, serving
from upright.endpoint.client import Endpoint
from upright.proving import prove
from upright.proving.prompts import prompt_set
from upright.proving.rung import Target
from upright.records.evidence import Evidence


def climbed(fault: Fault | None) -> Evidence:
    with serving(fault) as url, Endpoint(url, MODEL, timeout_seconds=10) as endpoint:
        target = Target("scripted", "server:0", context_tokens=4096)
        return prove(target, endpoint, prompt_set("tiny"), rungs=["clients"])


def test_a_whole_server_passes() -> None:
    evidence = climbed(None)
    assert {seen.verdict for seen in evidence.observations} == {"passed"}
    assert len(evidence.observations) == 11


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_a_planted_fault_is_named(fault: Fault) -> None:
    (seen,) = [seen for seen in climbed(fault).observations if seen.verdict == "failed"]
    assert fault.words in seen.reason
    assert seen.check == f"{fault.protocol} {'stream' if fault.stream == 'text' else 'tools'}"
