"""`to_store`: what xarray and dask hold, into a store; and the accessor ``dataset.b2`` of xarray."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, TypedDict

from blosc2 import _tools
from blosc2._options import needed
from blosc2.exceptions import UnexpectedKeywordError, UnsupportedValueError
from blosc2.storage import CParams, takes, unexpected_keyword


class WritingKeywords(TypedDict, total=False):
    """How dask and xarray write to a store.

    Parameters
    ----------
    mode : str
        "w-" makes what is new, and is the default. "w" replaces: an array of dask with the same key; of xarray the
        group, and the whole file if the group is the root. For xarray, too: "a" adds variables and replaces those
        that exist, "r+" changes existing ones alone.
    chunks, blocks, cparams : optional
        For dask: as for `blosc2.asarray`. Each chunk must lie in one block of the dask array; without `chunks`, a
        shape is chosen that does.
    attributes : mapping, optional
        For dask: attributes of each array.
    resume : bool
        For dask: keep what tasks have written if the run fails, and use what such a run has left. True by default.
    append_dim : str, optional
        For xarray: write behind the end of this dimension. The dataset needs all variables that have it. Those that do
        not have it are replaced, as `to_zarr` does; but coordinates must be those that are there.
    region : mapping of slices by dimension, or "auto"
        For xarray: where to write in existing variables. "auto" finds the coordinates of the dataset in the store.
    encoding : mapping of mappings, optional
        For xarray: ``chunks``, ``blocks``, ``cparams``, and what CF encodes (``dtype``, ``scale_factor``, ...) by
        variable; for a tree, by path and variable.
    """

    mode: str
    chunks: int | Sequence[int] | None
    blocks: int | Sequence[int] | None
    cparams: CParams | dict[str, Any] | None
    attributes: Mapping[str, Any] | None
    resume: bool
    append_dim: str | None
    region: Mapping[str, slice] | str | None
    encoding: Mapping[str, Mapping[str, Any]] | None


@takes(WritingKeywords, mode="w-", resume=True)
def to_store(data: Any, target: Any, key: str = "/", **compute: Any) -> None:
    """Write arrays of dask, or datasets of xarray, to a store: all is published in one step, or nothing.

    Parameters
    ----------
    data : dask array, mapping of dask arrays by key, Dataset, DataArray or DataTree
    target : path, TreeStore or another store
        A new or existing store: ``.b2z`` or ``.b2d``, for dask also ``.b2e`` and, for one array, ``.b2nd``. A store
        that is open for writing is written to in a transaction.
    key : str
        Of a dask array, its key. Otherwise a group; "/" is the root.
    **kwargs
        The fields of `WritingKeywords`.
    **compute
        For dask: other options are those of `dask.compute`, such as ``scheduler`` and ``retries``.

    Raises
    ------
    ValueError
        What is written does not fit what exists; blocks of dask end inside of chunks. Nothing changes then.
    FileExistsError
        The key, group or file exists, and the mode is "w-".
    ImportError
        dask or xarray is not installed; the message says what to install.
    TypeError
        The data are of another kind: ``store[key] = data`` takes arrays of NumPy and the like.

    Notes
    -----
    Tasks of dask compress their blocks to files in a folder beside the target, ``name.staging-...``, which all workers
    must see; the chunks are then copied, not decoded. The disk needs room for three copies of the compressed data. A
    worker that dies costs its task. The folder goes when all is published; a run that is repeated after a failure
    uses the blocks that are there, if the dask array has the same name, which stands for what is computed.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import blosc2
    >>> import dask.array as da
    >>> path = os.path.join(tempfile.mkdtemp(), "scans.b2z")
    >>> blosc2.to_store(da.ones((400, 300), chunks=(100, 300)), path, "/scan")
    >>> import xarray
    >>> blosc2.to_store(xarray.Dataset({"t": ("x", np.arange(4))}), path, "/weather")
    >>> blosc2.open(path)["/weather/t"][:2], blosc2.open(path)["/scan"].chunks
    (array([0, 1]), (100, 300))
    """
    kind = type(data).__module__.partition(".")[0]
    if kind == "xarray":
        needed("xarray", "xarray", "writing datasets")
        from blosc2._tools.integrations.xarray_writing import write_xarray

        for name in sorted(compute.keys() - _OF_XARRAY):
            raise _unexpected(name)
        write_xarray(data, target, key, **compute)
        return
    if kind == "dask" or (isinstance(data, Mapping) and data and all(map(_is_of_dask, data.values()))):
        needed("dask.array", "dask", "writing arrays of dask")
        from blosc2._tools.integrations.dask_writing import write_dask

        for name in sorted(compute.keys() - _OF_DASK - _COMPUTE):
            raise _unexpected(name, sorted(_COMPUTE))
        write_dask(data, target, key, **compute)
        return
    raise UnsupportedValueError(
        f"to_store takes arrays of dask, and datasets, arrays and trees of xarray, not a {type(data).__name__}; "
        "store[key] = data takes arrays of NumPy and the like"
    )


#: The keywords for each kind of data, and those that are handed on to dask.
_OF_XARRAY: Final = {"mode", "append_dim", "region", "encoding"}
_OF_DASK: Final = {"mode", "chunks", "blocks", "cparams", "attributes", "resume"}
_COMPUTE: Final = {
    "scheduler", "num_workers", "pool", "optimize_graph", "retries", "priority", "workers", "allow_other_workers",
    "resources",
}  # fmt: skip


def _unexpected(name: str, more: Sequence[str] = ()) -> UnexpectedKeywordError:
    """The error about a keyword, which may be one for the other kind of data."""
    if name in _OF_XARRAY:
        return UnexpectedKeywordError(f"{name}= is for data of xarray, and not for arrays of dask")
    if name in _OF_DASK:
        how = f"encoding={{'variable': {{{name!r}: ...}}}}"
        how = f"write {'dataset.attrs' if name == 'attributes' else how}" if name != "resume" else "leave it out"
        return UnexpectedKeywordError(f"{name}= is for arrays of dask; for data of xarray, {how}")
    if name in _COMPUTE and name not in more:
        how = f"write within dask.config.set({name}=...) or dask.annotate({name}=...)"
        return UnexpectedKeywordError(f"{name}= is for arrays of dask; for data of xarray, {how}")
    return unexpected_keyword(name, hint=_HINTS.get(name, ""), more=more)


# For keywords of `open`, and of functions of xarray.
_OF_OPEN: Final = ": it is one of blosc2.open(path, mode='a', ...); give to_store the open store."
_HINTS: Final = {
    "group": "; it is key= here, the third argument.", "timeout": _OF_OPEN, "locking": _OF_OPEN, "durable": _OF_OPEN
}  # fmt: skip


def _is_of_dask(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "dask"


class XarrayAccessor:
    """What this package adds to objects of xarray."""

    def __init__(self, shown: Any) -> None:
        self._shown = shown

    def to_store(self, target: Any, key: str = "/", **options: Any) -> None:
        """Write to a group of a store: `blosc2.to_store` with this object."""
        _tools.to_store(self._shown, target, key, **options)


def add_xarray_accessor() -> None:
    """Give datasets, arrays and trees of xarray the accessor ``b2``, where nobody else has one of the name, or will.

    The package `xarray-blosc2` has one, too.
    """
    import xarray

    taken = find_spec("xarray_blosc2") is not None
    if not (taken or hasattr(xarray.Dataset, "b2")):
        xarray.register_dataset_accessor("b2")(XarrayAccessor)
    if not (taken or hasattr(xarray.DataArray, "b2")):
        xarray.register_dataarray_accessor("b2")(XarrayAccessor)
    if not hasattr(xarray.DataTree, "b2"):
        xarray.register_datatree_accessor("b2")(XarrayAccessor)
