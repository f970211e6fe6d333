"""`monitor` and `top` on words that make no sense, and on deployments that are not there."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.unit.facts.store.samples import deployment

RECIPE = {
    "record": "recipe", "schema": 1, "engine": "llama.cpp", "engine_version": "b7058", "runtime": "process",
    "program": "llama-server", "arguments": [], "model_path": "kimi.gguf", "served_name": "kimi",
    "host": "127.0.0.1", "port": 8080, "context_tokens": 4096, "users": 1, "health_path": "/health",
    "metrics_path": "/metrics",
}  # fmt: skip


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["monitor"], "error: no deployment runs\nhint:  upright up MODEL, or name one that is stopped"),
        (["monitor", "nobody"], "error: no deployment named nobody"),
        (["monitor", "--every", "0s"], "error: 0 s between two readings is too short\nhint:  --every 1s"),
        (["monitor", "--alertmanager", "a host"], "error: 'a host' is no HOST:PORT"),
        (["monitor", "--patience", "soon"], "'soon' is not a time"),
        (["monitor", "--fleet", "nowhere.yaml"], "error: nowhere.yaml cannot be read: No such file or directory"),
        (["top"], "error: no deployment runs\nhint:  upright up MODEL, or --base-url URL"),
        (["top", "--every", "1ms"], "error: 0.001 s between two readings is too short"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused(upright: Upright, words: list[str], complaint: str) -> None:
    done = upright(*words)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stdout == ""


def test_an_engine_of_somebody_else_that_does_not_answer(upright: Upright) -> None:
    done = upright("top", "--base-url", "http://127.0.0.1:1", "--json")
    (row,) = json.loads(done.stdout)
    assert (row["name"], row["state"], row["output_tokens_per_second"]) == ("127.0.0.1:1", "silent", None)
    assert "cannot be reached" in row["reason"]
    assert done.stderr.endswith("next: upright bench --base-url http://127.0.0.1:1 --model NAME\n")


def test_a_target_that_went_is_no_longer_asked(upright: Upright, tmp_path: Path) -> None:
    """A stopped deployment may be named; the files of another that was watched before are removed."""
    kept(tmp_path, "kimi")
    (tmp_path / "watch/targets").mkdir(parents=True)
    (tmp_path / "watch/targets/upright-gone.json").write_text("[]")
    done = upright("monitor", "kimi", "-o", "watch")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "watch/targets").iterdir()] == ["upright-kimi.json"]
    assert "by the metrics of b11669: nobody recorded its own" in done.stdout
    assert not any("sk-upright" in path.read_text() for path in (tmp_path / "watch").rglob("*") if path.is_file())
    shutil.rmtree(tmp_path / "watch")
    assert upright("monitor", "kimi", "-o", "watch", "--dry-run").returncode == 0
    assert not (tmp_path / "watch").exists()


def test_a_prometheus_that_runs_must_be_told_of_another_job(upright: Upright, tmp_path: Path) -> None:
    kept(tmp_path, "kimi")
    assert "kill -HUP" not in upright("monitor", "kimi", "-o", "watch").stderr, "nobody reads these files yet"
    assert "kill -HUP" not in upright("monitor", "kimi", "-o", "watch").stderr, "nothing changed"
    kept(tmp_path, "glm")
    told = upright("monitor", "kimi", "glm", "-o", "watch").stderr
    assert "note: prometheus.yml changed" in told
    assert "kill -HUP $(pgrep -x prometheus)" in told


def kept(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home/deployments" / name
    home.mkdir(parents=True)
    (home / "recipe.json").write_text(json.dumps(RECIPE))
    (home / "deployment.json").write_text(deployment(name).to_json())
    (home / "key").write_text("sk-upright-secret\n")
