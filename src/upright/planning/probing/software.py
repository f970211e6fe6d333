"""uname, os-release, the driver, docker, podman -> the ground that engines stand on."""

from __future__ import annotations

import re

from upright.base.bounds.bounded_json import parse_json
from upright.facts.records.box import ContainerRuntime, Software
from upright.planning.probing import nvidia
from upright.planning.probing.questions import NOT_ASKED, Answers, output_of, script

# `info` tells whether its storage works, and waits while another podman unpacks an image into it: busy is not broken.
_PODMAN = """
podman version --format '{{.Client.Version}}' || exit
timeout 5 podman info >/dev/null || [ $? -eq 124 ]
"""
QUESTIONS = {
    "uname": ("uname", "-nrm"),
    "os-release": ("cat", "/etc/os-release"),
    "driver-module": ("cat", "/proc/driver/nvidia/version"),
    "nvcc": script("nvcc", "nvcc --version 2>/dev/null || /usr/local/cuda/bin/nvcc --version"),
    "docker": ("docker", "version", "--format", "{{.Server.Version}}"),
    "docker-runtimes": ("docker", "info", "--format", "{{json .Runtimes}}"),
    "podman": script("podman", _PODMAN),
    "nvidia-ctk": ("nvidia-ctk", "--version"),
    "cdi": script("cdi", "grep -ls 'nvidia.com/gpu' /etc/cdi/* /var/run/cdi/*"),
}


def read_name(answers: Answers) -> str | None:
    return _uname(answers)[0]


def read_software(answers: Answers) -> Software:
    _, kernel, architecture = _uname(answers)
    long_form = output_of(answers, "nvidia-long") or ""
    module = output_of(answers, "driver-module")
    return Software(
        system=_first(r'^PRETTY_NAME="?([^"\n]*)"?$', output_of(answers, "os-release")),
        kernel=kernel,
        architecture=architecture,
        driver=_driver(answers) or _first(r"^(?:Driver|KMD) Version\s*: (\S+)", long_form),
        driver_open=None if module is None else "Open Kernel Module" in module,
        cuda=_first(r"^CUDA (?:UMD )?Version\s*: (\d\S*)", long_form),
        cuda_toolkit=_first(r"release (\S+),", output_of(answers, "nvcc")),
    )


def read_containers(answers: Answers) -> tuple[ContainerRuntime, ...]:
    return tuple(runtime for runtime in (_docker(answers), _podman(answers)) if runtime is not None)


def _driver(answers: Answers) -> str | None:
    return next((row.get("driver_version") for row in nvidia.query_rows(answers)), None)


def _docker(answers: Answers) -> ContainerRuntime | None:
    asked = answers.get("docker", NOT_ASKED)
    if asked.code == NOT_ASKED.code:
        return None
    gpus = None
    if "nvidia" in _runtimes(output_of(answers, "docker-runtimes")):
        gpus = "nvidia runtime"
    elif output_of(answers, "nvidia-ctk"):
        gpus = "cdi" if output_of(answers, "cdi") else "nvidia runtime"
    return _runtime("docker", asked.code, asked.out, asked.err, gpus)


def _podman(answers: Answers) -> ContainerRuntime | None:
    asked = answers.get("podman", NOT_ASKED)
    if asked.code == NOT_ASKED.code:
        return None
    return _runtime("podman", asked.code, asked.out, asked.err, "cdi" if output_of(answers, "cdi") else None)


def _runtime(name: str, code: int, out: str, err: str, gpus: str | None) -> ContainerRuntime:
    usable = code == 0
    reason = err.strip().splitlines()
    return ContainerRuntime(
        name=name,
        version=out.strip() or None if usable else None,
        usable=usable,
        gpus=gpus,
        problem=None if usable else (reason[-1][:160] if reason else f"exit code {code}"),
    )


def _runtimes(text: str | None) -> set[str]:
    try:
        runtimes = parse_json(text or "{}")
    except ValueError:
        return set()
    return set(runtimes) if isinstance(runtimes, dict) else set()


def _uname(answers: Answers) -> tuple[str | None, str | None, str | None]:
    fields = (output_of(answers, "uname") or "").split()
    return (fields[0], fields[1], fields[2]) if len(fields) == 3 else (None, None, None)


def _first(pattern: str, text: str | None) -> str | None:
    match = re.search(pattern, text or "", re.MULTILINE)
    return match[1].strip() or None if match else None
