"""Sends a signed statement as a pull request: a branch, a commit and a push by the person's own git.

Where to is the person's word, or the project's address as the package states it; none is invented. What would leave is
said first: the file, where it goes, and whose name the commit bears.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from upright.base.bounds.bounded_json import parse_json
from upright.base.errors import UprightError, UsageError
from upright.base.home import home, make_private
from upright.base.untrusted_text import on_one_line
from upright.evidence.share.making_statements import SharedStatement
from upright.evidence.share.signing import read_signature, signature_path
from upright.facts.records.base import Part
from upright.facts.store import write_atomically

FOLDER = "bundles"
"""Of the repository that takes them."""
ADDRESS_VARIABLE = "UPRIGHT_EVIDENCE"
_LABEL = "Evidence"
"""In `project.urls` of pyproject.toml, and so in the package's metadata."""
_AUTHOR = re.compile(r"^(.*<.*>) \d+ [+-]\d{4}$")
_NUMBERS = re.compile(r'\[\s([^\[\]{}"]*?)\s\]')
_PULL_REQUEST = re.compile(r"https://\S+")
_SECONDS = 300


@dataclass(frozen=True)
class Parcel:
    """What would be sent, where, and by whom."""

    shared: SharedStatement
    address: str
    author: str
    """As git would write it into the commit: name and mail."""

    @property
    def name(self) -> str:
        return self.shared.statement.identity[:12]

    @property
    def branch(self) -> str:
        return f"evidence/{self.name}"


class SentParcel(Part):
    """What was sent."""

    address: str
    """Where to."""
    branch: str
    """The branch that holds it there."""
    author: str
    """Of its commit."""
    pull_request: str | None
    """Its address; None if nobody here could open one."""
    answer: tuple[str, ...]
    """What the server said to the push: many name the page that opens a pull request."""


def stated_address(package: str = "upright") -> str | None:
    """Of the project, as the installed package states it; None while it has none."""
    try:
        stated = metadata.metadata(package).get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    pairs = (line.partition(",") for line in stated)
    return next((address.strip() for label, _, address in pairs if label.strip() == _LABEL), None)


def parcel(shared: SharedStatement, address: str) -> Parcel:
    """UsageError where it could not be sent; nothing is asked of the network."""
    if shared.signature is None:
        raise UsageError("what is sent is signed: nobody would take it else", hint="add --sign KEY")
    if address.startswith("-"):
        raise UsageError(f"{address} is no address of a repository")
    if shutil.which("git") is None:
        raise UsageError("git is not on the PATH", hint="install git, or hand the two files on yourself")
    said = _run(None, "git", "var", "GIT_AUTHOR_IDENT")
    author = _AUTHOR.match(said.stdout.strip())
    if said.returncode or author is None:
        raise UsageError("git does not know who you are", hint="git config --global user.name, and user.email")
    return Parcel(shared, address, author[1])


def in_full(content: bytes) -> str:
    """Every word of a statement for a person: one name a line, numbers of a column on one."""
    text = json.dumps(parse_json(content), indent=1, ensure_ascii=False)
    return _NUMBERS.sub(lambda numbers: f"[{' '.join(numbers[1].split())}]", text)


