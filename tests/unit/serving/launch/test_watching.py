"""What counts as life: words in a log that are new, and not the same ones again."""

from __future__ import annotations

from pathlib import Path

from upright.facts.records.deployment import Keeping
from upright.serving.launch.health import HealthWatch, LogPulse

STATUS = "(APIServer pid=1) INFO 06-22 17:39:{second} [loggers.py:273] Engine 000: Running: 1 reqs, usage: {usage}%\n"


def test_a_log_that_says_something_new_is_alive_and_one_that_repeats_itself_is_not(tmp_path: Path):
    log = tmp_path / "engine.log"
    pulse = LogPulse(log)
    assert not pulse.beats()
    log.write_text("begun\n" + STATUS.format(second=10, usage=1.3))
    assert pulse.beats()
    assert not pulse.beats()
    with log.open("a") as stream:
        stream.write(STATUS.format(second=20, usage=1.3))
    assert not pulse.beats()
    with log.open("a") as stream:
        stream.write(STATUS.format(second=30, usage=4.7))
    assert pulse.beats()


def test_who_wants_a_hang_noticed_early_has_the_engine_asked_early(tmp_path: Path):
    keeping = Keeping(hung_seconds=10)
    watch = HealthWatch(None, None, keeping, tmp_path / "engine.log")  # type: ignore[arg-type]
    assert watch.pause_seconds == 10 < keeping.question_seconds
