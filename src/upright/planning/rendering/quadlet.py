"""Recipe -> a Quadlet unit: podman under systemd."""

from __future__ import annotations

from upright.facts.records.recipe import PASSED_VALUE, Recipe
from upright.planning.rendering.container import KEY_MOUNT, Container, Mount, container_of, slug
from upright.planning.rendering.quoting import expand_home, one_line, volume_source
from upright.planning.rendering.script import comment, title
from upright.planning.rendering.systemd_text import container_variable, description, unit_words


def quadlet_unit(recipe: Recipe) -> str:
    inside = container_of(recipe)
    model, cache = inside.mounts
    name = slug(recipe)
    lines = [
        *title(recipe),
        "# Put it into ~/.config/containers/systemd/, then",
        f"#   mkdir -p {cache.source}",
        f"#   openssl rand -hex 24 | podman secret create {name}-key -",
        f"#   systemctl --user daemon-reload && systemctl --user start {name}",
        "",
        "[Unit]",
        f"Description={description(recipe)}",
        "After=network-online.target",
        "",
        "[Container]",
        *([f"# {inside.image_about}"] if inside.image_about else []),
        f"Image={one_line(inside.image)}",
        f"ContainerName={name}",
        "# Clients on this machine only.",
        f"PublishPort=127.0.0.1:{recipe.port}:{recipe.port}",
        *(["AddDevice=nvidia.com/gpu=all"] if recipe.gpus else []),
        "# Nothing that an engine does not need; ranks share memory through /dev/shm.",
        "DropCapability=all",
        "NoNewPrivileges=true",
        "ReadOnly=true",
        "Tmpfs=/tmp:exec",
        f"PodmanArgs=--shm-size={inside.shared_memory}{_limit(inside)} --ulimit=memlock=-1 --init "
        f"--entrypoint={inside.entrypoint[0]}",
        f"# {model.why}",
        f"Volume={_home(model)}:{model.target}:ro,z",
        f"# {cache.why}",
        f"Volume={_home(cache)}:{cache.target}:z",
        "# The key as a file: it is in no listing and in no `inspect`.",
        f"Secret={name}-key,type=mount,target={KEY_MOUNT}",
    ]
    for setting in inside.environment:
        passed = f"PodmanArgs=--env={setting.name}"
        unit_line = passed if setting.value == PASSED_VALUE else f"Environment={container_variable(setting)}"
        lines += [f"# {comment(setting)}", unit_line]
    lines += [f"# {setting.name}: {comment(setting)}" for setting in inside.settings]
    lines += [f"Exec={unit_words(inside.words)}", "", "[Service]"]
    lines += [*(f"PassEnvironment={name}" for name in recipe.passed), "Restart=on-failure", "TimeoutStartSec=1800"]
    return "\n".join([*lines, "", "[Install]", "WantedBy=default.target", ""])


def _home(mount: Mount) -> str:
    """It becomes a word of ExecStart, where systemd expands both."""
    return expand_home(volume_source(mount.source).replace("%", "%%").replace("$", "$$"), "%h")


def _limit(inside: Container) -> str:
    """The system keeps the rest of a memory that GPU and system share."""
    return f" --memory={inside.memory_limit_bytes} --memory-swap={inside.memory_limit_bytes}" * bool(
        inside.memory_limit_bytes
    )
