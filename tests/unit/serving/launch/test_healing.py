"""Six published attempts, and a dirty boot, on scripted engines that print those lines: healed in their order."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.golden.deployments import recipe as golden
from tests.ports import free_port
from upright.base.errors import EndpointError
from upright.base.host import LocalHost
from upright.facts import store
from upright.facts.catalog import loader
from upright.facts.records.deployment import Deployment
from upright.facts.records.diagnosis import Attempts, Diagnosis, Finding, Remedy, Sighting
from upright.facts.records.evidence import Evidence, Observation
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.serving.endpoint.client import Endpoint
from upright.serving.launch import status, stop
from upright.serving.launch.healing import MOST_STEPS, RecipeChanger, _Tried, diagnose_deployment, heal

ENGINE = ROOT / "tests/scripted/falling.py"
SHARED_MEMORY = (
    "[2026-01-29 10:00:00 TP3] Scheduler hit an exception: Traceback (most recent call last):",
    "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 106496, Hardware limit: 101376",
    "[2026-01-29 10:00:01] Received sigquit from a child process. It usually means the child failed.",
)
NO_CLASS = (
    "[2026-01-29 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):",
    "ValueError: Model architectures ['KimiK25ForConditionalGeneration'] are not supported for now.",
    "[2026-01-29 10:00:01] Received sigquit from a child process. It usually means the child failed.",
)
# As the report of 2026-01-29 tried them; the catalogue's own row begins with the patch, which is what they learned.
THEIR_ROWS = """
- id: triton-shared-memory
  title: a Triton kernel wants more shared memory than the GPU has
  engines: [sglang]
  severity: fatal
  pattern: 'out of resource: shared memory, Required: \\d+, Hardware limit'
  cause: tiles for bigger silicon
  remedies:
  - {do: use_image, value: sglang-pr-16975, why: "the pull request for SM 12.0"}
  - {do: use_patch, value: sglang-sm120-extend-tiles, why: "tiles for SM 12.0 in extend_attention"}
  seen: none
  grade: B
  sources: [report]
- id: model-class-unknown
  title: this engine has no class for the model's architecture
  engines: [sglang]
  severity: fatal
  pattern: 'Model architectures (?P<classes>\\[.*?\\]) are not supported for now'
  cause: the branch is older than the model
  remedies:
  - {do: use_artifact, value: K2-Thinking-NVFP4, why: "a model that the branch knows"}
  seen: none
  grade: B
  sources: [report]
"""


def script(build: str, model: str, patched: bool) -> dict[str, object]:
    """What the report saw, build by build and model by model."""
    if patched:
        return {"says": []}
    if model == "K2.5-INT4":
        return {"dies": True, "says": list(NO_CLASS if build == "pr" else SHARED_MEMORY)}
    return {"longest": 4000, "says": list(SHARED_MEMORY)}  # short prompts only


class World:
    """The builds and artifacts of January 2026, as recipes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()

    def recipe(self, build: str, model: str, patched: bool = False) -> Recipe:
        file = self.folder / f"{build}-{model}-{patched}.json"
        file.write_text(json.dumps(script(build, model, patched)))
        words = (
            Setting(name=str(ENGINE), value=str(file), reason="scripted"),
            Setting(name="--port", value=str(self.port), reason="where it answers"),
        )
        return golden("kimi-k26-sglang").model_copy(
            update={
                "program": sys.executable,
                "arguments": words,
                "environment": (),
                "image": build,
                "port": self.port,
                "model_path": model,
                "health_path": "/health",
                "key_way": "file",
            }
        )

    @property
    def movers(self) -> dict[str, RecipeChanger]:
        return {
            "use_image": lambda recipe, remedy: self.recipe("pr", recipe.model_path),
            "use_artifact": lambda recipe, remedy: self.recipe("main", str(remedy.value)),
            "use_patch": lambda recipe, remedy: self.recipe("main", recipe.model_path, patched=True),
        }


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeploymentDir]:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    made = store.create("k2")
    yield made
    if made.has(Deployment):
        stop(made)


def long_question(deployment: Deployment) -> Sighting | None:
    """What found out that K2-Thinking stood for short prompts only."""
    try:
        with Endpoint(deployment.base_url, deployment.served_name, key="none") as endpoint:
            endpoint.chat([{"role": "user", "content": "x" * 8000}], max_tokens=4, temperature=0)
    except EndpointError as error:
        return Sighting(where="answer", text=f"smoke long: failed, {error.message}")
    return None


def test_the_six_attempts_of_january(directory: DeploymentDir, tmp_path: Path):
    rows = tmp_path / "home/catalog/failures/january.yaml"
    rows.parent.mkdir(parents=True)
    rows.write_text(THEIR_ROWS)
    assert loader.rows("failures")["triton-shared-memory"].owner == "user"
    world = World(tmp_path)
    first = heal(world.recipe("main", "K2.5-INT4"), directory, LocalHost(), check=long_question, movers=world.movers)
    assert first.deployment is not None
    again = heal(world.recipe("main", "K2.5-INT4", patched=True), directory, LocalHost(), check=long_question)
    assert status(directory).state == "ready"
    way = directory.read(Attempts)
    assert way == again.way
    assert [(each.number, each.result, each.code) for each in way.attempts] == [
        (1, "failed", "triton-shared-memory"),
        (2, "failed", "model-class-unknown"),
        (3, "partial", "triton-shared-memory"),
        (4, "partial", "triton-shared-memory"),
        (5, "ready", None),
        (6, "ready", None),
    ]
    assert [each.change.do if each.change else None for each in way.attempts] == [
        None, "use_image", "use_artifact", "use_image", "use_patch", None,
    ]  # fmt: skip
    assert len({each.recipe for each in way.attempts}) == 6


