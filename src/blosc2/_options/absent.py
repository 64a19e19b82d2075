"""What is not here: extras that are not installed, and names of the published package that are out of scope."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Never, TypeVar

import numpy as np


def lacking(what: str, package: str, extra: str, note: str = "") -> str:
    """The words of an error: something needs a package, which an extra of ours brings to what is installed."""
    advice = f"pip install 'python-blosc2[{extra}]' adds it to the package that is installed"
    return f"{what} needs the package {package!r}: {advice}{note}"


def needed(package: str, extra: str, what: str) -> Any:
    """Import a package that is an extra; an `ImportError` says what to install."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise ImportError(lacking(what, package, extra)) from error


Kind = TypeVar("Kind")

# Functions that NumPy has under the same name.
_NUMPY: Final = (
    "abs", "acos", "acosh", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2",
    "arctanh", "argsort", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_or",
    "bitwise_xor", "broadcast_to", "can_cast", "ceil", "clip", "conj", "copysign", "cos", "cosh", "count_nonzero",
    "cumulative_prod", "cumulative_sum", "diagonal", "divide", "equal", "exp", "expm1", "fft", "finfo", "floor",
    "floor_divide", "get_printoptions", "greater", "greater_equal", "hypot", "iinfo", "imag", "isdtype", "isfinite",
    "isinf", "isnan", "less", "less_equal", "linalg", "log", "log10", "log1p", "log2", "logaddexp", "logical_and",
    "logical_not", "logical_or", "logical_xor", "matmul", "maximum", "meshgrid", "minimum",
    "multiply", "negative", "nextafter", "not_equal", "outer", "positive", "pow", "printoptions", "random",
    "real", "reciprocal", "remainder", "result_type", "round", "set_printoptions", "sign", "signbit", "sin", "sinh",
    "sort", "sqrt", "square", "subtract", "tan", "tanh", "tensordot", "trunc", "vecdot", "where",
)  # fmt: skip
_COMPUTING: Final = "it stores arrays and does not compute with them: read what is needed and compute with NumPy"
_REMOTE: Final = "blosc2.open(url) reads what is on a server as the same arrays and stores; nothing computes there"
_PROXIES: Final = "it fetches nothing on demand: blosc2.asarray(source) makes a compressed copy of what it is given"
_TABLES: Final = "it has no tables: keep each column as an array of a store, or the rows as a structured array"
_LISTS: Final = "lists of any length are values of an ObjectArray, one each, or batches of a BatchArray"
_USERS: Final = "functions of users do not run inside its compressor: apply them to the items themselves"
_ADVICE: Final = {
    **dict.fromkeys((
        "DSLKernel", "DSLSyntaxError", "FPAccuracy", "Index", "IndexKind", "LazyArray", "LazyExpr", "LazyUDF",
        "Operand", "SimpleProxy", "array_from_ffi_ptr", "as_simpleproxy", "bitwise_invert", "bitwise_left_shift",
        "bitwise_right_shift", "contains", "dsl_kernel", "endswith", "evaluate", "get_expr_operands",
        "get_matmul_library", "group_reduce", "iter_sorted", "jit", "lazyexpr", "lazyudf", "lazywhere",
        "linalg_funcs_list", "lower", "numexpr", "numexpr_max", "open_lazyarray", "startswith", "upper",
        "validate_dsl", "validate_dsl_jit", "validate_expr",
    ), _COMPUTING),
    **dict.fromkeys((
        "B2ZNDSource", "ByteRangeNDSource", "C2Array", "C2NDSource", "CachePolicy", "FsspecNDSource", "HDF5NDSource",
        "RemoteArray", "RemoteCTable", "RemoteMetadataMapping", "RemoteNode", "RemoteObject", "RemoteStore", "Traffic",
        "URLPath", "ZarrNDSource", "available_datasets", "c2context", "scan_hdf5_index", "validate_hdf5_index",
    ), _REMOTE),
    **dict.fromkeys(("Proxy", "ProxyNDField", "ProxyNDSource", "ProxySource", "Ref"), _PROXIES),
    **dict.fromkeys((
        "CTableGroupBy", "Column", "DEFAULT_NULL_POLICY", "DictionarySpec", "NDArraySpec",
        "NestedColumn", "NullPolicy", "RowTransformer", "UTF8Array", "bytes", "col", "ctable_from_cframe",
        "dictionary", "field", "from_utf8", "get_null_policy", "null_policy", "object", "schema", "string",
        "struct", "timestamp", "to_utf8", "utf8", "utf8_array", "vlbytes", "vlstring",
    ), _TABLES),
    **dict.fromkeys(("ListArray", "list"), _LISTS),
    **dict.fromkeys((
        "postfilter_funcs", "prefilter_funcs", "register_codec", "register_filter", "ucodecs_registry",
        "ufilters_registry",
    ), _USERS),
}  # fmt: skip

