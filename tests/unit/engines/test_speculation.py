"""What a person names -> what an engine is told, and only flags that its version takes."""

from __future__ import annotations

import json

import pytest

from upright.base.errors import UsageError
from upright.engines.facets.flags import Accepted
from upright.engines.speculation import (
    Candidate,
    is_speculative,
    offers,
    parse_candidate,
    speculation_of,
    speculative_settings,
    with_speculation,
)
from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.recipe import Recipe, Setting

VERSIONS = {"vllm": "0.32.0", "sglang": "0.5.23", "llama.cpp": "b11669", "ik_llama.cpp": "8337e4cd"}
WAYS = ("ngram", "draft=d.gguf", "eagle3=head", "mtp", "dflash=block")


def accepted(engine: str, version: str | None = None) -> Accepted:
    found = nearest_flags(engine, version or VERSIONS[engine])
    assert found is not None
    return Accepted(found.flags, found.version)


def words(engine: str, way: str, **options: int) -> list[str]:
    made = speculative_settings(engine, parse_candidate(way), accepted(engine), **options)
    return [word for setting in made for word in (setting.name, setting.value) if word is not None]


@pytest.mark.parametrize("engine", VERSIONS)
def test_every_offer_is_spelled_in_flags_that_the_version_takes(engine: str) -> None:
    took = accepted(engine)
    found = offers(engine, took, own_layers=1)
    assert found
    for offer in found:
        for setting in speculative_settings(engine, parse_candidate(offer.words), took):
            assert setting.name in took.flags, f"{engine}: {setting.name}"
            assert is_speculative(setting)
            assert setting.reason


def test_a_method_is_offered_with_its_own_drafts_and_no_others() -> None:
    drafts = (("eagle3", "a/head"), ("draft", "b/small"))
    found = {offer.method: offer.drafts for offer in offers("vllm", accepted("vllm"), drafts=drafts)}
    assert (found["eagle3"], found["draft"]) == (("a/head",), ("b/small",))
    assert found["ngram"] == ()


def test_each_engine_in_its_own_words() -> None:
    assert words("llama.cpp", "draft=d.gguf,k=4") == [
        "--spec-type", "draft-simple", "--spec-draft-model", "d.gguf", "--spec-draft-n-max", "4",
    ]  # fmt: skip
    assert words("ik_llama.cpp", "draft=d.gguf") == ["--model-draft", "d.gguf", "--draft-max", "3"]
    name, value, *rest = words("vllm", "ngram,prompt_lookup_max=8,rejection_sample_method=synthetic")
    assert (name, rest) == ("--speculative-config", [])
    assert json.loads(value) == {
        "method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_max": 8, "prompt_lookup_min": 2,
        "rejection_sample_method": "synthetic",
    }  # fmt: skip
    assert words("vllm", "eagle3=head", sequences=16)[-2:] == ["--max-cudagraph-capture-size", "64"]
    assert words("sglang", "eagle3=head")[:4] == [
        "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "head",
    ]  # fmt: skip
    assert words("llama.cpp", "draft=d.gguf,--spec-synth-len=4")[-2:] == ["--spec-synth-len", "4"]
    assert words("llama.cpp", "none") == []


@pytest.mark.parametrize("way", [*WAYS, "ngram,k=9", "draft=d.gguf,k=5,--spec-synth-len=4", "none"])
def test_a_way_can_be_named_again(way: str) -> None:
    assert parse_candidate(parse_candidate(way).way) == parse_candidate(way)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("magic", "no way to speculate named 'magic'"),
        ("draft", "write draft=PATH"),
        ("ngram=file", "write ngram"),
        ("ngram,k=none", "k is a number of guesses"),
        ("ngram,k=0", "k is a number of guesses"),
    ],
)
def test_wrong_words_are_refused(way: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_candidate(way)


def test_an_engine_without_that_way_says_what_it_has() -> None:
    with pytest.raises(UsageError, match=r"ik_llama\.cpp has no ngram") as caught:
        words("ik_llama.cpp", "ngram")
    assert caught.value.hint == "it has draft"


def test_an_old_build_is_told_in_its_words() -> None:
    old = Accepted(frozenset({"--model-draft", "--draft-max"}), "b6000")
    assert [setting.name for setting in speculative_settings("llama.cpp", parse_candidate("draft=d.gguf"), old)] == [
        "--model-draft",
        "--draft-max",
    ]
    assert offers("llama.cpp", old) == ()


def test_a_recipe_guesses_in_one_way_only() -> None:
    settings = [Setting(name=name, value=value, reason="") for name, value in (("serve", "m"), ("--max-num-seqs", "8"))]
    recipe = Recipe.model_validate(
        {
            "engine": "vllm", "engine_version": "0.32.0", "runtime": "process", "program": "vllm", "model_path": "m",
            "arguments": settings, "served_name": "m", "host": "127.0.0.1", "port": 8000, "context_tokens": 1024,
            "users": 1, "health_path": "/health", "metrics_path": "/metrics",
        }
    )  # fmt: skip
    assert speculation_of(recipe) is None
    drafted = with_speculation(recipe, Candidate("eagle3", "head"), accepted("vllm"))
    assert drafted.argv[-2:] == ("--max-cudagraph-capture-size", "32")
    looked_up = with_speculation(drafted, parse_candidate("ngram"), accepted("vllm"))
    assert (speculation_of(looked_up) or "").count("--speculative-config") == 1
    assert "eagle3" not in (speculation_of(looked_up) or "")
    assert with_speculation(drafted, parse_candidate("none"), accepted("vllm")).argv == recipe.argv
    eager = recipe.model_copy(
        update={"arguments": (*recipe.arguments, Setting(name="--enforce-eager", reason="on a CPU"))}
    )
    assert (
        "--max-cudagraph-capture-size" not in with_speculation(eager, parse_candidate("ngram"), accepted("vllm")).argv
    )
