"""A fleet of boxes that nobody has reached: planned and handed over, never started."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Upright

FLEET = """record: fleet
schema: 4
name: kimi
model: {model}
goal: {{context_tokens: 65536, users: 2}}
boxes:
  - {{name: alpha, at: "box:{box}"}}
  - {{name: beta, at: "box:{box}"}}
"""


def _fleet(folder: Path, model: str = "gpt-oss-20b", box: str = "1x-rtx-5090") -> str:
    (folder / "fleet.yaml").write_text(FLEET.format(model=model, box=box))
    return str(folder / "fleet.yaml")


@pytest.mark.parametrize("to", ["cluster", "slurm"])
def test_it_is_handed_over_without_a_machine(upright: Upright, tmp_path: Path, to: str) -> None:
    done = upright("fleet", "render", _fleet(tmp_path), "--to", to, "--into", tmp_path / "made", PATH="/usr/bin:/bin")
    assert done.returncode == 0, done.stderr
    texts = "".join(file.read_text() for file in (tmp_path / "made").iterdir())
    assert "gpt-oss-20b" in texts
    assert "alpha" in texts
    assert "beta" in texts


def test_engines_share_one_key_and_rdma_pins_memory(upright: Upright, tmp_path: Path) -> None:
    file = _fleet(tmp_path)
    plain, wired = (upright("fleet", "render", file, "--to", "cluster", *more) for more in ((), ("--rdma", "ib0")))
    assert (plain.returncode, wired.returncode) == (0, 0), plain.stderr + wired.stderr
    assert {line.split("secretName: ")[1][:8] for line in plain.stdout.splitlines() if "secretName: " in line} == {
        "kimi-key"
    }
    assert "IPC_LOCK" not in plain.stdout
    assert "add: [IPC_LOCK]" in wired.stdout


def test_what_would_run_is_said_and_the_next_step_hands_it_over(upright: Upright, tmp_path: Path) -> None:
    file = _fleet(tmp_path)
    planned, tried = upright("fleet", "plan", file), upright("fleet", "up", "--dry-run", file)
    assert (planned.returncode, tried.returncode) == (0, 0), planned.stderr + tried.stderr
    assert planned.stderr.splitlines()[-1] == tried.stderr.splitlines()[-1]
    assert planned.stderr.splitlines()[-1] == f"next: upright fleet render {file} --to cluster"


@pytest.mark.parametrize("verb", ["up", "roll"])
def test_it_is_never_started(upright: Upright, tmp_path: Path, verb: str) -> None:
    done = upright("fleet", verb, _fleet(tmp_path))
    assert done.returncode == 2
    assert "box alpha is box:1x-rtx-5090: no machine that can be reached" in done.stderr


@pytest.mark.parametrize(("box", "said"), [("nothing-known", "nothing-known"), ("", "is no machine")])
def test_a_box_that_is_none_is_named(upright: Upright, tmp_path: Path, box: str, said: str) -> None:
    done = upright("fleet", "plan", _fleet(tmp_path, box=box))
    assert done.returncode != 0
    assert said in done.stdout + done.stderr
