"""What `.b2d` and `.b2z` have in common: names of files, suffixes of leaves, and reading the bytes of a leaf."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, Self

from blosc2 import _files
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import describe
from blosc2._frames import parse_dtype
from blosc2._options import RemotePath
from blosc2.exceptions import ExistingFileError, FormatError, MissingFileError

#: Where the bytes of a frame lie: a source, the offset in it, and how many.
ByteRange = tuple[Source, int, int]


def shared_lock_path(root: str, suffix: str) -> str:
    """The file by which handles of a store with ``locking=True`` take turns; the older package locks the same."""
    return os.path.join(root, LOCK) if suffix == ".b2d" else root + ".b2lock"


class Renamed(tuple[Source, int, int]):  # noqa: SLOT001 - tuples cannot have any
    """The byte range of a frame that only gets another key."""

    #: The published key that it has.
    origin: str
    #: Path of a second name of its file, instead of a byte range: it is opened when its bytes are needed.
    aside: str | None

    def __new__(cls, byte_range: ByteRange | None, origin: str, aside: str | None = None) -> Self:
        """`byte_range` is that of `origin`, or None with `aside`."""
        byte_range_or_none: Any = (None, 0, 0) if byte_range is None else byte_range
        self = super().__new__(cls, byte_range_or_none)
        self.origin = origin
        self.aside = aside
        return self


class NewFrame(tuple[Source, int, int]):  # noqa: SLOT001 - tuples cannot have any
    """The byte range of a frame that was just made, with the suffix of its file."""

    suffix: str
    #: Its description for a catalog; None if it is made when it is needed.
    description: bytes | None

    def __new__(cls, byte_range: ByteRange, suffix: str, description: bytes | None = None) -> Self:
        """`byte_range` is that of a frame with checked contents."""
        self = super().__new__(cls, byte_range)
        self.suffix = suffix
        self.description = description
        return self


#: The frame of embedded values, without which there is no store.
EMBED = "embed.b2e"
#: Beside it, a file to lock if folders cannot be.
LOCK = "embed.b2e.b2lock"
#: The folder of what describes the store and is no leaf.
RESERVED = ".b2/"
#: Suffixes of leaves. Of two files for one key, the one that comes first here counts.
LEAF_SUFFIXES: Final[tuple[str, ...]] = (".b2nd", ".b2f", ".b2b")
# What they hold mostly.
_KINDS: Final = {".b2nd": "NDArray", ".b2f": "SChunk", ".b2b": "BatchArray"}
#: What a frame begins with.
FRAME_MAGIC = b"\x9e\xa8b2frame\0"
#: What an error says of such bytes where there should be a store.
ONLY_A_FRAME: Final = (
    "not a store but one frame, such as of an array: blosc2.open opens it, under a name that ends in .b2nd"
)
#: What errors say of stores of the other classes.
AN_EMBED_STORE: Final = "this is an EmbedStore: blosc2.EmbedStore opens it, and blosc2.open if its name ends in .b2e"
AN_ARCHIVE: Final = "this is an archive, not an EmbedStore: the class that wrote it opens it, such as blosc2.TreeStore"
#: What an AppleDouble file begins with. On disks and in archives of others, macOS keeps attributes of "x" in such a
#: "._x": it is no leaf, whatever its suffix. Leaves may be called so, too.
APPLE_DOUBLE: Final = b"\0\5\x16\7"


def may_be_attributes(name: str) -> bool:
    """Whether a file of this path or name, or of this key, may be an AppleDouble file."""
    return name.startswith("._", name.rfind("/") + 1)


def kind_of_frame(source: Source) -> str:
    """What an error says of a file that begins like a frame where there should be an archive."""
    with suppress(FormatError):
        if Frame.open(source).metalayer("b2embed") is not None:
            return AN_EMBED_STORE
    return ONLY_A_FRAME


def is_archive(source: Source) -> bool:
    """Whether a file begins like an archive: with a member, or with the end of one that has none."""
    return source.size >= 4 and source.read(0, 4) in (b"PK\3\4", b"PK\5\6")


class NewVersion(NamedTuple):
    """Changes to publish."""

    #: New frames by key, None for a removed key.
    changes: dict[str, ByteRange | None]
    #: Of keys in `changes`, whether they get files of their own; a key that is not named stays where it is.
    tiers: Mapping[str, bool]
    #: Objects of other kinds that the store declares; None if unchanged.
    registry: dict[str, Any] | None = None
    #: Keys of embedded values to remove, because files hide them.
    hidden: frozenset[str] | set[str] = frozenset()
    #: Whether all of it is on the disk when it is published.
    durable: bool = True
    #: Whether changes of embedded values alone may become durable only when settled.
    lazy: bool = False


def suffix_of(byte_range: ByteRange) -> str:
    """The suffix of a frame's file, which depends on what the frame holds."""
    return byte_range.suffix if isinstance(byte_range, NewFrame) else suffix_of_frame(Frame.open(*byte_range))


