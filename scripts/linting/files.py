"""Our modules -> calls that open a file beside the doors: `base/bounds/files` reads, `facts/store/files` writes.

What comes in the package (`files("upright…")`, a path below `__file__`) and what the kernel writes (/proc, /sys) needs
no door; its text is read as UTF-8, whatever the locale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/upright"
DOORS = ("base/bounds/files.py", "facts/store/files.py")
ALONE = (
    "flows/fleet/payload",
    "proof/kernels/payload",
    "serving/check/payload",
    "engines/vllm/payload",
    "proof/ladder/confining",
)
"""Programs that run elsewhere, or behind walls, without the rest of Upright."""
STORE = "a deployment's own folder, which nobody else may write into"
TEMPORARY = "a folder that it made, and that ends with it"
MAY: dict[tuple[str, str], str] = {
    ("app/site/publishing.py", "tarfile.open"): "of a part whose hash is recorded, from memory",
    ("app/site/publishing.py", "zipfile.ZipFile"): "of a part whose hash is recorded, from memory",
    ("base/bounds/bounded_json.py", "json.loads"): "the door of JSON itself",
    ("base/extensions.py", "open"): "a package of the person's own environment, on the way of every start",
    ("engines/sglang/parser.py", "json.loads"): "a word of the command line, bounded as one",
    ("evidence/bundle/unpacking.py", "tarfile.open"): "of a file from the door; files, heads and values are counted",
    ("app/site/first_answers.py", "path.read_bytes"): "our own rows",
    ("app/site/publishing.py", "file.read_bytes"): "our own modules",
    ("facts/catalog/compiled.py", "_place(path).read_bytes"): "the cache of our own rows, keyed by their digest",
    ("facts/catalog/compiled.py", "path.read_bytes"): "our own modules",
    ("facts/catalog/compiled.py", "zlib.decompress"): "the cache of our own rows, keyed by their digest",
    ("models/reading/safetensors.py", "json.loads"): "one entry of a header whose length was checked",
    ("facts/catalog/recorded_starts.py", "path.open"): "our own rows",
    ("flows/line/demo.py", "gzip.open"): "our own model",
    ("serving/check/start_code.py", "(Path(folder) / 'task.json').open"): TEMPORARY,
    ("serving/check/start_code.py", "talk.read_text"): TEMPORARY,
    ("proof/benchmark/scheduled_server.py", "json.loads"): "our own program's words to itself",
    ("proof/benchmark/server.py", "json.loads"): "a body that this process made",
    ("proof/kernels/sources.py", "tarfile.open"): "a stream of an image that the person named; each member is bounded",
    ("proof/kernels/sources.py", "zipfile.ZipFile"): "a wheel that the person named; each member is bounded",
    ("proof/ladder/sandbox.py", "folder.joinpath(f'{name}.py').read_text"): "our own modules",
    ("serving/fetch/download.py", "job.partial.open"): "no file's method: an unfinished file that we write",
    # what writes
    ("base/host/recorded.py", "(folder / INDEX).write_text"): "into the folder that it made or emptied",
    ("base/host/recorded.py", "(folder / entry[stream]).write_text"): "into the folder that it made or emptied",
    ("base/terminal/safe_output.py", "Path(os.devnull).open"): "/dev/null",
    ("evidence/bundle/unpacking.py", "directory.evidence_file.write_bytes"): TEMPORARY,
    ("evidence/share/catalogue_trial.py", "(folder / 'catalogues' / 'taken' / f'{file}.json').write_bytes"): TEMPORARY,
    ("evidence/share/index_checking.py", "file.write_bytes"): TEMPORARY,
    ("evidence/share/index_checking.py", "signature_path(file).write_bytes"): TEMPORARY,
    ("evidence/share/index_requests.py", "file.open"): "makes a file that is not there, and follows no link",
    ("evidence/share/index_requests.py", "file.write_bytes"): TEMPORARY,
    ("evidence/share/index_requests.py", "signature_path(file).write_bytes"): TEMPORARY,
    ("evidence/share/seals.py", "file.write_bytes"): TEMPORARY,
    ("evidence/share/signing.py", "file.write_bytes"): TEMPORARY,
    ("facts/catalog/compiled.py", "part.write_bytes"): "the cache of our own rows, beside them",
    ("flows/fleet/sentinel.py", "(directory.path / 'sentinel.log').open"): STORE,
    ("proof/benchmark/drivers/driver.py", "(place / 'stdout.txt').write_text"): TEMPORARY,
    ("proof/kernels/compile.py", "(folder / f'{name}.py').write_text"): TEMPORARY,
    ("proof/kernels/compile.py", "(scratch / 'stderr').open"): TEMPORARY,
    ("proof/kernels/sources.py", "path.open"): "a member of an image, in a folder that was made for it",
    ("serving/launch/launch.py", "(directory.path / 'supervisor.log').open"): STORE,
    ("serving/launch/locks.py", "path.write_text"): STORE,
    ("serving/launch/places/log_file.py", "Path(os.devnull).open"): "/dev/null",
    ("serving/launch/places/log_file.py", "path.open"): STORE,
    ("serving/launch/stacks.py", "into.write_text"): STORE,
    ("serving/launch/supervisor.py", "self.directory.log.open"): STORE,
    ("serving/launch/workers.py", "self.path.write_text"): STORE,
    ("serving/check/start_code.py", "(Path(folder) / 'task.json').write_text"): TEMPORARY,
    ("serving/check/start_code.py", "talk.open"): TEMPORARY,
    ("serving/rehearse/rehearse.py", "(folder / 'allocator.log').write_text"): TEMPORARY,
    ("serving/rehearse/rehearse.py", "(folder / 'dry-run.log').write_text"): TEMPORARY,
    ("serving/rehearse/weightless_model.py", "(folder / name).open"): TEMPORARY,
    ("serving/rehearse/weightless_model.py", "path.write_bytes"): TEMPORARY,
}
"""(module, call) -> why it is no hole."""
BY_NAME = "opens by its name what may be a pipe"
"""No reason makes that harmless, but for a file of our own: an archive takes what a door opened."""
_READS = {"read_text", "read_bytes"}
_WRITES = {"write_text", "write_bytes"}
_WHOLE = {
    ("json", "load"), ("json", "loads"), ("pickle", "load"), ("pickle", "loads"), ("marshal", "load"),
    ("tomllib", "load"), ("tarfile", "open"), ("tarfile", "TarFile"), ("zipfile", "ZipFile"), ("gzip", "open"),
    ("bz2", "open"), ("lzma", "open"), ("io", "open"), ("io", "FileIO"), ("codecs", "open"), ("mmap", "mmap"),
    ("linecache", "getlines"), ("fileinput", "input"), ("sqlite3", "connect"), ("shelve", "open"),
    ("gzip", "decompress"), ("zlib", "decompress"), ("bz2", "decompress"), ("lzma", "decompress"),
}  # fmt: skip
"""Functions that read or unpack all that there is."""
_KERNEL = ("/proc/", "/sys/", "/etc/os-release")


def faults() -> Iterator[str]:
    used: set[tuple[str, str]] = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in DOORS or name.startswith(ALONE):
            continue
        for line, call, why in opened(ast.parse(path.read_text(encoding="utf-8"))):
            if (name, call) in MAY and why != BY_NAME:
                used.add((name, call))
            else:
                yield f"src/upright/{name}:{line}: {call}: {why}"
    yield from (f"scripts/linting/files.py: {name} no longer calls {call}" for name, call in sorted(set(MAY) - used))


def opened(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Line, call and what is wrong with it."""
    ours = _our_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if (why := _fault(node, ours)) is not None:
            yield node.lineno, ast.unparse(node.func), why
        if _goes_by_locale(node):
            yield node.lineno, f"{ast.unparse(node.func)}()", "does not say its encoding"


