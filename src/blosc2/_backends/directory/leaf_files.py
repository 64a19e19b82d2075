"""The files of leaves of a `.b2d`: found by key, and listed by one walk that is remembered."""

from __future__ import annotations

import errno
import os
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from blosc2._backends.directory.scan import Folder, first_unusual, scan
from blosc2._backends.key_rules import is_path
from blosc2._backends.layout import LEAF_SUFFIXES, RESERVED, ByteRange, open_source, unusual_name
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.header_parser import file_range
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2.exceptions import FormatError, some_of

_RESERVED: Final = "/" + RESERVED
# Errors of a file system if a file does not exist, or cannot exist.
_NO_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Up to here reading a whole file costs less than mapping it.
_SMALL_FILE: Final = 64 << 10


class _Listed:
    """The file of each key, relative to the directory, and what is made of it."""

    __slots__ = ("changes", "files", "table")

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.table: KeyTable | None = None
        #: How often files came or went since the walk.
        self.changes = 0


class LeafFiles:
    """The files of one store.

    Parameters
    ----------
    root : str
        The directory.
    mmap_mode : {None, 'r'}
        How they are opened.

    Attributes
    ----------
    advice : str or None
        The advice for each file that is opened.
    """

    __slots__ = ("_folders", "_kept", "_mmap_mode", "_root", "_told", "advice")

    def __init__(self, root: str, mmap_mode: str | None) -> None:
        self._root = root
        self._mmap_mode = mmap_mode
        self.advice: str | None = None
        # Files warned about, and "" for keys that have several.
        self._told: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Forget which files there are."""
        # What is in it holds until another list takes its place: a thread whose walk began before puts what it finds
        # into the list that nobody looks at any more.
        self._kept: list[_Listed] = []
        self._folders: dict[str, dict[str, str]] = {}

    @property
    def listed(self) -> dict[str, str] | None:
        """The file of each key, relative to the directory, as listed; None if they were not listed."""
        kept = self._kept
        return kept[0].files if kept else None

    def locate(self, key: str) -> ByteRange | None:
        """The file of a key, opened; None where there is none."""
        files = self.listed
        if files is None:
            return self.locate_now(key)
        name = files.get(key)
        return None if name is None else self.open(os.path.join(self._root, name))

    def locate_now(self, key: str) -> ByteRange | None:
        """The same, whatever files there were when they were listed."""
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self._root + key
        for suffix in LEAF_SUFFIXES:
            byte_range = self.open(stem + suffix)
            if byte_range is not None:
                return byte_range
        other = self._unknown_suffix(key)
        return None if other is None else self.open(other)

    def stored_range(self, key: str) -> ByteRange | None:
        """The file of a key, opened but not read; None where there is none."""
        path = self.path_of(key)
        if path is None:
            return None
        with suppress(FileNotFoundError):  # somebody may have removed it since the files were listed
            source = open_source(path, None)
            return source, 0, source.size
        return None

    def open(self, path: str, old: Source | None = None) -> ByteRange | None:
        """The frame in a file; None where there is none, or something else. For `old` see `open_source`."""
        # A small file is read at once: cheaper than a mapping, and a thousand of them need no descriptors.
        source = Source.of_small_file(path, _SMALL_FILE)
        if source is None or source.size < _SMALL_FILE:
            return None if source is None else file_range(source)
        source = open_source(path, self._mmap_mode, old)
        if self.advice is not None:
            source.advise(self.advice)
        return file_range(source)

    def has(self, key: str) -> bool:
        """Whether a key has a file."""
        files = self.listed
        return self.path_now(key) is not None if files is None else key in files

    def path_of(self, key: str) -> str | None:
        """The file of a key."""
        files = self.listed
        if files is None:
            return self.path_now(key)
        name = files.get(key)
        return None if name is None else os.path.join(self._root, name)

    def path_now(self, key: str) -> str | None:
        """The same, whatever files there were when they were listed."""
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self._root + key
        for suffix in LEAF_SUFFIXES:
            if os.path.isfile(stem + suffix):
                return stem + suffix
        return self._unknown_suffix(key)

    def files_of(self, key: str, known: str | None = None) -> Iterator[str]:
        """Every file that stands for a key: each suffix of leaves, and one with an unknown suffix.

        `known` is a file that certainly exists.
        """
        for suffix in LEAF_SUFFIXES:
            path = self._root + key + suffix
            if path == known or os.path.isfile(path):
                yield path
        other = self._unknown_suffix(key)
        if other is not None:
            yield other

    def all(self) -> list[str]:
        if not os.path.isdir(self._root):
            return []
        return [path for key in list(self._walked().files) for path in self.files_of(key)]

    def table(self, *, again: bool = False) -> KeyTable:
        """The keys of all files, by one walk of the directory that is then remembered."""
        if again:
            self._kept = []
        listed = self._walked()
        table, changes = listed.table, listed.changes
        if table is None:
            table = KeyTable.of_keys(listed.files.copy())
            if listed.changes == changes:
                listed.table = table
        return table

    def _walked(self) -> _Listed:
        """What a walk of the directory finds, now or earlier."""
        kept = self._kept
        if not kept:
            ranked = scan(self._root)
            files: dict[str, str] = {}
            # In reverse, so that of two files for one key the first suffix wins.
            for group in reversed(ranked):
                files.update(group)
            self._warn(ranked)
            kept.append(_Listed(files))
        return kept[0]

    def note_file(self, key: str, suffix: str | None) -> None:
        """A key was given a file with this suffix, or has none any more."""
        kept = self._kept
        if kept:
            listed = kept[0]
            if suffix is None:
                listed.files.pop(key, None)
            else:
                listed.files[key] = key[1:] + suffix
            listed.changes += 1
            listed.table = None
        others = self._folders.get(key[: key.rindex("/") + 1])
        if others:
            others.pop(key, None)

    def warn_early(self) -> None:
        """Warn of leaves under unusual suffixes when the store is opened, as far as that takes little time."""
        self._warn_of(first_unusual(self._root))

    def _warn_of(self, files: dict[str, str]) -> None:
        for key, name in files.items():
            if name not in self._told:
                self._told.add(name)
                frame = None
                with suppress(FormatError, OSError):
                    byte_range = self.open(os.path.join(self._root, name))
                    frame = None if byte_range is None else Frame.open(*byte_range, key)
                warnings.warn(unusual_name(self._root, name, key, frame), UserWarning, stacklevel=2)

    def _warn(self, ranked: list[dict[str, str]]) -> None:
        self._warn_of(ranked[-1])
        if "" not in self._told and sum(map(len, ranked)) > len(set().union(*ranked)):
            self._told.add("")
            counts = Counter(key for group in ranked for key in group)
            several = some_of(key for key, count in counts.items() if count > 1)
            warnings.warn(
                f"{self._root}: {several}: more than one file; of these, the suffixes "
                f"{', '.join(LEAF_SUFFIXES)} win in this order: remove the files that should not be leaves",
                UserWarning,
                stacklevel=2,
            )

    def _unknown_suffix(self, key: str) -> str | None:
        """The file of a key if it has an unusual suffix. Looks at the folder of the key once."""
        base = key[: key.rindex("/") + 1]
        known = self._folders.get(base)
        if known is None:
            try:
                known = Folder(self._root, base, unusual=True).ranked[-1]
            except OSError as error:
                if error.errno in _NO_FILE:
                    return None
                raise
            self._folders[base] = known
        name = known.get(key)
        return None if name is None else os.path.join(self._root, name)
