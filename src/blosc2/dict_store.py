"""`DictStore`: arrays under keys, in a directory or a ZIP file."""

from __future__ import annotations

import os
import stat
import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self

from blosc2._backends import (
    REGISTRY,
    DirectoryBackend,
    TieredBackend,
    Window,
    WriterLock,
    ZipBackend,
    absolute,
    canonical_key,
    missing,
    suffix_of,
    taken,
)
from blosc2._files import check_advice, through_link
from blosc2._options import StoreOptions, local_path, refuse_locking, store_options
from blosc2._stores import (
    BackedStore,
    GroupStats,
    LeafInfo,
    LeafPublishing,
    describe_leaf,
    listed,
    store_stats,
)
from blosc2.embed_store import EmbedStore
from blosc2.exceptions import name_file
from blosc2.info import InfoReporter
from blosc2.storage import CParams, DParams, Storage, cparams_from, dparams_from, storage_from


class DictStore(BackedStore):
    """A mapping of keys to arrays: a `.b2d` directory with a file for each leaf, or a `.b2z` file with all of them.

    Parameters
    ----------
    localpath : str, bytes or path
        The directory or file. An existing path keeps its kind; a new one becomes a file with suffix ``.b2z``, otherwise
        a directory.
    mode : {'r', 'a', 'w', 'x'}
        Read only; read and write, created if missing; start empty (the old leaves are removed when the first changes
        are published); create only.
    tmpdir : str, optional
        Accepted for compatibility, but not used: nothing is ever unpacked.
    cparams : CParams or dict, optional
        How to compress arrays that the store makes from other values. Arrays of this package keep their compressed
        bytes.
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
        Must be False.
    deserialize : {'safe', 'full'}
        Whether to refuse active values in the metadata of leaves, or to open them.
    timeout : float or None
        How many seconds a mode other than 'r' waits for another writer; None waits without limit.
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
        The mode is not 'r', and another handle has the store open for writing, in this process or another.

    Notes
    -----
    **Publishing.** `flush` and `close` publish changes. A `.b2z` is published in one step: new members and a new
    directory are appended, and one last write of 54 bytes makes them current. An archive that was only read is not
    touched. In a `.b2d`, assigning a leaf with a file of its own publishes it, and deleting it removes the file;
    embedded values are published at once as long as that is cheap (`doc/durability.md`). Everything is durable after
    `flush` or `close`. Each file of a `.b2d` is replaced atomically, but not all of them together. A `with` block that
    raises publishes what was assigned. So does a store that is never closed, when it is garbage-collected or the
    interpreter exits, with a `ResourceWarning`. `discard` drops pending changes, and a `transaction` publishes all of
    its changes or none. Leaves of a store open for writing are live: their changes are published with the store's next
    flush. Replaced members leave unused bytes in a `.b2z`; `compact` removes them.

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

    def __init__(
        self,
        localpath: str | bytes | os.PathLike[Any],
        mode: str = "a",
        tmpdir: str | None = None,  # noqa: ARG002 - callers pass it by position
        cparams: CParams | dict[str, Any] | None = None,
        dparams: DParams | dict[str, Any] | None = None,
        storage: Storage | dict[str, Any] | None = None,
        threshold: int | None = 0,
        *,
        mmap_mode: str | None = None,
        locking: bool = False,
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
            mode, mmap_mode = storage.mode, storage.mmap_mode if mmap_mode is None else mmap_mode
        options = store_options(
            mode, mmap_mode, deserialize, verify=verify, advise=advise, timeout=timeout, exclusive=exclusive
        )
        path = local_path(localpath)
        if threshold is not None and (
            isinstance(threshold, bool) or not hasattr(threshold, "__index__") or threshold < 0
        ):
            raise ValueError(f"threshold must be None or a number of bytes, not {threshold!r}")
        if locking or (isinstance(storage, Storage) and storage.locking):
            refuse_locking(path, mmap_mode)
        self._cparams = None if cparams is None else cparams_from(cparams)
        self._dparams = None if dparams is None else dparams_from(dparams)
        self._threshold = threshold
        super().__init__(path, options)
        if mode != "r":
            self._writer_lock = WriterLock(absolute(path), timeout, exclusive=exclusive)
            self._publishing = LeafPublishing()
        self._backend = _backend_of(path, options, self._metalayer)
        self._backend.lock = self._writer_lock
        try:
            self._open_path(path)
        except BaseException:
            # At once: the traceback keeps the object for a while.
            if self._writer_lock is not None:
                self._writer_lock.release()
            raise
        if advise is not None and self._advice is None:
            self._advise_all(advise)

    def _open_path(self, path: str) -> None:
        exists = self._backend.exists()
        if self._mode == "x" and (exists or os.path.islink(path)):
            raise taken(path, "mode='x' only creates, and there is something already")
        if exists and self._mode != "w":
            self._load()
            if self._mode != "r":
                self._backend.cut_tail()
            return
        if self._mode == "r":
            # A directory without anything in it is there, but no store.
            if os.path.lexists(path):
                self._load()
            raise missing(path)
        self._backend.check_replaceable()
        self._unwritten = self._backend.replaces = True

    @staticmethod
    def open_tagged(path: str, options: StoreOptions, given: Mapping[str, Any]) -> DictStore:
        """Open the store at a path with the class that its tag names; the tag is read once.

        A store that is one table of another package has no tree, so it opens as a `DictStore`. What else was given are
        `cparams` and `dparams`.
        """
        lock = None
        if options.mode == "a":
            # Before anything is read: what is read must stay the newest.
            lock = WriterLock(absolute(path), options.timeout, exclusive=options.exclusive)
        try:
            backend = _backend_of(path, options)
            backend.lock = lock
            backend.open()
            if lock is not None:
                backend.cut_tail()
        except BaseException:
            if lock is not None:
                lock.release()
            raise
        assert backend.embedded is not None
        kind = KINDS.get(str(backend.embedded.kind), DictStore)
        if options.mode in "wx":
            return kind(path, **options._asdict(), **given)
        store = kind._of_backend(path, options, backend, given)
        if kind._has_groups and _may_be_table(backend) and store.is_table():
            warnings.warn(f"{path} is a table of another package; its parts are shown as leaves", UserWarning,
                          stacklevel=3)  # fmt: skip
            return DictStore._of_backend(path, options, backend, given)
        return store

    @classmethod
    def _of_backend(cls, path: str, options: StoreOptions, backend: TieredBackend, given: Mapping[str, Any]) -> Self:
        """A store over what was opened already."""
        self = cls.__new__(cls)
        cparams, dparams = given.get("cparams"), given.get("dparams")
        self._cparams = None if cparams is None else cparams_from(cparams)
        self._dparams = None if dparams is None else dparams_from(dparams)
        self._threshold = 0
        backend.kind = cls._metalayer
        BackedStore.__init__(self, path, options)
        self._writer_lock, self._backend = backend.lock, backend
        if options.mode != "r":
            self._publishing = LeafPublishing()
        if options.advise is not None and self._advice is None:
            self._advise_all(options.advise)
        return self

    def is_table(self) -> bool:
        """Whether the whole store is one object of another package."""
        return False

    @property
    def _file(self) -> str:
        return self._backend.named

    # ------------------------------------------------------------------ copies
    def to_b2z(self, overwrite: bool | str | os.PathLike[Any] = False, filename: Any = None) -> str:
        """Write the store as a `.b2z` file; its leaves are copied as bytes.

        Parameters
        ----------
        overwrite : bool
            Whether to replace an existing file. A path given here is used as `filename`.
        filename : str or path, optional
            The file; by default the store's own path with the suffix ``.b2z``. If the store itself is that file, its
            changes are published, and nothing else is done.

        Returns
        -------
        str
            Its absolute path.

        Raises
        ------
        ValueError
            The name has another suffix.
        FileExistsError
            The file exists and `overwrite` is False.
        """
        if not isinstance(overwrite, bool):
            overwrite, filename = False, overwrite
        self._check_open()
        if self.is_zip_store and (filename is None or self._is_here(local_path(filename))):
            self.flush()
            return os.path.abspath(self._file)
        target = os.path.splitext(self._file)[0] + ".b2z" if filename is None else local_path(filename)
        if not target.endswith(".b2z"):
            raise ValueError(f"the file must have a .b2z extension, unlike {target!r}")
        if os.path.lexists(target) and not overwrite:
            raise taken(target, "the file exists; overwrite=True replaces it")
        return self._copy_to(ZipBackend(through_link(target), kind=self._metalayer), target)

    def to_b2d(self, dirname: Any = None, *, overwrite: bool = False) -> str:
        """Write the store as a directory; its leaves are copied as bytes.

        Parameters
        ----------
        dirname : str or path, optional
            The directory; by default the store's own path with the suffix ``.b2d``.
        overwrite : bool
            Whether to replace an existing store.

        Returns
        -------
        str
            Its absolute path.

        Raises
        ------
        FileExistsError
            The directory exists and `overwrite` is False, or it is not a store.
        """
        self._check_open()
        target = os.path.splitext(self._file)[0] + ".b2d" if dirname is None else local_path(dirname)
        backend = DirectoryBackend(through_link(target), kind=self._metalayer)
        if self._is_here(target):
            raise taken(target, "a store cannot be copied to where it is")
        if os.path.lexists(target):
            if not overwrite:
                raise taken(target, "the directory exists; overwrite=True replaces it")
            backend.check_replaceable()
        return self._copy_to(backend, target)

    def _is_here(self, path: str) -> bool:
        return os.path.realpath(path) == os.path.realpath(self._file)

    def _copy_to(self, backend: TieredBackend, target: str) -> str:
        with self._lock:
            self._gather()
            files: dict[str, Window | None] = {}
            values: dict[str, Window | None] = {}
            listing, embedded = self._listing(), self._embedded
            entries = {} if embedded is None else embedded.entries
            for key in listing.below():
                window = self._window(key) if key in self._changes else None
                if window is None:
                    if key in entries and not self._backend.has_file(key):
                        continue  # it is copied with all embedded values
                    window = self._backend.locate(key)
                    if self._backend.has_file(key):
                        files[key] = window
                    elif key not in entries:  # somebody else has moved it since the keys were listed
                        values[key] = window
                elif self._external.get(key, True):
                    # Where its bytes are now, whatever they are to this store.
                    files[key] = window[:]
                else:
                    values[key] = window
            gone = {key: None for key, window in self._changes.items() if window is None}
            # Of a key that has a file too, the embedded value was not seen and is not copied.
            gone |= {key: None for key in entries if key in files}
            frame = backend.changes_of({**gone, **values}, self._new_registry, embedded)
            backend.lock = lock = WriterLock(os.path.abspath(backend.root))
            try:
                backend.exists()
                backend.write(files, frame, fresh=True)
            except OSError as error:
                name_file(error, target)
                raise
            finally:
                backend.close()
                lock.release()
        return os.path.abspath(target)

    def member_window(self, key: str) -> tuple[int, int] | None:
        """Return the position of a leaf's published frame in the `.b2z` file, for programs that map it themselves.

        Returns
        -------
        tuple of int, or None
            Offset and length in bytes; None for an embedded value, a group, a missing key, and in a `.b2d`.
        """
        self._check_open()
        if key not in self:
            return None
        members = self._backend.members
        window = None if members is None else members.locate(key if key.startswith("/") else "/" + key)
        return None if window is None else (window[1], window[2])

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
        self._check_open()
        if key in ("", "/"):
            raise self._missing_key(key)
        key = canonical_key(key)
        if not self._has(key):
            raise self._missing_key(key)
        return describe_leaf(self, key)

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
        [('<f8', 1), ('|b1', 1)]
        """
        self._check_open()
        if isinstance(depth, bool) or not hasattr(depth, "__index__") or depth < 0:
            raise ValueError(f"depth must be a number that is not negative, not {depth!r}")
        path = "/" if group in ("", "/") else canonical_key(group)
        return store_stats(self, path, depth, by)

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
        return self._backend.suffix == ".b2z"

    @property
    def b2z_path(self) -> str | None:
        """The `.b2z` file, None for a directory."""
        return self._path if self.is_zip_store else None

    @property
    def working_dir(self) -> str:
        """The directory of the files: the store itself, or the directory of the `.b2z` file."""
        return os.path.dirname(os.path.abspath(self._file)) if self.is_zip_store else self.localpath

    @property
    def cparams(self) -> CParams:
        """How arrays that the store makes from other values are compressed."""
        if self._cparams is None:
            self._cparams = cparams_from(None)
        return self._cparams

    @property
    def dparams(self) -> DParams:
        """Decompression parameters, as given."""
        if self._dparams is None:
            self._dparams = dparams_from(None)
        return self._dparams

    @property
    def storage(self) -> Storage:
        """Path, modes and kind of the store as one object."""
        meta = {self._metalayer: {"version": 1}}
        return Storage(urlpath=self._path, mode=self._mode, mmap_mode=self._mmap_mode, meta=meta)

    @property
    def estore(self) -> EmbedStore:
        """The published embedded values only, as a read-only store."""
        self._check_open()
        if self._embedded is None:
            return EmbedStore()
        return EmbedStore._of_embedded(self._embedded, self._deserialize)

    _estore = estore

    @property
    def map_tree(self) -> Mapping[str, str]:
        """The file or member of each leaf that has one, or will have one when it is published."""
        self._check_open()
        backend = self._backend
        names: dict[str, str | None] = {}
        if self._embedded is not None:
            names = {key: backend.name_of(key) for key in backend.listing().below() if backend.has_file(key)}
        for key, window in self._changes.items():
            if window is None:
                names.pop(key, None)
            elif self._external.get(key, key in names):
                resolved = self._window(key)
                names[key] = None if resolved is None else key[1:] + suffix_of(resolved)
        return MappingProxyType({key: name for key, name in names.items() if name is not None})

    @property
    def info_items(self) -> list[tuple[str, Any]]:
        """What `info` shows, as pairs."""
        return [
            ("type", type(self).__name__),
            ("urlpath", self.localpath),
            ("mode", self._mode),
            ("mmap_mode", self._mmap_mode),
            ("format", "b2z" if self.is_zip_store else "b2d"),
            ("entries", len(self)),
            self._contents(),
        ]

    def _contents(self) -> tuple[str, Any]:
        return "contents", listed(self)

    @property
    def info(self) -> InfoReporter:
        """A short description, for people."""
        return InfoReporter(self)

    def _given(self) -> dict[str, Any]:
        given = {"cparams": self._cparams, "dparams": self._dparams}
        return given if self._threshold == 0 else {**given, "threshold": self._threshold}

    @classmethod
    def _stand_in(cls, path: str, error: Exception, recipe: tuple[Any, ...]) -> Self:
        self = cls.__new__(cls)
        self._cparams = self._dparams = None
        self._threshold = 0
        self._backend = ZipBackend(path)
        BackedStore.__init__(self, path, StoreOptions())
        self._lost, self._closed = (error.with_traceback(None), recipe), True
        return self

    def __repr__(self) -> str:
        if self._closed:
            return f"<{type(self).__name__} {self._path}, closed>"
        return f"<{type(self).__name__} {self._path}: mode {self._mode!r}>"


