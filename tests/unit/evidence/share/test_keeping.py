"""The keeper's CI as docs/examples/keep-index.yml has it: its steps, executed on pull requests, honest and not."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.command import program
from tests.conftest import ROOT
from tests.unit.evidence.share.tampering import FOLDER, Tree, encoded, recorded, seal, tree
from tests.unit.evidence.share.test_index import served
from upright import __version__
from upright.evidence.share.index_checking import checked_pointers
from upright.evidence.share.index_reading import PinnedIndex, search
from upright.evidence.share.index_requests import make_pointer
from upright.evidence.share.pointers import Pointer
from upright.evidence.share.signing import BUNDLES, fingerprints, sign
from upright.evidence.share.statement import identity_of

WORKFLOW = yaml.safe_load((ROOT / "docs/examples/keep-index.yml").read_text())


@dataclass
class Kept:
    """The keeper's repository, its origin, and a server with people's bundles."""

    place: Path
    url: str
    environment: dict[str, str]

    @property
    def repository(self) -> Path:
        return self.place / "repository"

    def bundle(self, content: bytes, name: str = "one", *, key: Path | None = None) -> Pointer:
        file = self.place / "bundles" / f"{name}.bundle.json"
        file.write_bytes(content)
        if key is not None:
            sign(file, key, BUNDLES)
        return make_pointer(file, f"{self.url}/{file.name}")[0]

    def asks(self, **files: str) -> None:
        """A pull request: files of pointers by name."""
        self.git("checkout", "-q", "-B", "asked", "main")
        for name, text in files.items():
            (self.repository / "pointers").mkdir(exist_ok=True)
            (self.repository / "pointers" / f"{name}.jsonl").write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "mine")

    def git(self, *words: str) -> str:
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost", *words]
        done = subprocess.run(
            command, cwd=self.repository, env=self.environment, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    def run(self, job: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Its steps, until one fails."""
        done = subprocess.CompletedProcess([""], 0, "", "")
        for step in WORKFLOW["jobs"][job]["steps"]:
            if "run" in step and step["name"] != "Install" and done.returncode == 0:
                done = subprocess.run(
                    ["bash", "-e", "-c", step["run"]], cwd=self.repository, env={**self.environment, **variables},
                    capture_output=True, text=True, check=False, timeout=120,
                )  # fmt: skip
        return done

    def check(self) -> subprocess.CompletedProcess[str]:
        return self.run("check", BASE=self.git("rev-parse", "main"), INDEX_URL=self.url)


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    for name in ("bundles", "repository", "home"):
        (tmp_path / name).mkdir()
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "origin"], check=True)
    environment = {
        "PATH": f"{program().parent}:{os.environ['PATH']}", "UPRIGHT_HOME": str(tmp_path / "home"), "NO_COLOR": "1",
        "HOME": str(tmp_path / "home"), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
    }  # fmt: skip
    with served(tmp_path / "bundles") as (url, _):
        keeper = Kept(tmp_path, url, environment)
        (keeper.repository / "README.md").write_text("an index\n")
        keeper.git("init", "-q", "-b", "main")
        keeper.git("remote", "add", "origin", str(tmp_path / "origin"))
        keeper.git("add", "-A")
        keeper.git("commit", "-q", "-m", "begin")
        yield keeper


def line(pointer: Pointer, **changed: Any) -> str:
    return pointer.model_copy(update=changed).model_dump_json(exclude_none=True) + "\n"


def with_flag(bundle: Tree, name: str) -> bytes:
    """Of a version that nobody recorded: there the flag alone is no contradiction."""
    recipe = bundle["predicate"]["records"]["recipe"]
    recipe["arguments"].append({**recipe["arguments"][-1], "name": name, "value": None})
    seal(bundle)
    return encoded(bundle)