def _fault(call: ast.Call, ours: set[str]) -> str | None:
    match call.func:
        case ast.Name(id="open"):
            return _by_mode(call, call.args[1:2])
        case ast.Attribute(attr="open", value=ast.Name(id="os")):
            return _by_flags(call)
        case ast.Attribute(attr=attr, value=ast.Name(id=module)) if (module, attr) in _WHOLE:
            if _writes_archive(call):
                return None
            return BY_NAME if _opens_by_name(call, ours) else "reads or unpacks all that there is"
        case ast.Attribute(attr="open", value=of):
            return None if _is_ours(of, ours) or not _is_of_a_path(call) else _by_mode(call, call.args[:1])
        case ast.Attribute(attr=attr, value=of) if attr in _READS:
            return _of_text(call, attr, _is_ours(of, ours))
        case ast.Attribute(attr=attr) if attr in _WRITES:
            return "writes beside facts/store/files"
    return None


def _goes_by_locale(call: ast.Call) -> bool:
    """Text of a program, or to a file, in whatever encoding the day has."""
    named = {word.arg for word in call.keywords}
    if "encoding" in named or None in named:
        return False
    writes = isinstance(call.func, ast.Attribute) and call.func.attr == "write_text"
    return writes or bool(named & {"text", "universal_newlines"} and ast.unparse(call.func).startswith("subprocess."))


