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

# guard.wat, assembled and deflated: scripts/make-guard writes it here.
GUARD = (
    "eNrtVc2O40QQrupuu5N0PJuZAYEAIXsWib1Ye0NohURaKFpWg2bRaBHigLLeuCdxfuyM25lMdrRkHoFH4MgF8QRInDhx4FH2wp3y"
    "T4aZy74A9MHuqq7v6+qq9meI7MIDBPyjDTRFAMD7/LnY0sDtc297a/xADmdbr3BHUCRzOEFdiVvU176SD4W7MIss3zCQuYnm82wE"
    "0MnSMDfnK2MLYKoy7DJLrQHe+YWJT5Fv74OWU315Hghf+HwaOJ+D7hWB6zu+eyz6GsvJTPcupn14T/nOR+AL9Rni1kefP6YAuKdY"
    "n/d9PvDIo3EWcGIC4goBfFa/bR6ILijli4H6FQldQWQJkSVE6m3g+e4DBuVD6GumvR6W7IGnbvl/Yrpd+WXp9zSciH650iofXX0t"
    "fG+qX/My3pvVBJo9AtB/gn4tyf0JA93Sv1fvrsby9a7+qzI/qE06D+2oe9PALTPWoAQ5lfpbuEBA1aOWgUfNAgH1ILxq+eRtV9Y1"
    "U160KiZZnryMiiRLgdJW7cswWibhzGwoE65+ZN98ffrk8ZfPwi++ejI4eRYeD76D//agBt0qy7dPT48Hp/+XBX5GkUYLA64zXkV5"
    "jBJRWHKwmIMEns1j5OvIMieaJ+OUC5u8NIJFhcNNGrtiEl0YdEAU5rJAd27ScTFhYp3lMWfZmZBxcnZmcsu4KycmimkqnVG2SgtP"
    "2Fmy5AFDhiLOUsNEShyMQcsWeZSOTY6VR0oEcZYbCig1TPYwZ1XK1rmI5qQ9qovg1uSc1gd8ictXuSS9oo8ktmIZFRPrkErlG7tL"
    "gokXWbzhnUa9wiS23TRbh2aZjSbhwq6Vh6XQVatcgPywZuWuLaJiZa92RG5FJNUeQmunfrwF8qmcXRECl3b5araXOw2uoxpcaE2h"
    "bowojrt7OyMnnb0wXrckJmM5j0bmnjpE8BYZlXMTRqPys+c9kEd4zlujLC2SdGUA3NxMzajAK3DrUNyHqjoN4gBkB/vI6VwOHLof"
    "U7nwrohTbC3z5cpO6FudsvCMg8C3pCICUZ60TQwPKoY7yv8GCsY4Cv62c8Twzrb0o7lLgqhOGAR2MX40jgqzjjYPF0kcz2mWm/Bf"
    "oENpHb0pqqZzaO/fcG+ULcg0aRGWtwc7sI/QXHoFB5R2ktokNvg+sjK74S47Vc2bzL7nHWh6P8Tm1olWEzp0dlem1d4hhu2be9GT"
    "dVeG+017DmTdmOFh0yF8x2GwY7N4Q2L/AX1aZ2k="
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
        words = f"Bearer {key}".encode("ascii")
        if len(words) > _FIELD - 16:
            sys.exit("a key has more than 249 characters")
        at = code.index(mark)
        code[at : at + _FIELD] = struct.pack("<I12x", len(words)) + words.ljust(_FIELD - 16, b"\0")
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
    deadline, said = time.monotonic() + _PATIENCE_SECONDS, "it never listened"
    try:
        while time.monotonic() < deadline:
            time.sleep(0.1)
            try:
                with no_proxy.open(request, timeout=30) as response:
                    said = response.read().decode()
            except OSError as error:
                said = str(error)
                continue
            if '"Success"' in said:
                print("clients are let in by their key", flush=True)
                return
    finally:
        Path(path).unlink()
    print(f"smg did not take the middleware that checks clients' keys: {said}", flush=True)
    os._exit(70)


if __name__ == "__main__":
    main()
