"""Two small releases of an engine, and rows that are planted to expire: the command finds them, and nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts/absorb-engine"
REGISTRY = "vllm/model_executor/models/registry.py"
ARGUMENTS = "vllm/engine/arg_utils.py"
FLAGS = [f"plain_{number}" for number in range(110)]
CHECK = """\
def check(tensor, context):
    # who reads this?
    if tensor % context:
        raise ValueError(f"{tensor} ranks cannot be planted over {context} shards")
    logger.info("Model loading took %s GiB and %.6f seconds", tensor, context)
"""


def tree(root: Path, flags: dict[str, str], architectures: list[str], check: str = CHECK) -> Path:
    """As much of vLLM as has names to read."""
    fields = "".join(f"    {name}: int = {default}\n" for name, default in flags.items())
    added = "".join(f'        parser.add_argument("--{name.replace("_", "-")}")\n' for name in flags)
    arguments = f"class EngineArgs:\n{fields}\n    def add_cli_args(parser):\n{added}"
    registry = "_TEXT_GENERATION_MODELS = {" + "".join(f'"{name}": ("a", "b"),\n' for name in architectures) + "}\n"
    for path, text in ((ARGUMENTS, arguments), (REGISTRY, registry), ("vllm/config/check.py", check)):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


@pytest.fixture
def older(tmp_path: Path) -> Path:
    flags = dict.fromkeys([*FLAGS, "planted_flag", "planted_default"], "1")
    return tree(tmp_path / "older", flags, [f"Plain{number}Model" for number in range(50)] + ["PlantedForCausalLM"])


def newer_tree(root: Path, check: str = CHECK) -> Path:
    flags = {**dict.fromkeys([*FLAGS, "brand_new"], "1"), "planted_default": "2"}
    return tree(root, flags, [f"Plain{number}Model" for number in range(50)] + ["FreshForCausalLM"], check)


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    changed = CHECK.replace("cannot be planted over", "do not divide").replace("% context", "% context != 0")
    return newer_tree(tmp_path / "newer", changed.replace("Model loading took", "Loaded in"))


def absorb(home: Path, newer: Path, older: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        SCRIPT,
        "vllm",
        "0.99.0",
        "--after",
        "0.98.0",
        "--source",
        newer,
        "--after-source",
        older,
    ]
    env = {**os.environ, "UPRIGHT_HOME": str(home)}
    return subprocess.run([*command, *options], capture_output=True, text=True, env=env, check=False, timeout=170)


def plant(home: Path, kind: str, row: str) -> None:
    (home / "catalog" / kind).mkdir(parents=True, exist_ok=True)
    (home / "catalog" / kind / "planted.yaml").write_text(row)


def planted_rows(home: Path) -> None:
    plant(
        home,
        "compat",
        """\
- id: planted-compat
  engine: vllm
  versions: ">=0.90,<=0.98.0"
  compute_capability: "*"
  feature: planted
  status: works
  about: True as far as it was looked at.
  grade: A
  sources: [a test]
""",
    )
    plant(
        home,
        "flags",
        """\
- id: "vllm --planted-flag"
  engine: vllm
  flags: ["--planted-flag"]
  means: Something.
  grade: A
  sources: [a test]
- id: "vllm --planted-default"
  engine: vllm
  flags: ["--planted-default"]
  default: "1"
  means: Something.
  grade: A
  sources: ["vLLM 0.98.0 vllm/config/check.py:3-4"]
- id: "vllm --plain-1"
  engine: vllm
  flags: ["--plain-1"]
  means: Something that stays.
  grade: A
  sources: ["vLLM 0.98.0 vllm/config/check.py:1"]
""",
    )
    plant(
        home,
        "failures",
        """\
- id: planted-failure
  title: planted
  engines: [vllm]
  severity: fatal
  pattern: 'ranks cannot be planted over \\d+ shards'
  cause: It was planted.
  remedies:
  - {do: by_hand, why: "look"}
  seen: none
  grade: A
  sources: [a test]
