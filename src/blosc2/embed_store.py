"""`EmbedStore`: arrays under keys, in one file or in memory."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from typing import Any, Self

from blosc2._backends import (
    MAP_BYTES,
    NOT_REPLACED,
    Embedded,
    EmbeddedChanges,
    EmbeddedFile,
    Pace,
    Window,
    WriterLock,
    absolute,
    missing,
    open_embedded,
    taken,
)
from blosc2._core.frame.frame import Frame
from blosc2._core.io.source import Source
from blosc2._files import Progress, begins_with, check_advice, file_identity, lasting, remove_leftovers, through_link
from blosc2._frames import pack
from blosc2._options import check_mmap_mode, check_mode, deserialize_mode, local_path, refuse_locking
from blosc2._stores import AllOrNone, Store
from blosc2.exceptions import FormatError
from blosc2.storage import CParams, DParams, Storage, cparams_from, dparams_from, storage_from


class EmbedStore(Store):
    """A mapping of keys to arrays that are embedded in one frame: a `.b2e` file, or memory.

    Parameters
    ----------
    urlpath : str, bytes or path, optional
        The file. Without it the store is in memory; `to_cframe` returns its bytes.
    mode : {'r', 'a', 'w', 'x'}
        Read only; read and write, created if missing; start empty (an old file is replaced with the first
        change); create only.
    cparams : CParams or dict, optional
        How to compress arrays that the store makes from other values. Arrays of this package keep their compressed
        bytes.
    dparams : DParams or dict, optional
        Accepted for compatibility.
    storage : Storage or dict, optional
        `urlpath`, `mode` and `mmap_mode` in one object.
    chunksize : int
        The smallest size of the chunks that hold the values.
    mmap_mode : {None, 'r'}
        ``"r"`` maps the file, and requires ``mode="r"``; see the notes.
    meta : dict, optional
        Further fixed metadata of a new store.
    deserialize : {'safe', 'full'}
        Whether to refuse active values in the metadata of leaves, or to open them.
    timeout : float or None
        How many seconds a mode other than 'r' waits for another writer; None waits without limit.
    exclusive : bool
        False takes no lock, for file systems without locks; make sure that there is no other writer.
    verify : bool, optional
        By default, data read as a whole is verified against the checksums of the store; True verifies each read, False
        none. See `blosc2.open`.
    advise : str, optional
        How the file will be read; see `advise`.

    Raises
    ------
    ValueError
        The mode, or the combination of modes, does not exist; or the file is not such a store (`FormatError`).
    FileNotFoundError, FileExistsError
        The mode is 'r' and there is no file; or it is 'x' and there is one.
    StoreLockedError
        The mode is not 'r', and another handle has the file open for writing, in this process or another.

    Notes
    -----
    **Publishing.** A new file exists as soon as the store is opened. Assigning or deleting a value publishes the change
    when it returns, as long as that is cheap: the value and a new map of all keys are appended, and one small write
    makes both current. A large store publishes when the pending changes are as large as its map, or a second after the
    last publication; and at `flush` and `close`, which also make everything durable. Readers keep the version that they
    opened. `transaction`, `update` and `write_many` publish all of their changes at once. Leaves of a store open for
    writing are live: their changes are published with the next publication. A `with` block that raises publishes what
    was assigned. So does a store that is never closed, when it is garbage-collected or the interpreter exits, with a
    `ResourceWarning`. `discard` drops pending changes. Replaced or deleted values leave unused bytes in the file, until
    these exceed twice the bytes in use, or until `compact` is called: then a new file replaces the old one.

    **Mapping.** With ``mmap_mode="r"`` the file is mapped once, however many leaves are open. Leaves read from the
    mapping without a system call or a copy of compressed bytes. Mapping costs a few microseconds at open, and address
    space of the size of the file. Its memory belongs to the page cache: all processes share it, and the system can free
    it, although tools count touched pages as memory of the process. Leaves keep the mapping alive after `close`.
    Without mapping (None), reads are positional reads of one descriptor: slower above some 16 KB for each read, but
    safe if the file is truncated.

    The limits of mapping: if another program truncates a mapped file, the next access kills the process with SIGBUS
    (this package only replaces files and appends to them). The same may happen on a network file system when the
    connection breaks. On Windows a mapped file cannot be replaced or deleted. In files of other programs the values are
    compressed a second time; they must be decoded first, and mapping gains little.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "probes.b2e")
    >>> with blosc2.EmbedStore(path, mode="w") as store:
    ...     store["/first/x"] = np.arange(5)
    >>> with blosc2.EmbedStore(path, mode="r", mmap_mode="r") as store:
    ...     store["/first/x"][1:3]
    array([1, 2])
    """

    def __init__(
        self,
        urlpath: str | bytes | os.PathLike[Any] | None = None,
        mode: str = "a",
        cparams: CParams | dict[str, Any] | None = None,
        dparams: DParams | dict[str, Any] | None = None,
        storage: Storage | dict[str, Any] | None = None,
        chunksize: int = 8192,
        _from_schunk: Any = None,
        *,
        mmap_mode: str | None = None,
        meta: Mapping[str, Any] | None = None,
        deserialize: str | None = None,
        timeout: float | None = 0,
        exclusive: bool = True,
        verify: bool | None = None,
        advise: str | None = None,
    ) -> None:
        if advise is not None:
            check_advice(advise)
        if storage is not None:
            storage = storage_from(storage)
            if storage.locking:
                refuse_locking(storage.urlpath, mmap_mode)
            urlpath = storage.urlpath if urlpath is None else urlpath
            mode, mmap_mode = storage.mode, storage.mmap_mode if mmap_mode is None else mmap_mode
        check_mode(mode)
        check_mmap_mode(mmap_mode, mode)
        path = None if urlpath is None else local_path(urlpath)
        self._cparams = cparams_from(cparams)
        self._dparams = dparams_from(dparams)
        self._meta = {name: pack(value) for name, value in (meta or {}).items()}
        self._chunksize = chunksize
        self._embedded: Embedded | None = None
        self._identity: tuple[int, ...] | None = None
        self._absolute = None if path is None else absolute(path)
        self._place: EmbeddedFile | None = None
        self._pace = Pace()
        # What is in memory only was made here, so it is trusted.
        policy = deserialize or ("safe" if path is not None or _from_schunk is not None else "full")
        super().__init__(path, mode, mmap_mode, str(deserialize_mode(policy)))
        self._verify = verify
        self._advice = lasting(advise)
        if _from_schunk is not None:
            self._load(_embedded_in(Source.of_buffer(_from_schunk.to_cframe(), _from_schunk.urlpath)))
        elif path is None:
            if mode == "r":
                raise ValueError("a store in memory starts empty, so mode='r' makes no sense without a urlpath")
        else:
            if mode != "r":
                if mode != "x":  # which refuses a link
                    self._absolute = through_link(str(self._absolute))
                self._writer_lock = WriterLock(str(self._file), timeout, exclusive=exclusive)
                self._place = EmbeddedFile(str(self._file), self._writer_lock)
            try:
                self._open_file(str(self._file))
            except BaseException:
                # At once: the traceback keeps the object for a while.
                self._closed = True
                if self._writer_lock is not None:
                    self._writer_lock.release()
                raise
        if advise is not None and self._advice is None:
            self._advise_all(advise)

    def _open_file(self, path: str) -> None:
        exists = os.path.exists(path)  # a link that leads nowhere is followed when the file is made
        if self._place is not None:
            self._place.was_there = exists
        if exists and os.path.isdir(path):
            raise IsADirectoryError(errno.EISDIR, "an EmbedStore is a file, and this is a directory", path)
        if self._mode == "x" and os.path.lexists(path):
            raise taken(path, "mode='x' only creates, and there is a file already")
        if exists and self._mode != "w":
            embedded = open_embedded(path, self._mmap_mode, advice=self._advice, verify=self._verify)
            self._load(embedded)
            if self._place is not None and self._writer_lock is not None and self._writer_lock.held:
                self._place.cut_tail(embedded.frame)
                self._identity = self._place.identity
        elif self._mode == "r":
            raise missing(path)
        else:
            if exists and not _is_replaceable(path, str(self._path)):
                raise taken(path, NOT_REPLACED)
            self._unwritten = True
            if not exists:  # an old file stays until there is something to replace it
                self._flush(durable=True)

    @classmethod
    def _from_buffer(cls, buffer: Any, mode: str = "a", deserialize: str | None = None) -> Self:
        """A store in memory over the bytes of a frame, which must not change."""
        self = cls(deserialize=deserialize or "safe")
        self._load(_embedded_in(Source.of_buffer(buffer)))
        self._mode = mode
        return self

    @classmethod
    def _of_embedded(cls, embedded: Embedded, deserialize: str) -> Self:
        """A read-only store over what was opened already."""
        self = cls(deserialize=deserialize)
        self._embedded, self._mode = embedded, "r"
        return self

    def _load(self, embedded: Embedded) -> None:
        if embedded.kind != "b2embed" and self._mode != "r":
            raise FormatError("not an EmbedStore: this frame belongs to a DictStore or TreeStore", path=self._path)
        self._show(embedded)
        if self._place is not None:
            self._place.was_read(self._identity)

    def _show(self, embedded: Embedded) -> None:
        self._embedded = embedded
        self._identity = embedded.frame.source.identity
        self._advise_again()

    # ------------------------------------------------------------------ what a store provides
    def _published(self, key: str) -> Window | None:
        embedded = self._embedded
        if embedded is None:
            self._check_open()
            return None
        return embedded.locate(key)

    def _has(self, key: str) -> bool:
        window = self._changes.get(key, ...)
        if window is not ...:
            return window is not None
        return self._is_published(key)

    @property
    def _file(self) -> str | None:
        return self._absolute

    def _is_published(self, key: str) -> bool:
        embedded = self._embedded
        return embedded is not None and key in embedded.entries

    def _published_keys(self) -> list[str]:
        return [] if self._embedded is None else list(self._embedded.entries)

    def _after(self, changes: Mapping[str, Window | None]) -> EmbeddedChanges:
        return EmbeddedChanges("b2embed", self._embedded, changes, meta=self._meta, chunksize=self._chunksize)

    def _publish(self, changes: dict[str, Window | None], *, durable: bool = True) -> None:
        if self._place is None:
            self._load(_embedded_in(Source.of_buffer(self._after(changes).compose())))
        else:
            self._show(self._place.publish(self._after(changes), durable=durable))

    def _is_due(self, nbytes: int, block: AllOrNone | None = None) -> bool:
        embedded = self._embedded
        # First what mostly says no.
        if not self._pace.is_due(self._in_memory + nbytes, 0 if embedded is None else len(embedded.entries)):
            return False
        return self._place is not None and self._may_publish(block)

    def _publish_now(self, block: AllOrNone) -> None:  # noqa: ARG002 - all that waits is published
        place = self._place
        assert place is not None
        with self._pace:
            place.lazy = True
            try:
                self._flush(durable=True)
            finally:
                place.lazy = False

    def _flush(self, durable: bool) -> None:
        super()._flush(durable)
        if durable and self._place is not None and not self._place.lazy:
            self._place.settle()

    @property
    def _is_open_end(self) -> bool:
        place = self._place
        return self._unpublished or (place is not None and (place.unsettled or (self._unwritten and self._is_behind)))

    def _remove(self, key: str) -> None:
        super()._remove(key)
        self._in_memory += MAP_BYTES

    @property
    def _is_behind(self) -> bool:
        return self._place is not None and self._place.is_ahead_of(self._embedded)

    def _catch_up(self) -> None:
        if self._is_behind:
            self._load(open_embedded(str(self._absolute), self._mmap_mode, verify=self._verify))

    def _reload(self) -> bool:
        before = self._embedded
        header = b"" if before is None else before.frame.header_bytes()
        identity = None if self._absolute is None else file_identity(self._absolute)
        if self._absolute is None or (identity is None and before is None):
            return False
        if identity == self._identity and not self._is_behind and begins_with(self._absolute, header):
            return False
        old = None if before is None else before.frame.source
        self._load(open_embedded(self._absolute, self._mmap_mode, old, verify=self._verify))
        after = self._embedded
        # A writer at work makes the file longer before anything else is shown.
        return before is None or after is None or not _are_same(before.frame, after.frame)

    def _size(self) -> int:
        if self._absolute is None:
            return 0 if self._embedded is None else int(self._embedded.frame.frame_len)
        return os.stat(self._absolute).st_size

    def _compact(self, progress: Progress | None) -> None:
        if self._place is not None and self._embedded is not None:
            if self._writer_lock is not None and self._writer_lock.held:
                remove_leftovers(self._place.path, self._place.owner)
            self._show(self._place.publish(self._after({}), anew=True, progress=progress))
        else:
            self._publish({})

    def _release(self) -> None:
        self._embedded = None

    def _encoding(self) -> dict[str, Any]:
        return {"cparams": self._cparams}

    # ------------------------------------------------------------------ besides a mapping
    def to_cframe(self) -> bytes:
        """Return the store as the bytes of one frame, including unpublished changes, without checksums."""
        self._check_open()
        with self._lock:
            self._gather()
            if self._embedded is None or self._changes:
                return self._after(self._changes).compose()
            return self._embedded.frame.plain_bytes()

    @property
    def _unpublished(self) -> bool:
        # What is in memory only is not lost by being forgotten.
        return self._path is not None and super()._unpublished

    def _given(self) -> dict[str, Any]:
        given = {"cparams": self._cparams, "dparams": self._dparams}
        return {name: value for name, value in given.items() if value != type(value)()}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        self = cls.__new__(cls)
        self._absolute = path
        self._embedded = self._place = self._identity = None
        self._cparams, self._dparams = CParams(), DParams()
        Store.__init__(self, path, "r", None, "safe")
        self._lost, self._closed = (error.with_traceback(None), recipe), True
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            return _from_bytes, (type(self), self.to_cframe(), self._mode, self._deserialize)
        return super().__reduce__()

    @property
    def urlpath(self) -> str | None:
        """The file, None for a store in memory."""
        return self._path

    @property
    def cparams(self) -> CParams:
        """How arrays that the store makes from other values are compressed."""
        return self._cparams

    @property
    def dparams(self) -> DParams:
        """Decompression parameters, as given."""
        return self._dparams

    @property
    def storage(self) -> Storage:
        """Path, modes and kind of the store as one object."""
        meta = {"b2embed": {"version": 1}}
        return Storage(urlpath=self._path, mode=self._mode, mmap_mode=self._mmap_mode, meta=meta)

    @property
    def chunksize(self) -> int:
        """The smallest size of the chunks that hold the values."""
        return self._chunksize if self._embedded is None else int(self._embedded.frame.chunksize)

    def __repr__(self) -> str:
        if self._closed:
            return f"<EmbedStore {self._path or 'in memory'}, closed>"
        return f"<EmbedStore {self._path or 'in memory'}: {len(self)} keys, mode {self._mode!r}>"


def _is_replaceable(path: str, named: str) -> bool:
    """Whether a file is a store of this kind, is named like one, or is empty."""
    if ".b2e" in (os.path.splitext(path)[1], os.path.splitext(named)[1]) or not os.path.isfile(path):
        return True
    try:
        return not os.path.getsize(path) or open_embedded(path, None).kind == "b2embed"
    except FormatError:
        return False


def _embedded_in(source: Source) -> Embedded:
    return Embedded((source, 0, -1))


def _are_same(one: Frame, other: Frame) -> bool:
    """Whether two frames are the same version of the same file."""
    first, second = one.source.identity, other.source.identity
    if first is None or second is None:
        return False
    return first[:2] == second[:2] and one.header_bytes() == other.header_bytes()


def _from_bytes(kind: type[EmbedStore], frame: bytes, mode: str, deserialize: str) -> EmbedStore:
    return kind._from_buffer(frame, mode, deserialize)
