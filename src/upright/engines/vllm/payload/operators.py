"""Compiled kernels: the engine's own where they load, else their names with no-ops behind them.

Schemas of an engine whose libraries were left out are in `OPERATORS`, read from those libraries' own strings by
`scripts/get-phantom`.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import json
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch._subclasses import fake_impls, fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from .gpu import Gpu

OPERATORS = "share/operators.json"
GUARD = "lib/device_guard.so"
PYTHON_ONLY = "share/python"
"""Packages of another build of torch, whose operators are not there."""
EXTENSIONS = (
    "_C", "_C_stable_libtorch", "_moe_C", "_moe_C_stable_libtorch", "_qutlass_C", "_flashmla_C",
    "_flashmla_extension_C", "_deepselect_C", "_flashkda_C", "vllm_flash_attn._vllm_fa2_C",
    "vllm_flash_attn._vllm_fa3_C",
)  # fmt: skip
# What the CUDA build answers in C++ (csrc/.../entry.cu): the only facts of the engine that are written down here.
PREDICATES = {
    "cutlass_scaled_mm_supports_fp8": lambda number: number >= 89,
    "cutlass_scaled_mm_supports_block_fp8": lambda number: number >= 90,
    "cutlass_scaled_mm_supports_fp4": lambda number: number >= 100,
    "cutlass_group_gemm_supported": lambda number: 90 <= number < 110,
}
_kept: list[torch.library.Library] = []


class Absent(types.ModuleType):
    """An extension that does not load here: whatever is called in it does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *_, **__: None


def fake_tensors() -> FakeTensorMode:
    """Shapes without bytes on a device that is not there; a value that is looked at is 1, or False."""
    if (python := Path(sys.prefix) / PYTHON_ONLY).is_dir():
        sys.path.append(str(python))
    if (guard := Path(sys.prefix) / GUARD).is_file():
        torch.ops.load_library(str(guard))
    FakeTensorMode.avoid_device_init = property(lambda _: True)
    fake_tensor.init_gpu_context = lambda _: None
    fake_impls.op_implementations_dict[torch.ops.aten._local_scalar_dense.default] = _one
    fake_tensor.FakeTensor.numpy = _zeros
    return FakeTensorMode(allow_non_fake_inputs=True)


def _zeros(tensor: torch.Tensor, **_: Any) -> Any:
    """What is looked at as an array is a table of blocks or lengths: of the right shape, and empty."""
    import numpy

    name = str(tensor.dtype).removeprefix("torch.").replace("bfloat16", "float32")
    return numpy.zeros(tuple(tensor.shape), name)


def _one(_: Any, __: Any, tensor: torch.Tensor) -> bool | float | int:
    if tensor.dtype == torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() else 1


def stand_in(folder: Path, gpu: Gpu) -> list[str]:
    """The extensions that are not in the engine's folder and are only names here."""
    absent = [name for name in EXTENSIONS if not list(folder.glob(f"{name.replace('.', '/')}.*so"))]
    for name in absent:
        sys.modules[f"vllm.{name}"] = Absent(f"vllm.{name}")
    if "_C_stable_libtorch" in absent:
        _define(Path(sys.prefix) / OPERATORS, gpu)
    _without_torchvision_operators()
    return absent


def stand_in_deep_gemm() -> bool:
    """It comes with the engine and looks for a driver: where it does not load its presence is taken for granted."""
    try:
        importlib.import_module("vllm.third_party.deep_gemm")
    except Exception:  # it asserts, or finds no libcuda
        for name in [name for name in sys.modules if name.startswith("vllm.third_party.deep_gemm")]:
            del sys.modules[name]
        _deep_gemm()
        return True
    return False


def _deep_gemm() -> None:
    name = "vllm.third_party.deep_gemm"
    module = sys.modules[name] = Absent(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__path__ = []
    for asked in ("get_mk_alignment_for_contiguous_layout", "get_theoretical_mk_alignment_for_contiguous_layout"):
        setattr(module, asked, lambda *_, **__: 128)


def _define(path: Path, gpu: Gpu) -> None:
    if not path.is_file():
        return
    for namespace, schemas in json.loads(path.read_text()).items():
        library = torch.library.Library(namespace, "FRAGMENT")
        _kept.append(library)
        for schema in schemas:
            with contextlib.suppress(Exception):  # one that this torch defines already, or cannot read
                library.define(schema)
                if schema.rstrip().endswith("-> ()"):
                    name = f"{namespace}::{schema.partition('(')[0]}"
                    torch.library.register_fake(name, lambda *_, **__: None, lib=library)
                elif schema.rstrip().endswith("-> int"):  # how large a workspace is, or how many blocks: nobody knows
                    library.impl(schema.partition("(")[0], lambda *_, **__: 1, "CompositeExplicitAutograd")
        if namespace == "_C":
            for name, answer in PREDICATES.items():
                with contextlib.suppress(Exception):
                    library.impl(name, answer, "CompositeExplicitAutograd")


def _without_torchvision_operators() -> None:
    """A torchvision for another build of torch: its Python is enough."""
    register = torch.library.register_fake

    def registered(operator: Any, *arguments: Any, **named: Any) -> Any:
        if isinstance(operator, str) and operator.startswith("torchvision::"):
            return lambda function: function
        return register(operator, *arguments, **named)

    torch.library.register_fake = registered
