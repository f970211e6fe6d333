"""Files of a fleet for those who run a cluster: manifests, Helm values, an sbatch script.

Engines are Deployments (LeaderWorkerSets where several boxes hold one model) with llm-d's labels; the router is smg's
own chart, whose list names the Services written here. A Job proves each box. Nothing here watches or scales anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upright.facts.catalog.recorded_flags import nearest_flags
from upright.facts.records.fleet import Fleet
from upright.facts.records.recipe import Recipe, Setting
from upright.planning.choosing.routing import SMG_VERSION, RouterPolicy
from upright.planning.rendering.container import ALL_ADDRESSES, label_of
from upright.planning.rendering.kubernetes import pod
from upright.planning.rendering.leaderworkerset import LWS_VALUES, group_head
from upright.planning.rendering.quoting import one_line, shell_word, yaml_text
from upright.planning.rendering.recipe import LOOPBACK
from upright.planning.rendering.router import policy_choice

USER = 10001
"""Numeric: `runAsNonRoot` cannot be checked by a name."""
GRACE_SECONDS = 3600
_DRAIN_FLAG = "--shutdown-timeout"
"""Without it vLLM cuts what runs at the first SIGTERM, whatever grace the pod has (vllm/v1/engine/core.py:1632)."""
_DRAIN_SECONDS = GRACE_SECONDS - 60
PROVER_IMAGE = "upright:local"
"""Yours to build from the wheel that you run: nothing is fetched by a name that somebody else could take."""
_CHART_POLICIES = ("cache_aware", "round_robin", "power_of_two", "prefix_hash")
"""Those of fleet.yaml that values.schema.json of smg's chart takes."""


@dataclass(frozen=True)
class ClusterBox:
    """One box of the fleet as a cluster has it: one Deployment, or one group of pods."""

    name: str
    recipes: tuple[Recipe, ...]

    @property
    def service(self) -> str:
        return label_of(self.name)

    @property
    def recipe(self) -> Recipe:
        return self.recipes[0]

    @property
    def url(self) -> str:
        return f"http://{self.service}:{self.recipe.port}"


@dataclass(frozen=True)
class PodRdma:
    """RDMA between pods."""

    interface: str
    """What NCCL speaks through, as the pods see it."""
    resource: str = "rdma/hca"
    """As the cluster's device plugin calls it."""


def engine_manifests(fleet: Fleet, boxes: Sequence[ClusterBox], wire: PodRdma | None = None) -> str:
    """Deployments or LeaderWorkerSets, their Services, who may reach them, and who reads their metrics."""
    parts = [part for box in boxes for part in (_engine(fleet, box, wire), _service(fleet, box))]
    parts += [_policy(fleet, boxes), _monitor(fleet)]
    return "\n".join([*_head(fleet), "\n---\n".join("\n".join(part) for part in parts), ""])


def proof_jobs(fleet: Fleet, boxes: Sequence[ClusterBox]) -> str:
    """A Job a box: it climbs `upright prove` at the box's own Service. Whoever admits the box waits for it."""
    return "\n".join([*_head(fleet), "\n---\n".join("\n".join(_job(fleet, box)) for box in boxes), ""])


def helm_values(fleet: Fleet, boxes: Sequence[ClusterBox]) -> str:
    """For smg's own chart: `helm install`. Its list names the Services of `engines`."""
    choice, router = policy_choice(fleet), fleet.router
    policy = choice.policy if choice.policy in _CHART_POLICIES else "cache_aware"
    at_once = router.requests_at_once or 4 * sum((box.goal or fleet.goal).users for box in fleet.boxes)
    lines = [
        *_head(fleet),
        "# The chart hands its one key on: auth.apiKey is the engines' key too, and clients show it.",
        f"#   kubectl get secret {fleet_name(fleet)}-key -o jsonpath='{{.data.key}}' | base64 -d >key",
        f"#   helm install {fleet_name(fleet)} oci://ghcr.io/lightseekorg/charts/smg -f values.yaml \\",
        "#     --set-file auth.apiKey=key",
        "global:",
        "  image:",
        f'    tag: "{SMG_VERSION}"',
        "router:",
        "  replicas: 1  # each router knows only what it sent itself: two would send one conversation to two boxes",
        f"  policy: {policy}  # {one_line(choice.why)}",
        *_cache_lines(choice),
        "  workerUrls:  # one Service a box: a Service over several would hide them from the policy",
        *(f"  - {yaml_text(box.url)}" for box in boxes),
        f"  requestTimeoutSecs: {router.request_seconds}  # long answers are what agents wait for",
        f"  maxConcurrentRequests: {at_once}  # four times what the boxes serve at once",
        f"  queueSize: {at_once}",
        "  queueTimeoutSecs: 60",
        "  retry: {maxRetries: 3, maxBackoffMs: 2000}",
        "  circuitBreaker: {timeoutDurationSecs: 10}",
        f"  healthCheck: {{intervalSecs: {router.health_seconds}, failureThreshold: 2, successThreshold: 1}}",
        f"  port: {router.port}",
        f"  service: {{type: ClusterIP, port: {router.port}}}",
        f"  metrics: {{port: {router.metrics_port}, serviceMonitor: {{enabled: true}}}}",
        "  securityContext:",
        "    readOnlyRootFilesystem: true",
        "    runAsNonRoot: true",
        f"    runAsUser: {USER}",
        "    allowPrivilegeEscalation: false",
        "history: {backend: none}  # conversations are the clients': none is kept here",
        "",
    ]
    return "\n".join(lines)


