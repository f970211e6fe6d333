"""An engine's files out of an image, through a runtime that is a script: what it is asked, and what comes of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from upright.base.errors import EngineError, UsageError
from upright.proof.kernels import find_source

RUNTIME = """#!{python}
import json, pathlib, sys, tarfile
here = pathlib.Path({folder!r})
words = sys.argv[1:]
with (here / "asked").open("a") as file:
    file.write(json.dumps(words) + "\\n")
if words[:2] == ["image", "inspect"]:
    print("sha256:0123456789abcdef")
elif words[0] == "run":
    print(json.dumps({{"python": "3.12", "engines": {{"vllm": ["0.32.0", "/opt/lib/vllm"]}}}}))
elif words[0] == "create":
    print("c0ffee")
elif words[0] == "cp":
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as tar:
        tar.add(here / "vllm", "vllm")
elif words[0] != "rm":
    sys.exit("unknown")
"""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "vllm/csrc").mkdir(parents=True)
    (tmp_path / "vllm/__init__.py").write_text("")
    (tmp_path / "vllm/ops.py").write_text("one = 1\n")
    (tmp_path / "vllm/csrc/big.so").write_bytes(b"\0" * 10)
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "podman").write_text(RUNTIME.format(python=sys.executable, folder=str(tmp_path)))
    (programs / "podman").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path


def test_only_python_files_leave_the_image_and_no_container_stays(runtime: Path) -> None:
    found = find_source("vllm", image="vllm/vllm-openai:v0.32.0")
    assert (found.version, found.installed) == ("0.32.0", False)
    names = sorted(path.relative_to(found.root).as_posix() for path in found.root.rglob("*") if path.is_file())
    assert names == ["vllm/__init__.py", "vllm/ops.py"]
    asked = (runtime / "asked").read_text()
    assert '["rm", "c0ffee"]' in asked
    assert "--network=none" in asked
    find_source("vllm", image="vllm/vllm-openai:v0.32.0")
    assert asked.count('["create"') == (runtime / "asked").read_text().count('["create"') == 1  # copied once


def test_an_image_without_the_engine_is_named(runtime: Path) -> None:
    with pytest.raises(EngineError, match="has no sglang that its python3 knows"):
        find_source("sglang", image="vllm/vllm-openai:v0.32.0")


def test_without_a_runtime_the_hint_says_what_else(runtime: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(runtime))
    with pytest.raises(UsageError, match="podman or docker"):
        find_source("vllm", image="vllm/vllm-openai:v0.32.0")
