"""Files of a `.b2d`: how a leaf is written to a file, and in which order new files are renamed into place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from operator import attrgetter
from typing import BinaryIO, Final, cast

from blosc2._backends.key_rules import is_text
from blosc2._backends.layout import EMBED, FRAME_MAGIC, LEAF_SUFFIXES, LOCK, RESERVED, ByteRange, missing, pieces
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import item_of
from blosc2._files import Owner, Part, check_unchanged, write_parts
from blosc2._frames import ALIGNMENT, parts_with_checksums
from blosc2.exceptions import FormatError

# Dead bytes that do not justify a rewrite: this many, or one n-th of the file.
_SLACK: Final = 4096
_SLACK_SHARE: Final = 50


def has_dead_bytes(frame: Frame, size: int) -> bool:
    """Whether a file of `size` bytes is worth rewriting."""
    return bool(size - _most_live(frame) > max(_SLACK, size // _SLACK_SHARE))


def size_of(path: str) -> int:
    """The bytes of a file; 0 for one that a writer has removed."""
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _most_live(frame: Frame) -> int:
    """The largest size of a frame's file without dead bytes."""
    index = 8 * frame.nchunks + 64
    return int(frame.header_len + frame.stored_nbytes + frame.nchunks * ALIGNMENT + index + frame.trailer_len)


def _with_checksums(byte_range: ByteRange) -> list[Part]:
    """The bytes of a leaf with checksums, as files carry them; a frame that is not sound stays as it is."""
    try:
        return parts_with_checksums(Frame.open(*byte_range))
    except FormatError:
        return [byte_range]


def in_steps(keys: list[str], renamed: dict[str, str]) -> list[list[str]]:
    """The order in which new files get their names, so that a renamed leaf always has a name.

    Parameters
    ----------
    keys : list of str
        Of all new files.
    renamed : dict
        For leaves that only get another key, the key that they had.

    Returns
    -------
    list of list of str
        Steps: a key comes after the new key of the leaf it held. Keys that swap in a circle come last.
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


_RESERVED: Final = RESERVED.rstrip("/")
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
    """What lies right in one folder.

    Parameters
    ----------
    root, base : str
        The store, and the folder relative to it with "/" at both ends.
    unusual : bool
        Whether only files without a suffix of leaves are looked at.

    Attributes
    ----------
    ranked : list of dict
        Key -> file relative to the root, for each suffix of leaves in their order, and last for frames under
        another suffix.
    folders : list of str
        The folders in it, relative to the root and with "/" at both ends.
    """

    __slots__ = ("folders", "ranked")

    def __init__(self, root: str, base: str, *, unusual: bool = False) -> None:
        self.ranked: list[dict[str, str]] = [{} for _ in range(len(LEAF_SUFFIXES) + 1)]
        self.folders: list[str] = []
        top, inner = base == "/", base[1:]
        with os.scandir(root + base) as entries:
            found = _with_unusual_suffix(entries) if unusual else list(entries)
            for entry in sorted(found, key=_name_of):
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
                if rank < 0 and not _begins_like_frame(entry.path):
                    continue
                key = base + stem
                if not key.isascii():
                    _check_name(root, key)
                self.ranked[rank][key] = inner + name


def _with_unusual_suffix(entries: Iterable[os.DirEntry[str]]) -> list[os.DirEntry[str]]:
    return [entry for entry in entries if _has_unusual_suffix(entry.name)]


def _has_unusual_suffix(name: str) -> bool:
    # Of what begins with a dot, that is no suffix.
    return name.startswith(".") or not name.endswith(LEAF_SUFFIXES)


def is_empty(root: str) -> bool:
    """Whether a directory holds nothing but what a writer leaves there before it has published anything."""
    with os.scandir(root) as entries:
        return all(entry.name in (LOCK, _RESERVED) for entry in entries)


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
                    if name.endswith(LEAF_SUFFIXES) or (base == "/" and name in (EMBED, LOCK, _RESERVED)):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        if len(folders) < _FOLDERS:
                            folders.append(f"{base}{name}/")
                        continue
                    if not entry.is_file():
                        continue
                    left -= _OPENED
                    if not _begins_like_frame(entry.path):
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


def _begins_like_frame(path: str) -> bool:
    with suppress(FileNotFoundError), open(path, "rb", buffering=0) as file:
        return file.read(len(FRAME_MAGIC)) == FRAME_MAGIC
    return False


def _check_name(root: str, key: str) -> None:
    if not is_text(key):
        raise FormatError(f"the name of the leaf {key!r} is not UTF-8, so it cannot be a key", path=root)