def sbatch(fleet: Fleet, boxes: Sequence[ClusterBox]) -> str:
    """Thin: one array task a box, each the script that `upright render --to shell` writes; Slurm keeps the rest."""
    gpus = max((box.recipe.gpus or 0) for box in boxes)
    cases = [
        f"  {number}) exec {shell_word(f'./serve-{box.service}.sh')} ;;  # {one_line(box.name)}"
        for number, box in enumerate(boxes)
    ]
    lines = [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={fleet_name(fleet)}",
        f"#SBATCH --array=0-{len(boxes) - 1}",
        "#SBATCH --nodes=1",
        "#SBATCH --ntasks=1",
        "#SBATCH --exclusive",
        *([f"#SBATCH --gpus-per-node={gpus}"] if gpus else []),
        "#SBATCH --signal=B:TERM@300",
        "#SBATCH --requeue",
        f"# Engines of {fleet_name(fleet)}, one array task a box. Written by `upright fleet render --to slurm`.",
        "# Engines listen on every address of their node, and answer their key alone.",
        "# Slurm ends a task 300 s after TERM, and answers that run may end until then.",
        "# Beside this file: the script of each box (upright render --to shell).",
        "set -euo pipefail",
        'cd "${SLURM_SUBMIT_DIR:-.}"',
        'hostname -f >"worker-${SLURM_ARRAY_TASK_ID:?started by sbatch}.host"  # where the router finds it',
        'case "$SLURM_ARRAY_TASK_ID" in',
        *cases,
        '  *) echo "there is no box $SLURM_ARRAY_TASK_ID" >&2; exit 2 ;;',
        "esac",
        "",
    ]
    return "\n".join(lines)


def binding_all(recipe: Recipe) -> Recipe:
    """A node that Slurm chooses has no address yet: an engine that would bind loopback binds all, behind its key."""
    if recipe.host not in (LOOPBACK, "localhost"):
        return recipe
    why = "Slurm chooses the node, and the router is on another: its key is what keeps others out"
    arguments = tuple(
        Setting(name=setting.name, value=ALL_ADDRESSES, reason=why) if setting.name == "--host" else setting
        for setting in recipe.arguments
    )
    return recipe.model_copy(update={"host": ALL_ADDRESSES, "arguments": arguments})


def fleet_name(fleet: Fleet) -> str:
    return label_of(fleet.name)


def _cache_lines(choice: RouterPolicy) -> list[str]:
    """The chart's own is 0.3, at which agents that begin alike all go to one box."""
    if choice.cache_threshold is None:
        return []
    return [
        f"  cacheThreshold: {choice.cache_threshold:g}  # {one_line(choice.threshold_why)}",
        f"  balanceAbsThreshold: {choice.spill_requests}  # so many requests over the mean make a box too full",
    ]


def _engine(fleet: Fleet, box: ClusterBox, wire: PodRdma | None) -> list[str]:
    if len(box.recipes) > 1:
        return _group(fleet, box, wire)
    return [
        "apiVersion: apps/v1",
        "kind: Deployment",
        f"metadata: {{name: {box.service}, labels: {_labels(fleet, box)}}}",
        "spec:",
        "  replicas: 1  # another box is another Deployment: the router tells them apart by their Services",
        "  strategy: {type: Recreate}  # two engines do not fit on the same GPUs",
        f"  selector: {{matchLabels: {{app: {box.service}}}}}",
        "  template:",
        f"    metadata: {{labels: {_labels(fleet, box)}}}",
        "    spec:",
        *(f"      {line}" for line in _pod(fleet, box.recipe, wire)),
    ]


