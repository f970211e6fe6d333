"""A plugin of vLLM: a step ends when a device of the speed in the environment would be done, as device.c has it."""

from __future__ import annotations

import functools
import os
import time
from typing import Any


def register() -> None:
    from vllm.v1.worker.gpu_worker import Worker

    compute = Worker.execute_model
    if hasattr(compute, "__wrapped__") and compute.__module__ == __name__:
        return  # vLLM loads plugins more than once

    @functools.wraps(compute, assigned=("__doc__",))
    def execute_model(self: Any, scheduled: Any) -> Any:
        over = time.monotonic() + float(os.environ["UPRIGHT_STEP_US"]) / 1e6
        over += scheduled.total_num_scheduled_tokens * float(os.environ["UPRIGHT_TOKEN_US"]) / 1e6
        result = compute(self, scheduled)
        time.sleep(max(0.0, over - time.monotonic()))
        return result

    execute_model.__module__ = __name__
    Worker.execute_model = execute_model
