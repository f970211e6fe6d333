"""One's own measurements become constants that plans use and name."""

from __future__ import annotations

import csv

import pytest
from click.testing import CliRunner

from upright import Goal
from upright.app.cli.calibrate import command
from upright.base.errors import UprightError, UsageError
from upright.facts import catalog
from upright.facts.catalog.loader import OURS
from upright.facts.catalog.model_records import records
from upright.planning.choosing import plan

START = ("--gpu", "rtx-pro-6000-server", "--row", "vllm-sm120-pcie-oneshot")
IMAGE = "voip-glm-kimi-canonical-20260514"


@pytest.fixture
def own(tmp_path, monkeypatch):
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path


def measured(path, *, rows=48, slower=1.0, **changed):
    """Published cells as if somebody had measured them on a box that is slower."""
    with (OURS / "measurements/first.csv").open() as file:
        published = [
            row for row in csv.DictReader(file) if row["speculation"] == "none" and row["kv_tokens"] == "478992"
        ]
        file.seek(0)
        published += [row for row in csv.DictReader(file) if row["kv_tokens"] == "953088"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, published[0].keys(), lineterminator="\n")
        writer.writeheader()
        for row in published[:rows]:
            rate = float(row["decode_tokens_per_second"]) / slower
            writer.writerow({**row, "decode_tokens_per_second": rate, **changed})
    return str(path)


def run(*words):
    return CliRunner().invoke(command, list(words), prog_name="upright tools calibrate", standalone_mode=True)


def test_a_slower_box_gets_constants_of_its_own_and_plans_use_them(own, monkeypatch):
    box, model = catalog.box_record("8x-rtx-pro-6000-server"), records(catalog.model("kimi-k2.6"))[0]
    goal = Goal(image=IMAGE, engine="vllm", decode_context_parallel=1)
    monkeypatch.setenv("UPRIGHT_HOME", str(own / "before"))  # rows are read once
    before = plan(box, model, goal)[0].speed
    monkeypatch.setenv("UPRIGHT_HOME", str(own / "home"))
    done = run(measured(own / "mine.csv", slower=1.5), *START)
    assert done.exit_code == 0, done.output
    assert "8 constants fitted" in done.stdout
    after = plan(box, model, goal)[0].speed
    assert after.row == "own-vllm-sm120-pcie-oneshot"
    assert after.basis == "measured"
    assert after.decode.best == pytest.approx(before.decode.best / 1.5, rel=0.06)
    assert max(len(line) for line in done.stdout.splitlines()) <= 80


def test_a_dry_run_writes_nothing(own):
    done = run(measured(own / "mine.csv", slower=1.5), *START, "--dry-run")
    assert done.exit_code == 0
    assert not (own / "home/catalog").exists()


def test_what_predicts_worse_than_the_catalogue_is_not_written(own):
    done = run(measured(own / "mine.csv"), *START)
    assert done.exit_code == 1
    assert "nothing was written" in done.stderr
    assert not (own / "home/catalog").exists()


def test_few_rows_tell_few_constants(own):
    done = run(measured(own / "mine.csv", rows=5, slower=1.5), *START)
    assert done.exit_code == 0, done.output
    assert "5 measurements, 1 constants fitted" in done.stdout
    with pytest.raises(UprightError, match="2 usable measurements tell no constant"):
        command.main([measured(own / "two.csv", rows=2), *START], standalone_mode=False)


def test_rows_that_cannot_be_used_are_named(own):
    done = run(measured(own / "mine.csv", slower=1.5, gpu="abacus"), "--row", "vllm-sm120-pcie-oneshot")
    assert "no GPU named abacus in the catalogue" in done.stderr
    assert isinstance(done.exception, UprightError)


def test_misuse(own):
    with pytest.raises(UsageError, match="no file"):
        command.main([str(own / "nothing.csv")], standalone_mode=False)


def test_without_a_row_it_starts_from_what_a_plan_for_such_runs_would_take(own):
    done = run(measured(own / "mine.csv", slower=1.5), "--gpu", "rtx-pro-6000-server", "--dry-run")
    assert done.exit_code == 0, done.output
    assert "from speeds/vllm-sm120-pcie" in done.stdout, done.output


def test_runs_of_an_engine_without_constants_ask_for_a_row_to_start_from(own):
    with pytest.raises(UsageError, match="the catalogue has no constants of exllama"):
        CliRunner().invoke(command, [measured(own / "mine.csv", engine="exllama")], catch_exceptions=False)


def test_cells_are_planned_for_one_deployment(own):
    for sources in (("mine.csv",), ("one", "two")):
        with pytest.raises(UsageError, match="planned for one deployment"):
            command.main([*sources, "--plan"], standalone_mode=False)
    with pytest.raises(UprightError, match="there is no deployment"):
        command.main(["--plan"], standalone_mode=False)


def test_measurements_that_lie_too_far_apart_are_refused(own):
    """As on a machine that did other work meanwhile."""
    file = own / "mine.csv"
    measured(file, rows=24, slower=1.5)
    lines = file.read_text().splitlines()
    column = lines[0].split(",").index("decode_tokens_per_second")
    with file.open(newline="") as opened:
        rows = list(csv.reader(opened))
    for number, row in enumerate(rows[1:]):
        row[column] = str(float(row[column]) * (4 if number % 2 else 0.25))
    with file.open("w", newline="") as opened:
        csv.writer(opened, lineterminator="\n").writerows(rows)
    done = run(str(file), *START)
    assert done.exit_code == 1
    assert "nothing was written" in done.stderr
    assert not (own / "home/catalog").exists()
