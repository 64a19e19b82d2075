"""The manifest of the fixtures, and the same JSON form for what was read.

An object is compared by describing it as the manifest does (`describe`) and comparing the two descriptions:
no expected value is ever taken from the package under test.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1] / "data" / "fixtures"
_MANIFEST: dict[str, Any] = json.loads((ROOT / "manifest.json").read_text(encoding="utf-8"))

FILES: list[dict[str, Any]] = _MANIFEST["files"]
HOSTILE: list[dict[str, Any]] = _MANIFEST["hostile"]
STORE_KINDS = ("embedstore", "dictstore", "treestore")

# metalayers and vlmeta entries that belong to the format, not to the user
FORMAT_METALAYERS = ("b2nd", "vlarray", "batcharray")
FORMAT_VLMETA = ("_batch_array_metadata",)


def files(*kinds: str) -> list[dict[str, Any]]:
    """The entries of these kinds that hold data to read."""
    return [entry for entry in FILES if entry["kind"] in kinds]


def path_of(entry: dict[str, Any]) -> Path:
    """Where the file of a manifest entry lies."""
    return ROOT.joinpath(*entry["path"].split("/"))


def dtype_of(text: str) -> np.dtype[Any]:
    """The dtype behind the string of a b2nd metalayer."""
    return np.dtype(ast.literal_eval(text) if text[:1] in "[{" else text)


def sha256(data: Any) -> str:
    """The digest that the manifest uses for data."""
    return hashlib.sha256(data).hexdigest()


def tagged(value: Any) -> Any:
    """JSON for any value that metadata can hold; the tags are those of the fixtures' README."""
    if isinstance(value, str) and len(value) > 1000:
        return {"$str": {"len": len(value), "sha256": sha256(value.encode())}}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value if abs(value) < 2**53 else {"$int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, complex):
        return {"$complex": [tagged(value.real), tagged(value.imag)]}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, tuple):
        return {"$tuple": [tagged(item) for item in value]}
    if isinstance(value, list):
        return [tagged(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"$set": sorted((tagged(item) for item in value), key=repr)}
    if isinstance(value, dict):
        return {key: tagged(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        shape = list(value.shape)
        if value.dtype == object:
            return {"$ndarray": {"dtype": "object", "shape": shape, "values": tagged(value.ravel().tolist())}}
        return {"$ndarray": {"dtype": str(value.dtype), "shape": shape, "hex": value.tobytes().hex()}}
    if hasattr(value, "to_cframe"):
        return {"$cframe": describe(value)}
    raise TypeError(f"no tag for {type(value)}")


def describe(x: Any, *, data: bool = True) -> dict[str, Any]:
    """What an opened array or super-chunk holds, in the words of the manifest."""
    kind = type(x).__name__.lower()
    out: dict[str, Any] = {"kind": kind}
    schunk = getattr(x, "schunk", x)
    if kind == "ndarray":
        out |= {"shape": list(x.shape), "chunks": list(x.chunks), "blocks": list(x.blocks)}
        out["itemsize"] = x.dtype.itemsize
        if data:
            out["sha256"] = sha256(np.ascontiguousarray(x[()]).tobytes())
    elif kind == "objectarray":
        out["values"] = tagged(list(x))
    elif kind == "batcharray":
        out |= {"items_per_block": x.items_per_block, "batches": tagged([list(batch) for batch in x])}
    elif kind == "schunk":
        out |= {"nbytes": x.nbytes, "typesize": x.typesize, "chunksize": x.chunksize, "nchunks": x.nchunks}
        if data:
            out["sha256"] = sha256(b"".join(x.decompress_chunk(n) for n in range(x.nchunks)))
    cparams = x.cparams
    out |= {
        "codec": cparams.codec.name,
        "clevel": cparams.clevel,
        "filters": [f.name for f in cparams.filters],
        "filters_meta": list(cparams.filters_meta),
        "use_dict": bool(cparams.use_dict),
    }
    meta = {name: tagged(schunk.meta[name]) for name in schunk.meta if name not in FORMAT_METALAYERS}
    if meta:
        out["meta"] = meta
    vlmeta = {name: tagged(schunk.vlmeta[name]) for name in schunk.vlmeta if name not in FORMAT_VLMETA}
    if vlmeta:
        out["vlmeta"] = vlmeta
    return out


# facts about the file and its frame, checked apart from the object
_NOT_OF_THE_OBJECT = {"path", "made", "note", "frame", "file_size", "file_sha256", "reference", "opens_with", "offset"}
_NOT_OF_A_LEAF = {"tier", "member"}


def expected(entry: dict[str, Any]) -> dict[str, Any]:
    """The part of a manifest entry that `describe` must reproduce; the dtype is compared as a dtype."""
    return {k: v for k, v in entry.items() if k not in _NOT_OF_THE_OBJECT | _NOT_OF_A_LEAF | {"dtype"}}


def check(x: Any, entry: dict[str, Any], *, opaque_kinds: tuple[str, ...] = ()) -> None:
    """Assert that `x` is what the manifest says; kinds in `opaque_kinds` may be opaque super-chunks."""
    want = expected(entry)
    got = describe(x, data="sha256" in want)
    if entry["kind"] in opaque_kinds and got["kind"] == "schunk":
        return
    assert got == {**want, **{k: got[k] for k in got.keys() - want.keys() if k not in ("meta", "vlmeta")}}
    if "dtype" in entry:
        assert x.dtype == dtype_of(entry["dtype"])
        assert x.size == math.prod(entry["shape"])
        assert x.nbytes == x.size * entry["itemsize"]
        assert x.ndim == len(entry["shape"])
