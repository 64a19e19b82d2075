"""The files of a `.b2d`: where that of a key is, how a leaf is written to one, and which folders come and go."""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from operator import attrgetter
from typing import BinaryIO, Final, cast

from blosc2._backends.key_rules import is_path, is_text
from blosc2._backends.layout import (
    APPLE_DOUBLE,
    EMBED,
    FRAME_MAGIC,
    LEAF_SUFFIXES,
    LOCK,
    RESERVED,
    ByteRange,
    may_be_attributes,
    missing,
    open_source,
    pieces,
    unusual_name,
)
from blosc2._core.frame.frame import Frame, file_range
from blosc2._core.io.sharing import Lock, item_of
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._files import Owner, Part, check_unchanged, sync_files, through_link, write_parts
from blosc2._frames import most_live, parts_with_checksums, publish_waiting
from blosc2.exceptions import FormatError, legible, some_of

# Dead bytes that do not justify a rewrite: this many, or one n-th of the file.
_SLACK: Final = 4096
_SLACK_SHARE: Final = 50


def has_dead_bytes(frame: Frame, size: int) -> bool:
    """Whether a file of `size` bytes is worth rewriting."""
    return bool(size - most_live(frame) > max(_SLACK, size // _SLACK_SHARE))


def size_of(path: str) -> int:
    """The bytes of a file; 0 for one that a writer has removed."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _with_checksums(byte_range: ByteRange) -> list[Part]:
    """The bytes of a leaf with checksums, as files carry them; a frame that is not sound stays as it is."""
    try:
        return parts_with_checksums(Frame.open(*byte_range))
    except FormatError:
        return [byte_range]


def in_steps(keys: list[str], renamed: dict[str, str]) -> list[list[str]]:
    """The order in which new files get their names, so that a renamed leaf always has a name.

    `renamed` has the keys that leaves had which only get another one. A key comes in a step after the new key of the
    leaf it held; keys that swap in a circle come last.
    """
    steps = []
    left = set(keys)
    while left:
        held = {origin: key for key, origin in renamed.items() if key in left}
        step = [key for key in keys if key in left and (key not in held or held[key] == key)]
        if not step:
            step = [key for key in keys if key in left]
        steps.append(step)
        left.difference_update(step)
    return steps


def write_new(path: str, byte_range: ByteRange, owner: Owner) -> None:
    """Write a frame to a file that must not exist."""
    with owner.open_raw(path, "xb") as file:
        write_parts(cast("BinaryIO", file), _with_checksums(byte_range))
    check_unchanged(byte_range[0])


def write_in_a_row(path: str, byte_ranges: Iterable[ByteRange], owner: Owner) -> list[int]:
    """Write frames to a file that must not exist, one after the other; returns where each begins."""
    starts, end = [], 0
    with owner.open(path, "xb") as file:
        for byte_range in byte_ranges:
            starts.append(end)
            end += sum(map(file.write, pieces(byte_range)))
    return starts


def folders_between(top: str, folder: str) -> Iterator[str]:
    """Folders from `folder` up to `top`, without `top`."""
    while folder != top:
        yield folder
        folder = os.path.dirname(folder)


_RESERVED_NAME: Final = RESERVED.rstrip("/")
# What opening a store looks at: so many names in so many folders; a file that must be read counts as so many more.
_NAMES: Final = 256
_FOLDERS: Final = 4
_OPENED: Final = 15
# How often a tree is looked at that a writer changes meanwhile; the time of a folder that is not there.
_TRIES: Final = 5
_GONE: Final = -1
_RANKS: Final = {suffix: rank for rank, suffix in enumerate(LEAF_SUFFIXES)}
_name_of = attrgetter("name")


class Folder:
    """What lies right in one folder of a store, which `base` names with "/" at both ends.

    With `unusual`, only files without a suffix of leaves are looked at.
    """

    __slots__ = ("folders", "ranked")

    def __init__(self, root: str, base: str, *, unusual: bool = False) -> None:
        #: Key -> file relative to the root, for each suffix of leaves in their order, and last for all others.
        self.ranked: list[dict[str, str]] = [{} for _ in range(len(LEAF_SUFFIXES) + 1)]
        #: The folders in it, as `base`.
        self.folders: list[str] = []
        top, inner = base == "/", base[1:]
        with os.scandir(root + base) as entries:
            # Of what begins with a dot, that is no suffix.
            found = (entry for entry in entries if entry.name[0] == "." or not entry.name.endswith(LEAF_SUFFIXES))
            for entry in sorted(found if unusual else entries, key=_name_of):
                name = entry.name
                dot = name.rfind(".")
                usual = item_of(_RANKS, name[dot:]) if dot > 0 and name[0] != "." else None
                if usual is not None and entry.is_file(follow_symlinks=False):  # as most are
                    key = base + name[:dot]
                    if not key.isascii():
                        _check_name(root, key)
                    self.ranked[usual][key] = inner + name
                    continue
                # Links to folders are not followed: they may lead out of the tree, or in circles.
                if entry.is_dir(follow_symlinks=False):
                    if not (top and name + "/" == RESERVED):
                        self.folders.append(f"{base}{name}/")
                    continue
                if (top and name in (EMBED, LOCK)) or not entry.is_file():
                    continue
                stem, suffix = os.path.splitext(name)
                rank = LEAF_SUFFIXES.index(suffix) if suffix in LEAF_SUFFIXES else -1
                if rank < 0 and not _begins_with(entry.path, FRAME_MAGIC):
                    continue
                if may_be_attributes(name) and _begins_with(entry.path, APPLE_DOUBLE):
                    continue
                key = base + stem
                if not key.isascii():
                    _check_name(root, key)
                self.ranked[rank][key] = inner + name


def is_empty(root: str) -> bool:
    """Whether a directory holds nothing but what a writer leaves there before it has published anything."""
    with os.scandir(root) as entries:
        return all(entry.name in (LOCK, _RESERVED_NAME) for entry in entries)


def has_few_names(path: str, most: int) -> bool:
    """Whether a directory has at most so many files and folders, so that listing them takes a moment only."""
    folders = [path] if os.path.exists(path) else []  # a new store may have published nothing
    while folders:
        found = _some_entries(folders.pop(), most + 1)
        most -= len(found)
        if most < 0:
            return False
        folders += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
    return True


def _some_entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    """At most so many entries of a folder; none if a writer has removed it."""
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, most))
    except FileNotFoundError:
        return []


def first_unusual(root: str) -> dict[str, str]:
    """Frames under unusual suffixes, as far as a look that takes little time finds any: key -> file."""
    found: dict[str, str] = {}
    left, folders = _NAMES, ["/"]
    with suppress(OSError):  # whoever needs what cannot be read gets the error
        for base in folders:
            with os.scandir(root + base) as entries:
                for entry in entries:
                    name = entry.name
                    left -= 1
                    if left < 0:
                        return found
                    if name.endswith(LEAF_SUFFIXES) or (base == "/" and name in (EMBED, LOCK, _RESERVED_NAME)):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if len(folders) < _FOLDERS:
                            folders.append(f"{base}{name}/")
                        continue
                    if not entry.is_file():
                        continue
                    left -= _OPENED
                    if not _begins_with(entry.path, FRAME_MAGIC):
                        continue
                    found[base + os.path.splitext(name)[0]] = f"{base[1:]}{name}"
    return found


def scan(root: str) -> list[dict[str, str]]:
    """`Folder.ranked` of a whole tree.

    A writer may move leaves meanwhile, from folders still to come to others. So a tree of which a folder has changed is
    looked at again.
    """
    for _ in range(_TRIES):
        times: dict[str, int] = {}
        ranked = _scan_once(root, times)
        if all(_time_of(root + base) == time for base, time in times.items()):
            break
    return ranked


def _scan_once(root: str, times: dict[str, int]) -> list[dict[str, str]]:
    """Look at a tree once, and note in `times` when each folder was changed before; folders that go are left out."""
    ranked: list[dict[str, str]] = [{} for _ in range(len(LEAF_SUFFIXES) + 1)]
    waiting = ["/"]
    while waiting:
        base = waiting.pop()
        times[base] = _time_of(root + base)
        try:
            folder = Folder(root, base)
        except (FileNotFoundError, NotADirectoryError):
            times[base] = _GONE - 1  # whatever its time is now
            if base == "/":
                raise missing(root) from None
            continue
        waiting += folder.folders
        for all_files, files in zip(ranked, folder.ranked, strict=True):
            all_files.update(files)
    return ranked


def _time_of(folder: str) -> int:
    """When a folder was changed last."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return _GONE


def _begins_with(path: str, magic: bytes) -> bool:
    with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        return file.read(len(magic)) == magic
    return False


def _check_name(root: str, key: str) -> None:
    if not is_text(key):
        raise FormatError(f"the name of the leaf {key!r} is not UTF-8, so it cannot be a key", path=root)


class Folders:
    """The tree of one store."""

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
    """What is known of the files until all of it is forgotten. It is changed with the lock of its `LeafFiles`."""

    __slots__ = ("changes", "files", "folders", "made", "noted", "walks")

    def __init__(self) -> None:
        # The file of each key, relative to the directory; None before a walk.
        self.files: dict[str, str] | None = None
        # By folder, its files with unusual suffixes by key.
        self.folders: dict[str, dict[str, str]] = {}
        # How often files came or went, and how many threads are walking the directory.
        self.changes = self.walks = 0
        # A table of the keys, and after how many changes.
        self.made: tuple[int, KeyTable] | None = None
        # The files that came or went during a walk; None for one that went.
        self.noted: dict[str, str | None] = {}


class LeafFiles:
    """The files of one store; `advice` is given to the system for each one that is opened."""

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
        """The file of a key, opened, whatever files there were when they were listed."""
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self._root + key
        for suffix in self._suffixes(key):
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
        publish_waiting(path)
        with suppress(FileNotFoundError):  # somebody may have removed it since the files were listed
            source = open_source(path, None)
            return source, 0, source.size
        return None

    def open(self, path: str, old: Source | None = None) -> ByteRange | None:
        """The frame in a file; None where there is none, or something else. For `old` see `open_source`."""
        publish_waiting(path)  # an array that this process has opened as a file of its own
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
        """The file of a key, whatever files there were when they were listed."""
        if not is_path(key) or key.startswith(_RESERVED):
            return None
        stem = self._root + key
        for suffix in self._suffixes(key):
            if os.path.isfile(stem + suffix):
                return stem + suffix
        return self._unknown_suffix(key)

    def files_of(self, key: str, known: str | None = None) -> Iterator[str]:
        """Every file that stands for a key: each suffix of leaves, and one with an unknown suffix.

        `known` is a file that certainly exists.
        """
        for suffix in self._suffixes(key):
            path = self._root + key + suffix
            if path == known or os.path.isfile(path):
                yield path
        other = self._unknown_suffix(key)
        if other is not None:
            yield other

    def _suffixes(self, key: str) -> tuple[str, ...]:
        """Suffixes of files that may be the leaf of a key: all but those of AppleDouble files."""
        if not may_be_attributes(key):
            return LEAF_SUFFIXES
        stem = self._root + key
        return tuple(
            suffix for suffix in LEAF_SUFFIXES
            if not (os.path.isfile(stem + suffix) and _begins_with(stem + suffix, APPLE_DOUBLE))
        )  # fmt: skip

    def all(self) -> list[str]:
        """Every file that stands for a key."""
        if not os.path.isdir(self._root):
            return []
        return [f"{self._root}/{name}" for files in scan(self._root) for name in files.values()]

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

    def table_now(self) -> KeyTable:
        """The keys of all files, by a walk of which nothing is remembered, and nobody warned."""
        return KeyTable.of_keys(set().union(*scan(self._root)))

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
