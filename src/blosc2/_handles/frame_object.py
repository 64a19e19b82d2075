"""`Stored`, the base of arrays, super-chunks and lists: what they all offer through their frame handle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from blosc2 import _files, _frames
from blosc2._core.io.sharing import never_freed
from blosc2._handles.handle import FrameHandle
from blosc2.info import HandleProperties
from blosc2.storage import CParams, DParams, cparams_from, dparams_from

if TYPE_CHECKING:
    from blosc2._files import Compaction
    from blosc2._frames import Meta, VLMeta
    from blosc2._integrity.report import CheckReport


@never_freed
class Stored(HandleProperties):
    """Base of the classes whose objects are a frame."""

    __slots__ = ("__weakref__", "_handle", "_vlmeta_")
    _handle: FrameHandle
    #: Checks the file of an object, by its handle; or what lies at a path, or the bytes of a store; see `hooks`.
    checker: ClassVar[Callable[..., CheckReport] | None] = None
    #: Says which chunks a key touches; see `hooks`.
    touched: ClassVar[Callable[..., Any] | None] = None
    #: Says how an object travels; see `hooks`.
    reducer: ClassVar[Callable[..., tuple[Any, ...]] | None] = None

    #: Says what tells an object's items from others; see `hooks`.
    tokenizer: ClassVar[Callable[..., tuple[Any, ...]] | None] = None

    def __reduce__(self) -> tuple[Any, ...]:
        assert self.reducer is not None
        return self.reducer(self)

    def __dask_tokenize__(self) -> tuple[Any, ...]:
        assert self.tokenizer is not None
        return self.tokenizer(self)

    @property
    def meta(self) -> Meta:
        """The fixed metalayers, a mapping by name."""
        return _frames.Meta(self._handle, FrameHandle.open_cframe)

    @property
    def vlmeta(self) -> VLMeta:
        """The variable-length metadata, a mapping by name; the same object at every access."""
        try:
            return self._vlmeta_
        except AttributeError:
            self._vlmeta_: VLMeta = _frames.VLMeta(self._handle, FrameHandle.open_cframe)
            return self._vlmeta_

    @property
    def attrs(self) -> VLMeta:
        """The same as `vlmeta`."""
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
        """Show the newest version; True if another handle published one since."""
        return self._handle.refresh()

    def flush(self) -> None:
        """Wait until all changes of the file are durable. Only with ``durable=False`` are they not so already.

        For an object in memory or in a store, this does nothing: `DictStore.flush` publishes the leaves of a store.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> path = os.path.join(tempfile.mkdtemp(), "counts.b2nd")
        >>> counts = blosc2.zeros(3, dtype="i4", urlpath=path, durable=False)
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
            assert self.touched is not None
            _files.advise_frame(advice, handle.frame, self.touched(self, key))

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
        assert self.checker is not None
        return self.checker(self._handle, progress)

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
        leaves that. Many small appends in a block cost one table of chunks and one wait for the disk.

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
        return None


class StoredFrame(Stored):
    """Base of those that are all of a frame: super-chunks and lists."""

    __slots__ = ()

    @property
    def nbytes(self) -> int:
        """Uncompressed bytes."""
        return int(self._handle.frame.nbytes)

    @property
    def cbytes(self) -> int:
        """Compressed bytes."""
        return int(self._handle.frame.cbytes)

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
