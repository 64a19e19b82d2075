"""The frame below an array or super-chunk: its current version, where it lives, how a change is published.

An array, its super-chunk and their metadata views share one carrier and hold nothing of each other. A carrier
shows one immutable `Frame` at a time; a change makes the next one. Readers take the frame once and go on with
it whatever is published meanwhile.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from io import FileIO
from typing import Any, ClassVar, Final

import numpy as np

from blosc2._core.codec.codec import Encoding, Plugin
from blosc2._core.frame.frame import Frame
from blosc2._core.io.forking import Lock
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import Geometry, parse_geometry
from blosc2._files import Compaction, NewFile, Owner, Spool, TemporaryFile, check_permission, held, locked, refusal
from blosc2._frames import (
    SMALL_FRAME,
    Draft,
    Fields,
    JoinedChunks,
    append_version,
    check_body,
    check_chunks,
    check_declared,
    check_reads,
    check_stored_readable,
    closed_quietly,
    draft_window,
    encode,
    frame_bytes,
    parse_dtype,
    plain_window,
    write_frame,
)
from blosc2._options import get_nthreads
from blosc2.exceptions import FormatError, MissingFileError, ReadOnlyError, StaleHandleError, explain, name_file
from blosc2.storage import CParams, DParams, cparams_of

# The header fields that make a version current lie in one sector when they end before this byte.
_SECTOR: Final = 512
# How often a file is opened again that a writer is just changing.
_TRIES: Final = 100
# Metadata entries are compressed like this, whatever the data's parameters are.
_VLMETA_ENCODING = Encoding(5, 0, 5, False, 1, 0, 3, (0, 0, 0, 0, 0, 0), (0, 0, 0, 0, 0, 0))
# Dead bytes of an array in memory are dropped when they outweigh the live ones by this much.
_SLACK: Final = 1 << 16


class Carrier:
    """A frame that is only read: a window of a file or store.

    Attributes
    ----------
    frame : Frame
        The current version.
    array : tuple of Geometry, dtype and Frame, or None
        Of the current version, when it is an array. One tuple, so that a reader never sees parts of two versions.
    mode, urlpath, mmap_mode
        How and from where it was opened.
    key : str or None
        Of a leaf, its key in the store at `urlpath`.
    version : int
        Goes up by one with each change.
    verify : bool or None
        Where the frame carries checksums: whether each chunk is checked before anything of it is decoded; None checks
        what is read as a whole.
    """

    __slots__ = ("__weakref__", "_cparams", "_declared", "array", "deserialize", "dparams", "frame", "key", "mmap_mode",
                 "mode", "urlpath", "verify", "version")  # fmt: skip

    writable = False
    locking = False
    # Whether nobody else writes to the file that it is in.
    _owns_file = False
    _lock: Lock  # of the kinds that can be changed
    #: Turns an embedded frame of the metadata into an object; set by the layer that knows all kinds.
    open_cframe: ClassVar[Callable[[bytes], Any] | None] = None

    def __init__(
        self,
        frame: Frame,
        mode: str = "r",
        urlpath: str | None = None,
        mmap_mode: str | None = None,
        key: str | None = None,
        deserialize: str = "safe",
        *,
        dparams: DParams | None = None,
        cparams: CParams | None = None,
        verify: bool | None = None,
    ) -> None:
        self.verify = verify
        if verify:
            check_reads(frame)
        elif verify is None and frame.checksums_len:
            frame.check_wholes()
        self.frame = frame
        self.array: tuple[Geometry, np.dtype[Any], Frame] | None = None
        self.mode = mode
        self.urlpath = urlpath
        self.mmap_mode = mmap_mode
        self.key = key
        self.deserialize = deserialize
        self.dparams = dparams
        self.version = 0
        self._cparams = cparams
        # Whether these are what the frame says.
        self._declared = cparams is None

    @property
    def contiguous(self) -> bool:
        """Whether all chunks lie in one frame."""
        return True

    @property
    def nthreads(self) -> int:
        return get_nthreads() if self.dparams is None else self.dparams.nthreads

    @property
    def cparams(self) -> CParams:
        """What new chunks are compressed with; by default as the frame says."""
        if self._cparams is None:
            self._cparams = cparams_of(self.frame)
        return self._cparams

    @cparams.setter
    def cparams(self, value: CParams) -> None:
        self._cparams = value
        self._declared = False

    @property
    def usable_cparams(self) -> CParams:
        """The same for who makes chunks with them: `FormatError` where the frame says what nobody could do."""
        if self._declared:
            check_declared(self.frame, None if self.array is None else self.array[1])
        return self.cparams

    def read_as_array(self) -> None:
        """Check and remember the array metadata of the current frame."""
        self.array = array_of(self.frame)

    def encoding(self, *, blocksize: int | None = None) -> Encoding:
        """Parameters of new chunks as the codec takes them."""
        frame, cparams = self.frame, self.usable_cparams
        # Filters of a super-chunk may work on numbers of another width than that of its items.
        plain = self.array is None and frame.metalayer("b2nd") is None
        typesize = cparams.typesize if plain else frame.typesize
        encoding = encoding_of(cparams, typesize, frame.blocksize if blocksize is None else blocksize)
        if encoding.needs_geometry and not frame.needs_geometry:
            raise ValueError(
                "this codec or filter works on array blocks, and only in arrays made with it: "
                "copy(cparams=...) makes such an array"
            )
        return encoding

    def plugin(self) -> Plugin | None:
        """What codecs and filters need that work on the blocks of an array."""
        return self.frame.plugin

    @property
    def described(self) -> tuple[Geometry, np.dtype[Any], Frame] | None:
        """What `array` was at the last read or change, for those who only describe it."""
        return self.array

    def described_checks(self) -> list[tuple[str, str]]:
        """What `info` says of checksums, where it was asked for them."""
        if not self.verify:
            return []
        return [("verify", "each read" if self.frame.checks_chunks else "nothing to check, no checksums that hold")]

    # ------------------------------------------------------------ changes
    def require_writable(self) -> None:
        """Raise unless changes can be published here."""
        if not self.writable:
            raise ReadOnlyError(
                "Cannot do this action with reading mode: open it with mode='a'", path=self.urlpath, key=self.key
            )

    def editing(self) -> AbstractContextManager[Any]:
        """Keep other threads from changes while one is worked out and published; readers are not kept from anything.

        Raises unless changes can be published here.
        """
        self.require_writable()
        return self._lock

    def holding(self) -> AbstractContextManager[Any]:
        """Keep other handles from changes for several of one's own, where handles have a lock in common."""
        return nullcontext()

    def lock(self) -> None:
        """Enter `holding`; `unlock` leaves it."""

    def unlock(self) -> None:
        """Leave what `lock` entered."""

    def _check_own(self) -> None:
        """Refuse to publish a change that was begun before this process was forked."""
        if self._lock.inherited:
            raise refusal(self.urlpath, self._lock.holder)

    def set_vlmeta(self, changes: dict[str, bytes | None]) -> None:
        """Publish packed values of metadata entries, all at once; None removes one."""
        with self.editing():
            draft = Draft(self.frame)
            for name, packed in changes.items():
                if packed is None:
                    draft.vlmeta.pop(name, None)
                else:
                    draft.vlmeta[name] = vlmeta_chunk(packed)
            check_stored_readable(draft.vlmeta, changes)
            self.publish(draft)

    def set_metalayer(self, name: str, packed: bytes) -> None:
        """Publish a fixed metalayer with other content of the same length."""
        with self.editing():
            draft = Draft(self.frame)
            draft.metalayers[name] = packed
            self.publish(draft, fresh=True)

    def publish(self, draft: Draft, *, fresh: bool = False) -> None:
        """Make a draft of the current frame the current version.

        `fresh` asks for a frame that is written anew, for changes that cannot be appended.
        """
        raise NotImplementedError(draft, fresh)

    def _adopt(self, frame: Frame) -> None:
        if self.verify:
            check_reads(frame)
        elif self.verify is None:
            frame.check_wholes()
        if self.array is not None:
            self.array = array_of(frame)
        self.frame = frame
        self.version += 1

    def compact(self) -> Compaction:
        """Publish the current version without dead bytes; see `Stored.compact`."""
        with self.editing():
            return Compaction(self.frame.frame_len, self.frame.frame_len)

    def to_cframe(self) -> bytes:
        """The frame as bytes, without checksums: otherwise verbatim where it was serialised, else written anew."""
        frame = self.frame
        check_chunks(frame)
        if not frame.serialised:
            return frame_bytes(Draft(frame))
        plain: bytes = frame.plain_bytes()
        if self.verify is None and frame.checksums_len:
            check_body(frame, plain)
        return plain

    def window(self) -> tuple[Source, int, int]:
        """The same frame as a window; the chunks of a large one stay where they are."""
        frame = self.frame
        if (frame.frame_len if frame.serialised else frame.source.size) <= SMALL_FRAME:
            data = self.to_cframe()
            return Source.of_buffer(data), 0, len(data)
        check_chunks(frame)
        return plain_window(frame, own=self._owns_file) if frame.serialised else draft_window(Draft(frame))

    def spool(self) -> Spool:
        """What takes the new chunks of a change until it is published."""
        return Spool(None)

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one.

        Leaves of a store, frames at an offset and frames in memory stay what they are.
        """
        source = self.frame.source
        if source.identity is None or self.key is not None or self.frame.offset:
            return False
        frame = open_frame(str(source.path), self.mmap_mode, old=source)
        if frame.header_bytes() == self.frame.header_bytes() and frame.source.identity == source.identity:
            return False
        self._adopt(frame)
        return True


class MemoryCarrier(Carrier):
    """A frame in memory that nobody else sees.

    Chunks lie in one buffer. A change appends to it, so that readers of older versions keep theirs; when it is
    full it is copied to a larger one. Many chunks that lie in a file stay there: see `JoinedChunks`.
    """

    __slots__ = ("_arena", "_arena_of", "_contiguous", "_joined", "_joined_of", "_lock", "_used", "_waiting")

    writable = True

    def __init__(self, frame: Frame, *, contiguous: bool | None = None, **how: Any) -> None:
        super().__init__(frame, **{"mode": "a", "deserialize": "full", **how})
        # What was asked for; else as the frame came. In memory there is no other difference.
        self._contiguous = bool(frame.serialised) if contiguous is None else contiguous
        self._arena: bytearray | None = None
        self._used = 0
        # The frame whose chunks the buffer holds; None while it is changed, and after a change that did not end.
        self._arena_of: Frame | None = None
        # The same of chunks that stay where they are.
        self._joined: JoinedChunks | None = None
        self._joined_of: Frame | None = None
        # Where new ones wait that are too many for memory, if that is possible.
        self._waiting: TemporaryFile | None = None
        self._lock = Lock()

    @property
    def contiguous(self) -> bool:
        return self._contiguous

    def detach(self) -> None:
        """Copy what the frame shows of a file, so that nothing depends on that file any more."""
        self.frame = Frame.open(Source.of_buffer(self.to_cframe()))

    def publish(self, draft: Draft, *, fresh: bool = False) -> None:  # noqa: ARG002
        with self._lock:
            if draft.frame is not self.frame:
                raise RuntimeError("the array was changed by another thread at the same time; try again")
            variable = draft.settle()
            frame = self.frame
            check_chunks(frame)  # what is copied to memory has no checksums there
            if self._arena_of is not frame:
                self._arena = None
            self._arena_of = None
            joined = self._join(frame)
            fields = Fields(frame, draft.chunksize, variable=variable, vlblocks=draft.vlblocks)
            if not draft.edits_chunks and frame.repeated_offset is not None:
                offsets: Any = int(frame.repeated_offset)
                count = int(frame.nchunks)
            else:
                offsets = draft.offsets
                count = len(offsets)
                if joined is None:
                    self._append(draft)
            source = frame.source if self._arena is None else Source.of_buffer(memoryview(self._arena)[: self._used])
            if joined is not None:
                source = joined.source_after(draft) if draft.edits_chunks else joined.source()
            elif self._arena is None and frame.serialised:
                start, stop = frame.chunks_range
                source = Source.of_buffer(frame.source.read(start, stop - start))
            assembled = Frame.assemble(
                source, offsets, count, draft.nbytes, draft.chunksize, fields, draft.metalayers, draft.vlmeta,
                vlblocks=draft.vlblocks, variable=variable,
            )  # fmt: skip
            self._adopt(assembled)
            self._arena_of = assembled
            self._joined, self._joined_of = joined, assembled

    def _join(self, frame: Frame) -> JoinedChunks | None:
        """The chunks of a frame, to go on with where they are; None where they are few, or in memory already."""
        if self._joined_of is frame:
            return self._joined
        if not frame.serialised or frame.source.in_memory or frame.repeated_offset is not None:
            return None
        start, stop = frame.chunks_range
        return JoinedChunks(frame, self._waiting) if stop - start > SMALL_FRAME else None

    def window(self) -> tuple[Source, int, int]:
        joined = self._joined
        if joined is None or self._joined_of is not self.frame:
            return super().window()
        return draft_window(Draft(self.frame), joined.sum_at())

    def _append(self, draft: Draft) -> None:
        """Put new chunks behind the ones that are there."""
        more = sum(len(stored) for stored in draft.new.values())
        if self._arena is None:
            start, stop = self.frame.chunks_range
            live = stop - start
            self._arena = bytearray(live + more + max(live, more, 64))
            self._arena[:live] = self.frame.source.read(start, live)
            self._used = live
        elif self._used + more > len(self._arena):
            live = sum(
                len(self.frame.chunk_stored_at(int(o)))
                for i, o in enumerate(draft.offsets)
                if o >= 0 and i not in draft.new
            )
            if self._used > 2 * live + _SLACK:
                self._compact(draft, more)
            else:
                larger = bytearray(2 * self._used + more)
                larger[: self._used] = memoryview(self._arena)[: self._used]
                self._arena = larger
        for index, kept in sorted(draft.new.items()):
            stored = held(kept)
            self._arena[self._used : self._used + len(stored)] = stored
            draft.offsets[index] = self._used
            self._used += len(stored)

    def _compact(self, draft: Draft, more: int) -> None:
        """Move the live chunks to a fresh buffer."""
        kept = {
            i: self.frame.chunk_stored_at(int(o)) for i, o in enumerate(draft.offsets) if o >= 0 and i not in draft.new
        }
        live = sum(map(len, kept.values()))
        self._arena = bytearray(2 * (live + more))
        self._used = 0
        for index, stored in kept.items():
            self._arena[self._used : self._used + len(stored)] = stored
            draft.offsets[index] = self._used
            self._used += len(stored)


class FileCarrier(Carrier):
    """A frame that is a file of its own, changed by "append, then publish" (FORMATS 8.1)."""

    # Whether a change did not come to its end, so that the file may show something else.
    __slots__ = ("_behind", "_exclusive", "_lock", "_path")

    writable = True

    def __init__(self, frame: Frame, *, exclusive: bool = True, **how: Any) -> None:
        super().__init__(frame, **how)
        self._behind = False
        # Whether a change waits for the lock of the file; without, nobody else may change it.
        self._exclusive = exclusive
        self._lock = Lock()
        self._path = os.path.abspath(str(self.urlpath))  # stays right when the process goes to another folder

    def spool(self) -> Spool:
        return Spool(TemporaryFile(self._path))

    def publish(self, draft: Draft, *, fresh: bool = False) -> None:
        with self._lock:
            self._check_own()
            if draft.frame is not self.frame:
                raise RuntimeError("the array was changed by another thread at the same time; try again")
            variable = draft.settle()
            # The trailer of a frame without data must follow the header: metadata alone cannot be appended,
            # nor can the last chunk go.
            fresh = fresh or draft.nbytes == 0 or len(self.frame.header_bytes()) > _SECTOR
            # The lock is taken anew for each change: it keeps other handles of the file out too, in any process.
            owner = Owner()
            raw = owner.open_raw(self._path, "r+b")
            with closed_quietly(raw) as file, locked(file, self._path, exclusive=self._exclusive):
                self._check_unchanged(file)
                self._behind = True
                try:
                    if fresh:
                        self._rewrite(draft, owner)
                    else:
                        append_version(file, self._path, draft, variable=variable)
                    self._adopt(open_frame(self._path, self.mmap_mode, old=self.frame.source))
                except BaseException as error:
                    self._look_again(error)
                    raise
                self._behind = False

    def _look_again(self, error: BaseException) -> None:
        """A change did not come to its end: show what the file holds, and say so."""
        before = self.frame.header_bytes()
        try:
            self.refresh()
        except (OSError, FormatError, MemoryError):
            what = "the change may be in the file: refresh() tells"
        else:
            shows = self.frame.header_bytes() != before
            what = "the change is in the file all the same, and shows" if shows else "the file is what it was"
        explain(error, what)
        name_file(error, self._path)

    def editing(self) -> AbstractContextManager[Any]:
        """See `Carrier.editing`. What the last change came to is looked at first, where it did not come to its end."""
        if self._behind:
            self.refresh()
        return super().editing()

    def compact(self) -> Compaction:
        with self.editing():
            before = self.frame.source.size
            self.publish(Draft(self.frame), fresh=True)
            return Compaction(before, self.frame.source.size)

    def _rewrite(self, draft: Draft, owner: Owner) -> None:
        with NewFile(self._path, replace=True, owner=owner) as file:
            write_frame(file, draft)

    def _check_unchanged(self, file: FileIO) -> None:
        """Refuse to write into a file that is no longer the one that was read."""
        status = os.fstat(file.fileno())
        identity = self.frame.source.identity
        fixed = self.frame.header_bytes()[:87]
        place = (status.st_dev, status.st_ino)
        now = os.stat(self._path)  # another file may have been renamed over it while the lock was waited for
        if (
            identity is None
            or place != identity[:2]
            or place != (now.st_dev, now.st_ino)
            or (file.read(len(fixed)) != fixed)
        ):
            raise StaleHandleError(
                "another handle or process changed this file since it was opened: open it again, "
                "or call refresh(), before writing; with locking=True handles wait for each other and follow",
                path=self.urlpath,
            )

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one."""
        with self._lock:
            changed = super().refresh()
            self._behind = False
            return changed


