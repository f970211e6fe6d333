"""A repository's name -> what the local hub cache holds of it, without asking the hub.

The layout is huggingface_hub's own: blobs/HASH, snapshots/COMMIT/NAME -> ../../blobs/HASH, refs/BRANCH. A name in a
snapshot is a whole file, because it is made last.
"""

from __future__ import annotations

from pathlib import Path

from upright.base.bounds.files import MOST_KEY_BYTES, file_text


def cache_folder() -> Path:
    """HF_HUB_CACHE, or `hub` in HF_HOME."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def repository_folder(repo: str) -> Path:
    return cache_folder() / f"models--{repo.replace('/', '--')}"


def snapshot(repo: str, revision: str | None) -> Path | None:
    """The folder of that commit, branch or tag; without one that of `main`, or the only one there is."""
    folder = repository_folder(repo)
    named = revision or "main"
    if ".." in named.split("/"):
        return None
    try:
        commit = file_text(folder / "refs" / named, MOST_KEY_BYTES).strip()
    except (OSError, ValueError):
        commit = named
    commit_folder = folder / "snapshots" / commit
    if commit_folder.is_dir():
        return commit_folder
    only = list((folder / "snapshots").glob("*")) if revision is None else []
    return only[0] if len(only) == 1 else None


def cached_file(repo: str, name: str, revision: str) -> Path | None:
    folder = snapshot(repo, revision)
    return folder / name if folder is not None and (folder / name).is_file() else None
