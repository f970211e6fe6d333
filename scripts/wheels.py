"""A wheel's name, file or address -> its files, of a remote one only those that are read (HTTP ranges)."""

from __future__ import annotations

import html
import io
import re
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urljoin


def named(wheel: str, index: str | None) -> str:
    """The file or address itself; `name==version` is looked up in the index."""
    if "==" not in wheel:
        return wheel
    if not index:
        raise SystemExit("NAME==VERSION needs --index")
    return wheel_url(index, wheel)


@contextmanager
def opened(where: str) -> Iterator[zipfile.ZipFile]:
    if not where.startswith("http"):
        with zipfile.ZipFile(where) as wheel:
            yield wheel
        return
    with io.BufferedReader(RemoteFile(where), 1 << 20) as raw, zipfile.ZipFile(raw) as wheel:
        yield wheel


class RemoteFile(io.RawIOBase):
    """A file behind HTTP, read by ranges."""

    def __init__(self, url: str) -> None:
        self.url, self.position = url, 0
        with self._get(0, 0) as answer:
            self.size = int(answer.headers["Content-Range"].rpartition("/")[2])

    def _get(self, first: int, last: int):  # noqa: ANN202
        request = urllib.request.Request(self.url, headers={"Range": f"bytes={first}-{last}"})
        answer = urllib.request.urlopen(request, timeout=120)
        if answer.status != 206:
            raise SystemExit(f"{self.url}: the server does not serve ranges; download the wheel and name the file")
        return answer

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def seek(self, offset: int, whence: int = 0) -> int:
        self.position = (0, self.position, self.size)[whence] + offset
        return self.position

    def readinto(self, buffer) -> int:  # noqa: ANN001
        count = min(len(buffer), self.size - self.position)
        if count <= 0:
            return 0
        with self._get(self.position, self.position + count - 1) as answer:
            data = answer.read()
        buffer[: len(data)] = data
        self.position += len(data)
        return len(data)


def wheel_url(index: str, requirement: str) -> str:
    """The x86-64 or universal wheel of `name==version` in a simple index."""
    name, _, version = requirement.partition("==")
    page = urljoin(index.rstrip("/") + "/", f"{name}/")
    text = urllib.request.urlopen(page, timeout=60).read().decode()
    links = {file: link for link, file in re.findall(r'href="([^"]+)"[^>]*>\s*([^<]+\.whl)\s*<', text)}
    for file, link in sorted(links.items()):
        if file.startswith(f"{name}-{version}-") and not re.search(r"aarch64|arm64", file):
            return urljoin(page, html.unescape(link)).partition("#")[0]
    raise SystemExit(f"no wheel of {requirement} in the index")
