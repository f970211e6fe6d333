"""Trial of speculative decoding: each candidate in turns with the recipe as it is; the best is kept.

The base is measured before and after the candidates, each candidate in one life between (a, b, c, a): as few starts as
a fair comparison needs. Every start is in the journal before it happens, as with any step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from upright.base.errors import LaunchError, UprightError, UsageError
from upright.base.host import LocalHost
from upright.base.progress import Tell, utc_now
from upright.engines.facets.flags import accepted
from upright.engines.facets.speculation import Candidate
from upright.engines.speculation import is_speculative, parse_candidate, speculation_of, with_speculation
from upright.facts.records.benchmark import Benchmark, Cell, Shape
from upright.facts.records.box import Box
from upright.facts.records.evidence import Evidence, Step
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import Recipe
from upright.facts.records.speculation import TRIAL, Outcome, Speculation, Tried
from upright.facts.store import DeploymentDir
from upright.proof.benchmark.bench import LETTERS, bench
from upright.proof.benchmark.cell import SubjectFailedError
from upright.proof.benchmark.endpoints import KnownEndpoint, deployment_endpoint
from upright.proof.benchmark.sweep import SweepRequest, SweepWatch
from upright.proof.benchmark.workload import Workload
from upright.proof.ladder import speculation_verdict as verdict
from upright.proof.ladder.ladder import prove, target_of
from upright.proof.ladder.prompts import PromptSet
from upright.proof.ladder.recipe_changes import back_to, reason_to_step_back, step_entry
from upright.proof.ladder.rungs.speculation import speculation_offers
from upright.proof.ladder.trials import save_trial
from upright.serving.endpoint.client import Endpoint
from upright.serving.endpoint.metrics import Metrics, read_metrics
from upright.serving.fetch import find_weights
from upright.serving.launch import restart, status
from upright.serving.launch.healing import diagnose_deployment
from upright.serving.launch.locks import recipe_lock
from upright.serving.launch.readback import EngineCache, engine_cache

SETTING = TRIAL
"""What a step of several flags is called in the journal."""
NO_CACHE, NOTHING_COUNTED = EngineCache(None, None), Metrics()
MEASURING_SECONDS = 900.0
_LOOKED_AT = ("smoke", "tools")
OUTPUT_TOKENS = 128
_LEAST_REQUESTS = 4
_PLAIN_QUESTION = "Write a Python class for a bank account, with tests."


@dataclass(frozen=True)
class Trial:
    """What is tried, and on which loads."""

    candidates: tuple[Candidate, ...]
    cells: tuple[tuple[int, int], ...] = ()
    """(tokens of a prompt, requests at once); empty: chosen by the Goal."""
    repeats: int = 4
    """Times that each cell is measured with each candidate, and half of them before and after without."""
    output_tokens: int = OUTPUT_TOKENS
    """Tokens of an answer."""
    budget_seconds: float = MEASURING_SECONDS
    """For all measuring; starts take what they take."""
    keep: bool = True
    """Keep the best that pays; else only judge, and end with the recipe as it was."""


def speculate(
    directory: DeploymentDir,
    trial: Trial,
    prompts: PromptSet,
    before: Evidence,
    proved: Callable[[], Evidence],
    tell: Tell,
) -> tuple[Speculation, tuple[Step, ...], Evidence | None]:
    """Try them all, keep the best if it pays, and end with the deployment running by the last good recipe.

    `before` is what is proved without; `proved` climbs what would be kept, and its evidence is returned if it was.
    """
    begun = utc_now()
    with recipe_lock(directory):
        trying = _Trying(directory, prompts, directory.read(Recipe), tell)
        for letter, attempt in zip(LETTERS[1:], trial.candidates, strict=False):
            trying.add(letter, attempt)
        asked = _asked(trial, trying.good, prompts)
        try:
            trying.look_at_base()
            record = _measured(trying, asked)
            tried = [trying.judged(letter, record) for letter in trying.wanted]
            chosen = verdict.best(tried, trying.good.context_tokens, trying.good.users)
            evidence = trying.keep(chosen, tried, before, proved) if chosen is not None and trial.keep else None
        finally:
            trying.back()
        tried = [verdict.with_reason(attempt, chosen) for attempt in tried]
        made = trying.record(begun, asked, record, tried)
        save_trial(directory, made)
        return made, trying.close(tried), evidence


def automatic_candidates(recipe: Recipe) -> tuple[Candidate, ...]:
    """Whatever the engine offers that needs no file, or whose draft of the catalogue is on this disk."""
    candidates = []
    for offer in speculation_offers(recipe):
        if "=" not in offer.words:
            candidates.append(parse_candidate(offer.words))
            continue
        places = (path for draft in offer.drafts if (path := find_weights(draft)) is not None)
        candidates += [parse_candidate(f"{offer.method}={path}") for path in list(places)[:1]]
    return tuple(candidates)


def shapes(trial: Trial, recipe: Recipe) -> tuple[Shape, ...]:
    """The cells that were named, or short and long prompts for one user and for all of them."""
    room = recipe.context_tokens - trial.output_tokens
    long = max(64, min(8192, room // 2))
    chosen = trial.cells or tuple(
        (prompt, users)
        for prompt in dict.fromkeys((min(512, long), long))
        for users in dict.fromkeys((1, recipe.users))
    )
    return tuple(
        Shape(
            prompt_tokens=prompt,
            output_tokens=trial.output_tokens,
            concurrency=users,
            requests=max(_LEAST_REQUESTS, 2 * users),
        )
        for prompt, users in chosen
    )


@dataclass
class _Life:
    """One candidate's turn."""

    candidate: Candidate
    recipe: Recipe
    cache: EngineCache = NO_CACHE
    counted: Metrics = NOTHING_COUNTED
    damage: tuple[str, ...] = ()
    answers: int = 0
    alike: int = 0
    code: str | None = None
    outcome: Outcome | None = None
    reason: str = ""


