"""An engine's Python files on this machine: from a source, an image, an environment or a release.

An environment, a directory, a wheel, an image, or a released version: of that only the Python files and tuned
configurations are fetched, by ranged reads into the wheel, so that a version of 300 MB costs a few.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import mkdtemp
from typing import IO

from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import open_file
from upright.base.errors import EngineError, UsageError
from upright.base.home import home
from upright.base.host import NEUTRAL_FOLDER
from upright.proof.kernels.capture import kernels_of
from upright.proof.kernels.interpreter import Interpreter, inspection_script

Prefetch = Callable[[Iterable[tuple[int, int]]], None]
_WHEEL = re.compile(r"(?P<name>[A-Za-z0-9_.]+)-(?P<version>[^-]+)-.+\.whl")


@dataclass(frozen=True)
class EngineSource:
    """An engine's files on this machine."""

    engine: str
    version: str | None
    root: Path
    """The directory that holds the package's directory."""
    where: str
    """In words, for people."""
    words: tuple[str, ...] = ()
    """The options that name it."""
    installed: bool = False
    """Whether these are files that an engine runs from, not a copy of ours."""


def find_source(
    engine: str,
    *,
    version: str | None = None,
    source: str | None = None,
    image: str | None = None,
    environment: Interpreter | None = None,
) -> EngineSource:
    """The named source or image, else the environment's, else the released version."""
    kernels_of(engine)
    if source is not None and image is not None:
        raise UsageError("--source and --image name the engine twice")
    if source is not None:
        engine_source = _from_path(engine, Path(source))
    elif image is not None:
        engine_source = from_image(engine, image)
    elif environment is not None and (installed := environment.engine(engine)):
        options = ("--env", environment.program)
        place = installed[1].parent
        engine_source = EngineSource(
            engine, installed[0], place, f"environment of {environment.program}", options, installed=True
        )
        if version not in (None, installed[0]):
            engine_source = released(engine, version)
    elif version is not None:
        return released(engine, version)
    else:
        without = f" {environment.program} has none" if environment is not None else ""
        raise UsageError(
            f"which {engine}?{without}", hint="--engine-version, --env (an environment) or --source (wheel, directory)"
        )
    if version is not None and engine_source.version not in (None, version):
        raise UsageError(f"{engine_source.where} is {engine} {engine_source.version}, not {version}")
    return engine_source


def _from_path(engine: str, path: Path) -> EngineSource:
    if path.suffix == ".whl" and path.is_file():
        return from_wheel(engine, path)
    if not path.is_dir():
        raise UsageError(f"{path} is neither a directory nor a wheel")
    package = kernels_of(engine).package
    root = path.parent if path.name == package and (path / "__init__.py").exists() else path
    if not (root / package).is_dir():
        raise UsageError(f"{path} does not hold {engine}")
    return EngineSource(
        engine, _version_beside(package, root), root.absolute(), f"directory {path}", ("--source", str(path)), True
    )


def _version_beside(package: str, root: Path) -> str | None:
    """From the metadata directory that a wheel or an installation leaves beside the package."""
    dist_names = [path.name.split("-")[1].removesuffix(".dist") for path in root.glob(f"{package}-*.dist-info")]
    versions = {name.removesuffix(".dist-info") for name in dist_names}
    return versions.pop() if len(versions) == 1 else None