""",
    )


def test_planted_facts_expire_and_what_stays_is_not_named(tmp_path: Path, older: Path, newer: Path) -> None:
    planted_rows(tmp_path / "home")
    done = absorb(tmp_path / "home", newer, older, "--json")
    assert done.returncode == 1, done.stderr
    answer = json.loads(done.stdout)
    doubts = {(doubt["verdict"], doubt["place"]): doubt["why"] for doubt in answer["doubts"]}
    planted = {key for key in doubts if "plant" in key[1] or "plain" in key[1]}
    assert planted == {
        ("ended", "compat/planted-compat"),
        ("gone", "flags/vllm --planted-flag"),
        ("gone", "failures/planted-failure"),
        ("changed", "flags/vllm --planted-default"),
    }
    assert "ranks cannot be planted" in doubts["gone", "failures/planted-failure"]
    assert "'Model loading took 17 GiB" in doubts["gone", "src/upright/engines/vllm/log.py"]
    whys = [doubt["why"] for doubt in answer["doubts"] if doubt["place"] == "flags/vllm --planted-default"]
    assert sorted(whys) == [
        "default of --planted-default: 1 -> 2",
        "vllm/config/check.py:3-4, which it cites, is another text in 0.99.0",
    ]
    assert answer["changes"]["flag"] == {"new": ["--brand-new"], "gone": ["--planted-flag"]}
    assert answer["changes"]["architecture"] == {"new": ["FreshForCausalLM"], "gone": ["PlantedForCausalLM"]}
    assert answer["changes"]["default"] == {"changed": ["--planted-default: 1 -> 2"]}


def test_a_release_that_changes_nothing_doubts_nothing_and_brings_its_list_as_a_diff(
    tmp_path: Path, older: Path
) -> None:
    done = absorb(tmp_path / "home", older, older)
    assert done.returncode == 0, done.stderr
    assert done.stderr == "vllm 0.99.0, after 0.98.0\n\n"
    lines = done.stdout.splitlines()
    assert lines[:2] == ["--- /dev/null", "+++ b/src/upright/facts/catalog/flags/vllm-0.99.0.txt"]
    assert "+--planted-flag" in lines
    applied = subprocess.run(
        ["git", "apply", "--check", "-"], input=done.stdout, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert applied.returncode == 0, applied.stderr


def test_nothing_of_a_release_is_run(tmp_path: Path, older: Path) -> None:
    newer = newer_tree(tmp_path / "newer")
    hostile = [
        "raise SystemExit(7)",
        "import os; os.abort()",
        "def (",
        "x = '\\x00'",
        "x = '\0'",
        "(" * 3000,
        "x = " + "-" * 9000,
        "x = " + " + ".join(["'a long text'"] * 2000),
    ]
    for number, text in enumerate(hostile):
        (newer / f"vllm/config/hostile_{number}.py").write_text(f"{text}\n")
    (newer / "vllm/__init__.py").write_text("raise SystemExit(7)\n")
    (newer / "vllm/link.py").symlink_to("/etc/passwd")
    done = absorb(tmp_path / "home", newer, older, "--json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["changes"]["flag"]["new"] == ["--brand-new"]


def test_names_cannot_leave_their_line(tmp_path: Path, older: Path) -> None:
    newer = newer_tree(tmp_path / "newer")
    with (newer / ARGUMENTS).open("a") as file:
        file.write('    def more(parser):\n        parser.add_argument("--odd\\n+++ b/.ci/run\\x1b[2J")\n')
    done = absorb(tmp_path / "home", newer, older)
    assert "odd" not in done.stdout + done.stderr


def test_source_that_moved_is_no_release_without_flags(tmp_path: Path, older: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = absorb(tmp_path / "home", tmp_path / "empty", older)
    assert done.returncode == 1
    assert "vllm 0.99.0: only 0 names of kind flag were read: its source has moved, or is elsewhere" in done.stderr
    assert done.stdout == ""
