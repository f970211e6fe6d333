"""Ways to get an engine: commands that fit the box, with the version whose flags are recorded; nothing is run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import pytest
from click.testing import CliRunner

from upright.app.cli.main import cli
from upright.app.pages.engine_page import EnginesOnBox, engines_json, engines_page, install_page
from upright.base.errors import UsageError
from upright.base.host import Host, Result
from upright.engines import OURS
from upright.facts import catalog
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.records.box import ContainerRuntime
from upright.planning.placement.engine_support import runs_on
from upright.planning.probing.running_engines import running_and_images
from upright.planning.requests.engine_installs import install_methods


@pytest.mark.parametrize("engine", OURS)
def test_every_engine_can_be_got_for_a_box_with_gpus(engine: str) -> None:
    boxes = map(catalog.box_record, ("2x-rtx-5090", "m3-ultra"))
    ways = install_methods(engine, next(box for box in boxes if runs_on(engine, box)))
    assert ways
    assert all(way.engine == engine and way.commands and way.source for way in ways)


def test_a_wheel_is_pinned_to_the_newest_version_that_is_known() -> None:
    newest = recorded_versions("vllm")[-1]
    ways = install_methods("vllm", catalog.box_record("2x-rtx-5090"))
    assert any(f"'vllm=={newest}'" in command for way in ways for command in way.commands)
    assert not any("{" in command for way in ways for command in way.commands)


def test_a_machine_without_a_gpu_is_told_of_no_build_for_one() -> None:
    ways = install_methods(None, catalog.box_record("laptop"))
    assert {way.engine for way in ways} >= {"vllm", "llama.cpp"}
    commands = [command.lower() for way in ways for command in way.commands]
    assert not any(gpu in command for command in commands for gpu in ("cuda", "--gpus", "nvidia"))


def test_an_engine_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="no engine named emacs"):
        install_methods("emacs", catalog.box_record("laptop"))


@pytest.mark.parametrize("name", ["laptop", "8x-rtx-pro-6000-server", "dgx-spark"])
def test_prose_fits_the_page_and_commands_stay_whole(name: str) -> None:
    box = catalog.box_record(name)
    page = install_page(install_methods(None, box), box, 80)
    prose = [line for line in page.splitlines() if not line.startswith("    ")]
    assert max(map(len, prose)) <= 80
    assert "is not known" in " ".join(engines_page(box, 80).split())


class _Machine:
    """Answers of `ps`, `podman images` and `podman ps`; everything else could not be started."""

    name = "machine"

    def __init__(self, answers: dict[str, str]) -> None:
        self.answers = answers

    def gather(self, commands: Sequence[Sequence[str]], *, timeout_seconds: float = 20) -> list[Result]:
        found = [self.answers.get(" ".join(argv[:2])) for argv in commands]
        return [Result(127, "", "") if out is None else Result(0, out, "") for out in found]


def test_processes_containers_and_images_are_listed_without_what_they_were_told() -> None:
    image = next(row.reference for row in catalog.images("vllm") if row.kind == "upstream")
    repository = image.partition("@")[0].rpartition(":")[0]
    machine = _Machine(
        {
            "ps -eo": "   17 /opt/llama.cpp/llama-server --model x --api-key sk-secret\n"
            "   18 /home/a/.venv/bin/python3 /home/a/.venv/bin/vllm serve x\n"
            "   19 python3 -m sglang.launch_server --model-path x\n"
            "   20 vim llama-server.log\n   21 grep vllm\nnonsense\n",
            "podman images": f"docker.io/{repository}:anything\ndocker.io/library/debian:12\n",
            "podman ps": f"served\t{image}\nother\tdebian:12\n",
        }
    )
    runtime = ContainerRuntime(name="podman", version="5", usable=True, gpus=None)
    box = catalog.box_record("laptop").model_copy(update={"containers": (runtime,), "basis": "probed"})
    at_hand = EnginesOnBox(*running_and_images(cast("Host", machine), box))
    assert [(each.engine, each.of, each.name) for each in at_hand.running] == [
        ("llama.cpp", "process", "17"),
        ("vllm", "process", "18"),
        ("sglang", "process", "19"),
        ("vllm", "podman", "served"),
    ]
    assert [each.reference for each in at_hand.images] == [f"docker.io/{repository}:anything"]
    page = engines_page(box, 80, at_hand)
    assert "sk-secret" not in page
    assert "process 17" in page
    assert "podman container served" in page
    assert engines_json(box, at_hand)["running"][0]["name"] == "17"


def test_a_machine_that_answers_nothing_has_nothing_running() -> None:
    assert running_and_images(cast("Host", _Machine({})), catalog.box_record("laptop")) == ((), ())


@pytest.mark.parametrize("gpu", [row.id for row in catalog.gpus()])
def test_no_gpu_is_offered_the_build_of_another_vendor(gpu: str):
    box, vendor = catalog.box_record(f"1x-{gpu}"), catalog.gpu(gpu).vendor
    strange = {
        "nvidia": r"rocm|hip|vulkan|metal|intel",
        "amd": r"cuda|metal|intel",
        "apple": r"cuda|rocm|hip|vulkan|intel",
        "intel": r"cuda|rocm|hip|metal",
    }[vendor]
    for way in install_methods(None, box):
        assert not re.search(strange, " ".join(way.commands), re.IGNORECASE), way
        wheels = [command for command in way.commands if "pip install" in command]
        assert vendor == "nvidia" or not wheels or (vendor, way.engine) == ("apple", "mlx"), way


@pytest.mark.parametrize("gpu", [row.id for row in catalog.gpus()])
def test_what_is_offered_has_kernels_there(gpu: str):
    box = catalog.box_record(f"1x-{gpu}")
    offered = {way.engine for way in install_methods(None, box)}
    assert "llama.cpp" in offered
    assert all(runs_on(engine, box) for engine in offered)


@pytest.mark.parametrize(
    ("box", "where"), [("8x-mi300x", "upright tools engine how vllm"), ("hgx-h200", "pip install vllm")]
)
def test_a_recipe_says_where_its_engine_is_from(box: str, where: str):
    done = CliRunner().invoke(cli, ["render", "gpt-oss-120b", "--box", box, "--engine", "vllm"])
    assert where in done.stderr