def test_the_catalogues_own_row_goes_to_the_patch_at_once(directory: DeploymentDir, tmp_path: Path):
    world = World(tmp_path)
    healed = heal(world.recipe("main", "K2.5-INT4"), directory, LocalHost(), movers=world.movers)
    assert [each.result for each in healed.way.attempts] == ["failed", "ready"]
    assert healed.way.attempts[1].change is not None
    assert healed.way.attempts[1].change.value == "sglang-sm120-extend-tiles"


def test_without_leave_to_patch_it_says_what_is_left(directory: DeploymentDir, tmp_path: Path):
    world = World(tmp_path)
    healed = heal(world.recipe("main", "K2.5-INT4"), directory, LocalHost())
    assert healed.deployment is None
    assert healed.way.stopped == "what is left for triton-shared-memory only you can do"
    assert healed.diagnosis is not None
    assert healed.diagnosis.cause is not None
    assert healed.diagnosis.cause.ranks == ()


def test_a_dirty_boot_moves_to_the_other_engine(directory: DeploymentDir, tmp_path: Path):
    world = World(tmp_path)
    changes = {"engine": "vllm", "engine_version": "0.32.0", "image": "vllm"}
    vllm = world.recipe("main", "dirty", patched=True).model_copy(update=changes)
    asked: list[Remedy] = []

    def other_engine(recipe: Recipe, remedy: Remedy) -> Recipe | None:
        asked.append(remedy)
        return world.recipe("main", "clean", patched=True)

    def check(deployment: Deployment) -> Sighting | None:
        dirty = deployment.engine == "vllm"
        return Sighting(where="answer", text="smoke language: failed, the answer repeats itself") if dirty else None

    healed = heal(vllm, directory, LocalHost(), check=check, movers={"use_engine": other_engine})
    assert [(each.engine, each.result, each.code) for each in healed.way.attempts] == [
        ("vllm", "partial", "boots-dirty"),
        ("sglang", "ready", None),
    ]
    assert asked[0].value == "sglang"


def test_a_bound_is_kept_and_no_recipe_is_started_twice(directory: DeploymentDir, tmp_path: Path):
    world = World(tmp_path)
    movers: dict[str, RecipeChanger] = {
        "use_patch": lambda recipe, remedy: recipe,
        "use_version": lambda recipe, remedy: recipe,
    }
    healed = heal(world.recipe("main", "K2.5-INT4"), directory, LocalHost(), movers=movers)
    assert len(healed.way.attempts) == 1
    count = iter(range(100))
    endless: dict[str, RecipeChanger] = {
        "use_patch": lambda recipe, remedy: world.recipe(f"main{next(count)}", "K2.5-INT4")
    }
    healed = heal(world.recipe("main", "K2.5-INT4"), directory, LocalHost(), movers=endless, most=3)
    assert len(healed.way.attempts) == 1 + 3
    assert healed.way.stopped == "3 attempts were made, and none stands"


def test_one_remedy_is_taken_so_many_steps_and_not_one_more(tmp_path: Path):
    """Each step is another recipe, so that only the limit of steps can end it."""
    world = World(tmp_path)
    again = Remedy(do="use_image", value="next", why="scripted")
    seen = Sighting(where="log", text="scripted")
    failure = Finding(code="c", title="t", severity="fatal", cause="c", seen=seen, remedies=(again,))
    diagnosis = Diagnosis.model_construct(findings=(failure,), code="c", certainty="cause", failed=True)
    tried = _Tried({"use_image": lambda recipe, remedy: world.recipe(f"{recipe.image}x", recipe.model_path)})
    recipe, taken = world.recipe("main", "K2.5-INT4"), 0
    while (step := tried.next(recipe, diagnosis)) is not None:
        recipe, taken = step[1], taken + 1
        assert taken <= MOST_STEPS
    assert taken == MOST_STEPS


def test_what_prove_found_wrong_is_why(directory: DeploymentDir, tmp_path: Path):
    """Garbage leaves no line in a log: the evidence is the source, if it is of the recipe that runs."""
    recipe = World(tmp_path).recipe("main", "clean", patched=True)
    assert heal(recipe, directory, LocalHost()).deployment is not None
    assert not diagnose_deployment(directory, LocalHost()).failed

    def evidence(subject: str) -> Evidence:
        fault = Observation(
            rung="smoke", check="language", verdict="failed", reason="a flood of '?'", at="2026-11-16T00:00:00Z",
            seconds=0.1, request={}, response=None, guard="flood", subject=subject,
        )  # fmt: skip
        return Evidence(deployment="k2", engine="sglang", engine_version=None, to_rung="smoke", observations=(fault,))

    directory.write(evidence("recipe:of another start"))
    assert not diagnose_deployment(directory, LocalHost()).failed
    directory.write(evidence(f"recipe:{directory.read(Recipe).digest}"))
    diagnosis = diagnose_deployment(directory, LocalHost())
    assert (diagnosis.failed, diagnosis.code) == (True, "proof-flood")
    assert diagnosis.findings[0].seen.text == "prove flood in smoke: a flood of '?'"
    assert len(diagnosis.findings[0].causes) >= 3
