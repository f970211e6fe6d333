"""Writes the site: parts of other projects, the package itself and its catalogue.

The page's index.html holds the hashes of what it loads; manifest.json holds those of the rest, and is itself held by
the page. A second build of the same sources gives the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from upright import __version__
from upright.app.site.evidence_pages import EVIDENCE, evidence_files
from upright.app.site.first_answers import First, catalogue_version, choices, first_answers, first_boxes, recommended
from upright.app.site.link_previews import CARDS, card_files
from upright.base.bounds.bounded_json import parse_json
from upright.base.bounds.files import file_bytes
from upright.base.errors import UsageError
from upright.facts.catalog.loader import compile_ours
from upright.facts.store import write_inside

PACKAGE = Path(__file__).parents[2]
PAGE = Path(__file__).parent / "page"
ROOMS = (
    "__init__.py", "app/__init__.py", "app/pages", "app/site", "base/__init__.py", "base/bounds", "base/errors.py",
    "base/extensions.py", "base/untrusted_text.py", "base/home.py", "base/progress.py",
    "base/terminal", "base/units.py",
    "base/yaml12.py", "engines", "facts/__init__.py", "facts/catalog", "facts/records", "models",
    "planning/__init__.py", "planning/choosing", "planning/memory", "planning/placement", "planning/recommending",
    "planning/rendering", "planning/requests", "planning/speed", "serving/__init__.py", "serving/diagnose",
)  # fmt: skip
"""What the page's worker imports; no other room is handed out."""
_LEFT_OUT = ("__pycache__", "page", "payload")
_MANIFEST = "manifest.json"
_PLAIN = ("pyodide.mjs", "pyodide.asm.mjs", "python_stdlib.zip")
_WASM = "pyodide.asm.wasm"
_MOST_PART_BYTES = 256 << 20
"""Of Python as WebAssembly, or of a wheel: their hashes are recorded."""
_LOCK = "pyodide-lock.json"
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'"
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def parts_folder() -> Path:
    """Where scripts/get-site-parts leaves them: in a checkout its .cache, else the user's."""
    checkout = PACKAGE.parents[1] / ".cache/site-parts"
    if checkout.is_dir():
        return checkout
    from platformdirs import user_cache_path

    return user_cache_path("upright") / "site-parts"


