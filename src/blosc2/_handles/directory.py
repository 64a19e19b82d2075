"""The frame below an array that is a directory of chunk files, and how its changes are published.

New chunks get files with numbers that no version uses; then the header file is replaced by a new one, in one
rename; files of chunks that are gone are removed last. What is read are open files, or memory where a frame is small.
"""

from __future__ import annotations

import contextlib

import numpy as np

from blosc2._core.io.forking import Lock
from blosc2._files import Owner, Spool, SyncsBeside, TemporaryFile, sync_names
from blosc2._frames import (
    ChunkNumbers,
    Directory,
    EditedChunks,
    FrameUpdate,
    Integers,
    chunk_file,
    first_free,
    from_file,
    head_identity,
    locked_directory,
    pack_head,
    publish_head,
    read_directory,
    read_head,
    take_back,
    write_chunk,
)
from blosc2._handles.changeable import Draft, Drafting
from blosc2._handles.handle import FrameHandle, HandleOptions
from blosc2._options import absolute_path
from blosc2.exceptions import StaleHandleError


class ReadOnlyDirectoryHandle(FrameHandle):
    """A directory frame that is only read."""

    __slots__ = ("_head", "_identity", "_path")

    def __init__(self, path: str, options: HandleOptions) -> None:
        self._path = absolute_path(path)  # stays right when the process changes its working directory
        found = read_directory(self._path)
        super().__init__(found.frame, options, path)
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


class DirectoryHandle(Drafting, ReadOnlyDirectoryHandle):
    """A directory frame that can be changed."""

    # `_gone`: the files that are still to be removed.
    __slots__ = ("_behind", "_chunks", "_draft", "_exclusive", "_files", "_gone", "_lock")

    writable = True

    def __init__(self, path: str, options: HandleOptions) -> None:
        self._lock = Lock()
        self._draft: Draft | None = None
        self._exclusive = options.exclusive
        self._behind = False
        self._files: ChunkNumbers
        self._gone: set[int] = set()
        super().__init__(path, options)

    def _show(self, found: Directory) -> None:
        super()._show(found)
        if self._behind:  # what was published is known only now
            self._gone.update(self._files.without(found.numbers))
        # In memory while they are few, else in open files.
        self._chunks = EditedChunks(TemporaryFile(self._path))
        self._files = ChunkNumbers(found.frame, found.numbers)

    def spool(self) -> Spool:
        return Spool(self._path)

    def _publish(self, update: FrameUpdate, *, fresh: bool) -> None:  # noqa: ARG002 - nothing is ever overwritten
        with locked_directory(self._path, exclusive=self._exclusive):
            if not self._is_current():
                raise StaleHandleError(
                    "another handle or process changed this frame since it was opened: open it again, "
                    "or call refresh(), before writing; with locking=True handles wait for each other and follow",
                    path=self.urlpath,
                )  # fmt: skip
            owner = Owner()
            written: set[int] = set()
            is_published = False
            self._behind = True
            try:
                head, files = self._write(update, written, owner)
                publish_head(self._path, head, owner)
                is_published = True
                self._show_published(head, files, owner)
            except BaseException as error:
                if not is_published:
                    take_back(self._path, self._head, written, owner)
                self._look_again(error)
                raise

    def _write(self, update: FrameUpdate, written: set[int], owner: Owner) -> tuple[bytes, ChunkNumbers]:
        """Write the files of the new chunks. Returns what the header of the next version is to be, and its files."""
        entries, _ = update.entries()
        with SyncsBeside() as syncs:
            # One value that stands for all chunks stays one.
            numbers, lengths = np.zeros(0, np.int64), np.zeros(0, np.int64)
            if not isinstance(entries, int):
                numbers, lengths = self._write_new(update, written, owner, syncs)
            frame = self._chunks.after(update)
            head = pack_head(
                update.fields(), update.metalayers, update.vlmeta, [entries] if isinstance(entries, int) else numbers,
                int(frame.nchunks), update.nbytes, int(lengths.sum()),
            )  # fmt: skip
        sync_names(self._path)
        return head, ChunkNumbers(frame, numbers, lengths)

    def _show_published(self, head: bytes, files: ChunkNumbers, owner: Owner) -> None:
        """Show the version that was written, and remove the files that it does not use."""
        assert self._chunks.frame is not None
        self._gone.update(self._files.without(files.numbers))
        self._files = files
        self._adopt(self._chunks.frame)
        self._identity = head_identity(self._path)
        self._head = head  # last: a child that is forked before this knows that it is behind
        for number in sorted(self._gone.difference(files.numbers.tolist())):
            # A file that cannot be removed takes disk space and does no harm.
            with contextlib.suppress(OSError):
                owner.unlink(chunk_file(self._path, number))
        self._gone = set()
        self._behind = False

    def _version(self) -> bytes:
        return self._head

    def _write_new(
        self, update: FrameUpdate, written: set[int], owner: Owner, syncs: SyncsBeside
    ) -> tuple[Integers, Integers]:
        """Write files for the new chunks; gives the number of each chunk's file, and the lengths of the stored ones."""
        number = first_free(self._files.numbers, len(update.new))
        large = self._chunks.joins(update)
        numbers = np.array(update.offsets)
        lengths = np.zeros_like(numbers)
        kept = numbers >= 0
        kept[list(update.new)] = False
        numbers[kept], lengths[kept] = self._files.at(numbers[kept])
        for index, stored in sorted(update.new.items()):
            written.add(number)
            write_chunk(self._path, number, stored, owner, syncs)
            numbers[index], lengths[index] = number, len(stored)
            if large:  # from now on it lies there
                update.new[index] = from_file(chunk_file(self._path, number), stored)
            number += 1
        return numbers, lengths[numbers >= 0]

    def _is_current(self) -> bool:
        return not self._behind and super()._is_current()


def directory_handle(path: str, options: HandleOptions) -> FrameHandle:
    """The handle of a directory frame, for reading or for changes."""
    return (ReadOnlyDirectoryHandle if options.mode == "r" else DirectoryHandle)(path, options)
