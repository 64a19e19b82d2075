"""Which exceptions may come of which operation, whatever the bytes of a file are: one list, for the fuzzer and to read.

The classes are those of `blosc2.exceptions` as a rule; built-in ones only where an operation documents them. Anything
else is a failure, built-in `ValueError` and `RuntimeError` included.
"""

from __future__ import annotations

import errno

from blosc2 import exceptions as e

# Damaged bytes, wherever they are met.
DAMAGED: tuple[type[BaseException], ...] = (e.FormatError,)
# Objects of a kind that can be described and copied, not computed with; codecs and filters among them.
UNSUPPORTED = (e.UnsupportedKindError,)
# Active values in metadata, met with deserialize="safe".
ACTIVE = (e.UnsafeDeserializationError,)

#: operation -> what it may raise beside `DAMAGED`.
DOCUMENTED: dict[str, tuple[type[BaseException], ...]] = {
    # nothing of a store at that path: a directory without embed.b2e, a chunk file that is missing
    "open": (*UNSUPPORTED, *ACTIVE, e.MissingFileError, FileNotFoundError),
    "from_cframe": (*UNSUPPORTED, *ACTIVE),
    "read": UNSUPPORTED,
    # keys of more axes than NumPy has
    "wide": (*UNSUPPORTED, ValueError, IndexError),
    # `view`: the items are not stored as they are; a plain ValueError says why
    "view": (*UNSUPPORTED, ValueError, BufferError),
    "iterate": UNSUPPORTED,
    # of a store too, whose forged catalog may list a key that is not found
    "info": (*UNSUPPORTED, e.StoreKeyError),
    "vlmeta": ACTIVE,
    "meta": ACTIVE,
    "objects": (*ACTIVE, *UNSUPPORTED),
    "leaf": (*UNSUPPORTED, *ACTIVE, e.StoreKeyError, FileNotFoundError),
    # a key that was listed may have been hidden or be a group
    "read_many": (*UNSUPPORTED, e.StoreKeyError, TypeError),
    "list": (),
    "describe": (e.StoreKeyError, *UNSUPPORTED, *ACTIVE, FileNotFoundError),
    "stats": (e.StoreKeyError,),
    "tree": (e.StoreKeyError,),
    "attributes": (*ACTIVE, *UNSUPPORTED),
    "check": (),
    "salvage": (FileExistsError,),
    # what is lost of a super-chunk can only be filled with zeros
    "salvage with a value": (FileExistsError, ValueError),
    "get_vlblock": (*UNSUPPORTED, e.ChunkIndexError, ValueError),
    # changes: also what is refused by kind, and values that do not fit what a damaged header states
    "change": (*UNSUPPORTED, *ACTIVE, e.ReadOnlyError, e.ShapeError, e.ChunkSizeError, e.ChunkIndexError,
               e.StoreKeyError, e.UnsupportedValueError, e.CompressionError),
    # an extended slice of another length; indices that are not there; a header with parameters that are not valid
    "change_list": (*UNSUPPORTED, *ACTIVE, e.ReadOnlyError, e.CompressionError, IndexError, ValueError),
    # there can be 8,000 entries: a ValueError says so
    "set_vlmeta": (*UNSUPPORTED, *ACTIVE, e.ReadOnlyError, ValueError),
    "compact": (*UNSUPPORTED, *ACTIVE),
    "copy": (*UNSUPPORTED, *ACTIVE),
    "convert": (*UNSUPPORTED, *ACTIVE, FileExistsError),
    "refresh": (*UNSUPPORTED, *ACTIVE, FileNotFoundError),
    "refresh_changed": (*UNSUPPORTED, *ACTIVE, FileNotFoundError),
    "close": (*UNSUPPORTED, *ACTIVE),
    # a pickle opens the file again, as it is by then
    "pickle": (*UNSUPPORTED, *ACTIVE, FileNotFoundError, e.StoreKeyError),
    "decompress": (e.ChunkSizeError,),
    "unpack": (*UNSUPPORTED, *ACTIVE, e.MissingMetadataError, TypeError),
    # an entry that is not there
    "missing": (*ACTIVE, *UNSUPPORTED, e.MissingMetadataError, e.ReadOnlyError),
    # keys that are taken, missing, or below a leaf; a store whose directory is damaged refuses to be changed
    "change_store": (*UNSUPPORTED, *ACTIVE, e.StoreKeyError, e.ReadOnlyError, e.ClosedStoreError, FileExistsError),
}  # fmt: skip

#: operation -> texts of plain `ValueError`s and `NotImplementedError`s that it documents: requests that the state of
#: the file does not allow.
TEXTS: dict[str, tuple[str, ...]] = {
    "change_store": (
        "that already has children",
        "is below the array",
        "is an internal component of",
        "already",
        "is taken",
        # keys of the file that no new value may have
        "could not be the name of a file",
        "is too long: a segment may have",
        " segments",
        "has a character that UTF-8 cannot express",
        "is reserved for the store itself",
        "cannot become a part of itself",
        "is an object of another kind",
    ),
    # shapes that an array without items cannot get
    "change": ("cannot hold items", "blocks of variable length can only be read"),
    "refresh_changed": ("has unpublished changes",),
}


def allowed(operation: str, error: BaseException) -> bool:
    """Whether an operation may end in this."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.ENAMETOOLONG):
        return True
    if type(error) in (ValueError, NotImplementedError) and any(
        text in str(error) for text in TEXTS.get(operation, ())
    ):
        return True
    return isinstance(error, (*DAMAGED, *DOCUMENTED[operation]))
