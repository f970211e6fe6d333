"""A fetch that is ended twenty times: whole at the end, and no byte fetched twice but those in flight."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.loopback_hub import LoopbackHub, sha256
from upright.serving.fetch.download import WRITE_BYTES
from upright.serving.fetch.partial import CHUNK_BYTES

SLOW_BYTES_PER_SECOND = 300_000
"""A connection, until the last try: a machine of any speed is interrupted on the way."""
TIMES = 20
CONNECTIONS = 4
NAMES = [f"Kimi-Q8_0-0000{part}-of-00003.gguf" for part in (1, 2, 3)]

# Forks from a process that has loaded everything: twenty starts of an interpreter would be most of the test.
_FORKS = """
import os, signal, sys
from upright.serving.fetch import fetch
import httpx2, huggingface_hub
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            fetch("owner/kimi:Q8_0", connections=%d)
            os._exit(0)
        except KeyboardInterrupt:
            os._exit(130)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.slow
def test_killed_and_interrupted_twenty_times(tmp_path: Path) -> None:
    chance = random.Random(20)
    repository = tmp_path / "repository"
    repository.mkdir()
    for name in NAMES:
        (repository / name).write_bytes(chance.randbytes(8_000_000))
    hub = LoopbackHub(repository, bytes_per_second=SLOW_BYTES_PER_SECOND)
    with hub.running():
        environment = {**os.environ, "HF_ENDPOINT": hub.hub_url, "HF_HOME": str(tmp_path / "hf")}
        codes = _fetch_and_end(environment, chance, hub)
    total = sum((repository / name).stat().st_size for name in NAMES)
    again = hub.weight_bytes_sent - total
    print(f"ended {codes}; {again:,} of {hub.weight_bytes_sent:,} bytes were sent again")
    assert codes.count(-signal.SIGKILL) >= 5
    assert codes.count(130) >= 5
    assert len(codes) == TIMES + 1
    assert codes[-1] == 0
    for name in NAMES:
        (found,) = tmp_path.glob(f"hf/hub/models--owner--kimi/snapshots/*/{name}")
        assert sha256(found) == sha256(repository / name)
    assert again <= TIMES * CHUNK_BYTES
    # Less in truth: what each connection had not yet written down, and what was on its way.
    assert again <= TIMES * CONNECTIONS * (WRITE_BYTES + 2 * (1 << 16))
    left = [path.name for path in tmp_path.rglob("*") if path.suffix in (".part", ".chunks", ".tmp")]
    assert left == []


def _fetch_and_end(environment: dict[str, str], chance: random.Random, hub: LoopbackHub) -> list[int]:
    """Exit codes of a fetch that is ended after a moment, by turns with Ctrl-C and kill -9; the last one may finish."""
    command = [sys.executable, "-c", _FORKS % CONNECTIONS]
    codes = []
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    ) as forks:
        assert forks.stdin is not None
        assert forks.stdout is not None
        for turn in range(TIMES + 1):
            if turn == TIMES:
                hub.bytes_per_second = None
            forks.stdin.write("fetch\n")
            forks.stdin.flush()
            child = int(forks.stdout.readline())
            if turn < TIMES:
                time.sleep(0.1 + chance.random() * 0.3)
                with suppress(ProcessLookupError):  # a machine so slow that all of it came meanwhile
                    os.kill(child, signal.SIGKILL if turn % 2 else signal.SIGINT)
            codes.append(int(forks.stdout.readline()))
        forks.stdin.close()
    return codes