def vlmeta_chunk(packed: bytes) -> bytes:
    """A packed value as it is stored in the trailer."""
    return encode(_VLMETA_ENCODING, packed)


def encoding_of(cparams: CParams, typesize: int, blocksize: int) -> Encoding:
    """Compression parameters as plain numbers, for items and blocks of these sizes."""
    return Encoding(
        _number(cparams.codec), cparams.codec_meta, cparams.clevel, cparams.use_dict, typesize, blocksize,
        _number(cparams.splitmode), tuple(_number(f) for f in cparams.filters), tuple(cparams.filters_meta),
    )  # fmt: skip


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def array_of(frame: Frame) -> tuple[Geometry, np.dtype[Any], Frame]:
    """Geometry and dtype of a frame, checked against it, and the frame, ready to be read as an array."""
    geometry, dtype = parse_geometry(frame, parse_dtype)
    if frame.needs_geometry and frame.plugin is None:
        frame.set_plugin(make_plugin(frame))
    return geometry, dtype, frame


def make_plugin(frame: Frame) -> Plugin:
    """The C library's super-chunk for such codecs and filters."""
    encoding = Encoding(
        frame.codec, frame.codec_meta, frame.clevel, frame.use_dict, frame.typesize, frame.blocksize,
        frame.splitmode, frame.filters, frame.filters_meta,
    )  # fmt: skip
    try:
        return Plugin(encoding, frame.metalayer("b2nd") or b"", frame.chunksize)
    except ValueError as error:
        raise FormatError(str(error), path=frame.source.path, key=frame.key, offset=frame.offset) from None


