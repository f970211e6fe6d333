"""What can be asked of the real code without a GPU is asked; docs/absorbing.md says what it answered."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from upright.facts import catalog

PAGE = Path(__file__).parents[2] / "docs/absorbing.md"
SPLITS = [(1536, 8, 3072), (1536, 4, 3072), (2560, 8, 6144), (320, 8, 4096), (2048, 8, 7168)]


def test_parsers_and_splits_are_as_the_constraints_say(vllm_environment: Path) -> None:
    names = sorted(
        {parsers.reasoning for row in catalog.models() for each in row.artifacts
         for engine, parsers in row.of(each.repository).parsers.items() if engine == "vllm" and parsers.reasoning}
    )  # fmt: skip
    done = subprocess.run(
        [vllm_environment / "bin/python", Path(__file__).with_name("asked.py")],
        input=json.dumps({"parsers": names, "splits": SPLITS}),
        capture_output=True,
        text=True,
        check=True,
    )
    answers = json.loads(done.stdout.splitlines()[-1])
    row = catalog.get("constraints", "vllm-reasoning-parser-without-thinking")
    swallow = {name for name, (plain, _) in answers["parsers"].items() if plain[0] == "Paris." and not plain[1]}
    assert swallow <= set(row.demand.one_of)
    for name in swallow - {"kimi_k3"}:  # its tags are others
        assert answers["parsers"][name][1] == ["The user asks for a capital.", "Paris."]
    assert answers["blocks"] == {"1536/8": [64, 64], "1536/4": None, "2560/8": [64, 64], "320/8": None, "2048/8": None}
    text = PAGE.read_text()
    assert all(f"`{name}`" in text for name in names)
