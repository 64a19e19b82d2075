"""Keywords of what is opened: modes, mappings, what stores take, and what happens to active values."""

from __future__ import annotations

import operator
import os
import sys
from enum import StrEnum
from numbers import Real
from types import EllipsisType
from typing import Any, Final, NamedTuple, Never

import numpy as np

from blosc2._core.io.sharing import environment_has
from blosc2.exceptions import legible


class DeserializeMode(StrEnum):
    """Whether to refuse active values, which stand for an object to be opened or rebuilt."""

    SAFE = "safe"
    FULL = "full"


def deserialize_mode(value: object) -> DeserializeMode:
    """Check a `deserialize` argument. `TypeError` for a boolean, of which nobody could say what it means."""
    if isinstance(value, bool):
        raise TypeError("deserialize must be 'safe' or 'full', not a boolean")
    if not isinstance(value, str) or value not in ("safe", "full"):
        raise ValueError(f"deserialize must be 'safe' or 'full', not {value!r}")
    return DeserializeMode(value)


# What may be done with a file or a store.
_MODES: Final = ("r", "a", "w", "x")
# Mode of the file behind each kind of mapping.
_MAPPING_MODES: Final = {"r": "r", "r+": "a", "w+": "w", "c": "a"}


def check_modes(mode: object, mmap_mode: object = None, initial_mapping_size: object = None) -> str:
    """Check that the modes are legal together and give the mode that results, which a mapping decides.

    The mode may be None where there is a mapping; `initial_mapping_size` is for mappings that can be written.
    """
    by_mapping = mode is None and mmap_mode is not None
    if not by_mapping and (not isinstance(mode, str) or mode not in _MODES):
        more = ": blosc2.open takes it, and 'a' is the same for a store that exists" if mode == "r+" else ""
        raise ValueError(f"mode must be 'r', 'a', 'w' or 'x', not {mode!r}{more}")
    if mmap_mode is not None and (not isinstance(mmap_mode, str) or mmap_mode not in _MAPPING_MODES):
        raise ValueError(f"Invalid mmap_mode {mmap_mode!r}: it can be None, 'r', 'r+', 'w+' or 'c'")
    if initial_mapping_size is not None:
        if mmap_mode is None:
            raise ValueError("initial_mapping_size can only be used with mmap_mode")
        if mmap_mode == "r":
            raise ValueError("initial_mapping_size can only be used with writing modes of mmap_mode, not with 'r'")
        if isinstance(initial_mapping_size, bool) or not hasattr(initial_mapping_size, "__index__"):
            raise TypeError(f"initial_mapping_size must be a number of bytes, not {initial_mapping_size!r}")
        if operator.index(initial_mapping_size) < 1:
            raise ValueError(f"initial_mapping_size must be positive, not {initial_mapping_size}")
    return str(mode) if mmap_mode is None else _MAPPING_MODES[mmap_mode]


def check_open_modes(
    mode: object, mmap_mode: str | None, initial_mapping_size: object = None, *, path: str, offset: int = 0,
    locking: bool = False, exclusive: bool = True,
) -> str:  # fmt: skip
    """Check the modes of a file that has to exist, as `check_modes` does."""
    if mmap_mode == "w+":
        raise ValueError("w+ mmap_mode cannot be used to open an existing file; it would have to be created")
    effective = check_modes(mode, mmap_mode, initial_mapping_size)
    if offset < 0:
        raise ValueError(f"offset must not be negative: {offset}")
    if locking:
        check_locking(path, mmap_mode, exclusive=exclusive)
        if offset:
            raise ValueError("locking=True is for files that are one frame; leave out offset, or locking")
    return effective


def check_new_modes(
    mode: str, mmap_mode: str | None, *, path: str | None, contiguous: bool, locking: bool, what: str
) -> None:
    """Refuse modes in which nothing can be created; `what` names the new object."""
    if locking:
        check_locking(path, mmap_mode)
    if mmap_mode is not None:
        if path is None:
            raise ValueError(f"urlpath must be set to map the file of the {what}: mmap_mode={mmap_mode!r}")
        if not contiguous:
            raise ValueError("Only contiguous storage is supported with mmap_mode: leave out contiguous=False")
    if mode == "r" and path is not None:
        raise ValueError(f"mode 'r' creates nothing: the {what} must already exist ({legible(path)})")


def shares_by_environment(path: str | None, mmap_mode: str | None, offset: int = 0, *, exclusive: bool = True) -> bool:
    """Whether `BLOSC_LOCKING` in the environment asks for ``locking=True``, where that is possible."""
    possible = exclusive and not (path is None or mmap_mode is not None or offset or sys.platform == "win32")
    return possible and os.environ.get("BLOSC_LOCKING", "0") not in ("", "0")