def _may_be_table(backend: TieredBackend) -> bool:
    """Whether a store may be one object of another package: it is declared as one, or has a description."""
    embedded, members = backend.embedded, backend.members
    if embedded is None or embedded.frame.vlmeta(REGISTRY) is not None or TABLE in embedded.entries:
        return True
    return backend.has_file(TABLE) if members is None else members.table().find(TABLE) >= 0


def _backend_of(path: str, how: StoreOptions, kind: str = "b2dict") -> TieredBackend:
    """What exists is recognised by what it is, what does not by its suffix."""
    mode = how.mode
    path = absolute(path)
    named = path.rstrip("/") or path
    # Readers follow a link anew at each `refresh`; what is written stays where it led when the lock was taken.
    root = named if mode == "r" else through_link(named)
    try:
        is_file = not stat.S_ISDIR(os.stat(root).st_mode)
    except (OSError, ValueError):  # a link that leads nowhere is read as a file, which names what is missing
        is_file = path.endswith(".b2z") or (mode == "r" and os.path.lexists(root))
    backend: TieredBackend = (ZipBackend if is_file else DirectoryBackend)(root, how, kind)
    backend.named = named
    return backend


#: The leaf that describes a store which is one table.
TABLE: Final = "/_meta"
#: What the metalayer of the embed frame says that a store is; `tree_store` adds its own.
KINDS: dict[str, type[DictStore]] = {DictStore._metalayer: DictStore}
