"""The folders of a `.b2d`: where the file of a key belongs, and which folders come and go with files."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from blosc2._backends.directory.scan import Folder, first_unusual, scan
from blosc2._backends.key_rules import is_path
from blosc2._backends.layout import EMBED, LEAF_SUFFIXES, RESERVED, ByteRange, open_source, unusual_name
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.header_parser import file_range
from blosc2._core.io.forking import Lock
from blosc2._core.io.sharing import item_of
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._files import Owner, sync_files, through_link
from blosc2.exceptions import FormatError, legible, some_of


class Folders:
    """The tree of one store.

    Parameters
    ----------
    root : str
        The directory.
    owner : Owner
        The process that has it open for writing.
    """

    __slots__ = ("_inside", "_owner", "_root")

    def __init__(self, root: str, owner: Owner) -> None:
        self._root = root
        self._owner = owner
        self._inside: set[str] = set()

    def forget(self) -> None:
        """Forget which folders lie inside."""
        self._inside = set()

    def path_for(self, key: str, suffix: str) -> str:
        """The file that a leaf is written to; for a link, the file that it leads to."""
        path = self._root + key + suffix
        if not os.path.islink(path):
            return path
        target, root = through_link(path), os.path.realpath(self._root)
        if not target.startswith(root + os.sep) or os.path.basename(target) == EMBED:
            raise ValueError(
                f"{legible(path)}: the file of the key {key!r} is a link that leads out of the store; delete it first"
            )
        return self._root + target[len(root) :]

    def check_inside(self, key: str) -> None:
        """Refuse to write through a link that leads out of the tree."""
        folder = os.path.dirname(self._root + key)
        if is_path(key) and folder in self._inside:
            return
        real, root = os.path.realpath(folder), os.path.realpath(self._root)
        if not is_path(key) or (real != root and not real.startswith(root + os.sep)):
            raise ValueError(f"{legible(self._root)}: the key {key!r} leads out of the store")
        self._inside.add(folder)

    def prepare(self, paths: list[str]) -> tuple[set[str], set[str]]:
        """Make the folders of files, and check that nothing is in the way, before the files are moved there.

        Returns the folders whose entries will change, and the paths that exist already.
        """
        folders = {os.path.dirname(path) for path in paths}
        touched = set(folders)
        occupied = set()
        try:
            for folder in folders:
                touched.update(self.make(folder))
            for path in paths:
                try:
                    kind = os.lstat(path).st_mode
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(kind) or (stat.S_ISLNK(kind) and os.path.isdir(path)):
                    raise IsADirectoryError(errno.EISDIR, "a folder is where the file of a leaf should be", path)
                occupied.add(path)
        except BaseException:
            for folder in folders:
                self.remove_empty(folder)
            raise
        return touched, occupied

    def make(self, folder: str) -> list[str]:
        """Make a folder unless it exists; returns the folders that got a new entry."""
        changed = []
        above = folder
        while not os.path.isdir(above):
            above = os.path.dirname(above)
            changed.append(above)
        if changed:
            self._owner.makedirs(folder)
        return changed

    def remove_empty(self, folder: str) -> str:
        """Remove a folder and those above it as far as they are empty; returns the first that stays."""
        while folder != self._root and folder.startswith(self._root):
            try:
                self._owner.rmdir(folder)
            except FileNotFoundError:
                pass
            except OSError:
                break
            folder = os.path.dirname(folder)
        return folder

    def sync(self, folders: set[str]) -> None:
        """Make the names in folders durable."""
        sync_files((), [folder for folder in folders if os.path.isdir(folder)])


_RESERVED: Final = "/" + RESERVED
# Errors of a file system if a file does not exist, or cannot exist.
_NO_FILE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Up to here reading a whole file costs less than mapping it.
_SMALL_FILE: Final = 64 << 10


class _Found:
    """What is known of the files until all of it is forgotten. It is changed with the lock of its `LeafFiles`.

    Attributes
    ----------
    files : dict or None
        The file of each key, relative to the directory; None before a walk.
    folders : dict
        By folder, its files with unusual suffixes by key.
    changes : int
        How often files came or went.
    made : tuple or None
        A table of the keys, and after how many changes.
    walks : int
        How many threads are walking the directory.
    noted : dict
        The files that came or went meanwhile; None for one that went.
    """

    __slots__ = ("changes", "files", "folders", "made", "noted", "walks")

    def __init__(self) -> None:
        self.files: dict[str, str] | None = None
        self.folders: dict[str, dict[str, str]] = {}
        self.changes = self.walks = 0
        self.made: tuple[int, KeyTable] | None = None
        self.noted: dict[str, str | None] = {}


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

    __slots__ = ("_found", "_lock", "_mmap_mode", "_root", "_told", "advice")

    def __init__(self, root: str, mmap_mode: str | None) -> None:
        self._root = root
        self._mmap_mode = mmap_mode
        self.advice: str | None = None
        self._lock = Lock()  # for single steps: nobody waits for a walk
        # Files warned about, and "" for keys that have several.
        self._told: set[str] = set()
        self.forget()

    def forget(self) -> None:
        """Forget which files there are."""
        # It holds until another one takes its place: a thread whose walk began before puts what it finds into the one
        # that nobody looks at any more.
        self._found = _Found()

    @property
    def listed(self) -> dict[str, str] | None:
        """The file of each key, relative to the directory, as listed; None if they were not listed."""
        return self._found.files

    def locate(self, key: str) -> ByteRange | None:
        """The file of a key, opened; None where there is none."""
        files = self.listed
        if files is None:
            return self.locate_now(key)
        name = item_of(files, key)
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
        try:
            source = open_source(path, self._mmap_mode, old)
        except FileNotFoundError:  # it went just now
            return None
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
        name = item_of(files, key)
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
        return [path for key in list(self._walked(self._found)) for path in self.files_of(key)]

    def table(self, *, again: bool = False) -> KeyTable:
        """The keys of all files, by one walk of the directory that is then remembered."""
        if again:
            self._found = _Found()
        found = self._found
        files = self._walked(found)
        made, changes = found.made, found.changes
        if made is not None and made[0] == changes:
            return made[1]
        table = KeyTable.of_keys(files.copy())
        found.made = changes, table
        return table

    def _walked(self, found: _Found) -> dict[str, str]:
        """The file of each key, as a walk of the directory finds them, now or earlier."""
        files = found.files
        if files is not None:
            return files
        with self._lock:
            found.walks += 1
        try:
            ranked = scan(self._root)
            files = {}
            # In reverse, so that of two files for one key the first suffix wins.
            for group in reversed(ranked):
                files.update(group)
            self._warn(ranked)
            with self._lock:
                if found.files is None:
                    # The walk may have come by before them, or after.
                    for key, name in found.noted.items():
                        _note(files, key, name)
                    found.files = files
                return found.files
        finally:
            with self._lock:
                found.walks -= 1
                if not found.walks:
                    found.noted = {}

    def note_file(self, key: str, suffix: str | None) -> None:
        """A key was given a file with this suffix, or has none any more."""
        name = None if suffix is None else key[1:] + suffix
        with self._lock:
            found = self._found
            if found.files is not None:
                _note(found.files, key, name)
            elif found.walks:
                found.noted[key] = name
            others = found.folders.get(key[: key.rindex("/") + 1])
            if others:
                others.pop(key, None)
            found.changes += 1  # last: what was made of less counts as older

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
        found = self._found
        known, changes = item_of(found.folders, base), found.changes
        if known is None:
            try:
                known = Folder(self._root, base, unusual=True).ranked[-1]
            except OSError as error:
                if error.errno in _NO_FILE:
                    return None
                raise
            with self._lock:
                if found.changes == changes:  # else it may have been looked at before one of its files went
                    found.folders[base] = known
        name = item_of(known, key)
        return None if name is None else os.path.join(self._root, name)


def _note(files: dict[str, str], key: str, name: str | None) -> None:
    if name is None:
        files.pop(key, None)
    else:
        files[key] = name
