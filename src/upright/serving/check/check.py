"""Recipe -> RecipeCheck: the engine's own parser if one is at hand, else the flags recorded of that version.

A parser judges spelling, choices and JSON; a recorded list judges names alone. Which of them spoke is always said.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import open_file
from upright.base.errors import EngineError
from upright.base.host import NEUTRAL_FOLDER, passed_environment, with_absolute_program
from upright.engines import advisories, engine_named
from upright.engines.constraints import breach_notes as constraint_notes
from upright.engines.constraints import breaches, recipe_situation
from upright.engines.facets.finding import PackageFinding
from upright.engines.facets.proof import ParserInPython, ParserOfProgram
from upright.facts.catalog.recorded_architectures import missing_architecture
from upright.facts.catalog.recorded_flags import RecordedFlags, nearest_flags, recorded_flags
from upright.facts.records.box import Box
from upright.facts.records.check import Judge, RecipeCheck, Refusal, StartAnswer
from upright.facts.records.model import Model
from upright.facts.records.plan import Plan
from upright.facts.records.recipe import KEY_CONFIG, KEY_FILE, Recipe, Setting
from upright.serving.check.image_here import image_here
from upright.serving.check.payload import parser
from upright.serving.check.start_code import check_start

PATIENCE_SECONDS = 300
_LEADS = ("-m",)
_HEAD_BYTES = 4096
_NAMES_ONLY = "Only the names of flags were judged: not their values."


@dataclass(frozen=True)
class _Verdict:
    judge: Judge
    by: str
    version: str | None
    refusals: tuple[Refusal, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class DeepCheck:
    """That the start code is asked too, and for what; a recipe alone does not tell the card or its free memory."""

    model: Model | None = None
    box: Box | None = None
    plan: Plan | None = None


def check(recipe: Recipe, *, program: str | None = None, deep: DeepCheck | None = None) -> RecipeCheck:
    """`program` is the engine to ask: an interpreter or virtual environment with it, or its own program."""
    settings = tuple(setting for setting in recipe.arguments if setting.name not in _LEADS)
    asked = program or (recipe.program if recipe.installed else None)
    known = engine_named(recipe.engine).proof.parser
    start = _start(recipe, asked, deep) if deep is not None else None
    if start is not None and start.asked_version is not None:
        verdict = _start_verdict(recipe, start, asked or "")
    elif asked is None or known is None:
        verdict = _recorded(recipe, settings)
    elif isinstance(known, ParserInPython):
        verdict = _ask_python(recipe, known, settings, _interpreter(asked))
    else:
        verdict = _ask_program(known, settings, asked)
    here = image_here(recipe)
    return RecipeCheck(
        made_from=(recipe.reference,),
        engine=recipe.engine,
        engine_version=recipe.engine_version,
        judge=verdict.judge,
        judged_by=verdict.by,
        judged_version=verdict.version,
        settings=len(settings),
        refusals=(*verdict.refusals, *_forbidden(recipe), *_holes(recipe), *_unknown_model(recipe), *here.refusals),
        remarks=(
            *verdict.remarks,
            *here.remarks,
            *_not_judged(recipe),
            *constraint_notes(recipe),
            *advisories.notes(recipe),
        ),
        start=start,
    )


def _start(recipe: Recipe, asked: str | None, deep: DeepCheck) -> StartAnswer:
    engine = engine_named(recipe.engine)
    if engine.proof.start_code is None:
        raise EngineError(f"{engine.title}'s start code cannot be asked: nobody wrote a stand-in of a GPU for it")
    if asked is None:
        raise EngineError(
            f"{engine.title} is not on this machine: its own start code is to judge",
            hint="name an interpreter that has it with --with",
        )
    place = _interpreter(asked)
    return check_start(recipe, engine.proof.start_code, place, model=deep.model, box=deep.box, plan=deep.plan)


def _start_verdict(recipe: Recipe, start: StartAnswer, asked: str) -> _Verdict:
    """Start code begins with the parser, which on a machine without a GPU can judge nothing by itself."""
    name = f"{recipe.engine} {start.asked_version}"
    where = f" ({start.file}:{start.line})" if start.file else ""
    refused = (Refusal(setting=name, message=f"{start.sentence}{where}"),) if start.verdict == "refuses" else ()
    by = f"the start code of {name} in {_interpreter(asked)}"
    return _Verdict("parser", by, start.asked_version, refused, _other_version(recipe, start.asked_version))


def _forbidden(recipe: Recipe) -> Iterator[Refusal]:
    """What no parser knows: silicon, weights and builds that the settings do not go with."""
    situation = recipe_situation(recipe)
    for breach in breaches(situation) if situation else ():
        if breach.refused:
            setting = _naming(recipe, breach.row.demand.fact)
            yield Refusal(setting=setting, message=f"{breach.sentence}. {breach.row.instead}")


def _naming(recipe: Recipe, fact: str) -> str:
    """The words of the recipe that set the fact, or what it follows from."""
    names = {
        name for name, other in engine_named(recipe.engine).constrained_by.items() if other in (fact, _SET_BY.get(fact))
    }
    settings = [setting for setting in recipe.arguments if setting.name.partition("=")[0] in names]
    return " ".join(_words(settings[0])) if settings else ""


_SET_BY = {"expert_width_per_rank": "tensor", "ranks_left": "decode_context", "kv_replicas_left": "decode_context"}


def _not_judged(recipe: Recipe) -> Iterator[str]:
    if recipe.circumstances is None and engine_named(recipe.engine).constrained_by:
        yield (
            "For which box and model it was written is not in this recipe: what they forbid was not judged. "
            "Render it again with `upright render`."
        )


def _holes(recipe: Recipe) -> Iterator[Refusal]:
    """Published holes that no parser knows of."""
    for hole in advisories.open_advisories(advisories.EngineRun.of(recipe)):
        if hole.refused:
            message = f"{hole.row.id}, {hole.row.danger}: {hole.row.title}. {hole.row.instead}"
            yield Refusal(setting=f"{recipe.engine} {recipe.engine_version}", message=message)


def _unknown_model(recipe: Recipe) -> Iterator[Refusal]:
    """A model that the version's registry lacks; a patched image has its own."""
    about = recipe.circumstances
    if about is None or about.image is not None:
        return
    if lacked := missing_architecture(recipe.engine, recipe.engine_version, about.architecture):
        yield Refusal(setting=f"{recipe.engine} {recipe.engine_version}", message=lacked.sentence)


