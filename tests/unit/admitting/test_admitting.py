"""What `scripts/admit` takes and what it refuses: real bundles, really signed, whole or with one thing changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts.admitting import bundles
from tests.unit.evidence.share.tampering import Tree, cells, copied, encoded, seal
from upright.base.errors import RecordError
from upright.evidence.share.signing import BUNDLES, fingerprints, sign
from upright.facts.catalog.loader import rows_of_file
from upright.facts.catalog.rows.words import MeasurementRow
from upright.planning.speed.rows import AskedOf, choose_row

Make = Callable[..., Path]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("author", "other"):
        subprocess.run(("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)), check=True)
    return folder


@pytest.fixture
def keeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout in which nothing was admitted."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bundles, "SENT", tmp_path / "bundles")
    monkeypatch.setattr(bundles, "CATALOGUE", tmp_path / "catalog")
    monkeypatch.setattr(bundles, "TABLE", tmp_path / "catalog/measurements/admitted.csv")
    (tmp_path / "bundles").mkdir()
    (tmp_path / "catalog/measurements").mkdir(parents=True)
    return tmp_path


@pytest.fixture
def make(keeper: Path, keys: Path) -> Make:
    """A recorded run on a box whose memory was measured, signed after it was changed."""

    def made(name: str, change: Callable[[Tree], object] = lambda _: None, signer: str | None = "author") -> Path:
        bundle = copied()
        figure = {"value": 12e9, "basis": "probed", "source": "read by upright probe --measure"}
        bundle["predicate"]["records"]["box"]["memory_bandwidth_measured_bytes_per_second"] = figure
        change(bundle)
        seal(bundle)
        path = keeper / f"bundles/{name}.bundle.json"
        path.write_bytes(encoded(bundle))
        if signer is not None:
            sign(path, keys / signer, BUNDLES)
        return path

    return made


def admit(path: Path) -> bundles.Admissible:
    bundle = bundles.admissible(path, frozenset())
    bundles.TABLE.write_text(bundles.table_with(bundles.measured_rows(bundle)))
    return bundle


def refusal(path: Path, trusted: frozenset[str] = frozenset()) -> str:
    with pytest.raises(RecordError) as refused:
        bundles.admissible(path, trusted)
    return refused.value.message


def test_its_loads_are_rows_that_say_where_they_are_from(make: Make) -> None:
    bundle = admit(make("first"))
    rows = [row for row in rows_of_file("measurements", bundles.TABLE) if isinstance(row, MeasurementRow)]
    assert rows
    loads = {(cell["shape"]["concurrency"], cell["shape"]["prompt_tokens"]) for cell in cells(copied())}
    assert len(rows) == len(loads)
    for row in rows:
        assert bundle.identity in row.sources[0]
        assert "SHA256:" in row.sources[0]
        assert (row.engine, row.gpu, row.gpu_count, row.host_bandwidth) == ("llama.cpp", "none", 0, "12.0 measured")
        assert row.decode_tokens_per_second is not None
        assert row.decode_tokens_per_second < 1e5


def test_it_is_admitted_once(make: Make) -> None:
    first = admit(make("first"))
    assert refusal(first.path) == f"it was admitted before, as {first.group}"


def test_a_copy_under_another_key_is_no_other_run(make: Make) -> None:
    def later(bundle: Tree) -> None:
        bundle["predicate"]["made_at"] = "2031-01-01T00:00:00Z"

    first = admit(make("first"))
    assert refusal(make("copy", later, "other")) == f"its samples are a copy of those of {first.group}"


def test_a_forged_one_is_refused(make: Make) -> None:
    def faster(bundle: Tree) -> None:
        cells(bundle)[0]["output_tokens_per_second"] *= 2

    assert refusal(make("forged", faster)).startswith("broken: ")


def test_one_that_was_changed_after_it_was_signed_is_refused(make: Make) -> None:
    path = make("changed")
    path.write_bytes(path.read_bytes().replace(b'"repeats":2', b'"repeats":9', 1))
    assert refusal(path) == "broken: the signature is not of these bytes"


def test_a_truncated_one_is_refused(make: Make, keeper: Path) -> None:
    path = make("cut")
    path.write_bytes(path.read_bytes()[:-1000])
    done = subprocess.run(
        (sys.executable, ROOT / "scripts/admit", path), capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 1, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("refused: cut.bundle.json: ")


def test_one_that_carries_a_secret_is_refused(make: Make) -> None:
    def leaks(bundle: Tree) -> None:
        bundle["predicate"]["records"]["model"]["name"] = "hf_" + "aB3dE6gH9j" * 3 + "kLmN"

    assert "token" in refusal(make("leaking", leaks)).lower()


def test_an_unsigned_one_is_refused(make: Make) -> None:
    assert refusal(make("unsigned", signer=None)) == "it is unsigned: nobody stands for it"


def test_with_keys_another_signer_is_refused(make: Make, keys: Path) -> None:
    path, trusted = make("first"), fingerprints(keys / "other.pub")
    assert "not by a key that was asked for" in refusal(path, trusted)


def test_a_machines_constants_hold_for_that_machine_and_model(keeper: Path) -> None:
    folder = keeper / "home/catalog/speeds"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text(
        "- {id: of-a-machine, engine: llama.cpp, wires: [one, pcie, nvlink], capability: '==none', machine: this one,"
        " home: {shapes: [Tiny 2x64], formats: [gguf 8 bits], users: 1, context_tokens: 64}, basis: measured,"
        " constants: {layer_us: 1.0, weight_efficiency: 0.5, hop_us: 1.0, collective_gb_s: 1.0, exchange_us: 1.0,"
        " cache_efficiency: 0.5}, why: a test, grade: A, sources: [a test]}\n"
    )

    def chosen(asked: AskedOf | None) -> bool:
        found = choose_row("llama.cpp", None, None, "one", asked=asked)
        assert found is not None
        return found.row.id == "of-a-machine"

    assert chosen(AskedOf("this one", "Tiny 2x64", "gguf 8 bits"))
    assert not chosen(AskedOf("another", "Tiny 2x64", "gguf 8 bits"))
    assert not chosen(AskedOf("this one", "Large 60x7168", "gguf 8 bits"))
    assert not chosen(AskedOf("this one", "Tiny 2x64", "gguf 4 bits"))
    assert not chosen(None)