def send(parcel: Parcel) -> SentParcel:
    """Of the repository only its newest tree is fetched, where its server allows that; no file of it is laid out."""
    clone = home() / "sent" / parcel.name
    make_private(clone.parent)
    shutil.rmtree(clone, ignore_errors=True)
    _git(None, "clone", "--quiet", "--depth=1", "--filter=blob:none", "--no-checkout", "--", parcel.address, str(clone))
    if _git(clone, "ls-remote", "--heads", "origin", parcel.branch).stdout:
        raise UsageError(f"it was sent before: {parcel.address} has the branch {parcel.branch}")
    _commit(parcel, clone)
    pushed, remote = _run(clone, "git", "push", "origin", parcel.branch), "origin"
    if pushed.returncode and _forked(parcel, clone):
        pushed, remote = _run(clone, "git", "push", "fork", parcel.branch), "fork"
    if pushed.returncode:
        raise UprightError(
            f"{parcel.address} did not take it: {_last_line(pushed.stderr)}",
            hint=f"push it to a fork of yours: git -C {clone} push FORK {parcel.branch}",
        )
    said = tuple(
        on_one_line(line.removeprefix("remote:").strip())
        for line in pushed.stderr.splitlines()
        if line.startswith("remote:") and line.removeprefix("remote:").strip()
    )
    return SentParcel(
        address=parcel.address, branch=parcel.branch, author=parcel.author,
        pull_request=_pull_request(parcel, clone, remote), answer=said,
    )  # fmt: skip


def _commit(parcel: Parcel, clone: Path) -> None:
    _git(clone, "update-ref", f"refs/heads/{parcel.branch}", "HEAD")
    _git(clone, "symbolic-ref", "HEAD", f"refs/heads/{parcel.branch}")
    _git(clone, "read-tree", "HEAD")
    file = clone / FOLDER / f"{parcel.name}.bundle.json"
    file.parent.mkdir(exist_ok=True)
    write_atomically(file, parcel.shared.content)
    assert parcel.shared.signature is not None
    write_atomically(signature_path(file), read_signature(parcel.shared.signature))
    _git(clone, "add", "--", str(file), str(signature_path(file)))
    _git(clone, "commit", "--quiet", "-m", _title(parcel), "-m", f"identity {parcel.shared.statement.identity}")


def _title(parcel: Parcel) -> str:
    predicate = parcel.shared.statement.predicate
    return f"evidence: {predicate.model.name} on {predicate.box.kind}, {predicate.engine.name}"


def _forked(parcel: Parcel, clone: Path) -> bool:
    """Who may not push to a repository on GitHub pushes to a fork, if `gh` is there to make it."""
    if not _by_gh(parcel):
        return False
    return _run(clone, "gh", "repo", "fork", "--remote", "--remote-name", "fork").returncode == 0


def _pull_request(parcel: Parcel, clone: Path, remote: str) -> str | None:
    if not _by_gh(parcel):
        return None
    head = parcel.branch
    if remote == "fork":
        owner = _git(clone, "remote", "get-url", "fork").stdout.strip().removesuffix(".git").split("/")[-2]
        head = f"{owner.rpartition(':')[2]}:{head}"
    asked = _run(clone, "gh", "pr", "create", "--title", _title(parcel), "--body", "Signed evidence.", "--head", head)
    found = _PULL_REQUEST.search(asked.stdout)
    return found[0] if found and not asked.returncode else None


def _by_gh(parcel: Parcel) -> bool:
    return "github.com" in parcel.address and shutil.which("gh") is not None


def _git(folder: Path | None, *words: str) -> subprocess.CompletedProcess[str]:
    done = _run(folder, "git", *words)
    if done.returncode:
        raise UprightError(f"git {words[0]} failed: {_last_line(done.stderr)}")
    return done


def _run(folder: Path | None, *words: str) -> subprocess.CompletedProcess[str]:
    """The person's own program, settings and credentials; it may ask for a password where there is a terminal."""
    asking = {} if sys.stdin.isatty() else {"GIT_TERMINAL_PROMPT": "0", "GH_PROMPT_DISABLED": "1"}
    try:
        return subprocess.run(
            words, cwd=folder, env={**os.environ, **asking}, stdin=None if sys.stdin.isatty() else subprocess.DEVNULL,
            capture_output=True, encoding="utf-8", errors="replace", check=False, timeout=_SECONDS,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise UprightError(f"{words[0]} {words[1]} did not come to an end within {_SECONDS} s") from None


def _last_line(text: str) -> str:
    return on_one_line(text.strip().rpartition("\n")[2]) or "it said nothing"
