"""Recipe -> a systemd service that runs the engine as a process, as a user of its own."""

from __future__ import annotations

from upright.facts.records.recipe import KEY, KEY_CONFIG, KEY_FILE, PASSED_VALUE, Recipe
from upright.planning.rendering.container import argument_words, is_path, slug
from upright.planning.rendering.quoting import expand_home
from upright.planning.rendering.script import comment, title
from upright.planning.rendering.systemd_text import description, program_word, unit_words, variable

_KEY = "${CREDENTIALS_DIRECTORY}/key"
_CONFIG = "${RUNTIME_DIRECTORY}/key.yaml"


def systemd_unit(recipe: Recipe) -> str:
    name = slug(recipe)
    expand_home(recipe.model_path, None)  # the service's user has no home: such a path is refused
    made, given = _key(recipe, name)
    lines = [
        *title(recipe),
        *made,
        "",
        "[Unit]",
        f"Description={description(recipe)}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "# A user of its own that owns nothing but its caches.",
        "DynamicUser=yes",
        f"CacheDirectory={name}",
        f"RuntimeDirectory={name}",
        f"Environment=HOME=%C/{name}",
        "ProtectSystem=strict",
        f"ProtectHome={'read-only' if is_path(recipe.model_path) else 'yes'}",
        "PrivateTmp=yes",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "RestrictSUIDSGID=yes",
        "LimitMEMLOCK=infinity",
        *_limit(recipe.memory_limit_bytes),
        *given,
    ]
    for setting in recipe.environment:
        if setting.value == PASSED_VALUE:
            lines += [f"# {comment(setting)}", f"PassEnvironment={setting.name}"]
        elif setting.value != KEY:
            lines += [f"# {comment(setting)}", f"Environment={variable(setting)}"]
    lines += [f"# {setting.name}: {comment(setting)}" for setting in recipe.arguments]
    lines += [
        f"ExecStart={_start(recipe)}",
        "Restart=on-failure",
        "TimeoutStartSec=1800",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def _key(recipe: Recipe, name: str) -> tuple[list[str], list[str]]:
    """How it is made, and how the engine gets it."""
    if not recipe.takes_key:
        return [], []
    return (
        [f"# The key: (umask 077 && openssl rand -hex 24 > /etc/upright/{name}.key)"],
        [
            "# The key reaches the engine as a file that only it can read.",
            f"LoadCredential=key:/etc/upright/{name}.key",
        ],
    )


def _limit(count: int | None) -> list[str]:
    if count is None:
        return []
    why = "# GPU and system share one memory: the system keeps the rest, or the machine hangs."
    return [why, f"MemoryMax={count}", "MemorySwapMax=0"]


def _start(recipe: Recipe) -> str:
    # The placeholders are systemd's own variables: they alone may be expanded.
    files = {KEY_FILE: _KEY, KEY_CONFIG: _CONFIG}
    rest = " ".join(files.get(word) or unit_words([word]) for word in argument_words(recipe.arguments))
    if recipe.key_way == "file":
        return f"{program_word(recipe.program)} {rest}"
    name = next((setting.name for setting in recipe.environment if setting.value == KEY), "")
    first = {
        "environment": f'export {name}="$(cat "$CREDENTIALS_DIRECTORY/key")"; exec "$0" "$@"',
        "config": 'umask 077; printf "api-key: %s\\n" "$(cat "$CREDENTIALS_DIRECTORY/key")" '
        '> "$RUNTIME_DIRECTORY/key.yaml"; exec "$0" "$@"',
    }[recipe.key_way]
    return f"/bin/sh -c {unit_words([first])} {program_word(recipe.program)} {rest}"
