"""The rung `clients` on a server over HTTP: a whole one passes, each planted fault of the protocol is named."""

from __future__ import annotations

import httpx2
import pytest

from tests.scripted.protocol import FAULTS, KEY, MODEL, Fault, serving
from upright.engines import ENGINES
from upright.facts.records.evidence import Evidence
from upright.facts.records.recipe import Recipe
from upright.proof.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import ProofContext, ProofOptions, ProofTarget
from upright.proof.ladder.rungs.clients import CHECKS
from upright.serving.connect import CLIENTS
from upright.serving.connect.client_trial import tried
from upright.serving.connect.requirements import all_requirements, client_verdict
from upright.serving.connect.served_model import ServedModel
from upright.serving.endpoint.client import Endpoint


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Forty servers need not each be asked by 32 at once."""
    if "fault" in request.fixturenames:
        monkeypatch.setattr("upright.proof.ladder.conformance.connections._AT_ONCE", 2)
        monkeypatch.setattr("upright.proof.ladder.conformance.connections._LEFT", 1)


def climbed(fault: Fault | None, context_tokens: int = 8_192) -> Evidence:
    with serving(fault) as url, Endpoint(url, MODEL, key=KEY, timeout_seconds=10) as endpoint:
        target = ProofTarget("scripted", "server:0", context_tokens=context_tokens)
        return prove(target, endpoint, prompt_set("tiny"), rungs=["clients"])


def test_a_whole_server_passes() -> None:
    seen = climbed(None, 65_536).observations
    assert [item for item in seen if item.verdict != "passed"] == []
    assert [item.check for item in seen] == [*CHECKS, *(f"for {client}" for client in CLIENTS)]
    assert {item.reason for item in seen if item.check.startswith("for ")} == {"works"}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.words)
def test_a_planted_fault_is_named(fault: Fault) -> None:
    wrong = {item.check: item for item in climbed(fault).observations if item.verdict != "passed"}
    named = {check: item for check, item in wrong.items() if not check.startswith("for ")}
    parallel = named.pop("parallel", None)
    assert (parallel is not None) == (fault.protocol == "chat" and fault.stream == "text")
    ((check, seen),) = named.items()
    assert check == f"{fault.protocol} {'stream' if fault.stream == 'text' else 'tools'}"
    assert fault.words in seen.reason
    assert seen.verdict == ("unsupported" if fault.protocol == "responses" else "failed")
    assert ("for zed" in wrong) == (fault.protocol == "chat"), "it speaks nothing else"
    assert "for curl" not in wrong, "one whole request is all it needs"


def test_a_key_that_is_read_from_one_header_alone_is_a_setting() -> None:
    with serving(headers=("Authorization",)) as url, Endpoint(url, MODEL, key=KEY, timeout_seconds=10) as endpoint:
        target = ProofTarget("scripted", "server:0", context_tokens=65_536)
        evidence = prove(target, endpoint, prompt_set("tiny"), rungs=["clients"])
    seen = {item.check: item for item in evidence.observations}
    assert evidence.passed
    assert seen["x-api-key"].reason == "HTTP 401: the key is not read from x-api-key"
    assert "ANTHROPIC_AUTH_TOKEN" in seen["for claude-code"].reason
    assert seen["for zed"].reason == "works"


@pytest.mark.parametrize(("judges", "verdict"), [(True, "passed"), (False, "failed")])
def test_keys_are_judged_where_there_is_no_messages_api(judges: bool, verdict: str) -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path != "/v1/chat/completions":
            return httpx2.Response(404)
        wrong = judges and KEY not in (request.headers.get("Authorization") or request.headers.get("x-api-key"))
        return httpx2.Response(401 if wrong else 200, json={})

    with Endpoint("http://scripted", MODEL, key=KEY, transport=httpx2.MockTransport(answer)) as endpoint:
        options = ProofOptions(prompts=prompt_set("tiny"))
        stand = ProofContext(ProofTarget("scripted", "server:0", context_tokens=65_536), endpoint, options)
        found = [CHECKS[check](stand) for check in ("bearer key", "x-api-key")]
    assert [each[0] for each in found] == [verdict] * 2, found


@pytest.mark.parametrize(
    ("context", "too_large"), [(4_096, {"claude-code", "codex", "opencode", "qwen-code", "cline"})]
)
def test_a_client_whose_first_prompt_does_not_fit_does_not_work(context: int, too_large: set[str]) -> None:
    """Before, the rung said `works` of each of them, and `connect` that it will not."""
    with serving() as url, Endpoint(url, MODEL, key=KEY, timeout_seconds=10) as endpoint:
        target = ProofTarget("scripted", "server:0", context_tokens=context)
        seen = prove(target, endpoint, prompt_set("tiny"), rungs=["clients"]).observations
        fares = {item.check.removeprefix("for "): item for item in seen if item.check.startswith("for ")}
        assert {client for client, item in fares.items() if item.verdict != "passed"} == too_large
        for client in CLIENTS:
            served = ServedModel("scripted", url, MODEL, "key", context)
            assert tried(endpoint, CLIENTS[client](served), {}).works == (client not in too_large)
    assert "its first prompt has about 11,457 tokens" in fares["claude-code"].reason


@pytest.mark.parametrize("engine", [None, *ENGINES])
def test_a_prompt_that_is_too_long_is_sent_only_where_it_can_be_refused(engine: str | None) -> None:
    """An engine without a limit reads it to its end, for minutes in which nothing else is answered."""
    context, sent = 512, list[int]()

    def refuse(request: httpx2.Request) -> httpx2.Response:
        sent.append(len(request.content.split()))
        return httpx2.Response(400, json={"type": "error", "error": {"message": "the prompt is too long"}})

    with Endpoint("http://scripted", MODEL, transport=httpx2.MockTransport(refuse)) as endpoint:
        target = ProofTarget("scripted", "server:0", context_tokens=context, engine=engine)
        stand = ProofContext(target, endpoint, ProofOptions(prompts=prompt_set("tiny")))
        verdicts = [CHECKS[check](stand)[0] for check in ("long prompt", "messages errors")]
    refused = engine is None or ENGINES[engine].http.limits_context
    assert verdicts == (["passed"] * 2 if refused else ["unsupported"] * 2)
    assert [words > context for words in sent] == ([True] * 2 if refused else [])


def test_nothing_follows_from_what_an_engine_does_not_have() -> None:
    """Of one that takes no key and counts nothing, neither is a fault for which a client does not work."""
    recipe = Recipe(
        engine="any", engine_version=None, runtime="process", program="/bin/true", arguments=(), model_path="/m",
        served_name=MODEL, host="127.0.0.1", port=8000, context_tokens=65_536, users=1, health_path="/health",
        metrics_path=None,
    )  # fmt: skip
    answers = httpx2.MockTransport(lambda request: httpx2.Response(404 if request.method == "GET" else 200, json={}))
    with Endpoint("http://scripted", MODEL, key=KEY, transport=answers) as endpoint:
        target = ProofTarget("scripted", "recipe:0", context_tokens=65_536, recipe=recipe)
        stand = ProofContext(target, endpoint, ProofOptions(prompts=prompt_set("tiny")))
        found = {check: CHECKS[check](stand)[0] for check in ("bearer key", "x-api-key", "cancelled")}
    assert set(found.values()) == {"skipped"}
    assert [row.client for row in all_requirements() if client_verdict(row, found).outcome != "works"] == []
