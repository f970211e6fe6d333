"""A folder of an engine's source -> what a release has that our rows speak of: names, defaults, sentences, files.

Files are parsed, never imported: what a wheel holds is another's.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).parent.parent
LARGEST_FILE = 4 << 20
MOST_FILES = 20_000
DEEPEST = 250
FILLER = "17"
C_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
C_SUFFIXES = (".c", ".cpp", ".cu", ".h")
PLACES = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(?:ll|z|h|l)?[sdifgxuc]|\{[^{}]*\}")


@cache
def script(name: str) -> ModuleType:
    """A sibling script as a module: how flags, metrics and messages are read is written once."""
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    loader = SourceFileLoader(name.replace("-", "_"), str(SCRIPTS / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def parsed(text: str) -> ast.Module | None:
    """None for what this Python cannot parse, or what is nested deeper than people write."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    level: list[ast.AST] = [tree]
    for _ in range(DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    return None


@dataclass(frozen=True)
class Release:
    """One version's source."""

    engine: str
    version: str
    root: Path
    """The folder that holds its package, or its checkout."""

    @cached_property
    def files(self) -> Mapping[str, Path]:
        """Path inside -> file. No link is followed, and what is too large is left out."""
        suffixes = (".py", *C_SUFFIXES)
        members = {}
        for file in sorted(self.root.rglob("*")):
            if file.suffix in suffixes and file.is_file() and not file.is_symlink():
                if file.stat().st_size <= LARGEST_FILE:
                    members[file.relative_to(self.root).as_posix()] = file
                if len(members) > MOST_FILES:
                    raise SystemExit(f"{self.root} holds more than {MOST_FILES:,} source files")
        return members

    def text(self, path: str) -> str:
        return self.files[path].read_text(encoding="utf-8", errors="replace")

    def tree(self, path: str) -> ast.Module | None:
        return parsed(self.text(path))

    def digest(self, path: str) -> str:
        return self._digests[path]

    @cached_property
    def _digests(self) -> Mapping[str, str]:
        return {path: hashlib.sha256(file.read_bytes()).hexdigest() for path, file in self.files.items()}

    def matching(self, pattern: str) -> list[str]:
        wanted = re.compile(pattern)
        return [path for path in self.files if wanted.fullmatch(path)]

    @cached_property
    def names(self) -> Mapping[str, frozenset[str]]:
        """Kind -> what the release knows by name."""
        return {kind: frozenset(filter(_is_name, read(self))) for kind, read in READERS[self.engine].items()}

    @cached_property
    def defaults(self) -> Mapping[str, str]:
        """Flag -> its default as the source states it, where a class of arguments does."""
        return dict(_defaults(self))

    @cached_property
    def metrics(self) -> Mapping[str, str]:
        """Metric -> its type."""
        extract = script("extract-metrics")
        if self.engine not in extract.SOURCES:
            return {}
        sources = (self.text(path) for path in self.matching(extract.SOURCES[self.engine].pattern))
        exported: dict[str, str] = dict(extract.INSTRUMENTED) if self.engine == "vllm" else {}
        for text in sources:
            if parsed(text) is not None:
                exported |= extract.metrics_of(self.engine, text)
        return {name: kind for name, kind in exported.items() if _is_name(name)}

    def changed(self, other: Release) -> set[str]:
        """Paths of this release that the other does not have with the same bytes."""
        return {path for path in self.files if path not in other.files or self.digest(path) != other.digest(path)}

    def sentences(self, paths: Iterable[str]) -> set[str]:
        """Every text that these files may print, with a number where something is put in."""
        return {sentence for path in paths for sentence in _sentences(path, self.text(path))}

    def messages(self, paths: Iterable[str]) -> set[str]:
        """What these files raise, assert or log as fatal."""
        return {message for path in paths for message in _messages(path, self.text(path))}


def _is_name(text: object) -> bool:
    """What would break out of a line of our lists is no name."""
    return isinstance(text, str) and re.fullmatch(r"[\w:.+/-]{1,120}", text) is not None


@cache
def _messages(path: str, text: str) -> frozenset[str]:
    extract = script("extract-failures")
    if extract.NOT_THESE.search(path) or not extract.PATHS.search(path) or (path.endswith(".py") and not parsed(text)):
        return frozenset()
    pairs = extract._of_python(text) if path.endswith(".py") else extract._of_c(text, Path(path).name)
    return frozenset(message for _, message in pairs if len(re.sub(r"\W|\d", "", message)) >= 8)


@cache
def _sentences(path: str, text: str) -> frozenset[str]:
    if not path.endswith(".py"):
        return frozenset(PLACES.sub(FILLER, literal) for literal in C_STRING.findall(text) if len(literal) > 7)
    tree = parsed(text)
    if tree is None:
        return frozenset()
    whole = (_sentence(node) for node in ast.walk(tree) if isinstance(node, (ast.Constant, ast.JoinedStr, ast.BinOp)))
    return frozenset(sentence for sentence in whole if sentence and 7 < len(sentence) < 2000)


def _sentence(node: ast.expr) -> str | None:
    if isinstance(node, ast.Constant):
        return PLACES.sub(FILLER, node.value) if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else FILLER for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _sentence(node.left), _sentence(node.right)
        return left + right if left and right else None
    return None


# ---- names ----
def _flags(release: Release) -> Iterator[str]:
    extract = script("extract-flags")
    for path in release.matching(extract.SOURCES[release.engine].pattern):
        if release.tree(path) is not None:
            yield from extract.flags_of(release.engine, release.text(path))


def _metrics(release: Release) -> Iterator[str]:
    yield from release.metrics


def registered(release: Release, pattern: str, table: str) -> Iterator[str]:
    """String keys of dictionaries whose name matches: how both engines register parsers, vLLM its architectures."""
    for path in release.matching(pattern):
        for node in ast.walk(release.tree(path) or ast.Module([], [])):
            if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Dict):
                target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
                if re.fullmatch(table, ast.unparse(target)):
                    yield from (key.value for key in node.value.keys if isinstance(key, ast.Constant))


