"""A bundle of one run, repeated by another person under another thread count: the real engine, the real ssh-keygen."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.ports import free_port

pytestmark = pytest.mark.engine


def test_a_replay_says_cell_by_cell_and_links(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
) -> None:
    path = f"{llama_server.parent}:{os.environ['PATH']}"
    author = {"PATH": path, "UPRIGHT_HOME": str(tmp_path / "author")}
    other = {"PATH": path, "UPRIGHT_HOME": str(tmp_path / "other")}
    for name in ("author-key", "other-key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    keys = tmp_path / "keys"
    keys.write_text((tmp_path / "author-key.pub").read_text() + (tmp_path / "other-key.pub").read_text())
    claim, again = str(tmp_path / "claim.bundle.json"), str(tmp_path / "again.bundle.json")

    def did(home: dict[str, str], *words: str, codes: tuple[int, ...] = (0,)) -> str:
        done = upright(*words, **home)
        assert done.returncode in codes, done.stderr
        return str(done.stdout)

    did(author, "up", str(tiny_model), "--context", "1k", "--port", str(free_port()))
    load = ("--concurrency", "1", "--prompt-tokens", "64", "--output-tokens", "16", "--requests", "4", "--repeats", "2")
    did(author, "bench", "--workload", "short", *load, "--budget", "30s", "--no-self-test")
    did(author, "down")
    did(author, "bundle", "--statement", "--sign", str(tmp_path / "author-key"), "-o", claim)

    refused = upright("replay", claim, "--model", str(tiny_model), **other)
    assert (refused.returncode, "--yes" in refused.stderr) == (2, True), "nothing is run unasked"
    replayed = json.loads(
        did(
            other, "replay", claim, "--model", str(tiny_model), "--flag", "--threads=1", "--port", str(free_port()),
            "--yes", "--sign", str(tmp_path / "other-key"), "--write", again, "--budget", "60s", "--json", codes=(0, 1),
        )
    )  # fmt: skip
    assert [cell["metric"] for cell in replayed["cells"]] == ["output", "user", "ttft"]
    assert {cell["verdict"] for cell in replayed["cells"]} <= {"agrees", "differs", "unclear"}
    assert [difference["here"] for difference in replayed["differences"]] == ["--threads 1"]
    assert json.loads(did(other, "ps", "--json"))[0]["state"] == "stopped"
    assert json.loads(Path(again).read_text())["predicate"]["replays"] == [replayed["replays"]]

    judged = json.loads(did(author, "verify", claim, "--key", str(keys), "--with", again, "--json"))
    level = ("reproduced", 1) if replayed["agrees"] else ("consistent", 0)
    assert (judged["level"], judged["reproduced_by"]) == level, judged["checks"][-1]
    strangers = json.loads(
        did(author, "verify", claim, "--key", str(tmp_path / "author-key.pub"), "--with", again, "--json")
    )
    assert strangers["reproduced_by"] == 0, "a key that nobody named raises no level"
