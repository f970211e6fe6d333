"""One loader: lazy, overlaid by the user's rows, exact about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from upright.base.errors import CatalogError
from upright.facts import catalog
from upright.facts.catalog import loader

BOX = """
id: {id}
name: mine
gpu: rtx-5090
gpu_count: 3
nvlinks: 0
grade: A
sources: [I built it]
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    folder = tmp_path / "catalog/boxes"
    folder.mkdir(parents=True)
    return folder


def test_a_row_of_the_user_is_added(mine: Path) -> None:
    (mine / "basement.yaml").write_text(BOX.format(id="basement"))
    row = catalog.box("basement")
    assert (row.gpu_count, row.owner, row.file) == (3, "user", str(mine / "basement.yaml"))
    assert catalog.box("hgx-b200").owner == "upright"


def test_a_row_of_the_user_replaces_ours(mine: Path) -> None:
    (mine / "x.yaml").write_text(BOX.format(id="hgx-b200"))
    assert catalog.box("hgx-b200").gpu_count == 3
    assert sum(row.id == "hgx-b200" for row in catalog.boxes()) == 1


def test_a_model_of_the_user_replaces_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    folder = tmp_path / "catalog/models"
    folder.mkdir(parents=True)
    ours = (loader.OURS / "models/kimi-k2.6.yaml").read_text()
    (folder / "kimi.yaml").write_text(ours.replace("name: Kimi K2.6", "name: My Kimi"))
    assert catalog.model("moonshotai/kimi-k2.6").name == "My Kimi"
    assert catalog.rows("models")["kimi-k2.6"].owner == "user"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("gpu_count: 3", "gpu_count: three"), ["row basement", "gpu_count", "integer"]),
        (("nvlinks: 0", "nvlink: 0"), ["row basement", "nvlinks", "required"]),
        (("sources: [I built it]", ""), ["row basement", "sources", "required"]),
        (("name: mine", "name: mine\nowner: upright"), ["row basement", "owner", "loader"]),
        (("name: mine", "name: [mine"), ["is not YAML"]),
    ],
)
def test_a_wrong_row_is_named_with_file_and_field(mine: Path, change: tuple[str, str], words: list[str]) -> None:
    file = mine / "basement.yaml"
    file.write_text(BOX.format(id="basement").replace(*change))
    with pytest.raises(CatalogError) as caught:
        catalog.boxes()
    assert str(file) in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_the_same_id_twice_in_one_file_is_refused(mine: Path) -> None:
    two = [line if line else "" for line in BOX.format(id="twin").splitlines()]
    block = "\n".join("  " + line for line in two if line)
    (mine / "twins.yaml").write_text(f"-\n{block}\n-\n{block}\n")
    with pytest.raises(CatalogError, match="row twin: the id is there twice"):
        catalog.boxes()


def test_an_unknown_name_gets_near_ones() -> None:
    with pytest.raises(CatalogError) as caught:
        catalog.gpu("rtx-5095")
    assert "rtx-5090" in (caught.value.hint or "")
    with pytest.raises(CatalogError, match="no such kind: cars"):
        catalog.rows("cars")


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("kimi-k2.6", "kimi-k2.6"),
        ("moonshotai/Kimi-K2.6", "kimi-k2.6"),
        ("Kimi-K2.6", "kimi-k2.6"),
        ("k2.6", "kimi-k2.6"),
        ("unsloth/Kimi-K2.6-GGUF:UD-Q2_K_XL", "kimi-k2.6"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3"),
    ],
)
def test_a_model_answers_to_its_names(name: str, row: str) -> None:
    assert catalog.model(name).id == row


def test_a_gpu_is_found_by_what_the_driver_calls_it() -> None:
    found = catalog.find_gpu("NVIDIA RTX PRO 6000 Blackwell Server Edition")
    assert found is not None
    assert (found.id, found.compute_capability, found.shared_memory_block_bytes) == (
        "rtx-pro-6000-server", "12.0", 101376,
    )  # fmt: skip
    assert catalog.find_gpu("NVIDIA GeForce GTX 480") is None


def test_a_word_is_a_word_and_a_number_a_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One dialect, YAML 1.2: `on` and `no` are words, a date is text, in rows as in records."""
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path))
    folder = tmp_path / "catalog/flags"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "id: mine\nengine: vllm\nflags: [--mine]\ndefault: on\nvalue: no\nmeans: 2026-11-16\n"
        "grade: A\nsources: [I saw it]\n"
    )
    (row,) = loader.rows_of_file("flags", folder / "mine.yaml", "user")
    assert (row.default, row.value, row.means) == ("on", "no", "2026-11-16")  # type: ignore[attr-defined]
