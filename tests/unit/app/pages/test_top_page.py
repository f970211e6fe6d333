"""A screen fits its terminal, whatever is shown on it."""

from __future__ import annotations

import pytest

from upright.app.pages.top_page import as_row, screen, table
from upright.serving.monitor.polling import DeploymentReading, DeploymentSummary

WELL = DeploymentReading(
    DeploymentSummary("kimi-k2.6", "ready", None, "vllm 0.32.0", "kimi-k2.6", "http://127.0.0.1:8000",
                      next="upright diagnose x"),
    age_seconds=0.4, output_per_second=1234.5, prompt_per_second=98765.4, running=64, waiting=12, kv_usage=0.97,
    cached=0.883, acceptance=0.71, errors=3, first_token_seconds=0.35, watts=2412.3, watts_basis="GPUs, nvidia-smi",
    outputs=tuple(float(n % 90) for n in range(600)), prompts=(5.0, 0.0),
)  # fmt: skip
BARE = DeploymentReading(DeploymentSummary("llama", "ready"), age_seconds=0.1, output_per_second=0.4, running=0)
DEAD = DeploymentReading(
    DeploymentSummary("a-name-that-is-much-longer-than-any-column-may-be", "failed", "the GPU fell off the bus " * 12,
         next="upright diagnose a-name-that-is-much-longer-than-any-column-may-be"),
    problem="cannot be reached",
)  # fmt: skip
MUTE = DeploymentReading(WELL.look, age_seconds=31, problem="http://127.0.0.1:8000/metrics did not answer in time")
NEW = DeploymentReading(DeploymentSummary("young", "loading", "reading the weights 33 %", next="upright logs young"))


@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 50), (120, 30), (80, 10), (60, 8), (300, 90)])
@pytest.mark.parametrize(
    "sights",
    [[WELL], [BARE], [DEAD], [WELL, BARE, DEAD, MUTE], [WELL] * 40, [NEW, DEAD]],
    ids=["one", "bare", "dead", "four", "forty", "new"],
)
def test_every_screen_fits(sights: list[DeploymentReading], columns: int, lines: int) -> None:
    drawn = screen(sights, columns, lines, "12:00:00", 2, 9)
    assert len(drawn) == lines
    assert max(line.cell_len for line in drawn) <= columns


def test_what_is_said_of_the_four_kinds() -> None:
    text = "\n".join(line.plain.rstrip() for line in screen([WELL, BARE, DEAD, MUTE], 80, 24, "12:00:00", 2, 9))
    lines = text.splitlines()
    assert lines[0].startswith("upright tools top  4 deployments, 1,235 tokens/s out")
    assert lines[0].endswith("12:00:00")
    assert lines[2].split() == ["name", "state", "out/s", "in/s", "run", "wait", "KV", "hits", "acc", "err", "W"]
    (well,) = [line for line in lines if line.startswith("kimi-k2.6") and "ready" in line]
    assert well.split()[2:] == ["1,234", "98,765", "64", "12", "97%", "88%", "71%", "3", "2,412"]
    (bare,) = [line for line in lines if line.startswith("llama ")]
    assert bare.split()[1:] == ["ready", "0.4", "—", "0", "—", "—", "—", "—", "—", "—"]
    assert "  the GPU fell off the bus" in text
    assert "next: upright diagnose a-name" in text
    assert "no answer for 31 s: http://127.0.0.1:8000/metrics did not answer in time" in text
    assert "W: its whole machine's GPUs, nvidia-smi" in lines[-1]


def test_more_than_fit_are_counted() -> None:
    lines = [line.plain for line in screen([WELL] * 40, 80, 24, "12:00:00", 2, 9)]
    assert sum(line.startswith("kimi") for line in lines) == 19
    assert "and 21 more: a taller terminal shows them, or name some" in lines


def test_the_chart_ends_with_now_and_has_its_scale() -> None:
    rising = DeploymentReading(WELL.look, age_seconds=0, outputs=(0.0, 10.0, 20.0, 40.0))
    lines = [line.plain for line in screen([rising], 80, 9, "12:00:00", 2, 9)]
    chart = lines[4:7]
    assert chart[0].startswith("out 40 ")
    assert [line[-4:] for line in chart] == ["   █", "  ▄█", " ▆██"]
    assert chart[2].startswith("8.0 s")


def test_programs_get_the_same_and_what_to_do_only_where_something_is_wrong() -> None:
    assert as_row(WELL, 9)["next"] is None
    assert as_row(WELL, 9)["output_tokens_per_second"] == 1234.5
    assert (as_row(MUTE, 9)["state"], as_row(MUTE, 9)["next"]) == ("silent", "upright diagnose x")
    assert as_row(DEAD, 9)["state"] == "failed"
    assert [line.plain for line in table([BARE, NEW], 80, 9)][-2:] == [
        "  reading the weights 33 %",
        "  next: upright logs young",
    ]