def publish(
    folder: Path,
    parts: Path | None = None,
    *,
    first: First = "presets",
    address: str = "",
    told: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Writes the site, and says what; a folder that holds anything but an older site is refused.

    `address` is where it will be handed out: the pictures beside a shared link are named by it.
    `worker_bytes` is what a first visit loads before the worker is ready.
    """
    if address and not address.startswith(("https://", "http://")):
        raise UsageError(f"{address} is no address", hint="as in --address https://plan.example.org/")
    contents = {part.name: (part, part.content(parts or parts_folder())) for part in site_parts()}
    _make_way(folder)
    compile_ours()  # so that the worker parses no YAML
    for name, content in _worker_files(contents):
        _write(folder, name, content)
    worker_bytes = _bytes(folder)
    _write(folder, "licences.txt", _licences([part for part, _ in contents.values()]).encode())
    _write(folder, "choices.json", json.dumps(choices(first), ensure_ascii=False, separators=(",", ":")).encode())
    for name, content in evidence_files(POLICY):
        _write(folder, name, content)
    count = 0
    for box in first_boxes(first):
        told(f"first answers: what to run on {box}")
        _write(folder, f"first/recommend/{box}.json", recommended(box).encode())
    for model, box, answer in first_answers(first, told):
        _write(folder, f"first/{model}/{box}.json", answer.encode())
        for name, content in card_files(model, box, parse_json(answer), POLICY, address):
            _write(folder, name, content)
        count += 1
    _write_page(folder)
    return {
        "folder": str(folder),
        "catalogue": catalogue_version(),
        "files": sum(path.is_file() for path in folder.rglob("*")),
        "bytes": _bytes(folder),
        "first_answers": count,
        "worker_bytes": worker_bytes,
    }


def _make_way(folder: Path) -> None:
    """What an earlier build wrote is removed, and nothing else."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    if folder.is_dir() and any(folder.iterdir()):
        try:
            written = parse_json(file_bytes(folder / _MANIFEST))["upright_site"]
        except (OSError, ValueError, KeyError, TypeError):
            raise UsageError(f"{folder} holds something else than a site", hint="name a new folder") from None
        if written:
            for name in {path.name for path in folder.iterdir()} & _OWN_NAMES:
                path = folder / name
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.mkdir(parents=True, exist_ok=True)


def _worker_files(contents: dict[str, tuple[SitePart, bytes]]) -> Iterator[tuple[str, bytes]]:
    """What the worker loads: Python, and one archive with everything that it imports."""
    engine = npm_files(contents["pyodide"][1])
    for name in _PLAIN:
        yield f"pyodide/{name}", engine[name]
    # Opened in the page: file servers seldom compress WebAssembly, and it halves the first visit.
    yield f"pyodide/{_WASM}.gz", gzip.compress(engine[_WASM], 9, mtime=0)
    lock = parse_json(engine[_LOCK])
    yield f"pyodide/{_LOCK}", json.dumps({"info": lock["info"], "packages": {}}).encode()
    files = dict(own_files())
    for part, content in contents.values():
        if part.file.endswith(".whl"):
            files |= wheel_files(part, content)
    yield "upright.zip", zipped(files)


def own_files() -> Iterator[tuple[str, bytes]]:
    for room in ROOMS:
        path = PACKAGE / room
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            inside = file.relative_to(PACKAGE)
            if file.is_file() and not set(inside.parts) & set(_LEFT_OUT) and file.suffix not in (".pyc", ".typed"):
                yield f"upright/{inside.as_posix()}", file.read_bytes()


def zipped(files: dict[str, bytes]) -> bytes:
    """Sorted and without dates, so that it is the same wherever it is built."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return buffer.getvalue()


def _write_page(folder: Path) -> None:
    """The page last: it holds the hash of the manifest, which holds those of all that was written before."""
    assets = sorted(path for path in PAGE.iterdir() if path.name not in ("index.html", "offline.js"))
    for path in assets:
        _write(folder, path.name, path.read_bytes())
    core = [name for name in _names(folder) if not name.startswith(("first/", f"{EVIDENCE}/", f"{CARDS}/"))]
    version = hashlib.sha256("".join(_integrity(folder / name) for name in core).encode()).hexdigest()[:16]
    offline = (PAGE / "offline.js").read_text(encoding="utf-8")
    listed = json.dumps(["./", *core, _MANIFEST])
    _write(
        folder, "offline.js", offline.replace('"{{version}}"', f'"{version}"').replace('"{{files}}"', listed).encode()
    )
    held = {name: _integrity(folder / name) for name in core}
    manifest = {"upright_site": __version__, "catalogue": catalogue_version(), "integrity": held}
    _write(folder, _MANIFEST, (json.dumps(manifest, indent=1) + "\n").encode())
    html = (PAGE / "index.html").read_text(encoding="utf-8").replace("{{policy}}", POLICY)
    for path in [*(folder / asset.name for asset in assets), folder / _MANIFEST]:
        html = html.replace(f"{{{{integrity:{path.name}}}}}", _integrity(path))
    _write(folder, "index.html", html.encode())


def _integrity(path: Path) -> str:
    return f"sha384-{base64.b64encode(hashlib.sha384(file_bytes(path, _MOST_PART_BYTES)).digest()).decode()}"


def _licences(parts: list[SitePart]) -> str:
    lines = [f"upright {__version__}: Apache-2.0", ""]
    lines += [f"{part.name} {part.version}: {part.licence}. {part.about[0].upper()}{part.about[1:]}." for part in parts]
    return "\n".join((*lines, "", "The text of each Python package's licence is in upright.zip, beside it.", ""))


def _write(folder: Path, name: str, content: bytes) -> None:
    write_inside(folder / name, content, folder)


def _names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


_OWN_NAMES = {
    "pyodide", "first", "upright.zip", "licences.txt", "choices.json", "index.html", EVIDENCE, "evidence.json", CARDS,
    _MANIFEST,
    *(path.name for path in PAGE.iterdir()),
}  # fmt: skip


PARTS_FILE = Path(__file__).parent / "parts.json"
_WHEEL_LEFT_OUT = (".so", ".pyi", ".typed", ".pyx", ".pxd", ".h")
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
            content = file_bytes(path, _MOST_PART_BYTES)
        except OSError:
            raise UsageError(f"there is no {self.file} in {folder}", hint=hint) from None
        if hashlib.sha256(content).hexdigest() != self.sha256:
            raise UsageError(f"{path} is not the {self.name} {self.version} that this version was made for", hint=hint)
        return content


def site_parts() -> tuple[SitePart, ...]:
    fields = SitePart.__dataclass_fields__
    rows = parse_json(PARTS_FILE.read_text(encoding="utf-8"))
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
            if name.endswith("/") or (suffix in _WHEEL_LEFT_OUT and not (compiled and suffix == ".so")):
                continue
            yield name, wheel.read(name)
