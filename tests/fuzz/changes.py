"""Random changes of an object, of whatever kind."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import blosc2
from blosc2.exceptions import FormatError

from .recorder import ENOUGH, Recorder
from .uses import _OBJECTS, _STORES, basic_key, block_cost


def change(rec: Recorder, x: Any, rng: random.Random) -> None:
    """One change of any kind."""
    try:
        _change(rec, x, rng)
    except (FormatError, NotImplementedError) as error:
        rec.outcomes.append(("attributes", type(error).__name__))


def _change(rec: Recorder, x: Any, rng: random.Random) -> None:
    if type(x) is blosc2.NDArray:
        change_array(rec, x, rng)
    elif isinstance(x, blosc2.NDArray):
        return
    elif isinstance(x, blosc2.SChunk):
        change_schunk(rec, x, rng)
    elif isinstance(x, _OBJECTS):
        change_list(rec, x, rng)
    elif isinstance(x, _STORES):
        change_store(rec, x, rng)
    if hasattr(x, "vlmeta") and rng.random() < 0.4:
        name = rng.choice(["a", "new", "note"])
        value = rng.choice([1, "x" * 200, {"a": (1, 2)}, [None, 2.5]])
        rec("set_vlmeta", "set vlmeta", lambda: x.vlmeta.__setitem__(name, value), compare=False)
        rec("missing", "delete vlmeta", lambda: x.vlmeta.__delitem__(name), compare=False)


def change_array(rec: Recorder, x: Any, rng: random.Random) -> None:
    shape, itemsize = x.shape, x.dtype.itemsize
    # of an array without items the header of the frame may claim smaller chunks than are made
    chunk = max(x.chunksize, math.prod(x.chunks) * itemsize, 0)
    costs = 4 * chunk + block_cost(x)
    if costs > 16 * ENOUGH:
        return
    key = basic_key(shape, rng, 5000)
    touched = min(len(list(itertools.islice(range(x.schunk.nchunks), 64))), 64) * chunk
    kind = rng.randrange(5)
    if kind < 2:
        value = np.zeros((), x.dtype)
        rec(
            "change",
            f"assign {key}",
            lambda: x.__setitem__(key, value),
            asked=costs + touched + 5000 * itemsize,
            compare=False,
        )
    elif kind == 2 and shape:
        new = tuple(rng.choice([n, n, n + 1, n + 7, max(0, n - 1), 0, 2 * n]) for n in shape)
        claimed = int(np.prod([float(n) for n in new]) * itemsize)
        if claimed < ENOUGH and x.nbytes < ENOUGH:
            rec("change", f"resize {new}", lambda: x.resize(new), asked=costs + claimed + 2 * x.nbytes, compare=False)
    elif kind == 3 and len(shape) == 1:
        rows = np.zeros(rng.choice([1, 3]), x.dtype)
        rec("change", "append", lambda: x.append(rows), asked=costs + 4 * rows.nbytes, compare=False)
    elif kind == 4:
        rec("refresh", "refresh", x.refresh, compare=False)


def change_list(rec: Recorder, x: Any, rng: random.Random) -> None:
    one: Any = [1, "x" * 200, (2, {"a": None})] if isinstance(x, blosc2.BatchArray) else {"a": "x" * 200, "b": (1, [2])}
    at = rng.randrange(-3, 4)
    key = slice(at, None, rng.choice([None, 2, -1]))
    asked = 4 * rec.size + 8 * min(max(x.nbytes, 0), ENOUGH)
    changes: list[tuple[str, Any]] = [
        ("append", lambda: x.append(one)), ("extend", lambda: x.extend([one, one])), ("pop", lambda: x.pop(at)),
        ("insert", lambda: x.insert(at, one)), ("delete", lambda: x.delete(key)), ("clear", x.clear),
        ("set", lambda: x.__setitem__(at, one)), ("reverse", x.reverse),
    ]  # fmt: skip
    what, act = rng.choice(changes)
    rec("change_list", what, act, asked=asked, compare=False)


def change_schunk(rec: Recorder, x: Any, rng: random.Random) -> None:
    size = x.chunksize if 0 < x.chunksize < ENOUGH else 64
    data = bytes(min(size, 1 << 16))
    data = data[: len(data) // max(1, x.typesize) * max(1, x.typesize)] or bytes(min(max(1, x.typesize), ENOUGH))
    nchunk = rng.choice([0, max(0, x.nchunks - 1), x.nchunks // 2])
    asked = 8 * size + 2 * rec.size + 3 * max(0, x.chunksize)  # a part of a chunk makes all of it anew
    if x.chunksize > 16 * ENOUGH or x.typesize > ENOUGH:  # an item alone would be large
        return
    changes: list[tuple[str, Any]] = [
        ("append_data", lambda: x.append_data(data)),
        ("update_data", lambda: x.update_data(nchunk, data, copy=True)),
        ("insert_data", lambda: x.insert_data(nchunk, data, copy=True)),
        ("delete_chunk", lambda: x.delete_chunk(nchunk)),
        ("set_slice", lambda: x.__setitem__(slice(0, 1), bytes(x.typesize))),
        ("reorder", lambda: x.reorder_offsets(np.arange(x.nchunks)[::-1].copy())),
    ]
    what, act = changes[rng.randrange(6)]
    if (what != "set_slice" or (x.nbytes and x.chunksize)) and (what != "reorder" or 0 < x.nchunks < 200):
        rec("change", what, act, asked=asked, compare=False)


def change_store(rec: Recorder, x: Any, rng: random.Random) -> None:
    keys = rec("list", "keys", lambda: list(itertools.islice(x.keys(), 500)), compare=False) or []
    key = rng.choice(keys) if keys else "/none"
    new = rng.choice(["/new", "/g/new", f"/n{rng.randrange(9)}", "/a/b/c/d", key])
    value = rng.choice([np.arange(5), np.zeros((3, 4), "f4"), 7, b"bytes", np.arange(3000)])
    asked = 4 * rec.size + ENOUGH
    kind = rng.randrange(13)
    if kind == 12:
        if keys:
            _change_leaf(rec, x, key, rng)
        return
    items = {f"/many/{i}": np.arange(i) for i in range(rng.choice([2, 300]) if kind == 5 else 0)}

    def transact() -> None:
        with x.transaction():
            x[new] = value
            x["/t"] = np.arange(3)

    put = "change_store", f"set {new!r}", lambda: x.__setitem__(new, value)
    changes: list[tuple[str, str, Callable[[], Any]]] = [
        put, put, put,
        ("change_store", "delete", lambda: x.__delitem__(key)),
        ("change_store", f"rename {key!r} {new!r}", lambda: x.rename(key, new)),
        ("change_store", "update", lambda: x.update(items)),
        ("change_store", "write_many", lambda: x.write_many([("/w/a", np.arange(4)), ("/w/b", np.zeros(9))])),
        ("change_store", "flush", x.flush),
        ("compact", "compact", lambda: x.compact()),
        ("refresh_changed", "refresh", x.refresh),
        ("change_store", "discard", x.discard),
        ("change_store", "transaction", transact),
    ]  # fmt: skip
    operation, what, act = changes[kind]
    if all(hasattr(x, name) for name in ("rename", "write_many", "compact") if what.startswith(name)):
        rec(operation, what, act, asked=asked, compare=False)


def _change_leaf(rec: Recorder, x: Any, key: str, rng: random.Random) -> None:
    """Change a leaf of a store, and perhaps publish that."""
    leaf = rec("leaf", "leaf to change", lambda: x[key], compare=False)
    asked = 4 * rec.size + ENOUGH
    if type(leaf) is blosc2.NDArray:
        change_array(rec, leaf, rng)
    elif isinstance(leaf, blosc2.TreeStore):
        rec("change_store", "set attribute", lambda: leaf.vlmeta.__setitem__("a", 1), asked=asked, compare=False)
    if rng.random() < 0.5:
        rec("change_store", "flush", x.flush, asked=asked, compare=False)
