"""A catalogue of others: shown, asked for, taken, taken back; refused wherever a mirror or a row lies."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Upright
from tests.unit.evidence.share.test_index import served
from upright.base.errors import CatalogError, RecordError, UsageError
from upright.evidence.share import catalogue_update
from upright.evidence.share.catalogue_building import build_catalogue
from upright.evidence.share.catalogue_gate import ours
from upright.evidence.share.catalogue_source import MOST_KIND_BYTES, CatalogueHead, KindFile, pin_catalogue
from upright.evidence.share.catalogue_update import offer_of, roll_back, take
from upright.evidence.share.index_head import HEAD
from upright.evidence.share.seals import sealed_file
from upright.evidence.share.signing import CATALOGUES, HEADS
from upright.facts import catalog
from upright.facts.catalog.installed_catalogues import catalogues_folder, taken_versions
from upright.facts.catalog.loader import row_by_id
from upright.facts.records.base import canonical

GPU = "rtx-5090"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("keeper", "stranger"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", folder / name], check=True)
    return folder


def gpu_row(id_: str = GPU, **changed: Any) -> dict[str, Any]:
    """Ours, as a keeper would write it, with changes."""
    row = ours("gpus")[GPU].model_dump(mode="json", exclude={"owner", "file"})
    if id_ != GPU:
        row |= {"id": id_, "name": id_, "device_names": [f"NVIDIA {id_}"], "aliases": []}
    return {**row, **changed}


def faster(id_: str = GPU, gb_s: float = 2000) -> dict[str, Any]:
    return gpu_row(id_, memory_bandwidth_gb_s={"value": gb_s, "grade": "B", "source": "measured"})


class Keeper:
    """Rows, a folder, a key."""

    def __init__(self, place: Path, keys: Path) -> None:
        self.place, self.keys, self.folder = place, keys, place / "catalogue"

    def builds(self, name: str = "lab", **kinds: list[dict[str, Any]]) -> int:
        rows = self.place / "rows"
        shutil.rmtree(rows, ignore_errors=True)
        rows.mkdir()
        for kind, contents in kinds.items():
            (rows / f"{kind}.yaml").write_text(json.dumps(contents))
        return build_catalogue(self.folder, rows, name=name, key=self.keys / "keeper").version

    def signs_anything(self, *, version: int = 1, who: str = "keeper", **kinds: Any) -> None:
        """What `build` would refuse: a keeper who means harm has tools of their own."""
        (self.folder / "rows").mkdir(parents=True, exist_ok=True)
        files = {}
        for kind, contents in kinds.items():
            raw = contents if isinstance(contents, bytes) else json.dumps(contents).encode()
            file = KindFile(
                sha256=_sha256(raw), bytes=len(raw), rows=len(contents) if isinstance(contents, list) else 1
            )
            (self.folder / "rows" / f"{file.sha256}.json").write_bytes(raw)
            files[kind] = file
        head = CatalogueHead(name="lab", version=version, at="2026-11-16", kinds=files)
        (self.folder / HEAD).write_bytes(sealed_file(head, self.keys / who, CATALOGUES))


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


@pytest.fixture
def keeper(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Keeper:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    return Keeper(tmp_path, keys)


@pytest.fixture
def untried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plans in another process, where a test is about something else."""
    monkeypatch.setattr(catalogue_update, "changed_plans", lambda *_: ())


def pinned(keeper: Keeper, url: str | None = None, name: str = "lab", who: str = "keeper") -> None:
    pin_catalogue(name, url or str(keeper.folder), keeper.keys / f"{who}.pub")


def bandwidth() -> float | int | None:
    row = row_by_id("gpus", GPU)
    assert row is not None
    return catalog.gpu(GPU).memory_bandwidth_gb_s.value


