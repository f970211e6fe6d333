"""Tries one change of the recipe: kept, or stepped back with the reason.

Each change is tried alone: restart, climb, then keep it or restart with what stood before. What was earned stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import LaunchError, RecordError, UsageError
from upright.base.progress import utc_now
from upright.facts.records.base import from_json
from upright.facts.records.deployment import COMING_UP
from upright.facts.records.evidence import Evidence, Step
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.proof.ladder.journaled import unfinished_step
from upright.proof.ladder.long_text import lengths
from upright.proof.ladder.prompts import PromptSet
from upright.serving.launch import TakenDownError, replace_recipe, restart, status
from upright.serving.launch.locks import recipe_lock

_CONTEXT_FLAGS = ("--max-model-len", "--context-length", "--ctx-size")
"""What engines call it; llama.cpp divides it among its slots."""


@dataclass(frozen=True)
class TrialChange:
    """One setting to try."""

    setting: str
    value: str | None
    why: str
    context_tokens: int | None = None
    """The context for each user after the change, if it changes that."""


def change_of(text: str) -> TrialChange:
    """`--flag=value` or `--flag`, as a person types it."""
    name, given, argument = text.partition("=")
    if not name.startswith("-") or not name.strip("-"):
        raise UsageError(f"{text!r} is no setting to try", hint="write it as --flag=value, or --flag")
    return TrialChange(name, argument if given else None, "to be tried")


def context_change(recipe: Recipe, context_tokens: int) -> TrialChange:
    for setting in recipe.arguments:
        if setting.name in _CONTEXT_FLAGS:
            tokens = context_tokens * (recipe.users if setting.name == "--ctx-size" else 1)
            return TrialChange(setting.name, str(tokens), f"a context of {context_tokens:,} tokens", context_tokens)
    raise UsageError(f"the recipe names no context: none of {', '.join(_CONTEXT_FLAGS)}")


def longer_contexts(directory: DeploymentDir, prompts: PromptSet, context_tokens: int | None) -> list[TrialChange]:
    """A change for each length of the walk that the recipe's context does not hold."""
    if context_tokens is None or prompts.needles is None:
        return []
    recipe = directory.read(Recipe)
    walked = lengths(prompts.needles, context_tokens)
    return [context_change(recipe, length) for length in walked if length > recipe.context_tokens]


def with_change(recipe: Recipe, change: TrialChange) -> Recipe:
    """The same recipe with that one setting."""
    changed = Setting(name=change.setting, value=change.value, reason=f"{change.why}, one step up the ladder")
    names = [setting.name for setting in recipe.arguments]
    arguments = list(recipe.arguments)
    if change.setting in names:
        arguments[names.index(change.setting)] = changed
    else:
        arguments.append(changed)
    context = change.context_tokens or recipe.context_tokens
    update = {"arguments": tuple(arguments), "context_tokens": context, "made_from": (recipe.reference,)}
    return recipe.model_copy(update=update)


def step(
    directory: DeploymentDir,
    change: TrialChange,
    before: Evidence,
    prove: Callable[[], Evidence],
    tell: Callable[[str], None],
) -> tuple[Step, Evidence | None]:
    """Try it. Returns what came of it, and the evidence of the climb with it if there was one.

    `before` is what is proved without it.
    """
    with recipe_lock(directory):
        good = directory.read(Recipe)
        wanted = with_change(good, change)
        shown = " ".join(filter(None, (change.setting, change.value)))
        begun = _step(change, good, wanted, "trying", change.why)
        directory.append(begun)
        tell(f"trying {shown}")
        evidence = None
        try:
            restart(directory, wanted, in_trial=True)
        except LaunchError as error:
            reason = error.message
        else:
            evidence = prove()
            wrong = reason_to_step_back(before, evidence)
            if wrong is None:
                kept = _step(change, good, wanted, "kept", _proved_words(evidence))
                directory.append(kept)
                tell(f"kept {shown}")
                return kept, evidence
            reason = wrong
        tell(f"stepping back from {shown}: {reason}")
        back_to(directory, good)
        back = _step(change, good, wanted, "stepped back", reason)
        directory.append(back)
        return back, evidence


def back_to(directory: DeploymentDir, good: Recipe) -> None:
    """It runs by that recipe again; what a person has taken down meanwhile stays down, and has the recipe."""
    try:
        restart(directory, good, in_trial=True)
    except TakenDownError:
        replace_recipe(directory, good)


