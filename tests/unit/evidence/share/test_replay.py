"""What of a bundle a replay takes, and what differs; nothing of it becomes a command that is not ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TINY_MODEL
from tests.unit.evidence.share.tampering import Tree, cells, claim_again, copied, encoded, seal
from upright.base.errors import RecordError, UprightError, UsageError
from upright.evidence.share.index_reading import SEEDS
from upright.evidence.share.opening import open_bundle
from upright.evidence.share.repeats import OpenedBundle
from upright.evidence.share.verifying import read_claim
from upright.facts.records.base import from_dict
from upright.facts.records.recipe import Recipe, Setting
from upright.flows.replay.recipe import replay_recipe
from upright.flows.replay.replay import ReplayOptions, ReplayPlan, bundle_named, loads_of, plan_replay

HOSTILE = (
    ("--model", "/etc/passwd"), ("--model-url", "http://127.0.0.1/x"), ("--rpc", "10.0.0.1:50052"),
    ("--hf-repo", "evil/repo"), ("--path", "/"), ("--slot-save-path", "/tmp"), ("--log-file", "/tmp/x"),
    ("--lora", "x.gguf"), ("--host", "0.0.0.0"),
    ("--api-key-file", "/dev/null"), ("--chat-template-file", "x.jinja"), ("--threads", "$(id)"), ("--threads", "1;id"),
    ("--threads", "-1 --rpc x"), ("--cache-type-k", "../x"), ("--trust-remote-code", None), ("--no-such-flag", "1"),
    ("sh", "-c"), ("--threads=1", None), ("--tools", "all"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))


def recipe(**changes: Any) -> Recipe:
    return from_dict(Recipe, copied()["predicate"]["records"]["recipe"]).model_copy(update=changes)


def kept(bundle: Tree, folder: Path) -> OpenedBundle:
    file = folder / "it.bundle.json"
    file.write_bytes(encoded(bundle))
    return open_bundle(file)


def planned(opened: OpenedBundle, *flags: str, box: str | None = "8x-h100") -> ReplayPlan:
    return plan_replay(opened, ReplayOptions(str(TINY_MODEL), box, flags, 8000, False), tell=lambda text: None)


@pytest.mark.parametrize(("name", "text"), HOSTILE)
def test_a_hostile_flag_is_never_in_the_command(name: str, text: str | None) -> None:
    own = recipe()
    claim = recipe(arguments=(*own.arguments, Setting(name=name, value=text, reason="")))
    made = replay_recipe(claim, own, {}, whole=True)
    assert made.recipe == own
    with pytest.raises(UsageError, match="cannot be given"):
        replay_recipe(own, own, {name: text}, whole=True)


def test_program_image_and_environment_are_ours() -> None:
    own = recipe()
    claim = recipe(
        program="/bin/sh", image="evil/image", packages=("evil==1",), model_path="evil", draft="evil", host="0.0.0.0",
        environment=(Setting(name="LD_PRELOAD", value="evil.so", reason=""),), image_program="/bin/sh",
    )  # fmt: skip
    made = replay_recipe(claim, own, {}, whole=True)
    assert made.recipe == own
    assert [setting.name for setting in made.left_out] == ["LD_PRELOAD"]


def test_flags_of_speed_are_taken_and_changed() -> None:
    own = recipe()
    claim = recipe(arguments=(*own.arguments, Setting(name="--threads", value="2", reason="")))
    made = replay_recipe(claim, own, {"--ubatch-size": "64"}, whole=True).recipe.argv
    assert made[-4:] == ("--threads", "2", "--ubatch-size", "64")
    changed = replay_recipe(claim, own, {"--threads": "1"}, whole=True).recipe.argv
    assert changed[-2:] == ("--threads", "1")
    ours = recipe(arguments=claim.arguments)
    assert "--threads" not in replay_recipe(own, ours, {}, whole=True).recipe.argv, "what they do not set"
    assert "--threads" in replay_recipe(own, ours, {}, whole=False).recipe.argv, "a publication may not tell all"


def test_what_differs_is_said_with_what_it_changes(tmp_path: Path) -> None:
    bundle = copied()
    plan = planned(kept(bundle, tmp_path), "--threads=1")
    told = {difference.what: difference for difference in plan.differences}
    assert "H100" in told["cards"].here
    assert "do not count" in told["cards"].changes
    assert (told["flags"].claimed, told["flags"].here) == ("no --threads", "--threads 1")
    assert plan.told()["command"][0].endswith("llama-server")
    assert plan.to == "boot"


def test_a_broken_bundle_is_not_repeated(tmp_path: Path) -> None:
    bundle = copied()
    bundle["predicate"]["headlines"][0]["figure"] = 1e6
    with pytest.raises(RecordError, match="broken"):
        planned(kept(bundle, tmp_path))


def test_an_endless_load_is_not_measured(tmp_path: Path) -> None:
    bundle = copied()
    for cell in cells(bundle):
        cell["shape"]["requests"] = 10**9
    seal(bundle)
    claim_again(bundle)
    assert loads_of(read_claim(kept(bundle, tmp_path).statement)) == ()


@pytest.mark.parametrize("repository", ["/etc", "../../x", "a/b/c", "-x/y", "https://e.org/x", "", None])
def test_only_a_repository_is_looked_for(repository: str | None, tmp_path: Path) -> None:
    opened = kept(copied(), tmp_path)
    predicate = opened.statement.predicate
    model = predicate.model.model_copy(update={"repository": repository})
    predicate = predicate.model_copy(update={"model": model})
    changed = OpenedBundle(
        opened.path,
        opened.statement.model_copy(update={"predicate": predicate}),
        opened.verification,
        opened.benchmarks,
    )
    with pytest.raises(UprightError, match="does not say where its weights are"):
        plan_replay(changed, ReplayOptions(None, "8x-h100", (), 8000, False), tell=lambda text: None)


def test_a_publication_is_planned_and_not_measured() -> None:
    plan = plan_replay(
        open_bundle(SEEDS / "bundles/kimi-k2.6-8x-b200-vllm.bundle.json"),
        ReplayOptions("kimi-k2.6", "8x-h200", (), 8000, False),
        tell=lambda text: None,
    )
    assert plan.loads == ()
    assert {"cards", "engine"} <= {difference.what for difference in plan.differences}
    left_out = {setting.name for setting in plan.left_out}
    assert "VLLM_USE_V1" in left_out
    assert plan.prepared.recipe is None or "VLLM_USE_V1" not in str(plan.prepared.recipe.environment)


def test_what_is_no_bundle() -> None:
    with pytest.raises(UsageError, match="there is no bundle"):
        bundle_named("nothing")