def _recorded(recipe: Recipe, settings: tuple[Setting, ...]) -> _Verdict:
    exact = recorded_flags(recipe.engine, recipe.engine_version) if recipe.engine_version else None
    if exact is not None:
        by = f"the flags recorded of {recipe.engine} {exact.version}"
        return _Verdict("recorded", by, exact.version, _unknown(settings, exact), (_NAMES_ONLY, _hint(recipe)))
    near = nearest_flags(recipe.engine, recipe.engine_version) if recipe.engine_version else None
    if near is None:
        return _Verdict("nobody", "nobody: this version was never recorded", None, (), (_hint(recipe),))
    by = f"the flags of {recipe.engine} {near.version}: {recipe.engine_version} itself was never recorded"
    return _Verdict("neighbour", by, near.version, _unknown(settings, near), (_NAMES_ONLY, _hint(recipe)))


def _unknown(settings: tuple[Setting, ...], known: RecordedFlags) -> tuple[Refusal, ...]:
    return tuple(
        Refusal(setting=" ".join(_words(setting)), message=f"{known.engine} {known.version} has no {setting.name}")
        for setting in settings
        if setting.name.startswith("-") and setting.name not in known
    )


def _hint(recipe: Recipe) -> str:
    engine = engine_named(recipe.engine)
    if engine.proof.parser is None:
        return f"How {engine.title}'s own parser is asked is not known."
    what = "an interpreter that has it" if isinstance(engine.proof.parser, ParserInPython) else f"a {engine.program}"
    return f"This is weaker than the engine's own parser: name {what} with --with."


def _ask_python(recipe: Recipe, known: ParserInPython, settings: tuple[Setting, ...], interpreter: str) -> _Verdict:
    line = [_words(setting) for setting in settings if setting.value != KEY_CONFIG]
    if line and line[0][0] in known.leads:
        line[0] = line[0][1:]
    line = [arguments for arguments in line if arguments]
    script = Path(parser.__file__).read_text(encoding="utf-8")
    done = _run([interpreter, "-c", script, str(known.payload)], json.dumps([line]))
    try:
        refused = parse_json(done.stdout)[0]
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise EngineError(
            f"{interpreter} could not judge for {recipe.engine}: {last}",
            hint=f"is {recipe.engine} installed there?",
        ) from None
    version = _python_version(interpreter, recipe.engine)
    by = f"the parser of {recipe.engine} {version or ''} in {interpreter}"
    return _Verdict("parser", by, version, _refusals(refused), _other_version(recipe, version))


