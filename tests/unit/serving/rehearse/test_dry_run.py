"""A tool that crashes has proved nothing of the model."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import Upright

_PROGRAM = """#!/bin/sh
case "$*" in
*--help*) echo "  -mla, --mla-use N"; echo "  --dry-run";;
*--version*) echo "version: 4500 (abcdef12)";;
*--dry-run*) echo "============ llm_prepare_mla: need to compute 4 wkv_b tensors"; kill -SEGV $$;;
esac
"""


def test_a_crash_is_no_verdict(upright: Upright, tiny_model: Path, tmp_path: Path):
    program = tmp_path / "llama-server"
    program.write_text(_PROGRAM)
    program.chmod(0o755)
    words = ("rehearse", tiny_model, "--engine", "ik_llama.cpp", "--context", "2k")
    done = upright(*words, UPRIGHT_LLAMA_SERVER=str(program))
    assert done.returncode == 2, "neither yes nor no"
    assert "not proved: the dry run of this ik_llama.cpp crashed" in done.stderr
    assert "next" not in done.stderr