@dataclass
class _Trying:
    """Who runs now, and what was seen of each."""

    directory: DeploymentDir
    prompts: PromptSet
    good: Recipe
    tell: Tell
    wanted: dict[str, _Life] = field(default_factory=dict)
    base_cache: EngineCache = NO_CACHE
    base_look: Evidence | None = None
    running: str = "a"
    kept: str | None = None

    def add(self, letter: str, wanted: Candidate) -> None:
        took = accepted(self.good.engine, self.good.engine_version, self.directory.read(Box))
        recipe = with_speculation(self.good, wanted, took)
        if recipe.argv == self.good.argv:
            raise UsageError(f"{self.directory.name} runs with {wanted.name} already", hint="--speculate none")
        self.wanted[letter] = _Life(wanted, recipe)

    def look_at_base(self) -> None:
        self.tell(f"{SETTING}: {', '.join(life.candidate.name for life in self.wanted.values())}")
        self.base_cache, self.base_look = engine_cache(self.directory), self._look()

    def enter_base(self) -> None:
        self._leave()
        if self.running != "a":
            self.tell("back to the recipe as it was, for the second half of its cells")
            restart(self.directory, self.good, in_trial=True)
        self.running = "a"

    def enter(self, letter: str) -> None:
        """Start it, look at its answers, and say why if it cannot be measured."""
        life = self.wanted[letter]
        self._leave()
        self.tell(f"trying {life.candidate.name}")
        self.directory.append(self._step(life, "trying", "to be measured against the recipe as it is"))
        self.running = letter
        try:
            restart(self.directory, life.recipe, in_trial=True)
        except LaunchError as error:
            diagnosis = diagnose_deployment(self.directory, LocalHost())
            cause = diagnosis.likeliest.cause if diagnosis.likeliest else error.message
            life.code = diagnosis.code
            self._fell(life, "fell", f"it does not start: {cause}" + (f" ({diagnosis.code})" if diagnosis.code else ""))
        life.cache = engine_cache(self.directory)
        assert self.base_look is not None
        life.damage, life.answers, life.alike = verdict.damage(self.base_look, self._look())
        if life.damage:
            count = len(life.damage)
            self._fell(life, "damages", f"{count} of {life.answers} answers are wrong with it: {life.damage[0]}")
        others = ", the others as right" if life.alike < life.answers else ""
        self.tell(f"  answers as before: {life.alike} of {life.answers} word for word{others}")

    def judged(self, letter: str, record: Benchmark) -> Tried:
        life = self.wanted[letter]
        if life.outcome is None and (fallen := _fallen(record, letter)):
            life.outcome, life.reason = "fell", fallen
        elif life.outcome is None and (broken := verdict.broken_under_load(record, letter)):
            life.outcome, life.reason, life.damage = "damages", broken, (broken,)
        ranks = self.directory.read(Plan).parallel.decode_context if self.directory.has(Plan) else 1
        cells = verdict.cells(record, letter, life.candidate.method, ranks)
        counted = life.counted
        drafted = None if counted.draft_tokens is None else round(counted.draft_tokens)
        acceptance = counted.acceptance if drafted else None
        made = Tried(
            name=life.candidate.name,
            way=life.candidate.way,
            method=life.candidate.method,
            settings=tuple(
                " ".join(filter(None, (argument.name, argument.value)))
                for argument in life.recipe.arguments
                if is_speculative(argument)
            ),
            recipe=life.recipe.reference,
            outcome=life.outcome or "stepped back",
            reason=life.reason,
            code=life.code,
            answers=life.answers,
            answers_alike=life.alike,
            damage=life.damage,
            drafted_tokens=drafted,
            acceptance=acceptance,
            acceptance_at=counted.acceptance_at if drafted else None,
            pool_tokens=life.cache.tokens,
            cache_bytes=life.cache.bytes,
            cells=cells,
            notes=verdict.collapses(drafted, acceptance, cells),
        )
        objection = verdict.objection(made, self.good.context_tokens, self.good.users)
        cost = verdict.pool_words(made, self.base_cache.tokens, self.base_cache.bytes)
        return made.model_copy(
            update={"reason": objection or made.reason, "notes": (*made.notes, *([cost] if cost else []))}
        )

    def keep(
        self, chosen: Tried, found: list[Tried], before: Evidence, proved: Callable[[], Evidence]
    ) -> Evidence | None:
        """Start the best again and prove everything with it; what does not hold is taken back."""
        place = found.index(chosen)
        letter = list(self.wanted)[place]
        life = self.wanted[letter]
        self.tell(f"{chosen.name} pays: starting it again, and proving everything with it")
        self.directory.append(self._step(life, "trying", "it pays; to be proved"))
        self.running, evidence = letter, None
        try:
            restart(self.directory, life.recipe, in_trial=True)
            evidence = proved()
            wrong = reason_to_step_back(before, evidence)
            outcome: Outcome = "stepped back" if evidence.passed else "damages"
        except LaunchError as error:
            wrong, outcome = error.message, "fell"
        if wrong is not None:
            prefix = "it pays, and is " if outcome == "stepped back" else "it pays, and does not stand: "
            found[place] = chosen.model_copy(update={"outcome": outcome, "reason": prefix + wrong})
            return None
        self.kept = letter
        found[place] = chosen.model_copy(update={"outcome": "kept", "reason": verdict.gains(chosen)})
        return evidence

    def back(self) -> None:
        """Whatever happened: the deployment runs by the last good recipe when this returns."""
        if self.kept is None and self.running != "a":
            self.tell("back to the last good recipe")
            back_to(self.directory, self.good)
            self.running = "a"

    def close(self, found: Sequence[Tried]) -> tuple[Step, ...]:
        """What came of each into the journal; the one that was kept last, so that nothing is left trying."""
        lives = zip(self.wanted.values(), found, strict=True)
        made = [
            self._step(life, "kept" if tried.outcome == "kept" else "stepped back", tried.reason)
            for life, tried in sorted(lives, key=lambda pair: pair[1].outcome == "kept")
        ]
        for step in made:
            self.directory.append(step)
        return tuple(made)

    def record(self, begun: str, asked: SweepRequest, record: Benchmark, found: Sequence[Tried]) -> Speculation:
        good = self.good
        runs = self.directory.read(Recipe).reference
        speculates = speculation_of(good)
        return Speculation(
            made_from=(good.reference, record.reference),
            deployment=self.directory.name,
            engine=good.engine,
            engine_version=good.engine_version,
            at=begun,
            context_tokens=good.context_tokens,
            users=good.users,
            asked=asked.question or "",
            run=record.run,
            base=good.reference,
            base_speculates=speculates,
            base_pool_tokens=self.base_cache.tokens,
            base_cache_bytes=self.base_cache.bytes,
            tried=tuple(found),
            recommendation=verdict.recommendation(found, good.context_tokens, good.users, speculates),
            runs=runs,
        )

    def _look(self) -> Evidence:
        """The answers of the rungs that cost little, as a look and not as evidence."""
        deployment = status(self.directory)
        with Endpoint(deployment.base_url, deployment.served_name, key=self.directory.key()) as endpoint:
            return prove(target_of(deployment, self.good), endpoint, self.prompts, rungs=_LOOKED_AT)

    def _leave(self) -> None:
        """The engine's own counters go with it: they are read before it ends."""
        if (life := self.wanted.get(self.running)) is None or self.good.metrics_path is None:
            return
        with suppress(UprightError):
            deployment = status(self.directory)
            with Endpoint(deployment.base_url, deployment.served_name, key=self.directory.key()) as endpoint:
                life.counted = read_metrics(endpoint.text(self.good.metrics_path))

    def _fell(self, life: _Life, outcome: Outcome, reason: str) -> None:
        life.outcome, life.reason = outcome, reason
        self.tell(f"  {life.candidate.name} {outcome}: {reason}")
        raise SubjectFailedError(reason)

    def _step(self, life: _Life, outcome: str, reason: str) -> Step:
        return step_entry(
            SETTING, speculation_of(self.good), life.candidate.name, self.good, life.recipe, outcome, reason
        )


