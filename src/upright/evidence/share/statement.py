"""Bytes <-> a Statement: an in-toto statement about a recipe, in the one spelling of its JSON.

A bundle's identity is the sha256 of its bytes, so two spellings of one content would be two bundles: only the canonical
one is read. It comes from somebody else: size, values and depth are bounded, and unknown names are refused.
"""

from __future__ import annotations

import errno
import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from upright.base.bounds.bounded_json import parse_peer_json
from upright.base.bounds.errors import ExceededError
from upright.base.bounds.files import file_bytes
from upright.base.errors import RecordError
from upright.base.units import format_size
from upright.base.untrusted_text import on_one_line
from upright.evidence.bundle.manifest import Redaction
from upright.facts.records.base import Json, Part, canonical
from upright.facts.records.evidence import Verdict
from upright.facts.records.names import SafeName

STATEMENT: Literal["https://in-toto.io/Statement/v1"] = "https://in-toto.io/Statement/v1"
PREDICATE: Literal["urn:upright:evidence:v1"] = "urn:upright:evidence:v1"
ClaimedMetric = Literal["output", "total", "user", "ttft", "ttft_p99", "tpot", "latency"]
MOST_BYTES = 16 << 20
"""Of a bundle: a hundred thousand requests fit."""


class StatedSubject(Part):
    """What the statement is about."""

    name: SafeName
    """`recipe`, and the model's name."""
    digest: dict[Literal["sha256"], str]
    """The digest of the recipe in the predicate."""


class Shard(Part):
    """A file of weights."""

    name: SafeName
    """Inside the repository or folder."""
    size_bytes: int
    """Its length."""
    sha256: str | None
    """Of its content; None if nobody computed it."""


class SharedModel(Part):
    """Which weights."""

    name: SafeName
    """As people call it."""
    repository: SafeName | None
    """On the hub; None of files that came from elsewhere."""
    revision: SafeName | None
    """Its commit."""
    shards: tuple[Shard, ...]
    """Every file that holds tensors."""


class SharedEngine(Part):
    """Which program."""

    name: SafeName
    """Which engine."""
    version: SafeName | None
    """Its version."""
    commit: SafeName | None
    """Its commit, if it was built from one."""
    image: SafeName | None
    """The container image, with its digest if it was pinned."""


class SharedBox(Part):
    """Which kind of machine; never which machine."""

    kind: SafeName
    """`8x NVIDIA RTX PRO 6000` or the processor's name."""
    gpu: SafeName | None
    """The catalogue's row of its GPUs, or their name."""
    gpus: int
    """How many."""
    driver: SafeName | None
    """The driver's version."""
    cuda: SafeName | None
    """The newest CUDA that the driver serves."""
    nccl: SafeName | None
    """The version of NCCL that the engine's log names."""
    topology: dict[str, int]
    """Kinds of path between two GPUs, and how many pairs have it."""
    box_id: str | None
    """sha256 of the machine's number and a secret of its owner: tells two boxes apart, and names neither."""


class Headline(Part):
    """One figure that the bundle claims: a mean over the repeats of one shape."""

    run: SafeName
    """The benchmark's run."""
    shape: str
    """The shape, in words."""
    metric: ClaimedMetric
    """As `upright bench` names it."""
    unit: str
    """tok/s or s."""
    figure: float
    """The mean."""
    repeats: int
    """Of how many cells."""


class Publication(Part):
    """Where a claim was published, if it is not the bundle's author's own measurement."""

    title: str
    """Of the publication."""
    at: str
    """Its date."""
    sha256: str
    """Of the text that the facts were taken from; of facts that are rows of the catalogue, of these rows."""
    url: str | None = None
    """Where it was published, if that is known."""


class ClaimedTable(Part):
    """A table of a publication: figures without raw data."""

    title: str
    """What it is about, in our words."""
    columns: tuple[str, ...]
    """Their headings."""
    rows: tuple[tuple[str, ...], ...]
    """Cells as published."""


