"""A real engine in a network namespace with an address of its own, asked as its neighbours would: MODEL.

Prints a line of JSON: who was answered what.
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from upright.facts import store
from upright.serving.launch import status, stop

ADDRESS = "10.77.0.1"
PORT = 18_431


def main(model: str) -> None:
    for words in ("link set lo up", f"addr add {ADDRESS}/24 dev lo"):
        subprocess.run(["ip", *words.split()], check=True)
    up = [sys.executable, "-m", "upright", "up", model, "--port", str(PORT)]
    subprocess.run(up, check=True, stdout=sys.stderr)
    directory = store.find(None)
    key = directory.key()
    try:
        here = f"http://127.0.0.1:{PORT}"
        told = {
            "listens at": _listening(status(directory).process.pid),
            "asked here with the key": _asked(here, key),
            "asked here without a key": _asked(here, None),
            "asked here with another key": _asked(here, f"{key}x"),
            "asked from the network": _asked(f"http://{ADDRESS}:{PORT}", None),
        }
    finally:
        stop(directory)
    print(json.dumps(told))


def _asked(base_url: str, key: str | None) -> int | str:
    body = json.dumps({"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]}).encode()
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    try:
        with urllib.request.urlopen(
            urllib.request.Request(f"{base_url}/v1/chat/completions", body, headers), timeout=20
        ) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return "refused"


def _listening(pid: int) -> list[str]:
    """Addresses of the sockets on which the engine waits."""
    own = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    waiting = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in own]
    return sorted({".".join(str(byte) for byte in bytes.fromhex(word[:8])[::-1]) for word in waiting})


if __name__ == "__main__":
    main(sys.argv[1])
