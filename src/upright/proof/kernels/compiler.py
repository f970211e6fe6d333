"""The compiler: whose Triton, for how long, on how many cores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.proof.kernels.compile import LIMIT_SECONDS, CompileOutcome, CompileTask, Counted, compile_tasks
from upright.proof.kernels.interpreter import Interpreter
from upright.proof.kernels.targets import CompileTarget


@dataclass(frozen=True)
class Compiler:
    """An interpreter with Triton, and the limits of one compile."""

    interpreter: Interpreter
    limit_seconds: float = LIMIT_SECONDS
    workers: int | None = None
    """Compiles at once; None for one a core."""
    tell: Counted | None = None
    """Called with how many launches are done, of how many."""
    options: tuple[str, ...] = ()
    """The options that name it, for the next command."""

    def outcomes(self, tasks: Sequence[CompileTask], target: CompileTarget) -> list[list[CompileOutcome]]:
        return compile_tasks(
            tasks,
            target,
            self.interpreter,
            limit_seconds=self.limit_seconds,
            workers=self.workers,
            tell=self.tell,
        )