class Predicate(Part):
    """What is claimed of the recipe, and everything that it is derived from."""

    format: Literal[1] = 1
    """Of this predicate."""
    made_at: str
    """When the bundle's newest evidence was made (UTC, ISO 8601)."""
    detectors: dict[str, str]
    """What judged: Upright's version, the prompt set and the guards by their digests."""
    source: Publication | None = None
    """The publication that the claim is taken from; None of one's own measurements."""
    replays: tuple[str, ...] = ()
    """Identities of the bundles that this one repeats."""
    model: SharedModel
    """Which weights."""
    engine: SharedEngine
    """Which program."""
    box: SharedBox
    """Which kind of machine."""
    headlines: tuple[Headline, ...] = ()
    """What is claimed to have been measured."""
    ladder: dict[str, Verdict] = Field(default_factory=dict)
    """Each rung's verdict."""
    records: dict[str, Json] = Field(default_factory=dict)
    """box, model, plan, recipe, residuals, evidence: records without names and paths, chained by their digests."""
    benchmarks: tuple[Json, ...] = ()
    """Every benchmark of this recipe, with the samples of its cells."""
    log: tuple[str, ...] = ()
    """Lines of the engine's log that say what it took and how long it worked."""
    tables: tuple[ClaimedTable, ...] = ()
    """Of a publication."""
    redactions: tuple[Redaction, ...] = ()
    """What was taken out, never its value."""


class Statement(Part):
    """in-toto's envelope."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True, serialize_by_alias=True
    )

    type: Literal["https://in-toto.io/Statement/v1"] = Field(STATEMENT, alias="_type")
    """What kind of statement."""
    subject: tuple[StatedSubject, ...]
    """The recipe."""
    predicateType: Literal["urn:upright:evidence:v1"] = PREDICATE  # noqa: N815 - in-toto's own name
    """What kind of predicate."""
    predicate: Predicate
    """The claim."""

    def encoded(self) -> bytes:
        return canonical(self.model_dump(mode="json"))

    @property
    def identity(self) -> str:
        return identity_of(self.encoded())


def identity_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def read_bytes(path: Path) -> bytes:
    """The file, unless it is longer than any bundle."""
    try:
        return file_bytes(path, MOST_BYTES)
    except OSError as error:
        told = f"it is longer than {format_size(MOST_BYTES)}" if error.errno == errno.EFBIG else error.strerror
        raise RecordError(f"{path} cannot be read: {told}", hint="no bundle is so long") from None


def read_statement(content: bytes, where: str) -> Statement:
    """RecordError says what is wrong with it; nothing in it has been believed yet."""
    try:
        tree = parse_peer_json(content)
    except ExceededError as error:
        raise RecordError(f"{where} is refused: it {error}") from None
    except ValueError:
        raise RecordError(f"{where} is no bundle: it is not JSON", hint="upright share bundle --statement") from None
    if not isinstance(tree, dict) or tree.get("_type") != STATEMENT:
        raise RecordError(f"{where} is no bundle: it is not an in-toto statement") from None
    _refuse_other_spelling(content, tree, where)
    try:
        return Statement.model_validate(tree)
    except (ValidationError, RecordError, RecursionError) as error:
        raise RecordError(f"{where} is no bundle that this version reads: {_first(error)}") from None


def _refuse_other_spelling(content: bytes, tree: Any, where: str) -> None:
    try:
        same = canonical(tree) == content
    except (ValueError, UnicodeEncodeError):
        same = False
    if not same:
        raise RecordError(
            f"{where} is refused: it is not canonical JSON, so its digest names nothing",
            hint="sorted names, no spaces, whole numbers without a point, no line feed at its end",
        )


def _first(error: Exception) -> str:
    if isinstance(error, ValidationError):
        problem = error.errors()[0]
        place = ".".join(on_one_line(str(part), 60) for part in problem["loc"])
        return on_one_line(f"{place}: {problem['msg']}")
    return on_one_line(str(error))
