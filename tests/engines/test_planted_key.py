"""Keys planted on a real deployment: in no log, listing, page, evidence or bundle."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.conftest import Upright
from tests.ports import free_port

pytestmark = pytest.mark.engine

HUB_TOKEN = "hf_plantedPLANTEDplanted0123456789"


def test_planted_keys_stay_where_they_are(
    upright: Upright, llama_server: Path, tiny_model: Path, tmp_path: Path
) -> None:
    environment = {"PATH": f"{llama_server.parent}:{os.environ['PATH']}", "HF_TOKEN": HUB_TOKEN}
    ran = upright("run", tiny_model, "--context", "1k", "--port", str(free_port()), "--keep", **environment)
    assert ran.returncode == 0, ran.stderr
    (folder,) = (tmp_path / "home/deployments").iterdir()
    key = (folder / "key").read_text().strip()
    said = [ran.stdout + ran.stderr]
    for words in (("ps",), ("ps", "--json"), ("logs",), ("connect",), ("connect", "--client", "zed", "--json")):
        done = upright(*words, **environment)
        said.append(done.stdout + done.stderr)
    listings = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert upright("down", **environment).returncode == 0
    for secret in (key, HUB_TOKEN):
        assert not [text for text in said if secret in text]
        assert not [words for words in listings if secret.encode() in words]
        holders = [path.name for path in folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
        assert holders == (["key"] if secret == key else [])

    with (folder / "engine.log").open("a") as log:  # an engine that says too much
        log.write(f"request from 127.0.0.1: Authorization: Bearer {key}\nHF_TOKEN={HUB_TOKEN}\n")
    packed = upright("bundle", **environment)
    assert packed.returncode == 0, packed.stderr
    assert "the deployment's key, 1 times" in packed.stdout
    raw = gzip.decompress(next(tmp_path.glob("*.bundle.tar.gz")).read_bytes())
    assert b"Authorization: Bearer [redacted]\nHF_TOKEN=[redacted]\n" in raw
    assert key.encode() not in raw
    assert HUB_TOKEN.encode() not in raw
    back = upright("bundle", "--read", next(tmp_path.glob("*.bundle.tar.gz")), **environment)
    assert back.returncode == 0, back.stderr
    assert "every digest fits" in back.stdout
