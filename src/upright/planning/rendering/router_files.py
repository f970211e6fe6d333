"""The router's Recipe -> files that run it without Upright: a script, a systemd service, a Quadlet unit, a manifest.

The recipe's folder holds what starts smg (`__main__.py`) and the list of boxes; the three keys lie beside them, or
where CREDENTIALS_DIRECTORY says. No file here holds a key.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable

from upright.base.errors import UsageError
from upright.facts.records.recipe import Recipe
from upright.planning.rendering.container import ALL_ADDRESSES, argument_words, label_of, slug
from upright.planning.rendering.quoting import expand_home, one_line, shell_path, shell_word, volume_source, yaml_text
from upright.planning.rendering.script import arguments, comment
from upright.planning.rendering.systemd_text import program_word, unit_words

KEYS = ("client", "worker", "admin")
FOLDER = "/router"
CREDENTIALS = "/run/keys"
_HARDENED = (
    "DropCapability=all",
    "NoNewPrivileges=true",
    "ReadOnly=true",
    "Tmpfs=/tmp",
)


def shell(recipe: Recipe) -> str:
    lines = [
        "#!/usr/bin/env bash",
        *_title(recipe),
        "set -euo pipefail",
        f"ROUTER=${{ROUTER:-{shell_path(recipe.model_path)}}}  # __main__.py, workers.json and the keys",
        f"SMG_PYTHON=${{SMG_PYTHON:-{shell_word(recipe.program)}}}  # of the environment that has smg",
        "",
        "for key in client worker admin; do",
        '  if [ ! -s "$ROUTER/$key.key" ]; then',
        '    echo "$ROUTER/$key.key is missing: (umask 077 && openssl rand -hex 24 >$ROUTER/$key.key)" >&2',
        "    exit 2",
        "  fi",
        "done",
        "",
        *arguments("arguments", recipe.arguments[1:]),
        "",
        'exec "$SMG_PYTHON" -B "$ROUTER" "${arguments[@]}"',
        "",
    ]
    # PORT is a variable of the engines' scripts; here the number itself is as good.
    return "\n".join(lines).replace('--port "$PORT"', f"--port {recipe.port}")


def systemd(recipe: Recipe) -> str:
    folder = expand_home(_normal(recipe.model_path), None).replace("%", "%%")
    lines = [
        *_title(recipe),
        "",
        "[Unit]",
        f"Description={_description(recipe)}",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "# A user of its own that owns nothing.",
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "ProtectHome=read-only",
        "PrivateTmp=yes",
        "NoNewPrivileges=yes",
        "CapabilityBoundingSet=",
        "RestrictSUIDSGID=yes",
        "# The keys reach it as files that only it can read.",
        *(f"LoadCredential={key}.key:{folder}/{key}.key" for key in KEYS),
        *(f"# {setting.name}: {comment(setting)}" for setting in recipe.arguments),
        f"ExecStart={program_word(recipe.program)} {unit_words(argument_words(recipe.arguments))}",
        "Restart=always",
        "TimeoutStopSec=60",
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def quadlet(recipe: Recipe) -> str:
    name = _name(recipe)
    folder = volume_source(_normal(recipe.model_path)).replace("%", "%%").replace("$", "$$")
    inside = [
        argument.model_copy(update={"value": FOLDER}) if argument.name == "-B" else argument
        for argument in recipe.arguments
    ]
    lines = [
        *_title(recipe),
        "# Put it into ~/.config/containers/systemd/, then for each of client, worker and admin",
        f"#   podman secret create {name}-client ~/.config/upright/router/client.key",
        f"#   systemctl --user daemon-reload && systemctl --user start {name}",
        "",
        "[Unit]",
        f"Description={_description(recipe)}",
        "After=network-online.target",
        "",
        "[Container]",
        *([f"# {one_line(recipe.image_about)}"] if recipe.image_about else []),
        f"Image={one_line(recipe.image or '')}",
        f"ContainerName={name}",
        "# Boxes are reached as this machine reaches them, tunnels on its loopback too.",
        "Network=host",
        *_HARDENED,
        "PodmanArgs=--init --entrypoint=python3",
        "# What starts smg, and the list of boxes: the folder, so that a list that was replaced is seen.",
        f"Volume={expand_home(folder, '%h')}:{FOLDER}:ro",
        "# The keys as files: they are in no listing and in no `inspect`.",
        f"Environment=CREDENTIALS_DIRECTORY={CREDENTIALS}",
        *(f"Secret={name}-{key},type=mount,target={CREDENTIALS}/{key}.key" for key in KEYS),
        *(f"# {setting.name}: {comment(setting)}" for setting in inside),
        f"Exec={unit_words(argument_words(inside))}",
        "",
        "[Service]",
        "Restart=always",
        "",
        "[Install]",
        "WantedBy=default.target",
        "",
    ]
    return "\n".join(lines)


def kubernetes(recipe: Recipe, *, starter: str, workers: str) -> str:
    """With what starts smg and the list of boxes as a ConfigMap, and the rule that engines answer the router alone."""
    name = _name(recipe)
    lines = [
        *_title(recipe),
        "# The keys stay in a secret; worker.key is the engines' own:",
        f"#   kubectl create secret generic {name}-keys \\",
        "#     --from-file=client.key --from-file=worker.key --from-file=admin.key",
        "apiVersion: v1",
        "kind: ConfigMap",
        f"metadata: {{name: {name}}}",
        "data:",
        "  workers.json: |",
        *(f"    {line}".rstrip() for line in workers.splitlines()),
        "  __main__.py: |",
        *(f"    {line}".rstrip() for line in starter.splitlines()),
        "---",
        *_pod(recipe, name),
        "---",
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {name}}}",
        "spec:",
        "  type: ClusterIP  # inside the cluster only",
        f"  selector: {{app: {name}}}",
        f"  ports: [{{name: http, port: {recipe.port}, targetPort: http}}]",
        "---",
        f"# Engines answer the router alone: give their pods the label upright-fleet={name}.",
        "apiVersion: networking.k8s.io/v1",
        "kind: NetworkPolicy",
        f"metadata: {{name: {name}-engines}}",
        "spec:",
        f"  podSelector: {{matchLabels: {{upright-fleet: {name}}}}}",
        "  policyTypes: [Ingress]",
        f"  ingress: [{{from: [{{podSelector: {{matchLabels: {{app: {name}}}}}}}]}}]",
        "",
    ]
    return "\n".join(lines)


TARGETS: dict[str, tuple[Callable[[Recipe], str], str]] = {
    "shell": (shell, "router.sh"),
    "systemd": (systemd, "{name}.service"),
    "quadlet": (quadlet, "{name}.container"),
}
"""Besides Kubernetes, whose manifest takes the folder's files too."""


