"""An image's publisher: an account at a registry, whose tags lead to another image whenever its holder wants."""

from __future__ import annotations

import re
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from tests.golden.deployments import recipe
from upright.facts import catalog
from upright.facts.catalog.rows.engine import ImageRow
from upright.planning.rendering.image import image_named, publisher
from upright.planning.rendering.targets import TARGETS
from upright.serving.check import check

NOT_PROMISED = (
    "a digest where nobody has written one down: none of the catalogue's images has one yet, and each says so",
    "that what a digest names is good: it stays the same, no more",
)
DIGEST = f"sha256:{'0123456789abcdef' * 4}"
OTHER = f"sha256:{'f' * 64}"
WRITTEN = [row for row in catalog.images() if not re.search(r"\.\.\.|\*|:latest$", row.reference)]


@pytest.mark.promise("where a digest is recorded, every file that is written names the image by it, and by no tag")
@pytest.mark.parametrize("target", ["docker", "podman", "compose", "quadlet", "kubernetes"])
def test_a_recorded_digest_is_what_is_rendered(target: str, monkeypatch: pytest.MonkeyPatch):
    row = catalog.find_image("voip-glm51-kimi-20260505")
    assert row is not None
    made, pinned = recipe("kimi-k26-community-docker"), row.model_copy(update={"digest": DIGEST})
    monkeypatch.setattr(catalog, "images", lambda engine=None: (pinned,))
    image = image_named(row.id)
    made = made.model_copy(update={"image": image.reference, "image_about": image.about})
    text = TARGETS[target].write(made)
    assert f"voipmonitor/vllm@{DIGEST}" in text
    assert row.reference not in text
    assert "By its digest; published by docker.io/voipmonitor (none of the engine's makers)." in (image.about or "")


@pytest.mark.promise("where none is recorded it is said, with who can publish another image under the same name")
@pytest.mark.parametrize("row", WRITTEN, ids=lambda row: row.id)
def test_an_image_says_who_can_change_it(row: ImageRow):
    about = image_named(row.id).about or ""
    if row.digest:
        assert about.endswith(f"By its digest; published by {publisher(row.reference)}.") or row.kind == "community"
    else:
        assert f"By its tag alone, no digest is recorded: {publisher(row.reference)}" in about
    assert ("none of the engine's makers" in about) == (row.kind == "community")


@pytest.mark.promise("where none is recorded it is said, with who can publish another image under the same name")
@pytest.mark.parametrize(
    ("reference", "who"),
    [
        ("vllm/vllm-openai:v1", "docker.io/vllm"), ("busybox:1", "docker.io/library"),
        ("ghcr.io/a/b/c:1", "ghcr.io/a/b"), ("localhost:5000/x@sha256:0", "localhost:5000"),
        ("localhost/x:1", "localhost"),
    ],
)  # fmt: skip
def test_who_publishes_is_in_the_name(reference: str, who: str):
    assert publisher(reference) == who


@pytest.mark.promise("`check --image` refuses an image that is here under that name and is another one")
def test_another_image_under_the_same_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With a real podman: what is here is imported, and looked at by its digest."""
    name, here, ids = "localhost/upright-tested", list[str](), list[str]()
    try:
        for number in range(2):
            archive = tmp_path / f"{number}.tar"
            with tarfile.open(archive, "w") as tar:
                entry = tarfile.TarInfo("file")
                entry.size = 1
                tar.addfile(entry, BytesIO(str(number).encode()))
            ids.append(_podman("import", "-q", str(archive), f"{name}:one").strip())
            here.append(_podman("image", "inspect", "--format", "{{index .RepoDigests 0}}", f"{name}:one").strip())
        was, present = here
        made = recipe("kimi-k26-community-docker").model_copy(update={"runtime": "podman"})
        row = catalog.images()[0].model_copy(update={"reference": f"{name}:one", "digest": was.partition("@")[2]})
        monkeypatch.setattr(catalog, "images", lambda engine=None: (row,))
        found = check(made.model_copy(update={"image": f"{name}:one"}))
        assert any(present in refusal.message for refusal in found.refusals), found
        for image in (row.pinned, present):  # the first is here too, without its tag
            same = check(made.model_copy(update={"image": image}))
            assert "The image that is here is the one of the digest." in same.remarks, (image, same)
        monkeypatch.setattr(catalog, "images", lambda engine=None: ())
        alone = check(made.model_copy(update={"image": f"{name}:one"}))
        assert f"The image is named by its tag alone; what is here is {present}: --image with that pins it." in (
            alone.remarks
        )
        missing = check(made.model_copy(update={"image": f"{name}:two"}))
        assert f"The image is not here: podman pull {name}:two" in missing.remarks
    finally:
        subprocess.run(["podman", "rmi", "-f", *ids], capture_output=True, check=False)


def _podman(*words: str) -> str:
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.promise("`check --image` refuses an image that is here under that name and is another one")
@pytest.mark.parametrize("said", ["", "null", "[" * 5000, '["x"]', '["a@sha256:\\u001b[2J"]', "{}", "x" * 1_000_000])
def test_a_runtime_that_answers_nonsense_is_not_believed(said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "said").write_text(said)
    program = tmp_path / "podman"
    program.write_text(f"#!/bin/sh\n/bin/cat {tmp_path}/said\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    made = recipe("kimi-k26-community-docker").model_copy(update={"runtime": "podman", "image": "a/b:c"})
    row = catalog.images()[0].model_copy(update={"reference": "a/b:c", "digest": OTHER})
    monkeypatch.setattr(catalog, "images", lambda engine=None: (row,))
    found = check(made)
    assert any("of no digest" in refusal.message for refusal in found.refusals), found