def reason_to_step_back(before: Evidence, after: Evidence) -> str | None:
    """Why a change must not stay: something fails with it, or the budget left out what was proved before or is new."""
    earlier_wrong = {(seen.rung, seen.probe) for seen in before.observations if seen.verdict == "wrong"}
    for seen in after.observations:
        if seen.verdict == "failed" or (seen.verdict == "wrong" and (seen.rung, seen.probe) not in earlier_wrong):
            return f"{seen.rung} {seen.check}: {seen.reason}"
    if not after.passed:
        return "nothing was proved"
    earlier = _left_out(before)
    lost = [question for question in _left_out(after) if question not in earlier]
    return f"not proved, the budget left out {_questions(len(lost))}, such as {' '.join(lost[0])}" if lost else None


@contextmanager
def running_trial_recipe(directory: DeploymentDir, wanted: Recipe, what: str, why: str) -> Iterator[None]:
    """Whatever happens inside, the deployment runs by its own recipe again afterwards; killed, at the next look."""
    with recipe_lock(directory):
        good = directory.read(Recipe)
        directory.append(step_entry(what, None, None, good, wanted, "trying", why))
        try:
            yield
        finally:
            if directory.read(Recipe) != good:
                back_to(directory, good)
            directory.append(
                step_entry(what, None, None, good, wanted, "stepped back", "it was tried, and not asked to stay")
            )


def undo_interrupted(directory: DeploymentDir, tell: Callable[[str], None]) -> Step | None:
    """Back to the last good recipe, if a climb or a benchmark was killed while it tried a change. LaunchError if it
    lives and is still trying."""
    with recipe_lock(directory):
        tried = unfinished_step(directory)
        if tried is None:
            return None
        # Killed between the end of one engine and the start of the other, it has the good recipe, and stands still; or
        # its engine is about to end, and looks ready until it has. Only one that comes up by it is left alone.
        if tried.recipe_after in _names(directory.file(Recipe)) or status(directory).state not in COMING_UP:
            tell(f"{tried.setting} was being tried when that was interrupted: back to the last good recipe")
            back_to(directory, recipe_of(directory, tried.recipe_before))
        back = tried.model_copy(
            update={"outcome": "stepped back", "reason": "it was interrupted while it was tried", "at": utc_now()}
        )
        directory.append(back)
        return back


def _left_out(evidence: Evidence) -> list[tuple[str, str]]:
    """Questions that did not fit the budget."""
    skipped = (observation for observation in evidence.observations if observation.left_out)
    return [(observation.rung, observation.probe or observation.check) for observation in skipped]


def _proved_words(evidence: Evidence) -> str:
    if count := len(_left_out(evidence)):
        return f"everything that was proved before is proved with it; as before the budget left out {_questions(count)}"
    return "everything that was asked for is proved with it"


def _questions(count: int) -> str:
    return "1 question" if count == 1 else f"{count} questions"


def _step(change: TrialChange, good: Recipe, wanted: Recipe, outcome: str, reason: str) -> Step:
    before = next((argument.value for argument in good.arguments if argument.name == change.setting), None)
    return step_entry(change.setting, before, change.value, good, wanted, outcome, reason)


def step_entry(
    setting: str, before: str | None, after: str | None, good: Recipe, wanted: Recipe, outcome: str, reason: str
) -> Step:
    """A line of the journal; one that is still `trying` is taken back by the next climb (`undo_interrupted`)."""
    return Step.model_validate(
        {
            "setting": setting,
            "before": before,
            "after": after,
            "recipe_before": good.reference,
            "recipe_after": wanted.reference,
            "outcome": outcome,
            "reason": reason,
            "at": utc_now(),
        }
    )


def recipe_of(directory: DeploymentDir, reference: str) -> Recipe:
    """The recipe of that digest among those that were set aside."""
    for path in sorted(directory.path.glob("recipe*.json")):
        try:
            if reference in _names(path):
                return from_json(Recipe, file_bytes(path, own=True), where=str(path))
        except RecordError:
            continue  # one that is damaged is not the one
    raise LaunchError(f"{directory.name} has no recipe {reference}", hint="upright restart with a recipe of yours")


def _names(path: Path) -> tuple[str, ...]:
    """What a recipe's file is called: a newer upright reads an old one as another record, with another digest."""
    content = file_bytes(path, own=True)
    recipe = from_json(Recipe, content, where=str(path))
    return recipe.reference, f"{Recipe.kind}:{parse_json(content).get('digest')}"
