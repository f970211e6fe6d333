"""The linters of rows and of text notice what they are there for; over all rows and files they run in .ci/run."""

from __future__ import annotations

import ast

import pytest

from scripts.linting import files, rows, text
from tests.conftest import ROOT
from upright.engines import ENGINES, OURS
from upright.facts import catalog
from upright.facts.catalog.rows.base import Row


def test_a_row_without_a_source_is_noticed() -> None:
    row = catalog.rows("gpus")["rtx-5090"]
    assert not list(rows.unsourced(row))
    assert list(rows.unsourced(row.model_copy(update={"sources": (" ",)}))) == ["has no source"]


def test_a_mistyped_width_is_noticed() -> None:
    row = next(model for model in catalog.models() if model.shape is not None and not list(rows.shape_fits(model)))
    assert row.shape is not None
    wide = row.shape.model_copy(update={"hidden_size": row.shape.hidden_size * 10})
    assert list(rows.shape_fits(row.model_copy(update={"shape": wide})))


def test_two_rows_that_claim_a_line_and_a_row_that_alarms_at_health_are_noticed() -> None:
    row = catalog.rows("failures")["vllm-deepgemm-missing"]
    other = row.model_copy(update={"id": "another"})
    assert any("another" in fault for fault in rows.failures([row, other]))
    loud = row.model_copy(update={"pattern": "Application startup complete", "seen": "none"})
    assert any("healthy line" in fault for fault in rows.failures([_anew(loud)]))


def test_a_release_of_anothers_is_noticed() -> None:
    row = catalog.model("kimi-k2.6")
    foreign = row.artifacts[0].model_copy(update={"repository": "somebody/Kimi-K2.6"})
    assert list(rows.first_is_the_makers(row.model_copy(update={"artifacts": (foreign, *row.artifacts[1:])})))


def test_words_that_the_style_forbids_are_noticed() -> None:
    assert len(text.phrases()) > 25
    assert text.unwanted("It keeps experts\n  in Main memory.") == ["main memory", "experts in main memory"]
    assert text.unwanted("seconds in the middle of a question") == []


def test_a_command_that_is_not_there_is_noticed() -> None:
    said = "upright catalog models, then upright plan X --nowhere; upright plan X --box Y or upright wait"
    assert len(list(text.wrong_commands(said))) == 3
    assert list(text.wrong_commands("upright share replay X --flag --threads=1")) == []
    assert list(text.wrong_commands("upright share replay X --threads=1"))


@pytest.mark.parametrize("path", ["src/upright/engines/vllm/constraints.yaml", "docs/refusals.md", "README.md"])
def test_every_place_that_speaks_to_people_is_looked_at(path: str) -> None:
    assert ROOT / path in text.files()


@pytest.mark.parametrize(
    "source",
    [
        'engine == "vllm"',
        "from upright.engines.vllm import flags",
        "from upright.engines import sglang",
        "engine is engines.VLLM",
        "def _llama_words(): ...",
        'help = f"ask {x}: a llama-server"',
        "def f(vllm): ...",
        "f(vllm=1)",
    ],
)
def test_an_engine_that_is_spelled_is_noticed(source: str) -> None:
    assert list(text.engines_spelled(ast.parse(source)))


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_that_is_spelled_is_noticed(name: str) -> None:
    assert list(text.engines_spelled(ast.parse(f"engine == {name!r}")))


@pytest.mark.parametrize("name", ["ktransformers", "mlx"])
def test_an_engine_that_no_other_is_built_on_is_spelled_in_its_folder_alone(name: str) -> None:
    """Beyond the engines `scripts/lint-text` sees to it; among them forks take words from what they are built on."""
    engines = ROOT / "src/upright/engines"
    spelling = {
        file.relative_to(engines).parts[0]
        for file in engines.rglob("*.py")
        if any(name in spelled.lower() for _, spelled in text.engines_spelled(ast.parse(file.read_text())))
    }
    assert spelling == {OURS[name], "__init__.py"}


@pytest.mark.parametrize("source", ['"""What vLLM calls it."""', "x: int\n'''In GiB, as SGLang writes.'''", "# vllm"])
def test_documentation_may_name_engines(source: str) -> None:
    assert not list(text.engines_spelled(ast.parse(source)))


def test_yaml_that_is_parsed_elsewhere_is_noticed() -> None:
    assert list(text.yaml_parsed(ast.parse("import yaml\nyaml.safe_load('on: 1')"))) == [2]


def _anew(row: Row) -> Row:
    """Validated, so that what was compiled of its pattern is its own."""
    return type(row).model_validate(row.model_dump())


@pytest.mark.parametrize(
    "line",
    [
        "open(path)", "path.open()", "Path(name).open('rb')", "path.read_text(encoding='utf-8')",
        "(a / 'b').read_bytes()",
        "os.open(path, os.O_RDONLY)", "json.load(stream)", "json.loads(text)", "tarfile.open(path)", "gzip.open(path)",
        "zlib.decompress(content)", "pickle.load(stream)", "path.write_text(text, encoding='utf-8')",
        "path.open('w', encoding='utf-8')", "files('upright.facts').joinpath('a.yaml').read_text()",
        "subprocess.run(argv, text=True)",
    ],
)  # fmt: skip
def test_a_file_that_is_opened_beside_the_doors_is_noticed(line: str) -> None:
    assert list(files.opened(ast.parse(line))), line


def test_no_reason_lets_an_archive_be_opened_by_its_name() -> None:
    """A pipe held `bundle --read` for ever, in a module that had a reason to call it."""
    by_name, of_a_file = (
        [why for _, _, why in files.opened(ast.parse(f"tarfile.open({given})"))] for given in ("path", "fileobj=file")
    )
    assert by_name == [files.BY_NAME]
    assert of_a_file != by_name


@pytest.mark.parametrize(
    "line",
    [
        "file_bytes(path)", "files('upright.facts').joinpath('a.yaml').read_text(encoding='utf-8')",
        "Path('/proc/self/stat').read_bytes()", "(Path(__file__).parent / 'a.yaml').read_text('utf-8')",
        "os.open(path, os.O_RDWR | os.O_CREAT)", "rules.open(layouts, dtype)", "self._host.read_text('/proc/meminfo')",
        "subprocess.run(argv, encoding='utf-8')",
    ],
)  # fmt: skip
def test_what_is_ours_needs_no_door(line: str) -> None:
    assert not list(files.opened(ast.parse(line))), line
