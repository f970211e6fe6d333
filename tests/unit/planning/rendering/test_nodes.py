"""Recipes of several boxes: a script for each, and one set for a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests import recipes
from upright.base.errors import UsageError
from upright.facts.records.plan import Goal
from upright.facts.records.recipe import Recipe
from upright.planning.choosing import plan
from upright.planning.rendering import render
from upright.planning.rendering.recipe import RenderOptions
from upright.planning.rendering.targets import MULTI_BOX_TARGETS, TARGETS, rendered_files

# Fields of leaderworkerset.x-k8s.io/v1: kubernetes-sigs/lws, api/leaderworkerset/v1/leaderworkerset_types.go.
SPEC = {"replicas", "leaderWorkerTemplate", "rolloutStrategy", "startupPolicy", "networkConfig"}
TEMPLATE = {
    "leaderTemplate", "workerTemplate", "size", "restartPolicy", "subGroupPolicy", "volumeClaimTemplates",
    "persistentVolumeClaimRetentionPolicy",
}  # fmt: skip
RESTARTS = {"Default", "RecreateGroupOnPodRestart", "RecreateGroupAfterStart", "None"}


def of_nodes(engine: str) -> list[Recipe]:
    model = next(model for model in recipes.artifacts() if model.name == "Kimi-K2.6")
    box = recipes.box("hgx-b200-lambda")
    made = plan(box, model, Goal(engine=engine, nodes=2))[0]
    return [
        render(
            made,
            model,
            box,
            model_path=model.source,
            port=8000,
            wishes=RenderOptions(must_be_installed=False, node=node, leader="10.0.0.1"),
        )
        for node in range(2)
    ]


def words(recipe: Recipe) -> list[str]:
    return list(recipe.argv)


def test_vllm_leads_on_the_first_box_and_is_headless_on_the_others() -> None:
    leader, worker = of_nodes("vllm")
    for recipe, node in ((leader, "0"), (worker, "1")):
        found = words(recipe)
        assert found[found.index("--nnodes") + 1] == "2"
        assert found[found.index("--node-rank") + 1] == node
        assert found[found.index("--master-addr") + 1] == "10.0.0.1"
        assert found[found.index("--tensor-parallel-size") + 1] == "8"
        assert found[found.index("--pipeline-parallel-size") + 1] == "2"
        assert (recipe.nodes, recipe.node, recipe.gpus) == (2, int(node), 8)
    assert "--headless" not in words(leader)
    assert "--headless" in words(worker)


def test_sglang_meets_at_one_address() -> None:
    for recipe in of_nodes("sglang"):
        found = words(recipe)
        assert found[found.index("--dist-init-addr") + 1] == "10.0.0.1:20000"
        assert found[found.index("--node-rank") + 1] == str(recipe.node)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_script_for_each_box(engine: str) -> None:
    files = rendered_files(of_nodes(engine), "shell")
    assert list(files) == ["serve-kimi-k2.6-node0.sh", "serve-kimi-k2.6-node1.sh"]
    assert all("NCCL_SOCKET_IFNAME" in text for text in files.values())


def test_containers_without_the_hosts_network_are_refused() -> None:
    for target in TARGETS.keys() - set(MULTI_BOX_TARGETS):
        with pytest.raises(UsageError, match="several boxes"):
            rendered_files(of_nodes("vllm"), target)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_leader_worker_set(engine: str) -> None:
    import kubernetes_validate as validate

    ((name, text),) = rendered_files(of_nodes(engine), "kubernetes").items()
    assert name == "kimi-k2.6.yaml"
    found, service = yaml.safe_load_all(text)
    assert (found["apiVersion"], found["kind"]) == ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet")
    assert found["spec"].keys() <= SPEC
    template = found["spec"]["leaderWorkerTemplate"]
    assert template.keys() <= TEMPLATE
    assert template["size"] == 2
    assert template["restartPolicy"] in RESTARTS
    for role in ("leader", "worker"):
        pod = template[f"{role}Template"]
        wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": pod}
        validate.validate(wrapped, "1.30", strict=True)
        arguments = pod["spec"]["containers"][0]["args"]
        assert arguments[arguments.index("--nnodes") + 1] == "$(LWS_GROUP_SIZE)"
        assert arguments[arguments.index("--node-rank") + 1] == "$(LWS_WORKER_INDEX)"
        flag = "--master-addr" if engine == "vllm" else "--dist-init-addr"
        assert arguments[arguments.index(flag) + 1].startswith("$(LWS_LEADER_ADDRESS)")
        assert ("ports" in pod["spec"]["containers"][0]) == (role == "leader")
    validate.validate(service, "1.30", strict=True)
    assert service["spec"]["selector"] == {
        "leaderworkerset.sigs.k8s.io/name": found["metadata"]["name"],
        "role": "leader",
    }


def test_one_of_several_boxes_is_not_started_alone(tmp_path: Path) -> None:
    from upright.base.errors import LaunchError
    from upright.facts.store import DeploymentDir
    from upright.serving.launch import launch

    with pytest.raises(LaunchError, match="2 boxes hold this model together"):
        launch(of_nodes("vllm")[0], DeploymentDir(tmp_path))
