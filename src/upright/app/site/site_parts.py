"""A folder with what `scripts/get-site-parts` fetched -> the parts, each the very bytes that parts.json names."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from upright.base.bounds.values import decoded
from upright.base.errors import UsageError

PARTS_FILE = Path(__file__).parent / "parts.json"
_LEFT_OUT = (".so", ".pyi", ".typed", ".pyx", ".pxd", ".h")
"""What a browser cannot load, or Python does not need; a wheel for WebAssembly keeps its modules."""


@dataclass(frozen=True)
class SitePart:
    """Something of another project that the site is made of."""

    name: str
    version: str
    file: str
    licence: str
    about: str
    sha256: str
    platform: str | None = None

    def content(self, folder: Path) -> bytes:
        """UsageError if it is not there, or is another."""
        path = folder / self.file
        hint = "scripts/get-site-parts of the repository fetches them; --parts FOLDER says where they are"
        try:
            content = path.read_bytes()
        except OSError:
            raise UsageError(f"there is no {self.file} in {folder}", hint=hint) from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise UsageError(f"{path} is not the {self.name} {self.version} that this version was made for", hint=hint)
        return content


def site_parts() -> tuple[SitePart, ...]:
    fields = SitePart.__dataclass_fields__
    rows = decoded(PARTS_FILE.read_text(encoding="utf-8"))
    return tuple(SitePart(**{name: text for name, text in row.items() if name in fields}) for row in rows)


def npm_files(content: bytes) -> dict[str, bytes]:
    """Files of an npm package by name."""
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = [member for member in archive.getmembers() if member.isfile()]
        opened = {member.name.removeprefix("package/"): archive.extractfile(member) for member in members}
        return {name: stream.read() for name, stream in opened.items() if stream is not None}


def wheel_files(part: SitePart, content: bytes) -> Iterator[tuple[str, bytes]]:
    """What Python needs of a wheel; its licence stays with it."""
    compiled = part.platform is not None and "wasm" in part.platform
    with zipfile.ZipFile(io.BytesIO(content)) as wheel:
        for name in wheel.namelist():
            suffix = PurePosixPath(name).suffix
            if name.endswith("/") or (suffix in _LEFT_OUT and not (compiled and suffix == ".so")):
                continue
            yield name, wheel.read(name)
