"""Equivalence: distances that can be worked out by hand, prompts that judge themselves, references that are hostile."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import httpx2
import pytest

from upright.base.errors import RecordError, UsageError
from upright.evidence.report.reference_distance import distance_table
from upright.facts.records.evidence import Evidence
from upright.facts.records.reference import Continuation, Reference
from upright.proof.ladder.equivalence.allowance import allowance
from upright.proof.ladder.equivalence.distance import (
    compare_prompt,
    distance,
    distance_ratio,
    divergence,
    share,
    sign_test,
)
from upright.proof.ladder.equivalence.fixed_prompts import FixedPrompts, fixed_prompts
from upright.proof.ladder.equivalence.references import (
    END,
    NoDistributionError,
    continuation_of,
    reference_for,
    save_reference,
)
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import SETS, prompt_set
from upright.proof.ladder.rules import judge
from upright.proof.ladder.rung import ProofTarget
from upright.serving.endpoint.client import Answer, Endpoint

TINY = prompt_set("tiny")


def step(**chances: float) -> tuple[tuple[str, float], ...]:
    return tuple((token, math.log(chance)) for token, chance in chances.items())


def continued(*steps: tuple[tuple[str, float], ...], prompt: str = "p") -> Continuation:
    return Continuation(prompt=prompt, text="".join(tokens[0][0] for tokens in steps), steps=steps)


def test_the_divergence_of_whole_distributions_is_exact() -> None:
    ours, theirs = step(a=0.5, b=0.3, c=0.2), step(a=0.4, b=0.4, c=0.2)
    exact = 0.5 * math.log(0.5 / 0.4) + 0.3 * math.log(0.3 / 0.4)
    assert divergence(ours, theirs) == pytest.approx(exact, abs=1e-6)
    assert divergence(ours, ours) == pytest.approx(0, abs=1e-9)


def test_the_divergence_of_the_most_likely_tokens_is_never_too_large() -> None:
    chance = random.Random(7)
    for _ in range(200):
        sides = []
        for _ in range(2):
            weights = [chance.expovariate(1) ** 3 for _ in range(40)]
            sides.append({f"t{place}": weight / sum(weights) for place, weight in enumerate(weights)})
        whole = sum(p * math.log(p / sides[1][token]) for token, p in sides[0].items())
        cut = [dict(sorted(side.items(), key=lambda pair: -pair[1])[:10]) for side in sides]
        assert divergence(step(**cut[0]), step(**cut[1])) <= whole + 1e-6


def test_answers_are_compared_up_to_the_first_token_that_differs() -> None:
    ours = continued(step(a=0.9, b=0.1), step(b=0.9, a=0.1), step(c=0.9, a=0.1))
    theirs = continued(step(a=0.8, b=0.2), step(a=0.6, b=0.4), step(z=0.9, a=0.1))
    seen = compare_prompt(ours, theirs)
    assert (seen.differs_at, seen.steps) == (1, 2)
    together = distance([seen, compare_prompt(ours, ours)])
    assert (together.steps, together.differing, together.prompts) == (5, 1, 2)
    assert together.agreement.estimate == pytest.approx(4 / 5)


def test_shares_have_the_exact_interval() -> None:
    """Clopper and Pearson for 8 of 10, as in any table."""
    seen = share(8, 10)
    assert (round(seen.low, 4), round(seen.high, 4)) == (0.4439, 0.9748)
    assert share(10, 10).high == 1.0
    assert share(0, 10).low == 0.0


def test_losses_are_more_than_chance_from_seven_on() -> None:
    assert sign_test(7, 0) < 0.01 < sign_test(6, 0)
    assert sign_test(0, 0) == 1.0
    assert sign_test(7, 7) > 0.3


def test_twice_as_far_everywhere_is_twice_as_far() -> None:
    near = [10**-exponent for exponent in range(1, 6)]
    ratio = distance_ratio(near, [2 * divergence for divergence in near])
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((2.0, 2.0, 2.0))


def test_less_precision_explains_more() -> None:
    limits = [allowance((bits, 16.0)) for bits in (16.0, 8.5, 6.5, 4.9, 3.2)]
    divergences = [limit.divergence for limit in limits if limit]
    assert len(divergences) == 5
    assert divergences == sorted(divergences)
    assert allowance((8.5, 4.5)).divergence > allowance((8.5, 16.0)).divergence  # type: ignore[union-attr]
    assert allowance(()) is None
    assert allowance((1.6, 16.0)) is None, "nobody measured so few bits"


@pytest.mark.parametrize("name", SETS)
def test_prompts_have_names_of_their_own_and_samples_that_their_rules_take(name: str) -> None:
    fixed = fixed_prompts(prompt_set(name))
    names = [prompt.name for prompt in fixed.prompts]
    assert len(names) == len(set(names))
    messages = [fixed.message(prompt) for prompt in fixed.prompts]
    assert len(messages) == len(set(messages)), "each prompt is another one"
    for prompt in fixed.prompts:
        if prompt.rule:
            expect = fixed.expected(prompt)
            sample = prompt.sample.replace("{number}", str(expect))
            assert judge(prompt.rule, sample, expect) is None, prompt.name
            assert judge(prompt.rule, "!!!!!!!!", expect) is not None, prompt.name
    assert fixed.reference == fixed_prompts(prompt_set(name)).reference
    assert fixed.model_copy(update={"max_tokens": 1}).reference != fixed.reference


class Parrot:
    """A server that continues every prompt with the same tokens, and how sure it says to be."""

    def __init__(self, confident: float = 0.9, token: str = "ok", logprobs: Any = None) -> None:
        self.confident, self.token, self.logprobs = confident, token, logprobs

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/models":
            return httpx2.Response(200, json={"data": [{"id": "parrot"}]})
        if request.method == "GET":
            return httpx2.Response(404)
        likely = [{"token": self.token, "logprob": math.log(self.confident)}, {"token": "no", "logprob": -3.0}]
        content = [{**likely[0], "top_logprobs": likely}] * 4
        choice = {
            "message": {"content": self.token * 4},
            "finish_reason": "length",
            "logprobs": {"content": content} if self.logprobs is None else self.logprobs,
        }
        return httpx2.Response(200, json={"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 4}})

    def climbed(self, reference: Reference | None = None, bits: tuple[float, ...] = ()) -> Evidence:
        target = ProofTarget("parrot", "server:parrot", 4096, bits=bits)
        with Endpoint("http://parrot", "parrot", transport=httpx2.MockTransport(self)) as endpoint:
            return prove(target, endpoint, TINY, to="equivalence", rungs=("equivalence",), reference=reference)


def verdicts(evidence: Evidence) -> dict[str, str]:
    return {seen.check: seen.verdict for seen in evidence.observations if seen.check != "prompt"}


def test_a_reference_is_a_file_and_holds_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    saved = save_reference(Parrot().climbed(), path)
    assert reference_for(str(path), TINY) == saved
    assert saved.prompts == fixed_prompts(TINY).reference
    assert len(saved.continuations) == len(fixed_prompts(TINY).prompts)
    path.write_text(path.read_text().replace('"ok"', '"OK"', 1))
    with pytest.raises(RecordError, match="digest does not fit"):
        reference_for(str(path), TINY)


def test_a_reference_of_other_prompts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "reference.json"
    save_reference(Parrot().climbed(), path)
    with pytest.raises(UsageError, match="made with other prompts"):
        reference_for(str(path), prompt_set("real"))


def test_the_same_model_passes_and_another_fails(tmp_path: Path) -> None:
    reference = save_reference(Parrot().climbed(), tmp_path / "reference.json")
    same = Parrot().climbed(reference, bits=(8.5, 16.0))
    assert set(verdicts(same).values()) == {"passed"}
    unsure = Parrot(confident=0.5).climbed(reference, bits=(8.5, 16.0))
    assert verdicts(unsure) == {"divergence": "failed", "agreement": "passed", "flips": "passed"}
    other = Parrot(token="hm").climbed(reference, bits=(8.5, 16.0))
    assert verdicts(other) == {"divergence": "failed", "agreement": "failed", "flips": "passed"}
    assert set(verdicts(Parrot(token="hm").climbed(reference)).values()) == {"passed"}, (
        "of no known precision: told only"
    )
    table = distance_table([("same", same), ("unsure", unsure), ("nothing", None)])
    assert table is not None
    assert [row[0] for row in table.rows] == ["same", "unsure"]
    assert table.sentences[0].startswith("unsure is ")
    assert distance_table([("same", same)]) is None


def test_without_log_probabilities_nothing_is_claimed(tmp_path: Path) -> None:
    evidence = Parrot(logprobs={"content": None}).climbed()
    assert {seen.verdict for seen in evidence.observations if seen.check == "prompt"} == {"unsupported"}
    with pytest.raises(UsageError, match="nothing to save"):
        save_reference(evidence, tmp_path / "reference.json")


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({"token": "a", "logprob": float("nan"), "top_logprobs": [{"token": "a", "logprob": -1}]}, "no number"),
        ({"token": "a", "logprob": "x", "top_logprobs": [{"token": "a", "logprob": -1}]}, "no number"),
        ({"token": "a", "logprob": 3.0, "top_logprobs": [{"token": "a", "logprob": 3.0}]}, "not sane"),
        ({"token": "a", "logprob": -1.0, "top_logprobs": [{"token": "a", "logprob": -1.0}] * 100}, "not sane"),
    ],
)
def test_a_hostile_distribution_is_a_failure(entry: dict[str, Any], complaint: str) -> None:
    answer = Answer({}, {"choices": [{"logprobs": {"content": [entry]}}]}, 0.1)
    with pytest.raises(ValueError, match=complaint):
        continuation_of("p", answer)


def test_a_server_without_the_others_is_told_apart_from_a_broken_one() -> None:
    answer = Answer({}, {"choices": [{"logprobs": {"content": [{"token": "a", "logprob": -1.0}]}}]}, 0.1)
    with pytest.raises(NoDistributionError, match="top_logprobs"):
        continuation_of("p", answer)


def test_bytes_of_a_token_are_its_name() -> None:
    entry = {"token": "?", "logprob": -1.0, "bytes": [0xE2, 0x82], "top_logprobs": [{"token": "b", "logprob": -2}]}
    made = continuation_of("p", Answer({}, {"choices": [{"logprobs": {"content": [entry]}}]}, 0.1))
    assert made.steps[0][0] == ("\\xe2\\x82", -1.0)


@pytest.mark.parametrize("name", ["", "<|im_end|>"])
def test_the_end_of_an_answer_has_one_name(name: str) -> None:
    """llama.cpp and vLLM, as they were seen."""
    entries = [
        {"token": token, "logprob": -0.1, "top_logprobs": [{"token": token, "logprob": -0.1}]} for token in ("Hi", name)
    ]
    choice = {"message": {"content": "Hi"}, "finish_reason": "stop", "logprobs": {"content": entries}}
    made = continuation_of("p", Answer({}, {"choices": [choice]}, 0.1))
    assert [step[0][0] for step in made.steps] == ["Hi", END]
    cut = continuation_of("p", Answer({}, {"choices": [{**choice, "finish_reason": "length"}]}, 0.1))
    assert [step[0][0] for step in cut.steps] == ["Hi", name]
    untold = {**choice, "logprobs": {"content": entries[:1]}}
    bare = continuation_of("p", Answer({}, {"choices": [untold]}, 0.1))
    assert [step[0][0] for step in bare.steps] == ["Hi"], "a stop whose token was not told"


def test_sets_are_small() -> None:
    for name in SETS:
        fixed: FixedPrompts = fixed_prompts(prompt_set(name))
        assert len(fixed.prompts) <= 50
        assert fixed.max_tokens <= 32
        assert fixed.top <= 20, "more are refused by engines as they come"
