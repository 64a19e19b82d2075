"""What servers have in common whose file systems answer requests for byte ranges, in the event loop of fsspec."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from fsspec.asyn import sync

from blosc2._files.remote.answers import Answer


class RangeServer(ABC):
    """An object of a file system of fsspec, which calls it `name`; messages call it `shown`."""

    def __init__(self, system: Any, name: str, shown: str, timeout: float) -> None:
        self._system, self._name, self._shown, self._timeout = system, name, shown, timeout

    def get(self, start: int, stop: int) -> Answer:
        """See `Server`."""
        return self._get(f"bytes={start}-{stop - 1}", stop - start, start)

    def get_end(self, count: int) -> Answer:
        """See `Server`."""
        return self._get(f"bytes=-{count}", count, None)

    def _get(self, wanted: str, most: int, start: int | None) -> Answer:
        found: Answer = sync(self._system.loop, self._request, wanted, most, start)
        return found

    @abstractmethod
    async def _request(self, wanted: str, most: int, start: int | None) -> Answer:
        """The answer to a request with `wanted` as its range, of at most so many bytes; errors are a `Failure`."""
