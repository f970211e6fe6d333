"""A version of an engine against the catalogue's own rows: misuse, refusals, notes, and the version that would do."""

from __future__ import annotations

import pytest

from upright import Goal, Plan
from upright.base.errors import UsageError
from upright.facts import catalog
from upright.facts.catalog.model_records import records
from upright.facts.catalog.recorded_flags import recorded_versions
from upright.facts.records.box import Box, EngineInstall
from upright.planning.choosing import plan

BOX = catalog.box_record("8x-rtx-pro-6000-server")
SIXTEEN = catalog.box_record("16x-rtx-pro-6000-server")
H200 = catalog.box_record("8x-h200")


def best(model: str, version: str | None, box: Box = BOX, engine: str | None = "vllm", **goal: object) -> Plan:
    wanted = Goal.model_validate({"engine": engine, "engine_version": version, **goal})
    return plan(box, records(catalog.model(model))[0], wanted)[0]


def codes(found: Plan) -> set[str]:
    return {each.code for each in (*found.objections, *found.notes)}


def test_what_a_row_says_no_to_is_refused_with_the_version_that_would_do():
    old = best("deepseek-v3.2", "0.20.0", box=SIXTEEN)
    (no,) = old.objections
    assert (no.code, no.remedy) == ("engine-too-old", "--engine-version 0.24.0")
    assert "compat/vllm-sm12-sparse-mla-old" in no.message
    assert [offer.options for offer in old.nearest] == [("--engine-version", "0.24.0")]
    assert best("deepseek-v3.2", "0.24.0", box=SIXTEEN).fits
    assert "engine-too-old" not in codes(best("deepseek-v3.2", "0.20.0", box=H200)), "that row is of other silicon"


def test_a_version_older_than_the_model_is_refused():
    no, hole = best("kimi-k2.6", "0.1.0").objections
    assert (no.remedy, "models/kimi-k2.6" in no.message) == ("--engine-version 0.19.1", True)
    assert (hole.remedy, "CVE-2025-66448" in hole.message) == ("--engine-version 0.11.1", True)
    assert best("kimi-k2.6", "0.19.1").fits
    assert best("kimi-k2.6", "0.19.1+cpu").fits


def test_of_two_refusals_the_newer_version_is_offered():
    found = best("deepseek-v3.2", "0.10.0", box=SIXTEEN)
    remedies = [no.remedy for no in found.objections]
    assert remedies == ["--engine-version 0.11.1", "--engine-version 0.24.0", "--engine-version 0.11.1"]
    assert "CVE-2025-66448" in found.objections[-1].message
    assert found.nearest[0].options == ("--engine-version", "0.24.0")


def test_a_newer_version_is_offered_with_whatever_else_it_needs():
    found = best("kimi-k2.5", "0.5.8", engine="sglang", memory_fraction=0.787)
    assert found.nearest[0].options == ("--engine-version", "0.5.9", "--gpu-memory-utilization", "0.93")


def test_an_installed_version_is_judged_too_and_a_build_between_releases_is_not():
    def with_vllm(version: str) -> Box:
        install = EngineInstall(engine="vllm", version=version, program="/opt/vllm/bin/vllm")
        return BOX.model_copy(update={"engines": (install,)})

    old = best("kimi-k2.6", None, box=with_vllm("0.18.0"))
    assert "engine-too-old" in codes(old)
    assert best("kimi-k2.6", None, box=with_vllm("0.1.dev1+g0123456")).fits
    assert best("kimi-k2.6", None, box=with_vllm("0123456")).fits


def test_rows_do_not_speak_of_an_image_with_patches():
    image = "voip-glm-kimi-canonical-20260514"
    assert codes(best("kimi-k2.6", "0.18.0", image=image)).isdisjoint({"engine-too-old", "known-trouble"})


def test_an_fp8_cache_with_wrong_scales_is_refused_on_any_silicon():
    old, new = (best("deepseek-r1", version, box=H200, kv_dtype="fp8") for version in ("0.18.0", "0.19.0"))
    assert "compat/vllm-fp8-mla-scales" in old.objections[0].message
    assert new.fits


def test_trouble_that_some_loads_meet_is_a_note_and_so_is_a_release_that_nobody_knows():
    assert "known-trouble" in codes(best("kimi-k2.6", "0.20.0"))
    assert "known-trouble" not in codes(best("kimi-k2.6", "0.20.0", box=H200)), "another backend is taken there"
    assert codes(best("kimi-k2.6", "0.32.0")).isdisjoint({"known-trouble", "unknown-release"})
    assert "unknown-release" in codes(best("kimi-k2.6", "0.99.0"))


@pytest.mark.parametrize(
    ("engine", "version"),
    [
        ("vllm", "banana"), ("vllm", "b11669"), ("vllm", "v0.32.0"), ("vllm", "32"), ("vllm", ""), ("vllm", "0.32.0 x"),
        ("sglang", "latest"), ("llama.cpp", "0.32.0"), ("llama.cpp", "b"), ("ik_llama.cpp", "main"),
    ],
)  # fmt: skip
def test_a_version_that_is_none_is_misuse(engine: str, version: str):
    with pytest.raises(UsageError, match=r"is no version of") as caught:
        best("kimi-k2.6", version, engine=engine)
    assert caught.value.hint == f"written as in --engine-version {recorded_versions(engine)[-1]}"


def test_a_version_of_no_engine_is_misuse():
    with pytest.raises(UsageError, match="no engine is named"):
        best("kimi-k2.6", "0.32.0", engine=None)


@pytest.mark.parametrize("version", ["b99999", "99999ab"])
def test_a_commit_is_not_newer_than_another(version: str):
    gguf = next(each for each in records(catalog.model("kimi-k2.6")) if each.format == "gguf")
    found = plan(BOX, gguf, Goal(engine="ik_llama.cpp", engine_version=version))[0]
    assert "unknown-release" not in codes(found)
