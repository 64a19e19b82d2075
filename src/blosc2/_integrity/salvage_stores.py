"""Recovering a file or store of any kind, directories among them, and writing it to a new one."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Final

from blosc2._backends import (
    EMBED,
    FRAME_MAGIC,
    LEAF_SUFFIXES,
    LOCK,
    MAX_SEGMENTS,
    RESERVED,
    ByteRange,
    is_own,
    is_path,
    is_safe,
    suffix_of,
)
from blosc2._core.io.source import Source
from blosc2._files import NewFile, Owner
from blosc2._frames import FrameUpdate, buffers_with_checksums, is_directory_frame, write_frame
from blosc2._integrity.check_directory import key_of, walk
from blosc2._integrity.check_frames import open_regular
from blosc2._integrity.check_path import DIRECTORY, EMBEDDED
from blosc2._integrity.report import FAULTS, Findings
from blosc2._integrity.salvage_archive import recover_archive
from blosc2._integrity.salvage_embedded import Values, recover_embedded
from blosc2._integrity.salvage_frames import Recovered, recover_frame
from blosc2._stores import Store, changes
from blosc2.dict_store import DictStore
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import FormatError, StoreLockedError, legible
from blosc2.tree_store import TreeStore

# What the name of a member may have.
_MOST_IN_ARCHIVE: Final = 0xFFFF
# What names and paths of files may have where the system does not tell, and what a new directory has besides.
_MOST_IN_NAME: Final = 255
_MOST_IN_PATH: Final = 4095
_BESIDE: Final = 64


def _opened(path: str, lost: Findings) -> Source:
    """A file to recover from; `FormatError` if it cannot be read."""
    try:
        source = open_regular(path)
    except FAULTS as error:
        lost.caught(error, path=path)
        raise _nothing(lost) from None
    lost.total = source.size
    return source


def _nothing(lost: Findings) -> FormatError:
    reasons = [one.problem for one in lost.found if one.kind == "damage"] or [one.problem for one in lost.found]
    first = next((one for one in lost.found if one.offset is not None), None)
    notes = [one.problem for one in lost.found if one.kind == "note" and "fill=0" in one.problem]
    why = "; ".join(dict.fromkeys([*notes, *reasons[:3]]))
    return FormatError(
        f"nothing could be recovered: {why}", path=lost.path, offset=None if first is None else first.offset
    )


# ------------------------------------------------------------------ single arrays
def recover_single(path: str, lost: Findings, fill: Any) -> Recovered:
    """The array or super-chunk in a file; `FormatError` where nothing can be recovered."""
    if os.path.isdir(path) and is_directory_frame(path):
        raise ValueError(
            f"{legible(path)}: each chunk of this array is a file of its own; check() tells which are damaged, and "
            "only copies of these bring them back"
        )
    source = _opened(path, lost)
    kept = recover_frame(source, 0, -1, lost, fill=fill)
    if kept is None:
        raise _nothing(lost)
    return kept


def write_frame_to(path: str, kept: Recovered) -> None:
    """Write what was recovered to a new file."""
    frame = kept.frame
    owner = Owner()
    owner.makedirs(os.path.dirname(path))
    with NewFile(path, replace=False, owner=owner) as file:
        if kept.update is None and frame.serialised:
            for piece in buffers_with_checksums(frame):
                file.write(piece)
        else:
            write_frame(file, kept.update or FrameUpdate(frame))


# ------------------------------------------------------------------ stores
def recover_store(path: str, kind: str, lost: Findings, fill: Any) -> Values:
    """The leaves of a store."""
    if kind == DIRECTORY:
        return _recover_directory(path, lost, fill)
    source = _opened(path, lost)
    if kind == EMBEDDED:
        return recover_embedded((source, 0, -1), lost, fill)
    return recover_archive(source, lost, fill)


def _recover_directory(root: str, lost: Findings, fill: Any) -> Values:
    files = list(walk(root, lost))
    sizes = {name: os.path.getsize(os.path.join(root, name)) for name in files}
    lost.total = sum(sizes.values())
    values = Values(None, {}, {})
    if EMBED in sizes:
        try:
            values = recover_embedded((open_regular(os.path.join(root, EMBED)), 0, -1), lost, fill)
        except FAULTS as error:
            lost.caught(error, path=os.path.join(root, EMBED))
    else:
        lost.note(f"{EMBED} is lost, and embedded values with it, if there were any")
    leaves: dict[str, ByteRange] = {}
    # From the last suffix to the first, so that of two files of one key the right one stays.
    order = {suffix: number for number, suffix in enumerate(LEAF_SUFFIXES)}
    for name in sorted(files, key=lambda name: -order.get(os.path.splitext(name)[1], len(order))):
        byte_range = None if name in (EMBED, LOCK) else _recover_file(root, name, lost, fill)
        if byte_range is not None:
            leaves[key_of(name)] = byte_range
        lost.advance(sizes[name])
    return Values(values.kind, {**values.leaves, **leaves}, values.registry)


def _recover_file(root: str, name: str, lost: Findings, fill: Any) -> ByteRange | None:
    """The frame of a leaf's file."""
    path = os.path.join(root, name)
    key = key_of(name)
    try:
        key.encode()
        source = open_regular(path)
        if not name.endswith(LEAF_SUFFIXES) and not _is_frame(source):
            return None
        kept = recover_frame(source, 0, -1, lost, key, fill)
    except UnicodeEncodeError:
        lost.add("its name is not UTF-8, so it cannot be a key", path=path)
        return None
    except FAULTS as error:
        lost.caught(error, key=key, path=path)
        return None
    return None if kept is None else kept.stored()