def check_locking(path: str | None, mmap_mode: str | None, *, exclusive: bool = True) -> None:
    """Refuse a lock where there is no file, where a mapping would show what others change meanwhile, or beside none."""
    if path is None:
        raise ValueError("locking=True is for files: urlpath must be set")
    if mmap_mode is not None:
        raise ValueError(f"locking=True and mmap_mode={mmap_mode!r} do not go together: leave one of them out")
    if not exclusive:
        raise ValueError("locking=True shares a lock, and exclusive=False goes without: leave one of them out")


def check_directory_mapping(path: str, mmap_mode: str | None) -> None:
    """Refuse to map a directory frame for changes. For reading, its files are brought into memory in any case."""
    if mmap_mode not in (None, "r"):
        raise ValueError(f"Only contiguous storage is supported with mmap_mode, {legible(path)} is a directory")


def refuse_without_path(what: str) -> Never:
    """Say that mode 'r' opens what exists, where no path was given."""
    raise ValueError(f"urlpath must be set to open {what} with mode 'r', and you did not specify a urlpath")


def check_store_modes(mode: str, mmap_mode: str | None) -> None:
    """Refuse what is not a mode of a store, or not with this kind of mapping."""
    if mode not in _MODES:
        raise ValueError(f"mode must be 'r', 'w', or 'a', or 'x' to create only, not {mode!r}")
    if mmap_mode not in (None, "r"):
        raise ValueError(f"mmap_mode must be None or 'r' for a store, not {mmap_mode!r}")
    if mmap_mode == "r" and mode != "r":
        raise ValueError(f"mmap_mode='r' requires mode='r', not {mode!r}: a mapped store is read-only")


def check_store_locking(path: str | None, mmap_mode: str | None, *, exclusive: bool) -> None:
    """Refuse to share a store that is in memory, mapped, or not locked at all, and on Windows any."""
    if sys.platform == "win32":
        raise NotImplementedError("locking=True needs advisory locks, which Windows does not have")
    check_locking(path, mmap_mode, exclusive=exclusive)


def check_target_mode(mode: object, legal: tuple[str, ...]) -> None:
    """Refuse what is not a mode of a function that writes a target: "w-" only makes, "w" replaces, "a" adds."""
    if not isinstance(mode, str) or mode not in legal:
        named = [repr(name) for name in legal]
        raise ValueError(f"mode must be {', '.join(named[:-1])} or {named[-1]}, not {mode!r}")


def check_timeout(timeout: object) -> None:
    """Refuse what is no number of seconds; None stands for no limit."""
    if timeout is not None and not isinstance(timeout, Real):
        raise TypeError(f"timeout is a number of seconds, or None to wait without limit, not {timeout!r}")


class StoreOptions(NamedTuple):
    """The options of an open store, checked together.

    `verify` says what is checked against checksums: each read, what is read as a whole (None), or nothing. `advise` is
    told to the system when files are opened. `timeout` is how many seconds to wait for another writer, whom `exclusive`
    keeps out. With `locking`, handles change the store in turns, and follow each other.
    """

    mmap_mode: str | None = None
    verify: bool | None = None
    advise: str | None = None
    mode: str = "r"
    deserialize: str = "safe"
    timeout: float | None = 0
    exclusive: bool = True
    locking: bool = False


def as_flag(value: Any, name: str) -> bool:
    """A flag that can be given by its position: what is no flag, such as a path, would count as True in silence."""
    if isinstance(value, (bool, np.bool_)) or (type(value) is int and value in (0, 1)):
        return bool(value)
    given = repr(value) if isinstance(value, (str, os.PathLike)) else f"a {type(value).__name__}"
    raise TypeError(f"{name} is True or False, not {given}: the path of a file is given as urlpath=")


def store_options(
    mode: str, mmap_mode: str | None, deserialize: str | None = None, *, verify: bool | None = None,
    advise: str | None = None, timeout: float | EllipsisType | None = 0, exclusive: bool = True, locking: bool = False,
    path: str | None = None,
) -> StoreOptions:  # fmt: skip
    """Check the options of a store, except for `advise`.

    If `timeout` is `...`, handles with `locking` wait for others as long as it takes, and others do not wait.
    """
    if mode != "r" or mmap_mode not in (None, "r"):  # as most are not
        check_store_modes(mode, mmap_mode)
    if deserialize is None:
        deserialize = "safe"
    elif deserialize != "safe":
        deserialize = str(deserialize_mode(deserialize))
    if locking:
        check_store_locking(path, mmap_mode, exclusive=exclusive)
    elif environment_has(b"BLOSC_LOCKING"):
        locking = shares_by_environment(path, mmap_mode, exclusive=exclusive)
    seconds: Any = timeout
    if seconds is ...:
        seconds = None if locking else 0
    else:
        check_timeout(seconds)
    return StoreOptions(mmap_mode, verify, advise, mode, str(deserialize), seconds, exclusive, bool(locking))
