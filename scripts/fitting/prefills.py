"""What GPUs of a kind reach while they read a prompt, and how far off that is for a source that was left out.

A prompt's work is known: multiplications by the active weights, attention by its length, weights read once for each
ubatch, experts copied over PCIe. What is left of its time tells the share of a throughput that the kernels reached.
Each source (who measured which model on which GPU) weighs the same.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from upright.facts import catalog
from upright.facts.catalog.rows.speed import Constants, Errors, Likeness, PrefillRow, SpeedRow
from upright.facts.catalog.rows.words import MeasurementRow
from upright.facts.records.plan import Parallel
from upright.planning.speed.decode import Amount, coefficient
from upright.planning.speed.fitting import errors
from upright.planning.speed.layered import HostFigures, Layered
from upright.planning.speed.prefill_reach import multiplies_fp4, reference
from upright.planning.speed.published import (
    gpu_of,
    gpu_row_figures,
    measurements,
    model_record,
    publisher,
    row_of,
    sample,
)
from upright.planning.speed.rows import speed_row
from upright.planning.speed.samples import LayerSample, RankSample
from upright.planning.speed.spread import FEW_SOURCES, SourceSpread, SpeedMiss, interval, spread
from upright.planning.speed.work import rank_work

COMPUTED = ("compute_efficiency", "attention_efficiency")
OUTSIDE = 0.15
"""A band from siblings holds for 85 in 100 further sources."""
TELLS = 0.5
"""Where less of a prompt's time is spent computing, it tells of what else is done and not what the kernels reach."""
ROUNDS = 50
MEETS = 1 / 3
"""Of a served step, the least that the prompts of others take for it to tell of them."""


SERVED_PROMPTS = Path(__file__).with_name("served_prompts.csv")
"""Times to a first token of four users at once by vLLM, as aiconfigurator publishes them: its package
aiconfigurator-core 0.12.0 (Apache-2.0), systems/silicon_sample.csv. All that the catalogue has the model of."""
SERVED_ON = "ranks-nvlink"
"""The row whose GPUs those are."""


@dataclass(frozen=True)
class TextRun:
    """Published prompts of which only their text says what they are."""

    runs: tuple[str, ...]
    model: str
    artifact: str | None
    ubatch: int
    sweep: bool = False
    """Whether one ubatch was read behind `context_tokens`; else a prompt of so many."""
    ranks: int = 0
    """Ranks that divided every layer; 0 for an engine that puts whole layers on devices."""
    about: str = ""


TEXT_RUNS = (
    TextRun(("m363-m366",), "deepseek-r1", "unsloth/DeepSeek-R1-GGUF:UD-Q2_K_XL", 4096, sweep=True,
            about="132 GiB of another build: a fiftieth of the time is reading weights"),
    TextRun(("m374",), "deepseek-r1", "unsloth/DeepSeek-R1-GGUF:UD-Q2_K_XL", 512, sweep=True,
            about="3.9 bits a weight over 16 GPUs; the ubatch is not stated, the engine's own is taken"),
    TextRun(("k25-gguf-prompt",), "kimi-k2.5", "unsloth/Kimi-K2.5-GGUF:UD-Q2_K_XL", 512),
    TextRun(("minimax-m21-m3u-gguf-prompt",), "minimax-m2.5", "unsloth/MiniMax-M2.5-GGUF:Q4_K_M", 512,
            about="M2.1 is of the same shape"),
    TextRun(("m377",), "deepseek-v3.2", "nvidia/DeepSeek-V3.2-NVFP4", 2048, ranks=2,
            about="prompts alone, as many as saturate it"),
)  # fmt: skip


@dataclass(frozen=True)
class Prompt:
    """A published prompt, as a plan would count it."""

    id: str
    source: str
    shape: str
    """Layers and width of its model."""
    apart: bool
    """Of the kind of model or build that its row tells apart: latent attention, or NVFP4 experts."""
    layers: float
    """Seconds of its layers at the whole throughput that a row's share is of."""
    between: float
    """The same of attention between its tokens."""
    attention: float
    """What attention reaches of what layers do."""
    beside: float
    """Seconds of everything else."""
    pieces: float
    """How often a layer starts."""
    seconds: float
    tokens: float
    depth: float | None
    """Tokens before it, where it is one ubatch of a sweep; None for a prompt that was read from its first token."""

    @property
    def computed(self) -> float:
        return self.layers + self.between / self.attention

    @property
    def tells(self) -> bool:
        return self.seconds - self.beside > TELLS * self.seconds

    @property
    def reached(self) -> float:
        return math.log(self.computed / (self.seconds - self.beside))

    def off(self, reached: float) -> float:
        """Relative error of the rate that a share gives."""
        return self.seconds / (self.beside + self.computed / reached) - 1