def test_an_honest_update_is_shown_taken_and_taken_back(keeper: Keeper, upright: Upright) -> None:
    before = bandwidth()
    keeper.builds(gpus=[faster(), gpu_row("rtx-9999")])
    with served(keeper.folder) as (url, asked):
        upright("catalog", "add", "lab", url, "--key", str(keeper.keys / "keeper.pub"))
        shown = upright("catalog", "update")
        assert shown.returncode == 1
        assert "rows: 1 new, 1 changed" in shown.stdout
        assert f"memory_bandwidth_gb_s.value: {before} -> 2000" in shown.stdout
        assert f"gpus/{GPU} (over a row of ours)" in shown.stdout
        assert "plan of gpt-oss-120b on" in shown.stdout, "a plan that moves is named with both figures"
        assert "not taken" in shown.stderr
        assert "upright catalog update lab --yes" in shown.stderr
        assert bandwidth() == before
        told = json.loads(upright("catalog", "update", "--yes", "--json").stdout)
        assert (told["version"], told["present"], told["taken"], len(asked)) == (1, None, True, 3)
    assert bandwidth() == 2000
    page = upright("catalog", "show", "gpus", GPU).stdout
    assert "row from catalogue lab version 1" in page
    assert "row from catalogue lab version 1: measured (grade B)" in page
    assert "+ row from catalogue lab version 1" in upright("catalog", "list", "gpus").stdout
    assert "row from catalogue lab version 1" in upright("probe", "8x-rtx-9999", "--json").stdout
    assert "none of its rows is read any more" in upright("catalog", "rollback").stdout
    assert bandwidth() == before
    with pytest.raises(CatalogError):
        catalog.gpu("rtx-9999")


def test_rollback_goes_one_version_back_and_update_offers_it_again(keeper: Keeper, untried: None) -> None:
    for gb_s in (2000, 2100):
        keeper.builds(gpus=[faster(gb_s=gb_s)])
        pinned(keeper)
        take(offer_of("lab"))
    assert bandwidth() == 2100
    assert roll_back(None)[1:] == (2, 1)
    assert bandwidth() == 2000
    offer = offer_of(None)
    assert not offer.is_taken
    assert [(field.before, field.after) for change in offer.changes for field in change.fields] == [(2000, 2100)]
    take(offer)
    assert (bandwidth(), offer_of(None).is_taken, offer_of(None).changes) == (2100, True, ())


def test_what_is_removed_is_shown_and_ours_is_read_again(keeper: Keeper, untried: None) -> None:
    before = bandwidth()
    keeper.builds(gpus=[faster(), gpu_row("rtx-9999")])
    pinned(keeper)
    take(offer_of("lab"))
    term = {"id": "widget", "word": "widget", "of": "word", "about": "a word", "matters": "not much"}
    keeper.builds(terms=[{**term, "grade": "B", "sources": ["x"]}])
    offer = offer_of("lab")
    assert {(change.id, change.change, change.over) for change in offer.changes} == {
        (GPU, "removed", "upright"), ("rtx-9999", "removed", None), ("widget", "new", None),
    }  # fmt: skip
    take(offer)
    assert bandwidth() == before


def test_a_row_of_ones_own_stays(keeper: Keeper, untried: None) -> None:
    keeper.builds(gpus=[faster()])
    pinned(keeper)
    folder = catalogues_folder().parent / "catalog" / "gpus"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(json.dumps([faster(gb_s=1234)]))
    offer = offer_of("lab")
    assert [change.over for change in offer.changes] == ["user"]
    take(offer)
    assert bandwidth() == 1234


def test_what_was_read_is_taken_without_a_network(keeper: Keeper, untried: None) -> None:
    keeper.builds(gpus=[faster()])
    with served(keeper.folder) as (url, _):
        pinned(keeper, url)
        with pytest.raises(UsageError, match="never read here"):
            offer_of("lab", offline=True)
        offer_of("lab")
    offer = offer_of("lab", offline=True)
    assert (offer.reading.files, offer.reading.offline) == (0, True)
    take(offer)
    assert bandwidth() == 2000


