"""What a cluster's people are handed is taken by their own validators, and its halves fit together."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.golden.deployments import recipe as published
from tests.programs import needs
from tests.unit.planning.rendering.test_nodes import of_nodes
from upright.base.errors import UsageError
from upright.base.host import LocalHost
from upright.facts.records.fleet import Fleet
from upright.flows.fleet.box_plans import BoxPlan
from upright.flows.fleet.rendering import cluster_advice, for_cluster
from upright.flows.line import Prepared
from upright.planning.rendering.cluster_files import USER, PodRdma

RECORDED = Path(__file__).parents[1] / "recordings/cluster"
FLEET = Fleet.model_validate(
    {
        "name": "kimi", "model": "moonshotai/Kimi-K2.6", "goal": {"users": 8},
        "boxes": [{"name": "alpha", "port": 8000}, {"name": "beta", "port": 8000, "at": "ssh:beta"}],
    }
)  # fmt: skip


def plans(*, nodes: bool = False) -> list[BoxPlan]:
    made = []
    for number, box in enumerate(FLEET.boxes):
        recipes = of_nodes("vllm") if nodes and number else [published("kimi-k26-vllm")]
        prepared: Any = Prepared(None, None, None, recipes[0], tuple(recipes[1:]))  # type: ignore[arg-type]
        made.append(BoxPlan(box, prepared))
    return made


def files(*, nodes: bool = False, wire: PodRdma | None = None) -> dict[str, list[Any]]:
    made = for_cluster(FLEET, "cluster", plans(nodes=nodes), wire=wire)
    return {name: list(yaml.safe_load_all(text)) for name, text in made.files.items()}


@pytest.mark.parametrize("wire", [None, PodRdma("net1")])
@pytest.mark.parametrize("nodes", [False, True])
def test_kubernetes_takes_every_document(nodes: bool, wire: PodRdma | None):
    import kubernetes_validate as validate

    made = files(nodes=nodes, wire=wire)
    kinds = []
    for document in [*made["engines.yaml"], *made["prove.yaml"]]:
        kinds.append(document["kind"])
        if document["kind"] == "LeaderWorkerSet":
            _leader_worker_set(document)
        elif document["kind"] == "PodMonitor":
            _pod_monitor(document)
        else:
            validate.validate(document, "1.30", strict=True)
    engine = "LeaderWorkerSet" if nodes else "Deployment"
    assert kinds == ["Deployment", "Service", engine, "Service", "NetworkPolicy", "PodMonitor", "Job", "Job"]


def _leader_worker_set(document: dict[str, Any]) -> None:
    import kubernetes_validate as validate

    fields = json.loads((RECORDED / "leaderworkerset-v1.json").read_text())
    spec = document["spec"]
    template = spec["leaderWorkerTemplate"]
    assert set(fields["spec.required"]) <= spec.keys() <= set(fields["spec"])
    assert set(fields["leaderWorkerTemplate.required"]) <= template.keys() <= set(fields["leaderWorkerTemplate"])
    assert template["restartPolicy"] in fields["restartPolicy"]
    assert spec["startupPolicy"] in fields["startupPolicy"]
    for role in ("leader", "worker"):
        pod = template[f"{role}Template"]
        wrapped = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}, "template": pod}
        validate.validate(wrapped, "1.30", strict=True)


def _pod_monitor(document: dict[str, Any]) -> None:
    fields = json.loads((RECORDED / "podmonitor-v1.json").read_text())
    spec = document["spec"]
    assert set(fields["spec.required"]) <= spec.keys() <= set(fields["spec"])
    for endpoint in spec["podMetricsEndpoints"]:
        assert endpoint.keys() <= set(fields["podMetricsEndpoints"])
        assert endpoint["authorization"].keys() <= set(fields["authorization"])
        assert endpoint["authorization"]["credentials"].keys() <= set(fields["credentials"])


def test_the_routers_list_names_services_that_exist():
    made = files(nodes=True)
    services = {
        f"http://{document['metadata']['name']}:{document['spec']['ports'][0]['port']}": document["spec"]["selector"]
        for document in made["engines.yaml"]
        if document["kind"] == "Service"
    }
    (chart,) = made["values.yaml"]
    assert chart["router"]["workerUrls"] == list(services)
    labels = [_labels(document) for document in made["engines.yaml"] if document["kind"] in _ENGINES]
    for selector, carried in zip(services.values(), labels, strict=True):
        assert selector.items() <= carried.items()
        assert carried["llm-d.ai/inference-serving"] == "true"
    proofs = [document["spec"]["template"]["spec"]["containers"][0]["command"] for document in made["prove.yaml"]]
    assert all(f"{url}/v1" in command for url, command in zip(services, proofs, strict=True))


_ENGINES = {"Deployment": ("template",), "LeaderWorkerSet": ("leaderWorkerTemplate", "leaderTemplate")}


def _template(document: dict[str, Any]) -> dict[str, Any]:
    template = document["spec"]
    for name in _ENGINES[document["kind"]]:
        template = template[name]
    return dict(template)


def _labels(document: dict[str, Any]) -> dict[str, str]:
    return dict(_template(document)["metadata"]["labels"])


def _after(flag: str, container: dict[str, Any]) -> int:
    words = [*container.get("command", ()), *container["args"]]
    return int(words[words.index(flag) + 1])


def test_pods_have_limits_probes_grace_and_a_numeric_user():
    for document in files(nodes=True, wire=PodRdma("net1"))["engines.yaml"]:
        if document["kind"] not in _ENGINES:
            continue
        pod = _template(document)["spec"]
        assert pod["securityContext"]["runAsUser"] == USER
        assert pod["terminationGracePeriodSeconds"] >= 600
        (engine,) = pod["containers"]
        assert 600 <= _after("--shutdown-timeout", engine) < pod["terminationGracePeriodSeconds"]
        assert engine["readinessProbe"]["failureThreshold"] * engine["readinessProbe"]["periodSeconds"] <= 10
        assert engine["startupProbe"]["failureThreshold"] * engine["startupProbe"]["periodSeconds"] >= 3600
        assert engine["resources"]["requests"]["nvidia.com/gpu"] == engine["resources"]["limits"]["nvidia.com/gpu"]
        assert engine["resources"]["limits"]["rdma/hca"] == "1"
        assert engine["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
        spoken = [variable for variable in engine["env"] if variable["name"] == "NCCL_SOCKET_IFNAME"]
        assert [variable["value"] for variable in spoken] == ["net1"]


def test_the_chart_has_every_value():
    """By the names that smg's values.yaml has, and what its values.schema.json takes."""
    recorded = json.loads((RECORDED / "smg-chart-1.9.0.json").read_text())
    (chart,) = files()["values.yaml"]
    known = {*recorded["values"], "router.securityContext.runAsUser"}  # handed on whole to the pod

    def paths(content: Any, above: str = "") -> list[str]:
        if not isinstance(content, dict):
            return [above]
        return [path for name, part in content.items() for path in paths(part, f"{above}.{name}".lstrip("."))]

    assert set(paths(chart)) <= known
    assert chart["router"]["policy"] in recorded["router.policy"]
    assert chart["history"]["backend"] in recorded["history.backend"]


