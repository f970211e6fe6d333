"""One command, as far as vLLM's own "GPU KV cache size".

Argument parser, VllmConfig, one rank's model, cache specs, pool, scheduler, attention's metadata.
"""

from __future__ import annotations

import contextlib
import json
import os
import types
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import operators, ranks
from .gpu import Gpu, stand_in_nvml

COMMUNICATOR = "vllm.distributed.device_communicators.base_device_communicator.DeviceCommunicatorBase"


class Question(TypedDict):
    """One command for one GPU."""

    name: str
    config: dict[str, Any]
    """The model's config.json."""
    words: list[str]
    """Flags behind `vllm serve MODEL`."""
    free_bytes: int | None
    """What a rank has free for the cache; None if nobody plans it."""
    bounded: bool
    """Whether then the engine's share of the card, less the weights, is taken: the most that it can be."""
    gpus: int
    memory_bytes: int


class Asked:
    """How far it came, and what was seen on the way."""

    def __init__(self) -> None:
        self.stage = "import"
        self.facts: dict[str, Any] = {}

    @contextlib.contextmanager
    def at(self, stage: str) -> Iterator[None]:
        self.stage = stage
        yield


def stand_in_engine(gpu: Gpu) -> list[str]:
    """vLLM on CUDA's platform; the extensions of it that are only names."""
    import vllm

    absent = operators.stand_in(Path(vllm.__path__[0]), gpu)
    stand_in_nvml(gpu)
    import vllm.model_executor.models.registry as registry
    import vllm.platforms as platforms
    from vllm.platforms.cuda import CudaPlatform

    platforms.vllm_version_matches_substr = lambda part: part != "cpu"
    CudaPlatform.get_device_communicator_cls = classmethod(lambda _: COMMUNICATOR)
    CudaPlatform.current_device = classmethod(lambda _: torch.device("cuda", 0))
    CudaPlatform.device_count = classmethod(lambda _: gpu.count)
    CudaPlatform.is_fully_connected = classmethod(lambda *_: False)
    platforms._current_platform = CudaPlatform()
    registry._run_in_subprocess = lambda function: function()  # a process of its own would have no stand-ins
    registry._try_inspect_model_cls = lambda name, model: (
        model.inspect_model_cls()
    )  # an import that fails says so itself
    registry._LazyRegisteredModel._save_modelinfo_to_cache = lambda *_: None
    registry._LazyRegisteredModel._load_modelinfo_from_cache = lambda *_: None
    if operators.stand_in_deep_gemm():
        absent.append("third_party.deep_gemm")
    parser()
    return absent


@cache
def parser() -> tuple[Any, Callable[..., Any]]:
    """The parser and its check: made before the questions, so that each pays for itself alone."""
    from vllm.engine.arg_utils import AsyncEngineArgs  # noqa: F401
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    try:
        from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
    except ImportError:
        from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
    return make_arg_parser(FlexibleArgumentParser()), validate_parsed_serve_args


def start(question: Question, folder: str, fake: FakeTensorMode, asked: Asked) -> None:
    """Raises what vLLM raises."""
    with asked.at("parser"):
        parsed = _parse(question, folder)
    with asked.at("configuration"):
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.usage.usage_lib import UsageContext

        config = AsyncEngineArgs.from_cli_args(parsed).create_engine_config(
            usage_context=UsageContext.OPENAI_API_SERVER
        )
        asked.facts |= _settled(config)
    from vllm.config import set_current_vllm_config
    from vllm.v1.worker.workspace import init_workspace_manager

    with set_current_vllm_config(config):
        with asked.at("ranks"):
            ranks.stand_in(config, 0)
            with fake:
                init_workspace_manager(torch.device("cuda", 0), 1)  # as a worker does before it loads the model
        model = _construct(config, fake, asked)
        specs = _cache_specs(config, fake, asked)
        free = question["free_bytes"]
        if free is None and question["bounded"]:
            share = config.cache_config.gpu_memory_utilization * question["memory_bytes"]
            free = max(0, int(share) - asked.facts["weight_bytes"])
            asked.facts["at_most"] = True
        if free is not None and specs:
            _fill(config, specs, free, fake, asked)
        del model
    asked.stage = "cache" if free is None else "scheduler"


def _parse(question: Question, folder: str) -> Any:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({name: given for name, given in question["config"].items() if name != "auto_map"}, file)
    serve, validate = parser()
    words = [folder, "--skip-tokenizer-init", "--load-format", "dummy", *question["words"]]
    talk = _Talk()
    with talk:
        parsed = serve.parse_args(words)
    validate(parsed)
    parsed.model = folder
    return parsed


class RefusedError(Exception):
    """The parser's own words."""