def open_frame(
    path: str, mmap_mode: str | None, offset: int = 0, *, old: Source | None = None, advice: str | None = None
) -> Frame:
    """Open the frame at an offset of a file, mapped or for positional reads.

    An older source of the path, opened in the same way, shares with the new one what it can: see `Source.reopen`.
    `advice` is given before anything is read.
    """
    last = None
    tries = 0
    while True:
        try:
            if old is not None and old.path == path:
                source = old.reopen()
            else:
                source = Source.map(path) if mmap_mode is not None else Source.open(path)
        except FileNotFoundError:
            raise MissingFileError(errno.ENOENT, "No such file or directory", path) from None
        if advice is not None:
            source.advise(advice)
        try:
            frame = Frame.open(source, offset)
            header = frame.header_bytes()
            # Read again: what was read while it was written may be made of two versions, and look sound.
            if source.read(offset, len(header)) == header or tries == _TRIES:
                return frame
            tries += 1
        except FormatError:
            # A header that was read while it was written, or that tells of bytes which came after the file was opened.
            size = min(_SECTOR, source.size)
            now = source.identity, source.read(max(0, min(offset, source.size - size)), size)
            tries += 1
            if now == last or tries == _TRIES:
                raise
            last = now


def open_carrier(
    path: str, mode: str, mmap_mode: str | None, offset: int = 0, *, advice: str | None = None, exclusive: bool = True,
    **how: Any,
) -> Carrier:  # fmt: skip
    """The carrier of a frame in a file, for reading or, where the file is nothing but the frame, for changes."""
    # By its full path, which stays right when the process goes to another folder.
    frame = open_frame(os.path.abspath(path), mmap_mode, offset, advice=advice)
    kind: type[Carrier] = Carrier
    if mmap_mode == "c":
        kind = MemoryCarrier
    elif mode != "r" and offset == 0:
        check_permission(os.path.abspath(path))
        kind = FileCarrier
        how["exclusive"] = exclusive
    return kind(frame, mode=mode, urlpath=path, mmap_mode=mmap_mode, **how)