def test_nothing_unsigned_is_taken_even_from_a_folder(keeper: Keeper) -> None:
    keeper.builds(gpus=[faster()])
    content = json.loads((keeper.folder / HEAD).read_bytes())
    pinned(keeper)
    (keeper.folder / HEAD).write_bytes(canonical({**content, "signature": None}))
    with pytest.raises(RecordError, match="unsigned"):
        offer_of("lab")


def another_key(keeper: Keeper) -> None:
    keeper.signs_anything(who="stranger", version=2, gpus=[faster(gb_s=1)])


def an_index_key(keeper: Keeper) -> None:
    head = CatalogueHead(name="lab", version=2, at="2026-11-16", kinds={})
    (keeper.folder / HEAD).write_bytes(sealed_file(head, keeper.keys / "keeper", HEADS))


def an_older_version(keeper: Keeper) -> None:
    keeper.signs_anything(version=1, gpus=[faster(gb_s=1)])


def two_heads(keeper: Keeper) -> None:
    keeper.signs_anything(version=2, gpus=[faster(gb_s=1)])


def another_catalogue(keeper: Keeper) -> None:
    head = CatalogueHead(name="nightly", version=9, at="2026-11-16", kinds={})
    (keeper.folder / HEAD).write_bytes(sealed_file(head, keeper.keys / "keeper", CATALOGUES))


def rows_of_another_version(keeper: Keeper) -> None:
    keeper.signs_anything(version=3, gpus=[faster(gb_s=1)])
    head = json.loads((keeper.folder / HEAD).read_bytes())["signed"]
    new = keeper.folder / "rows" / f"{head['kinds']['gpus']['sha256']}.json"
    old = next(file for file in new.parent.iterdir() if file != new)
    new.write_bytes(old.read_bytes()[: new.stat().st_size])


def rows_that_are_gone(keeper: Keeper) -> None:
    keeper.signs_anything(version=3, gpus=[faster(gb_s=1)])
    shutil.rmtree(keeper.folder / "rows")


def a_changed_signature(keeper: Keeper) -> None:
    keeper.builds(gpus=[faster(gb_s=1)])
    content = json.loads((keeper.folder / HEAD).read_bytes())
    content["signed"]["version"] = 7
    (keeper.folder / HEAD).write_bytes(canonical(content))


LIES: dict[Callable[[Keeper], None], str] = {
    another_key: "that key is not pinned",
    an_index_key: "not of these bytes",
    an_older_version: "version 1, and 2 was seen before",
    two_heads: "two different heads are version 2",
    another_catalogue: "it was lab, and this is nightly",
    rows_of_another_version: "not what the signed head names",
    rows_that_are_gone: "404",
    a_changed_signature: "not of these bytes",
}


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_lying_mirror_is_refused_and_nothing_moves(keeper: Keeper, untried: None, lie: Any) -> None:
    for gb_s in (1900, 2000):
        keeper.builds(gpus=[faster(gb_s=gb_s)])
    with served(keeper.folder) as (url, _):
        pinned(keeper, url)
        take(offer_of("lab"))
        lie(keeper)
        with pytest.raises(RecordError, match=LIES[lie]):
            offer_of("lab")
    assert (bandwidth(), [taken.version for taken in taken_versions()]) == (2000, [2])


@pytest.mark.parametrize("place", ["head", "rows"])
def test_endless_data_is_cut(keeper: Keeper, place: str) -> None:
    keeper.builds(gpus=[faster()])
    name = HEAD if place == "head" else f"rows/{next((keeper.folder / 'rows').iterdir()).name}"
    with served(keeper.folder, endless=frozenset({name})) as (url, _):
        pinned(keeper, url)
        with pytest.raises(RecordError, match=r"more than|longer"):
            offer_of("lab")


def test_a_head_may_not_promise_more_than_any_file_has(keeper: Keeper) -> None:
    with pytest.raises(ValueError, match="less than or equal"):
        KindFile(sha256="0" * 64, bytes=MOST_KIND_BYTES + 1, rows=1)


