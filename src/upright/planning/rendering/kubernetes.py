"""Recipe -> one plain Kubernetes manifest: a Deployment and a Service inside the cluster."""

from __future__ import annotations

from collections.abc import Mapping

from upright.facts.records.recipe import PASSED_VALUE, Recipe, Setting
from upright.planning.rendering.container import HUB_MOUNT, KEY_MOUNT, container_of, label_of, slug
from upright.planning.rendering.quoting import expand_home, yaml_name, yaml_text
from upright.planning.rendering.script import comment, title


def kubernetes_manifest(recipe: Recipe) -> str:
    name = yaml_name(app_name(recipe))
    lines = [
        *heading(recipe),
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
        *(f"      {line}" for line in pod(recipe)),
        *service(recipe, f"{{app: {name}}}"),
        "",
    ]
    return "\n".join(lines)


def app_name(recipe: Recipe) -> str:
    return label_of(slug(recipe))


def heading(recipe: Recipe) -> list[str]:
    return [
        *title(recipe),
        "# The key stays in a secret:",
        f"#   openssl rand -hex 24 | kubectl create secret generic {app_name(recipe)}-key --from-file=key=/dev/stdin",
    ]


def pod(recipe: Recipe, known: Mapping[str, str] | None = None, *, serves: bool = True) -> list[str]:
    """A pod's spec. `known` are values of flags that the cluster fills in; one that does not serve has no port."""
    inside = container_of(recipe, reached="the cluster alone reaches the port, through the service below")
    model = inside.mounts[0]
    folder = "/srv/huggingface" if model.target == HUB_MOUNT else expand_home(model.source, None)
    return [
        "automountServiceAccountToken: false",
        "enableServiceLinks: false",
        "containers:",
        "- name: engine",
        *([f"  # {inside.image_about}"] if inside.image_about else []),
        f"  image: {yaml_text(inside.image)}",
        f"  command: [{', '.join(yaml_text(_dollars(word)) for word in inside.entrypoint)}]",
        "  args:",
        *(f"  {line}" for setting in inside.settings for line in _argument(setting, known or {})),
        "  env:",
        *(f"  {line}" for setting in inside.environment for line in _variable(setting, app_name(recipe))),
        *([f"  ports: [{{name: http, containerPort: {recipe.port}}}]", *_probes(recipe)] if serves else []),
        "  securityContext:",
        "    allowPrivilegeEscalation: false",
        "    readOnlyRootFilesystem: true",
        "    capabilities: {drop: [ALL]}",
        "    seccompProfile: {type: RuntimeDefault}",
        *([f'  resources: {{limits: {{nvidia.com/gpu: "{recipe.gpus}"}}}}'] if recipe.gpus else []),
        "  volumeMounts:",
        f"  - {{name: model, mountPath: {model.target}, readOnly: true}}  # {model.why}",
        "  - {name: cache, mountPath: /cache}",
        "  - {name: tmp, mountPath: /tmp}",
        "  - {name: shm, mountPath: /dev/shm}",
        f"  - {{name: key, mountPath: {KEY_MOUNT}, subPath: key, readOnly: true}}",
        "volumes:",
        f"- {{name: model, hostPath: {{path: {yaml_text(folder)}, type: Directory}}}}",
        "- {name: cache, emptyDir: {}}",
        "- {name: tmp, emptyDir: {}}",
        "- {name: shm, emptyDir: {medium: Memory, sizeLimit: 32Gi}}  # ranks share memory through it",
        f"- {{name: key, secret: {{secretName: {app_name(recipe)}-key, defaultMode: 256}}}}",
    ]


def service(recipe: Recipe, selector: str) -> list[str]:
    return [
        "---",
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {yaml_name(app_name(recipe))}}}",
        "spec:",
        "  type: ClusterIP  # inside the cluster only",
        f"  selector: {selector}",
        f"  ports: [{{name: http, port: {recipe.port}, targetPort: http}}]",
    ]


def _argument(setting: Setting, known: Mapping[str, str]) -> list[str]:
    setting_value = known.get(setting.name) or (None if setting.value is None else _dollars(setting.value))
    argv = [setting.name] if setting_value is None else [setting.name, setting_value]
    return [f"# {comment(setting)}", *(f"- {yaml_text(word)}" for word in argv)]


def _variable(setting: Setting, app: str) -> list[str]:
    if setting.value == PASSED_VALUE:
        secret = f"{{name: {app}-environment, key: {setting.name}}}"
        return [f"# {comment(setting)}", f"- {{name: {setting.name}, valueFrom: {{secretKeyRef: {secret}}}}}"]
    return [f"# {comment(setting)}", f"- {{name: {setting.name}, value: {yaml_text(_dollars(setting.value or ''))}}}"]


def _probes(recipe: Recipe) -> list[str]:
    return [
        "  # Loading takes minutes: an hour of patience, then a look every ten seconds.",
        "  startupProbe:",
        f"    httpGet: {{path: {recipe.health_path}, port: http}}",
        "    periodSeconds: 10",
        "    failureThreshold: 360",
        "  livenessProbe:",
        f"    httpGet: {{path: {recipe.health_path}, port: http}}",
        "    periodSeconds: 10",
        "    failureThreshold: 6",
    ]


def _dollars(word: str) -> str:
    """Kubernetes expands $(NAME), and reads two as one."""
    return word.replace("$", "$$")
