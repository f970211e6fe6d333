"""What is installed is pinned, by hash and by name, in files that agree; and the bill of materials is made of them."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

from tests.conftest import ROOT

_PIN = re.compile(r"^([\w.-]+)==([^\s;\\]+)(.*?)(?=^\S|\Z)", re.MULTILINE | re.DOTALL)


def pins(name: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    found = _PIN.findall((ROOT / name).read_text())
    return {_normal(package): (version, tuple(re.findall(r"sha256:(\w+)", rest))) for package, version, rest in found}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_three_files_agree():
    runtime, everything, plain = pins("requirements.txt"), pins("requirements-dev.txt"), pins("constraints.txt")
    assert runtime.items() <= everything.items()
    assert {name: version for name, (version, _) in everything.items()} == {name: pin[0] for name, pin in plain.items()}
    assert all(hashes for _, hashes in everything.values())
    assert not any(hashes for _, hashes in plain.values())
    for name in ("requirements.txt", "requirements-dev.txt", "constraints.txt"):
        assert "://" not in (ROOT / name).read_text()


def test_what_the_project_wants_is_pinned_and_fits():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    runtime, everything = pins("requirements.txt"), pins("requirements-dev.txt")
    for wanted in (*project["project"]["dependencies"], *project["build-system"]["requires"]):
        need = Requirement(wanted)
        assert need.specifier.contains(runtime[_normal(need.name)][0], prereleases=True), wanted
    for group in project["dependency-groups"].values():
        for wanted in group:
            need = Requirement(wanted)
            assert need.specifier.contains(everything[_normal(need.name)][0], prereleases=True), wanted


def affected(advisories: list[dict[str, str]], pinned: dict[str, Version]) -> list[str]:
    """Advisories in whose range a pin lies."""
    return [
        f"{row['package']} {pinned[row['package']]}: {row['id']}, fixed in {row['fixed'] or 'no release'}"
        for row in advisories
        if row["package"] in pinned
        and Version(row["introduced"]) <= pinned[row["package"]]
        and (not row["fixed"] or pinned[row["package"]] < Version(row["fixed"]))
    ]


def test_no_pin_has_an_advisory():
    """Of those that were known when `scripts/record-dependency-advisories` last ran."""
    with (ROOT / "tests/recordings/dependency-advisories.csv").open(encoding="utf-8", newline="") as file:
        advisories = list(csv.DictReader(file))
    pinned = {name: Version(version) for name, (version, _) in pins("constraints.txt").items()}
    assert len({row["id"] for row in advisories}) > 50
    assert affected(advisories, pinned) == []
    assert affected(advisories, {**pinned, "jinja2": Version("2.11.2")}) == [
        "jinja2 2.11.2: PYSEC-2021-66, fixed in 2.11.3"
    ], "an older one is found"


def _bill(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(ROOT / "scripts/make-sbom"), *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_the_bill_of_materials_is_whole_and_the_same_each_time(tmp_path: Path):
    """CycloneDX's own schema of 1.6 took it; here: every pin, its hashes, a graph that ends nowhere else."""
    file = tmp_path / "sbom.json"
    done = _bill("-o", str(file))
    assert done.returncode == 0, done.stderr
    bill = json.loads(file.read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", bill["serialNumber"])
    named = {
        part["name"]: (part["version"], tuple(h["content"] for h in part["externalReferences"][0]["hashes"]))
        for part in bill["components"]
    }
    assert named == pins("requirements.txt")
    assert all(part["licenses"] for part in bill["components"])
    refs = {bill["metadata"]["component"]["bom-ref"], *(part["bom-ref"] for part in bill["components"])}
    assert len(refs) == len(bill["components"]) + 1
    assert {edge["ref"] for edge in bill["dependencies"]} == refs
    assert {ref for edge in bill["dependencies"] for ref in edge["dependsOn"]} <= refs
    assert _bill("--check", str(file)).returncode == 0
    file.write_text(file.read_text().replace("1.6", "1.5", 1))
    assert _bill("--check", str(file)).returncode == 1
