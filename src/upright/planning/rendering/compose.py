"""Recipe -> compose.yaml."""

from __future__ import annotations

from upright.facts.records.recipe import PASSED_VALUE, Recipe
from upright.planning.rendering.container import KEY_MOUNT, Mount, container_of, label_of, slug
from upright.planning.rendering.quoting import expand_home, volume_source, yaml_name, yaml_text
from upright.planning.rendering.script import comment, title


def compose_file(recipe: Recipe) -> str:
    inside = container_of(recipe)
    model, cache = inside.mounts
    lines = [
        *title(recipe),
        "# The key: (umask 077 && openssl rand -hex 24 > upright-key) beside this file.",
        f'# Its owner and the caches: mkdir -p {cache.source}; export ENGINE_USER="$(id -u):$(id -g)"',
        f"name: {yaml_name(label_of(slug(recipe)))}",
        "services:",
        "  engine:",
        *([f"    # {inside.image_about}"] if inside.image_about else []),
        f"    image: {_text(inside.image)}",
        "    init: true",
        "    # Who owns the key: without capabilities not even root could read another's.",
        '    user: "${ENGINE_USER:?export it first, as the top of this file says}"',
        "    restart: unless-stopped",
        f'    ports: ["127.0.0.1:{recipe.port}:{recipe.port}"]  # clients on this machine only',
        f"    shm_size: {inside.shared_memory}"
        "  # ranks share memory through it; ipc host would share the whole machine's",
        *_limit(inside.memory_limit_bytes),
        "    ulimits: {memlock: -1}",
        "    read_only: true",
        "    tmpfs: [/tmp:exec]",
        "    cap_drop: [ALL]",
        "    security_opt: ['no-new-privileges:true']",
        "    secrets: [{source: key, target: " + KEY_MOUNT + "}]",
        "    volumes:",
        f"      # {model.why}",
        f"      - {_volume(model)}",
        f"      # {cache.why}",
        f"      - {_volume(cache)}",
        "    environment:",
    ]
    for setting in inside.environment:
        passed = f'"${{{setting.name}:?export it first}}"'
        yaml_value = passed if setting.value == PASSED_VALUE else _text(setting.value or "")
        lines += [f"      # {comment(setting)}", f"      {setting.name}: {yaml_value}"]
    lines += [f"    entrypoint: [{', '.join(map(_text, inside.entrypoint))}]", "    command:"]
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


def _limit(count: int | None) -> list[str]:
    if count is None:
        return []
    why = "# GPU and system share one memory: the system keeps the rest, or the machine hangs"
    return [f"    mem_limit: {count}  {why}", f"    memswap_limit: {count}"]


def _volume(mount: Mount) -> str:
    source = expand_home(_dollars(volume_source(mount.source)), "${HOME}")
    return yaml_text(f"{source}:{mount.target}{':ro' if mount.read_only else ''}")


def _text(word: str) -> str:
    return yaml_text(_dollars(word))


def _dollars(word: str) -> str:
    """Compose would expand them."""
    return word.replace("$", "$$")