class _Talk(contextlib.ExitStack):
    """A parser that refuses prints and exits: its words become an exception."""

    def __enter__(self) -> _Talk:
        import io

        super().__enter__()
        self.said = io.StringIO()
        self.enter_context(contextlib.redirect_stderr(self.said))
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Literal[False]:
        super().__exit__(kind, error, trace)
        if isinstance(error, SystemExit):
            said = self.said.getvalue()
            raise RefusedError(" ".join(said.rpartition("error:")[2].split())) from None
        return False


def _settled(config: Any) -> dict[str, Any]:
    scheduler, parallel = config.scheduler_config, config.parallel_config
    return {
        "architecture": config.model_config.architecture,
        "quantisation": config.model_config.quantization,
        "cache_type": str(config.cache_config.cache_dtype),
        "context_tokens": config.model_config.max_model_len,
        "sequences": scheduler.max_num_seqs,
        "batched_tokens": scheduler.max_num_batched_tokens,
        "tensor": parallel.tensor_parallel_size,
        "decode_context": parallel.decode_context_parallel_size,
        "graph_sizes": len(config.compilation_config.cudagraph_capture_sizes or []),
        "largest_graph": max(config.compilation_config.cudagraph_capture_sizes or [0]),
    }


def _construct(config: Any, fake: FakeTensorMode, asked: Asked) -> Any:
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    made_as = config.model_config.dtype
    with asked.at("model"), fake, set_default_torch_dtype(made_as), torch.device("cuda", 0):
        model = initialize_model(vllm_config=config, model_config=config.model_config)
    storages = {
        tensor.untyped_storage()._cdata: tensor.untyped_storage().nbytes()
        for tensor in (*model.parameters(), *model.buffers())
    }
    asked.facts["weight_bytes"] = sum(storages.values())
    return model


def _cache_specs(config: Any, fake: FakeTensorMode, asked: Asked) -> dict[str, Any]:
    from vllm.platforms import current_platform

    with asked.at("cache"):
        current_platform.update_block_size_for_backend(config)
        from vllm.v1.worker.gpu.attn_utils import get_kv_cache_spec

        with fake:
            specs: dict[str, Any] = get_kv_cache_spec(config)
    kinds: dict[tuple[Any, ...], int] = {}
    for spec in specs.values():
        kind = (type(spec).__name__, spec.block_size, spec.page_size_bytes, getattr(spec, "sliding_window", None))
        kinds[kind] = kinds.get(kind, 0) + 1
    asked.facts["layers"] = [[*kind, count] for kind, count in kinds.items()]
    asked.facts["block_size"] = config.cache_config.block_size
    return specs


def _fill(config: Any, specs: dict[str, Any], free: int, fake: FakeTensorMode, asked: Asked) -> None:
    """The engine core's own method; only how many bytes are free is answered by us."""
    from vllm.v1.engine.core import EngineCore
    from vllm.v1.worker.worker_base import WorkerBase

    worker, count = types.SimpleNamespace(vllm_config=config), config.parallel_config.world_size
    kept: list[Any] = []
    executor = types.SimpleNamespace(
        get_kv_cache_specs=lambda: [dict(specs)] * count,
        get_supported_kv_cache_layouts=lambda: [WorkerBase.get_supported_kv_cache_layouts(worker)] * count,
        set_kv_cache_layout=lambda name: WorkerBase.set_kv_cache_layout(worker, name),
        determine_available_memory=lambda: [free] * count,
        initialize_from_config=kept.extend,
        compile_or_warm_up_model=lambda: None,
    )
    core = types.SimpleNamespace(model_executor=executor, collective_rpc=lambda *_, **__: None)
    with asked.at("pool"):
        pool = EngineCore._initialize_kv_caches(core, config)
        cache = config.cache_config
        asked.facts |= {
            "free_bytes": free,
            "pool_tokens": cache.kv_cache_size_tokens,
            "blocks": pool.num_blocks,
        }
    with asked.at("scheduler"):
        from vllm.v1.core.kv_cache_utils import resolve_kv_cache_block_sizes

        block, hashed = resolve_kv_cache_block_sizes(pool, config)
        config.scheduler_config.get_scheduler_cls()(
            vllm_config=config, kv_cache_config=pool, structured_output_manager=types.SimpleNamespace(),
            include_finished_set=False, log_stats=False, block_size=block, hash_block_size=hashed,
        )  # fmt: skip
    with asked.at("attention"):
        from vllm.v1.worker.cp_utils import check_attention_cp_compatibility
        from vllm.v1.worker.gpu.attn_utils import init_attn_backend

        check_attention_cp_compatibility(config)
        device = torch.device("cuda", 0)
        with fake:
            init_attn_backend(kept[0], config, device)
