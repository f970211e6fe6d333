"""vLLM proved without weights: its parser in its interpreter, and dummy weights."""

from __future__ import annotations

from pathlib import PurePath

from upright.engines.facets.proof import DummyWeights, EngineProof, ParserInPython
from upright.facts.records.recipe import Setting

PROOF = EngineProof(
    parser=ParserInPython(PurePath(__file__).with_name("parser.py")),
    rehearsal=DummyWeights(
        Setting(
            name="--load-format",
            value="dummy",
            reason="random weights of the real shapes: nothing is downloaded, memory and kernels are as they will be",
        )
    ),
)
