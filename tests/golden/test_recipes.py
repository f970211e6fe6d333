"""The published deployments' files are current, and the real validators of every target accept them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.programs import needs

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests/golden/recipes"
SERVING = sorted((ROOT / "scripts").glob("serve-*.sh"))
SHELL = [*SERVING, *sorted(GOLDEN.glob("*.sh"))]
UNITS = sorted(GOLDEN.glob("*.service"))
QUADLETS = sorted(GOLDEN.glob("*.container"))
COMPOSE = sorted(GOLDEN.glob("*.compose.yaml"))
MANIFESTS = sorted(set(GOLDEN.glob("*.yaml")) - set(COMPOSE))


def test_every_generated_file_is_current():
    done = subprocess.run([sys.executable, ROOT / "scripts/serving-scripts", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scripts_of_the_published_runs_are_all_there():
    names = {path.stem for path in SERVING}
    assert names == {f"serve-kimi-k26-{each}" for each in ("community-docker", "vllm", "sglang", "ik-llama")}


@pytest.mark.parametrize("path", SHELL, ids=lambda path: path.name)
def test_shellcheck(path: Path):
    needs("shellcheck")
    done = subprocess.run(["shellcheck", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd(path: Path):
    needs("systemd-analyze")
    done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert path.stem not in done.stderr


@pytest.mark.engine
@pytest.mark.parametrize("path", QUADLETS, ids=lambda path: path.name)
def test_the_quadlet_generator(path: Path, quadlet: Path, tmp_path: Path):
    (tmp_path / path.name).write_text(path.read_text())
    done = subprocess.run(
        [quadlet, "-user", "-dryrun"],
        capture_output=True,
        text=True,
        env={**os.environ, "QUADLET_UNIT_DIRS": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    assert "ExecStart=" in done.stdout


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes(path: Path):
    import kubernetes_validate as validate

    documents = list(yaml.safe_load_all(path.read_text()))
    assert [each["kind"] for each in documents] == ["Deployment", "Service"]
    for document in documents:
        validate.validate(document, "1.30", strict=True)


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_the_compose_specification(path: Path):
    from compose_spec import PyCompose

    text = re.sub(r"\$\{ENGINE_USER:\?[^}]*\}", "1000:1000", path.read_text()).replace("${HOME}", "/home/me")
    assert PyCompose.from_yaml(text).service_names() == ["engine"]
    with pytest.raises(ValueError, match="imagee"):
        PyCompose.from_yaml(text.replace("image:", "imagee:"))


@pytest.mark.parametrize("path", COMPOSE, ids=lambda path: path.name)
def test_compose_is_hardened(path: Path):
    engine = yaml.safe_load(path.read_text())["services"]["engine"]
    assert engine["ports"][0].startswith("127.0.0.1:")
    assert engine["cap_drop"] == ["ALL"]
    assert engine["read_only"] is True
    assert engine["volumes"][0].endswith(":ro")
    assert all(isinstance(word, str) for word in engine["command"])


@pytest.mark.parametrize("path", [*SHELL, *UNITS, *QUADLETS, *COMPOSE, *MANIFESTS], ids=lambda path: path.name)
def test_no_placeholder_no_latest_no_key(path: Path):
    text = path.read_text()
    assert "{key" not in text
    assert ":latest" not in text
    assert "--api-key " not in text


@pytest.mark.parametrize("path", SERVING, ids=lambda path: path.name)
def test_a_script_starts_the_engine_with_the_callers_variables_and_hides_the_key(path: Path, tmp_path: Path):
    """The real script, with a program in the engine's place that tells how it was called."""
    key = "k3y-that-nobody-may-see"
    (tmp_path / "key").write_text(key)
    for name in ("vllm", "python3", "podman", "docker"):
        program = tmp_path / name
        program.write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"\necho "env:$VLLM_API_KEY"\n')
        program.chmod(0o755)
    variables = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KEY_FILE": str(tmp_path / "key"),
        "SERVED_MODEL_NAME": "my-name",
        "MAX_MODEL_LEN": "98304",
        "PORT": "5123",
        "IMAGE": "me/engine:1",
        "ENABLE_EAGLE3": "1",
        "EAGLE3_MODEL": "me/draft",
    }
    done = subprocess.run(["bash", path], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    words = done.stdout.splitlines()
    assert "my-name" in words
    assert "98304" in words
    assert "5123" in words
    if "ik-llama" not in path.name:
        assert any("me/draft" in word for word in words)
    shown = [word for word in words if not word.startswith("env:")]
    assert not any(key in word for word in shown)
    assert f"env:{key}" in words or "vllm" not in path.name


def test_a_script_makes_its_own_key_once_and_for_its_owner_alone(tmp_path: Path):
    program = tmp_path / "vllm"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    script = ROOT / "scripts/serve-kimi-k26-vllm.sh"
    subprocess.run(["bash", script], check=True, capture_output=True, env=variables)
    key = tmp_path / ".config/upright/key"
    first = key.read_text()
    assert len(first) == 48
    assert key.stat().st_mode & 0o077 == 0
    subprocess.run(["bash", script], check=True, capture_output=True, env=variables)
    assert key.read_text() == first
