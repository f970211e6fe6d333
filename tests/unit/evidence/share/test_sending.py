"""Sending a statement: a branch with two files by the person's own git, and nothing where no address is known."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.unit.evidence.share.tampering import FOLDER, recorded
from upright.base.errors import UprightError, UsageError
from upright.evidence.share.making_statements import SharedStatement
from upright.evidence.share.sending import Parcel, in_full, parcel, send, stated_address
from upright.evidence.share.signing import BUNDLES, sign
from upright.evidence.share.statement import read_statement

CONTENT = recorded(FOLDER / "01.json.gz")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(("git", *words), cwd=folder, capture_output=True, encoding="utf-8", check=True).stdout


@pytest.fixture(autouse=True)
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ada, with nothing configured but her name; `https://github.com/lab/` is a folder here."""
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[user]\n name = Ada\n email = ada@lab.invalid\n[init]\n defaultBranch = main\n"
        f'[url "file://{tmp_path}/"]\n insteadOf = https://github.com/lab/\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    for role in ("AUTHOR", "COMMITTER"):
        for what in ("NAME", "EMAIL"):
            monkeypatch.delenv(f"GIT_{role}_{what}", raising=False)


@pytest.fixture
def address(tmp_path: Path) -> str:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src/file").write_text("kept")
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message=first")
    git(tmp_path, "clone", "--quiet", "--bare", "project", "served.git")
    return f"file://{tmp_path}/served.git"


@pytest.fixture
def shared(tmp_path: Path) -> SharedStatement:
    path, key = tmp_path / "mine.bundle.json", tmp_path / "key"
    path.write_bytes(CONTENT)
    subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)), check=True)
    return SharedStatement(read_statement(CONTENT, "recorded"), CONTENT, path, sign(path, key, BUNDLES))


def refuse_pushes(served: Path) -> None:
    hook = served / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho no right to write >&2\nexit 1\n")
    hook.chmod(0o755)


def scripted_gh(folder: Path, fork: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What GitHub's own program would do, without GitHub: a fork is a folder, a pull request a line."""
    folder.mkdir()
    program = folder / "gh"
    program.write_text(
        "#!/bin/sh\n"
        f'if [ "$1" = repo ]; then git remote add fork "{fork}"; exit; fi\n'
        f'echo "$@" > "{folder}/asked"\n'
        "echo https://github.com/lab/served/pull/7\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_what_is_shown_is_all_of_it(shared: SharedStatement) -> None:
    shown = in_full(shared.content)
    assert json.loads(shown) == json.loads(shared.content)
    assert max(map(len, shown.splitlines())) < 4096
    assert len(shown.splitlines()) > 100


def test_a_branch_with_two_files_and_the_rest_as_it_was(shared: SharedStatement, address: str, tmp_path: Path) -> None:
    ready = parcel(shared, address)
    assert ready.author == "Ada <ada@lab.invalid>"
    sent, served = send(ready), tmp_path / "served.git"
    assert (sent.branch, sent.pull_request) == (ready.branch, None)
    names = [f"bundles/{shared.statement.identity[:12]}.bundle.json{end}" for end in ("", ".sig")]
    assert git(served, "diff", "--name-only", "main", sent.branch).split() == names
    assert git(served, "show", f"{sent.branch}:{names[0]}").encode() == shared.content
    assert git(served, "show", f"{sent.branch}:src/file") == "kept"
    with pytest.raises(UsageError, match="sent before"):
        send(ready)


def test_a_push_that_is_refused_says_how_to_go_on(shared: SharedStatement, address: str, tmp_path: Path) -> None:
    refuse_pushes(tmp_path / "served.git")
    with pytest.raises(UprightError) as refused:
        send(parcel(shared, address))
    assert "did not take it" in refused.value.message
    clone = tmp_path / "home/sent" / shared.statement.identity[:12]
    assert f"git -C {clone} push FORK evidence/" in (refused.value.hint or "")
    assert git(clone, "log", "-1", "--format=%an").strip() == "Ada", "the commit is there"


def test_by_gh_a_fork_takes_what_the_project_does_not(
    shared: SharedStatement, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = tmp_path / "ada/served.git"
    fork.parent.mkdir()
    git(tmp_path, "clone", "--quiet", "--bare", "served.git", str(fork))
    refuse_pushes(tmp_path / "served.git")
    scripted_gh(tmp_path / "bin", fork, monkeypatch)
    sent = send(parcel(shared, "https://github.com/lab/served.git"))
    assert sent.pull_request == "https://github.com/lab/served/pull/7"
    assert f"--head ada:{sent.branch}" in (tmp_path / "bin/asked").read_text()
    assert sent.branch in git(fork, "branch", "--list", sent.branch)


@pytest.mark.parametrize(
    ("address", "said"), [("--upload-pack=touch x", "no address"), ("ext::sh -c id", "git clone failed")]
)
def test_an_address_is_no_command(shared: SharedStatement, address: str, said: str) -> None:
    with pytest.raises(UprightError, match=said):
        send(parcel(shared, address))


def test_who_sends_is_known_and_signs(
    shared: SharedStatement, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="is signed"):
        parcel(SharedStatement(shared.statement, shared.content, shared.path, None), address)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    (tmp_path / "none").write_text("[user]\n useConfigOnly = true\n")
    with pytest.raises(UsageError, match="who you are"):
        parcel(shared, address)


def test_the_address_is_what_the_package_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site/stating-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: stating\nVersion: 1.0\nProject-URL: Home, https://a.invalid\n"
        "Project-URL: Evidence, https://b.invalid/evidence.git\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert stated_address("stating") == "https://b.invalid/evidence.git"
    assert stated_address("no-such-package") is None


def test_a_parcel_is_named_after_what_is_in_it(shared: SharedStatement) -> None:
    named = Parcel(shared, "x", "y")
    assert named.branch == f"evidence/{shared.statement.identity[:12]}"
