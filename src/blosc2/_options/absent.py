"""What is not here: extras that are not installed, and names of the published package that are out of scope."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, Final, Never, TypeVar

import numpy as np


def lacking(what: str, package: str, extra: str, note: str = "") -> str:
    """The words of an error: something needs a package, which an extra of ours brings."""
    return f"{what} needs the package {package!r}: pip install 'python-blosc2[{extra}]'{note}"


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
_TABLES: Final = "it has no tables: keep each column as an array of a store, or the rows as a structured array"
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
        "Proxy", "ProxyNDField", "ProxyNDSource", "ProxySource", "Ref", "RemoteArray", "RemoteCTable",
        "RemoteMetadataMapping", "RemoteNode", "RemoteObject", "RemoteStore", "Traffic", "URLPath", "ZarrNDSource",
        "available_datasets", "c2context", "scan_hdf5_index", "validate_hdf5_index",
    ), _REMOTE),
    **dict.fromkeys((
        "CTable", "CTableGroupBy", "Column", "DEFAULT_NULL_POLICY", "DictionarySpec", "ListArray", "NDArraySpec",
        "NestedColumn", "NullPolicy", "RowTransformer", "UTF8Array", "bytes", "col", "ctable_from_cframe",
        "dictionary", "field", "from_utf8", "get_null_policy", "list", "null_policy", "object", "schema", "string",
        "struct", "timestamp", "to_utf8", "utf8", "utf8_array", "vlbytes", "vlstring",
    ), _TABLES),
    **dict.fromkeys((
        "postfilter_funcs", "prefilter_funcs", "register_codec", "register_filter", "ucodecs_registry",
        "ufilters_registry",
    ), _USERS),
}  # fmt: skip

#: Metalayers of objects that this package does not have: they can be described and copied, but not read.
OPAQUE_KINDS: Final = ("proxy-source", "b2o", "listarray", "LazyArray")

_METHODS: Final = frozenset((
    "argsort", "cumulative_prod", "cumulative_sum", "sort", "where",
))  # fmt: skip
_INDEXES: Final = (
    "compact_index", "create_index", "drop_index", "index", "indexes", "rebuild_index",
)  # fmt: skip


def names() -> Iterable[str]:
    """The names that `explain_name` knows."""
    return sorted({*_NUMPY, *_ADVICE})


def explain_name(name: str) -> AttributeError:
    """The error for a name that the package does not have."""
    if name in _NUMPY:
        module = isinstance(getattr(np, name, None), type(np))
        what = f"use numpy.{name}" if module else f"use numpy.{name} on what is read, as in numpy.{name}(array[...])"
        return AttributeError(
            f"this package has no blosc2.{name}: it stores arrays and does not compute with them; {what}"
        )
    if name in _ADVICE:
        return AttributeError(f"this package has no blosc2.{name}: {_ADVICE[name]} (doc/scope.md)")
    return AttributeError(f"module 'blosc2' has no attribute {name!r}")


class Absent:
    """In a class, a name that it does not have: the error says what to use instead, and `hasattr` says no.

    A `__getattr__` would do the same, and make every other attribute of the class slower.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, owner: object, kind: type) -> Never:
        if self.name in _INDEXES:
            raise AttributeError(
                f"{kind.__name__!r} has no {self.name}: there are no indexes; select with numpy on what is read"
            )
        raise AttributeError(
            f"{kind.__name__!r} has no {self.name}(): it does not compute with its items; use numpy.{self.name} on "
            f"what is read, as in numpy.{self.name}(array[...])"
        )


def explain_absent(kind: type[Kind]) -> type[Kind]:
    """Explain, in a class of arrays, each method that the published package has and this one has not."""
    for name in (*_METHODS, *_INDEXES):
        setattr(kind, name, Absent(name))
    return kind
