"""`Stored`, the base of arrays, super-chunks and lists: what they all offer through their frame handle."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from blosc2._files import Compaction, advise_frame, check_advice
from blosc2._frames import HandleProperties, Meta, VLMeta
from blosc2._handles.handle import FrameHandle
from blosc2.storage import CParams, DParams, cparams_from, dparams_from

if TYPE_CHECKING:
    from blosc2._integrity.report import CheckReport


class Stored(HandleProperties):
    """Base of the classes whose objects are a frame."""

    __slots__ = ("__weakref__", "_handle", "_vlmeta_")
    _handle: FrameHandle
    #: Checks what is below an object; see `hooks`.
    checker: ClassVar[Callable[..., CheckReport] | None] = None
    #: Says which chunks a key touches; likewise.
    touched: ClassVar[Callable[..., Any] | None] = None

    @property
    def meta(self) -> Meta:
        """Fixed metalayers, by name."""
        return Meta(self._handle, FrameHandle.open_cframe)

    @property
    def vlmeta(self) -> VLMeta:
        """Variable-length metadata, by name; the same object at every access."""
        try:
            return self._vlmeta_
        except AttributeError:
            self._vlmeta_: VLMeta = VLMeta(self._handle, FrameHandle.open_cframe)
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
        if self._handle.dparams is None:
            self._handle.dparams = DParams()
        return self._handle.dparams

    @dparams.setter
    def dparams(self, value: DParams | dict[str, Any]) -> None:
        self._handle.dparams = dparams_from(value)

    def to_cframe(self) -> bytes:
        """The whole frame as bytes, which `blosc2.from_cframe` turns back into an object."""
        return self._handle.to_cframe()

    def refresh(self) -> bool:
        """Take up a version that another handle published since; True when there is one."""
        return self._handle.refresh()

    def advise(self, advice: str, key: Any = None) -> None:
        """Tell the system how the stored bytes will be read, so that it reads ahead, or not.

        It changes no result, and does nothing where the system takes no advice or the data are in memory.

        Parameters
        ----------
        advice : {"normal", "random", "sequential", "willneed", "dontneed"}
            The first three are about all of the file, that of a store for a leaf of one, until other advice comes:
            read some ahead; read nothing ahead; read much ahead. "willneed" begins to read what is stored of this
            array, and does not wait for it; "dontneed" gives back the memory that it takes in this process.
        key : object, optional
            With "willneed" and "dontneed", the items that are meant: the chunks that hold them. Keys with lists or
            arrays mean all chunks.

        Raises
        ------
        ValueError
            Unknown advice, or advice about all of a file with a key.
        IndexError
            A key that is none for this shape.

        Examples
        --------
        >>> import os, tempfile
        >>> import blosc2
        >>> name = os.path.join(tempfile.mkdtemp(), "ones.b2nd")
        >>> ones = blosc2.ones((40, 30), urlpath=name, chunks=(10, 30))
        >>> ones.advise("random")
        >>> ones.advise("willneed", slice(10, 30))
        """
        check_advice(advice, part=key is not None)
        handle = self._handle
        if key is None:
            advise_frame(advice, handle.frame)
        else:
            assert self.touched is not None
            advise_frame(advice, handle.frame, self.touched(self, key))

    def check(self, *, progress: Callable[[int, int], object] | None = None) -> CheckReport:
        """Read all of it and say what is damaged; see `blosc2.check`.

        What has a file of its own is checked as it is there; what is in a store or in memory, as it is shown.

        Examples
        --------
        >>> import blosc2
        >>> blosc2.ones(3).check().ok
        True
        """
        assert self.checker is not None
        return self.checker(self._handle, progress)

    def compact(self) -> Compaction:
        """Write the file anew without its dead bytes: those of chunks, tables and metadata that were replaced.

        Handles that are open keep the version that they show. In memory, and in a store, there is nothing to do here.

        Returns
        -------
        Compaction
            Bytes `before` and `after`.

        Raises
        ------
        ValueError
            It was opened for reading only.

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
        """A context in which no other handle changes the data, with ``locking=True``; otherwise it does nothing.

        It starts from the last version of the file. Each change is published at once all the same. A handle that a
        thread holds the lock with keeps that thread's other handles waiting too, for ever.

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
        """Uncompressed bytes by compressed ones; 0 when nothing is stored."""
        cbytes = self.cbytes
        return self.nbytes / cbytes if cbytes else 0.0

    @property
    def typesize(self) -> int:
        """Bytes of an item; 1 for lists, whose values are packed bytes."""
        return int(self._handle.frame.typesize)

    @property
    def chunksize(self) -> int:
        """Uncompressed bytes of a chunk; 0 when chunks differ, -1 when the first one will decide."""
        return int(self._handle.frame.chunksize)

    @property
    def contiguous(self) -> bool:
        """Whether all chunks lie in one frame, not in a directory."""
        return self._handle.contiguous