def _pod(recipe: Recipe, name: str) -> list[str]:
    """The router's Deployment."""
    where = {"-B": FOLDER, "--host": ALL_ADDRESSES, "--prometheus-host": ALL_ADDRESSES}
    reasons = {
        "--host": "inside the pod; the service below decides who gets there",
        "--prometheus-host": "inside the pod: Prometheus asks the pod, and no service leads there",
    }
    lines = [
        "apiVersion: apps/v1",
        "kind: Deployment",
        f"metadata: {{name: {name}, labels: {{app: {name}}}}}",
        "spec:",
        "  replicas: 1  # each router knows only what it sent itself: two would send one conversation to two boxes",
        f"  selector: {{matchLabels: {{app: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: {name}}}}}",
        "    spec:",
        "      automountServiceAccountToken: false",
        "      enableServiceLinks: false",
        "      terminationGracePeriodSeconds: 60",
        "      containers:",
        "      - name: router",
        *([f"        # {one_line(recipe.image_about)}"] if recipe.image_about else []),
        f"        image: {yaml_text(recipe.image or '')}",
        '        command: ["python3"]',
        "        args:",
    ]
    for setting in recipe.arguments:
        setting_value = where.get(setting.name, setting.value)
        lines.append(f"        # {reasons.get(setting.name) or comment(setting)}")
        lines += [
            f"        - {yaml_text(_dollars(word))}" for word in (setting.name, setting_value) if word is not None
        ]
    lines += [
        f"        env: [{{name: CREDENTIALS_DIRECTORY, value: {CREDENTIALS}}}]",
        f"        ports: [{{name: http, containerPort: {recipe.port}}}]",
        "        readinessProbe: {httpGet: {path: /readiness, port: http}, periodSeconds: 5}",
        "        livenessProbe: {httpGet: {path: /liveness, port: http}, periodSeconds: 10, failureThreshold: 6}",
        "        securityContext:",
        "          runAsNonRoot: true",
        "          allowPrivilegeEscalation: false",
        "          readOnlyRootFilesystem: true",
        "          capabilities: {drop: [ALL]}",
        "          seccompProfile: {type: RuntimeDefault}",
        "        volumeMounts:",
        f"        - {{name: router, mountPath: {FOLDER}, readOnly: true}}",
        f"        - {{name: keys, mountPath: {CREDENTIALS}, readOnly: true}}",
        "        - {name: tmp, mountPath: /tmp}",
        "      volumes:",
        f"      - {{name: router, configMap: {{name: {name}}}}}",
        f"      - {{name: keys, secret: {{secretName: {name}-keys}}}}",
        "      - {name: tmp, emptyDir: {medium: Memory}}",
    ]
    return lines


def _name(recipe: Recipe) -> str:
    return f"{label_of(slug(recipe))}-router"


def _normal(path: str) -> str:
    """Units take no path with `..` or `//` in it."""
    if posixpath.normpath(path) != path:
        raise UsageError(f"{path} goes round about", hint=f"write {posixpath.normpath(path)}")
    return path


def _dollars(word: str) -> str:
    """Kubernetes expands $(NAME), and reads two as one."""
    return word.replace("$", "$$")


def _title(recipe: Recipe) -> list[str]:
    lines = [
        f"# Routes to {recipe.served_name} with {recipe.engine} {recipe.engine_version}.",
        "# Written by `upright fleet render`; every flag says why it is there.",
        *(f"# Note: {note}" for note in recipe.notes),
    ]
    return [one_line(line) for line in lines]


def _description(recipe: Recipe) -> str:
    return one_line(f"Router to {recipe.served_name}").replace("%", "%%")
