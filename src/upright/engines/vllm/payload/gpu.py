"""What vLLM asks a driver: NVML, torch.cuda, torch.accelerator and Triton's driver, answered for a GPU by its row."""

from __future__ import annotations

import contextlib
import importlib
import types
from dataclasses import dataclass
from typing import Any

import torch

DRIVER, CUDA, NVML_CUDA = "580.95", "13.0", 13000
ARCHITECTURES = ["sm_80", "sm_90", "sm_100", "sm_120"]


@dataclass
class Gpu:
    """One kind of card, and how many of it."""

    name: str
    capability: tuple[int, int]
    count: int
    memory_bytes: int
    multiprocessors: int
    shared_memory_bytes: int

    @property
    def number(self) -> int:
        return self.capability[0] * 10 + self.capability[1]


class Stream:
    """Of a stream or an event: everything is done already."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.device, self.device_index = torch.device("cuda", 0), 0
        self.cuda_stream = self.stream_id = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: Any) -> None:
        return None


class Event(Stream):
    """Also done."""

    def elapsed_time(self, *_: Any) -> float:
        return 0.0

    def query(self) -> bool:
        return True


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _set(target: Any, **answers: Any) -> None:
    for name, answer in answers.items():
        setattr(target, name, answer)


def stand_in(gpu: Gpu) -> None:
    """From here on torch and Triton see it. `gpu.memory_bytes` and `gpu.count` may change later."""
    _torch_cuda(gpu)
    _torch_accelerator(gpu)
    _devices_by_number()
    _triton(gpu)


def _properties(gpu: Gpu) -> types.SimpleNamespace:
    return types.SimpleNamespace(
        name=gpu.name, major=gpu.capability[0], minor=gpu.capability[1], total_memory=gpu.memory_bytes,
        multi_processor_count=gpu.multiprocessors, is_integrated=0, warp_size=32, L2_cache_size=50 << 20,
        shared_memory_per_block=49152, shared_memory_per_block_optin=gpu.shared_memory_bytes,
        shared_memory_per_multiprocessor=gpu.shared_memory_bytes + 1024, max_threads_per_multi_processor=1536,
        regs_per_multiprocessor=65536, gcnArchName="", uuid="GPU-0", pci_bus_id=1,
    )  # fmt: skip


def _torch_cuda(gpu: Gpu) -> None:
    torch.version.cuda = CUDA
    torch.Event = Event
    _set(
        torch.cuda,
        is_available=lambda: True, is_initialized=lambda: True, _is_compiled=lambda: True,
        device_count=lambda: gpu.count, _device_count_nvml=lambda: gpu.count, current_device=lambda: 0,
        get_device_capability=lambda *_: gpu.capability, get_device_name=lambda *_: gpu.name,
        get_device_properties=lambda *_: _properties(gpu), get_arch_list=lambda: ARCHITECTURES,
        mem_get_info=lambda *_: (gpu.memory_bytes, gpu.memory_bytes), memory_stats=lambda *_: {},
        max_memory_allocated=lambda *_: 0, memory_allocated=lambda *_: 0, memory_reserved=lambda *_: 0,
        is_current_stream_capturing=lambda: False, can_device_access_peer=lambda *_: True,
        is_bf16_supported=lambda *_: gpu.capability >= (8, 0), device=lambda *_: contextlib.nullcontext(),
        Stream=Stream, ExternalStream=Stream, Event=Event, stream=lambda *_: contextlib.nullcontext(),
        current_stream=lambda *_: Stream(), default_stream=lambda *_: Stream(),
        **dict.fromkeys(
            ("set_device", "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "_lazy_init", "init",
             "set_stream", "reset_peak_memory_stats"), _nothing),
    )  # fmt: skip


def _torch_accelerator(gpu: Gpu) -> None:
    _set(
        torch.accelerator,
        is_available=lambda: True, device_count=lambda: gpu.count, current_device_index=lambda: 0,
        get_memory_info=lambda *_: (gpu.memory_bytes, gpu.memory_bytes), max_memory_allocated=lambda *_: 0,
        memory_allocated=lambda *_: 0, memory_reserved=lambda *_: 0, memory_stats=lambda *_: {},
        current_stream=lambda *_: Stream(), current_accelerator=lambda *_, **__: torch.device("cuda"),
        **dict.fromkeys(("set_device_index", "synchronize", "empty_cache", "reset_peak_memory_stats"), _nothing),
    )  # fmt: skip


def _devices_by_number() -> None:
    """A bare number as a device makes torch ask its accelerator, which is not there."""
    move = torch.nn.Module.to

    def named(device: Any) -> Any:
        return torch.device("cuda", device) if isinstance(device, int) and not isinstance(device, bool) else device

    def moved(self: Any, *arguments: Any, **named_arguments: Any) -> Any:
        return move(self, *map(named, arguments), **{name: named(given) for name, given in named_arguments.items()})

    torch.nn.Module.to = moved


def _triton(gpu: Gpu) -> None:
    """Kernels are decorated for the target; a launch does nothing, for its caller made the outputs."""
    try:
        from triton.backends import backends
        from triton.backends.compiler import GPUTarget
        from triton.runtime import autotuner, driver, jit
    except ImportError:
        return
    for name, backend in backends.items():
        if backend.driver is not None:
            backend.driver.is_active = staticmethod(lambda name=name: name == "nvidia")
    seen = {
        "max_shared_mem": gpu.shared_memory_bytes, "multiprocessor_count": gpu.multiprocessors, "max_num_regs": 65536,
        "warpSize": 32, "sm_clock_rate": 2000000, "mem_clock_rate": 2000000, "mem_bus_width": 512,
    }  # fmt: skip
    driver.set_active(
        types.SimpleNamespace(
            get_current_target=lambda: GPUTarget("cuda", gpu.number, 32),
            get_current_device=lambda: 0,
            get_current_stream=lambda *_: 0,
            get_active_torch_device=lambda: torch.device("cuda", 0),
            get_device_capability=lambda *_: gpu.capability,
            utils=types.SimpleNamespace(get_device_properties=lambda *_: seen),
        )
    )
    for launched in (jit.JITFunction, autotuner.Autotuner, autotuner.Heuristics):
        launched.run = lambda self, *_, **__: None


def stand_in_nvml(gpu: Gpu) -> None:
    """vLLM's own copy of NVML's Python."""
    nvml = importlib.import_module("vllm.third_party.pynvml")

    def memory(*_: Any) -> types.SimpleNamespace:
        return types.SimpleNamespace(total=gpu.memory_bytes, free=gpu.memory_bytes, used=0)

    _set(
        nvml,
        nvmlInit=_nothing, nvmlShutdown=_nothing, nvmlDeviceGetCount=lambda: gpu.count,
        nvmlDeviceGetHandleByIndex=lambda index: index, nvmlDeviceGetHandleByUUID=lambda _: 0,
        nvmlDeviceGetCudaComputeCapability=lambda _: gpu.capability, nvmlDeviceGetName=lambda _: gpu.name,
        nvmlDeviceGetMemoryInfo=memory, nvmlDeviceGetUUID=lambda handle: f"GPU-{handle}",
        nvmlDeviceGetP2PStatus=lambda *_: nvml.NVML_P2P_STATUS_OK, nvmlSystemGetDriverVersion=lambda: DRIVER,
        nvmlSystemGetCudaDriverVersion=lambda: NVML_CUDA,
    )  # fmt: skip
