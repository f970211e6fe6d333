"""The builder without a browser: what it writes holds together, and it writes over nothing of yours."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.conftest import ROOT, Upright
from upright.app.site import evidence_pages, publishing
from upright.app.site.publishing import SitePart, site_parts
from upright.base.errors import UsageError

ENGINE = {
    "pyodide.mjs": b"export const loadPyodide = null;",
    "pyodide.asm.mjs": b"export default null;",
    "pyodide.asm.wasm": b"\0asm" * 1000,
    "python_stdlib.zip": b"PK",
    "pyodide-lock.json": b'{"info": {"python": "3.14"}, "packages": {"numpy": {}}}',
}


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in of each kind: an npm package, a wheel for WebAssembly, a wheel of another system."""
    folder = tmp_path / "parts"
    folder.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in ENGINE.items():
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    (folder / "pyodide.tgz").write_bytes(packed.getvalue())
    for wheel in ("core.whl", "plain.whl"):
        with zipfile.ZipFile(folder / wheel, "w") as opened:
            for name in ("code.py", "code.so", "code.pyi"):
                opened.writestr(f"{wheel[:-4]}/{name}", name)
    rows = [("pyodide", "pyodide.tgz", None), ("core", "core.whl", "x_wasm32"), ("plain", "plain.whl", "linux")]
    named = tuple(
        SitePart(name, "1", file, "MIT", "a part", hashlib.sha256((folder / file).read_bytes()).hexdigest(), platform)
        for name, file, platform in rows
    )
    monkeypatch.setattr(publishing, "site_parts", lambda: named)
    return folder


def test_every_hash_holds_and_nothing_is_loaded_from_elsewhere(parts: Path, tmp_path: Path):
    site = tmp_path / "site"
    told = publishing.publish(site, parts, first="none")
    assert told["files"] == sum(path.is_file() for path in site.rglob("*"))
    page = (site / "index.html").read_text()
    assert "{{" not in page
    assert f'content="{publishing.POLICY}"' in page
    loaded = dict(re.findall(r'(?:href|src)="([\w.]+)" integrity="([^"]+)"', page))
    loaded["manifest.json"] = re.search(r'data-manifest="([^"]+)"', page)[1]  # type: ignore[index]
    assert {"app.js", "views.js", "planner.js", "state.js", "pictures.js", "style.css"} < set(loaded)
    loaded |= json.loads((site / "manifest.json").read_text())["integrity"]
    for name, integrity in loaded.items():
        digest = hashlib.sha384((site / name).read_bytes()).digest()
        assert integrity == f"sha384-{base64.b64encode(digest).decode()}", name
    assert {"worker.js", "upright.zip", "choices.json", "pyodide/pyodide.asm.wasm.gz"} < set(loaded)
    for path in publishing.PAGE.iterdir():
        addresses = re.findall(r"https?://[^\s\"'`)]+", path.read_text())
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, path.name


def test_the_archive_has_what_a_browser_can_load_and_is_the_same_each_time(parts: Path, tmp_path: Path):
    for name in ("one", "two", "one"):  # the last over an older site
        publishing.publish(tmp_path / name, parts, first="none")
    one, two = (
        {path.relative_to(site): path.read_bytes() for path in site.rglob("*") if path.is_file()}
        for site in (tmp_path / "one", tmp_path / "two")
    )
    assert one == two
    names = zipfile.ZipFile(tmp_path / "one/upright.zip").namelist()
    assert {"core/code.py", "core/code.so", "plain/code.py", "upright/planning/choosing/table.py"} < set(names)
    assert not {"plain/code.so", "plain/code.pyi", "upright/serving/launch/launch.py"} & set(names)
    assert any(name.startswith("upright/facts/catalog/compiled/") for name in names)


def test_a_folder_with_something_else_is_left_alone(parts: Path, tmp_path: Path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/1.jpg").write_text("mine")
    with pytest.raises(UsageError, match="holds something else than a site"):
        publishing.publish(tmp_path / "photos", parts, first="none")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["1.jpg"]


def test_parts_that_are_not_there_or_others_are_named(upright: Upright, tmp_path: Path):
    done = upright("site", "build", "out", "--parts", tmp_path / "none")
    assert done.returncode == 2
    assert f"there is no {site_parts()[0].file} in" in " ".join(done.stderr.split())
    assert "scripts/get-site-parts" in done.stderr
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / site_parts()[0].file).write_text("another")
    done = upright("site", "build", "out", "--parts", tmp_path / "none")
    assert "is not the pyodide 314.0.7 that this version was made for" in " ".join(done.stderr.split())
    assert not (tmp_path / "out").exists()


def test_parts_are_the_versions_that_upright_is_tested_with():
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
    for part in site_parts():
        if part.name in pinned:
            assert part.version == pinned[part.name], part.name


def test_the_docs_name_every_part_with_its_licence():
    page = (ROOT / "docs/browser.md").read_text()
    assert re.findall(r"^\| ([\w-]+) \| ([\d.]+) \| (.+) \|$", page, re.MULTILINE) == [
        (part.name, part.version, part.licence) for part in site_parts()
    ]


def test_each_claim_of_the_shipped_index_has_its_page_with_level_and_checks(parts: Path, tmp_path: Path):
    site = tmp_path / "site"
    publishing.publish(site, parts, first="none")
    claims = json.loads((site / "evidence.json").read_text())
    assert len(claims) >= 81
    assert {claim["level"] for claim in claims} == {"claimed"}
    for claim in claims:
        page = (site / f"evidence/{claim['id']}.html").read_text()
        assert f"class='verdict {claim['level']}'>{claim['level']}" in page
        assert f'content="{publishing.POLICY}"' in page
        assert "<script" not in page
        assert "What was checked" in page
        bundle = (site / f"evidence/{claim['id']}.bundle.json").read_bytes()
        assert hashlib.sha256(bundle).hexdigest().startswith(claim["id"])
    kimi = [claim for claim in claims if (claim["model"], claim["gpu"]) == ("kimi-k2.6", "rtx-pro-6000-max-q")]
    assert sorted(claim["figure"] for claim in kimi) == [15.4, 18.6, 20.9]


def test_words_of_a_claim_stay_words() -> None:
    shown = evidence_pages._table("<b>", ("<i>",), [("<script>alert(1)</script>",)])
    assert "<script>" not in shown
    assert "<b>" not in shown
    assert "&lt;script&gt;" in shown
