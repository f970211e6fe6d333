"""A fetch in the background, while the caller checks everything that needs no weights."""

from __future__ import annotations

import threading
from collections.abc import Callable

from upright.base.errors import FetchError
from upright.serving.fetch.artifact import fetch, refuse_without_space
from upright.serving.fetch.need import FetchNeed, fetch_need
from upright.serving.fetch.progress import FetchProgress


class BackgroundFetch:
    """A fetch in a thread of its own; leave the `with` block and it ends."""

    def __init__(self, may: Callable[[FetchNeed], None], on_progress: Callable[[FetchProgress], None]) -> None:
        """`may` sees what a fetch costs before it begins, and raises if it must not be."""
        self._may, self._on_progress = may, on_progress
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None
        self._left = False

    def begin(self, source: str, revision: str | None) -> str:
        """Where the weights of that commit will be."""
        wanted = fetch_need(source, revision=revision)
        refuse_without_space(wanted)
        self._may(wanted)
        self._thread = threading.Thread(target=self._fetch, args=(source, wanted.revision), daemon=True)
        self._thread.start()
        return wanted.path

    @property
    def under_way(self) -> bool:
        return self._thread is not None

    def wait(self) -> None:
        """Until all is here, or raise what prevented it."""
        if self._thread is not None:
            while self._thread.is_alive():
                self._thread.join(0.2)  # so that Ctrl-C is heard
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> BackgroundFetch:
        return self

    def __exit__(self, *_: object) -> None:
        self._left = True
        if self._thread is not None:
            self._thread.join(5)

    def _fetch(self, source: str, revision: str) -> None:
        try:
            fetch(source, revision=revision, on_progress=self._tell)
        except Exception as error:
            self._failure = error

    def _tell(self, progress: FetchProgress) -> None:
        if self._left:
            raise FetchError("the fetch was left")
        self._on_progress(progress)
