"""A `.b2z` store: one ZIP file in which each leaf is a stored member.

The directory of the archive is read in one pass and leaves are windows of the one file. Changes of an archive that
exists are appended to it: new members, a new directory, and only then an end record that makes both current. A new
archive is written beside its place and renamed into it. Nothing is ever unpacked.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Callable

from blosc2._core.archive import Archive, ArchiveWriter
from blosc2._core.keytable import KeyTable
from blosc2._core.source import Source
from blosc2.exceptions import FormatError
from blosc2.new_file import NewFile
from blosc2.store_layout import (
    EMBED,
    LEAF_SUFFIXES,
    LOCK,
    RESERVED,
    Window,
    open_source,
    suffix_of,
    whole,
)

_SUFFIXES = tuple(suffix.encode() for suffix in LEAF_SUFFIXES)
_SKIPPED = tuple(name.encode() for name in (EMBED, LOCK, RESERVED))
_ALIGNMENT = 64


class ZipBackend:
    """The members of one `.b2z` store.

    Parameters
    ----------
    path : str
        The file.
    mmap_mode : {None, 'r'}
        How it is opened.
    """

    suffix = ".b2z"
    #: Whether the keys are known without looking at each file.
    lists_cheaply = True

    def __init__(self, path: str, mmap_mode: str | None) -> None:
        self.root = path
        self._mmap_mode = mmap_mode
        self._writer: ArchiveWriter | None = None
        self._descriptor = -1
        self._new: NewFile | None = None
        self._appended: dict[str, bytes] = {}
        self._warned = False
        self._forget()

    def _forget(self) -> None:
        self._source: Source | None = None
        self._archive: Archive | None = None
        self._keys: KeyTable | None = None
        self._find: Callable[[str], int] | None = None
        self._member: Callable[[int], tuple[int, int]] = _no_member

    # ------------------------------------------------------------------ reading
    def exists(self) -> bool:
        """Whether there is a file."""
        return os.path.lexists(self.root)

    def check_replaceable(self) -> None:
        """Refuse to put an archive in the place of a directory."""
        if os.path.isdir(self.root):
            raise IsADirectoryError(errno.EISDIR, "a .b2z store is a file, and this is a directory", self.root)

    def embed_window(self) -> Window:
        """Where the frame of embedded values lies. Reads the archive's directory, at the first call."""
        self.check_replaceable()
        source = open_source(self.root, self._mmap_mode)
        archive = Archive(source)
        number = archive.find(EMBED.encode())
        if number < 0:
            raise FormatError(f"not a store: the archive has no member {EMBED}", path=self.root)
        offset, length = archive.window(number)
        self._source, self._archive, self._member = source, archive, archive.window
        self._keys = None
        self._find = None
        return source, offset, length

    def _number(self, key: str) -> int:
        """The member of a key, or -1."""
        return (self._find or self.table().find)(key)

    def table(self) -> KeyTable:
        """The keys of all members."""
        if self._keys is None:
            if self._archive is None:
                return KeyTable.of_keys(())
            self._keys = keys = KeyTable.of_archive(self._archive, _SUFFIXES, _SKIPPED)
            self._find = keys.find
            if (keys.strangers or keys.clashes) and not self._warned:
                self._warn(keys)
        return self._keys

    def _warn(self, keys: KeyTable) -> None:
        self._warned = True
        for key in keys.strangers:
            warnings.warn(f"{self.root}: {key!r} is a frame under an unusual suffix", UserWarning, stacklevel=2)
        for key in keys.clashes:
            warnings.warn(
                f"{self.root}: {key!r} has more than one member; of these, the suffixes "
                f"{', '.join(LEAF_SUFFIXES)} win in this order",
                UserWarning,
                stacklevel=2,
            )

    def locate(self, key: str) -> Window | None:
        """The member of a key; None where there is none."""
        number = (self._find or self.table().find)(key)
        if number < 0:
            return None
        offset, length = self._member(number)
        return self._source, offset, length  # type: ignore[return-value]  # there is a source where there are keys

    def __contains__(self, key: str) -> bool:
        found: bool = self._number(key) >= 0
        return found

    def window_in_archive(self, key: str) -> tuple[int, int] | None:
        """Offset and length of a leaf in the file."""
        number = self._number(key)
        return None if number < 0 else self._member(number)

    def name_of(self, key: str) -> str | None:
        """The name of a leaf's member."""
        number = self._number(key)
        if number < 0 or self._archive is None:
            return None
        name: str = self._archive.name(number)
        return name

    def close(self) -> None:
        """Let go of the file; leaves that need it keep it."""
        self.discard()
        self._forget()

    # ------------------------------------------------------------------ writing
    def stage(self, changes: dict[str, Window]) -> dict[str, Window]:
        """Move frames out of memory, behind what is published."""
        places = {key: self._append(key, window) for key, window in changes.items()}
        writer = self._begin()
        writer.drain()
        source = Source.open(self._written_path)
        return {key: (source, offset, changes[key][2]) for key, offset in places.items()}

    def publish(self, changes: dict[str, Window | None], embed: bytes | None, *, fresh: bool) -> None:
        """Make changes part of the archive; see `DirectoryBackend.publish`."""
        writer = self._begin(fresh)
        try:
            for key in [key for key in self._appended if changes.get(key) is None]:
                self._drop(key)
            for key, window in changes.items():
                if window is not None and not self._is_appended(key, window):
                    self._append(key, window)
            if embed is not None:
                writer.append(EMBED.encode(), embed)
            if self._archive is None or fresh:
                writer.write_directory()
            else:
                writer.write_directory(*self._archive.records(self._outdated(changes, embed is not None)))
            os.fsync(self._descriptor)
            writer.write_end()
            os.fsync(self._descriptor)
            self._finish()
        except BaseException:
            self.discard()
            raise

    def _begin(self, fresh: bool | None = None) -> ArchiveWriter:
        """Open what new members are written to: the archive itself, or a file that will replace it."""
        if self._writer is not None:
            return self._writer
        flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
        if self._archive is None or fresh:
            os.makedirs(os.path.dirname(os.path.abspath(self.root)), exist_ok=True)
            self._new = NewFile(self.root, replace=True)
            self._descriptor = self._new.file.fileno()
            start = 0
        else:
            self._descriptor = os.open(self.root, flags)
            self._check_unchanged()
            # What lies behind the end record is left from an append that was not finished.
            start = self._archive.end
            os.ftruncate(self._descriptor, start)
        self._writer = ArchiveWriter(self._descriptor, start, _ALIGNMENT)
        return self._writer

    def _check_unchanged(self) -> None:
        now = os.fstat(self._descriptor)
        source = self._source
        if source is not None and (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns) != source.identity:
            os.close(self._descriptor)
            self._descriptor = -1
            raise OSError(
                errno.EBUSY, "the file was changed by somebody else since it was opened; open it again", self.root
            )

    def _append(self, key: str, window: Window) -> int:
        name = (key[1:] + suffix_of(window)).encode()
        self._drop(key)
        offset: int = self._begin().append(name, whole(window))
        self._appended[key] = name
        return offset

    def _drop(self, key: str) -> None:
        name = self._appended.pop(key, None)
        if name is not None and self._writer is not None:
            self._writer.drop(name)

    def _is_appended(self, key: str, window: Window) -> bool:
        """Whether a frame already lies in the file that is being written, under its key."""
        return key in self._appended and window[0].path == self._written_path

    def _outdated(self, changes: dict[str, Window | None], embed: bool) -> set[int]:
        """Numbers of the members that the new directory leaves out."""
        archive = self._archive
        assert archive is not None
        gone: set[int] = set()
        shadowed = self.table().shadowed
        for key in changes:
            number = self._number(key)
            if number >= 0:
                gone.add(number)
                gone.update(shadowed.get(key, ()))
        if embed:
            gone.update(number for number, name in enumerate(archive.names()) if name == EMBED)
        return gone

    @property
    def _written_path(self) -> str:
        return self.root if self._new is None else self._new.file.name

    def _finish(self) -> None:
        """The new end record is durable: make the file the store's, where it is another one."""
        if self._new is None:
            os.close(self._descriptor)
        else:
            self._new.commit()
        self._end_writing()

    def discard(self) -> None:
        """Cut off or remove what was written and not published."""
        if self._new is not None:
            self._new.abandon()
        elif self._descriptor >= 0:
            if self._archive is not None:
                os.ftruncate(self._descriptor, self._archive.end)
            os.close(self._descriptor)
        self._end_writing()

    def _end_writing(self) -> None:
        self._descriptor = -1
        self._new = self._writer = None
        self._appended = {}


def _no_member(number: int) -> tuple[int, int]:
    """The window of a member of an archive that is not open."""
    raise LookupError(f"no archive is open that could have a member {number}")