def _group(fleet: Fleet, box: ClusterBox, wire: PodRdma | None) -> list[str]:
    leader, worker = box.recipes[0], box.recipes[1]
    return [
        "apiVersion: leaderworkerset.x-k8s.io/v1",
        "kind: LeaderWorkerSet",
        f"metadata: {{name: {box.service}, labels: {_labels(fleet, box)}}}",
        *group_head(leader.nodes),
        "    leaderTemplate:",
        f"      metadata: {{labels: {_labels(fleet, box)}}}",
        "      spec:",
        *(f"        {line}" for line in _pod(fleet, leader, wire, LWS_VALUES)),
        "    workerTemplate:",
        f"      metadata: {{labels: {{group: {box.service}, upright-fleet: {fleet_name(fleet)}}}}}",
        "      spec:",
        *(f"        {line}" for line in _pod(fleet, worker, wire, LWS_VALUES, serves=False)),
    ]


def _pod(
    fleet: Fleet, recipe: Recipe, wire: PodRdma | None, known: dict[str, str] | None = None, *, serves: bool = True
) -> list[str]:
    """The pod that `render --to kubernetes` writes, with a cluster's limits, grace, user and wire."""
    lines: list[str] = [
        f"terminationGracePeriodSeconds: {GRACE_SECONDS}  # answers that run may end",
        "# The weights on the node must be readable for this user.",
        f"securityContext: {{runAsUser: {USER}, runAsGroup: {USER}, fsGroup: {USER}, runAsNonRoot: true}}",
    ]
    for line in pod(_draining(_over(recipe, wire)), known, serves=serves):
        if line.strip() == "startupProbe:":
            lines += [
                "  # Taken from the Service within ten seconds of the first refusal, and back with the first answer.",
                "  readinessProbe:",
                f"    httpGet: {{path: {recipe.health_path}, port: http}}",
                "    periodSeconds: 5",
                "    timeoutSeconds: 5",
                "    failureThreshold: 2",
            ]
        if line.strip().startswith("resources:"):
            continue
        lines.append(_for_cluster(line, fleet, wire))
        if line.strip().startswith("seccompProfile:"):
            lines += _resources(recipe, wire)
    return lines


def _over(recipe: Recipe, wire: PodRdma | None) -> Recipe:
    """The same recipe on that wire."""
    if wire is None:
        return recipe
    others = tuple(setting for setting in recipe.environment if setting.name != "NCCL_SOCKET_IFNAME")
    spoken = Setting(name="NCCL_SOCKET_IFNAME", value=wire.interface, reason="what NCCL finds the other pods through")
    return recipe.model_copy(update={"environment": (*others, spoken)})


def _draining(recipe: Recipe) -> Recipe:
    """The same recipe, whose engine uses the grace that its pod has, if that release can."""
    flags = nearest_flags(recipe.engine, recipe.engine_version)
    if flags is None or _DRAIN_FLAG not in flags or _DRAIN_FLAG in recipe.argv:
        return recipe
    drain = Setting(name=_DRAIN_FLAG, value=str(_DRAIN_SECONDS), reason="answers that run end before the pod does")
    return recipe.model_copy(update={"arguments": (*recipe.arguments, drain)})


def _for_cluster(line: str, fleet: Fleet, wire: PodRdma | None) -> str:
    """One key for all engines; and what RDMA needs."""
    if "secretName: " in line:
        own = line.partition("secretName: ")[2].partition(",")[0]
        return line.replace(own, f"{fleet_name(fleet)}-key")
    if wire is not None and line.strip() == "capabilities: {drop: [ALL]}":
        return "    capabilities: {drop: [ALL], add: [IPC_LOCK]}  # RDMA pins memory"
    return line


def _resources(recipe: Recipe, wire: PodRdma | None) -> list[str]:
    """Requests and limits are the same for what cannot be shared; a processor and memory may be given more."""
    cores, gpus = max(4, 4 * (recipe.gpus or 0)), recipe.gpus or 0
    whole = [f'nvidia.com/gpu: "{gpus}"'] if gpus else []
    whole += [f'{wire.resource}: "1"'] if wire is not None else []
    asked = ", ".join([f'cpu: "{cores}"', "memory: 64Gi", *whole])
    bound = ", ".join(["memory: 256Gi", *whole])
    return [
        "  # cpu and memory are a beginning: see `upright tools top`; experts in RAM take their whole size.",
        f"  resources: {{requests: {{{asked}}}, limits: {{{bound}}}}}",
    ]


def _service(fleet: Fleet, box: ClusterBox) -> list[str]:
    return [
        "apiVersion: v1",
        "kind: Service",
        f"metadata: {{name: {box.service}, labels: {_labels(fleet, box)}}}",
        "spec:",
        "  type: ClusterIP  # inside the cluster only",
        f"  selector: {{app: {box.service}}}",
        f"  ports: [{{name: http, port: {box.recipe.port}, targetPort: http}}]",
    ]