def _by_mode(call: ast.Call, place: list[ast.expr]) -> str | None:
    modes = [*place, *(word.value for word in call.keywords if word.arg == "mode")]
    mode = modes[0].value if modes and isinstance(modes[0], ast.Constant) else "r"
    return "writes beside facts/store/files" if set(str(mode)) & set("wax+") else "reads beside base/bounds/files"


def _by_flags(call: ast.Call) -> str | None:
    """What is made to be locked or written is told by its flags; a folder and /dev/null are no files."""
    words = ast.unparse(call)
    harmless = ("os.O_CREAT", "os.O_DIRECTORY", "/dev/null", "os.devnull")
    return None if any(word in words for word in harmless) else "reads beside base/bounds/files"


def _of_text(call: ast.Call, attr: str, is_ours: bool) -> str | None:
    receiver = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if receiver.rpartition(".")[2] in ("host", "_host"):
        return None  # the seam to machines
    if not is_ours:
        return "reads beside base/bounds/files"
    told = [*call.args, *(word.value for word in call.keywords if word.arg == "encoding")]
    named = {str(word.value) for word in told if isinstance(word, ast.Constant)}
    return None if attr == "read_bytes" or named & {"utf-8", "ascii"} else "does not say its encoding"


def _writes_archive(call: ast.Call) -> bool:
    """Into memory, to be written through the door."""
    return any(
        isinstance(part, ast.Constant) and part.value == "w"
        for part in (*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode"))
    )


def _opens_by_name(call: ast.Call, ours: set[str]) -> bool:
    """`tarfile.open(path)`, where a program can say `fileobj=`."""
    takes = ast.unparse(call.func) in ("tarfile.open", "gzip.open", "bz2.open", "lzma.open")
    return takes and not any(word.arg == "fileobj" for word in call.keywords) and not _is_ours(call.args[0], ours)


def _is_of_a_path(call: ast.Call) -> bool:
    """`path.open()`, `path.open("rb")`, `path.open(encoding=…)`; others have an `open` of their own."""
    first = call.args[0] if call.args else None
    by_mode = isinstance(first, ast.Constant) and isinstance(first.value, str) and set(first.value) <= set("rwaxbt+U")
    return by_mode or not call.args


def _our_names(tree: ast.Module) -> set[str]:
    """Names that stand for what the package brings, or for the kernel's: constants, and loops over them."""
    names: set[str] = {"OURS"}
    for _ in range(2):
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_ours(value, names):
                    names.add(name)
                case (
                    ast.comprehension(target=ast.Name(id=name), iter=of) | ast.For(target=ast.Name(id=name), iter=of)
                ) if _is_ours(of, names):
                    names.add(name)
                case ast.ImportFrom(names=imported):
                    names |= {word.asname or word.name for word in imported if word.name in ("FOLDER", "PAYLOAD")}
    return names


def _is_ours(node: ast.expr, ours: set[str]) -> bool:
    """Whether a path begins in the package or in the kernel's folders."""
    match node:
        case ast.Name(id=name):
            return name in ours or name == "__file__"
        case ast.Attribute(attr="__file__"):
            return True
        case ast.Constant(value=str(text)):
            return text.startswith(_KERNEL)
        case ast.JoinedStr(values=[first, *_]):
            return _is_ours(first, ours)
        case ast.BinOp(left=left, op=ast.Div()):
            return _is_ours(left, ours)
        case ast.Attribute(value=of) | ast.Subscript(value=of):
            return _is_ours(of, ours)
        case ast.Call(func=ast.Name(id="files"), args=[ast.Constant(value=str(room)), *_]):
            return room.startswith("upright")
        case ast.Call(func=ast.Name(id="Path" | "sorted" | "PurePath"), args=[first, *_]):
            return _is_ours(first, ours)
        case ast.Call(func=ast.Attribute(value=of)):
            return _is_ours(of, ours)
    return False