#: Metalayers of objects that this package does not have: they can be described and copied, but not read.
OPAQUE_KINDS: Final = ("proxy-source", "b2o", "listarray", "LazyArray")
# What they are, and those that have several leaves.
_IN_WORDS: Final = {
    "proxy-source": "a proxy, which fetches its items from elsewhere",
    "b2o": "a lazy expression, or a reference to data elsewhere",
    "listarray": "a column of lists",
    "LazyArray": "a lazy expression",
    "ctable": "a table",
}


def kind_in_words(kind: str) -> str:
    """The kind of an object of another package, and what that is."""
    return f"{kind!r} ({_IN_WORDS[kind]})" if kind in _IN_WORDS else repr(kind)


#: What users of h5py, zarr and the published package look for.
_ELSEWHERE: Final = {
    **dict.fromkeys(("File", "Group"), "blosc2.TreeStore(path, mode) is the file and its root group"),
    "Dataset": "blosc2.NDArray is the class of arrays, and store[key] = data makes one",
    "Array": "blosc2.NDArray is the class of arrays",
    "get_slice": "write array[...]",
    "set_slice": "write array[...] = values",
    "b2view": "'blosc2 view FILE' shows a file",
    "CTable": f"{_TABLES}; blosc2.convert('t.parquet', 't.b2z') reads a table of Parquet (page 'What is in scope')",
    "parquet_to_blosc2": "'blosc2 import FILE.parquet FILE.b2z' converts",
    "BLOSC_LOCKING": "it is a variable of the environment: BLOSC_LOCKING=1 is locking=True for all files",
}
_OF_DTYPES: Final = ("can_cast", "finfo", "iinfo", "isdtype", "result_type")
OF_ARRAYS: Final = {
    **{name: f"it does not compute with its items; use numpy.{name} with what is read, array[...]"
       for name in ("argsort", "cumulative_prod", "cumulative_sum", "sort", "where")},
    **dict.fromkeys(("compact_index", "create_index", "drop_index", "index", "indexes", "iter_sorted", "rebuild_index"),
                    "there are no indexes; select with numpy on what is read"),
    **dict.fromkeys(("name", "key", "parent", "file"),
                    "an array does not know its key: for key, array in store.items() gives both"),
    "get_slice": "write array[key]", "set_slice": "write array[key] = values",
    **dict.fromkeys(("flatten", "ravel"), "write array[...].ravel(), or array.reshape(array.size)"),
    **dict.fromkeys(("compression", "compression_opts", "compressor", "compressors", "filters", "shuffle"),
                    "see array.cparams"),
    **dict.fromkeys(("get_orthogonal_selection", "set_orthogonal_selection"), "write array.oindex[key]"),
    "write_direct": "write array[key] = values", "asstr": "texts are of a dtype such as 'U8': read array[...]",
    "iter_chunks": "array.iterchunks_info() has the place of each chunk",
    "update_attributes": "write array.attrs.update(names)", "nchunks": "write array.schunk.nchunks",
    "itemsize": "write array.dtype.itemsize", "close": "there is nothing to close",
    "transpose": "blosc2.permute_dims(array, axes) copies", "make_scale": "array.attrs keeps names of axes",
    "maxshape": "each axis may grow: array.resize(shape), array.append(rows)",
    **dict.fromkeys(("fillvalue", "fill_value"),
                    "array.attrs keeps what a file of another format called so, such as '_FillValue'"),
    **dict.fromkeys(("read_direct", "get_basic_selection"), "write array.read(key, out=values), or array[key]"),
    **dict.fromkeys(("vindex", "get_coordinate_selection"), "write array[key], with index arrays as in NumPy"),
    "dims": "array.attrs keeps names of axes, as xarray and h5py write them",
}  # fmt: skip
OF_CHUNKS: Final = {
    **dict.fromkeys(("postfilter", "prefilter", "filler"), f"{_USERS}, then assign them"),
    **dict.fromkeys(("remove_postfilter", "remove_prefilter"), "functions of users are never stored, nor run"),
}
OF_STORES: Final = {
    **dict.fromkeys(("create_dataset", "create_array", "require_array", "require_dataset"),
                    "write store[key] = data; blosc2.zeros(shape, dtype, chunks=...) is data that takes no space"),
    **dict.fromkeys(("visititems", "visit"), "write for key, leaf in store.items(); store.walk() goes by groups"),
    **dict.fromkeys(("filename", "file", "store_path"), "store.localpath is its path"),
    "require_group": "create_group(key) gives a group that exists, too",
    "name": "store.subtree_path, of a TreeStore, is the key of a group",
    "parent": "store.get_subtree(path) is any group",
    **dict.fromkeys(("groups", "group_keys"), "store.walk() lists them"),
    **dict.fromkeys(("arrays", "array_keys", "members"), "store.items() has them"),
    "update_attributes": "write store.attrs.update(...), of a TreeStore",
    **dict.fromkeys(("copy", "move"), "store[new] = store[old] copies a leaf, store.rename(old, new) moves one"),
}  # fmt: skip


