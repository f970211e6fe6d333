"""A directory, there and back: redacted, the same bytes every time, and hostile archives refused."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from tests.unit.facts.store.samples import deployment, observation
from upright.base.errors import RecordError, StoreError
from upright.evidence.bundle import Manifest, bundle, bundle_contents, packing, read_bundle
from upright.evidence.bundle.redacting import KnownIdentities
from upright.facts import store
from upright.facts.records.deployment import Deployment
from upright.facts.records.recipe import Recipe
from upright.facts.store import DeploymentDir

SECRET = "tr0ub4dor-and-3"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DeploymentDir:
    monkeypatch.setenv("UPRIGHT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MY_DEPLOY_TOKEN", SECRET)
    made = store.create("tiny")
    key = made.key()
    made_recipe = recipe("kimi-k26-vllm").model_copy(update={"model_path": "/home/margaret/model"})
    made.write(made_recipe)
    told = deployment(made.name).model_copy(update={"made_from": (made_recipe.reference,), "reason": f"used {key}"})
    made.write(told)
    for number in range(3):
        made.append(observation(number, response={"error": f"Bearer {key} is not {SECRET}"}))
    made.log.write_text(f"starting\nAuthorization: Bearer {key}\nHF token {SECRET}\nfrom 8.8.8.8\nready\n")
    (made.path / "recipe-1.json").write_text(made_recipe.to_json())
    (made.path / "notes.json").write_text('{"mine": "' + key + '"}')
    (made.path / "report.html").write_text("<html>")
    (made.path / "link.log").symlink_to("/etc/passwd")
    (made.path / "benchmarks").mkdir()
    (made.path / "benchmarks/run.txt").write_text(key)
    return made


def test_there_and_back(directory: DeploymentDir, tmp_path: Path) -> None:
    made = bundle(directory, tmp_path / "b.tar.gz")
    raw = gzip.decompress((tmp_path / "b.tar.gz").read_bytes())
    for secret in (directory.key(), SECRET, "margaret", "8.8.8.8", str(directory.path)):
        assert secret.encode() not in raw
    back = read_bundle(tmp_path / "b.tar.gz")
    assert back.manifest == made.manifest
    assert set(back.records) == {"recipe.json", "recipe-1.json", "deployment.json"}
    found_recipe, found = back.records["recipe.json"], back.records["deployment.json"]
    assert isinstance(found_recipe, Recipe)
    assert isinstance(found, Deployment)
    assert found_recipe.model_path == "/home/[user]/model"
    assert found.made_from == (found_recipe.reference,)
    assert found.reason == "used [redacted]"
    assert [each.check for each in back.observations] == ["check-0", "check-1", "check-2"]
    assert back.observations[0].response == {"error": "Bearer [redacted] is not [redacted]"}
    assert back.texts["engine.log"].splitlines()[1] == "Authorization: Bearer [redacted]"
    assert back.texts["benchmarks/run.txt"] == "[redacted]"
    assert set(made.manifest.left_out) == {"key", "report.html", "evidence.head"}
    before = directory.read(Recipe).reference
    assert made.manifest.digests[before] == found_recipe.reference
    assert {each.what for each in made.manifest.redactions} >= {
        "the deployment's key",
        "the value of MY_DEPLOY_TOKEN",
        "a public address",
        "the user's name",
    }
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o777 == 0o600


def test_the_same_bytes_every_time(directory: DeploymentDir, tmp_path: Path) -> None:
    first = bundle(directory, tmp_path / "1.tar.gz")
    directory.log.touch()
    assert bundle(directory, tmp_path / "2.tar.gz").sha256 == first.sha256


def test_a_long_log_keeps_its_beginning_and_its_end(
    directory: DeploymentDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "_HEAD_BYTES", 1000)
    monkeypatch.setattr(packing, "_TAIL_BYTES", 2000)
    directory.log.write_text("".join(f"line {number} {directory.key()}\n" for number in range(1000)))
    bundle(directory, tmp_path / "b.tar.gz")
    log = read_bundle(tmp_path / "b.tar.gz").texts["engine.log"].splitlines()
    assert log[0] == "line 0 [redacted]"
    assert log[-1] == "line 999 [redacted]"
    assert [line for line in log if line.startswith("[upright: ")]
    assert len(log) < 100


def test_a_torn_record_and_a_broken_chain_are_packed_as_text(directory: DeploymentDir, tmp_path: Path) -> None:
    (directory.path / "plan.json").write_text('{"record": "plan", "sch')
    with directory.evidence_file.open("ab") as file:
        file.write(b'{"seq": 9}\n')
    bundle(directory, tmp_path / "b.tar.gz")
    back = read_bundle(tmp_path / "b.tar.gz")
    assert back.texts["plan.json.txt"] == '{"record": "plan", "sch'
    assert directory.key() not in back.texts["evidence.jsonl.txt"]
    assert back.observations == ()


def test_a_secret_that_would_stay_is_refused(directory: DeploymentDir) -> None:
    secret = KnownIdentities(secrets={"manifest": "a word that the archive itself needs", '"format"': "another"})
    with pytest.raises(StoreError, match="nothing was written"):
        bundle_contents(directory, secret)


def _tar(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for entry, content in entries:
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _linked(kind: bytes, name: str = "engine.log") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, "/etc/passwd"
    return entry


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (_tar((tarfile.TarInfo("../evil"), b"x")), "no plain file"),
        (_tar((tarfile.TarInfo("/etc/cron.d/evil"), b"x")), "no plain file"),
        (_tar((tarfile.TarInfo("a/../../evil"), b"x")), "no plain file"),
        (_tar((tarfile.TarInfo("a\x1b[2Jb"), b"x")), "no plain file"),
        (_tar((_linked(tarfile.SYMTYPE), b"")), "no plain file"),
        (_tar((_linked(tarfile.LNKTYPE), b"")), "no plain file"),
        (_tar((_linked(tarfile.CHRTYPE), b"")), "no plain file"),
        (_tar((tarfile.TarInfo("a"), b"1"), (tarfile.TarInfo("a"), b"2")), "no plain file"),
        (_tar((tarfile.TarInfo("a"), b"1")), "no manifest"),
        (_tar((tarfile.TarInfo("manifest.json"), b"[]")), "no manifest"),
        (_tar((tarfile.TarInfo("manifest.json"), b"[" * 100_000)), "no manifest"),
        (b"no archive at all", "is no bundle"),
        (b"", "is no bundle"),
    ],
    ids=[
        "up", "absolute", "up inside", "escape", "symbolic link", "hard link", "device", "twice", "no manifest",
        "a list", "deep", "no archive", "empty",
    ],  # an archive's own bytes differ from one second to the next
)  # fmt: skip
def test_hostile_archives(archive: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "b.tar.gz").write_bytes(archive)
    with pytest.raises(RecordError, match=message) as told:
        read_bundle(tmp_path / "b.tar.gz")
    assert "\x1b" not in told.value.message
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar.gz"]


def test_a_bomb_is_left_before_it_is_unpacked(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("engine.log")
    entry.size = 1 << 40
    (tmp_path / "b.tar.gz").write_bytes(gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20)))
    with pytest.raises(RecordError, match="unpacks to more than 537 MB"):
        read_bundle(tmp_path / "b.tar.gz")


def test_a_name_that_an_archive_cannot_hold_plainly_is_left_out_and_said(tmp_path: Path) -> None:
    """What we pack we also read: a long name would need a second head."""
    folder = tmp_path / "d"
    folder.mkdir()
    for name in ("n" * 120 + ".log", "my notes.txt", "engine.log"):
        (folder / name).write_text("x\n")
    manifest, content = bundle_contents(DeploymentDir(folder))
    assert manifest.left_out == ("my notes.txt", "n" * 120 + ".log")
    (tmp_path / "b.tar.gz").write_bytes(content)
    assert read_bundle(tmp_path / "b.tar.gz").texts == {"engine.log": "x\n"}


def _changed(manifest: dict[str, object], files: dict[str, bytes]) -> None:
    files["engine.log"] += b"more"


def _added(manifest: dict[str, object], files: dict[str, bytes]) -> None:
    files["extra.log"] = b"x"


def _missing(manifest: dict[str, object], files: dict[str, bytes]) -> None:
    del files["engine.log"]


@pytest.mark.parametrize(
    ("change", "message"), [(_changed, "was changed"), (_added, "other files"), (_missing, "other files")]
)
def test_a_bundle_that_was_changed(
    directory: DeploymentDir, tmp_path: Path, change: Callable[..., None], message: str
) -> None:
    bundle(directory, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        files = {entry.name: (archive.extractfile(entry) or io.BytesIO()).read() for entry in archive}
    manifest = json.loads(files["manifest.json"])
    Manifest.model_validate(manifest)
    change(manifest, files)
    (tmp_path / "b.tar.gz").write_bytes(_tar(*((tarfile.TarInfo(name), text) for name, text in files.items())))
    with pytest.raises(RecordError, match=message):
        read_bundle(tmp_path / "b.tar.gz")


def test_a_bundle_that_was_cut(directory: DeploymentDir, tmp_path: Path) -> None:
    bundle(directory, tmp_path / "b.tar.gz")
    whole = (tmp_path / "b.tar.gz").read_bytes()
    (tmp_path / "b.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RecordError, match="is no bundle"):
        read_bundle(tmp_path / "b.tar.gz")


@pytest.mark.timeout(10)
def test_a_pipe_is_no_bundle(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordError, match="no regular file"):
        read_bundle(tmp_path / "pipe")