def suffix_of_frame(frame: Frame) -> str:
    """The suffix of the file of a frame that is open."""
    if frame.only_array:
        return ".b2nd"
    if frame.metalayer("batcharray") is not None:
        return ".b2b"
    return ".b2nd" if frame.metalayer("b2nd") is not None else ".b2f"


def unusual_name(root: str, name: str, key: str, frame: Frame | None) -> str:
    """What a warning says of a leaf whose suffix is not one of `LEAF_SUFFIXES`; `frame` is None if it is unreadable."""
    kind = "frame"
    expected = " or ".join(map(repr, LEAF_SUFFIXES))
    if frame is not None:
        suffix = suffix_of_frame(frame)
        kind = "ObjectArray" if frame.metalayer("vlarray") is not None else _KINDS[suffix]
        expected = repr(suffix)
    return (
        f"{root}: {name!r} is the leaf {key!r}, of kind {kind}, under an unusual suffix: rename it; expected {expected}"
    )


def filed_as(byte_range: ByteRange) -> tuple[str, bytes]:
    """The suffix of a frame's file, and its description for a catalog. The description may be empty."""
    if isinstance(byte_range, NewFrame):
        description = byte_range.description
        return byte_range.suffix, described(byte_range) if description is None else description
    return suffix_of_frame(Frame.open(*byte_range)), described(byte_range)


def described(byte_range: ByteRange) -> bytes:
    """The description of a frame for a catalog. Empty if there is none, for instance because the frame is damaged."""
    try:
        description: bytes = describe(Frame.open(*byte_range), parse_dtype)
    except FormatError:
        description = b""
    return description


def pieces(byte_range: ByteRange) -> Iterator[bytes | memoryview]:
    """The bytes of a byte range, in pieces of bounded size; they are checked as far as checksums are known."""
    yield from _files.checked_pieces(byte_range)
    _files.check_unchanged(byte_range[0])


def whole(byte_range: ByteRange) -> bytes | memoryview:
    """The bytes of a byte range as one buffer, which is a copy only if the source has no buffer."""
    source, offset, length = byte_range
    if source.is_joined:
        return b"".join(pieces(byte_range))  # which are checked
    try:
        return memoryview(source)[offset : offset + length]
    except BufferError:
        return source.read(offset, length)


def open_source(path: str, mmap_mode: str | None, old: Source | None = None) -> Source:
    """Map a file, or open it for positional reads. Raises `MissingFileError` if there is none.

    An older source of the path, opened in the same way, shares with the new one what it can: see `Source.reopen`.
    """
    if isinstance(path, RemotePath):
        return _files.remote_source(path)
    try:
        if old is not None and old.identity is not None and old.path == path and old.mapped == (mmap_mode == "r"):
            return old.reopen()
        return Source.map(path) if mmap_mode == "r" else Source.open(path)
    except FileNotFoundError:
        raise missing(path) from None


def missing(path: str, how: str = "modes 'a' and 'w' create it") -> MissingFileError:
    """The error for a path that does not exist. Linux tells who is about to make a store there."""
    maker = ""
    with suppress(OSError):
        maker = _files.holder_of(os.lstat(_files.CreationLock(path, _files.Owner()).path))
    why = f" yet: {maker} has it open for writing, and flush() or close() there make it" if maker else f"; {how}"
    return MissingFileError(errno.ENOENT, f"No such file or directory: the store does not exist{why}", path)


#: Why a new store, of these classes and with this suffix, does not replace a file.
NOT_REPLACED: Final = (
    "this file is no {}, and is not replaced by one: remove it first, or give the store another name ({})"
)


def taken(path: str, why: str) -> ExistingFileError:
    """The error for a path that exists and must not be replaced."""
    return ExistingFileError(errno.EEXIST, why, path)


# Of a store that is closed one byte in so many may be dead, of a large one one in so many; and a block of the disk.
_FEW: Final = 128
_FEW_OF_LARGE: Final = 16
_LARGE: Final = 16 << 20
_BLOCK: Final = 1 << 12


def is_worth_writing_anew(live: int, dead: int, written: int) -> bool:
    """Whether a file that nobody changes any more is to be written anew, without its dead bytes.

    It is if these are many, and copying the live ones costs less than twice what was written here or is dead.
    """
    few = live // (_FEW_OF_LARGE if live > _LARGE else _FEW)
    return dead > max(few, _BLOCK) and live <= 2 * (written + dead)