def test_an_honest_pointer_is_taken_built_signed_and_found(kept: Kept, tmp_path: Path) -> None:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", key], check=True)
    pointer = kept.bundle(recorded(FOLDER / "01.json.gz"), key=key)
    kept.asks(mine=line(pointer))
    done = kept.check()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "taken" in done.stdout
    before = kept.git("rev-parse", "main")
    kept.git("checkout", "-q", "main")
    kept.git("merge", "-q", "--ff-only", "asked")
    built = kept.run("publish", BEFORE=before, INDEX_KEY=key.read_text())
    assert built.returncode == 0, built.stdout + built.stderr
    assert kept.git("ls-remote", "origin", "refs/heads/main").partition("\t")[0] == kept.git("rev-parse", "HEAD")
    index = PinnedIndex(name="public", url=str(kept.repository / "index"), keys=tuple(fingerprints(Path(f"{key}.pub"))))
    found = search(index, pointer.model, pointer.gpu, pointer.gpus)
    assert [entry.identity for entry in found.pointers] == [pointer.identity]
    assert not list(tmp_path.glob("tmp.*")), "the key was a file only while it signed"


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"tokens_per_second": 999.0}, "its tokens_per_second is not what the bundle says"),
        ({"model": "kimi-k2.6"}, "its model is not"),
        ({"level": "claimed"}, "its level is not"),
        ({"identity": "0" * 64}, "not the bundle that it names"),
        ({"signer": "SHA256:" + "A" * 43}, "404"),
        ({"url": "file:///etc/passwd"}, "leads to https"),
        ({"url": "/etc/passwd"}, "leads to https"),
        ({"url": "http://169.254.169.254/latest"}, "leads to https"),
    ],
)
def test_a_pointer_that_lies_is_refused(kept: Kept, changed: dict[str, Any], why: str) -> None:
    (kept.place / "lie.jsonl").write_text(line(kept.bundle(recorded(FOLDER / "01.json.gz")), **changed))
    (checked,) = checked_pointers([kept.place / "lie.jsonl"], kept.url)
    assert why in str(checked.refused)


def test_an_index_of_which_nothing_is_known_leads_outside(kept: Kept) -> None:
    pointer = kept.bundle(recorded(FOLDER / "01.json.gz"))
    (kept.place / "lie.jsonl").write_text(line(pointer, url=pointer.url.replace("http://", "https://")))
    (checked,) = checked_pointers([kept.place / "lie.jsonl"], None)
    assert "inside this network" in str(checked.refused)


def test_a_flag_that_no_recorded_version_takes_is_refused(kept: Kept) -> None:
    bundle = tree()
    for engine in (bundle["predicate"]["engine"], bundle["predicate"]["records"]["recipe"]):
        for name in ("version", "engine_version"):
            if name in engine:
                engine[name] = "b99999"
    content = with_flag(bundle, "--run-this")
    file = kept.place / "bundles/one.bundle.json"
    file.write_bytes(content)
    pointer = make_pointer(file, f"{kept.url}/one.bundle.json")[0]
    kept.asks(mine=line(pointer))
    done = kept.check()
    assert done.returncode != 0
    assert "no recorded version of llama.cpp takes --run-this" in done.stdout


def test_a_broken_bundle_is_refused_and_the_others_are_looked_at(kept: Kept) -> None:
    pointer = kept.bundle(recorded(FOLDER / "01.json.gz"))
    broken = recorded(FOLDER / "02.json.gz").replace(b'"repeats":2', b'"repeats":3', 1)
    (kept.place / "bundles/two.bundle.json").write_bytes(broken)
    other = line(pointer, identity=identity_of(broken), url=f"{kept.url}/two.bundle.json")
    kept.asks(mine=other + line(pointer) + line(pointer))
    done = kept.check()
    assert done.returncode != 0
    assert [text in done.stdout for text in ("refused: broken: ", "taken: ", "refused: it is there twice")] == [
        True
    ] * 3


@pytest.mark.parametrize("what", ["another file", "a changed one", "a moved one"])
def test_a_pull_request_adds_pointers_and_nothing_else(kept: Kept, what: str) -> None:
    kept.asks(old=line(kept.bundle(recorded(FOLDER / "01.json.gz"))))
    kept.git("checkout", "-q", "main")
    kept.git("merge", "-q", "--ff-only", "asked")
    kept.git("checkout", "-q", "-B", "asked", "main")
    pointers = kept.repository / "pointers"
    if what == "another file":
        (kept.repository / ".github").mkdir()
        (kept.repository / ".github/x.yml").write_text("evil")
    elif what == "a changed one":
        (pointers / "old.jsonl").write_text("\n")
    else:
        shutil.move(pointers / "old.jsonl", pointers / "new.jsonl")
    kept.git("add", "-A")
    kept.git("commit", "-q", "-m", "x")
    done = kept.check()
    assert (done.returncode, "changes nothing else" in done.stdout) == (1, True)


def test_what_is_installed_is_pinned_and_a_pull_request_sees_no_secret() -> None:
    jobs = WORKFLOW["jobs"]
    installs = [step["run"] for job in jobs.values() for step in job["steps"] if step.get("name") == "Install"]
    assert installs == [f"python3 -m pip install upright=={__version__}"] * 2
    assert "secrets" not in str(jobs["check"])
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in WORKFLOW[True], "YAML 1.1 reads `on` as true"
