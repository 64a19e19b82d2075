"""Compressed array containers that open in microseconds and read at memory speed.

Arrays and stores of arrays in compressed files: `asarray` writes, `open` reads, `TreeStore` holds many.

Examples
--------
>>> import os, tempfile
>>> import numpy as np
>>> import blosc2
>>> path = os.path.join(tempfile.mkdtemp(), "scan.b2nd")
>>> _ = blosc2.asarray(np.arange(24).reshape(4, 6), urlpath=path)
>>> blosc2.open(path, mmap_mode="r")[1:3, 4]
array([10, 16])
"""

import math as _math
import sys as _sys
from builtins import bool as _bool
from importlib import import_module as _import_module
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

import numpy as _np  # noqa: ICN001 - no name of the package

from blosc2 import _frames
from blosc2._core.codec.codec import library_version as blosclib_version
from blosc2._core.on_demand import on_demand as _on_demand
from blosc2._opening import (
    estore_from_cframe,
    from_cframe,
    load,
    ndarray_from_cframe,
    objectarray_from_cframe,
    open,
    schunk_from_cframe,
)
from blosc2._opening import install as _install_hooks
from blosc2._options import detect_number_of_cores, ncores, set_nthreads
from blosc2._options import explain_name as _explain_name
from blosc2._options import get_nthreads as _get_nthreads
from blosc2.exceptions import (
    ChunkIndexError,
    ChunkSizeError,
    ClosedStoreError,
    CompressionError,
    ConversionError,
    ExistingFileError,
    FormatError,
    MissingFileError,
    MissingMetadataError,
    OtherFileSystemError,
    ParameterError,
    ReadOnlyError,
    RemoteAccessError,
    RemoteChangedError,
    RemoteError,
    ShapeError,
    ShortReadError,
    StaleHandleError,
    StoreKeyError,
    StoreLockedError,
    UnexpectedKeywordError,
    UnsafeDeserializationError,
    UnsupportedKindError,
    UnsupportedValueError,
)
from blosc2.ndarray import NDArray, NDField
from blosc2.schunk import SChunk
from blosc2.storage import (
    DEFINED_CODECS_STOP,
    EXTENDED_HEADER_LENGTH,
    GLOBAL_REGISTERED_CODECS_STOP,
    MAX_BLOCKSIZE,
    MAX_BUFFERSIZE,
    MAX_DIM,
    MAX_TYPESIZE,
    MIN_HEADER_LENGTH,
    USER_REGISTERED_CODECS_STOP,
    Codec,
    CParams,
    DeserializeMode,
    DParams,
    Filter,
    SpecialValue,
    SplitMode,
    Storage,
    Tuner,
    cparams_dflts,
    dparams_dflts,
    storage_dflts,
)
from blosc2.version import VERSION_DATE, __version__

