"""Whether a GPU architecture runs an engine's own Triton kernels: compiled ahead of time, without a GPU.

extract   the launcher and its kernels, from the syntax tree      capture   the call that the planned shapes lead to
compile   in a child interpreter, remembered                      check     the verdicts for a model on a target
"""

from __future__ import annotations

from upright.proof.kernels.check import check, kv_type
from upright.proof.kernels.compiler import Compiler
from upright.proof.kernels.interpreter import interpreter
from upright.proof.kernels.interpreter import plain as plain_interpreter
from upright.proof.kernels.sources import find_source
from upright.proof.kernels.targets import CompileTarget, of_capability, target

__all__ = [
    "CompileTarget",
    "Compiler",
    "check",
    "find_source",
    "interpreter",
    "kv_type",
    "of_capability",
    "plain_interpreter",
    "target",
]
