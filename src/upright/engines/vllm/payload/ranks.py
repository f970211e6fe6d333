"""One rank of a group whose other ranks are not there: torch's own "fake" backend."""

from __future__ import annotations

from typing import Any

import torch.distributed as distributed


def stand_in(config: Any, rank: int) -> None:
    import vllm.distributed.parallel_state as state
    from torch.testing._internal.distributed.fake_pg import FakeStore

    parallel = config.parallel_config
    world = parallel.world_size
    distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world)
    new_group, new_parallel_group = distributed.new_group, state.init_model_parallel_group

    def group(ranks: Any = None, timeout: Any = None, backend: Any = None, **named: Any) -> Any:
        return new_group(ranks, backend="fake")

    def parallel_group(*arguments: Any, **named: Any) -> Any:
        return new_parallel_group(*arguments, **(named | {"use_message_queue_broadcaster": False}))

    distributed.new_group = group
    state.init_model_parallel_group = parallel_group
    state.in_the_same_node_as = lambda *_, **__: [True] * world
    state._node_count = lambda *_: 1
    state.init_distributed_environment(world, rank, "env://", rank, "fake")
    state.ensure_model_parallel_initialized(
        parallel.tensor_parallel_size,
        parallel.pipeline_parallel_size,
        parallel.prefill_context_parallel_size,
        parallel.decode_context_parallel_size,
    )
