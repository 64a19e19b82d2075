"""Fetched bytes on disk, for other processes and later ones.

Each version of an object has a folder, whose name comes from its URL and from what the server tells of the version.
Each run of bytes is a file in it, which appears whole, is never changed, and ends with its checksum. So processes share
a folder without a lock. What is damaged is fetched again.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from bisect import bisect_right, insort
from contextlib import suppress
from typing import Final

from blosc2._core.io.checksum import crc32c
from blosc2._files.remote.answers import Version

_NAME: Final = re.compile(r"[0-9]{1,19}-[0-9]{1,19}")
_FOLDER: Final = re.compile(r"b2-[0-9a-f]{40}")
_SUM: Final = 4
# All files are looked at after so many bytes were written.
_LOOK: Final = 16


class DiskBlocks:
    """The bytes of one version of an object in a folder.

    Parameters
    ----------
    folder : str
        Where all objects are kept; made if it is missing.
    limit : int
        How many bytes the folder may take; those that were written first go first.
    url, version : str, Version
        What is kept.
    """

    def __init__(self, folder: str, limit: int, url: str, version: Version) -> None:
        self._root, self._limit = folder, limit
        name = hashlib.sha256(repr((url, *version)).encode()).hexdigest()[:40]
        self._folder = os.path.join(folder, f"b2-{name}")
        self._starts: list[int] = []
        self._stops: dict[int, int] = {}
        self._written = 0
        os.makedirs(self._folder, exist_ok=True)
        for entry in os.listdir(self._folder):
            if _NAME.fullmatch(entry):
                start, stop = map(int, entry.split("-"))
                if start < stop <= version.size:
                    self._note(start, stop)

    def _note(self, start: int, stop: int) -> None:
        if start not in self._stops:
            insort(self._starts, start)
        self._stops[start] = max(stop, self._stops.get(start, 0))

    def run_from(self, at: int) -> tuple[int, int] | None:
        """Where the run begins and ends that holds a byte, or else the next one behind it."""
        i = bisect_right(self._starts, at)
        if i and self._stops[self._starts[i - 1]] > at:
            return self._starts[i - 1], self._stops[self._starts[i - 1]]
        return (self._starts[i], self._stops[self._starts[i]]) if i < len(self._starts) else None

    def read(self, start: int, stop: int) -> bytes | None:
        """Bytes that are kept; None of others, and of those that are gone or damaged."""
        i = bisect_right(self._starts, start)
        if not i:
            return None
        first = self._starts[i - 1]
        last = self._stops.get(first, 0)
        if last < stop:
            return None
        try:
            with open(os.path.join(self._folder, f"{first}-{last}"), "rb") as file:
                data = file.read(last - first + _SUM + 1)
        except OSError:
            data = b""
        if len(data) != last - first + _SUM or crc32c(data[:-_SUM]) != int.from_bytes(data[-_SUM:], "little"):
            self._forget(first, last)
            return None
        return data[start - first : stop - first]

    def _forget(self, first: int, last: int) -> None:
        if self._stops.pop(first, None) is not None:
            del self._starts[bisect_right(self._starts, first) - 1]
        with suppress(OSError):
            os.remove(os.path.join(self._folder, f"{first}-{last}"))

    def write(self, start: int, data: bytes) -> None:
        """Keep bytes. A disk that is full keeps nothing, and that is no error."""
        stop = start + len(data)
        try:
            descriptor, name = tempfile.mkstemp(prefix=".new-", dir=self._folder)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                    file.write(crc32c(data).to_bytes(_SUM, "little"))
                os.replace(name, os.path.join(self._folder, f"{start}-{stop}"))
            except BaseException:
                with suppress(OSError):
                    os.remove(name)
                raise
        except OSError:
            return
        self._note(start, stop)
        self._written += len(data)
        if self._written >= self._limit // _LOOK:
            self._written = 0
            self._make_room()

    def _make_room(self) -> None:
        """Remove files that were written first, of all objects, until the rest fits."""
        files = []
        for folder in self._folders():
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if not _NAME.fullmatch(entry.name):
                        continue
                    status = entry.stat()
                    files.append((status.st_mtime_ns, status.st_size, entry.path))
        used = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if used <= self._limit:
                break
            with suppress(OSError):
                os.remove(path)
                used -= size

    def _folders(self) -> list[str]:
        try:
            return [os.path.join(self._root, name) for name in os.listdir(self._root) if _FOLDER.fullmatch(name)]
        except OSError:
            return []
