"""`FrameHandle`, through which arrays, super-chunks and lists hold their frame; `Stored`, the base of these.

An array, its super-chunk and their metadata views share one handle. A handle shows one immutable `Frame` at a time; a
change makes the next one. A reader takes the frame once, and keeps it when another thread publishes a change.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from blosc2 import _files, _frames
from blosc2._core.codec.codec import Plugin
from blosc2._core.frame.frame import Frame
from blosc2._core.io.sharing import Lock, item_of, never_freed
from blosc2._core.io.source import Source
from blosc2._core.ndim.geometry import Geometry, parse_b2nd
from blosc2._frames.dtypes import parse_dtype
from blosc2._options import (
    Encoding,
    RemotePath,
    declared_encoding,
    encoding_of,
    get_nthreads,
    how_to_change,
    zstd_encoding,
)
from blosc2.exceptions import FormatError, MissingFileError, ReadOnlyError
from blosc2.info import HandleProperties, InfoReporter, file_rows
from blosc2.storage import CParams, DParams, cparams_from, cparams_of, dparams_from

if TYPE_CHECKING:
    from blosc2._files import Compaction, Spool
    from blosc2._frames.changeable import Waiting
    from blosc2._frames.metadata import Meta, VLMeta
    from blosc2._frames.update import FrameUpdate
    from blosc2._integrity.report import CheckReport


@never_freed
class HandleOptions(NamedTuple):
    """How a handle is opened; all of it was checked by whoever took it from the user.

    Attributes
    ----------
    mode : {"r", "a", "w", "x"}
        What may be done through the handle.
    mmap_mode : {None, "r", "r+", "w+", "c"}
        How the file is mapped, if it is.
    deserialize : {"safe", "full"}
        What happens to active values in the metadata.
    dparams, cparams : DParams, CParams, optional
        What chunks are read and made with; the frame says it where this is None.
    verify : bool, optional
        What is checked against checksums: each read, what is read as a whole (None), or nothing.
    exclusive : bool
        Whether a change takes the lock of the file.
    durable : bool
        Whether a change waits for the disk.
    locking : bool
        Whether several programs change the file together: handles then follow each other's changes.
    timeout : float or None
        For how many seconds a lock is waited for at most.
    """

    mode: str = "r"
    mmap_mode: str | None = None
    deserialize: str = "safe"
    dparams: DParams | None = None
    cparams: CParams | None = None
    verify: bool | None = None
    exclusive: bool = True
    locking: bool = False
    durable: bool = False
    timeout: float | None = None


#: How a frame is opened that is only read.
READ_ONLY: Final = HandleOptions()
#: How a frame in memory is opened, which this process made itself.
IN_MEMORY: Final = HandleOptions("a", deserialize="full")


# The header fields that make a version current lie in one sector when they end before this byte.
SECTOR: Final = 512


def open_frame(
    path: str, mmap_mode: str | None, offset: int = 0, *, old: Source | None = None, advice: str | None = None
) -> Frame:
    """Open the frame at an offset of a file, mapped or for positional reads.

    An older source of the path, opened in the same way, shares with the new one what it can: see `Source.reopen`.
    `advice` is given before anything is read.
    """
    retry = None
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
            if source.read(offset, len(header)) == header:
                return frame
            retry = retry or _files.Retry()
            if not retry.again(object()):  # it has changed, that is certain
                return frame
        except FormatError:
            # A header that was read while it was written, or that tells of bytes which came after the file was opened.
            size = min(SECTOR, source.size)
            retry = retry or _files.Retry()
            if not retry.again((source.identity, source.read(max(0, min(offset, source.size - size)), size))):
                raise


def publish_waiting(path: str) -> bool:
    """Publish what waits in this process for a file, or in a folder, that is about to be read; whether anything did.

    Where changes wait, their module was imported.
    """
    publish = getattr(item_of(sys.modules, "blosc2._frames.changeable"), "publish_at", None)
    return publish is not None and bool(publish(path))


# How metadata entries are compressed; the parameters of the data do not matter.
_VLMETA_ENCODING = zstd_encoding(5)
# Taken where parameters of a handle are changed or made: two threads at once would otherwise lose one of the changes.
_CHANGING = Lock()


@never_freed
class FrameHandle:
    """A frame that is only read: a byte range of a file or store.

    Attributes
    ----------
    array : tuple of Geometry, dtype and Frame, or None
        Of the current version, when it is an array. One tuple, so that a reader never sees parts of two versions.
    urlpath : str or None
        From where.
    key : str or None
        The key of a leaf in the store at `urlpath`.
    version : int
        Goes up by one with each change.
    verify : bool or None
        Where the frame carries checksums: whether each chunk is checked before anything of it is decoded; None checks
        what is read as a whole.
    """

    __slots__ = ("__weakref__", "_cparams", "array", "frame", "key", "options", "urlpath", "verify", "version")

    writable = False
    locking = False
    # Whether no other process writes to the file that holds the frame.
    _owns_file = False
    #: Changes that wait to be published.
    waiting: Waiting | None = None
    _lock: Lock  # of the kinds that can be changed
    #: Turns an embedded frame of the metadata into an object; set by the layer that knows all kinds.
    open_cframe: ClassVar[Callable[[bytes], Any] | None] = None

    def __init__(
        self,
        frame: Frame,
        options: HandleOptions = READ_ONLY,
        urlpath: str | None = None,
        key: str | None = None,
    ) -> None:
        # As few attributes as can be: opening a leaf is mostly setting these.
        self.options = options
        self.verify = verify = options.verify
        if verify:
            _frames.check_reads(frame)
        elif verify is None and frame.checksums_len:
            frame.check_wholes()
        self.frame = frame
        self.array: tuple[Geometry, np.dtype[Any], Frame] | None = None
        self.urlpath = urlpath
        self.key = key
        self.version = 0
        self._cparams: CParams | None = None  # of the frame, once somebody has asked

    def shared(self) -> Self:
        """This handle, for an object that has it besides the array or super-chunk that was opened with it."""
        return self

    @property
    def dparams(self) -> DParams | None:
        """What chunks are read with; None if it was not given."""
        return self.options.dparams

    @dparams.setter
    def dparams(self, value: DParams) -> None:
        self.change_options(dparams=value)

    def make_dparams(self) -> DParams:
        """What chunks are read with, as an object that may be changed and then counts."""
        with _CHANGING:
            found = self.options.dparams
            if found is None:
                found = DParams()
                self.change_options(dparams=found)
            return found

    def change_options(self, **changes: Any) -> None:
        """Replace some options; others that another thread replaces at the same time stay replaced."""
        with _CHANGING:
            self.options = self.options._replace(**changes)

    @property
    def contiguous(self) -> bool:
        """Whether all chunks lie in one frame."""
        return True

    @property
    def nthreads(self) -> int:
        dparams = self.options.dparams
        return get_nthreads() if dparams is None else dparams.nthreads

    @property
    def cparams(self) -> CParams:
        """What new chunks are compressed with; by default as the frame says."""
        given = self.options.cparams
        if given is not None:
            return given
        made = self._cparams
        if made is None:
            with _CHANGING:  # all get the same object, which may be changed
                self._cparams = made = self._cparams or cparams_of(self.frame)
        return made

    @cparams.setter
    def cparams(self, value: CParams) -> None:
        self.change_options(cparams=value)

    def forget_cparams(self) -> None:
        """Have the frame say again what new chunks are compressed with, as it is another one now."""
        with _CHANGING:
            self._cparams = None
            self.change_options(cparams=None)

    @property
    def usable_cparams(self) -> CParams:
        """The parameters for making chunks. Raises `FormatError` if the frame declares impossible ones."""
        if self.options.cparams is None:
            _frames.check_declared(self.frame, None if self.array is None else self.array[1])
        return self.cparams

    def read_as_array(self) -> None:
        """Check and remember the array metadata of the current frame."""
        self.array = array_of(self.frame)

    def encoding(self, *, blocksize: int | None = None) -> Encoding:
        """How new chunks are encoded, in the form that the codec takes."""
        frame, cparams = self.frame, self.options.cparams
        if cparams is None:
            _frames.check_declared(frame, None if self.array is None else self.array[1])
            cparams = self.cparams
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

    @property
    def published(self) -> Frame:
        """The version that others see: another one than `frame` in a transaction."""
        return self.frame

    @property
    def is_in_memory(self) -> bool:
        """Whether it shows changes that are in no file, as they could not be published."""
        return False

    @property
    def described(self) -> tuple[Geometry, np.dtype[Any], Frame] | None:
        """`array` as of the last read or change, for descriptions. Nothing is looked up."""
        return self.array

    @property
    def layout(self) -> Any:
        """Geometry and dtype of an array, as in `array`. What waits need not be published for that."""
        return self.array

    @property
    def entries(self) -> Any:
        """What has the metadata entries: `vlmeta`, `vlmeta_names`. What waits need not be published for that."""
        return self.frame

    @property
    def may_wait(self) -> bool:
        """Whether small changes need not be published at once."""
        return False

    @property
    def cbytes(self) -> int:
        """Bytes of the chunks, and of dead ones where to look at all chunks would cost reads of a file."""
        return int(self.frame.cbytes)

    def settle(self) -> None:
        """Publish changes that wait, if there are any."""

    def end(self) -> None:
        """The program is done with it, for now."""

    def described_checks(self) -> list[tuple[str, str]]:
        """The line of `info` about checksums, if reads are verified."""
        if not self.verify:
            return []
        return [("verify", "each read" if self.frame.checks_chunks else "nothing to check, no checksums that hold")]

    def described_file(self) -> list[tuple[str, str]]:
        """The lines of `info` about the file, if all of it is this frame."""
        frame = self.frame
        if self.key is not None or not self.urlpath or not frame.serialised:
            return []
        try:
            if frame.source.far:  # how much of it is unused the headers of all chunks tell, each by a request
                return file_rows((frame.source.size, None))
            size = os.stat(self.urlpath).st_size
            return file_rows((size, max(0, size - _frames.most_live(frame)) if frame.offset == 0 else None))
        except (OSError, FormatError):  # what is wrong with it, reads and `check` say
            return []

    # ------------------------------------------------------------ changes
    def require_writable(self) -> None:
        """Raise unless changes can be published here."""
        if not self.writable:
            how = how_to_change(self.urlpath, "it" if self.key is None else "the store")
            if self.key is None and self.options.mode != "r" and self.frame.offset:
                how = f"a frame that begins at offset {self.frame.offset} of a file can only be read; change a copy"
            raise ReadOnlyError(f"Cannot do this action with reading mode: {how}", path=self.urlpath, key=self.key)

    def editing(self) -> AbstractContextManager[Any]:
        """Block changes by other threads while one is prepared and published. Readers are not blocked.

        Raises unless changes can be published here.
        """
        self.require_writable()
        return self._lock

    def holding(self) -> AbstractContextManager[Any]:
        """Block changes by other handles while this one makes several, if handles share a lock."""
        return nullcontext()

    def transaction(self) -> AbstractContextManager[None]:
        """See `Stored.transaction`."""
        self.require_writable()
        raise NotImplementedError

    def in_transaction(self) -> bool:
        """Whether changes wait for the end of a transaction, in which no other can begin."""
        return False

    def lock(self) -> None:
        """Enter `holding`; `unlock` leaves it."""

    def unlock(self) -> None:
        """Leave what `lock` entered."""

    def set_vlmeta(self, changes: dict[str, bytes | None]) -> None:
        """Publish packed values of metadata entries together. None removes an entry."""
        with self.editing():
            update = _frames.FrameUpdate(self.frame)
            change_entries(update.vlmeta, changes)
            self.publish(update)

    def set_metalayer(self, name: str, packed: bytes) -> None:
        """Replace the content of a fixed metalayer by another of the same length."""
        with self.editing():
            update = _frames.FrameUpdate(self.frame)
            update.metalayers[name] = packed
            self.publish(update, fresh=True)

    def spliced(self, number: Any, removed: int, added: list[Any]) -> int:  # noqa: ARG002
        """Show other chunks instead of `removed` ones, where that takes no update: see `ChunkBuffer.spliced`.

        Returns the number of chunks then; 0 where nothing was done.
        """
        return 0

    def has_reordered(self, order: Any) -> bool:  # noqa: ARG002
        """Show the chunks in another order, if no update is needed."""
        return False

    def publish(self, update: FrameUpdate, *, fresh: bool = False) -> None:
        """Publish an update of the current frame. The result is the current version from then on.

        `fresh` asks for a frame that is written anew, for changes that cannot be appended.
        """
        raise NotImplementedError(update, fresh)

    def _adopt(self, frame: Frame) -> None:
        """Show a version."""
        self.array = self._checked(frame)
        self.frame = frame
        self.version += 1

    def _checked(self, frame: Frame) -> Any:
        """The array of a frame that is to be shown, None for a super-chunk; raises if the frame is damaged."""
        if self.verify:
            _frames.check_reads(frame)
        elif self.verify is None:
            frame.check_wholes()
        return None if self.array is None else array_of(frame)

    def flush(self) -> None:
        """Wait until all that was published through this handle is durable."""

    def compact(self) -> Compaction:
        """Publish the current version without dead bytes; see `Stored.compact`."""
        with self.editing():
            return _files.Compaction(self.frame.frame_len, self.frame.frame_len)

    def to_cframe(self) -> bytes:
        """The frame as bytes without checksums. A serialised frame is copied verbatim, any other is written anew."""
        frame = self.frame
        if not frame.serialised:
            _frames.check_chunks(frame)
            return _frames.frame_bytes(_frames.FrameUpdate(frame))
        return self._plain(frame)

    def _plain(self, frame: Frame, room: Any = None) -> bytes:
        """The bytes of a serialised frame, checked; they are put into `room`, if it is given."""
        _frames.check_chunks(frame)
        checked = self.verify is None and frame.checksums_len > 0
        plain, body = frame.plain_bytes(room, summed=checked)
        if checked:
            _frames.check_body(frame, body)
        return plain

    def byte_range(self) -> tuple[Source, int, int]:
        """The frame as a byte range; the chunks of a large one stay where they are."""
        frame = self.frame
        if (frame.frame_len if frame.serialised else frame.source.size) <= _frames.SMALL_FRAME:
            data = self.to_cframe()
            return Source.of_buffer(data), 0, len(data)
        _frames.check_chunks(frame)
        return (
            _frames.plain_byte_range(frame, own=self._owns_file)
            if frame.serialised
            else _frames.frame_byte_range(_frames.FrameUpdate(frame))
        )

    def spool(self) -> Spool:
        """Where the new chunks of a change are kept until it is published."""
        return _files.Spool(None)

    def refresh(self) -> bool:
        """Take up the version that is on disk now; True when it is another one.

        Leaves of a store, frames at an offset and frames in memory stay what they are.
        """
        source = self.frame.source
        if isinstance(self.urlpath, RemotePath) and self.key is None and self.frame.offset == 0:
            if not _files.renewed_source(self.urlpath):
                return False
            self._adopt(Frame.open(_files.remote_source(self.urlpath)))
            return True
        if source.identity is None or self.key is not None or self.frame.offset:
            return False
        frame = open_frame(str(source.path), self.options.mmap_mode, old=source)
        if frame.header_bytes() == self.frame.header_bytes() and frame.source.identity == source.identity:
            return False
        self._adopt(frame)
        return True

    def explain(self, error: FormatError) -> None:
        """In the handler of a failed read: if somebody changed the file since it was opened, raise what says so.

        Our own writers never change bytes that are shown.
        """
        frame, path = self.frame, self.urlpath
        if type(error) is not FormatError or self.key is not None or path is None or isinstance(path, RemotePath):
            return
        identity = frame.source.identity
        if identity is None or _files.file_identity(path) in (None, identity):
            return
        reason = f"{error.reason}; the file was changed since it was opened, so perhaps it is whole: call refresh()"
        raise FormatError(reason, path=error.path, key=error.key, offset=error.offset) from None

    def publish_waiting(self) -> None:
        """Publish what other handles of this process have not published yet of the same file."""
        if self.locking:  # nothing waits there, and to look at the frame would be to refresh
            return
        source = self.frame.source
        if source.identity is not None and source.path is not None:
            publish_waiting(str(source.path))

    def has_grown(self) -> bool:
        """Take up a newer version before an index is refused: somebody may have appended the item since."""
        try:
            if not self.writable:  # others hold the lock of their handle
                self.publish_waiting()
            return self.refresh()
        except (OSError, FormatError):
            return False  # the index is what the caller has to hear of

    def once_grown(self, read: Callable[..., Any], key: Any, *more: Any) -> np.ndarray[Any, Any]:
        """In the handler of an `IndexError`: read once more if somebody has appended items since, or raise it again.

        `read` gets the version of the array, the key, the number of threads, and what else is given.
        """
        if not self.has_grown():
            raise  # noqa: PLE0704 - the error that is being handled
        items: np.ndarray[Any, Any] = read(self.array, key, self.nthreads, *more)
        return items


def vlmeta_chunk(packed: bytes) -> bytes:
    """A packed value as it is stored in the trailer."""
    return _frames.encode(_VLMETA_ENCODING, packed)


def change_entries(stored: dict[str, bytes], changes: dict[str, bytes | None]) -> None:
    """Give metadata entries, as they are stored, other packed values; None removes one."""
    for name, packed in changes.items():
        if packed is None:
            stored.pop(name, None)
        else:
            stored[name] = vlmeta_chunk(packed)
    _frames.check_stored_readable(stored, changes)


def array_of(frame: Frame) -> tuple[Geometry, np.dtype[Any], Frame]:
    """Geometry, dtype and frame, checked against each other and ready to be read as an array."""
    geometry, dtype = parse_b2nd(frame, parse_dtype)
    if frame.needs_geometry and frame.plugin is None:
        frame.set_plugin(make_plugin(frame))
    return geometry, dtype, frame


def make_plugin(frame: Frame) -> Plugin:
    """The C library's super-chunk for codecs and filters that work on the blocks of arrays."""
    try:
        return Plugin(declared_encoding(frame), frame.metalayer("b2nd") or b"", frame.chunksize)
    except ValueError as error:
        raise FormatError(str(error), path=frame.source.path, key=frame.key, offset=frame.offset) from None


