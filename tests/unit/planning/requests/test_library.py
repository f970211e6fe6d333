"""upright.plan and upright.render, as a program calls them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import upright
from tests.conftest import Upright
from upright.base.errors import UsageError
from upright.facts import catalog

BOX = "8x-rtx-pro-6000-server"
QUIET = """
import sys

FORBIDDEN = ("socket.", "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")
HOMES = tuple(sys.argv[1:])

def watch(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        outside = not arguments[0].startswith(HOMES)
        writes = isinstance(arguments[1], str) and set(arguments[1]) & set("wax+")
        if outside or writes:
            print("opened", arguments[0], arguments[1], file=sys.stderr)
    elif event.startswith(FORBIDDEN):
        print("did", event, file=sys.stderr)

import upright
sys.addaudithook(watch)
plan = upright.plan("kimi-k2.6", "8x-rtx-pro-6000-server", context_tokens=65_536, users=2)[0]
recipe = upright.render(plan, served_name="k2")
assert plan.fits and recipe.served_name == "k2"
"""


def test_names_of_the_catalogue_are_enough():
    plan = upright.plan("kimi-k2.6", BOX, context_tokens=65_536, users=2)[0]
    assert plan.fits
    assert (plan.context_tokens, plan.goal.users) == (65_536, 2)
    recipe = upright.render(plan, port=8765, served_name="k2")
    assert isinstance(recipe, upright.Recipe)
    assert (recipe.port, recipe.served_name, recipe.installed) == (8765, "k2", False)
    assert all(setting.reason for setting in recipe.arguments)


def test_records_do_as_well_and_wishes_lie_over_a_goal():
    model, box = catalog_model(), catalog.box_record(BOX)
    goal = upright.Goal(context_tokens=32_768, engine="vllm")
    plan = upright.plan(model, box, goal, users=3)[0]
    assert (plan.goal.users, plan.goal.context_tokens, plan.engine) == (3, 32_768, "vllm")
    assert upright.render(plan, model, box, must_be_installed=False).engine == "vllm"


def test_the_command_line_asks_for_the_same(upright: Upright):
    import upright as library

    done = upright("plan", "kimi-k2.6", "--box", BOX, "--users", "2", "--kv-dtype", "fp8", "--json")
    typed = json.loads(done.stdout)["plans"][0]
    called = library.plan("kimi-k2.6", BOX, users=2, kv_dtype="fp8")[0]
    assert typed["digest"] == called.digest
    recipe = json.loads(
        upright("render", "kimi-k2.6", "--box", BOX, "--users", "2", "--kv-dtype", "fp8", "--json").stdout
    )
    assert recipe["arguments"] == library.render(called).to_dict()["arguments"]


def test_what_would_have_to_be_read_or_looked_at_is_refused():
    with pytest.raises(UsageError, match="nothing is read unasked") as refused:
        upright.plan("somebody/some-model", BOX)
    assert "upright.read('somebody/some-model')" in (refused.value.hint or "")
    with pytest.raises(upright.UprightError, match="no such-box"):
        upright.plan("kimi-k2.6", "such-box")


def test_a_wish_that_no_goal_has_says_which_there_are():
    with pytest.raises(UsageError, match="contexts") as refused:
        upright.plan("kimi-k2.6", BOX, contexts=1)
    assert "context_tokens" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="serve_name"):
        upright.render(upright.plan("kimi-k2.6", BOX)[0], serve_name="k2")


def test_what_does_not_fit_is_a_plan_and_no_recipe():
    plan = upright.plan("moonshotai/Kimi-K2.6", "4x-rtx-pro-6000-workstation", engine="vllm")[0]
    assert not plan.fits
    with pytest.raises(upright.UprightError, match="does not fit"):
        upright.render(plan)


def test_a_plan_of_another_model_of_the_same_name_is_not_rendered_as_the_catalogues():
    model = catalog_model().model_copy(update={"revision": "0" * 40})
    with pytest.raises(UsageError, match=r"another Kimi-K2\.6"):
        upright.render(upright.plan(model, BOX)[0])


def test_no_terminal_no_disk_no_network(tmp_path: Path):
    homes = (sys.prefix, sys.base_prefix, str(Path(upright.__file__).parent), str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", QUIET, *homes],
        env={
            "UPRIGHT_HOME": str(tmp_path),
            "PATH": "/usr/bin",
            "PYTHONPATH": str(Path(upright.__file__).parents[1]),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def catalog_model() -> upright.Model:
    from upright.planning.choosing.artifacts import artifact_choice

    return artifact_choice("moonshotai/Kimi-K2.6", lambda text: pytest.fail(f"{text} is read")).model
