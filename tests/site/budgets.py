"""What a visit costs, counted so that a busy machine does not change it: bytes, modules, calls."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from upright.app.site import publishing
from upright.app.site.evidence_pages import evidence_files
from upright.app.site.first_answers import choices, first_answer
from upright.facts.catalog.loader import compile_ours

FILE = ROOT / "tests/site/budget.json"
GROWTH = 1.2
WARM = {"model": "kimi-k2.6", "box": "8x-rtx-pro-6000-workstation"}
_COUNTED = """
import json, sys
from upright.app.site.page_answers import answer
modules = len(sys.modules)
question = {"ask": "plan", **json.loads(sys.argv[1])}
for context in (32768, 98304):
    answer(json.dumps({**question, "goal": {"context_tokens": context}}))
calls = 0
def count(frame, event, argument):
    global calls
    calls += event in ("call", "c_call")
question = json.dumps({**question, "goal": {"context_tokens": 131072}})
sys.setprofile(count)
answer(question)
sys.setprofile(None)
print(json.dumps({"modules": modules, "plan_calls": calls}))
"""


def budget() -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(FILE.read_text())
    return content


def over(counted: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    """What grew by more than a fifth; whoever saves writes the smaller figure down."""
    allowed = budget()
    return {name: (figure, allowed[name]) for name, figure in counted.items() if figure > GROWTH * allowed[name]}


def own_bytes() -> dict[str, int]:
    """Of what is made here; the other parts are named by their sha256 and cannot grow unseen."""
    compile_ours()
    page = sum(path.stat().st_size for path in publishing.PAGE.iterdir())
    offered = len(json.dumps(choices("presets"), ensure_ascii=False, separators=(",", ":")).encode())
    claims = next(len(content) for name, content in evidence_files(publishing.POLICY) if name == "evidence.json")
    return {
        "page_bytes": page + offered,
        "rooms_bytes": len(publishing.zipped(dict(publishing.own_files()))),
        "evidence_bytes": claims,
        "first_answer_bytes": len(first_answer(WARM["model"], WARM["box"]).encode()),
    }


def work(home: Path) -> dict[str, int]:
    """Modules that the worker imports before it is ready, and calls of a plan when the slider moves."""
    words = [sys.executable, "-c", _COUNTED, json.dumps(WARM)]
    environment = {"UPRIGHT_HOME": str(home), "HOME": str(home), "PYTHONHASHSEED": "0"}
    printed = subprocess.run(words, env=environment, check=True, capture_output=True, text=True).stdout
    counted: dict[str, int] = json.loads(printed)
    return counted
