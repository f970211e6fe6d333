"""A bound kernel -> the shared memory it needs, and for finalists registers and spills."""

from __future__ import annotations

import inspect
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton._C.libtriton import ir, llvm
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend

from .launch import Bound

_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (\d+) registers")


class _Allocated(Exception):  # noqa: N818  a signal, not an error
    """Triton's allocation pass is done: nothing after it changes the figures in here."""


def shared_memory(kernel: Any, bound: Bound, capability: int) -> dict[str, Any]:
    """The figure that Triton compares with the device's limit, read right after the pass that sets it.

    `llvm.to_module` is the first step after the allocation pass; stopping there saves LLVM's optimiser and ptxas.
    """
    original = llvm.to_module

    def stop(module: Any, *_rest: Any) -> None:
        raise _Allocated(_figures(module.get_int_attr))

    llvm.to_module = stop
    try:
        metadata, _ = _stages(kernel, bound, capability, until="llir")
    except _Allocated as done:
        figures: dict[str, Any] = done.args[0]
        return figures
    finally:
        llvm.to_module = original
    return {"shared_bytes": metadata["shared"], "tensor_memory_columns": metadata.get("tmem_size")}


def binary(kernel: Any, bound: Bound, capability: int) -> dict[str, Any]:
    """All the way to the binary: shared memory, registers, stack and spills as ptxas reports them."""
    metadata, code = _stages(kernel, bound, capability, until="ptx")
    text = code.decode() if isinstance(code, bytes) else str(code)
    return {
        "shared_bytes": metadata["shared"],
        "tensor_memory_columns": metadata.get("tmem_size"),
        **_assembled(text, capability),
    }


def _stages(kernel: Any, bound: Bound, capability: int, *, until: str) -> tuple[dict[str, Any], Any]:
    target = GPUTarget("cuda", capability, 32)
    backend = make_backend(target)
    source = ASTSource(kernel, bound.signature, bound.constants, bound.attributes)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, bound.options, source.language)
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    metadata: dict[str, Any] = {"hash": "0", "target": target, **bound.options.__dict__}
    codegen, modules = backend.get_codegen_implementation(bound.options), backend.get_module_map()
    leading = (target,) if len(inspect.signature(source.make_ir).parameters) == 5 else ()
    module = source.make_ir(*leading, bound.options, codegen, modules, context)
    for name, stage in stages.items():
        module = stage(module, metadata)
        if name == until:
            break
    return metadata, module


def _figures(attribute: Any) -> dict[str, Any]:
    return {
        "shared_bytes": attribute("ttg.shared"),
        "tensor_memory_columns": attribute("ttg.tensor_memory_size"),
    }


def _assembled(code: str, capability: int) -> dict[str, Any]:
    folder = Path(triton.__file__).parent / "backends/nvidia/bin"
    newer = folder / "ptxas-blackwell"
    program = newer if capability >= 100 and newer.exists() else folder / "ptxas"
    named = re.search(r"^\.target\s+(\w+)", code, re.MULTILINE)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "kernel.ptx")
        source.write_text(code)
        command = [str(program), "-v", f"--gpu-name={named[1] if named else f'sm_{capability}'}"]
        done = subprocess.run(
            [*command, str(source), "-o", f"{scratch}/kernel.cubin"], capture_output=True, text=True, check=False
        )
    if done.returncode != 0:
        raise RuntimeError(f"ptxas: {(done.stderr or done.stdout).strip().splitlines()[-1][:300]}")
    spills, registers = _SPILLS.search(done.stderr), _REGISTERS.search(done.stderr)
    return {
        "registers": int(registers[1]) if registers else None,
        "stack_bytes": int(spills[1]) if spills else None,
        "spill_bytes": int(spills[2]) + int(spills[3]) if spills else None,
    }
