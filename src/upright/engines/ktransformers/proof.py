"""KTransformers proved without weights: the parser of its server in its own interpreter.

It is not rehearsed: kt-kernel reads the experts' files itself, dummy weights or not.
"""

from __future__ import annotations

from pathlib import PurePath

from upright.engines.facets.proof import EngineProof, ParserInPython

PROOF = EngineProof(parser=ParserInPython(PurePath(__file__).parent.with_name("sglang") / "parser.py"))