def names() -> Iterable[str]:
    """The names that `explain_name` knows."""
    return sorted({*_NUMPY, *_ADVICE, *_ELSEWHERE})


def explain_name(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    if name == "torch":
        return AttributeError("the module blosc2.torch is not imported: import blosc2.torch", name=name, obj=None)
    advice = _advice_for(name)
    if advice:
        # Without the object, Python adds no name that is only spelled alike.
        return AttributeError(f"this package has no blosc2.{name}: {advice}", name=name, obj=None)
    return AttributeError(f"module 'blosc2' has no attribute {name!r}")


def _advice_for(name: str) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    if name in _OF_DTYPES:
        return f"use numpy.{name}(array.dtype{', ...' if name in ('can_cast', 'isdtype') else ''})"
    if name in _NUMPY:
        module = isinstance(getattr(np, name, None), type(np))
        what = f"use numpy.{name}" if module else f"use numpy.{name} with what is read, array[...]"
        return f"it stores arrays and does not compute with them; {what}"
    if name in _ADVICE:
        return f"{_ADVICE[name]} (page 'What is in scope')"
    return ""


class Absent:
    """In a class, a name that it does not have: the error and `help` say what to use instead; `hasattr` says no.

    A `__getattr__` would do the same, and make every other attribute of the class slower.
    """

    def __init__(self, name: str, advice: str) -> None:
        self._name, self._advice = name, advice
        self.__doc__ = f"Absent: {advice}."

    def __get__(self, owner: object, kind: type) -> Never:
        raise AttributeError(f"{kind.__name__!r} has no {self._name}: {self._advice}")


def explain_absent(advice: Mapping[str, str]) -> Callable[[type[Kind]], type[Kind]]:
    """Decorate a class: names that others have, and what to write here."""

    def decorate(kind: type[Kind]) -> type[Kind]:
        for name, what in advice.items():
            setattr(kind, name, Absent(name, what))
        return kind

    return decorate


def shown_names(kind: type, names: Iterable[str]) -> list[str]:
    """What `dir` shows of an object of a class: not what is only explained."""
    absent = {name for base in kind.__mro__ for name, value in vars(base).items() if isinstance(value, Absent)}
    return sorted({*names} - absent)