@cache
def prompts(name: str) -> tuple[Prompt, ...]:
    """Of the runs that a row names, those that say enough."""
    row = prefill(name)
    texts = {run.id: text for text in TEXT_RUNS for run in measurements(text.runs)}
    sweeps: dict[tuple[str, str], list[Prompt]] = {}
    for run in measurements(row.fitted_on):
        if (prompt := _prompt(row, run, texts.get(run.id))) is not None:
            sweeps.setdefault((run.group or run.id, run.engine_version or ""), []).append(prompt)
    if name == SERVED_ON:
        sweeps["served prompts", ""] = list(_served(row))
    return tuple(prompt for sweep in sweeps.values() for prompt in _whole(sweep))


def _whole(sweep: Sequence[Prompt]) -> Iterator[Prompt]:
    """Of ubatches behind more and more tokens the prompts that a plan prints: from the first token to each of them."""
    pieces = sorted((prompt for prompt in sweep if prompt.depth is not None), key=lambda prompt: prompt.depth or 0)
    if not pieces or pieces[0].depth:
        yield from sweep
        return
    yield from (prompt for prompt in sweep if prompt.depth is None or not prompt.depth)
    layers = between = beside = seconds = 0.0
    for before, after in pairwise(pieces):
        half = ((after.depth or 0) - (before.depth or 0)) / 2
        layers += half * (before.layers / before.tokens + after.layers / after.tokens)
        between += half * (before.between / before.tokens + after.between / after.tokens)
        beside += half * (before.beside / before.tokens + after.beside / after.tokens)
        seconds += half * (before.seconds / before.tokens + after.seconds / after.tokens)
        if half:
            yield replace(after, layers=layers, between=between, beside=beside, seconds=seconds)


def prefill(name: str) -> PrefillRow:
    row = catalog.get("prefills", name)
    assert isinstance(row, PrefillRow)
    return row


def _prompt(row: PrefillRow, run: MeasurementRow, text: TextRun | None) -> Prompt | None:
    if run.decode_tokens_per_second is not None and run.kind == "decode":
        return None
    made = _of_text(run, text) if text else sample(run)
    gpu, speeds = gpu_of(run), row_of(run)
    if made is None or gpu is None or speeds is None:
        return None
    constants = _constants(row, speeds)
    amounts, whole = tuple(made.amounts(constants.expert_skew)), made.tokens / made.tokens_per_second
    if isinstance(made, RankSample) and made.kind == "served":  # what a step takes beyond itself: prompts of others
        whole -= _seconds((amount for amount in amounts if amount.term != "prompts"), constants)
        amounts = tuple(amount for amount in amounts if amount.term == "prompts")
        if whole < MEETS * made.tokens / made.tokens_per_second:
            return None
    return _counted(row, made, amounts, constants, gpu, f"{publisher(run)} {run.model} {gpu}", whole)


def _served(row: PrefillRow) -> Iterator[Prompt]:
    speeds = speed_row("vllm-nvlink")
    with SERVED_PROMPTS.open(encoding="utf-8", newline="") as opened:
        for number, line in enumerate(csv.DictReader(opened)):
            model = model_record(line["artifact"].rpartition("/")[2].lower(), line["artifact"])
            parallel = Parallel(tensor=int(line["ranks"]), expert=line["whole_experts"] == "1")
            work, tokens, seconds = (
                rank_work(model, parallel, "fp8"),
                int(line["tokens"]),
                float(line["milliseconds"]) / 1e3,
            )
            made = RankSample(
                f"served-{number}", work, gpu_row_figures(catalog.gpu(line["gpu"])), speeds.kernels, 1, tokens,
                tokens / seconds, kind="prompt",
            )  # fmt: skip
            constants = _constants(row, speeds)
            source = f"aiconfigurator {line['artifact']} {line['gpu']}"
            yield _counted(row, made, tuple(made.amounts(0.0)), constants, line["gpu"], source, seconds)


def _constants(row: PrefillRow, speeds: SpeedRow) -> Constants:
    return speeds.constants.model_copy(update={"ubatch_layer_us": row.layer_us})


