"""Climbs of the scripted engine: clean ones pass, and every fault is found where it belongs."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.scripted.engine import Fault, Kind, ScriptedEngine
from upright.app.pages.evidence_page import evidence_page
from upright.evidence.report.page import _passed_words
from upright.evidence.report.views import ladder
from upright.facts.records.evidence import Evidence, Observation
from upright.proof.ladder import sandbox
from upright.proof.ladder.detectable_rates import samples_to_see
from upright.proof.ladder.ladder import Listener, _Climb, prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.rung import LadderRung, ProofContext, ProofOptions, ProofTarget
from upright.proof.ladder.rungs import clients, tools
from upright.serving.endpoint.client import Answer, Endpoint


def climb(engine: ScriptedEngine, to: str = "task", samples: int = 1, **options: object) -> Evidence:
    target = ProofTarget("scripted", "server:scripted", engine.context_tokens, engine="scripted")
    with Endpoint("http://scripted", engine.model, transport=engine.transport()) as endpoint:
        return prove(target, endpoint, engine.prompts, to=to, samples=samples, **options)  # type: ignore[arg-type]


def tiny(fault: Fault | None = None, **options: object) -> ScriptedEngine:
    return ScriptedEngine(prompt_set("tiny"), fault, **options)  # type: ignore[arg-type]


def real(fault: Fault | None = None) -> ScriptedEngine:
    return ScriptedEngine(prompt_set("real"), fault, context_tokens=262_144, pool_tokens=262_144, model="Kimi-K2.6")


def told(evidence: Evidence) -> list[tuple[str, str, str, str | None]]:
    return [
        (item.rung, item.check, item.reason, item.guard) for item in evidence.observations if item.verdict == "failed"
    ]


@pytest.mark.parametrize("engine", [tiny(), real()], ids=["tiny", "real"])
def test_a_clean_engine_passes_every_rung(engine: ScriptedEngine) -> None:
    evidence = climb(engine)
    assert told(evidence) == []
    assert evidence.passed
    assert evidence.ended == "every rung that was asked for was climbed"


def test_without_isolation_code_is_not_run_and_the_ladder_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "_tried_ways", lambda: (None, "the kernel gives no namespaces"))
    evidence = climb(tiny())
    assert evidence.passed
    assert evidence.ended == "every rung that was asked for was climbed"
    assert [evidence.not_run(rung) for rung in ("smoke", "tools", "task")] == [3, 0, 1]
    assert (evidence.rung_verdict("smoke"), evidence.rung_verdict("task")) == ("passed", "skipped")
    skipped = [item for item in evidence.observations if item.verdict == "skipped"]
    reasons = {item.reason for item in skipped if item.check not in ("recipe", "template")}
    assert reasons == {"not run: no isolation for generated code (the kernel gives no namespaces)"}
    console = Console(width=120, record=True, file=StringIO())
    evidence_page(console, evidence)
    page = console.export_text()
    assert re.search(r"smoke +passed +\d+ of \d+, 3 not run", page)
    assert re.search(r"task +skipped +0 of 1, 1 not run", page)
    assert "4 not run" in _passed_words(evidence)
    assert [rung.not_run for rung in ladder(evidence) if rung.not_run] == [3, 1]


FAULTS = {
    "loops": (Fault("loop"), "boot", "loop", "a loop of"),
    "floods": (Fault("flood"), "boot", "flood", "a flood of '!'"),
    "NaN": (Fault("nan"), "boot", "logprobs", "the logprob of token 1 is nan"),
    "cut streams": (Fault("cut"), "boot", "cut", "no finish_reason"),
    "no usage": (Fault("no usage"), "boot", "usage", "tokens were not counted"),
    "wrong counts": (Fault("miscount"), "boot", "count", "the server counted"),
    "empty": (Fault("empty"), "boot", "empty", "empty answer"),
    "all in the reasoning": (Fault("reasoning only"), "boot", "reasoning-only", "all of it is in the reasoning"),
    "invalid UTF-8": (Fault("utf-8"), "boot", "utf-8", "invalid UTF-8"),
    "another language": (Fault("drift"), "boot", "drift", "Han letters"),
    "garbage": (Fault("garbage"), "boot", None, "does not say"),
    "broken JSON": (Fault("broken json"), "smoke", None, "not JSON"),
    "truncated arguments": (Fault("broken arguments"), "tools", "arguments", "are no JSON"),
    "no calls": (Fault("no call"), "tools", None, "no call, where get_weather belongs"),
    "ids of another kind": (Fault("other ids"), "tools", None, "is not functions.NAME:INDEX"),
    "leaked tokens": (Fault("leak", over_tokens=40), "boot", "leak", "<|tool_calls_section_begin|>"),
    "prompts cut quietly": (Fault("truncate", over_tokens=1_200), "context", None, "it cut them"),
    "garbage beyond 1,200 tokens": (Fault("garbage", over_tokens=1_200), "context", None, "says "),
    "!!!! beyond 1,200 tokens": (Fault("flood", over_tokens=1_200), "context", "flood", "a flood of '!'"),
    "garbage in a full cache": (Fault("garbage", over_usage=0.9), "context", None, "says "),
    "dies": (Fault("disconnect", after_requests=12), "smoke", None, "cannot be reached"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_found_in_its_rung(name: str) -> None:
    fault, rung, guard, reason = FAULTS[name]
    failed = told(climb(tiny(fault)))
    assert failed, "nothing was noticed"
    assert {item[0] for item in failed} == {rung}
    assert any(guard in (item[3], None) and reason in item[2] for item in failed), failed


def test_counts_are_checked_without_a_tokenizer_too() -> None:
    evidence = climb(tiny(has_tokenizer=False), to="boot")
    assert evidence.passed
    assert "adds" in next(item.reason for item in evidence.observations if item.check == "token count")


def test_a_full_cache_is_really_full() -> None:
    """The scripted pool holds one request; the gauge must have seen over 90 % of it."""
    evidence = climb(tiny(), to="context")
    full = [item for item in evidence.observations if item.check == "full cache"]
    assert full
    assert all(item.verdict == "passed" and item.measured["cache_usage"] > 0.9 for item in full)


def test_a_cache_that_cannot_be_filled_is_said_so() -> None:
    evidence = climb(tiny(pool_tokens=4_096 * 75), to="context")
    full = [item for item in evidence.observations if item.check == "full cache"]
    assert {item.verdict for item in full} == {"unsupported"}
    assert "more would be needed at once" in full[0].reason


class _Forgets(ScriptedEngine):
    """Right, but for numbers in the middle of a text; `once` if it knows them when it is asked again."""

    once = False

    def _needle(self, ask: str, text: str) -> str:
        said = super()._needle(ask, text)
        again = self.once and not ask.startswith(prompt_set("tiny").needles.lead)
        return "I forgot." if 0.4 < text.find(said) / len(text) < 0.6 and not again else said


def test_a_hole_in_the_middle_is_not_passed_by_needles_elsewhere() -> None:
    """A small model may lose one, which is no pass either; the second fails. With no such leave the first does."""
    evidence = climb(_Forgets(prompt_set("tiny")), to="context")
    lost = [item for item in evidence.observations if item.measured.get("misses") == 2]
    assert [(item.probe, item.verdict) for item in lost] == [
        ("needle 2048 depth 0.5", "unsupported"),
        ("needle 3072 depth 0.5", "failed"),
    ]
    assert "says 'I forgot.'" in lost[1].reason
    assert evidence.ended == "context failed"
    tiny_set = prompt_set("tiny")
    strict = tiny_set.model_copy(update={"needles": tiny_set.needles.model_copy(update={"may_lose": 0})})
    failed = [item for item in climb(_Forgets(strict), to="context").observations if item.verdict == "failed"]
    assert [item.probe for item in failed] == ["needle 2048 depth 0.5"]
    assert prompt_set("real").needles.may_lose == 0


def test_a_needle_that_is_missed_once_is_asked_for_again_and_told() -> None:
    engine = _Forgets(prompt_set("tiny"))
    engine.once = True
    evidence = climb(engine, to="context")
    assert evidence.passed
    missed = [item for item in evidence.observations if item.measured.get("misses")]
    assert [item.probe for item in missed] == [f"needle {length} depth 0.5" for length in (2048, 3072, 4096)]
    assert all(", after a miss: says 'I forgot.'" in item.reason for item in missed)


RARE = 0.005


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rung"), [("broken json", "smoke"), ("broken arguments", "tools")])
def test_a_rare_fault_is_seen_whenever_it_is_there(kind: Kind, rung: str) -> None:
    """0.5 % of answers: 598 samples hold one with 95 % (the binomial law); each one that they hold is noticed."""
    needed = samples_to_see(RARE)
    assert needed == 598
    prompts = prompt_set("tiny")
    rows = [row for row in prompts.smoke if row.check == "json"] if rung == "smoke" else prompts.dialogues
    times = -(-needed // (len(rows) * (1 if rung == "smoke" else 2)))
    broken = 0
    for seed in range(2):
        evidence = climb(tiny(Fault(kind, rate=RARE), seed=seed), to=rung, samples=times)
        seen = [item for item in evidence.observations if item.rung == rung and item.response]
        assert sum(item.check == "json" or rung == "tools" for item in seen) >= needed
        there = [item.probe for item in seen if _is_cut(item)]
        assert [item.probe for item in seen if item.verdict == "failed"] == there
        broken += len(there)
    assert broken, "the seeds hold some"


def _is_cut(item: Observation) -> bool:
    """Read off the raw answer, by none of the rules that are tested here."""
    answer = Answer({}, item.response or {}, 0)
    texts = [answer.text, *(call["function"]["arguments"] for call in answer.tool_calls)]
    return any(text.startswith("{") and text.count("{") != text.count("}") for text in texts)


def test_a_server_that_dies_at_a_schema_has_not_ignored_it() -> None:
    rows = tuple(row for row in prompt_set("tiny").smoke if row.enforce_schema)
    engine = ScriptedEngine(prompt_set("tiny").model_copy(update={"smoke": rows}), Fault("disconnect"))
    evidence = climb(engine, rungs=("smoke",))
    assert [(item.check, item.verdict) for item in evidence.observations] == [("json_schema", "failed")]
    assert evidence.ended.startswith("the server is gone: ")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_clean_engines_raise_no_alarm(count: int) -> None:
    for seed in range(count):
        evidence = climb(tiny(seed=seed), to="context")
        assert evidence.passed, told(evidence)


@pytest.mark.parametrize(
    ("rung", "summary", "reason"),
    [
        (tools.RUNG, "ids", "no call was made"),
        (tools.RUNG, "figures", "no question was asked that is due a call"),
        (clients.RUNG, "for curl", "not known: the budget left out chat, bearer key"),
    ],
)
def test_what_sums_up_questions_that_were_left_out_says_nothing_of_them(
    rung: LadderRung, summary: str, reason: str
) -> None:
    """Sums cost nothing, so they fit whatever is left."""
    options = ProofOptions(prompts=prompt_set("tiny"), budget_seconds=10)
    stand = ProofContext(ProofTarget("slow", "server:slow", 4_096), Endpoint("http://nobody", "tiny"), options)
    stand.rates.learn(prefill=1_000, decode=0.1)
    ended = _Climb(stand, [rung], Listener(), seen=[]).run()
    assert {item.verdict for item in stand.observations} == {"skipped"}
    assert {item.check: item.reason for item in stand.observations}[summary] == reason
    assert ended.startswith("the budget left out ")


def test_a_budget_leaves_out_and_says_so() -> None:
    evidence = climb(real(), budget_seconds=0.0)
    left_out = [item for item in evidence.observations if item.verdict == "skipped"]
    assert {item.rung for item in left_out} >= {"smoke", "tools", "context"}
    assert all(item.reason for item in left_out)
    assert not {item.rung for item in evidence.observations if item.verdict == "passed"} - {"boot"}


class _Weak(ScriptedEngine):
    """Sound answers, and wrong ones to arithmetic and all that needs more; `knows` the plain questions if told so."""

    knows = False

    def _message(self, body: dict[str, Any]) -> dict[str, Any]:
        message, ask = super()._message(body), body["messages"][-1]["content"]
        plain = next((question for question in self.prompts.smoke if question.ask == ask), None)
        if plain is not None and (plain.check == "language" or (self.knows and plain.check == "arithmetic")):
            return message
        return {"role": "assistant", "content": "I think that the answer is 25, the sum of 17 and 8."}


def weak(*, knows: bool = False, parameters: int | None = None, to: str = "tools") -> Evidence:
    engine = _Weak(prompt_set("real"), context_tokens=16_384, pool_tokens=16_384)
    engine.knows = knows
    target = ProofTarget("scripted", "server:scripted", engine.context_tokens, parameters=parameters)
    with Endpoint("http://scripted", engine.model, transport=engine.transport()) as endpoint:
        return prove(target, endpoint, engine.prompts, to=to)


def test_weak_is_not_broken() -> None:
    """Sound answers that are wrong end no climb; what the engine itself must see to fails as ever."""
    evidence = weak(to="smoke", parameters=135_000_000)
    assert (evidence.headline, evidence.passed, evidence.able) == ("stands, but the model is weak", True, False)
    assert evidence.ended == "every rung that was asked for was climbed"
    assert evidence.reached == "smoke"
    reason = next(item.reason for item in evidence.observations if item.check == "arithmetic")
    assert reason == "said 'I think that the answer is 25, the sum of 17 and 8.', not 42"
    required = [item for item in weak().of("tools") if item.check == "required"]
    assert {item.verdict for item in required} == {"failed"}, "a call that is required is the engine's to force"


@pytest.mark.parametrize(("options", "rung"), [({"parameters": 32_000_000_000}, "smoke"), ({"knows": True}, "smoke")])
def test_an_able_model_that_is_wrong_is_broken(options: dict[str, Any], rung: str) -> None:
    """Able by its size, or by the plain questions that it answered: then no JSON and no code is the engine's fault."""
    evidence = weak(**options)
    assert (evidence.headline, evidence.ended) == ("does not stand", f"{rung} failed")
    assert evidence.able


def test_the_page_says_serves_and_able() -> None:
    for evidence, headline, serves, able in (
        (climb(tiny(), to="smoke"), "stands, up to smoke", None, None),
        (weak(to="smoke"), "stands, but the model is weak, up to smoke", "yes", "no"),
        (weak(knows=True, to="smoke"), "does not stand, up to boot", "no", None),
    ):
        console = Console(width=80, record=True, file=StringIO())
        evidence_page(console, evidence)
        page = console.export_text()
        assert headline in " ".join(page.split("\n")[:2])
        for half, answer in (("serves", serves), ("able", able)):
            seen = re.search(rf"^  {half} +(yes|no) ", page, re.MULTILINE)
            assert (seen[1] if seen else None) == answer, page
        assert max(map(len, page.splitlines())) <= 80