def _is_frame(source: Source) -> bool:
    return source.size >= len(FRAME_MAGIC) and source.read(0, len(FRAME_MAGIC)) == FRAME_MAGIC


def write_store_to(path: str, values: Values, lost: Findings) -> tuple[str, ...]:
    """Write what was recovered to a new store; its keys. `FormatError` where that is nothing."""
    leaves = {}
    for key, byte_range in values.leaves.items():
        reason = why_not(path, key, suffix_of(byte_range))
        if reason is None:
            leaves[key] = byte_range
        else:
            lost.add(f"it can be read, but {reason}", key=key)
    if not leaves and (values.kind is None or any(one.kind == "damage" for one in lost.found)):
        raise _nothing(lost)
    recovered = []
    # All of it or nothing: a part of what is whole would look like all of it.
    try:
        with _new_store(path, values._replace(leaves=leaves)) as store, store.transaction():
            for key, byte_range in leaves.items():
                try:
                    changes.put(store, key, byte_range)
                    recovered.append(key)
                except ValueError as error:  # keys that exclude each other
                    lost.add(str(error), key=key)
            if values.registry and isinstance(store, DictStore):
                store._pending.registry = values.registry
    except (FileExistsError, StoreLockedError):  # somebody else made it meanwhile
        raise
    except BaseException:
        if path.endswith(".b2e"):  # its file is made when it is opened
            with suppress(FileNotFoundError):
                Owner().unlink(path)
        raise
    return tuple(recovered)


def _new_store(path: str, values: Values) -> Store:
    if path.endswith(".b2e"):
        return EmbedStore(path, mode="x")
    keys = values.leaves
    nested = any(key[:end] in keys for key in keys for end, one in enumerate(key) if one == "/" and end)
    store = (DictStore if nested or values.kind in ("b2dict", "b2embed") else TreeStore)(path, mode="x")
    # In an archive a key is no name of a file: what differs in case only was in one place before too.
    store._names.unchecked = path.endswith(".b2z")
    return store


# ------------------------------------------------------------------ which keys a new store can have
# They are more than the keys that are allowed for new values, so that nothing is lost that can be read and written.
def why_not(path: str, key: str, suffix: str) -> str | None:
    """Why a new store cannot have a key; None where it can.

    Parameters
    ----------
    path : str
        The store, whose suffix says what it is.
    key : str
    suffix : str
        That of the file of the leaf, or of its member.
    """
    if not is_safe(key):
        return "no store can have its key, which has an empty segment, '.' or '..', or a NUL"
    try:
        name = (key + suffix).encode()
    except UnicodeEncodeError:
        return "its key has a character that UTF-8 cannot express"
    if path.endswith(".b2e"):
        return None
    if key.startswith("/" + RESERVED):
        return f"its key begins with {RESERVED!r}, which is reserved for the store itself; recover it into a .b2e"
    if path.endswith(".b2z"):
        return "its key is too long for an archive; recover it into a .b2e" if len(name) > _MOST_IN_ARCHIVE else None
    return _why_no_file(path, key, name)


def _why_no_file(root: str, key: str, name: bytes) -> str | None:
    """Why a key can be no file of a `.b2d`, where it is the name of one; None if it can."""
    other = "recover it into a .b2z or .b2e"
    if not is_path(key):
        return f"no file can be named like its key on this system; {other}"
    first, slash, _ = key[1:].partition("/")
    if slash and is_own(first):
        return f"its key begins with the name of a file of the store itself; {other}"
    if key.count("/") > MAX_SEGMENTS:
        return f"its key has more than {MAX_SEGMENTS} segments; {other}"
    most = _longest_name(root)
    if max(map(len, name.split(b"/"))) > most or len(os.fsencode(root)) + _BESIDE + len(name) > _MOST_IN_PATH:
        return f"its key is too long for the name of a file; {other}"
    return None


def _longest_name(path: str) -> int:
    """Bytes that the name of a file may have beside a path."""
    folder = os.path.dirname(path)
    if hasattr(os, "pathconf"):
        with suppress(OSError, ValueError):
            most = os.pathconf(folder, "PC_NAME_MAX")
            return most if most > 0 else _MOST_IN_NAME
    return _MOST_IN_NAME
