"""The router's files: the real validators accept them, and each flag has a reason and exists."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from pathlib import Path
from typing import get_args

import pytest
import yaml

from tests.programs import needs
from upright.facts.catalog import get
from upright.facts.catalog.recorded_flags import recorded_flags
from upright.facts.catalog.rows.usage import UsageRow
from upright.facts.records.fleet import Fleet, FleetBox, Router
from upright.facts.records.plan import Goal, Use
from upright.flows.fleet.rendering import render_router
from upright.planning.rendering.router import policy_choice
from upright.serving.launch.runtimes import RUNTIMES, DeploymentPaths

GOLDEN = Path(__file__).parent / "router"
FLEET = Fleet(
    name="kimi",
    model="moonshotai/Kimi-K2.6",
    goal=Goal(context_tokens=131_072, users=8),
    boxes=(
        FleetBox(name="alpha", at="ssh:alpha", address="10.0.0.11"),
        FleetBox(name="beta", at="ssh:beta", address="10.0.0.12"),
    ),
)
FILES = {
    "shell": "router.sh",
    "systemd": "kimi-router.service",
    "quadlet": "kimi-router.container",
    "kubernetes": "router.yaml",
}


@pytest.mark.parametrize("to", FILES)
def test_no_file_holds_the_key(to: str):
    made = render_router(FLEET, to, folder="/etc/upright/router")
    assert made.main == FILES[to]
    assert "--api-key" not in made.files[made.main].partition("__main__.py: |")[0]


def test_shellcheck():
    needs("shellcheck")
    done = subprocess.run(["shellcheck", GOLDEN / "router.sh"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_systemd():
    needs("systemd-analyze")
    unit = GOLDEN / "kimi-router.service"
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert unit.stem not in done.stderr


@pytest.mark.engine
def test_the_quadlet_generator(quadlet: Path, tmp_path: Path):
    shutil.copy(GOLDEN / "kimi-router.container", tmp_path)
    environment = {**os.environ, "QUADLET_UNIT_DIRS": str(tmp_path)}
    done = subprocess.run([quadlet, "-user", "-dryrun"], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "--network host" in done.stdout
    assert "kimi-router-worker,type=mount,target=/run/keys/worker.key" in done.stdout


def test_kubernetes():
    import kubernetes_validate as validate

    documents = list(yaml.safe_load_all((GOLDEN / "router.yaml").read_text()))
    assert [each["kind"] for each in documents] == ["ConfigMap", "Deployment", "Service", "NetworkPolicy"]
    for document in documents:
        validate.validate(document, "1.30", strict=True)
    config = documents[0]["data"]
    assert config["__main__.py"] == render_router(FLEET, "shell", folder="/x").files["__main__.py"]
    assert "http://alpha:8000" in config["workers.json"]


@pytest.mark.parametrize("use", get_args(Use))
def test_every_flag_has_a_reason_and_is_one_of_smg(use: str):
    recorded = recorded_flags("smg", "1.13.0")
    assert recorded is not None
    fleet = FLEET.model_copy(update={"goal": Goal(use=use)})
    recipe = render_router(fleet, "shell", folder="/x").recipe
    assert all(setting.reason for setting in recipe.arguments)
    assert {setting.name for setting in recipe.arguments} - {"-B"} <= recorded.flags


@pytest.mark.parametrize("use", get_args(Use))
def test_new_tasks_share_less_than_what_keeps_a_turn_on_its_box(use: Use):
    """At 0.5, twelve agents whose first turns share 0.86 all went to one box of three."""
    row = get("usages", use)
    assert isinstance(row, UsageRow)
    fleet = FLEET.model_copy(update={"goal": Goal(use=use), "router": Router(policy="cache_aware")})
    setting = next(
        each for each in render_router(fleet, "shell", folder="/x").recipe.arguments if "--cache-t" in each.name
    )
    shared, threshold = row.shared_tokens.value or 0, float(setting.value or 0)
    for opening in (row.opening_tokens.value, row.opening_tokens.median):
        share = shared / (shared + (opening or math.inf))
        assert share + 0.25 * (1 - share) <= threshold + 0.005 < 1, (share, threshold)
    assert f"{shared:,.0f} of " in setting.reason


def test_the_policy_follows_the_use_unless_it_is_named():
    assert policy_choice(FLEET).policy == "cache_aware"
    assert policy_choice(FLEET.model_copy(update={"goal": Goal(use="batch")})).policy == "power_of_two"
    named = FLEET.model_copy(update={"router": Router(policy="prefix_hash")})
    assert (policy_choice(named).policy, policy_choice(named).why) == ("prefix_hash", "asked for in fleet.yaml")


def test_the_threshold_may_be_set_in_fleet_yaml():
    recipe = render_router(
        FLEET.model_copy(update={"router": Router(cache_threshold=0.7)}), "shell", folder="/x"
    ).recipe
    setting = next(each for each in recipe.arguments if each.name == "--cache-threshold")
    assert (setting.value, setting.reason.partition(":")[0]) == ("0.7", "asked for in fleet.yaml")
    with pytest.raises(ValueError, match="less than 1"):
        Router(cache_threshold=1.0)


@pytest.mark.parametrize("runtime", ["podman", "docker"])
def test_a_container_has_the_machines_network_and_its_folder_and_no_key_in_sight(runtime: str):
    recipe = render_router(FLEET, "shell", folder="/home/me/router").recipe.model_copy(update={"runtime": runtime})
    site = DeploymentPaths(key_file="/home/me/key", key_config="/home/me/key.yaml", home="/home/me", user="1000:1000")
    argv = RUNTIMES[runtime].command(recipe, site, container="kimi-router", label="l").argv
    words = " ".join(argv)
    assert "--network host" in words
    assert "--publish" not in words
    assert "--volume /home/me/router:/model:ro" in words
    assert "docker.io/lightseekorg/smg:1.13.0 -B /model --host 127.0.0.1 " in words
    assert "--user 0:0" in words if runtime == "podman" else "--user 1000:1000" in words
