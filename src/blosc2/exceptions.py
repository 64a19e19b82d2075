"""Every exception of the package.

Each subclasses the builtins that a caller would catch, and pickles. Its message gives file, key and byte, what was
expected, and what to do.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable
from typing import Any


def legible(text: object) -> str:
    """A text that any terminal or file takes: lone surrogates, as of file names that are not UTF-8, are escaped.

    Examples
    --------
    >>> legible("scan\\udcff.b2nd")
    'scan\\\\udcff.b2nd'
    """
    shown = str(text)
    return shown if shown.isascii() else shown.encode("utf-8", "backslashreplace").decode()


def _location(path: object, key: str | None, offset: int | None) -> str:
    parts = []
    if path is not None:
        parts.append(f"{path}")
    if key is not None:
        parts.append(f"key {key!r}")
    if offset is not None:
        parts.append(f"byte {offset}")
    return ", ".join(parts)


#: Errors of the system about a disk, which come of writing to what is open and name no file.
OF_DISKS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS)


def name_file(error: BaseException, path: object) -> None:
    """Have an error of a full or broken disk name a file, where it names none.

    Examples
    --------
    >>> error = OSError(28, "No space left on device")
    >>> name_file(error, "scans.b2z")
    >>> error
    OSError(28, 'No space left on device')
    >>> str(error)
    "[Errno 28] No space left on device: 'scans.b2z'"
    """
    if isinstance(error, OSError) and error.filename is None and error.errno in OF_DISKS and path is not None:
        error.filename = str(path)


def name_target(error: BaseException, temporary: str, path: str) -> None:
    """Have an error name a path where it names a temporary one that stands for it, or what is below that.

    Examples
    --------
    >>> error = OSError(28, "No space left on device", "/data/.scans.b2z.1f.tmp/1.b2nd")
    >>> name_target(error, "/data/.scans.b2z.1f.tmp", "/data/scans.b2z")
    >>> str(error)
    "[Errno 28] No space left on device: '/data/scans.b2z'"
    """
    old, new = os.path.basename(temporary), legible(os.path.basename(path.rstrip("/")))
    found = "|".join({re.escape(old), re.escape(legible(old))})

    def named(value: Any, below: str = r"[\w./\\-]*") -> Any:
        return re.sub(f"({found}){below}", lambda _: new, value) if isinstance(value, str) else value

    error.args = tuple(map(named, error.args))
    own = vars(error)
    own.update({name: [*map(named, value)] if name == "__notes__" else named(value) for name, value in own.items()})
    if isinstance(error, OSError):
        for name in ("strerror", "filename", "filename2"):
            if isinstance(value := getattr(error, name), str):
                setattr(error, name, named(value) if name == "strerror" else named(value, ".*"))
        if error.filename2 is not None and error.filename2 == error.filename:
            del error.filename2


_MOST_NAMES = 8


def some_of(names: Iterable[object]) -> str:
    """The first eight of some names, each in quotes and cut where it is long.

    Examples
    --------
    >>> some_of(["unit", "spacing"])
    "'unit', 'spacing'"
    >>> some_of("abcdefghij")
    "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more"
    """
    known = list(names)
    more = f" and {len(known) - _MOST_NAMES} more" if len(known) > _MOST_NAMES else ""
    return ", ".join(f"{name!r:.80}" for name in known[:_MOST_NAMES]) + more


def explain(error: BaseException, what: str) -> None:
    """Add to an error what it means for the changes that it befell."""
    if isinstance(error, OSError) and error.strerror:
        error.strerror = f"{error.strerror}; {what}"
    else:
        error.add_note(what)


class FormatError(ValueError, RuntimeError):
    """Bytes that violate the format: damaged, truncated, or of another format.

    Attributes
    ----------
    reason : str
        What was found and what was expected.
    path : str or None
        The file, if there is one.
    key : str or None
        The key inside a store.
    offset : int or None
        The byte, counted from the start of the file.
    """

    def __init__(self, reason: str, *, path: object = None, key: str | None = None, offset: int | None = None) -> None:
        self.reason = reason
        self.path = None if path is None else str(path)
        self.key = key
        self.offset = offset
        location = _location(path, key, offset)
        super().__init__(legible(f"{location}: {reason}" if location else reason))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_format_error, (type(self), self.reason, self.path, self.key, self.offset), vars(self)  # notes


def _rebuild_format_error(
    kind: type[FormatError], reason: str, path: str | None, key: str | None, offset: int | None
) -> FormatError:
    return kind(reason, path=path, key=key, offset=offset)


class StaleHandleError(FormatError):
    """A file is no longer what a handle stands for, because another handle or process has changed it.

    Nothing is damaged. The message says what to do: open the file again, or use ``locking=True``, with which handles
    follow each other.
    """


class ShortReadError(FormatError, OSError):
    """A file gave fewer bytes than it had when it was opened: somebody cut it, or the server that has it failed.

    Both a `FormatError`, as for any file that ends too early, and an `OSError`. Errors that the system reports itself
    are other `OSError` with its number.
    """


class _PlacedError(Exception):
    """Shared by the classes below: a reason, and the file and key that it is about.

    It exists so that each of them pickles with its attributes, and so that the text of a `KeyError` is
    shown as it was written, without the quotes that `KeyError` itself puts around its argument.
    """

    def __init__(self, reason: str, *, path: object = None, key: str | None = None) -> None:
        self.reason = reason
        self.path = None if path is None else str(path)
        self.key = key
        location = _location(path, key, None)
        super().__init__(legible(f"{location}: {reason}" if location else reason))

    def __str__(self) -> str:
        return str(self.args[0])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_placed_error, (type(self), self.reason, self.path, self.key), vars(self)  # notes


def _rebuild_placed_error(kind: type[_PlacedError], reason: str, path: str | None, key: str | None) -> _PlacedError:
    return kind(reason, path=path, key=key)


class MissingFileError(FileNotFoundError, RuntimeError):
    """The path does not exist. Its arguments are (errno, text, path), like those of any `OSError`."""


class ExistingFileError(FileExistsError, RuntimeError):
    """The path exists, and the mode does not replace it. Its arguments are (errno, text, path)."""


class OtherFileSystemError(OSError):
    """A folder inside of a store lies on another file system, and no file of the store can be renamed to it.

    Built as (errno, text, path), like any `OSError`.
    """


class ReadOnlyError(_PlacedError, ValueError):
    """A change of something that was opened for reading only."""


class ShapeError(_PlacedError, ValueError, RuntimeError):
    """The shape of a value does not fit the items that it is assigned to."""


class ChunkIndexError(_PlacedError, IndexError, RuntimeError):
    """A super-chunk has no chunk with this number."""


class ChunkSizeError(_PlacedError, ValueError, RuntimeError):
    """Data is too large for a chunk, or a chunk for a buffer."""


class MissingMetadataError(_PlacedError, KeyError, RuntimeError):
    """No metadata entry has this name."""


class ParameterError(ValueError, RuntimeError):
    """A compression parameter, a shape or an axis that cannot be."""


class CompressionError(_PlacedError, ValueError, RuntimeError):
    """A codec or filter cannot compress the data; use other compression parameters, with ``copy(cparams=...)``."""

    def __init__(self, reason: str, *, path: object = None, key: str | None = None) -> None:
        super().__init__(f"{reason}: use another codec or other filters in cparams={{...}}", path=path, key=key)
        self.reason = reason


class UnexpectedKeywordError(TypeError, KeyError, ValueError):
    """A keyword that a function does not have. (The published package raises a `KeyError` or a `ValueError`.)"""

    def __str__(self) -> str:
        return str(self.args[0])  # without the quotes of a `KeyError`


class UnsupportedValueError(_PlacedError, TypeError, AttributeError):
    """A value of a type that cannot be stored."""


#: What is said of a closed store.
CLOSED_STORE = "this is a closed store: open it again; leaves taken from it before stay valid"
REPLACED_STORE = (
    "this store was closed when its path was opened with mode='w' in this process, or another store took its place: "
    "use the new one"
)


class ClosedStoreError(_PlacedError, ValueError):
    """The store is closed; leaves taken from it before stay valid."""


class StoreLockedError(_PlacedError, OSError):
    """Another handle, or the parent of this forked process, has the store open for writing; the message says which."""


class RemoteError(_PlacedError, OSError):
    """A server did not give bytes that it should have; the message names the URL, and says what to do."""


class RemoteChangedError(RemoteError):
    """An object on a server is no longer the one that was opened: open it again."""


class RemoteAccessError(RemoteError, PermissionError):
    """A server refuses access: the credentials are wrong or missing."""


class StoreKeyError(_PlacedError, KeyError):
    """A store has no such key. The message names those that are like it, unless the store was closed before it is read.

    An error that leaves the ``with`` block of the store names them, too.
    """

    #: What is asked for the end of the message when somebody reads it: most of these errors are caught, and never read.
    ending: Callable[[], str] | None = None

    def __init__(self, reason: str, *, path: object = None, key: str | None = None) -> None:
        super().__init__(reason, path=path)
        self.key = key  # which the reason names

    def __str__(self) -> str:
        text = super().__str__()
        if self.ending is None:
            return text
        found = self.__dict__.get("_found")
        if found is None:  # of threads that read it together, the first one's counts
            found = self.__dict__.setdefault("_found", self.ending())
        return f"{text}{found}"

    def __reduce__(self) -> tuple[Any, ...]:
        ending = str(self)[len(self.args[0]) :]
        return _rebuild_placed_error, (type(self), self.reason + ending, self.path, self.key)


class ConversionError(ValueError):
    """A file that `blosc2.convert` cannot read or write; the message says why, and what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(legible(reason))


