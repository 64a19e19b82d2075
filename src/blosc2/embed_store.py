"""`EmbedStore`: arrays under keys, in one file or in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from types import EllipsisType
from typing import Any, ClassVar, Never, Self

from blosc2 import _stores
from blosc2._backends import Embedded, EmbeddedBackend, missing, taken
from blosc2._core.io.source import Source
from blosc2._core.leaves.store_state import Change
from blosc2._files import check_advice, through_link
from blosc2._frames import pack_metalayers
from blosc2._options import StoreOptions, absolute_path, check_new_name, local_path, of_another_format, store_options
from blosc2._stores import NOTHING, Store, publish
from blosc2.exceptions import FormatError
from blosc2.info import file_rows
from blosc2.storage import (
    CParams,
    DParams,
    NoKeywords,
    Storage,
    asked_for,
    cparams_from,
    dparams_from,
    storage_from,
    takes,
    unexpected_keyword,
)


@takes(NoKeywords)
class EmbedStore(Store):
    """A mapping of keys to arrays that are embedded in one frame: a `.b2e` file, or memory.

    Parameters
    ----------
    urlpath : str, bytes or path, optional
        The file; missing folders are made. Without it the store is in memory; `to_cframe` returns its bytes.
    mode : {'r', 'a', 'w', 'x'}
        Read only; read and write, created if missing; start empty (an old file is replaced with the first
        change); create only.
    cparams : CParams, dict or str, optional
        How to compress arrays that the store makes from other values; with "auto" and other goals of `blosc2.tune`,
        each by its own data. Arrays of this package keep their compressed bytes.
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
        How many seconds a mode other than 'r' waits for another writer; None waits without limit. With `locking`, each
        change waits so long, by default without limit; without it, opening does, by default not at all.
    locking : bool
        Share the file with other handles that change it, in any process: see the notes. Not with `mmap_mode`, not in
        memory, and not on Windows. `storage` and ``BLOSC_LOCKING=1`` in the environment can say it, too.
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
        The mode is not 'r', and another process has the file open for writing.

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

    **Sharing, in one process, and mapping.** See the notes of `DictStore`. The file is mapped once, however many leaves
    are open. In files of other programs the values are compressed a second time; they must be decoded first, and
    mapping gains little.

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

    _in_order = False
    _metalayer: ClassVar[str] = "b2embed"
    _cparams: CParams

    def __init__(
        self,
        urlpath: str | bytes | os.PathLike[Any] | None = None,
        mode: str = "a",
        cparams: CParams | dict[str, Any] | str | None = None,
        dparams: DParams | dict[str, Any] | None = None,
        storage: Storage | dict[str, Any] | None = None,
        chunksize: int = 8192,
        _from_schunk: Any = None,
        *,
        mmap_mode: str | None = None,
        meta: Mapping[str, Any] | None = None,
        deserialize: str | None = None,
        timeout: float | EllipsisType | None = ...,
        locking: bool = False,
        exclusive: bool = True,
        verify: bool | None = None,
        advise: str | None = None,
        **kwargs: Never,
    ) -> None:
        for name in kwargs:
            raise unexpected_keyword(name)
        if advise is not None:
            check_advice(advise)
        if storage is not None:
            storage = storage_from(storage)
            locking = locking or storage.locking
            urlpath = storage.urlpath if urlpath is None else urlpath
            mode, mmap_mode = storage.mode, storage.mmap_mode if mmap_mode is None else mmap_mode
        path = None if urlpath is None else local_path(urlpath, remote=mode == "r")
        self._cparams = cparams_from(cparams)
        self._asked = cparams is not None and asked_for(self._cparams) is None
        self._dparams = dparams_from(dparams)
        packed = pack_metalayers(meta, ("b2embed",))
        # What is in memory only was made here, so it is trusted.
        policy = deserialize or ("safe" if path is not None or _from_schunk is not None else "full")
        options = store_options(
            mode, mmap_mode, policy, verify=verify, advise=advise, timeout=timeout, exclusive=exclusive,
            locking=locking, path=path,
        )  # fmt: skip
        file, lock = None if path is None else absolute_path(path), None
        if file is None:
            if mode == "r" and _from_schunk is None:
                raise ValueError("a store in memory starts empty, so mode='r' makes no sense without a urlpath")
        elif mode != "r" and _from_schunk is None:
            if not os.path.lexists(file):
                check_new_name(str(path), (".b2e",))
            if mode != "x":  # which refuses a link
                file = through_link(file)
            if mode == "a" and _stores.join_open(self, str(path), options):
                return
            lock = _stores.take_writer_lock(file, options)
        try:
            backend = EmbeddedBackend(file, options, lock, packed, chunksize)
            backend.called = path
            super().__init__(path, options, backend, NOTHING if mode == "r" else _stores.PacedPublishing())
            if _from_schunk is not None:
                backend.load_frame(Source.of_buffer(_from_schunk.to_cframe(), _from_schunk.urlpath))
            elif file is not None:
                writing = self._table.session.writing
                if writing is None:
                    self._open_file(file)
                else:
                    writing.open(self._table, partial(self._open_file, file))
        except BaseException as error:
            # At once: the traceback keeps the object for a while.
            if hasattr(self, "_table"):
                self._table.session.end()
            if lock is not None:
                lock.release()
            if isinstance(error, FormatError) and path is not None:
                raise of_another_format(error, str(path)) from None
            raise
        if advise is not None and self._table.session.advice is None:
            _stores.advise_all(self._table, advise)

    def _open_file(self, path: str) -> None:
        table = self._table
        backend = table.backend
        exists = backend.exists()
        if self.mode == "x" and os.path.lexists(path):
            raise taken(path, "mode='x' only creates, and there is a file already: mode='r' or 'a' opens it")
        if exists and self.mode != "w":
            publish.load(table)
            backend.cut_tail()
        elif self.mode == "r":
            raise missing(path)
        else:
            backend.check_replaceable()
            table.pending.unwritten = True
            if not exists:  # an old file stays until there is something to replace it
                publish.flush(table, durable=True)
                backend.made = backend.identity

    @classmethod
    def _from_buffer(cls, buffer: Any, mode: str = "a", deserialize: str | None = None) -> Self:
        """A store in memory over the bytes of a frame, which must not change."""
        self = cls(deserialize=deserialize or "safe")
        self._table.backend.load_frame(Source.of_buffer(buffer))
        self._table.session.mode = mode
        return self

    @classmethod
    def _of_embedded(cls, embedded: Embedded, deserialize: str) -> Self:
        """A read-only store over a frame that is open already."""
        self = cls(deserialize=deserialize)
        self._table.backend.embedded, self._table.session.mode = embedded, "r"
        return self

    # ------------------------------------------------------------------ what a store provides
    def _encoding(self) -> dict[str, Any]:
        return {"cparams": self._cparams}

    # ------------------------------------------------------------------ besides a mapping
    def to_cframe(self) -> bytes:
        """Return the store as the bytes of one frame, including unpublished changes, without checksums."""
        table = self._table
        table.session.check_open()
        table.session.check_between("copy the store")
        with table.lock, Change(table.session):
            backend: EmbeddedBackend = table.backend
            frames, embedded = table.pending.frames, backend.embedded
            table.leaves.collect(table.pending)
            if embedded is None or frames:
                return backend.changes_of(frames).compose()
            return embedded.frame.plain_bytes()[0]

    def _pickled_arguments(self) -> dict[str, Any]:
        given = {"cparams": self._cparams, "dparams": self._dparams}
        return {name: value for name, value in given.items() if value != type(value)()}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        self = cls.__new__(cls)
        self._cparams, self._dparams = CParams(), DParams()
        Store.__init__(self, path, StoreOptions(), EmbeddedBackend(path, StoreOptions()))
        self._table.session.lost = (error.with_traceback(None), recipe)
        self._table.session.end()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        if self._path is None:
            return _from_bytes, (type(self), self.to_cframe(), self.mode, self._deserialize)
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
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__),
            ("urlpath", self.urlpath),
            ("mode", self.mode),
            ("mmap_mode", self.mmap_mode),
            ("entries", len(self)),
            *file_rows(_stores.file_sizes(self)),
            ("contents", _stores.listed(self)),
        ]

    @property
    def chunksize(self) -> int:
        """The smallest size of the chunks that hold the values."""
        embedded = self._table.backend.embedded
        return self._table.backend.chunksize if embedded is None else int(embedded.frame.chunksize)


def _from_bytes(kind: type[EmbedStore], frame: bytes, mode: str, deserialize: str) -> EmbedStore:
    return kind._from_buffer(frame, mode, deserialize)
