"""`DictStore`: arrays under keys, in a directory or a ZIP file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from types import EllipsisType, MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

from blosc2 import _backends, _stores
from blosc2._backends import TieredBackend
from blosc2._files import check_advice
from blosc2._options import StoreOptions, absolute_path, check_new_name, local_path, of_another_format, store_options
from blosc2._stores import Store, backend_of, open_or_begin, take_writer_lock
from blosc2.exceptions import FormatError, StoreKeyError
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

if TYPE_CHECKING:
    from blosc2._files import Progress
    from blosc2._stores import GroupStats, LeafInfo
    from blosc2.embed_store import EmbedStore


@takes(NoKeywords)
class DictStore(Store):
    """A mapping of keys to arrays: a `.b2d` directory with a file for each leaf, or a `.b2z` file with all of them.

    Parameters
    ----------
    localpath : str, bytes or path
        The directory or file. An existing path keeps its kind; a new one becomes a file with suffix ``.b2z``, otherwise
        a directory. Missing folders above it are made.
    mode : {'r', 'a', 'w', 'x'}
        Read only; read and write, created if missing; start empty (the old leaves are removed when the first changes
        are published); create only.
    tmpdir : str, optional
        Accepted for compatibility, but not used: nothing is ever unpacked.
    cparams : CParams, dict or str, optional
        How to compress arrays that the store makes from other values; with "auto" and other goals of `blosc2.tune`,
        each by its own data. Arrays of this package keep their compressed bytes.
    dparams : DParams or dict, optional
        Accepted for compatibility.
    storage : Storage or dict, optional
        `mode` and `mmap_mode` in one object.
    threshold : int or None
        Values of fewer bytes are embedded in one common frame, ``embed.b2e``. The default 0 gives each value a file of
        its own; None embeds all values that do not come from a file.
    mmap_mode : {None, 'r'}
        ``"r"`` maps each file, and requires ``mode="r"``; see the notes.
    locking : bool
        Share the store with other handles that change it, in any process: see the notes. Not with `mmap_mode`, and not
        on Windows. `storage` and ``BLOSC_LOCKING=1`` in the environment can say it, too.
    deserialize : {'safe', 'full'}
        Whether to refuse active values in the metadata of leaves, or to open them.
    timeout : float or None
        How many seconds a mode other than 'r' waits for another writer; None waits without limit. With `locking`, each
        change waits so long, by default without limit; without it, opening does, by default not at all.
    verify : bool, optional
        By default, data read as a whole is verified against the checksums of the store; True verifies each read, False
        none. See `blosc2.open`.
    exclusive : bool
        False takes no lock, for file systems without locks; make sure that there is no other writer.
    advise : str, optional
        How the store will be read; see `advise`.

    Raises
    ------
    ValueError
        The mode, or the combination of modes, does not exist; or the path is not a store (`FormatError`).
    FileNotFoundError, FileExistsError
        The mode is 'r' and there is no store; it is 'x' and the path exists; or it is 'w' and the path is a directory
        that is not a store, or a file that is not a store and has no suffix of one.
    StoreLockedError
        The mode is not 'r', and another process has the store open for writing, or this one as another class.

    Notes
    -----
    **Publishing.** `flush` and `close` publish changes. A `.b2z` is published in one step: new members and a new
    directory are appended, and one last write of 54 bytes makes them current. An archive that was only read is not
    touched. In a `.b2d`, assigning a leaf with a file of its own publishes it, and deleting it removes the file;
    embedded values are published at once as long as that is cheap. Everything is durable
    after `flush` or `close`. Each file of a `.b2d` is replaced atomically, but not all of them together. A `with`
    block that raises publishes what was assigned. So does a store that is never closed, when it is garbage-collected
    or the interpreter exits, with a `ResourceWarning`. `discard` drops pending changes, and a `transaction` publishes
    all of its changes or none. Leaves of a store open for writing are live: their changes are published with the
    store's next flush. Replaced members leave unused bytes in a `.b2z`; `compact` removes them.

    **Sharing.** With ``locking=True`` a handle does not hold the writer's lock. Each change, and each `transaction`,
    waits for its turn, starts from the newest version, is published and lets the lock go. Handles take turns in the
    order in which they asked, and a killed process only loses its turn. Every access shows the newest version:
    leaves that you hold of a store open for writing follow it, too, those of a reader stay as they are. `read_many` and
    iteration use one version. Mode 'w' empties the store at once. A handle without `locking` that is open for writing
    makes the others wait. Many changes cost less in one `transaction`. A small file, ``.b2lock``, stays beside it.

    **In one process.** Mode 'a' shares what the process has open for writing already: both handles have the same
    leaves and pending changes, and each is closed by itself. Mode 'w' takes the path over: the older handle is closed.

    **Mapping.** With ``mmap_mode="r"`` a `.b2z` is mapped once, however many leaves are open: a leaf is a byte range of
    that mapping and needs no descriptor. In a `.b2d` each leaf is a file, mapped when it is opened. Mapping costs a few
    microseconds for each file, and address space of its size. Its memory belongs to the page cache: all processes share
    it, and the system can free it, although tools count touched pages as memory of the process. Leaves keep their
    mapping alive after `close`. Without mapping (None) a `.b2z` is one descriptor, and reads are positional: slower
    above some 16 KB for each read, but safe if the file is truncated.

    The limits of mapping: if another program truncates a mapped file, the next access kills the process with SIGBUS
    (this package only replaces files and appends to them). The same may happen on a network file system when the
    connection breaks. On Windows a mapped file cannot be replaced or deleted.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> path = os.path.join(tempfile.mkdtemp(), "scans.b2z")
    >>> with blosc2.DictStore(path, mode="w") as store:
    ...     store["/patient/007"] = np.arange(12).reshape(3, 4)
    >>> store = blosc2.DictStore(path, mode="r", mmap_mode="r")
    >>> scan = store["/patient/007"]
    >>> store.close()
    >>> scan[1, 2:]
    array([6, 7])
    """

    _metalayer: ClassVar[str] = "b2dict"
    _cparams: CParams | None = None
    _dparams: DParams | None = None

    def __init__(
        self,
        localpath: str | bytes | os.PathLike[Any],
        mode: str = "a",
        tmpdir: str | None = None,  # noqa: ARG002 - callers pass it by position
        cparams: CParams | dict[str, Any] | str | None = None,
        dparams: DParams | dict[str, Any] | None = None,
        storage: Storage | dict[str, Any] | None = None,
        threshold: int | None = 0,
        *,
        mmap_mode: str | None = None,
        locking: bool = False,
        deserialize: str | None = None,
        timeout: float | EllipsisType | None = ...,
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
            mode, mmap_mode = storage.mode, storage.mmap_mode if mmap_mode is None else mmap_mode
            locking = locking or storage.locking
        path = local_path(localpath, remote=mode == "r")
        options = store_options(
            mode, mmap_mode, deserialize, verify=verify, advise=advise, timeout=timeout, exclusive=exclusive,
            locking=locking, path=path,
        )  # fmt: skip
        if threshold is not None and (
            isinstance(threshold, bool) or not hasattr(threshold, "__index__") or threshold < 0
        ):
            raise ValueError(f"threshold must be None or a number of bytes, not {threshold!r}")
        if mode != "r" and not os.path.lexists(path):
            check_new_name(path, (".b2z", ".b2d"))
        self._threshold = threshold
        self._set_parameters(cparams, dparams)
        if mode == "a" and _stores.join_open(self, path, options):
            return
        lock = None if mode == "r" else take_writer_lock(absolute_path(path), options)
        try:
            backend = backend_of(path, options, self._metalayer)
            backend.lock = lock
            self._set_up(path, options, backend)
            open_or_begin(self._table, path)
        except BaseException as error:
            # Now: the traceback keeps the object alive for a while.
            if lock is not None:
                lock.release()
            if isinstance(error, FormatError):
                raise of_another_format(error, path) from None
            raise
        if advise is not None and self._table.session.advice is None:
            _stores.advise_all(self._table, advise)

    def _set_up(self, path: str, options: StoreOptions, backend: TieredBackend) -> None:
        """Make the objects that a store with this backend has."""
        if options.mode == "r":
            Store.__init__(self, path, options, backend)
        else:
            Store.__init__(self, path, options, backend, _stores.LeafPublishing())
            self._table.names = names = _stores.KeyClashes()
            self._table.followers.append(names)

    def _set_parameters(self, cparams: Any, dparams: Any) -> None:
        self._cparams = None if cparams is None else cparams_from(cparams)
        self._asked = cparams is not None and asked_for(self._cparams) is None
        self._dparams = None if dparams is None else dparams_from(dparams)

    def is_table(self) -> bool:
        """Whether the whole store is one object of another package."""
        return False

    @property
    def _owner(self) -> DictStore:
        return self

    # ------------------------------------------------------------------ changing
    def _encoding(self) -> dict[str, Any]:
        cparams = self._owner._cparams
        return {} if cparams is None else {"cparams": cparams}

    # ------------------------------------------------------------------ copies
    def to_b2z(
        self,
        path: bool | str | os.PathLike[Any] | None = None,
        /,
        filename: Any = None,
        *,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> str:
        """Write the store as a `.b2z` file; its leaves are copied as bytes.

        Parameters
        ----------
        path : str or path, optional
            The file; by default the store's own path with the suffix ``.b2z``. If the store itself is that file, its
            changes are published, and nothing else is done. True or False stands for `overwrite`.
        filename : str or path, optional
            The file, if `path` is left out.
        overwrite : bool
            Whether to replace an existing file.
        progress : callable, optional
            Called with the bytes of leaves that were copied so far, and of all.

        Returns
        -------
        str
            Its absolute path.

        Raises
        ------
        TypeError
            Both `path` and `filename` name a file.
        ValueError
            The name has another suffix.
        FileExistsError
            The file exists and `overwrite` is False.
        """
        if isinstance(path, bool):
            overwrite = path
        elif path is not None and filename is not None:
            raise TypeError("to_b2z() takes one file, and both path and filename name one")
        elif path is not None:
            filename = path
        return _stores.to_b2z(self, filename, overwrite=overwrite, progress=progress)

    def to_b2d(self, dirname: Any = None, *, overwrite: bool = False, progress: Progress | None = None) -> str:
        """Write the store as a directory; its leaves are copied as bytes.

        Parameters
        ----------
        dirname : str or path, optional
            The directory; by default the store's own path with the suffix ``.b2d``.
        overwrite : bool
            Whether to replace an existing store.
        progress : callable, optional
            Called with the bytes of leaves that were copied so far, and of all.

        Returns
        -------
        str
            Its absolute path.

        Raises
        ------
        FileExistsError
            The directory exists and `overwrite` is False, or it is not a store.
        """
        return _stores.to_b2d(self, dirname, overwrite=overwrite, progress=progress)

    def member_window(self, key: str) -> tuple[int, int] | None:
        """Return the position of a leaf's published frame in the `.b2z` file, for programs that map it themselves.

        Returns
        -------
        tuple of int, or None
            Offset and length in bytes; None for an embedded value, a group, a missing key, and in a `.b2d`.
        """
        self._table.session.check_open()
        members = self._table.backend.members
        if members is None or key not in self:
            return None
        byte_range = members.locate(self._absolute(key) or "/")
        return None if byte_range is None else (byte_range[1], byte_range[2])

    # ------------------------------------------------------------------ description
    def describe(self, key: str) -> LeafInfo:
        """Describe a leaf: kind, shape, dtype, codec, sizes, key. With a catalog, the leaf is not opened.

        Raises
        ------
        KeyError
            There is no such leaf.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> with blosc2.DictStore(os.path.join(tempfile.mkdtemp(), "scans.b2z"), mode="w") as store:
        ...     store["/a"] = np.zeros((4, 5), "f4")
        ...     store.describe("/a")[:4]
        ('array', (4, 5), dtype('float32'), 'ZSTD')
        """
        self._table.session.check_open()
        if not self._prefix and key in ("", "/"):
            raise self._table.missing_key(key)
        path = self._absolute(key)
        if not self._table.contents.has(path) and not _stores.has_object(self, path):
            if self._table.has_group(path):
                raise StoreKeyError(f"Key {path!r} is a group: stats({key!r}) tells of it", path=self._path, key=path)
            raise self._table.missing_key(path)
        return _stores.describe_leaf(self, path)

    def stats(self, group: str = "/", depth: int = 0, *, by: str | Iterable[str] | None = None) -> list[GroupStats]:
        """Count the leaves below a group and their bytes, by group, kind, dtype and codec.

        In a `.b2z` with a catalog no leaf is opened, and each row takes as long for a million leaves as for a few. In a
        `.b2z` without one, and in a `.b2d`, each leaf is opened, once for each version that the store shows.
        Unpublished changes are not counted.

        Parameters
        ----------
        group : str
            "/" for all.
        depth : int
            How many levels of groups below `group` have rows of their own. Each row counts everything below its group.
        by : {"kind", "dtype", "codec"} or several of these, optional
            What else to count in separate rows.

        Returns
        -------
        list of GroupStats
            Named tuples, which ``pandas.DataFrame`` accepts; a group comes before the groups in it. The row of the
            whole store also has the size of its files.

        Raises
        ------
        KeyError
            There is no such group.

        Examples
        --------
        >>> import os, tempfile
        >>> import numpy as np
        >>> import blosc2
        >>> with blosc2.TreeStore(os.path.join(tempfile.mkdtemp(), "study.b2z"), mode="w") as tree:
        ...     tree["/mri/raw"], tree["/mri/mask"], tree["/age"] = np.zeros(100), np.ones(100, "?"), np.arange(3)
        ...     tree.flush()
        ...     [(row.group, row.leaves, row.nbytes) for row in tree.stats(depth=1)]
        ...     [(row.dtype, row.leaves) for row in tree.stats("/mri", by="dtype")]
        [('/', 3, 924), ('/mri', 2, 900)]
        [('bool', 1), ('float64', 1)]
        """
        rows = _stores.store_stats(self._table, self._existing_group(group), depth, by)
        cut = len(self._prefix)
        return [row._replace(group=row.group[cut:] or "/") for row in rows] if cut else rows

    def _existing_group(self, group: str) -> str:
        """The key of a group in the whole store, "/" for all; `KeyError` if nothing is below it."""
        self._table.session.check_open()
        if group in ("", "/"):
            return self._prefix or "/"
        path = self._absolute(group)
        if not self._table.contents.listing().has_group(path):
            if self._table.contents.has(path):
                raise StoreKeyError(
                    f"Key {path!r} is a leaf: describe({group!r}) tells of it", path=self._path, key=path
                )
            raise self._table.missing_key(path)
        return path

    def to_pandas(self, group: str = "/") -> Any:
        """Describe the leaves below a group in a ``pandas.DataFrame``: a row for each, by key, as `describe` has it.

        Needs pandas (``pip install 'python-blosc2[pandas]'``). `stats` counts leaves by group instead. `KeyError` if
        there is no such group.
        """
        self._existing_group("/" + group.strip("/"))
        return _stores.leaves_table(self, group)

    @property
    def localpath(self) -> str:
        """The directory or file."""
        return str(self._path)

    @property
    def urlpath(self) -> str:
        """The directory or file, under the name used by other classes."""
        return str(self._path)

    @property
    def threshold(self) -> int | None:
        """Values of fewer bytes are embedded."""
        return self._threshold

    @property
    def is_zip_store(self) -> bool:
        """Whether this is a `.b2z` file."""
        return bool(self._table.backend.suffix == ".b2z")

    @property
    def b2z_path(self) -> str | None:
        """The `.b2z` file, None for a directory."""
        return self._path if self.is_zip_store else None

    @property
    def working_dir(self) -> str:
        """The directory of the files: the store itself, or the directory of the `.b2z` file."""
        return os.path.dirname(absolute_path(self._table.backend.named)) if self.is_zip_store else self.localpath

    @property
    def cparams(self) -> CParams:
        """How arrays that the store makes from other values are compressed."""
        return self._owner._cparams or self._owner._made("_cparams", cparams_from)

    @property
    def dparams(self) -> DParams:
        """Decompression parameters, as given."""
        return self._owner._dparams or self._owner._made("_dparams", dparams_from)

    def _made(self, name: str, make: Callable[[None], Any]) -> Any:
        """Parameters that nobody gave. All threads get the same object, which may be changed."""
        with self._table.lock:
            setattr(self, name, getattr(self, name) or make(None))
            return getattr(self, name)

    @property
    def estore(self) -> EmbedStore:
        """The published embedded values only, as a read-only store."""
        self._table.session.check_open()
        embedded = self._table.backend.embedded
        from blosc2.embed_store import EmbedStore

        return EmbedStore() if embedded is None else EmbedStore._of_embedded(embedded, self._deserialize)

    _estore = estore

    @property
    def map_tree(self) -> Mapping[str, str]:
        """The file or member of each leaf that has one, or will have one when it is published."""
        self._table.session.check_open()
        return MappingProxyType(_stores.file_names(self._table, self._prefix))

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self._owner).__name__),
            ("urlpath", self.localpath),
            ("mode", self.mode),
            ("mmap_mode", self._mmap_mode),
            ("format", "b2z" if self.is_zip_store else "b2d"),
            ("entries", len(self)),
            *file_rows(_stores.file_sizes(self)),
            self._contents_shown(),
        ]

    def _contents_shown(self) -> tuple[str, Any]:
        return "contents", _stores.listed(self)

    def _pickled_arguments(self) -> dict[str, Any]:
        given = {"cparams": self._cparams, "dparams": self._dparams}
        return given if self._threshold == 0 else {**given, "threshold": self._threshold}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        self = cls.__new__(cls)
        self._set_up(path, StoreOptions(), _backends.ZipBackend(path))
        self._table.session.lost = (error.with_traceback(None), recipe)
        self._table.session.end()
        return self