def _asked(trial: Trial, recipe: Recipe, prompts: PromptSet) -> SweepRequest:
    question = prompts.endurance.ask if prompts.endurance is not None else _PLAIN_QUESTION
    wanted = shapes(trial, recipe)
    workload = Workload(
        name=SETTING,
        about=f"with and without speculative decoding; prompts end with “{' '.join(question.split())[:60]}…”",
        source="the default use of this tool",
        contexts=tuple(dict.fromkeys(shape.prompt_tokens for shape in wanted)),
        output_tokens=trial.output_tokens,
        concurrency=tuple(dict.fromkeys(shape.concurrency for shape in wanted)),
    )
    return SweepRequest(
        workload,
        wanted,
        trial.repeats,
        budget_seconds=trial.budget_seconds,
        fresh=True,  # half of a trial that was killed is no half of this one
        question=question,
        around=True,
    )


def _measured(trying: _Trying, asked: SweepRequest) -> Benchmark:
    base, directory = deployment_endpoint(trying.directory)
    known: list[KnownEndpoint] = [replace(base, name=f"{base.name} as it is", enter=trying.enter_base)]
    for letter, life in trying.wanted.items():
        name = f"{base.name} with {life.candidate.name}"
        enter = _entering(trying, letter)
        known.append(replace(base, name=name, recipe=life.recipe.digest, enter=enter))

    def on_done(cell: Cell, remembered: bool) -> None:
        shape = cell.shape
        where = f"{shape.prompt_tokens:,} in, {shape.concurrency} at once"
        marked = f", and not to be used: {cell.marks[0]}" if cell.marks else ""
        trying.tell(f"  {cell.subject} {where}: {cell.output_tokens_per_second:,.1f} tok/s{marked}")

    return bench(known, asked, directory, SweepWatch(on_done=on_done, tell=trying.tell), test=False)


def _entering(trying: _Trying, letter: str) -> Callable[[], None]:
    return lambda: trying.enter(letter)


def _fallen(record: Benchmark, letter: str) -> str | None:
    start = f"{letter} fell: "
    return next(
        (
            skipped_cell.reason.removeprefix(start)
            for skipped_cell in record.skipped
            if skipped_cell.reason.startswith(start)
        ),
        None,
    )