# Imported when it is first named: what opening and reading arrays does not need. Type checkers read the imports below.
_PLACES: dict[str, str] = {
    "_arrays": "are_partitions_aligned are_partitions_behaved compute_chunks_blocks",
    "_functions": (
        "arange array asarray astype clib_info compress compress2 compressor_list concat copy decompress "
        "decompress2 empty empty_like expand_dims eye frombuffer fromiter full full_like get_blocksize "
        "get_cbuffer_sizes get_clib get_compressor get_cpu_info get_slice_nchunks linspace "
        "matrix_transpose nans ones ones_like pack pack_array permute_dims reshape save set_blocksize "
        "set_compressor set_releasegil squeeze stack take take_along_axis transpose tune uninit unpack "
        "unpack_array zeros zeros_like"
    ),
    "_indexing": "all any argmax argmin max mean min prod std sum var",
    "_integrity.check_frames": "check",
    "_integrity.report": "CheckReport Finding",
    "_integrity.recovery": "SalvageReport salvage",
    "_opening": (
        "load_array load_tensor pack_array2 pack_tensor save_array save_tensor unpack_array2 unpack_tensor"
    ),
    "_tools": (
        "ConversionReport Loader PatchSampler Permutation Samples convert foreground_index merge to_store "
        "zarr_references"
    ),
    "batch_array": "Batch BatchArray",
    "_frames": "set_file_cache",
    "_options": "BlockCacheStats Metrics block_cache_stats metrics set_block_cache",
    "core": "free_resources print_versions remove_urlpath",
    "dict_store": "DictStore",
    "embed_store": "EmbedStore",
    "objectarray": "ObjectArray",
    "tree_store": "TreeStore",
}  # fmt: skip
_MODULES = (*(place for place in _PLACES if not place.startswith("_")), "blosc2_ext", "utils")
_later = _on_demand(__name__, _PLACES, _MODULES)
_NAMES = (*" ".join(_PLACES.values()).split(), *_MODULES)
if _TYPE_CHECKING:
    from blosc2 import blosc2_ext as blosc2_ext
    from blosc2 import utils as utils
    from blosc2._arrays import are_partitions_aligned, are_partitions_behaved, compute_chunks_blocks
    from blosc2._frames import set_file_cache
    from blosc2._functions import *
    from blosc2._indexing import all as all
    from blosc2._indexing import any as any
    from blosc2._indexing import argmax, argmin, mean, prod, std, var
    from blosc2._indexing import max as max
    from blosc2._indexing import min as min
    from blosc2._indexing import sum as sum
    from blosc2._integrity import CheckReport, Finding, SalvageReport, check, salvage
    from blosc2._opening import *
    from blosc2._options import BlockCacheStats, Metrics, block_cache_stats, metrics, set_block_cache
    from blosc2._tools import *
    from blosc2.batch_array import Batch, BatchArray
    from blosc2.core import free_resources, print_versions, remove_urlpath
    from blosc2.dict_store import DictStore
    from blosc2.embed_store import EmbedStore
    from blosc2.objectarray import ObjectArray
    from blosc2.tree_store import TreeStore

_install_hooks()
if "xarray" in _sys.modules:  # else its engines are loaded when it opens a file
    from blosc2._tools import add_xarray_accessor as _add_xarray_accessor

    _add_xarray_accessor()

# The level of the older implementation's interface that is followed.
__upstream_api__ = "4.14"
VERSION_STRING = __version__
MAX_OVERHEAD = 32
# Whether this runs in a browser; programs for the other implementation ask.
IS_WASM = _sys.platform == "emscripten"
_HAS_NUMBA = False
# Numbers that array programs expect under this name, too.
nan, inf, pi, e, newaxis = float("nan"), float("inf"), _math.pi, _math.e, None
euler_gamma = _np.euler_gamma
# Of no effect: every read is of bounded memory. Programs for the other implementation ask.
MAX_FAST_PATH_SIZE = 1 << 30
# What programs take for types of items. Comparisons with dtypes hold, as these are NumPy's.
bool_, int8, int16, int32, int64 = _np.bool_, _np.int8, _np.int16, _np.int32, _np.int64
uint8, uint16, uint32, uint64 = _np.uint8, _np.uint16, _np.uint32, _np.uint64
float16, float32, float64, complex64, complex128 = _np.float16, _np.float32, _np.float64, _np.complex64, _np.complex128
bool = bool_  # of which the older implementation has both
bytes_, str_, object_ = _np.bytes_, _np.str_, _np.object_
DEFAULT_INT, DEFAULT_INDEX, DEFAULT_FLOAT, DEFAULT_COMPLEX = int64, int64, float64, complex128
nthreads: int
cpu_info: dict[str, _Any]
strict_compatibility: _bool


