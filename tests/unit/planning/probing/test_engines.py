"""Engines found by running real programs: small scripts that answer as the engines do."""

import os
import sys

import pytest

import upright
from upright.base.errors import EngineError
from upright.base.host import LocalHost
from upright.planning.probing import probe
from upright.planning.probing.engines import flags_of

MAINLINE = """----- common params -----

-h,    --help, --usage                  print usage and exit
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
                                        (env: LLAMA_ARG_FLASH_ATTN)
--fim-qwen-1.5b-default                 use default Qwen 2.5 Coder 1.5B
-tb,   --threads-batch N                number of threads (default: same as --threads)
-fitt, --fit-target MiB0,MiB1,MiB2,...
                                        target margin per device for --fit, comma-separated
"""
IK = """  -h,    --help, --usage          print usage and exit
         --version                show version and build info
  -mla,  --mla-use                enable MLA (default: 3)
  -amb,  --attention-max-batch    max batch size for attention computations (see -mla)
"""


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An otherwise empty first place on PATH, and no llama-server named by the environment."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.delenv("UPRIGHT_LLAMA_SERVER", raising=False)
    return folder


def _program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def _llama(path, help_text, version):
    return _program(
        path / "llama-server",
        f"#!/bin/sh\ncase $1 in --version) echo '{version}' >&2 ;; --help) cat <<'END'\n{help_text}END\n;; esac\n",
    )


def test_flags_that_begin_an_entry_and_not_those_of_the_prose():
    assert flags_of(MAINLINE) == (
        "--fim-qwen-1.5b-default", "--fit-target", "--flash-attn", "--help", "--threads-batch", "--usage",
        "-fa", "-fitt", "-h", "-tb",
    )  # fmt: skip


def test_mainline_on_path(path):
    program = _llama(path, MAINLINE, "version: 0.7.0 (build 11669, commit abc)")
    (engine,) = [each for each in probe(LocalHost()).engines if each.program == program]
    assert (engine.engine, engine.version) == ("llama.cpp", "b11669")
    assert "--flash-attn" in (engine.flags or ())


def test_the_fork_is_told_by_its_help(path):
    program = _llama(path, IK, "version: 4271 (8337e4cd)")
    (engine,) = [each for each in probe(LocalHost()).engines if each.program == program]
    assert (engine.engine, engine.version) == ("ik_llama.cpp", "b4271")
    assert engine.commit == "8337e4cd"


def test_a_name_that_leads_nowhere_is_no_engine(path, monkeypatch):
    monkeypatch.setenv("UPRIGHT_LLAMA_SERVER", "/no/such/llama-server")
    assert "/no/such/llama-server" not in [each.program for each in probe(LocalHost()).engines]


def test_vllm_by_the_metadata_of_its_own_interpreter_without_importing_it(path, tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "vllm-0.32.0.dist-info").mkdir(parents=True)
    (site / "vllm-0.32.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.32.0\n")
    (site / "vllm.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    program = _program(path / "vllm", f"#!{sys.executable}\nimport vllm\n")
    (engine,) = [each for each in probe(LocalHost()).engines if each.engine == "vllm"]
    assert (engine.version, engine.program, engine.module, engine.flags) == ("0.32.0", program, None, None)


def test_sglang_without_a_command_is_a_module_of_the_interpreter(path, tmp_path, monkeypatch):
    site = tmp_path / "site"
    (site / "sglang-0.5.23.dist-info").mkdir(parents=True)
    (site / "sglang-0.5.23.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: sglang\nVersion: 0.5.23\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    (engine,) = [each for each in probe(LocalHost()).engines if each.engine == "sglang"]
    assert (engine.version, engine.module) == ("0.5.23", "sglang.launch_server")
    assert "python" in engine.program


ARGPARSE = """usage: vllm serve [model_tag] [options]

options:
  --headless            Run in headless mode. See --help.
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
                        Number of tensor parallel groups. (default: 1)
  --enable-expert-parallel, --no-enable-expert-parallel
                        Use expert parallelism.
  --kv-cache-dtype {auto,bfloat16,fp8,fp8_e4m3}
"""


def test_the_named_engine_comes_first_and_nothing_comes_twice(path, tmp_path, monkeypatch):
    on_path = _llama(path, MAINLINE, "version: 1 (a)")
    other = tmp_path / "other"
    other.mkdir()
    named = _llama(other, IK, "version: 2 (b)")
    monkeypatch.setenv("UPRIGHT_LLAMA_SERVER", named)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".local/bin").mkdir(parents=True)
    (tmp_path / ".local/bin/llama-server").symlink_to(on_path)
    ours = [each for each in probe(LocalHost()).engines if each.program.startswith(str(tmp_path))]
    assert [(each.program, each.engine) for each in ours] == [(named, "ik_llama.cpp"), (on_path, "llama.cpp")]


def test_an_engine_outside_path_in_a_usual_place(path, tmp_path, monkeypatch):
    folder = tmp_path / "llama.cpp/build/bin"
    folder.mkdir(parents=True)
    program = _llama(folder, MAINLINE, "version: 3 (c)")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert program in [each.program for each in probe(LocalHost()).engines]


def test_python_engines_are_asked_for_flags_only_on_request(path):
    program = _program(path / "vllm", f"#!/bin/sh\n[ \"$*\" = 'serve --help=all' ] && cat <<'END'\n{ARGPARSE}END\n")
    (silent,) = [each for each in probe(LocalHost()).engines if each.program == program]
    assert silent.flags is None
    (asked,) = [each for each in probe(LocalHost(), flags=True).engines if each.program == program]
    assert asked.flags == (
        "--enable-expert-parallel", "--headless", "--kv-cache-dtype", "--no-enable-expert-parallel",
        "--tensor-parallel-size", "-tp",
    )  # fmt: skip


def test_a_variable_that_names_no_program_is_told_and_no_other_is_taken(path, monkeypatch, tiny_model):
    _llama(path, MAINLINE, "version: 0.7.0 (build 11669, commit abc)")
    monkeypatch.setenv("UPRIGHT_LLAMA_SERVER", str(path / "not-there"))
    box = probe(LocalHost())
    [told] = [setting for setting in box.settings if setting.name == "UPRIGHT_LLAMA_SERVER"]
    assert (told.verdict, told.state) == ("attention", "names no program that can be run")
    model = upright.read(str(tiny_model))
    [plan, *_] = upright.plan(model, box, context_tokens=1024)
    with pytest.raises(EngineError, match="UPRIGHT_LLAMA_SERVER names no program"):
        upright.render(plan, model, box)


def test_a_variable_that_names_a_program_is_no_finding(path, monkeypatch):
    program = _llama(path, MAINLINE, "version: 0.7.0 (build 11669, commit abc)")
    monkeypatch.setenv("UPRIGHT_LLAMA_SERVER", program)
    assert "UPRIGHT_LLAMA_SERVER" not in {setting.name for setting in probe(LocalHost()).settings}
