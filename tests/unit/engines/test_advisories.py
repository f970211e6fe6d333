"""Published holes: refused where they are grave, in reach and avoidable; told where not; silent where not in reach."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.base.errors import EngineError
from upright.engines.advisories import EngineRun, notes, open_advisories, refuse_advisories
from upright.facts import catalog
from upright.facts.catalog.rows.advisory import AdvisoryRow
from upright.facts.records.recipe import Recipe, Setting
from upright.facts.store import DeploymentDir
from upright.serving.check import check
from upright.serving.launch import launch

VLLM = recipe("kimi-k26-vllm")
SGLANG = recipe("kimi-k26-sglang")


def open_in(run: EngineRun) -> dict[str, bool]:
    return {hole.row.id: hole.refused for hole in open_advisories(run)}


def with_flag(of: Recipe, name: str) -> Recipe:
    return of.model_copy(update={"arguments": (*of.arguments, Setting(name=name, reason="a test"))})


@pytest.mark.parametrize(
    ("version", "refused"), [("0.10.0", False), ("0.10.1", True), ("0.13.9", True), ("0.14.0", False)]
)
def test_auto_map_code_is_refused_in_exactly_these_versions(version: str, refused: bool):
    assert open_in(EngineRun("vllm", version)).get("CVE-2026-22807", False) is refused


@pytest.mark.parametrize("host", ["0.0.0.0", "10.1.2.3", "::", "box.lan"])
def test_a_key_that_does_not_hold_is_refused_on_a_network_and_told_on_loopback(host: str):
    assert open_in(EngineRun("vllm", "0.21.0", host=host))["CVE-2026-48746"] is True
    assert open_in(EngineRun("vllm", "0.21.0"))["CVE-2026-48746"] is False
    assert open_in(EngineRun("vllm", "0.21.0", host="localhost"))["CVE-2026-48746"] is False
    assert "CVE-2026-48746" not in open_in(EngineRun("vllm", "0.22.0", host=host))


def test_what_has_no_better_is_told_and_not_refused():
    assert open_in(EngineRun("vllm", "0.32.0", host="0.0.0.0")) == {"vllm-invocations-without-key": False}
    assert open_in(EngineRun("vllm", "0.32.0")) == {}
    assert open_in(EngineRun("ik_llama.cpp", "8337e4cd")) == {"CVE-2026-27940": False}
    assert open_in(EngineRun("llama.cpp", "b11669", host="0.0.0.0")) == {}


def test_holes_between_boxes_count_with_several_boxes():
    assert open_in(EngineRun("vllm", "0.8.4", nodes=2))["CVE-2025-30165"] is True
    assert "CVE-2025-30165" not in open_in(EngineRun("vllm", "0.8.4"))


@pytest.mark.parametrize(
    ("flag", "host", "code"),
    [
        ("--enable-custom-logit-processor", "127.0.0.1", "CVE-2026-7304"),
        ("--enable-elastic-expert-backup", "0.0.0.0", "CVE-2026-14890"),
        ("--admin-api-key", "0.0.0.0", "CVE-2026-15977"),
    ],
)
def test_a_flag_that_opens_the_machine_is_refused_and_without_it_nothing_is_said(flag: str, host: str, code: str):
    plain = SGLANG.model_copy(update={"host": host, "engine_version": "0.5.14"})
    assert open_in(EngineRun.of(with_flag(plain, flag)))[code] is True
    assert code not in open_in(EngineRun.of(plain))


def test_a_build_between_releases_and_an_unknown_version_are_not_judged():
    assert open_advisories(EngineRun("vllm", "0.1.dev1+g0123456", host="0.0.0.0")) == ()
    assert open_advisories(EngineRun("vllm", None)) == ()
    assert open_in(EngineRun("vllm", "0.13.0+cpu"))["CVE-2026-22807"] is True


def test_check_refuses_what_the_parser_would_take():
    exposed = VLLM.model_copy(update={"engine_version": "0.20.0", "host": "0.0.0.0", "installed": False})
    found = check(exposed)
    assert [(refusal.setting, refusal.message.split(",")[0]) for refusal in found.refusals] == [
        ("vllm 0.20.0", "CVE-2026-48746")
    ]
    quiet = check(exposed.model_copy(update={"host": "127.0.0.1"}))
    assert quiet.refusals == ()
    assert any("CVE-2026-48746" in remark for remark in quiet.remarks)


def test_up_refuses_before_anything_is_written(tmp_path: Path):
    exposed = VLLM.model_copy(update={"engine_version": "0.20.0", "host": "0.0.0.0"})
    directory = DeploymentDir(tmp_path / "deployments/toy")
    with pytest.raises(EngineError, match="CVE-2026-48746") as refused:
        launch(exposed, directory)
    assert "upright explain CVE-2026-48746" in (refused.value.hint or "")
    assert not directory.has(Recipe)


def test_a_person_may_accept_a_hole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    ours = catalog.get("advisories", "CVE-2026-48746")
    file = tmp_path / "catalog/advisories/accepted.yaml"
    file.parent.mkdir(parents=True)
    accepted = ours.model_copy(update={"accepted": "nginx stands in front"})
    file.write_text(accepted.model_dump_json(exclude={"owner", "file"}))
    exposed = VLLM.model_copy(update={"engine_version": "0.20.0", "host": "0.0.0.0"})
    refuse_advisories(exposed)
    assert any("accepted in your catalogue: nginx stands in front" in note for note in notes(exposed))


ROWS = catalog.advisories()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_row_is_found_by_its_versions_and_accepted_by_nobody(row: AdvisoryRow):
    """The rows of one version are picked by their text: the pick must agree with the rows themselves."""
    assert row.accepted is None, "only a person accepts a hole"
    assert row.sources[0].startswith("https://"), "the advisory's own address stands first"
    for part in row.affected:
        for version in (
            "0.5.9",
            "0.5.15",
            "0.8.4",
            "0.13.0",
            "0.20.0",
            "0.32.0",
            "b5000",
            "b8000",
            "b11669",
            "8337e4cd",
        ):
            picked = row.id in {each.id for each in catalog.advisories(part.engine, version)}
            assert picked is (row.of(part.engine, version) is not None), (row.id, version)


def test_the_catalogue_knows_enough_of_each_engine():
    counts = {
        engine: len(catalog.advisories(engine))
        for engine in ("vllm", "sglang", "llama.cpp", "ik_llama.cpp", "ktransformers")
    }
    assert len(ROWS) >= 30
    assert all(counts.values()), counts
