"""Where a pointer may lead: never to this machine's own files, nor into its network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.evidence.share.test_index import pointer
from upright.base.errors import RecordError
from upright.evidence.share.bundle_urls import refuse_bundle_url
from upright.evidence.share.index_reading import PinnedIndex, fetch_bundle

PUBLIC = "https://93.184.215.14/index"
REFUSED = [
    "/dev/stdin", "/etc/hostname", "relative.json", "file:///etc/hostname", "ftp://93.184.215.14/x",
    "http://93.184.215.15/x", "https://127.0.0.1/x", "https://10.0.0.7/x", "https://169.254.169.254/latest",
    "https://[::1]/x", "https://[::ffff:10.0.0.7]/x", "https://2130706433/x", "https://[bad/x",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED)
def test_a_pointer_of_the_network_leads_nowhere_inside(url: str) -> None:
    index = PinnedIndex(name="public", url=PUBLIC, keys=("SHA256:x",))
    with pytest.raises(RecordError, match="is refused"):
        fetch_bundle(index, pointer(1).model_copy(update={"url": url}))


@pytest.mark.parametrize(
    ("url", "index"),
    [
        ("https://93.184.215.15/x", PUBLIC),
        ("http://93.184.215.14/x", PUBLIC),
        ("http://10.0.0.7/x", "http://10.0.0.7/index"),
        ("https://10.0.0.7/x", "http://127.0.0.1:8080/index"),
        ("/data/one.bundle.json", "/data/index"),
    ],
)
def test_where_it_may_lead(url: str, index: str) -> None:
    refuse_bundle_url(url, index)


def test_a_folder_names_regular_files_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    index = PinnedIndex(name="mine", url=str(tmp_path), keys=())
    for place in (tmp_path / "pipe", Path("/dev/null"), tmp_path):
        with pytest.raises(RecordError, match=r"no file|cannot be read"):
            fetch_bundle(index, pointer(1).model_copy(update={"url": str(place)}))
