"""The frame below an array that is a directory of chunk files, and how its changes are published.

New chunks get files with numbers that no version uses. Then a new header file replaces the old one, in one rename.
Files of removed chunks are deleted last. The whole frame is also in memory, and reads use that.
"""

from __future__ import annotations

import contextlib
import os
from array import array
from typing import Any

import numpy as np

from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._files import Owner, held, sync_names
from blosc2._frames import (
    Directory,
    Draft,
    Fields,
    Integers,
    chunk_file,
    first_free,
    head_identity,
    locked_directory,
    numbered,
    pack_head,
    publish_head,
    read_directory,
    read_head,
    take_back,
    write_chunk,
)
from blosc2._handles.handle import Carrier, MemoryCarrier
from blosc2.exceptions import FormatError, StaleHandleError, name_file


class ReadOnlyDirectoryCarrier(Carrier):
    """A directory frame that is only read."""

    __slots__ = ("_head", "_identity", "_path")

    def __init__(self, path: str, **how: Any) -> None:
        self._path = os.path.abspath(path)  # stays right when the process goes to another folder
        found = read_directory(self._path)
        super().__init__(found.frame, urlpath=path, **how)
        self._show(found)

    def _show(self, found: Directory) -> None:
        self._head, self._identity = found.head, found.identity

    @property
    def contiguous(self) -> bool:
        return False

    def _is_current(self) -> bool:
        # The same bytes may name other chunk files: numbers are used again.
        return head_identity(self._path) == self._identity and read_head(self._path) == self._head

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        if self._is_current():
            return False
        found = read_directory(self._path)
        self._show(found)
        self._adopt(found.frame)
        return True


class DirectoryCarrier(ReadOnlyDirectoryCarrier):
    """A directory frame that can be changed."""

    __slots__ = ("_exclusive", "_files", "_lock", "_memory", "_sizes")

    writable = True

    def __init__(self, path: str, *, exclusive: bool = True, **how: Any) -> None:
        self._lock = Lock()
        self._exclusive = exclusive
        super().__init__(path, **{"mode": "a", **how})

    def _show(self, found: Directory) -> None:
        super()._show(found)
        self._memory = MemoryCarrier(found.frame)
        # Where a chunk lies in memory -> its file; file -> its size.
        self._files = _files_by_offset(found.frame, found.numbers)
        self._sizes = {number: len(found.frame.chunk_stored_at(at)) for at, number in self._files.items()}

    def publish(self, draft: Draft, *, fresh: bool = False) -> None:  # noqa: ARG002 - nothing is ever overwritten
        with self._lock:
            self._check_own()
            self._publish_alone(draft)

    def _publish_alone(self, draft: Draft) -> None:
        with locked_directory(self._path, exclusive=self._exclusive):
            if draft.frame is not self.frame:
                raise RuntimeError("the array was changed by another thread at the same time; try again")
            if not self._is_current():
                raise StaleHandleError(
                    "another handle or process changed this frame since it was opened: open it again, "
                    "or call refresh(), before writing; with locking=True handles wait for each other and follow",
                    path=self.urlpath,
                )  # fmt: skip
            owner = Owner()
            written: dict[int, int] = {}
            old = self._memory.frame
            try:
                self._publish(draft, written, owner)
            except BaseException as error:
                name_file(error, self._path)
                self._memory.frame = old
                take_back(self._path, self._head, written, owner)
                with contextlib.suppress(OSError, FormatError):
                    if read_head(self._path) == self._head:
                        self._identity = head_identity(self._path)
                raise

    def _publish(self, draft: Draft, written: dict[int, int], owner: Owner) -> None:
        variable = draft.settle()
        fields = Fields(draft.frame, draft.chunksize, variable=variable, vlblocks=draft.vlblocks)
        one = draft.frame.repeated_offset if not draft.edits_chunks else None
        # One value that stands for all chunks stays one.
        numbers = self._write_new(draft, written, owner) if one is None else array("q")
        used = {number for number in numbers if number >= 0}
        self._memory.publish(draft)
        sizes = self._sizes | written
        head = pack_head(
            fields, draft.metalayers, draft.vlmeta, numbers if one is None else [int(one)],
            int(self._memory.frame.nchunks), draft.nbytes, sum(sizes[number] for number in used),
        )  # fmt: skip
        sync_names(self._path)
        publish_head(self._path, head, owner)
        gone = set(sizes) - used
        self._files = _files_by_offset(self._memory.frame, np.frombuffer(numbers, np.int64))
        self._sizes = {number: sizes[number] for number in used}
        self._adopt(self._memory.frame)
        self._identity = head_identity(self._path)
        self._head = head  # last: a child that is forked before this knows that it is behind
        for number in gone:
            # What cannot be removed takes room, no more.
            with contextlib.suppress(OSError):
                owner.unlink(chunk_file(self._path, number))

    def _write_new(self, draft: Draft, written: dict[int, int], owner: Owner) -> array[int]:
        """Write files for the new chunks; gives the number of each chunk's file."""
        number = first_free(self._sizes, len(draft.new)) - 1
        numbers = array("q")
        for index, offset in numbered(draft.offsets):
            stored = draft.new.get(index)
            if stored is not None:
                number += 1
                written[number] = len(stored)
                write_chunk(self._path, number, held(stored), owner)
                numbers.append(number)
            else:
                numbers.append(offset if offset < 0 else self._files[offset])
        return numbers

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        with self._lock:
            return super().refresh()


def _files_by_offset(frame: Frame, numbers: Integers) -> dict[int, int]:
    """The number of the file of each chunk that is stored, by where it lies in memory."""
    if frame.repeated_offset is not None or not len(numbers):
        return {}
    stored = numbers >= 0
    offsets = np.frombuffer(frame.offsets_bytes(), np.int64)
    return dict(zip(offsets[stored].tolist(), numbers[stored].tolist(), strict=True))


def directory_carrier(path: str, mode: str, **how: Any) -> Carrier:
    """The carrier of a directory frame, for reading or for changes."""
    if mode == "r":
        how.pop("exclusive", None)
        return ReadOnlyDirectoryCarrier(path, mode=mode, **how)
    return DirectoryCarrier(path, mode=mode, **how)
