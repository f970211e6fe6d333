"""One kernel + a target -> the largest tiles that fit, with registers and spills.

Shared memory alone does not choose: a tile that fits and spills is no win, so finalists are compiled to the binary. No
speed is measured here, and none is claimed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from upright.base.errors import UsageError
from upright.engines.facets.kernels import KernelRoute, Shapes
from upright.facts.records.kernel import TileFit, TileSearch
from upright.proof.kernels.capture import LauncherCall, launcher_call
from upright.proof.kernels.compile import CompileOutcome, CompileTask
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.sources import EngineSource
from upright.proof.kernels.targets import CompileTarget

SIZES = (16, 32, 64, 128)
STAGES = (1, 2, 3)
Tile = tuple[int, int, int]
"""Rows, columns, stages."""


@dataclass(frozen=True)
class _Asked:
    """What one search compiles, and with what."""

    call: LauncherCall
    names: tuple[tuple[str, ...], tuple[str, ...]]
    target: CompileTarget
    compiler: Compiler

    def variant(self, tile: Tile) -> dict[str, int]:
        rows, columns = self.names
        numbers = dict.fromkeys(rows, tile[0]) | dict.fromkeys(columns, tile[1])
        return numbers | {"num_stages": tile[2]}

    def outcomes(
        self, tiles: Sequence[Tile], kernel: str | None, *, binary: bool = False
    ) -> dict[Tile, CompileOutcome]:
        variants = tuple(self.variant(tile) for tile in tiles)
        task = CompileTask(self.call, "binary" if binary else "shared", kernel, variants)
        (tile_outcomes,) = self.compiler.outcomes([task], self.target)
        if len(tile_outcomes) != len(tiles):
            return dict.fromkeys(tiles, tile_outcomes[0])
        return dict(zip(tiles, tile_outcomes, strict=True))


def search(
    item: KernelRoute,
    shapes: Shapes,
    source: EngineSource,
    target: CompileTarget,
    compiler: Compiler,
    *,
    everything: bool = False,
) -> TileSearch:
    """`everything` compiles also what a smaller tile already rules out."""
    if item.tile is None:
        raise UsageError(f"the tiles of {item.name} hang together and cannot be searched one by one")
    started = time.monotonic()
    asked = _Asked(launcher_call(item, source.root, shapes), item.tile, target, compiler)
    own = _own(asked)
    outcomes = _climb(asked, own.kernel, everything=everything)
    finalists = _largest([tile for tile, outcome in outcomes.items() if _verdict(outcome, target) == "fits"])
    finals = asked.outcomes(finalists, own.kernel, binary=True) if finalists else {}
    return TileSearch(
        path=item.name,
        kernel=own.kernel,
        engine=source.engine,
        engine_version=source.version,
        triton=compiler.interpreter.described,
        target=target.name,
        limit_bytes=target.limit_bytes,
        launch=str(shapes),
        compiled=sum(outcome is not None for outcome in outcomes.values()),
        seconds=round(time.monotonic() - started, 1),
        tiles=tuple(_ranked(asked, outcomes, finals, own)),
    )


def _own(asked: _Asked) -> CompileOutcome:
    """The launch as the engine makes it: which kernel has these tiles, and which tile it chooses."""
    (launches,) = asked.compiler.outcomes([CompileTask(asked.call)], asked.target)
    for outcome in launches:
        if outcome.error is not None or any(name in outcome.constants for name in asked.names[0]):
            return outcome
    raise UsageError(f"no kernel of {asked.call.way.name} has a tile of {' and '.join(asked.names[0])}")


def _climb(asked: _Asked, kernel: str, *, everything: bool) -> dict[Tile, CompileOutcome | None]:
    """From small to large: a tile is left out (None) when one that is smaller in every way does not fit."""
    outcomes: dict[Tile, CompileOutcome | None] = {}
    steps: dict[int, list[Tile]] = {}
    for tile in product(SIZES, SIZES, STAGES):
        level = 0 if everything else tile[0].bit_length() + tile[1].bit_length() + tile[2]
        steps.setdefault(level, []).append(tile)
    too_large: list[Tile] = []
    for level in sorted(steps):
        ruled_out = [tile for tile in steps[level] if any(_within(small, tile) for small in too_large)]
        todo = [tile for tile in steps[level] if tile not in ruled_out]
        outcomes |= dict.fromkeys(ruled_out)
        if todo:
            step_outcomes = asked.outcomes(todo, kernel)
            outcomes |= step_outcomes
            too_large += [tile for tile in todo if _verdict(step_outcomes[tile], asked.target) == "does-not-fit"]
    return outcomes


def _within(small: Tile, large: Tile) -> bool:
    return all(one <= other for one, other in zip(small, large, strict=True))


def _largest(tiles: Sequence[Tile]) -> list[Tile]:
    return [tile for tile in tiles if not any(other != tile and _within(tile, other) for other in tiles)]


def _verdict(outcome: CompileOutcome | None, target: CompileTarget) -> str:
    if outcome is None:
        return "does-not-fit"
    if outcome.shared_bytes is None or target.limit_bytes is None:
        return "could-not-determine"
    return "fits" if outcome.shared_bytes <= target.limit_bytes else "does-not-fit"


def _ranked(
    asked: _Asked,
    outcomes: Mapping[Tile, CompileOutcome | None],
    finals: Mapping[Tile, CompileOutcome],
    own: CompileOutcome,
) -> list[TileFit]:
    """Finalists that do not spill, finalists that do, the rest that fits, what is unknown, what does not fit."""
    chosen = {name: own.constants.get(name) for names in asked.names for name in names} | {"num_stages": own.num_stages}
    order = {"fits": 0, "could-not-determine": 1, "does-not-fit": 2}
    fits: list[tuple[tuple[int, ...], TileFit]] = []
    for tile, outcome in outcomes.items():
        final, verdict, variant = finals.get(tile), _verdict(outcome, asked.target), asked.variant(tile)
        spilled = final.spill_bytes or 0 if final else 0
        key = (order[verdict], final is None, spilled > 0, -tile[0] * tile[1], -tile[2], spilled)
        tile_fit = TileFit(
            tile={name: constant for name, constant in variant.items() if chosen.get(name) is not None},
            verdict=verdict,
            needed_bytes=outcome.shared_bytes if outcome else None,
            registers=final.registers if final else None,
            spill_bytes=final.spill_bytes if final else None,
            inferred=outcome is None,
            chosen=all(chosen[name] in (None, constant) for name, constant in variant.items()),
            why=(outcome.error or asked.target.source) if outcome and verdict == "could-not-determine" else None,
        )
        fits.append((key, tile_fit))
    return [tile_fit for _, tile_fit in sorted(fits, key=lambda pair: pair[0])]
