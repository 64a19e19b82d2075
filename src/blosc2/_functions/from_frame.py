"""Making the object that a frame contains (FORMATS 5.1); those of other packages can be described and copied."""

from __future__ import annotations

from typing import Any, Final, Never

import numpy as np

from blosc2._arrays import ready_in_children
from blosc2._frames import FrameHandle
from blosc2._options import OPAQUE_KINDS, kind_in_words
from blosc2.exceptions import UnsupportedKindError
from blosc2.ndarray import NDArray
from blosc2.schunk import SChunk


class OpaqueObject:
    """Base of objects that can be described and copied but not read."""

    __slots__ = ()
    _handle: FrameHandle

    @property
    def kind(self) -> str:
        """What the object is, after the metalayer that marks it."""
        names = self._handle.frame.metalayers()
        # The file may have become another one under a handle that looks again.
        return next((name for name in OPAQUE_KINDS if name in names), "unknown")

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise UnsupportedKindError(
            f"an object of kind {kind_in_words(self.kind)} can be described and copied here, not read or changed; "
            "use the package that wrote it",
            path=self._handle.urlpath, key=self._handle.key,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<opaque object of kind {kind_in_words(self.kind)}>"


class OpaqueArray(OpaqueObject, NDArray):
    """An array that is computed or fetched by another package."""

    __slots__ = ()
    __getitem__ = __setitem__ = __array__ = __iter__ = OpaqueObject._refuse
    _read_all = _snapshot = tobytes = get_chunk = slice = iterchunks_info = item = OpaqueObject._refuse
    resize = append = squeeze = reshape = take = read = view = _reduced = OpaqueObject._refuse
    __dlpack__ = __dlpack_device__ = __buffer__ = OpaqueObject._refuse
    T = mT = oindex = property(OpaqueObject._refuse)  # noqa: N815 - as NumPy calls it
    __repr__ = OpaqueObject.__repr__

    def copy(self, dtype: Any = None, **kwargs: Any) -> NDArray:
        """Copy the object as it is."""
        if dtype is not None and np.dtype(dtype) != self.dtype:
            self._refuse()
        return OpaqueArray._of(NDArray.copy(self, **kwargs)._handle)

    @property
    def schunk(self) -> SChunk:
        """The super-chunk below the object."""
        return OpaqueSChunk._of(self._handle.shared())


class OpaqueSChunk(OpaqueObject, SChunk):
    """A super-chunk of another package's object."""

    __slots__ = ()
    __getitem__ = __setitem__ = __iter__ = set_slice = get_slice = OpaqueObject._refuse
    decompress_chunk = get_chunk = get_lazychunk = iterchunks = OpaqueObject._refuse
    iterchunks_info = append_data = insert_data = update_data = OpaqueObject._refuse
    append_chunk = insert_chunk = update_chunk = delete_chunk = OpaqueObject._refuse
    fill_special = update_special = reorder_offsets = get_vlblock = OpaqueObject._refuse
    __repr__ = OpaqueObject.__repr__


_RARE: Final = (*OPAQUE_KINDS, "vlarray", "batcharray")


def wrap(handle: FrameHandle) -> Any:
    """The array, super-chunk, list or opaque object that a frame holds, by its metalayers.

    Checks what belongs to its kind; raises `FormatError` where that is damaged.
    """
    ready_in_children()
    frame = handle.frame
    if frame.only_array:  # nearly all frames are
        return NDArray._of(handle)
    names = set(frame.metalayers())
    if not names.isdisjoint(_RARE):
        return _rare(handle, names)
    return NDArray._of(handle) if "b2nd" in names else SChunk._of(handle)


def _rare(handle: FrameHandle, names: set[str]) -> Any:
    """A list or an opaque object. Only here are the modules of lists needed."""
    if not names.isdisjoint(OPAQUE_KINDS):
        return OpaqueArray._of(handle) if "b2nd" in names else OpaqueSChunk._of(handle)
    if "vlarray" in names:
        from blosc2.objectarray import ObjectArray

        return ObjectArray._of(handle)
    from blosc2.batch_array import BatchArray

    return BatchArray._of(handle)
