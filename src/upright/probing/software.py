"""--version, --help -> the engines on a machine, with the flags they accept.

No engine is imported: importing vLLM costs ten seconds and a CUDA context.
"""

from __future__ import annotations

import re

from upright.probing.questions import Answers, Questions, script, told
from upright.records.box import EngineInstall

QUESTIONS = {
    "engines": script(
        "engines",
        """
        for name in llama-server vllm sglang; do
            path=$(command -v "$name") && printf '%s\\t%s\\n' "$name" "$path"
        done
        [ -n "$UPRIGHT_LLAMA_SERVER" ] && printf 'llama-server\\t%s\\n' "$UPRIGHT_LLAMA_SERVER"
        exit 0
        """,
    ),
}

_VERSION = re.compile(r"version:\s*(.+)")
_FLAG = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")


def engine_questions(answers: Answers) -> Questions:
    """The second round: each engine that the first round found is asked for its version and its help."""
    questions: dict[str, tuple[str, ...]] = {}
    for name, program in _found(answers):
        if name == "llama-server":
            questions[f"{program} --version"] = (program, "--version")
            questions[f"{program} --help"] = (program, "--help")
    return questions


def read_engines(answers: Answers) -> tuple[EngineInstall, ...]:
    return tuple(_llama(answers, program) for name, program in _found(answers) if name == "llama-server")


def _found(answers: Answers) -> list[tuple[str, str]]:
    lines = (told(answers, "engines") or "").splitlines()
    found = dict.fromkeys((name, program) for name, _, program in (line.partition("\t") for line in lines) if program)
    return list(found)


def _llama(answers: Answers, program: str) -> EngineInstall:
    version = answers[f"{program} --version"]
    match = _VERSION.search(version.err + version.out)
    help_text = answers[f"{program} --help"].out
    # Guard: only the fork has MLA modes. https://github.com/ikawrakow/ik_llama.cpp/pull/188
    fork = "-mla" in _FLAG.findall(help_text)
    return EngineInstall(
        engine="ik_llama.cpp" if fork else "llama.cpp", version=match[1].strip() if match else None, program=program
    )