def _ask_program(known: ParserOfProgram, settings: tuple[Setting, ...], program: str) -> _Verdict:
    """The flags and the last words, which start nothing."""

    def swapped(word: str) -> str:
        for pattern, other in known.swaps.items():
            word = re.sub(pattern, other, word)
        return word

    def parse(words: list[str]) -> str | None:
        done = _run([program, *map(swapped, words), *known.words])
        return _complaint(done.stderr + done.stdout) if done.returncode else None

    version = _program_version(program, known)
    refused = parser.refusals(parse, [_words(setting) for setting in settings])
    others = any(swapped(setting_value) != setting_value for setting in settings if (setting_value := setting.value))
    remarks = (known.swapped_remark,) if others and known.swapped_remark else ()
    return _Verdict("parser", f"{program} {version or ''}".strip(), version, _refusals(refused), remarks)


def _refusals(refused: Iterable[tuple[list[str], str]]) -> tuple[Refusal, ...]:
    return tuple(Refusal(setting=" ".join(arguments), message=message) for arguments, message in refused)


def _words(setting: Setting) -> list[str]:
    arguments = [setting.name] if setting.value is None else [setting.name, setting.value]
    return ["/dev/null" if word == KEY_FILE else word for word in arguments]


def _complaint(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "refused without a word")


def _interpreter(where: str) -> str:
    """An interpreter, a virtual environment, or the engine's command, whose first lines name its interpreter."""
    path = Path(where)
    if path.is_dir():
        return str(path / "bin" / "python")
    program = Path(shutil.which(where) or where)
    try:
        with open_file(program) as file:
            head = file.read(_HEAD_BYTES)
    except OSError as error:
        raise EngineError(f"{where} cannot be read: {error.strerror}") from None
    if not head.startswith(b"#!") or program.name.startswith("python"):
        return str(program)
    named = _named(head.decode(errors="replace").splitlines())
    beside = [str(program.with_name(name)) for name in ("python", "python3")]
    # `env` finds a bare name on the PATH of the day: the environment that the command lies in comes first.
    tried = [named, *beside] if "/" in named else [*beside, shutil.which(named)]
    return next((candidate for candidate in tried if candidate and Path(candidate).is_file()), named or str(program))


def _named(lines: list[str]) -> str:
    """The interpreter of a script's first lines; empty if they name no Python."""
    arguments = lines[0][2:].split()
    if lines[1:] and lines[1].startswith("'''exec' "):  # pip's way with a path too long for a first line
        with contextlib.suppress(ValueError):
            arguments = shlex.split(lines[1])[1:2]
    return next((word for word in arguments if "python" in Path(word).name), "")


def _python_version(interpreter: str, engine: str) -> str | None:
    finding = engine_named(engine).finding
    names = tuple(reversed(tuple(finding.distributions))) if isinstance(finding, PackageFinding) else (engine,)
    code = (
        "import importlib.metadata as m\n"
        f"for name in {names!r}:\n"
        "    try:\n        print(m.version(name)); break\n"
        "    except m.PackageNotFoundError: pass\n"
    )
    return _run([interpreter, "-c", code]).stdout.strip().partition("+")[0] or None


def _program_version(program: str, known: ParserOfProgram) -> str | None:
    done = _run([program, "--version"])
    version_match = re.search(known.version, done.stderr + done.stdout)
    return version_match[1] if version_match else None


def _other_version(recipe: Recipe, version: str | None) -> tuple[str, ...]:
    if version is None or recipe.engine_version in (None, version):
        return ()
    return (f"The recipe is for {recipe.engine_version}, the parser is that of {version}.",)


def _run(argv: list[str], text: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            with_absolute_program(argv), input=text, capture_output=True,
            encoding="utf-8", errors="replace", timeout=PATIENCE_SECONDS,
            check=False, env=passed_environment(os.environ, "engine"), cwd=NEUTRAL_FOLDER,
        )  # fmt: skip
    except OSError as error:
        raise EngineError(f"{argv[0]} cannot be run: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise EngineError(f"{argv[0]} gave no verdict within {PATIENCE_SECONDS} s") from None
