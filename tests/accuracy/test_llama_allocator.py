"""The engine's own allocator as judge: llama-fit-params on a full-size, sparse Kimi K2."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from tests.sparse_models import VOCABULARY, write_k2_gguf
from upright.base.units import MIB
from upright.models.reading import read
from upright.planning.memory.buffers import compute_buffer
from upright.planning.memory.kvcache import cache_shape

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]  # a loaded machine is no bug

CONTEXTS = (8_192, 32_768, 65_536, 131_072, 262_144)


@dataclass(frozen=True)
class Point:
    context: int
    cache: str = "f16"
    ubatch: int = 512
    flash: bool = True
    quant: str = "Q4_0"
    users: int = 1


POINTS = (
    *(Point(*values) for values in product(CONTEXTS, ("f16", "q8_0", "q4_0"), (512, 2048))),
    *(Point(context, ubatch=ubatch, flash=False) for context in CONTEXTS[:4] for ubatch in (512, 2048)),
    *(Point(context, quant=quant) for context in (32_768, 131_072) for quant in ("Q8_0", "Q2_K", "IQ3_XXS")),
    *(Point(131_072, users=users) for users in (2, 4)),
)


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sparse")
    found = {}
    for quant in {point.quant for point in POINTS}:
        path = folder / f"k2-{quant}.gguf"
        write_k2_gguf(path, quant, vocabulary=VOCABULARY)
        found[quant] = (path, read(str(path)))
    return found


@pytest.mark.slow
def test_model_and_context_within_a_thousandth_and_compute_within_a_quarter(llama_server, models):
    assert len(POINTS) >= 40
    worst = {"model": 0.0, "context": 0.0, "compute": 0.0}
    for point in POINTS:
        path, model = models[point.quant]
        said = ask(llama_server.parent / "llama-fit-params", path, point)
        ours = predict(model, point)
        for term in worst:
            # The tool prints whole MiB: half of one is no error of ours.
            error = max(0.0, abs(ours[term] - said[term]) - 0.5) / said[term]
            worst[term] = max(worst[term], error)
            limit = 0.25 if term == "compute" else 0.001
            assert error <= limit, f"{term} of {point}: {ours[term]:.0f} MiB planned, {said[term]} MiB allocated"
    print(f"\n{len(POINTS)} points, worst: " + ", ".join(f"{term} {error:.2%}" for term, error in worst.items()))


def ask(program: Path, path: Path, point: Point) -> dict[str, int]:
    argv = [program, "-m", path, "-c", point.context, "-ctk", point.cache, "-ctv", point.cache, "-ub", point.ubatch]
    argv += [
        "-b",
        max(2048, point.ubatch),
        "-fa",
        "on" if point.flash else "off",
        "-np",
        point.users,
        "-nr",
        "-fitp",
        "on",
    ]
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, timeout=60, check=True)
    _, model, context, compute = done.stdout.split()
    return {"model": int(model), "context": int(context), "compute": int(compute)}


def predict(model, point: Point) -> dict[str, float]:
    shape = cache_shape(model.architecture, point.cache)
    each = point.context // point.users
    scratch = compute_buffer(
        model.architecture, ubatch_tokens=point.ubatch, context_tokens=each, flash_attention=point.flash
    )
    return {
        "model": model.tensor_bytes / MIB,
        "context": point.users * shape.sequence_bytes(each) / MIB,
        "compute": scratch.bytes / MIB,
    }