def test_shellcheck_takes_the_sbatch_script(tmp_path: Path):
    needs("shellcheck")
    made = for_cluster(FLEET, "slurm", plans())
    assert set(made.files) == {"engines.sbatch", "serve-alpha.sh", "serve-beta.sh"}
    (tmp_path / "engines.sbatch").write_text(made.files["engines.sbatch"])
    done = subprocess.run(["shellcheck", tmp_path / "engines.sbatch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "#SBATCH --array=0-1" in made.files["engines.sbatch"]
    assert "--host 0.0.0.0" in made.files["serve-alpha.sh"], "a router on another node reaches it"


def test_a_box_that_does_not_fit_is_said():
    with pytest.raises(UsageError, match="box alpha has no recipe: the model does not fit"):
        for_cluster(FLEET, "cluster", [BoxPlan(FLEET.boxes[0], None)])


@pytest.mark.parametrize(
    ("programs", "context", "count", "advice"),
    [
        ((), False, 2, None),
        (("kubectl",), False, 2, None),
        (("kubectl",), True, 2, "Kubernetes is here: upright fleet render --to cluster writes what it takes"),
        (("sbatch",), False, 2, "Slurm is here: upright fleet render --to slurm writes what it takes"),
        ((), False, 16, None),
        ((), False, 17, "17 boxes are a cluster's: upright fleet render --to cluster writes what its people use"),
        (
            ("sbatch",),
            False,
            17,
            "17 boxes are a cluster's: upright fleet render --to slurm writes what its people use",
        ),
    ],
)
def test_who_is_told_to_hand_over(
    tmp_path: Path, monkeypatch, programs: tuple[str, ...], context: bool, count: int, advice: str | None
):
    """By the programs that are on this machine's PATH; kubectl counts if it leads to a cluster."""
    for program in programs:
        (tmp_path / program).write_text(f"#!/bin/sh\nexit {0 if context else 1}\n")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    boxes = tuple(FLEET.boxes[0].model_copy(update={"name": f"b{number}"}) for number in range(count))
    assert cluster_advice(FLEET.model_copy(update={"boxes": boxes}), LocalHost()) == advice