class _Module(_ModuleType):
    """The module itself, so that ``blosc2.nthreads`` and its like can be read and assigned."""

    @property
    def nthreads(self) -> int:
        """Threads that arrays use unless told otherwise."""
        return _get_nthreads()

    @nthreads.setter
    def nthreads(self, value: _Any) -> None:
        set_nthreads(value)

    @property
    def cpu_info(self) -> dict[str, _Any]:
        """What `get_cpu_info` gives."""
        found: dict[str, _Any] = self.get_cpu_info()
        return found

    @property
    def strict_compatibility(self) -> _bool:
        """Whether only that is written which other Blosc2 programs can change, too: up to 16 attributes."""
        return _frames.strict_compatibility()

    @strict_compatibility.setter
    def strict_compatibility(self, value: _bool) -> None:
        _frames.set_strict_compatibility(value)

    def __getattr__(self, name: str) -> _Any:
        if name in _NAMES:
            return _later(name)
        raise _explain_name(name)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *_NAMES, *__all__})

    def __reduce__(self) -> tuple[_Any, ...]:
        # cloudpickle, which sends functions to other processes, knows modules of no class of their own.
        return _import_module, (self.__name__,)


_sys.modules[__name__].__class__ = _Module

# Without those that would hide functions of Python after `from blosc2 import *`.
__all__ = [
    "DEFINED_CODECS_STOP", "EXTENDED_HEADER_LENGTH", "GLOBAL_REGISTERED_CODECS_STOP", "IS_WASM", "MAX_BLOCKSIZE",
    "MAX_BUFFERSIZE", "MAX_DIM", "MAX_OVERHEAD", "MAX_TYPESIZE", "MIN_HEADER_LENGTH", "USER_REGISTERED_CODECS_STOP",
    "VERSION_DATE", "VERSION_STRING", "Batch", "BatchArray", "BlockCacheStats", "CParams", "CheckReport",
    "ChunkIndexError", "ChunkSizeError", "ClosedStoreError", "Codec", "CompressionError", "ConversionError",
    "ConversionReport", "DParams", "DeserializeMode", "DictStore", "EmbedStore", "ExistingFileError", "Filter",
    "Finding", "FormatError", "Loader", "Metrics", "MissingFileError", "MissingMetadataError", "NDArray", "NDField",
    "ObjectArray", "OtherFileSystemError", "ParameterError", "PatchSampler", "Permutation", "ReadOnlyError",
    "RemoteAccessError", "RemoteChangedError", "RemoteError", "SChunk", "SalvageReport", "Samples", "ShapeError",
    "ShortReadError", "SpecialValue", "SplitMode", "StaleHandleError", "Storage", "StoreKeyError", "StoreLockedError",
    "TreeStore", "Tuner", "UnexpectedKeywordError", "UnsafeDeserializationError", "UnsupportedKindError",
    "UnsupportedValueError", "__upstream_api__", "__version__", "arange", "are_partitions_aligned",
    "are_partitions_behaved", "argmax", "argmin", "array", "asarray", "astype", "block_cache_stats", "blosclib_version",
    "check", "clib_info", "compress", "compress2", "compressor_list", "compute_chunks_blocks", "concat", "convert",
    "copy", "cparams_dflts", "decompress", "decompress2", "detect_number_of_cores", "dparams_dflts", "empty",
    "empty_like", "estore_from_cframe", "expand_dims", "eye", "foreground_index", "free_resources", "from_cframe",
    "frombuffer", "fromiter", "full", "full_like", "get_blocksize", "get_cbuffer_sizes", "get_clib", "get_compressor",
    "get_cpu_info", "get_slice_nchunks", "linspace", "load", "load_array", "load_tensor", "matrix_transpose", "mean",
    "merge", "metrics", "nans", "ncores", "ndarray_from_cframe", "nthreads", "objectarray_from_cframe", "ones",
    "ones_like", "open", "pack", "pack_array", "pack_array2", "pack_tensor", "permute_dims", "print_versions", "prod",
    "remove_urlpath", "reshape", "salvage", "save", "save_array", "save_tensor", "schunk_from_cframe",
    "set_block_cache", "set_blocksize", "set_compressor", "set_file_cache", "set_nthreads", "set_releasegil", "squeeze",
    "stack", "std", "storage_dflts", "take", "take_along_axis", "to_store", "transpose", "tune", "uninit", "unpack",
    "unpack_array", "unpack_array2", "unpack_tensor", "var", "zarr_references", "zeros", "zeros_like",
]  # fmt: skip
