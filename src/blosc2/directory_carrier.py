"""The frame below an array that is a directory of chunk files, and how its changes are published.

New chunks get files with numbers that no version uses; then the header file is replaced by a new one, in one
rename; files of chunks that are gone are removed last. All of the frame is in memory too, which is what is read.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

from blosc2.carrier import Carrier, MemoryCarrier
from blosc2.directory_frame import (
    Directory,
    chunk_file,
    locked_directory,
    pack_head,
    publish_head,
    read_directory,
    read_head,
    take_back,
    write_chunk,
)
from blosc2.draft import Draft, Fields
from blosc2.exceptions import FormatError
from blosc2.new_file import sync_folder


class ReadOnlyDirectoryCarrier(Carrier):
    """A directory frame that is only read."""

    __slots__ = ("_head", "_path")

    def __init__(self, path: str, **how: Any) -> None:
        self._path = os.path.abspath(path)  # stays right when the process goes to another folder
        found = read_directory(self._path)
        super().__init__(found.frame, urlpath=path, **how)
        self._show(found)

    def _show(self, found: Directory) -> None:
        self._head = found.head

    @property
    def contiguous(self) -> bool:
        return False

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        if read_head(self._path) == self._head:
            return False
        found = read_directory(self._path)
        self._show(found)
        self._adopt(found.frame)
        return True


class DirectoryCarrier(ReadOnlyDirectoryCarrier):
    """A directory frame that can be changed."""

    __slots__ = ("_files", "_lock", "_memory", "_sizes")

    writable = True

    def __init__(self, path: str, **how: Any) -> None:
        self._lock = threading.RLock()
        super().__init__(path, **{"mode": "a", **how})

    def _show(self, found: Directory) -> None:
        super()._show(found)
        self._memory = MemoryCarrier(found.frame)
        offsets = found.frame.offsets_list()
        # Where a chunk lies in memory -> its file; file -> its size.
        self._files = {at: number for at, number in zip(offsets, found.numbers, strict=False) if number >= 0}
        self._sizes = {number: len(found.frame.chunk_stored_at(at)) for at, number in self._files.items()}

    def publish(self, draft: Draft, *, fresh: bool = False) -> None:  # noqa: ARG002 - nothing is ever overwritten
        with self._lock, locked_directory(self._path):
            if draft.frame is not self.frame:
                raise RuntimeError("the array was changed by another thread at the same time; try again")
            if read_head(self._path) != self._head:
                raise FormatError(
                    "another handle or process changed this frame since it was opened: open it again, "
                    "or call refresh(), before writing", path=self.urlpath,
                )  # fmt: skip
            written: dict[int, int] = {}
            old = self._memory.frame
            try:
                self._publish(draft, written)
            except BaseException:
                self._memory.frame = old
                take_back(self._path, self._head, written)
                raise

    def _publish(self, draft: Draft, written: dict[int, int]) -> None:
        variable = draft.settle()
        fields = Fields(draft.frame, draft.chunksize, variable=variable, vlblocks=bool(draft.frame.vlblocks))
        numbers = self._write_new(draft, written)
        one = draft.frame.repeated_offset if not draft.edits_chunks else None
        self._memory.publish(draft)
        sizes = self._sizes | written
        used = {number for number in numbers if number >= 0}
        head = pack_head(
            fields, draft.metalayers, draft.vlmeta, numbers if one is None else [int(one)],
            int(self._memory.frame.nchunks), draft.nbytes, sum(sizes[number] for number in used),
        )  # fmt: skip
        sync_folder(os.path.join(self._path, "any"))
        publish_head(self._path, head)
        gone = set(sizes) - used
        self._head = head
        self._files = {at: n for at, n in zip(self._memory.frame.offsets_list(), numbers, strict=False) if n >= 0}
        self._sizes = {number: sizes[number] for number in used}
        self._adopt(self._memory.frame)
        for number in gone:
            # What cannot be removed takes room, no more.
            with contextlib.suppress(OSError):
                os.unlink(chunk_file(self._path, number))

    def _write_new(self, draft: Draft, written: dict[int, int]) -> list[int]:
        """Write files for the new chunks; gives the number of each chunk's file."""
        number = max(self._sizes, default=-1)
        numbers = []
        for index, offset in enumerate(draft.offsets.tolist()):
            stored = draft.new.get(index)
            if stored is not None:
                number += 1
                written[number] = len(stored)
                write_chunk(self._path, number, stored)
                numbers.append(number)
            else:
                numbers.append(offset if offset < 0 else self._files[offset])
        return numbers

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        with self._lock:
            return super().refresh()


def directory_carrier(path: str, mode: str, **how: Any) -> Carrier:
    """The carrier of a directory frame, for reading or for changes."""
    kind = ReadOnlyDirectoryCarrier if mode == "r" else DirectoryCarrier
    return kind(path, mode=mode, **how)
