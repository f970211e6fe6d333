"""A container image -> the engine's Python files in it, through the user's own podman or docker.

Nothing of the engine runs: the image's Python says where the package is, and the package is copied out of a container
that is never started. Its Triton stays inside; the answer says whose was used instead.
"""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from upright.base.bounds.values import decoded
from upright.base.errors import EngineError, UsageError
from upright.proof.kernels.interpreter import question


def locate(name: str, image: str) -> tuple[str, str, str]:
    """Version, the package's directory inside the image, and the image's id."""
    identity = _run("image", "inspect", "--format", "{{.Id}}", image).strip()
    arguments = ("run", "--rm", "--network=none", "--entrypoint", "python3", image, "-c", question())
    try:
        version, package = decoded(_run(*arguments).strip().splitlines()[-1])["engines"].get(name) or (None, None)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        raise EngineError(f"the python3 of {image} does not say what is installed there") from None
    if package is None:
        raise EngineError(f"{image} has no {name} that its python3 knows")
    return str(version), str(package), identity.removeprefix("sha256:")[:12]


def copy_out(image: str, package: str, folder: Path, wanted: Callable[[str], bool]) -> None:
    """The wanted files of the package's directory, into `folder`."""
    container = _run("create", image).strip()
    try:
        with subprocess.Popen([_runtime(), "cp", f"{container}:{package}", "-"], stdout=subprocess.PIPE) as copying:
            with tarfile.open(fileobj=copying.stdout, mode="r|") as content:
                for member in content:
                    if member.isfile() and wanted(str(PurePosixPath(member.name))):
                        _write(content, member, folder)
            if copying.wait() != 0:
                raise EngineError(f"{package} cannot be copied out of {image}")
    except tarfile.TarError as error:
        raise EngineError(f"{package} cannot be copied out of {image}: {error}") from None
    finally:
        _run("rm", container)


def _write(content: tarfile.TarFile, member: tarfile.TarInfo, folder: Path) -> None:
    """One plain file, inside the folder; its owner, mode and times are the image's own affair. (Python's own filters
    came with 3.11.4, and Debian has 3.11.2.)
    """
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts:
        raise EngineError(f"the image has a file that would lie outside: {member.name!r}")
    held = content.extractfile(member)
    assert held is not None, "it is a plain file"
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        shutil.copyfileobj(held, file)


def _run(*words: str) -> str:
    try:
        done = subprocess.run([_runtime(), *words], capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired:
        raise EngineError(f"{_runtime()} {words[0]} did not end") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise EngineError(f"{Path(_runtime()).name} {words[0]}: {last}")
    return done.stdout


def _runtime() -> str:
    for name in ("podman", "docker"):
        if program := shutil.which(name):
            return program
    raise UsageError("an image needs podman or docker, and neither is here", hint="--source WHEEL or --engine-version")
