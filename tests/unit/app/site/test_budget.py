"""What a visit costs may not grow by a fifth unseen: what is made here, without a browser."""

from __future__ import annotations

from pathlib import Path

from tests.site.budgets import over, own_bytes, work


def test_bytes_that_are_made_here_stay_within_their_budget():
    assert over(own_bytes()) == {}


def test_the_work_of_a_start_and_of_a_moved_slider_stays_within_its_budget(tmp_path: Path):
    assert over(work(tmp_path)) == {}
