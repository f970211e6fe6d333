"""The page of a real run in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.command import command
from tests.ports import free_port

pytestmark = pytest.mark.engine
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    # What the browser would ask on its own account: the time, and whatever else; nothing leaves the machine.
    "--disable-features=NetworkTimeServiceQuerying,OptimizationHints",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def chromium(tmp_path: Path, *args: str) -> subprocess.CompletedProcess[str]:
    profile = f"--user-data-dir={tmp_path / 'profile'}"
    return subprocess.run(["chromium", *FLAGS, profile, *args], capture_output=True, text=True, timeout=90, check=True)


@pytest.fixture(scope="module")
def page(llama_server: Path, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a complete run: started, proved, read back, measured, stopped."""
    folder = tmp_path_factory.mktemp("page")
    path = f"{llama_server.parent}:{os.environ['PATH']}"

    def upright(*args: str | Path) -> None:
        argv = [*command(), *map(str, args)]
        environment = {**os.environ, "UPRIGHT_HOME": str(folder / "home"), "PATH": path}
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, cwd=folder, check=False)
        assert done.returncode == 0, done.stderr

    upright("run", tiny_model, "--context", "1k", "--users", "2", "--port", str(free_port()), "--keep")
    words = ("--concurrency", "1,2", "--prompt-tokens", "96", "--output-tokens", "16", "--requests", "4")
    upright("bench", "--workload", "short", *words, "--repeats", "2", "--budget", "30s", "--no-self-test")
    upright("residuals")
    upright("down")
    upright("report")
    return folder / "home/deployments/tiny-kimi/report.html"


def test_the_page_tells_box_model_load_plan_command_and_proof(page: Path, tmp_path: Path):
    text = page.read_text()
    assert not re.search(r"(src|href)=|url\(|@import|<script|https?://(?!127\.0\.0\.1|github\.com|[\w.]*\])", text)
    assert len(text.encode()) < 1_500_000
    dom = chromium(tmp_path, "--dump-dom", f"file://{page}").stdout
    for heading in (
        "Load: short",
        "Box",
        "Model",
        "Plan",
        "Planned against measured",
        "Command",
        "Proof",
        "Do it again",
    ):
        assert f"<h2>{heading}</h2>" in dom
    for fact in ("tiny-kimi on", "It stands", "--ctx-size 2048", "routed experts", "The capital of France is Paris."):
        assert fact in dom
    assert dom.count("<svg") >= 4


@pytest.mark.parametrize(
    ("width", "dark"),
    [(1100, False), (500, True), *(pytest.param(*way, marks=pytest.mark.slow) for way in ((1100, True), (500, False)))],
)
def test_the_page_as_it_looks(page: Path, tmp_path: Path, width: int, dark: bool):
    """Nothing is asked of the network, nothing complains; KEEP_PAGES names a folder for the pictures."""
    picture, log = tmp_path / "page.png", tmp_path / "net.json"
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = chromium(
        tmp_path, *scheme, f"--screenshot={picture}", f"--window-size={width},2600", f"--log-net-log={log}",
        "--enable-logging=stderr", f"file://{page}",
    )  # fmt: skip
    content = picture.read_bytes()
    assert struct.unpack(">II", content[16:24]) == (width, 2600)
    assert len(content) > 60_000, "a blank page compresses to much less"
    assert first_pixel(content) == ((19, 22, 29) if dark else (255, 255, 255))
    assert "CONSOLE" not in done.stderr
    asked = set(re.findall(r'"url":"(https?://[^"]+)"', log.read_text(errors="replace")))
    asked -= {url for url in asked if re.match(r"https?://[\w.-]+\.google(apis)?\.com/", url)}  # the browser's own
    assert not asked, asked
    keep(picture, f"{width}-{'dark' if dark else 'light'}.png")


def test_the_page_prints(page: Path, tmp_path: Path):
    paper = tmp_path / "page.pdf"
    chromium(tmp_path, f"--print-to-pdf={paper}", "--no-pdf-header-footer", f"file://{page}")
    content = paper.read_bytes()
    assert content.startswith(b"%PDF-")
    assert content.count(b"/Type /Page\n") >= 2
    keep(paper, "page.pdf")


def first_pixel(png: bytes) -> tuple[int, ...]:
    """The colour of the upper left corner: in the first row every filter leaves the first pixel as it is."""
    at, packed = 8, b""
    while at < len(png):
        size = int.from_bytes(png[at : at + 4], "big")
        packed += png[at + 8 : at + 8 + size] if png[at + 4 : at + 8] == b"IDAT" else b""
        at += size + 12
    return tuple(zlib.decompress(packed)[1:4])


def keep(file: Path, name: str) -> None:
    if folder := os.environ.get("KEEP_PAGES"):
        shutil.copy(file, Path(folder) / name)
