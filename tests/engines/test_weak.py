"""Weak is not broken: a real model of 135M parameters on the real llama-server, served rightly and wrongly."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import gguf
import pytest

from tests.engines.test_ladder import llama
from upright.facts.records.evidence import Evidence
from upright.facts.records.reference import Reference
from upright.proof.ladder.equivalence.references import save_reference
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import PromptSet, prompt_set
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.guards.token_counts import foreign_template

pytestmark = pytest.mark.engine


def few() -> PromptSet:
    """Three questions of language and one of arithmetic: what tells, in a few seconds."""
    real = prompt_set("real")
    plain = [question.model_copy(update={"modes": ("instant",), "max_tokens": 96}) for question in real.smoke[:4]]
    return real.model_copy(update={"smoke": tuple(plain)})


def proved(
    url: str, *rungs: str, prompts: PromptSet, reference: Reference | None = None, key: str | None = None
) -> Evidence:
    with Endpoint(url, "tiny-kimi", key=key) as endpoint:
        target = replace(server_target(endpoint), bits=(5.0, 16.0))  # Q4_1, and a cache of float16
        return prove(target, endpoint, prompts, to=rungs[-1], rungs=rungs, reference=reference)


def test_a_small_model_stands_and_is_weak(llama_server: Path, smollm2: Path) -> None:
    """Before, a climb of it ended at its first wrong answer, with `does not stand`."""
    with llama(llama_server, smollm2, context=1024) as url:
        evidence = proved(url, "boot", "smoke", prompts=few())
    assert (evidence.headline, evidence.passed, evidence.able) == ("stands, but the model is weak", True, False)
    wrong = {item.check: item.reason for item in evidence.observations if item.verdict == "wrong"}
    assert wrong, "135M parameters that know what 17 + 25 is"
    assert all("said '" in reason or "does not say" in reason for reason in wrong.values())


def test_a_template_of_another_family_is_named(llama_server: Path, smollm2: Path) -> None:
    """Before, its fluent answers looked like a weak model's."""
    with llama(llama_server, smollm2, "--no-jinja", "--chat-template", "llama3", context=256) as url:
        evidence = proved(url, "boot", prompts=few())
    assert evidence.headline == "does not stand"
    assert evidence.fault is not None
    assert evidence.fault.check == "template"
    assert "it writes <|start_header_id|>, 9 pieces to this vocabulary" in evidence.fault.reason


def test_a_template_that_drops_what_is_said_is_named(llama_server: Path, tiny_model: Path) -> None:
    """llama.cpp takes the name of a template for the template itself, unless it is told --no-jinja."""
    with (
        llama(llama_server, tiny_model, "--chat-template", "llama3", context=256) as url,
        Endpoint(url, "") as endpoint,
    ):
        assert foreign_template(endpoint) == "the chat template drops what is said: it makes 'llama3' of a conversation"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_all_the_questions_of_a_small_model(llama_server: Path, smollm2: Path) -> None:
    with llama(llama_server, smollm2, context=8192) as url:
        evidence = proved(url, "boot", "smoke", "clients", prompts=prompt_set("real"))
    assert evidence.headline == "stands, but the model is weak"
    assert evidence.reached == "clients"
    assert evidence.rung_verdict("boot") == evidence.rung_verdict("clients") == "passed"


def with_random_bytes(target: Path, source: Path, tensor_name: str) -> Path:
    content = bytearray(source.read_bytes())
    tensor = next(tensor for tensor in gguf.GGUFReader(source).tensors if tensor.name == tensor_name)
    end = tensor.data_offset + tensor.n_bytes
    content[tensor.data_offset : end] = random.Random(0).randbytes(tensor.n_bytes)
    target.write_bytes(content)
    return target


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_bytes_in_a_middle_layer_are_told_from_weakness(
    llama_server: Path, smollm2: Path, tmp_path: Path
) -> None:
    """Against the reference of the whole file: the same file again serves, and is as weak; the damaged one does not."""
    with llama(llama_server, smollm2, context=2048) as url:
        reference = save_reference(proved(url, "boot", "equivalence", prompts=few()), tmp_path / "whole.json")
        again = proved(url, "boot", "equivalence", prompts=few(), reference=reference)
    damaged = with_random_bytes(tmp_path / "damaged.gguf", smollm2, "blk.15.ffn_down.weight")
    with llama(llama_server, damaged, context=2048) as url:
        seen = proved(url, "boot", "equivalence", prompts=few(), reference=reference)
    assert again.passed, again.fault
    assert seen.headline == "does not stand"
