"""Rows of every kind are listed, shown and explained by the verbs' own rendering: a drawn few, and all in .ci/full."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from upright.app.cli import catalog as verb
from upright.app.cli import explain as explain_verb
from upright.app.pages import catalog_page
from upright.app.pages.explanation_page import explanation_pages
from upright.base.errors import CatalogError
from upright.facts import catalog
from upright.facts.catalog.explaining import explain, near
from upright.facts.catalog.explaining.rows import explain_row
from upright.facts.catalog.recorded_flags import recorded_versions, versions_taking
from upright.facts.catalog.rows.base import Row
from upright.facts.catalog.versions import in_range
from upright.facts.records.deployment import State
from upright.facts.records.evidence import Verdict
from upright.facts.records.model import Group
from upright.facts.records.plan import Use

SOURCE = Path(verb.__file__).parents[1]


def page() -> Console:
    return Console(file=io.StringIO(), width=80, highlight=False)


def text(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


SHOWN = 60
LONG = [kind for kind in catalog.KINDS if len(catalog.rows(kind)) > SHOWN]


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_rows_are_listed_shown_and_explained(kind: str) -> None:
    rows = list(catalog.rows(kind).values())
    assert rows, f"no rows of {kind}"
    _assert_shown(kind, random.Random(len(rows)).sample(rows, min(SHOWN, len(rows))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", LONG)
def test_every_row_is_listed_shown_and_explained(kind: str) -> None:
    _assert_shown(kind, list(catalog.rows(kind).values()))


def _assert_shown(kind: str, rows: list[Row]) -> None:
    listed = page()
    catalog_page.rows_page(listed, kind, rows)
    listing = text(listed)
    for row in rows:
        assert row.id in listing
        shown = page()
        catalog_page.row_page(shown, row)
        assert row.id in text(shown)
        assert "source  " in text(shown)
        told = page()
        each = explain_row(kind, row)
        explanation_pages(told, (each,))
        assert len(each.what.split()) >= 3, f"{kind} {row.id} says nothing"
        assert "Sources" in text(told)


@pytest.mark.parametrize("kind", list(catalog.KINDS))
def test_a_listing_has_columns_that_the_rows_have(kind: str) -> None:
    known = set(catalog.KINDS[kind].row_class().model_fields)
    assert set(catalog_page.COLUMNS[kind]) <= known


@pytest.mark.parametrize("engine", ["vllm", "sglang", "llama.cpp", "ik_llama.cpp"])
def test_every_explained_flag_is_taken_by_a_recorded_version_or_says_that_it_is_gone(engine: str) -> None:
    for row in catalog.flags(engine):
        taken = set(versions_taking(engine, row.flags[0]))
        for version in recorded_versions(engine):
            says = row.versions == "*" or (engine != "ik_llama.cpp" and in_range(version, row.versions))
            assert (version in taken) == says, f"{row.id} in {version}"


def test_every_word_of_the_records_is_explained() -> None:
    words = {(row.of, row.word) for row in catalog.terms()}
    from typing import get_args

    from upright.facts.catalog.rows.base import Grade
    from upright.facts.catalog.rows.engine import Status
    from upright.facts.catalog.rows.failure import Severity
    from upright.facts.records.base import Basis

    for of, literal in {
        "basis": Basis, "state": State, "verdict": Verdict, "use": Use, "tensor group": Group, "grade": Grade,
        "severity": Severity, "status": Status,
    }.items():  # fmt: skip
        said = {word for sort, word in words if sort == of or (of, sort) in {("tensor group", "plan term")}}
        missing = set(get_args(literal)) - said
        assert not missing, f"{of}: {missing}"


def test_every_term_and_code_that_plans_use_is_explained() -> None:
    words = {row.word for row in catalog.terms()}
    used: set[str] = set()
    for path in (*(SOURCE / "planning").rglob("*.py"), *(SOURCE / "engines").glob("*.py")):
        used |= set(re.findall(r'\b(?:code|term)="([\w-]+)"', path.read_text()))
    used |= {str(getattr(row, "term", "")) for row in catalog.rows("overheads").values()}
    assert used - words == set()


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("triton-shared-memory", "failure", "101376"),
        ("--decode-context-parallel-size", "flag of vllm", "copy of the cache"),
        ("-ot", "flag of llama.cpp", "first match wins"),
        ("--spec-type", "flag of llama.cpp", "nobody has explained it"),
        ("Plan.kv.capacity_tokens", "field of a record", "Tokens that fit"),
        ("box.gpus", "field of a record", "Empty on a machine without a GPU"),
        ("Box", "record", "A machine"),
        ("kv_cache", "plan term", "keys and values"),
        ("kv", "plan term", "keys and values"),
        ("MLA", "word", "compressed vector"),
        ("dcp", "word", "share one copy"),
        ("out of memory", "word", "allocation was refused"),
        ("gpu-memory-utilization", "flag of vllm", "Share of each GPU"),
        ("NVIDIA GB10", "gpu", "12.1"),
        ("hgx-b200", "box", "upright plan"),
        ("moonshotai/Kimi-K2.6", "model", "100 million monthly active users"),
        ("iq3_k", "GGUF type", "Only ik_llama.cpp"),
        ("vllm-cu130-nightly", "image", "Lambda"),
        ("assumed", "basis", "planner goes on"),
        ("hung", "state", "collective"),
        ("smoke", "rung", "nonsense"),
        ("sm_120", "compute capability", "rtx-5090"),
        ("NCCL_P2P_DISABLE", "environment variable", "proves the cause"),
        ("vllm", "engine", "GPU memory"),
        ("iommu", "host setting", "IOMMU"),
        ("ValueError: Free memory on device (7/139 GiB) on startup is less than desired GPU memory utilization (0.9)",
         "failure", "another process"),
    ],
)  # fmt: skip
def test_explain_knows_names_of_every_kind(name: str, kind: str, words: str) -> None:
    found = [each for each in explain(name) if each.kind == kind]
    assert found, [each.kind for each in explain(name)]
    console = page()
    explanation_pages(console, (found[0],))
    assert words.lower() in re.sub(r"\s+", " ", text(console)).lower()


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(CatalogError) as caught:
        explain("--decode-context-paralel-size")
    assert "--decode-context-parallel-size" in (caught.value.hint or "")
    assert "kimi-k2.6" in near("kimi-k2.7")
    assert near("ooom") == ("OOM",), "a word inside of others is not near to them"
    assert len({name.rpartition(".")[2] for name in near("waited_for_room")}) == len(near("waited_for_room"))
    with pytest.raises(CatalogError, match="nothing is called zzzzzzzzzz"):
        explain("zzzzzzzzzz")


def test_explain_takes_all_its_words_and_knows_our_own_options() -> None:
    said = CliRunner().invoke(explain_verb.command, ["cuda", "out", "of", "memory", "--json"])
    assert '"name": "cuda-out-of-memory"' in said.stdout, said.output
    for name in ("--tp", "host-memory"):
        assert "option of upright" in CliRunner().invoke(explain_verb.command, [name]).stdout


def test_an_address_is_never_broken() -> None:
    console = page()
    explanation_pages(console, explain("--decode-context-parallel-size")[:1])
    assert "rtx6kpro/blob/master/models/kimi-k26-v4.md" in text(console)


@pytest.mark.parametrize(
    ("typed", "row"),
    [
        ("sglang#16975", "sglang-sm120-extend-tiles"),
        ("SGLang PR #16975", "sglang-sm120-extend-tiles"),
        ("https://github.com/sgl-project/sglang/pull/16975", "sglang-sm120-extend-tiles"),
        ("vllm-project/vllm#31936", "attention-backend-none"),
    ],
)
def test_an_issue_is_explained_by_the_rows_that_cite_it(typed: str, row: str) -> None:
    (explanation,) = [one for one in explain(typed) if one.kind == "issue or pull request"]
    assert row in explanation.see
    assert explanation.sources[0].endswith(typed.rpartition("#")[2].rpartition("/")[2])


@pytest.mark.parametrize("typed", ["sglang#1697", "glang#16975", "sglang#99999"])
def test_an_issue_that_no_row_cites_is_not_explained(typed: str) -> None:
    with pytest.raises(CatalogError):
        explain(typed)
