"""Recipes of several boxes -> a LeaderWorkerSet: one pod a box, started and restarted together, the first one serves.

Fields as in the API leaderworkerset.x-k8s.io/v1 of kubernetes-sigs/lws, which must be installed in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence

from upright.facts.records.recipe import Recipe
from upright.planning.rendering.kubernetes import app_name, heading, pod, service
from upright.planning.rendering.quoting import yaml_name

# What the set tells every container: https://lws.sigs.k8s.io/docs/reference/labels-annotations-and-environment-variables/
LWS_VALUES = {
    "--nnodes": "$(LWS_GROUP_SIZE)",
    "--node-rank": "$(LWS_WORKER_INDEX)",
    "--master-addr": "$(LWS_LEADER_ADDRESS)",
    "--dist-init-addr": "$(LWS_LEADER_ADDRESS):20000",
}


def leader_worker_set(recipes: Sequence[Recipe]) -> str:
    """The first recipe leads; the others are alike but for their rank, which the set fills in."""
    leader, worker = recipes[0], recipes[1]
    name = yaml_name(app_name(leader))
    lines = [
        *heading(leader),
        "# LeaderWorkerSet must be installed: https://lws.sigs.k8s.io/docs/installation/",
        "apiVersion: leaderworkerset.x-k8s.io/v1",
        "kind: LeaderWorkerSet",
        f"metadata: {{name: {name}}}",
        *group_head(leader.nodes),
        "    leaderTemplate:",
        f"      metadata: {{labels: {{app: {name}, role: leader}}}}",
        "      spec:",
        *(f"        {line}" for line in pod(leader, LWS_VALUES)),
        "    workerTemplate:",
        f"      metadata: {{labels: {{app: {name}, role: worker}}}}",
        "      spec:",
        *(f"        {line}" for line in pod(worker, LWS_VALUES, serves=False)),
        *service(leader, f"{{leaderworkerset.sigs.k8s.io/name: {name}, role: leader}}"),
        "",
    ]
    return "\n".join(lines)


def group_head(nodes: int) -> list[str]:
    """How a group of boxes that hold one model together begins and dies."""
    return [
        "spec:",
        "  replicas: 1  # groups of boxes: each is the whole model",
        "  startupPolicy: LeaderCreated  # ranks wait for each other, so none may wait to be created",
        "  leaderWorkerTemplate:",
        f"    size: {nodes}",
        "    restartPolicy: RecreateGroupOnPodRestart  # a rank that died leaves the others waiting for ever",
    ]
