"""Key files beside this file + smg's flags -> smg, with no key on any command line.

Run by smg's own Python as `python -B FOLDER FLAGS...`, on machines that have no Upright. FOLDER holds this file,
workers.json, and client.key, worker.key and admin.key (or $CREDENTIALS_DIRECTORY holds the keys).
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
import tempfile
import threading
import time
import urllib.request
import zlib
from pathlib import Path

# guard.c, compiled, wrapped and deflated: scripts/make-guard writes it here.
GUARD = (
    "eNrtVU+P21QQn3nv+U/y4sTeBSFRCTnmQDhYvS1SL8RCYVkVWrQqQhxQamKzm2wSe21nt2FVkkMPK7SVeubEsd+AXhDXHjkgziDx"
    "AThw6A3G/9Ku1O4XAEfRm3kz85uf34zngZ/ODEDAH5tAIgIAvs3vGqsXnm9xdVcpJBJEuXLBAZlQMEZEhSMwVccVeo8eCqldF+os"
    "nEXJkkEzmrtJeLwI0wxAFkoaR/M0BNSS0J9OoxGw5h+C/8VRWbG+rQ0M8KBr8L6t2oYnsonT7gF0O6xf/2zaEN7ppK2gEAKEJH+T"
    "/hbFdGxz4gLYpvf9+XoNuZzaVtK1aAcnjukZuwZI2/L+wWODe9Bjj3M/x7LbXmtCiXYNblsDg+VJ9G6bYDs5PEG37U4B3fGePIc2"
    "k65pW7RH4B2CbjH5cjqPXk6n8QIdtqFDmBUd8ltOHGuXCBErvIrVz69mJSXh5CmQyHlPvyPHHbZ+SAupuMP+vCjF8/PC8vvFxvJr"
    "JT67KCy/VCq7AU8rEd7l6zzsPf6s3umxJ2WKB3kKOhIqJDExbK3g4hWhUodKCJCv8qC/c60r3oeuQkUW1EsP1mCLa5428e4dO6rN"
    "J46w1T0DcrOteGbm8E8McrH5kWeeUI4+eKsPi7e0xU4JaKsdSa0nfxMMvLUue28KAIP63KS1Qes914/H7lG4BH+RHUbJ+Bs/G0dz"
    "AO+xLn8Qn326v7f70R33g4/3BrfuuDcHX8B/+qnP4/Pb+zcH+/+fBxP50NRMTJiY+7MwVU78Kc072UJQD0M/CBNO9gGPMb6faDQZ"
    "qcmCVMR+dpgqNBmTZaqVfikTX0XBkjeriemOg7Q1j07dMI5Gh+4sPZUGglZZuQDtrRKVq2nmZ4v0rAZSCyBNthH0euJyHbTb2tEZ"
    "RWCcxveP2olSxTVlFeemYSY3ih8ErXatJDTRT0KjlQOTEk/9UdiR2wjGLArGXy9df5R/NtwEzcFjro+ieTaeL0IANQkn4SjDM1BL"
    "V7SgOJ0qYgu0JvaR03spsK2+Q8eFly4ORr7lhZJb6ntDb+YHzzgIfE2TBCDyN20QQq9AuHTbXAHBGEfBX1cchpfS0qV4GQRR3mLQ"
    "TWcHNw78LDz1l9dn4yCYkpSE7vNAhWg5V3mVcArl/gnbo2hGajjP3Lx7sAkWgnKw8JMAJWwR7fE8HQchXsPiNh3W7GQhV8y+5E2o"
    "aj/EquuEXrkOlbpl9EYdMWxs+sLUyqoMrao8W1pZmOF2VSF8Q2FQo6W4AUn/BZXSh3o="
)
_FIELD = 272
_PATIENCE_SECONDS = 120


def main() -> None:
    from smg.launch_router import launch_router, parse_router_args

    folder = Path(sys.argv[0]).resolve()
    keys = {name: _key(folder, name) for name in ("client", "worker", "admin")}
    flags = [
        *sys.argv[1:],
        *("--discovery-provider", "file", "--discovery-file", str(folder / "workers.json"), "--enable-wasm"),
        *("--api-key", keys["worker"], "--control-plane-api-keys", f"upright:upright:admin:{keys['admin']}"),
    ]
    settings = parse_router_args(flags)
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::") else settings.host  # noqa: S104
    base_url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}"
    threading.Thread(target=_guard, args=(base_url, keys), daemon=True).start()
    launch_router(settings)


def guard(client: str, worker: str) -> bytes:
    """The middleware with these keys in it."""
    code = bytearray(zlib.decompress(base64.b64decode(GUARD)))
    for mark, key in ((b"UPRIGHT-CLIENT-KEY", client), (b"UPRIGHT-WORKER-KEY", worker)):
        bearer = f"Bearer {key}".encode("ascii")
        if len(bearer) > _FIELD - 16:
            sys.exit("a key has more than 249 characters")
        at = code.index(mark)
        code[at : at + _FIELD] = struct.pack("<I12x", len(bearer)) + bearer.ljust(_FIELD - 16, b"\0")
    return bytes(code)


def _key(folder: Path, name: str) -> str:
    path = Path(os.environ.get("CREDENTIALS_DIRECTORY") or folder) / f"{name}.key"
    key = path.read_text().strip()
    if not key:
        sys.exit(f"{path} is empty")
    return key


def _guard(base_url: str, keys: dict[str, str]) -> None:
    """Hand the middleware to smg once it listens; until then, and without it, every client is refused."""
    descriptor, path = tempfile.mkstemp(suffix=".wasm")
    with os.fdopen(descriptor, "wb") as file:
        file.write(guard(keys["client"], keys["worker"]))
    module = {
        "name": "keys",
        "file_path": path,
        "module_type": "Middleware",
        "attach_points": [{"Middleware": "OnRequest"}],
    }
    request = urllib.request.Request(  # noqa: S310
        f"{base_url}/wasm",
        data=json.dumps({"modules": [module]}).encode(),
        headers={"Authorization": f"Bearer {keys['admin']}", "Content-Type": "application/json"},
    )
    no_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline, last_reply = time.monotonic() + _PATIENCE_SECONDS, "it never listened"
    try:
        while time.monotonic() < deadline:
            time.sleep(0.1)
            try:
                with no_proxy.open(request, timeout=30) as response:
                    last_reply = response.read().decode()
            except OSError as error:
                last_reply = str(error)
                continue
            if '"Success"' in last_reply:
                print("clients are let in by their key", flush=True)
                return
    finally:
        Path(path).unlink()
    print(f"smg did not take the middleware that checks clients' keys: {last_reply}", flush=True)
    os._exit(70)


if __name__ == "__main__":
    main()
