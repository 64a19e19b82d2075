"""Reading everything that there is of an object, of whatever kind."""

from __future__ import annotations

import itertools
import math
import pickle
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2.exceptions import FormatError

from .recorder import ENOUGH, REFUSED, Recorder

_STORES = (blosc2.EmbedStore, blosc2.DictStore)
_OBJECTS = (blosc2.ObjectArray, blosc2.BatchArray)


def opened(rec: Recorder, path: Path, source: str | None, mode: str = "r", **how: Any) -> Any:
    """Open, or `REFUSED`."""
    how = {"mmap_mode": source, **how}
    return rec("open", f"open {mode} {how}", lambda: blosc2.open(str(path), mode=mode, **how))


# ------------------------------------------------------------------ keys
def basic_key(shape: tuple[int, ...], rng: random.Random, most: int) -> Any:
    """A key of integers and slices that selects a bounded number of items."""
    key: list[Any] = []
    for length in shape:
        kind = rng.random()
        if length == 0 or kind < 0.1:
            key.append(slice(None) if length < 50 else slice(0, 3))
        elif kind < 0.35:
            key.append(rng.choice([0, -1, length - 1, length // 2, rng.randrange(min(length, 1 << 62))]))
        else:
            size = rng.choice([1, 2, 5, 17])
            start = rng.choice([0, length - min(length, size), rng.randrange(min(length, 1 << 62))])
            step = rng.choice([1, 1, 1, 2, 3])
            if rng.random() < 0.1:
                key.append(slice(min(start + size, length), start or None, -step))
            else:
                key.append(slice(start, start + size, step))
    if rng.random() < 0.3:
        key = key[: rng.randrange(len(key) + 1)]
        rest = shape[len(key) :]
        key += [slice(0, 3) for n in rest if n > 50] if any(n > 50 for n in rest) else [...]
    if rng.random() < 0.1:
        key.insert(0, None)
    while count_of(shape, key) > most and key:
        wide = max(range(len(key)), key=lambda i: isinstance(key[i], slice))
        key[wide] = slice(0, 1)
        most *= 2
    return tuple(key)


def count_of(shape: tuple[int, ...], key: list[Any]) -> int:
    """How many items a key selects."""
    total, axes = 1, iter(shape)
    named = [k for k in key if k is not None and k is not ...]
    for item in itertools.chain(named, itertools.repeat(slice(None))):
        length = next(axes, None)
        if length is None:
            return total
        total *= len(range(*item.indices(length))) if isinstance(item, slice) else 1
    return total


def block_cost(x: Any) -> int:
    """Bytes of the blocks that are needed to get at any item: what a reader sees of it."""
    return 4 * max(0, int(x.blocksize))


# ------------------------------------------------------------------ reading
def use(rec: Recorder, x: Any, rng: random.Random, depth: int = 0) -> None:
    """Something of all that an object can do that changes nothing."""
    if x is REFUSED:
        return
    try:
        _use(rec, x, rng, depth)
    except (FormatError, NotImplementedError) as error:
        # of an attribute that is asked for beside the calls: tables are read when they are first needed
        rec.outcomes.append(("attributes", type(error).__name__))


def _use(rec: Recorder, x: Any, rng: random.Random, depth: int) -> None:
    if isinstance(x, blosc2.NDArray) and type(x).__name__ != "NDArray":
        rec("info", "repr", lambda: repr(x), compare=False)
    elif isinstance(x, blosc2.NDArray):
        use_array(rec, x, rng)
    elif isinstance(x, blosc2.SChunk):
        use_schunk(rec, x, rng)
    elif isinstance(x, _OBJECTS):
        use_objects(rec, x, rng)
    elif isinstance(x, _STORES) and depth < 2:
        use_store(rec, x, rng, depth)
    if hasattr(x, "vlmeta") and not isinstance(x, blosc2.DictStore):
        use_metadata(rec, x, rng)


def use_metadata(rec: Recorder, x: Any, rng: random.Random) -> None:
    """Metadata, all and one by one."""
    if rng.random() < 0.5:
        rec("vlmeta", "vlmeta[:]", lambda: x.vlmeta[:])
    names = rec("vlmeta", "names", lambda: list(x.vlmeta))
    for name in (names or [])[:3]:
        rec("vlmeta", "vlmeta[name]", lambda name=name: x.vlmeta[name])
    owner = getattr(x, "schunk", x)
    if hasattr(owner, "meta"):
        rec("meta", "meta", lambda: dict(owner.meta))


def use_array(rec: Recorder, x: Any, rng: random.Random) -> None:
    shape, itemsize = x.shape, x.dtype.itemsize
    most = max(1, ENOUGH // max(1, itemsize))
    block = block_cost(x)
    if block > 8 * ENOUGH and rng.random() < 0.9:  # takes long, and is allowed
        rec("info", "info", lambda: (repr(x), str(x.info), x.cratio), compare=False)
        return

    def cost(key: Any) -> int:
        return count_of(shape, list(key)) * itemsize + block

    for _ in range(rng.choice([1, 2, 4])):
        key = basic_key(shape, rng, most)
        rec("read", f"slice {key}", lambda key=key: x[key], asked=cost(key))
    if x.size <= most:
        rec("read", "all", lambda: x[()], asked=x.nbytes + block)
    kind = rng.randrange(15)
    key = basic_key(shape, rng, most)
    some = [[rng.randrange(min(n, 1 << 62)) for _ in range(rng.choice([1, 2, 5]))] if n else [] for n in shape]
    if kind == 0:
        keys = [basic_key(shape, rng, most // 4) for _ in range(rng.choice([1, 3, 20]))]
        rec("read", "read_many", lambda: x.read_many(keys), asked=sum(map(cost, keys)))
        keys = [key] * 3
        rec("read", "read_many of one", lambda: x.read_many(keys), asked=sum(map(cost, keys)))
    elif kind == 1 and shape:
        some = [
            [] if not n else s if len(shape) < 4 else s[:2] if i < 8 else s[:1]
            for i, (n, s) in enumerate(zip(shape, some))
        ]
        rec("read", "oindex", lambda: x.oindex[tuple(some)], asked=math.prod(map(len, some)) * itemsize + 8 * block)
    elif kind == 2 and shape and all(shape):
        length = min(map(len, some))
        key = tuple(s[:length] for s in some)
        rec("read", "points", lambda: x[key], asked=64 * itemsize + 8 * block)
    elif kind == 3:
        # without a mapping the items are never there as they are
        rec("view", "view", lambda: np.array(x.view(key)), asked=cost(key), compare=False)
        rec(
            "view",
            "without copy",
            lambda: x.size <= most and np.array(np.asarray(x, copy=False)),
            asked=x.nbytes,
            compare=False,
        )
    elif kind == 4 and x.size <= most:
        if sys.version_info >= (3, 12):  # before that, only C can make objects with a buffer
            # as above, what is mapped has memory to show, and what is read has none
            rec("view", "buffer", lambda: bytes(memoryview(x)), asked=2 * x.nbytes + block, compare=False)
        rec("iterate", "iterate", lambda: list(itertools.islice(x, 5)) if shape else None, asked=x.nbytes + 5 * block)
    elif kind == 5:
        rec("info", "info", lambda: (repr(x), str(x.info), x.cratio, x.ext_shape, x.ext_chunks), compare=False)
        rec("iterate", "chunks", lambda: [i.nchunk for i in itertools.islice(x.iterchunks_info(), 20)], asked=block)
    elif kind == 6:
        nchunk = rng.choice([0, 1, x.schunk.nchunks - 1])
        rec("change", "get_chunk", lambda: x.get_chunk(nchunk), asked=x.chunksize, compare=rec.sizes_comparable)
        if x.chunksize < ENOUGH:
            rec("change", "chunk", lambda: x.schunk.decompress_chunk(nchunk), asked=2 * x.chunksize)
    elif kind == 7 and len(shape) == 2 and x.size <= most and x.chunksize < ENOUGH:
        # the new array has chunks of the same size, and one of them is made at a time
        rec("read", "transposed", lambda: np.asarray(x.T), asked=3 * x.nbytes + block + 2 * x.chunksize)
    elif kind == 8:
        name = rng.choice(x.dtype.names) if x.dtype.names else None
        if name:
            rec("read", "field", lambda: x[name][key], asked=2 * cost(key))
        # NumPy counts the other axes of an empty array, too.
        if math.prod(max(n, 1) for n in shape) < 1000 and not x.dtype.hasobject:
            into = np.zeros(shape, x.dtype)
            rec("read", "read into", lambda: x.read(..., out=into), asked=x.nbytes + block)
    elif kind == 9:
        rec("copy", "cframe", lambda: x.to_cframe() if rec.size < ENOUGH else None, asked=2 * rec.size, compare=False)
        if x.size <= most:
            rec("copy", "copy", lambda: x.copy()[()], asked=3 * x.nbytes + 2 * x.chunksize + block)
            # a compressed array has 16 axes at most, and `newaxis` makes one more
            if x.ndim < 16 or type(key) is not tuple or not any(k is None for k in key):
                rec("copy", "slice", lambda: x.slice(key)[()], asked=3 * cost(key) + 2 * x.chunksize)
    elif kind == 10:
        rec("pickle", "pickle", lambda: pickle.loads(pickle.dumps(x))[key], asked=cost(key) + 2 * rec.size)
    elif kind == 11 and x.size <= most:
        rec("copy", "reshape", lambda: x.reshape((x.size,))[()], asked=4 * x.nbytes + 2 * x.chunksize + block)
    elif kind == 12:
        # The key is one of the version before: another one may be shorter.
        rec("read", "advise", lambda: x.advise("willneed", key), asked=block)
        rec("refresh", "refresh", lambda: x.refresh())
    elif kind == 14:
        wide = (*[None] * rng.choice([16, 48, 60, 64, 65, 80, 1000]), *key)
        rec("wide", "a key of many axes", lambda: x[wide], asked=cost(key))
        rec("wide", "keys of many axes", lambda: x.read_many([wide] * 3), asked=3 * cost(key))
    elif kind == 13 and shape and x.size <= most:
        mask = np.arange(shape[0]) % 3 == 0 if shape[0] < 10_000 else None
        if mask is not None:
            rec("read", "mask", lambda: x[mask], asked=2 * x.nbytes + 4 * block)


def use_schunk(rec: Recorder, x: Any, rng: random.Random) -> None:
    size, block = x.nbytes, block_cost(x)
    chunk = max(0, x.chunksize)
    count = len(x)
    for _ in range(rng.choice([1, 3])):
        start = rng.choice([0, max(0, count - 5), rng.randrange(min(count, 1 << 62)) if count else 0])
        # An item of a damaged header may have 128 MiB, and a hundred of them no memory.
        stop = start + min(rng.choice([1, 5, 100]), max(1, 8 * ENOUGH // max(1, x.typesize)))
        if block <= 8 * ENOUGH:
            rec("read", "slice", lambda a=start, b=stop: x[a:b], asked=(stop - start) * x.typesize + block)
    if size <= ENOUGH:
        rec("read", "all", lambda: x[:], asked=2 * size + block)
    kind = rng.randrange(7)
    nchunk = rng.choice([0, x.nchunks - 1, x.nchunks // 2])
    if kind == 0:
        rec("change", "get_chunk", lambda: x.get_chunk(nchunk), asked=rec.size, compare=rec.sizes_comparable)
        if chunk <= ENOUGH and (chunk or size < ENOUGH):
            rec("change", "decompress_chunk", lambda: x.decompress_chunk(nchunk), asked=2 * (chunk or size))
            into = bytearray(chunk or min(size, ENOUGH))
            rec(
                "change",
                "decompress_chunk into",
                lambda: x.decompress_chunk(nchunk, dst=into),
                asked=2 * len(into),
                compare=False,
            )
    elif kind == 1:
        rec("info", "info", lambda: (repr(x), str(x.info), x.cratio, x.cbytes), compare=False)
        rec("iterate", "chunks", lambda: [(i.nchunk, i.special) for i in itertools.islice(x.iterchunks_info(), 20)])
    elif kind == 2 and size <= ENOUGH:
        rec(
            "iterate",
            "iterate",
            lambda: list(itertools.islice(x, 10)),
            asked=10 * x.typesize + 2 * (chunk or size) + block,
        )
        rec("iterate", "iterchunks", lambda: list(x.iterchunks("u1")), asked=2 * size + block)
    elif kind == 3:
        rec("pickle", "pickle", lambda: type(pickle.loads(pickle.dumps(x))).__name__, asked=2 * rec.size)
        rec("refresh", "refresh", lambda: x.refresh())
    elif kind == 4 and size <= ENOUGH:
        rec("copy", "copy", lambda: x.copy().nbytes, asked=2 * size + 2 * chunk)
        rec("copy", "cframe", lambda: x.to_cframe(), asked=2 * rec.size, compare=False)
    elif kind == 5:
        stop = min(count, 1000)
        rec("read", "get_slice_nchunks", lambda: list(blosc2.get_slice_nchunks(x, (0, stop)))[:5], asked=64 * stop)
    elif kind == 6:
        rec("get_vlblock", "get_vlblock", lambda: x.get_vlblock(nchunk, 0), asked=chunk or size)


def use_objects(rec: Recorder, x: Any, rng: random.Random) -> None:
    count = rec("objects", "len", lambda: len(x)) or 0
    asked = 2 * min(max(x.nbytes, 0), 64 * rec.size + ENOUGH)
    rec("info", "info", lambda: (repr(x), str(x.info)), compare=False)
    if count:
        for at in {0, count - 1, rng.randrange(min(count, 1 << 62))}:
            rec("objects", "item", lambda at=at: _plain(x[at]), asked=asked)
    if count < 2000:
        rec("objects", "iterate", lambda: [_plain(v) for v in itertools.islice(x, 500)], asked=asked)
        rec("objects", "slice", lambda: [_plain(v) for v in x[: min(count, 20)]], asked=asked)
    if isinstance(x, blosc2.BatchArray) and count:
        at = rng.randrange(min(count, 1 << 62))
        rec("objects", "batch item", lambda: (len(x[at]), x[at][0], x[at][-1]), asked=asked)
        rec("objects", "batch part", lambda: x[at][1:3], asked=asked)
        rec("objects", "one of all", lambda: (len(x.items), x.items[-1]), asked=asked)
    if isinstance(x, blosc2.BatchArray) and rng.random() < 0.5:
        rec("objects", "items", lambda: list(itertools.islice(x.iter_items(), 100)), asked=asked)
    if rng.random() < 0.2:
        rec("copy", "copy", lambda: len(x.copy()), asked=asked + 2 * rec.size)
        rec("pickle", "pickle", lambda: len(pickle.loads(pickle.dumps(x))), asked=2 * rec.size)


def _plain(value: Any) -> Any:
    return list(value) if type(value).__name__ == "Batch" else value


def use_store(rec: Recorder, x: Any, rng: random.Random, depth: int = 0) -> None:
    keys = rec("list", "keys", lambda: list(itertools.islice(x.keys(), 3000))) or []
    rec("list", "len", lambda: len(x))
    rec("info", "repr", lambda: repr(x), compare=False)
    for key in dict.fromkeys([*keys[:2], *(rng.choice(keys) for _ in range(rng.choice([1, 3, 8])) if keys)]):
        leaf = rec("leaf", f"store[{key!r}]", lambda key=key: x[key])
        if rng.random() < 0.5:
            rec("list", "in", lambda key=key: key in x)
        use(rec, leaf, rng, depth + 1)
    for key in rng.choice([["/nothing"], ["/a/b/c"], ["/x" * 100]]):
        rec("leaf", "missing", lambda key=key: x[key], compare=False)
        rec("list", "not in", lambda key=key: key in x)
    kind = rng.randrange(8)
    if kind < 3 and keys:
        arrays = [k for k in keys[:200] if _small(rec, x, k)]
        batch = [rng.choice(arrays) for _ in range(rng.choice([1, 2, 10]))] if arrays else []
        asked = sum(x[k].nbytes + block_cost(x[k]) for k in batch) if batch else 0
        rec("read_many", "read_many", lambda: x.read_many(batch), asked=2 * asked)
        for key in batch[:2]:
            rec("leaf", "read", lambda key=key: x.read(key), asked=asked)
    elif kind == 3:
        rec("leaf", "values", lambda: [type(v).__name__ for v in itertools.islice(x.values(), 20)])
    elif kind == 4 and depth == 0 and x.mode == "r":
        rec("pickle", "pickle", lambda: len(pickle.loads(pickle.dumps(x))), asked=4 * rec.size)
    elif kind == 5:
        rec("read_many", "advise", lambda: x.advise("willneed", keys=keys[:5]))
    if isinstance(x, blosc2.DictStore):
        use_dict_store(rec, x, rng, keys)
    if isinstance(x, blosc2.TreeStore):
        use_tree(rec, x, rng, keys, depth)


def _small(rec: Recorder, x: Any, key: str) -> bool:
    leaf = rec("leaf", "leaf", lambda: x[key])
    return (
        isinstance(leaf, blosc2.NDArray)
        and type(leaf) is blosc2.NDArray
        and leaf.nbytes + block_cost(leaf) < ENOUGH // 4
    )


def use_dict_store(rec: Recorder, x: Any, rng: random.Random, keys: list[str]) -> None:
    if rng.random() < 0.5:
        depth = rng.choice([0, 1, 3])
        rec("stats", "stats", lambda: x.stats(depth=depth), compare=rec.sizes_comparable)
        rec("stats", "stats by", lambda: x.stats(by=("kind", "dtype", "codec")), compare=rec.sizes_comparable)
    for key in keys[:3]:
        rec("describe", "describe", lambda key=key: x.describe(key), compare=rec.sizes_comparable)
        rec("leaf", "member_window", lambda key=key: x.member_window(key), compare=rec.sizes_comparable)
    if rng.random() < 0.3:
        rec("list", "map_tree", lambda: list(itertools.islice(x.map_tree, 100)))
        rec("info", "info", lambda: str(x.info), compare=False)
        estore = rec("leaf", "estore", lambda: x.estore)
        if isinstance(estore, blosc2.EmbedStore):
            rec("list", "embedded", lambda: list(estore.keys())[:50])


def use_tree(rec: Recorder, x: Any, rng: random.Random, keys: list[str], depth: int) -> None:
    rec("list", "walk", lambda: list(itertools.islice(x.walk(topdown=rng.random() < 0.5), 2000)))
    rec("attributes", "attributes", lambda: x.vlmeta[:])
    groups = sorted({k.rpartition("/")[0] for k in keys} - {""})
    if rng.random() < 0.5:
        rec("tree", "tree", lambda: str(x.tree()))
    for group in groups[: rng.choice([1, 3])]:
        rec("stats", "children", lambda group=group: x.get_children(group))
        rec("stats", "descendants", lambda group=group: x.get_descendants(group)[:50])
        sub = rec("leaf", "subtree", lambda group=group: x.get_subtree(group))
        if sub is not REFUSED and depth == 0 and rng.random() < 0.4:
            use_store(rec, sub, rng, 1)
