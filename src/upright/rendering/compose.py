"""Recipe -> compose.yaml."""

from __future__ import annotations

import json

from upright.records.recipe import Recipe
from upright.rendering.container import KEY_MOUNT, SHARED_MEMORY, in_container, slug
from upright.rendering.script import comment, title


def compose_file(recipe: Recipe) -> str:
    inside = in_container(recipe)
    model, cache = inside.mounts
    lines = [
        *title(recipe),
        "# The key: (umask 077 && openssl rand -hex 24 > upright-key) beside this file.",
        f"name: {_project(slug(recipe))}",
        "services:",
        "  engine:",
        *([f"    # {inside.image_about}"] if inside.image_about else []),
        f"    image: {_text(inside.image)}",
        "    init: true",
        "    user: ${UID:-1000}:${GID:-1000}  # who owns the key: without capabilities root could not read it",
        "    restart: unless-stopped",
        f'    ports: ["127.0.0.1:{recipe.port}:{recipe.port}"]  # clients on this machine only',
        f"    shm_size: {SHARED_MEMORY}  # ranks share memory through it; ipc host would share the whole machine's",
        "    ulimits: {memlock: -1}",
        "    read_only: true",
        "    tmpfs: [/tmp:exec]",
        "    cap_drop: [ALL]",
        "    security_opt: ['no-new-privileges:true']",
        "    secrets: [{source: key, target: " + KEY_MOUNT + "}]",
        "    volumes:",
        f"      # {model.why}",
        f"      - {_text(f'{_home(model.source)}:{model.target}:ro')}",
        f"      # {cache.why}",
        f"      - {_text(f'{_home(cache.source)}:{cache.target}')}",
        "    environment:",
    ]
    for setting in inside.environment:
        lines += [f"      # {comment(setting)}", f"      {setting.name}: {_text(setting.value or '')}"]
    lines += [f"    entrypoint: {json.dumps([_dollars(word) for word in inside.entrypoint])}", "    command:"]
    for setting in inside.settings:
        lines.append(f"      # {comment(setting)}")
        lines += [f"      - {_text(word)}" for word in (setting.name, setting.value) if word is not None]
    if recipe.gpus:
        lines += [
            "    deploy:",
            "      resources:",
            "        reservations:",
            "          devices: [{driver: nvidia, count: all, capabilities: [gpu]}]",
        ]
    lines += ["secrets:", "  key: {file: ./upright-key}", ""]
    return "\n".join(lines)


def _home(path: str) -> str:
    return path.replace("~", "${HOME}", 1)


def _project(name: str) -> str:
    return name.replace(".", "-")


def _text(word: str) -> str:
    return json.dumps(_dollars(word) if not word.startswith("${HOME}") else word)


def _dollars(word: str) -> str:
    """Compose would expand them."""
    return word.replace("$", "$$")