def assigned(release: Release, pattern: str, owner: str, name: str) -> Iterator[str]:
    """Names that a class of that name assigns: members of an enumeration, variables of the environment."""
    for path in release.matching(pattern):
        for node in ast.walk(release.tree(path) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and re.fullmatch(owner, node.name):
                for statement in node.body:
                    targets = statement.targets if isinstance(statement, ast.Assign) else []
                    yield from (ast.unparse(target) for target in targets if re.fullmatch(name, ast.unparse(target)))


def entry_classes(release: Release) -> Iterator[str]:
    """SGLang's architectures: `EntryClass = X` or `[X, Y]` in each file of models."""
    for path in release.matching(r"sglang/srt/models/.+\.py"):
        for node in (release.tree(path) or ast.Module([], [])).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "EntryClass":
                classes = node.value.elts if isinstance(node.value, (ast.List, ast.Tuple)) else [node.value]
                yield from (ast.unparse(entry) for entry in classes)


def _choices(release: Release, pattern: str, name: str) -> Iterator[str]:
    """Members of a list of choices."""
    for path in release.matching(pattern):
        for node in (release.tree(path) or ast.Module([], [])).body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
                yield from (part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant))


def _in_c(pattern: str, expression: str) -> Callable[[Release], Iterator[str]]:
    wanted = re.compile(expression)
    return lambda release: (
        match for path in release.matching(pattern) for match in wanted.findall(release.text(path)) if match
    )


def _llama_flags(release: Release) -> Iterator[str]:
    for path in release.matching(r"(?:.*/)?common/(?:arg|common|speculative)\.cpp"):
        yield from script("extract-flags").flags_of_llama(release.text(path))