class UnsupportedKindError(_PlacedError, NotImplementedError):
    """A file holds a kind of object that this package can list, describe and copy, but not compute with."""


class UnsafeDeserializationError(ValueError):
    """Stored metadata contains an active value, which stands for an object to be opened or rebuilt.

    Attributes
    ----------
    kind : str
        The kind of value, for instance ``"embedded cframe"``.
    location : str or None
        Where it was found.
    """

    def __init__(self, kind: str, *, location: str | None = None) -> None:
        self.kind = kind
        self.location = location
        where = f" in {location}" if location else ""
        super().__init__(legible(
            f"met an active value ({kind}){where} while using deserialize='safe'; "
            "if the origin of this data is trusted, open it with deserialize='full'"
        ))  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_unsafe_error, (type(self), self.kind, self.location)


def _rebuild_unsafe_error(
    cls: type[UnsafeDeserializationError], kind: str, location: str | None
) -> UnsafeDeserializationError:
    return cls(kind, location=location)


# What the negative results of C-Blosc2 (its blosc2.h, BLOSC2_ERROR_*) mean to a reader of the message.
_CODEC_ERRORS = {
    -1: "general failure",
    -2: "the compressed stream is damaged",
    -3: "nothing that this codec takes, or damaged data",
    -4: "out of memory",
    -5: "the input is too short",
    -6: "the output has too little room",
    -7: "this codec is not built in",
    -8: "the codec was given a parameter that it does not accept",
    -9: "the dictionary of the codec is missing or damaged",
    -10: "this version of the format is not supported",
    -11: "the chunk header is invalid",
    -12: "a parameter is invalid",
    -13: "reading the file failed",
    -14: "writing the file failed",
    -15: "opening the file failed",
    -16: "not found",
    -17: "a run of repeated values is damaged",
    -18: "a filter failed, or is not built in",
    -19: "the chunk could not be inserted",
    -20: "the chunk could not be appended",
    -21: "the chunk could not be replaced",
    -22: "the size is above 2 GiB",
    -23: "the super-chunk could not be copied",
    -24: "the frame is of another type",
    -25: "the file could not be cut",
    -26: "a thread could not be started",
    -27: "the postfilter failed",
    -28: "a special chunk of the frame is invalid",
    -29: "a special chunk of the super-chunk is invalid",
    -30: "the input/output plugin failed",
    -31: "the file could not be removed",
    -32: "a null pointer was passed",
    -33: "an index is out of range",
    -34: "the metalayer does not exist",
    -35: "the size is above the largest buffer (2147483615 bytes)",
    -36: "the tuner failed",
    -37: "the lock of the frame failed",
}


def codec_error_text(code: int) -> str:
    """Say in words what a negative result of C-Blosc2 means.

    Parameters
    ----------
    code : int
        The result, as the C library returned it.

    Returns
    -------
    str
        The reason, followed by the number.

    Examples
    --------
    >>> codec_error_text(-6)
    'the output has too little room (C-Blosc2 error -6)'
    """
    try:
        what = _CODEC_ERRORS[code]
    except KeyError:
        what = "unknown failure"
    return f"{what} (C-Blosc2 error {code})"
