"""Stale: the newest version of the engine that is known refuses a flag of the recipe: it cannot be run as it stands."""

from __future__ import annotations

import pytest

from scripts.seeding.publications import Report, ReportedConfiguration, statements
from upright.evidence.share.checks import LEVELS, Verification
from upright.evidence.share.verifying import verify
from upright.facts.catalog.recorded_flags import recorded_flags, recorded_versions

OLDEST, NEWEST = recorded_versions("vllm")[0], recorded_versions("vllm")[-1]
KEPT = "--tensor-parallel-size"


def gone() -> str:
    """A flag that the oldest recorded version takes and the newest does not."""
    older, newer = recorded_flags("vllm", OLDEST), recorded_flags("vllm", NEWEST)
    assert older
    assert newer
    return sorted(name for name in older.flags - newer.flags if name.startswith("--"))[0]


def judged(version: str | None, *flags: str, engine: str = "vllm") -> Verification:
    stated = ReportedConfiguration(
        name="it", model="kimi-k2.6", repository="moonshotai/Kimi-K2.6", gpu="h200-sxm", gpus=8, engine=engine,
        engine_version=version, program=engine, served_name="k", arguments=" ".join(f"{flag} 1" for flag in flags),
    )  # fmt: skip
    statement = statements(Report(title="t", at="2026", sha256="0" * 64, bundles=(stated,), tables=()))["it"]
    return verify(statement, statement.identity)


def test_a_flag_that_the_newest_refuses_makes_it_stale() -> None:
    verification = judged(OLDEST, KEPT, gone())
    assert verification.level == "stale"
    (why,) = [check.reason for check in verification.checks if check.code == "stale"]
    assert why == f"vllm {NEWEST} takes no {gone()} any more"


@pytest.mark.parametrize("version", [OLDEST, NEWEST, None])
def test_an_old_version_alone_is_not_stale(version: str | None) -> None:
    assert judged(version, KEPT).level == "claimed"


def test_a_flag_that_its_own_version_never_took_is_broken_and_not_stale() -> None:
    assert judged(NEWEST, gone()).level == "broken"


def test_an_engine_whose_versions_have_no_order_is_never_stale() -> None:
    assert judged("8337e4cd", "--threads", engine="ik_llama.cpp").level in ("claimed", "broken")


def test_it_is_worth_less_than_a_claim_that_can_be_run() -> None:
    assert LEVELS.index("broken") < LEVELS.index("stale") < LEVELS.index("claimed")
