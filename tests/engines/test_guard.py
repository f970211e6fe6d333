"""The guard is what its C source gives, and lets in whom it should: run by a real WebAssembly runtime."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAYLOAD = ROOT / "src/upright/flows/fleet/payload/__main__.py"
pytestmark = pytest.mark.engine
# Asks the component once for each list of headers, each time in an instance of its own, as smg does.
ASK = """
import json, runpy, sys
from types import SimpleNamespace
import wasmtime
from wasmtime.component import Component, Linker
code = runpy.run_path(sys.argv[1], run_name="payload")["guard"]("sk-client", "sk-worker")
engine = wasmtime.Engine()
store, component, linker = wasmtime.Store(engine), Component(engine, code), Linker(engine)
answers = []
for headers in json.load(sys.stdin):
    inside = linker.instantiate(store, component)
    room = inside.get_export_index(store, "smg:gateway/middleware-on-request")
    request = {"method": "POST", "path": "/v1/chat/completions", "query": "", "body": b"{}" * 100_000,
               "request-id": "1", "now-epoch-ms": 1,
               "headers": [SimpleNamespace(name=name, value=value) for name, value in headers]}
    on_request = inside.get_func(store, inside.get_export_index(store, "on-request", room))
    action = on_request(store, SimpleNamespace(**request))
    set_ = [] if action is None else [[header.name, header.value] for header in vars(action)["headers-set"]]
    answers.append([set_, [] if action is None else vars(action)["headers-remove"]])
print(json.dumps(answers))
"""
AS_WORKER = [[["authorization", "Bearer sk-worker"]], ["x-api-key"]]
UNCHANGED = [[], []]


@pytest.fixture(scope="module")
def runtime() -> Path:
    checked = subprocess.run([ROOT / "scripts/make-guard", "--check"], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"the guard that is shipped is not what guard.c gives: {checked.stderr}"
    return ROOT / ".cache/wasmtime/bin/python"


def test_who_is_let_in(runtime: Path):
    long = "x" * 70_000
    cases = [
        ([["authorization", "Bearer sk-client"]], AS_WORKER),
        ([["x-api-key", "sk-client"]], AS_WORKER),
        ([["host", "h"], ["authorization", "Bearer wrong"], ["x-api-key", "sk-client"]], AS_WORKER),
        ([], UNCHANGED),
        ([["authorization", "sk-client"]], UNCHANGED),
        ([["authorization", "bearer sk-client"]], UNCHANGED),
        ([["authorization", "Bearer sk-clien"]], UNCHANGED),
        ([["authorization", "Bearer sk-client "]], UNCHANGED),
        ([["authorization", ""]], UNCHANGED),
        ([["x-api-key", "Bearer sk-client"]], UNCHANGED),
        ([["x-api-key", ""]], UNCHANGED),
        ([["authorization", long], [long, "sk-client"]], UNCHANGED),
        ([["x-other", "sk-client"]], UNCHANGED),
    ]
    asked = subprocess.run(
        [runtime, "-c", ASK, PAYLOAD],
        input=json.dumps([headers for headers, _ in cases]),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert asked.returncode == 0, asked.stderr
    for (headers, expected), answer in zip(cases, json.loads(asked.stdout), strict=True):
        assert answer == expected, headers