@never_freed
class Stored(HandleProperties):
    """Base of the classes whose objects are a frame."""

    __slots__ = ("__weakref__", "_handle", "_vlmeta_")
    _handle: FrameHandle
    #: Checks the file of an object, by its handle; or what lies at a path, or the bytes of a store; see `_opening`.
    _checker: ClassVar[Callable[..., CheckReport] | None] = None
    #: Says which chunks a key touches; see `_opening`.
    _touched: ClassVar[Callable[..., Any] | None] = None
    #: Says how an object travels; see `_opening`.
    _reducer: ClassVar[Callable[..., tuple[Any, ...]] | None] = None

    #: Says what tells an object's items from others; see `_opening`.
    _tokenizer: ClassVar[Callable[..., tuple[Any, ...]] | None] = None

    def __reduce__(self) -> tuple[Any, ...]:
        assert self._reducer is not None
        return self._reducer(self)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        assert self._tokenizer is not None
        return self._tokenizer(self)

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        raise NotImplementedError

    @property
    def info(self) -> InfoReporter:
        """A table of the most important properties."""
        return InfoReporter(self)

    @property
    def meta(self) -> Meta:
        """The fixed metalayers, a mapping by name."""
        return _frames.Meta(self._handle.shared(), FrameHandle.open_cframe)

    @property
    def vlmeta(self) -> VLMeta:
        """The variable-length metadata, a mapping by name; the same object at every access."""
        try:
            return self._vlmeta_
        except AttributeError:
            self._vlmeta_: VLMeta = _frames.VLMeta(self._handle.shared(), FrameHandle.open_cframe)
            return self._vlmeta_

    @property
    def attrs(self) -> VLMeta:
        """The attributes, under the name of h5py and zarr; see `vlmeta`."""
        return self.vlmeta

    @property
    def cparams(self) -> CParams:
        """Compression parameters of new chunks."""
        return self._handle.cparams

    @cparams.setter
    def cparams(self, value: CParams | dict[str, Any]) -> None:
        self._handle.cparams = cparams_from(value, typesize=int(self._handle.frame.typesize))

    @property
    def dparams(self) -> DParams:
        """Decompression parameters."""
        found = self._handle.dparams
        return self._handle.make_dparams() if found is None else found

    @dparams.setter
    def dparams(self, value: DParams | dict[str, Any]) -> None:
        self._handle.dparams = dparams_from(value)

    def to_cframe(self) -> bytes:
        """Return the whole frame as bytes; `blosc2.from_cframe` opens them."""
        return self._handle.to_cframe()

    def refresh(self) -> bool:
        """Show the newest version of a file; True if another handle published one since.

        An array of a store stays what it is: call `DictStore.refresh` of the store, and read its key again.
        """
        self._handle.publish_waiting()
        return self._handle.refresh()

    def flush(self) -> None:
        """Wait until all changes made in this process are durable: they survive a power cut from then on.

        With ``durable=True``, each change has waited already. For an object in memory, in a store, or that was opened
        for reading, this does nothing: `DictStore.flush` publishes the leaves of a store.

        Raises
        ------
        RuntimeError
            In a transaction, which is durable at its end.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "counts.b2nd")
        >>> counts = blosc2.zeros(3, dtype="i4", urlpath=path)
        >>> for n in range(3):
        ...     counts[n] = n
        >>> counts.flush()
        """
        self._handle.flush()

    def advise(self, advice: str, key: Any = None) -> None:
        """Tell the operating system how the stored bytes will be read, so that it can read ahead.

        Advice never changes a result. It has no effect if the system takes no advice, or if the data are in memory.

        Parameters
        ----------
        advice : {"normal", "random", "sequential", "willneed", "dontneed"}
            "normal", "random" and "sequential" apply to the whole file (for a leaf, the file of its store) until the
            next advice: read some ahead, nothing, or much. "willneed" starts to read the stored bytes of this array,
            without waiting; "dontneed" frees the memory that they take in this process.
        key : object, optional
            With "willneed" and "dontneed", the items that are meant; the advice applies to their chunks. A key with
            lists or arrays means all chunks.

        Raises
        ------
        ValueError
            The advice is unknown, or applies to the whole file and a key is given.
        IndexError
            The key does not fit the shape.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> name = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
        >>> ones = blosc2.ones((40, 30), urlpath=name, chunks=(10, 30))
        >>> ones.advise("random")
        >>> ones.advise("willneed", slice(10, 30))
        """
        _files.check_advice(advice, part=key is not None)
        handle = self._handle
        if key is None:
            _files.advise_frame(advice, handle.frame)
        else:
            assert self._touched is not None
            _files.advise_frame(advice, handle.frame, self._touched(self, key))

    def check(self, *, progress: Callable[[int, int], object] | None = None) -> CheckReport:
        """Read everything and report damage; see `blosc2.check`.

        An object with a file of its own is checked as it is in the file; one in a store or in memory, as the handle
        shows it.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.ones(3).check().ok
        True
        """
        assert self._checker is not None
        return self._checker(self._handle, progress)

    def compact(self) -> Compaction:
        """Rewrite the file without unused bytes, which replaced chunks, tables and metadata leave behind.

        Open handles keep the version that they show. For an object in memory or in a store, this does nothing.

        Returns
        -------
        Compaction
            The bytes `before` and `after`.

        Raises
        ------
        ValueError
            The object was opened for reading only.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "counts.b2nd")
        >>> counts = blosc2.asarray(np.arange(50_000), urlpath=path)
        >>> counts[:] = counts[::-1]
        >>> before, after = counts.compact()
        >>> after < before
        True
        """
        return self._handle.compact()

    def holding_lock(self) -> AbstractContextManager[Any]:
        """Return a context in which no other handle changes the data, with ``locking=True``; otherwise it does nothing.

        It starts from the last version of the file. Inside it, too, each change is published at once. The lock belongs
        to this handle: if the same thread changes the data through another handle, it waits forever.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "counts.b2nd")
        >>> counts = blosc2.zeros(3, dtype="i4", urlpath=path, locking=True)
        >>> with counts.holding_lock():
        ...     counts[0] = counts[0] + 1
        >>> counts[0]
        array(1, dtype=int32)
        """
        return self._handle.holding()

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context whose changes (items, shape, metadata) are published once, at its end, or not at all.

        If the block raises, nothing of it is published, and the object is as it was before. Meanwhile it shows the
        changes as they are made; other handles and processes see the old version until the end, and a killed process
        leaves that. At the end the changes are durable. Many small appends in a block cost one table of chunks and one
        wait for the disk.

        Other threads that want to change the object wait for the end of the block; those that read it through this
        object see its changes. Changes by other handles meanwhile make the end raise `StaleHandleError`, and drop those
        of the block; with ``locking=True`` other handles wait. Blocks do not nest, and `compact` is refused inside.
        A child process that is forked in a block cannot continue it: there, its end does nothing. Leaves of a store
        raise an error: they are published by the ``transaction()`` of their store.

        Raises
        ------
        ValueError
            The object was opened for reading only.
        RuntimeError
            A block has begun already, or it is a leaf of a store.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "counts.b2nd")
        >>> counts = blosc2.zeros(0, dtype="i4", chunks=100, urlpath=path)
        >>> with counts.transaction():
        ...     for n in range(50):
        ...         _ = counts.append([n])
        ...     counts.vlmeta["complete"] = True
        ...     before = blosc2.open(path).shape
        >>> before, blosc2.open(path).shape
        ((0,), (50,))
        """
        return self._handle.transaction()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._handle.end()


class StoredFrame(Stored):
    """Base of those that are all of a frame: super-chunks and lists."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Uncompressed bytes."""
        return int(self._handle.frame.nbytes)

    @property
    def cbytes(self) -> int:
        """Compressed bytes. Of a file that is only read, those that changes have left behind are counted, too."""
        return self._handle.cbytes

    @property
    def cratio(self) -> float:
        """Uncompressed bytes divided by compressed bytes; 0 if nothing is stored."""
        cbytes = self.cbytes
        return self.nbytes / cbytes if cbytes else 0.0

    @property
    def typesize(self) -> int:
        """Bytes of an item; 1 for lists, whose values are packed as bytes."""
        return int(self._handle.frame.typesize)

    @property
    def chunksize(self) -> int:
        """Uncompressed bytes of a chunk; 0 if chunks have different sizes, -1 if the first chunk will decide."""
        return int(self._handle.frame.chunksize)

    @property
    def contiguous(self) -> bool:
        """Whether all chunks lie in one frame, not in a directory."""
        return self._handle.contiguous
