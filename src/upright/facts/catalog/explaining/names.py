"""Everything that a name may mean: rows, flags, variables, record fields, engines, log lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import cast

from upright.base.extensions import extensions
from upright.facts import catalog
from upright.facts.catalog.explaining.explanation import Explanation
from upright.facts.catalog.explaining.rows import explain_row, version_span
from upright.facts.catalog.loader import KINDS, rows, rows_mentioning
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.catalog.rows.base import Row
from upright.facts.records.fields import FieldPlace, find_fields

_REFERENCE = re.compile(
    r"(?:https://github\.com/)?(?P<repository>(?:[\w.-]+/)?[A-Za-z][\w.-]*?)"
    r"(?:/(?:issues|pull|discussions)/|\s*(?:PR|pull request|issue)?\s*#)(?P<number>\d{1,7})",
    re.IGNORECASE,
)
"""`sglang#16975`, `SGLang PR #16975`, `vllm-project/vllm#31936` or the address."""
_CAPABILITY = re.compile(r"(?:sm[_-]?|compute[_-]?)?(\d{1,2})[._]?(\d)[af]?", re.IGNORECASE)


def rows_called(name: str) -> Iterator[Explanation]:
    """Rows of every kind that answer to the name."""
    wanted = name.lower()
    for kind in KINDS:
        if kind == "models":
            model_row = catalog.find_model(name)
            if model_row is not None:
                yield explain_row(kind, model_row)
            continue
        for row in rows_mentioning(kind, wanted.rpartition(" ")[2]).values():
            if wanted in _called(row):
                yield explain_row(kind, row)
    if catalog.find("boxes", name) is None and catalog.find("gpus", name) is None and (box := catalog.find_box(name)):
        yield explain_row("boxes", box)  # so many of a GPU


def engine_names() -> tuple[str, ...]:
    """Engines that rows speak of, which are more than Upright starts."""
    return (*_ENGINE_WORDS, *(name for name in extensions() if name not in _ENGINE_WORDS))


def flags_recorded(name: str) -> Iterator[Explanation]:
    """A flag that some build takes, and that no row explains."""
    if not name.startswith("-"):
        return
    for engine in engine_names():
        if any(name in row.flags for row in catalog.flags(engine)):
            continue
        takers = versions_taking(engine, name)
        if takers:
            yield Explanation(
                kind=f"flag of {engine}",
                name=name,
                what=f"A flag that {engine} takes; nobody has explained it here yet.",
                facts=(("recorded in", version_span(engine, takers)),),
                do=("read the engine's own --help; a row in your catalogue/flags would explain it here",),
                sources=(f"{engine} {takers[-1]}, its own parser",),
            )


def variables(name: str) -> Iterator[Explanation]:
    """An environment variable that cures something."""
    cures = [
        (row, remedy)
        for row in catalog.failures()
        for remedy in row.remedies
        if remedy.do in ("set_env", "unset_env") and remedy.name == name
    ]
    if cures:
        yield Explanation(
            kind="environment variable",
            name=name,
            what=f"Set or taken out to cure {', '.join(row.id for row, _ in cures)}.",
            do=tuple(f"{row.id}: {name}={remedy.value or '(unset)'}: {remedy.why}" for row, remedy in cures),
            see=tuple(row.id for row, _ in cures),
            sources=tuple(dict.fromkeys(source for row, _ in cures for source in row.sources)),
        )


def fields(name: str) -> Iterator[Explanation]:
    """A record, a part of one, or a field by its path: Plan.kv.capacity_tokens."""
    for place in find_fields(name):
        yield _field(place)


def explain_compute_capability(name: str) -> Iterator[Explanation]:
    """A compute capability: which GPUs have it, and what does not work there."""
    match = _CAPABILITY.fullmatch(name)
    capability = f"{match[1]}.{match[2]}" if match else None
    gpus = [row for row in catalog.gpus() if row.compute_capability == capability]
    if not gpus or capability is None:
        return
    shared = gpus[0].shared_memory_block_bytes
    trouble = [
        row
        for engine in engine_names()
        for row in catalog.compat(engine, None, capability, patched=False)
        if row.status != "works"
    ]
    yield Explanation(
        kind="compute capability",
        name=capability,
        title=f"SM {capability}",
        what=f"The generation of {', '.join(row.id for row in gpus)}. A block has {shared:,} bytes of shared memory.",
        matters="Backends accept or refuse a GPU by this number: 12.0 is not 10.0, although both are Blackwell.",
        facts=tuple((row.status, f"{row.engine} {row.versions}: {row.feature} ({row.id})") for row in trouble),
        see=tuple(row.id for row in gpus),
        sources=tuple(dict.fromkeys(gpu.shared_memory_block_kib.source for gpu in gpus)),
    )


def engines(name: str) -> Iterator[Explanation]:
    """An engine: what the catalogue knows of it."""
    for engine in engine_names():
        if name.lower() == engine:
            versions = version_span(engine, recorded_versions(engine))
            yield Explanation(
                kind="engine",
                name=engine,
                what=_ENGINE_WORDS.get(engine) or f"An engine that the package {extensions()[engine].package} brings.",
                facts=(
                    ("flags recorded from", versions),
                    ("flags explained", str(len(catalog.flags(engine)))),
                    ("failures known", str(len(catalog.failures(engine)))),
                    ("compatibility", f"{len(catalog.compat(engine))} rows"),
                ),
                do=(f"upright catalog list flags --match {engine}", f"upright catalog list compat --match {engine}"),
                sources=("upright's catalogue",),
            )


def lines(name: str, parts: bool = False) -> Iterator[Explanation]:
    """A line of a log: the failure that it means, or with *parts* what knows no more than the part."""
    if " " not in name or {name, name.lower().replace(" ", "-")} & rows("failures").keys():
        return
    for row in catalog.failures():
        if (row.where == "part") == parts and row.matches(name):
            yield explain_row("failures", row)


def citations(name: str) -> Iterator[Explanation]:
    """An issue or a pull request: the rows that cite it."""
    if (reference := _REFERENCE.fullmatch(name)) is None:
        return
    repository, number = reference["repository"].lower(), reference["number"]
    place = re.compile(
        rf"https://github\.com/(?P<where>[\w./-]*\b{re.escape(repository)}/(?:issues|pull|discussions)/{number})\b",
        re.IGNORECASE,
    )
    found = [
        (kind, row, cited["where"])
        for kind in KINDS
        if kind != "measurements"
        for row in rows_mentioning(kind, number).values()
        if (cited := place.search(row.model_dump_json()))
    ]
    if found:
        yield Explanation(
            kind="issue or pull request",
            name=f"{repository}#{number}",
            what=f"Cited by {len(found)} row{'s' if len(found) > 1 else ''} of the catalogue.",
            parts=tuple((row.id, _row_line(kind, row)) for kind, row, _ in found),
            see=tuple(row.id for _, row, _ in found),
            sources=(f"https://github.com/{found[0][2]}",),
        )


def _row_line(kind: str, row: Row) -> str:
    """What a row is about, in its own words."""
    explained = explain_row(kind, row)
    return f"{explained.kind}: {explained.title or explained.what}"


def every_name() -> Iterator[str]:
    """Names that can be explained, for near matches."""
    for kind in KINDS:
        if kind != "measurements":
            for row in rows(kind).values():
                yield from _spellings(row)
    yield from engine_names()
    for place in find_fields(""):
        yield place.path


def _called(row: Row) -> set[str]:
    return {name.lower() for name in (row.id, *_spellings(row))}


def _spellings(row: Row) -> Iterator[str]:
    flags = cast("tuple[str, ...]", getattr(row, "flags", ()) if isinstance(getattr(row, "flags", ()), tuple) else ())
    if word := getattr(row, "word", None):
        yield word
    elif flags:
        yield from flags
    else:
        yield row.id
    yield from getattr(row, "aliases", ())
    yield from getattr(row, "device_names", ())
    if reference := getattr(row, "reference", None):
        yield reference


def _field(place: FieldPlace) -> Explanation:
    figure = "Figure" in (place.type or "")
    return Explanation(
        kind=place.sort,
        name=place.path,
        what=place.words,
        matters="A number that knows where it came from: value, basis and source; value null says that it is unknown."
        if figure
        else None,
        facts=(
            *((("type", place.type),) if place.type else ()),
            *((("inside", place.around),) if place.around else ()),
        ),
        parts=place.inside,
        see=tuple(f"{place.path}.{name}" for name, _ in place.inside[:1]),
        sources=(place.module,),
    )


_ENGINE_WORDS: dict[str, str] = {
    "vllm": "Serves models from GPU memory to many users; tensor and context parallelism, prefix caching, speculation.",
    "sglang": "Serves models from GPU memory to many users; strong prefix caching, its own attention kernels.",
    "llama.cpp": "Runs GGUF files on anything: GPUs, processors, or both; one program, no Python.",
    "ik_llama.cpp": "A fork of llama.cpp for mixtures with experts in host memory: MLA, better quantisations, faster.",
    "mlx": "Apple's GPUs, by mlx-lm's server: weights in MLX's own packing, a cache that grows as needed.",
    "ktransformers": "Experts in host memory under an SGLang server, with AMX and AVX-512 kernels.",
}
