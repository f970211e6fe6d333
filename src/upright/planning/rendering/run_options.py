"""The arguments of `docker run` or `podman run` for a container, each with its reason.

The script that `render` writes and the command that `up` starts are both made from these; the script puts shell
variables where the command has paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from upright.facts.records.recipe import PASSED_VALUE, Recipe, Setting
from upright.planning.rendering.container import CACHE_MOUNT, KEY_MOUNT, Container, container_of
from upright.planning.rendering.quoting import volume_source

_GPUS = {
    "docker": (("--gpus", "all"), "every GPU, by the NVIDIA container toolkit"),
    "podman": (("--device", "nvidia.com/gpu=all"), "every GPU, by its CDI name (nvidia-ctk cdi generate)"),
}


@dataclass(frozen=True)
class RunPaths:
    """Where things are on the machine that runs the container."""

    model_folder: str
    cache_folder: str
    key_file: str
    user: str
    """UID:GID of whoever owns the key and the caches."""
    port: str
    address: str = "127.0.0.1"
    """Where the port is published."""


class Option(NamedTuple):
    """Words of the command, and why they are there."""

    words: tuple[str, ...]
    why: str | None = None


def run_options(inside: Container, runtime: str, places: RunPaths, *, gpus: int) -> Iterator[Option]:
    """Everything but the environment, which the container names itself."""
    model, cache = inside.mounts
    yield Option(("--rm", "--init"))
    if runtime == "docker":
        # Guard: without capabilities not even root reads a file that another user owns, such as the key.
        yield Option(("--user", places.user), "as you: the key and the caches are yours")
    if gpus:
        gpu_flags, why = _GPUS[runtime]
        yield Option(gpu_flags, why)
    if inside.host_network:
        yield Option(("--network", "host"), "boxes are reached as this machine reaches them, tunnels too")
        if runtime == "podman":
            yield Option(("--user", "0:0"), "without root: you, whose keys they are; the image has a user of its own")
    else:
        yield Option(
            ("--publish", f"{places.address}:{places.port}:{places.port}"),
            "clients on this machine only; put a proxy with TLS before it for others",
        )
    if gpus:
        yield Option(
            ("--shm-size", inside.shared_memory, "--ulimit", "memlock=-1"),
            "ranks share memory through it; --ipc=host would share the whole machine's",
        )
    if inside.memory_limit_bytes is not None:
        limit = str(inside.memory_limit_bytes)
        yield Option(
            ("--memory", limit, "--memory-swap", limit),
            "GPU and system share one memory: the system keeps the rest, or the machine hangs",
        )
    yield Option(
        ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only", "--tmpfs", "/tmp:exec"),  # noqa: S108
        "nothing that an engine does not need",
    )
    # Under SELinux a container reads only what carries its label: the key is its own, weights and cache are shared.
    shared, relabelled = (",z", ",Z") if runtime == "podman" else ("", "")
    yield Option(("--volume", f"{volume_source(places.model_folder)}:{model.target}:ro{shared}"), model.why)
    yield Option(("--volume", f"{volume_source(places.cache_folder)}:{CACHE_MOUNT}{':z' if shared else ''}"), cache.why)
    yield Option(
        ("--volume", f"{volume_source(places.key_file)}:{KEY_MOUNT}:ro{relabelled}"),
        "the key as a file: it is in no listing and in no `inspect`",
    )
    if runtime == "podman":
        yield Option(("--http-proxy=false",), "a proxy's address may hold a password, and the engine fetches nothing")
    yield Option(("--entrypoint", inside.entrypoint[0]))


def _variable(setting: Setting) -> str:
    """The name alone: the runtime takes the value from its own environment, and no listing shows it."""
    return setting.name if setting.value == PASSED_VALUE else f"{setting.name}={setting.value or ''}"


def run_command(recipe: Recipe, runtime: str, places: RunPaths, *, name: str, label: str) -> tuple[str, ...]:
    """The whole command, in the foreground: its output is the engine's, its end is the engine's end."""
    inside = container_of(recipe)
    options = (word for entry in run_options(inside, runtime, places, gpus=recipe.gpus) for word in entry.words)
    environment = (word for entry in inside.environment for word in ("--env", _variable(entry)))
    # What it prints comes to us as it prints it: a second copy that only grows is not kept.
    named = ("--name", name, "--label", label, "--log-driver", "none")
    return (runtime, "run", *named, *options, *environment, inside.image, *inside.words)