def test_a_row_that_breaks_a_plan_is_refused_by_trying(keeper: Keeper) -> None:
    keeper.builds(gpus=[faster(gb_s=0)])
    pinned(keeper)
    with pytest.raises(RecordError, match=r"the update is refused: the plan of gpt-oss-120b on \S+ breaks: "):
        offer_of("lab")
    assert taken_versions() == ()


def test_an_interrupted_update_has_not_happened(keeper: Keeper, untried: None, monkeypatch: pytest.MonkeyPatch) -> None:
    keeper.builds(gpus=[faster(gb_s=1900)])
    pinned(keeper)
    take(offer_of("lab"))
    keeper.builds(gpus=[faster()])
    offer = offer_of("lab")

    def power_cut(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(catalogue_update, "write_atomically", power_cut)
        with pytest.raises(KeyboardInterrupt):
            take(offer)
    assert bandwidth() == 1900
    take(offer_of("lab"))
    assert bandwidth() == 2000


def test_a_killed_update_has_not_happened(keeper: Keeper) -> None:
    """A server that stops in the middle of the rows, and a reader that is killed there."""
    keeper.builds(gpus=[faster()])
    before, asked, answer = bandwidth(), threading.Event(), threading.Event()

    class Stalls(dict[str, bytes]):
        def get(self, name: str, default: Any = None) -> Any:
            if name.startswith("rows/"):
                asked.set()
                answer.wait(60)
            return default

    with served(keeper.folder, lies=Stalls()) as (url, _):
        pinned(keeper, url)
        command = [sys.executable, "-m", "upright", "catalog", "update", "--yes"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert asked.wait(60)
        process.send_signal(signal.SIGKILL)
        process.wait()
        answer.set()
    assert (bandwidth(), taken_versions()) == (before, ())
    assert [file.name for file in (catalogues_folder() / "lab").iterdir()] == [HEAD]


def test_rows_that_a_later_release_does_not_take_say_how_to_leave_them(keeper: Keeper, untried: None) -> None:
    keeper.builds(gpus=[faster()])
    pinned(keeper)
    take(offer_of("lab"))
    (file,) = taken_versions()[0].folder.iterdir()
    file.write_text(json.dumps([{"id": "x", "from": "another release"}]))
    with pytest.raises(CatalogError) as refused:
        catalog.rows("gpus")
    assert refused.value.hint == "upright catalog rollback lab"
    roll_back("lab")
    assert GPU in catalog.rows("gpus")


def test_two_catalogues_do_not_share_a_row(keeper: Keeper, untried: None, tmp_path: Path) -> None:
    keeper.builds(gpus=[faster()])
    pinned(keeper)
    take(offer_of("lab"))
    (tmp_path / "other").mkdir()
    other = Keeper(tmp_path / "other", keeper.keys)
    other.builds("other", gpus=[faster(gb_s=2222)])
    pinned(other, name="other")
    with pytest.raises(UsageError, match="which catalogue"):
        offer_of(None)
    with pytest.raises(RecordError, match=f"gpus/{GPU} is a row of catalogue lab version 1"):
        offer_of("other")


def test_names_and_places_that_are_none(keeper: Keeper, upright: Upright) -> None:
    keeper.builds(gpus=[faster()])
    for name in ("taken", "../x", "", "A B"):
        refused = upright("catalog", "add", name, str(keeper.folder), "--key", str(keeper.keys / "keeper.pub"))
        assert "no name for a catalogue" in refused.stderr
    assert "upright catalog add NAME URL" in upright("catalog", "update").stderr
    assert "no catalogue was added" in upright("catalog", "rollback").stderr
    pinned(keeper)
    assert "nothing of lab is taken" in upright("catalog", "rollback").stderr
    assert "there is no catalogue x" in upright("catalog", "update", "x").stderr
