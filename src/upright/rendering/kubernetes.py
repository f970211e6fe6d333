"""Recipe -> one plain Kubernetes manifest: a Deployment and a Service inside the cluster."""

from __future__ import annotations

import json

from upright.records.recipe import Recipe
from upright.rendering.container import HUB_MOUNT, KEY_MOUNT, in_container, slug
from upright.rendering.script import comment, title
from upright.rendering.text import at_home


def kubernetes_manifest(recipe: Recipe) -> str:
    name = slug(recipe).replace(".", "-")
    inside = in_container(recipe, reached="the cluster alone reaches the port, through the service below")
    model = inside.mounts[0]
    folder = "/srv/huggingface" if model.target == HUB_MOUNT else at_home(model.source, None)
    lines = [
        *title(recipe),
        "# The key stays in a secret:",
        f"#   openssl rand -hex 24 | kubectl create secret generic {name}-key --from-file=key=/dev/stdin",
        "apiVersion: apps/v1",
        "kind: Deployment",
        f"metadata: {{name: {name}, labels: {{app: {name}}}}}",
        "spec:",
        "  replicas: 1",
        "  strategy: {type: Recreate}  # two engines do not fit on the same GPUs",
        f"  selector: {{matchLabels: {{app: {name}}}}}",
        "  template:",
        f"    metadata: {{labels: {{app: {name}}}}}",
        "    spec:",
        "      automountServiceAccountToken: false",
        "      enableServiceLinks: false",
        "      containers:",
        "      - name: engine",
        *([f"        # {inside.image_about}"] if inside.image_about else []),
        f"        image: {json.dumps(inside.image)}",
        f"        command: {json.dumps([_dollars(word) for word in inside.entrypoint])}",
        "        args:",
    ]
    for setting in inside.settings:
        lines.append(f"        # {comment(setting)}")
        lines += [
            f"        - {json.dumps(_dollars(word))}" for word in (setting.name, setting.value) if word is not None
        ]
    lines.append("        env:")
    for setting in inside.environment:
        lines += [
            f"        # {comment(setting)}",
            f"        - {{name: {setting.name}, value: {json.dumps(setting.value)}}}",
        ]
    lines += [
        f"        ports: [{{name: http, containerPort: {recipe.port}}}]",
        *_probes(recipe),
        "        securityContext:",
        "          allowPrivilegeEscalation: false",
        "          readOnlyRootFilesystem: true",
        "          capabilities: {drop: [ALL]}",
        "          seccompProfile: {type: RuntimeDefault}",
        *([f'        resources: {{limits: {{nvidia.com/gpu: "{recipe.gpus}"}}}}'] if recipe.gpus else []),
        "        volumeMounts:",
        f"        - {{name: model, mountPath: {model.target}, readOnly: true}}  # {model.why}",
        "        - {name: cache, mountPath: /cache}",
        "        - {name: tmp, mountPath: /tmp}",
        "        - {name: shm, mountPath: /dev/shm}",
        f"        - {{name: key, mountPath: {KEY_MOUNT}, subPath: key, readOnly: true}}",
        "      volumes:",
        f"      - {{name: model, hostPath: {{path: {json.dumps(folder)}, type: Directory}}}}",
        "      - {name: cache, emptyDir: {}}",
        "      - {name: tmp, emptyDir: {}}",
        "      - {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}  # ranks share memory through it",
        f"      - {{name: key, secret: {{secretName: {name}-key, defaultMode: 0o400}}}}",
        "---",
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {name}}}",
        "spec:",
        "  type: ClusterIP  # inside the cluster only",
        f"  selector: {{app: {name}}}",
        f"  ports: [{{name: http, port: {recipe.port}, targetPort: http}}]",
        "",
    ]
    return "\n".join(lines).replace("defaultMode: 0o400", "defaultMode: 256")


def _probes(recipe: Recipe) -> list[str]:
    return [
        "        # Loading takes minutes: an hour of patience, then a look every ten seconds.",
        "        startupProbe:",
        f"          httpGet: {{path: {recipe.health_path}, port: http}}",
        "          periodSeconds: 10",
        "          failureThreshold: 360",
        "        livenessProbe:",
        f"          httpGet: {{path: {recipe.health_path}, port: http}}",
        "          periodSeconds: 10",
        "          failureThreshold: 6",
    ]


def _dollars(word: str) -> str:
    """Kubernetes expands $(NAME)."""
    return word.replace("$(", "$$(")