def from_wheel(engine: str, path: Path) -> EngineSource:
    named = _WHEEL.fullmatch(path.name)
    if named is None or named["name"].lower() != kernels_of(engine).package:
        raise UsageError(f"{path.name} is not a wheel of {engine}")
    stat = path.stat()
    mark = hashlib.sha256(f"{path.absolute()} {stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()[:12]
    folder = _sources() / f"{engine}-{named['version']}-{mark}"
    if not folder.exists():
        with open_file(path) as file:
            _unpack(file, path.name, folder)
    return EngineSource(engine, named["version"], folder, f"wheel {path.name}", ("--source", str(path)))


def is_fetched(engine: str, version: str, environment: Interpreter) -> bool:
    """Whether this release is here already, in the environment or from an earlier time."""
    installed = environment.engine(engine)
    return (installed is not None and installed[0] == version) or _release_folder(engine, version).exists()


def from_image(engine: str, image: str) -> EngineSource:

    version, package, identity = locate_in_image(kernels_of(engine).package, image)
    folder = _sources() / f"{engine}-{version}-image-{identity}"
    if not folder.exists():
        with _beside(folder) as beside:
            copy_from_image(image, package, beside, _wanted)
    return EngineSource(engine, version, folder, f"image {image}", ("--image", image))


def released(engine: str, version: str) -> EngineSource:
    """The version as its index has it, through the user's own pip settings; fetched once."""
    if not re.fullmatch(r"[0-9][0-9A-Za-z.+!]*", version):
        raise UsageError(f"{version} is not a version", hint="such as 0.32.0")
    folder = _release_folder(engine, version)
    if not folder.exists():
        from upright.proof.kernels.ranged_file import RangedFile

        with RangedFile(_wheel_url(engine, version)) as file:
            _unpack(BufferedReader(file), f"{engine} {version}", folder, file.prefetch)
    return EngineSource(engine, version, folder, f"released {engine} {version}", ("--engine-version", version))


def _wheel_url(engine: str, version: str) -> str:
    pip_arguments = ["install", "--dry-run", "--no-deps", "--ignore-installed", "--quiet", "--only-binary", ":all:"]
    pip_arguments += ["--report", "-", f"{kernels_of(engine).package}=={version}"]
    pip = [sys.executable, "-m", "pip"] if _has_pip() else [shutil.which("pip") or "pip"]
    try:
        done = subprocess.run(
            [*pip, *pip_arguments],
            cwd=NEUTRAL_FOLDER,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=300,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"{engine} {version} cannot be looked up: {error}", hint="--source WHEEL") from None
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise EngineError(f"{engine} {version} cannot be looked up: {last}", hint="--source WHEEL or --env DIRECTORY")
    return str(parse_json(done.stdout)["install"][0]["download_info"]["url"])


def _has_pip() -> bool:
    from importlib.util import find_spec

    return find_spec("pip") is not None


def _release_folder(engine: str, version: str) -> Path:
    return _sources() / f"{engine}-{version}"


def _sources() -> Path:
    return home() / "kernels" / "sources"


def _unpack(file: IO[bytes], name: str, folder: Path, prefetch: Prefetch | None = None) -> None:
    """Only what can hold kernels or their configurations."""
    try:
        with _beside(folder) as beside, zipfile.ZipFile(file) as wheel:
            wanted = [member for member in wheel.infolist() if _wanted(member.filename)]
            if prefetch is not None:
                prefetch(_ranges(wheel, wanted))
            for member in wanted:
                wheel.extract(member, beside)
    except (zipfile.BadZipFile, OSError) as error:
        raise EngineError(f"{name} cannot be unpacked: {error}") from None


@contextmanager
def _beside(folder: Path) -> Iterator[Path]:
    """A directory to fill, which becomes `folder` whole or not at all; whoever came first wins."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        yield beside
        try:
            beside.rename(folder)
        except OSError:
            if not folder.exists():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _wanted(name: str) -> bool:
    if name.startswith("/") or ".." in name.split("/"):
        return False
    return name.endswith((".py", ".dist-info/METADATA")) or ("moe" in name and "/configs/" in name)


def _ranges(wheel: zipfile.ZipFile, wanted: Iterable[zipfile.ZipInfo]) -> list[tuple[int, int]]:
    """Bytes of each wanted member, header included: up to where the next member starts."""
    starts = sorted(member.header_offset for member in wheel.infolist())
    following = dict(zip(starts, [*starts[1:], wheel.start_dir], strict=True))
    return [(member.header_offset, following[member.header_offset]) for member in wanted]


def locate_in_image(name: str, image: str) -> tuple[str, str, str]:
    """Version, the package's directory inside the image, and the image's id."""
    identity = _run("image", "inspect", "--format", "{{.Id}}", image).strip()
    arguments = ("run", "--rm", "--network=none", "--entrypoint", "python3", image, "-c", inspection_script())
    try:
        version, package = parse_json(_run(*arguments).strip().splitlines()[-1])["engines"].get(name) or (None, None)
    except (ValueError, IndexError, KeyError, TypeError, AttributeError):
        raise EngineError(f"the python3 of {image} does not say what is installed there") from None
    if package is None:
        raise EngineError(f"{image} has no {name} that its python3 knows")
    return str(version), str(package), identity.removeprefix("sha256:")[:12]


def copy_from_image(image: str, package: str, folder: Path, wanted: Callable[[str], bool]) -> None:
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
        done = subprocess.run(
            [_runtime(), *words], capture_output=True, encoding="utf-8", errors="replace", timeout=600, check=False
        )
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