def _counted(
    row: PrefillRow,
    made: RankSample | LayerSample,
    amounts: Sequence[Amount],
    constants: Constants,
    gpu: str,
    source: str,
    whole: float,
) -> Prompt:
    card = catalog.gpu(gpu)
    work = made.work if isinstance(made, RankSample) else made.case.work
    throughput = reference(row, gpu_row_figures(card), card.compute_capability or "")
    return Prompt(
        id=made.id,
        source=source,
        shape=f"{work.layers}x{work.hidden}",
        apart=(row.latent_reached is not None and work.latent_layers > 0)
        or (row.fp4_reached is not None and multiplies_fp4(work, card.compute_capability or "")),
        layers=sum(amount.amount for amount in amounts if amount.constant == "compute_efficiency") / throughput,
        between=sum(amount.amount for amount in amounts if amount.constant == "attention_efficiency") / throughput,
        attention=row.attention_reached,
        beside=_seconds((amount for amount in amounts if amount.constant not in COMPUTED), constants),
        pieces=sum(amount.amount for amount in amounts if amount.constant == "ubatch_layer_us"),
        seconds=whole,
        tokens=made.tokens,
        depth=made.context if isinstance(made, LayerSample) and made.prompt_tokens is None else None,
    )


def _seconds(amounts: Iterable[Amount], constants: Constants) -> float:
    return sum(amount.amount * coefficient(constants, amount.constant) for amount in amounts)


def _of_text(run: MeasurementRow, text: TextRun) -> RankSample | LayerSample:
    gpu, speeds, tokens = gpu_of(run), row_of(run), run.context_tokens or 0
    assert gpu is not None
    assert speeds is not None
    assert run.prefill_tokens_per_second is not None
    model, silicon = model_record(text.model, text.artifact), gpu_row_figures(catalog.gpu(gpu))
    work = rank_work(model, Parallel(tensor=text.ranks or 1), "f16")
    if text.ranks:
        return RankSample(
            run.id, work, silicon, speeds.kernels, 1, tokens, run.prefill_tokens_per_second, kind="prompt"
        )
    placed = Layered(work, silicon, HostFigures(1.0, False), work.expert_layers, 0)
    return LayerSample(
        run.id, placed, speeds.kernels, float(tokens if text.sweep else 0),
        run.prefill_tokens_per_second, ubatch=text.ubatch, prompt_tokens=None if text.sweep else tokens,
    )  # fmt: skip


@dataclass(frozen=True)
class Reach:
    """Logarithms of shares."""

    by_row: dict[str, float]
    apart: float
    """What is left of that, or gained, by prompts of the kind that is told apart."""

    def of(self, name: str, prompt: Prompt) -> float:
        return math.exp(self.by_row[name] + (self.apart if prompt.apart else 0.0))


def reach(names: Sequence[str], without: str = "") -> Reach:
    """What each row's kernels reach, and what is left of it for the kind that is told apart: sources weigh the same."""
    return _reach({name: prompts(name) for name in names}, without)


def _reach(told: dict[str, tuple[Prompt, ...]], without: str) -> Reach:
    names, known = tuple(told), {name: _by_source(name, every, without) for name, every in told.items()}
    apart, by_row = 0.0, dict.fromkeys(names, 0.0)
    for _ in range(ROUNDS):
        by_row = {
            name: fmean(log - (apart if is_apart else 0.0) for log, is_apart in sources)
            for name, sources in known.items()
        }
        away = [log - by_row[name] for name, sources in known.items() for log, is_apart in sources if is_apart]
        apart = fmean(away) if away else 0.0
    return Reach(by_row, apart)


def _by_source(name: str, every: Sequence[Prompt], without: str) -> list[tuple[float, bool]]:
    told: dict[tuple[str, bool], list[float]] = {}
    for prompt in every:
        if prompt.tells and prompt.source != without:
            told.setdefault((prompt.source, prompt.apart), []).append(prompt.reached)
    return [(fmean(logs), is_apart) for (_, is_apart), logs in told.items()]


@cache
def misses(name: str) -> tuple[SpeedMiss, ...]:
    """Each source by what the others reach."""
    names, found = _alike(name), []
    for source in dict.fromkeys(prompt.source for prompt in prompts(name)):
        others = reach(names, source)
        own = (prompt for prompt in prompts(name) if prompt.source == source)
        found += [SpeedMiss(prompt.off(others.of(name, prompt)), source) for prompt in own]
    return tuple(found)


