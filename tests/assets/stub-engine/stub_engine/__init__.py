"""Stub: whole layers on devices, and a server that says the same to everybody."""

from __future__ import annotations

from upright.base.units import GIB
from upright.engines.contract import Engine
from upright.engines.facets.budget import Margin
from upright.engines.facets.finding import ProgramFinding
from upright.engines.facets.flags import FlagCase
from upright.engines.facets.http import Http
from upright.engines.facets.proof import EngineProof, ParserOfProgram
from upright.engines.facets.spread import Layers
from upright.facts.records.recipe import KEY_FILE, Setting


class StubFlags:
    """Five flags, whatever is planned."""

    def arguments(self, case: FlagCase) -> tuple[Setting, ...]:
        serving = case.serving
        return (
            Setting(name="--model", value=serving.model_path, reason="the artifact that was planned"),
            Setting(name="--alias", value=serving.served_name, reason="the name that clients use"),
            Setting(name="--port", value=str(serving.port), reason="where clients knock"),
            Setting(name="--context", value=str(case.plan.context_tokens), reason="tokens for each user"),
            Setting(name="--key-file", value=KEY_FILE, reason="the key stays out of process listings"),
        )

    def environment(self, case: FlagCase) -> tuple[Setting, ...]:
        return ()

    def notes(self, case: FlagCase) -> tuple[str, ...]:
        return ()


class Stub(Engine):
    """Says what Upright must know, and of everything else that it is not known."""

    name = "stub"
    title = "Stub"
    loads = ("gguf",)
    program = "stub-server"
    where_from = "the package upright-stub-engine"
    http = Http("/health", None, metrics_guarded=False, key_way="file", owner="stub")
    budget = Margin(GIB)
    spread = Layers()
    flags = StubFlags()
    finding = ProgramFinding(name="stub-server", version=r"version: (?P<build>\d+) \((?P<commit>\w+)\)")
    proof = EngineProof(parser=ParserOfProgram())


ENGINE = Stub()