_LLAMA = {
    "flag": _llama_flags,
    "metric": _in_c(r"(?:.*/)?(?:tools|examples)/server/.*\.cpp", r'"(llamacpp:\w+)"'),
    "architecture": _in_c(r"(?:.*/)?src/llama(?:-arch)?\.cpp", r'LLM_ARCH_\w+,\s*"([\w.-]+)"'),
    "variable": _in_c(r"(?:.*/)?common/arg\.cpp", r'"(LLAMA_(?:ARG_)?[A-Z_0-9]+)"'),
}
_SGLANG = {
    "flag": _flags,
    "metric": _metrics,
    "architecture": entry_classes,
    "tool parser": lambda r: registered(r, r"sglang/srt/function_call/function_call_parser\.py", "ToolCallParserEnum"),
    "reasoning parser": lambda r: registered(r, r"sglang/srt/(parser/)?reasoning_parser\.py", "DetectorMap"),
    "attention backend": lambda r: _choices(
        r, r"sglang/srt/(server_args|arg_groups/choices)\.py", "ATTENTION_BACKEND_CHOICES"
    ),
    "quantisation": lambda r: _choices(r, r"sglang/srt/(server_args|arg_groups/choices)\.py", "QUANTIZATION_CHOICES"),
    "variable": lambda r: assigned(r, r"sglang/srt/environ\.py", r"Envs", r"SGLANG_\w+"),
}
READERS: Mapping[str, Mapping[str, Callable[[Release], Iterator[str]]]] = {
    "vllm": {
        "flag": _flags,
        "metric": _metrics,
        "architecture": lambda r: registered(r, r"vllm/model_executor/models/registry\.py", r"_[A-Z_]+_MODELS"),
        "tool parser": lambda r: registered(
            r, r"vllm/(entrypoints/openai/)?tool_parsers/__init__\.py", r"_TOOL_PARSERS_TO_REGISTER"
        ),
        "reasoning parser": lambda r: registered(r, r"vllm/reasoning/__init__\.py", r"_REASONING_PARSERS_TO_REGISTER"),
        "attention backend": lambda r: assigned(
            r, r"vllm/v1/attention/backends/registry\.py", "AttentionBackendEnum", r"[A-Z][A-Z0-9_]+"
        ),
        "cache type": lambda r: _choices(r, r"vllm/config/cache\.py", "CacheDType"),
        "quantisation": lambda r: _choices(
            r, r"vllm/model_executor/layers/quantization/__init__\.py", "QuantizationMethods"
        ),
        "variable": lambda r: registered(r, r"vllm/envs\.py", "environment_variables"),
    },
    "sglang": _SGLANG,
    "ktransformers": {kind: read for kind, read in _SGLANG.items() if kind != "metric"},
    "llama.cpp": _LLAMA,
    "ik_llama.cpp": _LLAMA,
}
FEWEST = {"flag": 100, "architecture": 40}
"""A release that has fewer has moved its source: nothing may be called gone then."""


# ---- defaults ----
def _defaults(release: Release) -> Iterator[tuple[str, str]]:
    fields = dict(_fields(release, r"vllm/config/.+\.py", r"\w+Config"))
    arguments = {
        "vllm": (
            r"vllm/(engine/arg_utils|entrypoints/(openai|launchers)/cli_args)\.py",
            r"\w*(EngineArgs|FrontendArgs)",
        ),
        "sglang": (r"sglang/srt/(server_args|arg_groups/fields/\w+)\.py", r"\w+"),
        "ktransformers": (r"sglang/srt/server_args\.py", r"ServerArgs"),
    }
    if release.engine in arguments:
        for name, default in _fields(release, *arguments[release.engine]):
            flag = "--" + name.rpartition(".")[2].replace("_", "-")
            if flag in release.names["flag"]:
                yield flag, fields.get(default, default)


def _fields(release: Release, pattern: str, owner: str) -> Iterator[tuple[str, str]]:
    """`Class.field` -> its default as it is written; of `Field(default=...)` what is inside."""
    for path in release.matching(pattern):
        for node in ast.walk(release.tree(path) or ast.Module([], [])):
            if isinstance(node, ast.ClassDef) and re.fullmatch(owner, node.name):
                for field in node.body:
                    if isinstance(field, ast.AnnAssign) and field.value is not None:
                        yield f"{node.name}.{ast.unparse(field.target)}", _default(field.value)


def _default(expression: ast.expr) -> str:
    if isinstance(expression, ast.Call):
        for keyword in expression.keywords:
            if keyword.arg in ("default", "default_factory"):
                return ast.unparse(keyword.value)
    return ast.unparse(expression)
