"""The engines on a machine and the flags they accept, from --version, --help and package metadata.

Each engine says where it is looked for (`engines.facets.finding`). No Python engine is imported, since that costs ten
seconds and a CUDA context: the metadata of the interpreter that its command names in its first line tells the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from upright.base.host import Result
from upright.engines import ENGINES
from upright.engines.facets.finding import PackageFinding, ProgramFinding
from upright.facts.records.box import EngineInstall, HostSetting
from upright.planning.probing.questions import NOT_ASKED, Answers, Questions, output_of, script

_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]*")
_ENTRY = re.compile(r"^ {0,12}(?=-)(.*?)(?: {2,}(?![ -])|$)")
# The PATH of a command over ssh is short, so the usual places are looked at too.
_LOOK = """
seen=' '
look() {{
    [ -f "$2" ] && [ -x "$2" ] || return 0
    real=$(readlink -f "$2" 2>/dev/null || echo "$2")
    case $seen in *" $1:$real "*) return 0 ;; esac
    seen="$seen$1:$real "
    python=
    case $1 in {packages})
        python=$(sed -n '1s/^#! *//p; 1q' "$2")
        case $python in *python*) ;; *) python=${{2%/*}}/python3; [ -x "$python" ] || python= ;; esac ;;
    esac
    printf '%s\\t%s\\t%s\\n' "$1" "$2" "$python"
}}
named() {{
    [ -z "$3" ] || {{ [ -f "$3" ] && [ -x "$3" ]; }} || printf '%s\\n' "$1"
    look "$2" "$3"
}}
{named}
for name in {names}; do
    look "$name" "$(command -v "$name")"
    for place in "$HOME/.local/bin" {places} \\
        "$VIRTUAL_ENV/bin" "$HOME/.venv/bin" "$HOME/venv/bin" "$HOME"/.venvs/*/bin /usr/local/bin /opt/*/bin; do
        look "$name" "$place/$name"
    done
done
look python3 "$(command -v python3)"
"""
# Distributions that carry an engine under another name count too; a build for CPUs is told by its version, as
# upstream's own is: 0.32.0+cpu.
_METADATA = """
import importlib.metadata as metadata
for engine, name, mark in {names!r}:
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        continue
    print(engine, version + ("" if "+" in version else mark), sep="\\t")
"""


def first_questions() -> Questions:
    """The first round: where programs are."""
    commands, packages = list(dict.fromkeys(_commands().values())), _packages()
    names = dict.fromkeys([*(command.name for command in commands), *(package.name for package in packages.values())])
    places = dict.fromkeys(f'"{place}"' for command in commands for place in command.places)
    text = _LOOK.format(
        packages="|".join(package.name for package in packages.values()) or "''",
        named="\n".join(f'named {variable} {name} "${variable}"' for variable, name in _variables().items()),
        names=" ".join(names),
        places=" ".join(places),
    )
    return {"engines": script("engines", text)}


def blind_variables(answers: Answers) -> tuple[HostSetting, ...]:
    """Variables of a person that name no program, so that another would be taken in its place."""
    lines = set((output_of(answers, "engines") or "").splitlines())
    return tuple(
        HostSetting(
            name=variable,
            state="names no program that can be run",
            verdict="attention",
            meaning="another program, or none, would be taken in its place",
            change=f"export {variable}=/the/whole/path/to/{program}, or unset {variable}",
            source="the environment of this shell",
        )
        for variable, program in _variables().items()
        if variable in lines
    )


def engine_questions(answers: Answers) -> Questions:
    """The second round: what the first one found is asked for its version, and for its help where that is cheap."""
    questions: dict[str, tuple[str, ...]] = {}
    commands = {command.name for command in _commands().values()}
    for executable in _found(answers):
        if executable.name in commands:
            questions[f"{executable.program} --version"] = (executable.program, "--version")
            questions[f"{executable.program} --help"] = (executable.program, "--help")
        elif executable.python:
            questions[f"{executable.python} metadata"] = (*executable.python.split(), "-c", _metadata(), "metadata")
    return questions


def help_questions(installs: Iterable[EngineInstall]) -> Questions:
    """A third round, on request: the Python engines import torch before they print their help."""
    packages = _packages()
    return {
        install.program: (install.program, "-m", install.module, *package.module_help)
        if install.module
        else (install.program, *package.help)
        for install in installs
        if install.flags is None and (package := packages.get(install.engine)) is not None
    }


def with_flags(installs: Iterable[EngineInstall], answers: Answers) -> tuple[EngineInstall, ...]:
    return tuple(
        install.model_copy(update={"flags": flags_of(text)})
        if (text := output_of(answers, install.program))
        else install
        for install in installs
    )


def read_engines(answers: Answers) -> tuple[EngineInstall, ...]:
    """What a person's variable names comes first, then the order of PATH."""
    installs: list[EngineInstall] = []
    commands = {command.name for command in _commands().values()}
    packages = {package.name: engine for engine, package in _packages().items()}
    for executable in _found(answers):
        if executable.name in commands:
            installs.append(_program(answers, executable))
        elif executable.name in packages:
            engine = packages[executable.name]
            version = _versions(answers, executable.python).get(engine)
            installs.append(EngineInstall(engine=engine, version=version, program=executable.program))
        else:
            known = {install.engine for install in installs}
            installs += [
                EngineInstall(
                    engine=engine, version=version, program=executable.program, module=_packages()[engine].module
                )
                for engine, version in _versions(answers, executable.python).items()
                if engine not in known
            ]
    return tuple(installs)


def flags_of(help_text: str) -> tuple[str, ...]:
    """The flags that a help text defines: those that begin an entry, not those that its prose mentions."""
    entries = (_ENTRY.match(line) for line in help_text.splitlines())
    return tuple(sorted({flag for entry in entries if entry for flag in _FLAG.findall(entry[1])}))


@dataclass(frozen=True)
class _Found:
    name: str
    program: str
    python: str


def _found(answers: Answers) -> list[_Found]:
    """Engines' commands with the interpreter behind them, and last the python3 on PATH."""
    lines = [(line + "\t\t").split("\t") for line in (output_of(answers, "engines") or "").splitlines()]
    executables = [_Found(name, program, python) for name, program, python, *_ in lines if program]
    return [
        replace(executable, python=executable.program) if executable.name == "python3" else executable
        for executable in executables
    ]


def _program(answers: Answers, found: _Found) -> EngineInstall:
    """Which of the engines with that command it is, by the flag that only one of them has."""
    version = _answer(answers, f"{found.program} --version")
    help_text = _answer(answers, f"{found.program} --help")
    flags = flags_of(help_text.out or help_text.err)
    alike = {engine: command for engine, command in _commands().items() if command.name == found.name}
    told_apart = (engine for engine, command in alike.items() if command.only_flag in flags)
    plain = (engine for engine, command in alike.items() if command.only_flag is None)
    engine = next(told_apart, None) or next(plain, None) or next(iter(alike))
    match = re.search(alike[engine].version, version.err + version.out)
    return EngineInstall(
        engine=engine,
        version=f"{alike[engine].mark}{match['build']}" if match else None,
        commit=match["commit"] if match else None,
        program=found.program,
        flags=flags or None,
    )


def _versions(answers: Answers, python: str) -> dict[str, str]:
    lines = _answer(answers, f"{python} metadata").out.splitlines()
    pairs = (line.split("\t", 1) for line in lines if "\t" in line)
    return {engine: version for engine, version in pairs if engine in _packages()}


def _metadata() -> str:
    names = [
        (engine, name, mark) for engine, package in _packages().items() for name, mark in package.distributions.items()
    ]
    return _METADATA.format(names=names)


def _commands() -> Mapping[str, ProgramFinding]:
    """Engine -> its program."""
    return {name: engine.finding for name, engine in ENGINES.items() if isinstance(engine.finding, ProgramFinding)}


def _variables() -> Mapping[str, str]:
    """The variable by which a person names it -> the program."""
    return {command.variable: command.name for command in _commands().values() if command.variable}


def _packages() -> Mapping[str, PackageFinding]:
    """Engine -> its Python package."""
    return {name: engine.finding for name, engine in ENGINES.items() if isinstance(engine.finding, PackageFinding)}


def _answer(answers: Answers, name: str) -> Result:
    return answers.get(name, NOT_ASKED)
