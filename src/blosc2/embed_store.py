"""`EmbedStore`: arrays under keys, in one file or in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Self

from blosc2._backends import (
    MAP_BYTES,
    Embedded,
    EmbeddedBackend,
    Pace,
    WriterLock,
    absolute,
    missing,
    taken,
)
from blosc2._core.io.source import Source
from blosc2._files import check_advice, through_link
from blosc2._frames import pack
from blosc2._options import StoreOptions, local_path, refuse_locking, store_options
from blosc2._stores import AllOrNone, Store
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

    _backend: EmbeddedBackend

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
        path = None if urlpath is None else local_path(urlpath)
        self._cparams = cparams_from(cparams)
        self._dparams = dparams_from(dparams)
        packed = {name: pack(value) for name, value in (meta or {}).items()}
        self._pace = Pace()
        # What is in memory only was made here, so it is trusted.
        policy = deserialize or ("safe" if path is not None or _from_schunk is not None else "full")
        options = store_options(
            mode, mmap_mode, policy, verify=verify, advise=advise, timeout=timeout, exclusive=exclusive
        )
        super().__init__(path, options)
        place = None if path is None else absolute(path)
        if path is None:
            if mode == "r" and _from_schunk is None:
                raise ValueError("a store in memory starts empty, so mode='r' makes no sense without a urlpath")
        elif mode != "r" and _from_schunk is None:
            if mode != "x":  # which refuses a link
                place = through_link(str(place))
            self._writer_lock = WriterLock(str(place), timeout, exclusive=exclusive)
        self._backend = EmbeddedBackend(place, options, self._writer_lock, packed, chunksize)
        self._backend.called = path
        if _from_schunk is not None:
            self._backend.load_frame(Source.of_buffer(_from_schunk.to_cframe(), _from_schunk.urlpath))
        elif path is not None:
            try:
                self._open_file(str(place))
            except BaseException:
                # At once: the traceback keeps the object for a while.
                self._closed = True
                if self._writer_lock is not None:
                    self._writer_lock.release()
                raise
        if advise is not None and self._advice is None:
            self._advise_all(advise)

    def _open_file(self, path: str) -> None:
        exists = self._backend.exists()
        if self._mode == "x" and os.path.lexists(path):
            raise taken(path, "mode='x' only creates, and there is a file already")
        if exists and self._mode != "w":
            self._load()
            self._backend.cut_tail()
        elif self._mode == "r":
            raise missing(path)
        else:
            self._backend.check_replaceable()
            self._unwritten = True
            if not exists:  # an old file stays until there is something to replace it
                self._flush(durable=True)

    @classmethod
    def _from_buffer(cls, buffer: Any, mode: str = "a", deserialize: str | None = None) -> Self:
        """A store in memory over the bytes of a frame, which must not change."""
        self = cls(deserialize=deserialize or "safe")
        self._backend.load_frame(Source.of_buffer(buffer))
        self._mode = mode
        return self

    @classmethod
    def _of_embedded(cls, embedded: Embedded, deserialize: str) -> Self:
        """A read-only store over what was opened already."""
        self = cls(deserialize=deserialize)
        self._backend.embedded, self._mode = embedded, "r"
        return self

    # ------------------------------------------------------------------ what a store provides
    def _is_due(self, nbytes: int, block: AllOrNone | None = None) -> bool:
        embedded = self._embedded
        # First what mostly says no.
        if not self._pace.is_due(self._in_memory + nbytes, 0 if embedded is None else len(embedded.entries)):
            return False
        return self._path is not None and self._may_publish(block)

    def _publish_now(self, block: AllOrNone) -> None:  # noqa: ARG002 - all that waits is published
        with self._pace:
            self._lazily = True
            try:
                self._flush(durable=True)
            finally:
                self._lazily = False

    def _flush(self, durable: bool) -> None:
        super()._flush(durable)
        unsettled = self._backend.unsettled
        if unsettled is not None and durable and not self._lazily:
            unsettled.settle()

    @property
    def _is_open_end(self) -> bool:
        if self._unpublished:
            return True
        # Of one whose making failed there is no backend.
        backend = getattr(self, "_backend", None)
        return backend is not None and (backend.unsettled is not None or (self._unwritten and backend.behind))

    def _remove(self, key: str) -> None:
        super()._remove(key)
        self._in_memory += MAP_BYTES

    def _encoding(self) -> dict[str, Any]:
        return {"cparams": self._cparams}

    # ------------------------------------------------------------------ besides a mapping
    def to_cframe(self) -> bytes:
        """Return the store as the bytes of one frame, including unpublished changes, without checksums."""
        self._check_open()
        with self._lock:
            self._gather()
            if self._embedded is None or self._changes:
                return self._backend.changes_of(self._changes).compose()
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
        self._backend = EmbeddedBackend(path, StoreOptions())
        self._cparams, self._dparams = CParams(), DParams()
        Store.__init__(self, path, StoreOptions())
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
        return self._backend.chunksize if self._embedded is None else int(self._embedded.frame.chunksize)

    def __repr__(self) -> str:
        if self._closed:
            return f"<EmbedStore {self._path or 'in memory'}, closed>"
        return f"<EmbedStore {self._path or 'in memory'}: {len(self)} keys, mode {self._mode!r}>"


def _from_bytes(kind: type[EmbedStore], frame: bytes, mode: str, deserialize: str) -> EmbedStore:
    return kind._from_buffer(frame, mode, deserialize)