def _policy(fleet: Fleet, boxes: Sequence[ClusterBox]) -> list[str]:
    groups = any(len(box.recipes) > 1 for box in boxes)
    same = f"{{podSelector: {{matchLabels: {{upright-fleet: {fleet_name(fleet)}}}}}}}"
    return [
        "# Engines answer the router, the proof and Prometheus; nobody else.",
        "apiVersion: networking.k8s.io/v1",
        "kind: NetworkPolicy",
        f"metadata: {{name: {fleet_name(fleet)}-engines}}",
        "spec:",
        f"  podSelector: {{matchLabels: {{upright-fleet: {fleet_name(fleet)}}}}}",
        "  policyTypes: [Ingress]",
        "  ingress:",
        "  - from:",
        f"    - {{podSelector: {{matchLabels: {{app.kubernetes.io/instance: {fleet_name(fleet)}}}}}}}  # smg's chart",
        f"    - {{podSelector: {{matchLabels: {{upright-proof: {fleet_name(fleet)}}}}}}}",
        "    - namespaceSelector: {}  # Prometheus, in whichever namespace it is",
        "      podSelector: {matchLabels: {app.kubernetes.io/name: prometheus}}",
        *([f"  - from: [{same}]  # ranks of one model speak to each other"] if groups else []),
    ]


def _monitor(fleet: Fleet) -> list[str]:
    return [
        "# Prometheus' operator must be installed; its metrics want the engines' key where the engine asks for one.",
        "apiVersion: monitoring.coreos.com/v1",
        "kind: PodMonitor",
        f"metadata: {{name: {fleet_name(fleet)}-engines}}",
        "spec:",
        f"  selector: {{matchLabels: {{upright-fleet: {fleet_name(fleet)}, llm-d.ai/inference-serving: 'true'}}}}",
        "  podMetricsEndpoints:",
        "  - port: http",
        "    path: /metrics",
        "    interval: 15s",
        "    authorization:",
        f"      credentials: {{name: {fleet_name(fleet)}-key, key: key}}",
    ]


def _job(fleet: Fleet, box: ClusterBox) -> list[str]:
    name = f"prove-{box.service}"
    words = ["prove", "--base-url", f"{box.url}/v1", "--key-env", "ENGINE_KEY", "--to", fleet.prove_to]
    return [
        "apiVersion: batch/v1",
        "kind: Job",
        f"metadata: {{name: {name}}}",
        "spec:",
        "  backoffLimit: 2",
        "  activeDeadlineSeconds: 7200  # its engine may be loading still",
        "  template:",
        f"    metadata: {{labels: {{upright-proof: {fleet_name(fleet)}}}}}",
        "    spec:",
        "      restartPolicy: Never",
        "      automountServiceAccountToken: false",
        f"      securityContext: {{runAsUser: {USER}, runAsGroup: {USER}, fsGroup: {USER}, runAsNonRoot: true}}",
        "      containers:",
        "      - name: prove",
        "        # Yours to build: FROM python:3.12-slim, and pip install of the wheel that you run.",
        f"        image: {PROVER_IMAGE}",
        f"        command: [python, -m, upright, {', '.join(map(yaml_text, words))}]",
        "        env:",
        "        - {name: HOME, value: /tmp}",
        f"        - {{name: ENGINE_KEY, valueFrom: {{secretKeyRef: {{name: {fleet_name(fleet)}-key, key: key}}}}}}",
        "        resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {memory: 1Gi}}",
        "        securityContext:",
        "          allowPrivilegeEscalation: false",
        "          readOnlyRootFilesystem: true",
        "          capabilities: {drop: [ALL]}",
        "          seccompProfile: {type: RuntimeDefault}",
        "        volumeMounts:",
        "        - {name: tmp, mountPath: /tmp}",
        "      volumes:",
        "      - {name: tmp, emptyDir: {}}",
    ]


def _labels(fleet: Fleet, box: ClusterBox) -> str:
    """llm-d's own, and the fleet's: https://github.com/llm-d-incubation/llm-d-modelservice."""
    model = label_of(
        "".join(sign if sign.isalnum() or sign in ".-" else "-" for sign in box.recipe.served_name.lower())
    )
    return (
        f"{{app: {box.service}, upright-fleet: {fleet_name(fleet)}, llm-d.ai/inference-serving: 'true', "
        f"llm-d.ai/model: {yaml_text(model[:63].strip('-.'))}, llm-d.ai/role: both}}"
    )


def _head(fleet: Fleet) -> list[str]:
    return [
        f"# The fleet {one_line(fleet.name)}, for a cluster. Written by `upright fleet render`.",
        "# One key for all engines, in a secret:",
        f"#   openssl rand -hex 24 | kubectl create secret generic {fleet_name(fleet)}-key --from-file=key=/dev/stdin",
    ]
