"""MLX: planned on Macs alone, its words from its own parser, and what no flag says in notes."""

from __future__ import annotations

import csv
import json

import pytest
from click.testing import CliRunner

import upright
from scripts.fitting.speeds import held_out
from tests.accuracy.published_runs import STATED
from upright.app.cli.main import cli
from upright.base.errors import UsageError
from upright.base.units import GB
from upright.engines import ENGINES, engine_named
from upright.facts import catalog
from upright.facts.records.plan import Goal, Plan
from upright.models.deriving.catalogue_models import records
from upright.models.deriving.named_builds import build_by_name
from upright.planning.choosing import plan
from upright.planning.placement.engine_support import engines_for_artifact, has_kernels, offered_on
from upright.planning.rendering.command import command_text
from upright.planning.rendering.recipe import RenderOptions, render
from upright.planning.rendering.shell import shell_script
from upright.planning.rendering.systemd import systemd_unit
from upright.planning.speed.published import engine_of
from upright.planning.speed.rows import speed_row

ENGINE = "mlx"


def artifact(row: str, name: str):
    return next(model for model in records(catalog.model(row)) if model.name.endswith(name))


def planned(row: str, name: str, box: str = "m4-max", **wishes: object) -> Plan:
    return plan(catalog.box_record(box), artifact(row, name), Goal(engine=ENGINE, **wishes))[0]


def recipe(row: str, name: str, box: str = "m4-max", options: RenderOptions | None = None, **wishes: object):
    machine, model = catalog.box_record(box), artifact(row, name)
    made = plan(machine, model, Goal(engine=ENGINE, **wishes))[0]
    options = options or RenderOptions(must_be_installed=False)
    return render(made, model, machine, model_path=model.source, port=8000, wishes=options)


def words(made) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in made.arguments}


def bytes_of(made: Plan) -> int:
    return sum(line.bytes for line in made.ledger)


# Peaks that mlx-lm and its users print, with prompts of so many tokens read 2,048 at once.
@pytest.mark.parametrize(
    ("row", "name", "box", "context", "peak_gb"),
    [
        pytest.param("qwen3-30b-a3b", "2507-8bit", "m4-max", 2176, 33.46, id="BENCHMARKS.md:52"),
        pytest.param("qwen3-30b-a3b", "2507-6bit", "m4-max", 2176, 25.82, id="BENCHMARKS.md:53"),
        pytest.param("qwen3-30b-a3b", "2507-5bit", "m4-max", 2176, 22.01, id="BENCHMARKS.md:54"),
        pytest.param("qwen3-30b-a3b", "2507-4bit", "m4-max", 2176, 18.20, id="BENCHMARKS.md:55"),
        pytest.param("kimi-k2.6", "MLX-3.6bit", "m3-ultra", 1280, 460.444, id="spicyneuron"),
        pytest.param("kimi-k2.6", "MLX-3.3bit", "m3-ultra", 1280, 428.735, id="spicyneuron too"),
    ],
)
def test_memory_is_as_runs_print_it(row: str, name: str, box: str, context: int, peak_gb: float):
    made = planned(row, name, box, context_tokens=context, batched_tokens=2048 if context > 2048 else 1024)
    assert bytes_of(made) / GB == pytest.approx(peak_gb, rel=0.015)


def test_latent_attention_spells_out_its_scores_for_a_prompt():
    """Of 64 heads and 65,536 tokens 2 GiB of keys and values, and 8 MiB for each token that is read at once."""
    latent = planned("kimi-k2.6", "MLX-3.3bit", "m3-ultra", batched_tokens=1024)
    grouped = planned("minimax-m2.5", "M2.1-4bit", "m3-ultra", batched_tokens=1024)
    (scratch,), (little,) = ([line for line in made.ledger if line.term == "compute"] for made in (latent, grouped))
    assert scratch.bytes == pytest.approx(64 * 65_536 * 2 * (1024 + 256), rel=0.05)
    assert little.bytes < scratch.bytes / 20


def test_only_macs_are_offered_it():
    build = artifact("qwen3.6-35b-a3b", "8bit")
    assert engines_for_artifact(build) == (ENGINE,)
    macs = [row.id for row in catalog.gpus() if row.vendor == "apple"]
    others = ["8x-rtx-pro-6000-server", "1x-mi300x", "strix-halo", "dgx-spark", "cpu"]
    assert all(offered_on(ENGINE, catalog.box_record(f"1x-{mac}")) for mac in macs)
    assert not any(has_kernels(build, catalog.box_record(box)) for box in others)
    for box in others:
        for made in upright.plan("qwen3.6-35b-a3b", catalog.box_record(box)):
            assert made.engine != ENGINE


def test_no_other_engine_is_offered_its_packing():
    build = artifact("qwen3.6-35b-a3b", "8bit")
    for engine in set(ENGINES) - {ENGINE}:
        (objection,) = plan(catalog.box_record("8x-rtx-pro-6000-server"), build, Goal(engine=engine))[0].objections[:1]
        assert (objection.code, objection.remedy) == ("wrong-format", f"--engine {ENGINE}")


def test_its_words_are_those_that_it_takes():
    made = words(recipe("kimi-k2.6", "MLX-3.3bit", "m3-ultra", users=2))
    assert made["--host"] == "127.0.0.1"
    assert made["--decode-concurrency"] == made["--prompt-concurrency"] == "2"
    assert (
        int(made["--prefill-step-size"] or 0) == planned("kimi-k2.6", "MLX-3.3bit", "m3-ultra", users=2).ubatch_tokens
    )
    assert "--kv-bits" not in made
    off = RenderOptions(must_be_installed=False, prefix_caching=False)
    assert words(recipe("qwen3.6-35b-a3b", "8bit", options=off))["--prompt-cache-size"] == "0"


