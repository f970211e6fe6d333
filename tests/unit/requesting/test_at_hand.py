"""Ways to get an engine: commands that fit the box, with the version whose flags are recorded; nothing is run."""

from __future__ import annotations

import pytest

from upright import catalog
from upright.catalog.recorded_flags import recorded_versions
from upright.engines import OURS
from upright.errors import UsageError
from upright.requesting.at_hand import ways_to_get
from upright.showing.engine_page import engines_page, ways_page


@pytest.mark.parametrize("engine", OURS)
def test_every_engine_can_be_got_for_a_box_with_gpus(engine: str) -> None:
    ways = ways_to_get(engine, catalog.box_record("2x-rtx-5090"))
    assert ways
    assert all(way.engine == engine and way.commands and way.source for way in ways)


def test_a_wheel_is_pinned_to_the_newest_version_that_is_known() -> None:
    newest = recorded_versions("vllm")[-1]
    ways = ways_to_get("vllm", catalog.box_record("2x-rtx-5090"))
    assert any(f"'vllm=={newest}'" in command for way in ways for command in way.commands)
    assert not any("{" in command for way in ways for command in way.commands)


def test_a_machine_without_a_gpu_is_told_of_no_build_for_one() -> None:
    ways = ways_to_get(None, catalog.box_record("laptop"))
    assert {way.engine for way in ways} >= {"vllm", "llama.cpp"}
    assert not any("CUDA" in command or way.by == "image" for way in ways for command in way.commands)


def test_an_engine_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="no engine named emacs"):
        ways_to_get("emacs", catalog.box_record("laptop"))


@pytest.mark.parametrize("name", ["laptop", "8x-rtx-pro-6000-server", "dgx-spark"])
def test_prose_fits_the_page_and_commands_stay_whole(name: str) -> None:
    box = catalog.box_record(name)
    page = ways_page(ways_to_get(None, box), box, 80)
    prose = [line for line in page.splitlines() if not line.startswith("    ")]
    assert max(map(len, prose)) <= 80
    assert "is not known" in " ".join(engines_page(box, 80).split())
