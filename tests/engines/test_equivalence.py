"""Equivalence on a real llama-server: honest precisions and planted faults, ordered by distance and told apart."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from subprocess import run

import gguf
import numpy
import pytest

from tests.conftest import TINY_MODEL
from tests.engines.test_ladder import llama
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.reference import Reference
from upright.proof.ladder.equivalence.distance import distance_ratio
from upright.proof.ladder.equivalence.references import reference_for, save_reference
from upright.proof.ladder.ladder import prove
from upright.proof.ladder.prompts import prompt_set
from upright.proof.ladder.servers import server_target
from upright.serving.endpoint.client import Endpoint

pytestmark = pytest.mark.engine
PROMPTS = prompt_set("tiny")
STALE = "blk.1.attn_v_b.weight"
Q8_BITS = (8.5, 16.0)


def full_precision(target: Path, source: Path = TINY_MODEL) -> Path:
    """The same weights as float32, which an engine multiplies without rounding them again."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        if field.types[0] == gguf.GGUFValueType.ARRAY:
            writer.add_array(name, field.contents())
        else:
            content = 0 if name == "general.file_type" else field.contents()
            writer.add_key_value(name, content, field.types[0])
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def with_a_stale_scale(target: Path, source: Path, factor: float) -> Path:
    """One tensor whose blocks have new numbers and old scales: each scale times the factor."""
    content = bytearray(source.read_bytes())
    tensor = next(tensor for tensor in gguf.GGUFReader(source).tensors if tensor.name == STALE)
    assert tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0
    blocks = numpy.frombuffer(content, numpy.uint8, tensor.n_bytes, tensor.data_offset).reshape(-1, 34).copy()
    scales = blocks[:, :2].copy().view("<f2").astype(numpy.float32) * factor
    blocks[:, :2] = scales.astype("<f2").view(numpy.uint8)
    content[tensor.data_offset : tensor.data_offset + tensor.n_bytes] = blocks.tobytes()
    target.write_bytes(content)
    return target


class Bench:
    """A folder of models, and what each of them says."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder = program, folder
        self.full = full_precision(folder / "f32.gguf")
        for scheme in ("Q8_0", "Q4_0"):
            quantised = [str(program.parent / "llama-quantize"), str(self.full), str(folder / f"{scheme}.gguf"), scheme]
            run(quantised, check=True, capture_output=True)
        with_a_stale_scale(folder / "stale.gguf", folder / "Q8_0.gguf", 0.5)

    def proved(
        self, name: str, *flags: str, reference: Reference | None = None, bits: tuple[float, ...] = ()
    ) -> Evidence:
        with (
            llama(self.program, self.folder / f"{name}.gguf", *flags) as url,
            Endpoint(url, "tiny-kimi") as endpoint,
        ):
            target = replace(server_target(endpoint), bits=bits)
            wanted = ("boot", "equivalence")
            return prove(target, endpoint, PROMPTS, to="equivalence", rungs=wanted, reference=reference)


@pytest.fixture(scope="module")
def bench(llama_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(llama_server, tmp_path_factory.mktemp("equivalence"))


@pytest.fixture(scope="module")
def reference(bench: Bench) -> Reference:
    """Made at full precision, kept as a file, read back by its name."""
    path = bench.folder / "reference.json"
    saved = save_reference(bench.proved("f32"), path)
    assert reference_for(str(path), PROMPTS) == saved
    return saved


def check(evidence: Evidence, name: str) -> Observation:
    return next(seen for seen in evidence.of("equivalence") if seen.check == name)


def by_prompt(evidence: Evidence) -> list[float]:
    return [seen.measured["divergence"] for seen in evidence.of("equivalence") if seen.check == "prompt"]


@pytest.mark.slow
def test_precisions_and_faults_are_ordered_and_told_apart(bench: Bench, reference: Reference) -> None:
    four_bit_cache = ("-fa", "on", "-ctk", "q4_0", "-ctv", "q4_0")
    seen = {
        "itself": bench.proved("f32", reference=reference, bits=(32.0, 16.0)),
        "Q8_0": bench.proved("Q8_0", reference=reference, bits=Q8_BITS),
        "q4_0 cache": bench.proved("Q8_0", *four_bit_cache, reference=reference, bits=(8.5, 4.5)),
        "Q4_0": bench.proved("Q4_0", reference=reference, bits=(4.9, 16.0)),
        "stale scale": bench.proved("stale", reference=reference, bits=Q8_BITS),
        "wrong RoPE": bench.proved("Q8_0", "--rope-freq-base", "1000", reference=reference, bits=Q8_BITS),
    }
    for name, evidence in seen.items():
        for sum_up in ("divergence", "agreement", "flips"):
            print(f"{name:12} {check(evidence, sum_up).verdict:7} {check(evidence, sum_up).reason}")
    for (near, before), (far, after) in pairwise(seen.items()):
        ratio = distance_ratio(by_prompt(before), by_prompt(after))
        print(f"{far} is {ratio.estimate:.3g} ({ratio.low:.3g} to {ratio.high:.3g}) times as far as {near}")
        assert ratio.low > 1, (near, far, ratio)
    assert check(seen["itself"], "divergence").measured["divergence"] < 1e-5
    failed = {name for name, evidence in seen.items() if check(evidence, "divergence").verdict == "failed"}
    assert failed == {"stale scale", "wrong RoPE"}
    assert all(evidence.passed != (name in failed) for name, evidence in seen.items())


def test_without_a_reference_it_is_no_proof(bench: Bench) -> None:
    evidence = bench.proved("Q8_0")
    assert evidence.rung_verdict("equivalence") == "skipped"
    assert "no reference" in check(evidence, "divergence").reason