def models_left_out(name: str) -> Iterator[tuple[bool, float]]:
    """Of the prompts of each model, by a share and a band that saw none of it: whether inside, and how wide."""
    every = {each: prompts(each) for each in _alike(name)}
    for shape in dict.fromkeys(prompt.shape for prompt in every[name]):
        known = every | {name: tuple(prompt for prompt in every[name] if prompt.shape != shape)}
        found: list[SpeedMiss] = []
        for source in dict.fromkeys(prompt.source for prompt in known[name]):
            others = _reach(known, source)
            own = (prompt for prompt in known[name] if prompt.source == source)
            found += [SpeedMiss(prompt.off(others.of(name, prompt)), source) for prompt in own]
        low, high = interval(spread(found), (), OUTSIDE)
        reached = _reach(known, "")
        for prompt in every[name]:
            if prompt.shape == shape:
                yield low <= 1 / (1 + prompt.off(reached.of(name, prompt))) <= high, high / low


def refit(name: str) -> dict[str, float]:
    """The shares that are written into the row; what is reached with what attention reaches as the row has it."""
    if (like := prefill(name).like) is not None:
        its = refit(like.row)
        return {"reached": round(like.times * its["reached"], 3), "layer_us": its["layer_us"]}
    found = reach(_alike(name))
    shares = {"reached": math.exp(found.by_row[name])}
    if prefill(name).layer_us:
        shares["layer_us"] = _layer_us(name)
    if prefill(name).attention_reached < 1:
        shares["attention_reached"] = _attention(name)
    if prefill(name).latent_reached is not None:
        shares["latent_reached"] = math.exp(found.apart)
    if prefill(name).fp4_reached is not None:
        shares["fp4_reached"] = math.exp(found.apart)
    return {share: round(value, 3) for share, value in shares.items()}


def _layer_us(name: str) -> float:
    """By which all prompts are least off, each source weighing the same; short ones tell."""
    names, row = _alike(name), prefill(name)

    def off(layer_us: float) -> float:
        moved = tuple(
            replace(prompt, beside=prompt.beside + prompt.pieces * (layer_us - row.layer_us) * 1e-6)
            for prompt in prompts(name)
        )
        found = _reach({each: moved if each == name else prompts(each) for each in names}, "")
        logs: dict[str, list[float]] = {}
        for prompt in moved:
            logs.setdefault(prompt.source, []).append(math.log1p(prompt.off(found.of(name, prompt))))
        return sum(fmean(log * log for log in own) for own in logs.values())

    return min((float(micros) for micros in range(0, 1510, 10)), key=off)


def _attention(name: str) -> float:
    """By which sources are least apart."""

    def apart(attention: float) -> float:
        logs: dict[str, list[float]] = {}
        for prompt in (replace(prompt, attention=attention) for prompt in prompts(name) if prompt.tells):
            logs.setdefault(prompt.source, []).append(prompt.reached)
        centre = fmean(map(fmean, logs.values()))
        return sum(fmean((log - centre) ** 2 for log in own) for own in logs.values())

    return min((percent / 100 for percent in range(5, 100)), key=apart)


def held_out_errors(name: str) -> Errors:
    if (like := prefill(name).like) is not None:
        return _wider(held_out_errors(like.row), like)
    found = misses(name)
    count = len({missed.source for missed in found})
    how = f"each of {count} sources left out in turn; the band holds for 85 in 100 further sources"
    return errors(found, how, spreads_alike(name), outside=OUTSIDE)


def _wider(at_home: Errors, like: Likeness) -> Errors:
    centre, half = math.log(at_home.low * at_home.high) / 2, math.log(at_home.high / at_home.low) / 2
    reach = math.hypot(half, math.log(like.within))
    ends = {"low": round(math.exp(centre - reach), 3), "high": round(math.exp(centre + reach), 3)}
    how = f"{at_home.how}; widened by what lies between the GPUs of {like.row} and these"
    return at_home.model_copy(update={**ends, "how": how})


@cache
def spreads_alike(name: str) -> tuple[SourceSpread, ...]:
    """With few sources those of rows that divide their work alike count too."""
    if len({missed.source for missed in misses(name)}) >= FEW_SOURCES:
        return ()
    return tuple(spread(misses(other)) for other in _alike(name) if other != name)


def _alike(name: str) -> tuple[str, ...]:
    """Rows of the same family of kernels, which lose alike with latent attention; alone if attention is told apart."""
    if prefill(name).attention_reached < 1 or prefill(name).like:
        return (name,)
    rows = (row for row in map(prefill, catalog.rows("prefills")) if row.attention_reached == 1 and not row.like)
    return tuple(row.id for row in rows if set(row.engines) & set(prefill(name).engines))