def test_remembered_caches_stay_within_what_was_planned():
    made = planned("qwen3.6-35b-a3b", "8bit", users=4)
    room = int(words(recipe("qwen3.6-35b-a3b", "8bit", users=4))["--prompt-cache-bytes"] or 0)
    assert made.kv.planned_tokens * made.kv.low_bytes_per_token <= room <= made.budgets[0].capacity_bytes


def test_a_quantised_cache_is_never_given_to_latent_attention():
    made = planned("glm-4.7-flash", "4bit", kv_dtype="q8_0")
    assert [objection.code for objection in made.objections] == ["constraint"]
    assert made.objections[0].remedy == "--kv-dtype bf16"
    grouped = recipe("qwen3-30b-a3b", "2507-4bit", kv_dtype="q8_0", users=2)
    assert (words(grouped)["--kv-bits"], words(grouped)["--quantized-kv-start"]) == ("8", "0")
    assert any("one after another" in note for note in grouped.notes)


def test_it_takes_no_key_and_binds_loopback_alone():
    with pytest.raises(UsageError, match="no API key"):
        recipe("qwen3.6-35b-a3b", "8bit", options=RenderOptions(must_be_installed=False, host="0.0.0.0"))
    assert any("no key" in note for note in recipe("qwen3.6-35b-a3b", "8bit").notes)


def test_no_key_is_made_that_nobody_asks_for():
    made = recipe("qwen3.6-35b-a3b", "8bit")
    for written in (shell_script(made), systemd_unit(made), command_text(made)):
        said = [line for line in written.lower().splitlines() if not line.strip().startswith("#")]
        assert any("mlx_lm.server" in line for line in said)
        assert not [line for line in said if "key" in line]


def test_clients_are_given_the_one_name_that_unloads_nothing():
    assert recipe("qwen3.6-35b-a3b", "8bit").served_name == "default_model"
    with pytest.raises(UsageError, match="for a model to load"):
        recipe("qwen3.6-35b-a3b", "8bit", options=RenderOptions(must_be_installed=False, served_name="mine"))


def test_more_of_the_machine_is_a_step_with_its_command():
    done = CliRunner().invoke(
        cli, ["plan", "qwen3.6-35b-a3b", "--engine", ENGINE, "--box", "m4-max", "--users", "2", "--json"]
    )
    (step,) = [rung for rung in json.loads(done.stdout)["plans"][0]["rungs"] if rung["name"] == "wired-limit"]
    assert step["why"].startswith("sudo sysctl iogpu.wired_limit_mb=114688: 4.48 GiB more")
    done = CliRunner().invoke(cli, ["plan", "qwen3.6-35b-a3b", "--box", "8x-rtx-pro-6000-server", "--json"])
    assert "wired-limit" not in done.stdout


@pytest.mark.parametrize(
    ("name", "bits"),
    [("mlx-community/Qwen3-235B-A22B-4bit", 4.5), ("someone/GLM-4.6-MLX-6bit", 6.5), ("someone/GLM-4.6-4bit", None)],
)
def test_a_build_that_nobody_lists_is_told_by_its_name(name: str, bits: float | None):
    build = build_by_name(name)
    assert build is not None
    assert (ENGINE in engines_for_artifact(build)) is (bits is not None)
    if bits:
        assert 8 * build.tensor_bytes / build.parameters == pytest.approx(bits, rel=0.01)


def test_what_it_is():
    engine = engine_named(ENGINE)
    assert engine.http.metrics_path is None
    assert engine.cache_types[0] == "bf16"


ROWS = ("mlx-apple7", "mlx-apple9", "mlx-apple10")


def held_out_shares(row: str, *, prompts: bool) -> list[float]:
    """Measured over predicted, each published configuration predicted by a fit on the others."""
    return [1 / (1 + off) for _, off in held_out(speed_row(row), lambda cell: cell.group, prompts=prompts)]


def test_runs_whose_configuration_was_held_out_lie_inside_the_band():
    inside, every = 0, 0
    for row in ROWS:
        constants = speed_row(row)
        for prompts, band in ((False, constants.errors), (True, constants.prompt_errors)):
            if band is None:
                continue
            shares = held_out_shares(row, prompts=prompts)
            inside += sum(band.low <= share <= band.high for share in shares)
            every += len(shares)
    assert every >= 50
    assert inside >= 0.8 * every


def test_published_runs_lie_inside_what_the_command_printed_for_them():
    """`published_runs_stated.csv` is what the command says; another test holds it against the command."""
    with STATED.open(encoding="utf-8", newline="") as opened:
        stated = {line["id"]: line for line in csv.DictReader(opened)}
    rows = [stated[row.id] for row in catalog.measurements() if engine_of(row) == ENGINE and row.id in stated]
    answered = [line for line in rows if line["low"]]
    inside = [line for line in answered if float(line["low"]) <= float(line["measured"]) <= float(line["high"])]
    assert len(rows) > 90
    assert len(answered) > 60
    assert len(inside) >= 0.8 * len(answered)


def test_it_is_not_always_the_faster_one():
    """MiniMax M2.1 in four bits at 146,000 tokens on an M3 Ultra, by one person: 5.95 against 12.12 tok/s."""
    rates = {
        engine_of(row): row.decode_tokens_per_second
        for row in catalog.measurements()
        if row.model == "minimax-m2.1" and row.context_tokens == 146_000 and row.decode_tokens_per_second
    }
    assert rates[ENGINE] < rates["llama.cpp"] / 2
