"""What is done with a file: plays, each a few calls, the same for the same seed and visible state."""

from __future__ import annotations

import itertools
import math
import os
import pickle
import random
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blosc2
from blosc2.exceptions import FormatError

from . import layout
from .recorder import ENOUGH, REFUSED, Failure, Recorder, digest

#: How a play is called: recorder, path, source ("r" or None), random numbers.
Play = Callable[[Recorder, Path, str | None, random.Random], None]

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
            rec("view", "buffer", lambda: bytes(memoryview(x)), asked=2 * x.nbytes + block)
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
        rec("refresh", "refresh", lambda: x.refresh())
        rec("read", "advise", lambda: x.advise("willneed", key), asked=block)
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
        stop = start + rng.choice([1, 5, 100])
        if block <= 8 * ENOUGH:
            rec("read", "slice", lambda a=start, b=stop: x[a:b], asked=100 * x.typesize + block)
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


def play_read(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Open for reading and use."""
    how: dict[str, Any] = {}
    if rng.random() < 0.4:
        how["verify"] = rng.random() < 0.6
    if rng.random() < 0.1:
        how["deserialize"] = "full"
    if rng.random() < 0.1:
        how["advise"] = rng.choice(["random", "sequential", "willneed"])
    rec.named = path.name
    x = opened(rec, path, source, **how)
    if x is REFUSED:
        return
    try:
        use(rec, x, rng)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)


def play_check(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """`check`, and whether what it calls whole can be read."""
    report = rec("check", "check", lambda: blosc2.check(str(path)), compare=False)
    rec("check", "repr", lambda: repr(report), compare=False)
    if report is not REFUSED and report.ok and not report.unverified:
        try:
            _read_all(path, source)
        except FormatError as error:
            raise Failure("check", "found nothing, but reading fails", str(error)[:300]) from error
        except (NotImplementedError, blosc2.UnsafeDeserializationError):
            pass


def _read_all(path: Path, source: str | None) -> None:
    x = blosc2.open(str(path), mmap_mode=source)
    leaves = [x]
    if isinstance(x, _STORES):
        leaves = [x[key] for key in itertools.islice(x.keys(), 300)]
    for leaf in leaves:
        if type(leaf) is blosc2.NDArray:
            if leaf.nbytes < ENOUGH:
                leaf[()]
        elif isinstance(leaf, blosc2.SChunk) and leaf.nbytes < ENOUGH:
            leaf[:]
        if isinstance(leaf, blosc2.NDArray | blosc2.SChunk):
            leaf.vlmeta[:]
    if hasattr(x, "close"):
        x.close()


def play_salvage(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """`salvage`, and whether what it wrote is whole."""
    suffix = path.suffix if path.suffix in (".b2z", ".b2d", ".b2e") else ".b2nd"
    if suffix == ".b2z" and rng.random() < 0.3:
        suffix = ".b2d"
    out = path.parent / f"salvaged{suffix}"
    _remove(out)
    fill = rng.choice([None, None, 0, 7.5])
    if path.is_dir() and not (path / "embed.b2e").exists():
        return  # a directory of chunks, for which it says that it does nothing
    kind = rec("check", "kind", lambda: _kind(path))
    if (kind in ("archive", "directory", "embedded")) != (suffix in (".b2z", ".b2d", ".b2e")):
        suffix = ".b2z" if kind in ("archive", "directory", "embedded") else ".b2nd"
        out = path.parent / f"salvaged{suffix}"
        _remove(out)
    report = rec("salvage" if fill != 7.5 else "salvage with a value", f"salvage fill={fill}",
                 lambda: blosc2.salvage(str(path), str(out), fill=fill),
                 asked=0 if fill is None else _claimed(path), compare=False)  # fmt: skip
    if report is not REFUSED:
        rec("info", "repr", lambda: repr(report), compare=False)
        again = rec("check", "check of what was salvaged", lambda: blosc2.check(str(out)), compare=False)
        if not again.ok and not report.lost:  # damaged metadata and values are kept, and told
            raise Failure("salvage", "what it wrote is damaged", str(list(again)[:3]))
        x = opened(rec, out, source)
        use(rec, x, rng)
        if hasattr(x, "close"):
            x.close()
    _remove(out)


def _kind(path: Path) -> str:
    from blosc2._integrity.checking import kind_of_path

    return str(kind_of_path(str(path)))


def _claimed(path: Path) -> int:
    """Bytes that an array says it has: with `fill`, that is what is asked for."""
    try:
        return min(int(blosc2.open(str(path)).nbytes), 1 << 28)
    except Exception:  # noqa: BLE001 - then it says nothing
        return 0


def play_cframe(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """The same bytes as a frame in memory, a chunk, and a pickle."""
    if path.is_dir():
        return
    data = path.read_bytes()
    readers = [blosc2.from_cframe, blosc2.schunk_from_cframe, blosc2.ndarray_from_cframe,
               blosc2.objectarray_from_cframe,
               blosc2.estore_from_cframe]  # fmt: skip
    x = rec("from_cframe", "from_cframe", lambda: readers[0](data, copy=rng.random() < 0.5), asked=2 * len(data))
    use(rec, x, rng)
    other = rng.choice(readers[1:])
    rec("from_cframe", other.__name__, lambda: other(data), asked=2 * len(data))
    if len(data) >= 16:
        claimed = min(int.from_bytes(data[4:8], "little"), 1 << 31)
        if claimed < 16 * ENOUGH:
            rec("decompress", "decompress2", lambda: blosc2.decompress2(data), asked=2 * claimed)
            rec("decompress", "decompress", lambda: blosc2.decompress(data), asked=2 * claimed)
            into = bytearray(max(1, min(claimed, ENOUGH)))
            rec(
                "decompress",
                "decompress2 into",
                lambda: blosc2.decompress2(data, dst=into),
                asked=2 * claimed,
                compare=False,
            )
        rec("decompress", "sizes", lambda: blosc2.get_cbuffer_sizes(data))
        rec("decompress", "library", lambda: blosc2.get_clib(data))
    for unpack in (blosc2.unpack_tensor, blosc2.unpack_array2):
        if x is REFUSED or getattr(x, "nbytes", 0) < ENOUGH:
            rec("unpack", unpack.__name__, lambda unpack=unpack: unpack(data), asked=8 * ENOUGH)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()
    lock = path.with_name(path.name + ".b2lock")
    if lock.exists():
        lock.unlink()


# ------------------------------------------------------------------ changing
def play_change(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Open for writing and change; then open again and read."""
    mode: dict[str, Any] = {"mode": "a", "mmap_mode": None}
    mapped = rng.choice([None, "r+", "c"])
    if source == "r" and path.suffix not in (".b2z", ".b2d", ".b2e") and path.is_file():
        mode = {"mode": "a", "mmap_mode": mapped}
        rec.comparable = mapped != "c"  # whose changes stay in memory
    rec.sizes_comparable = False
    x = rec("open", f"open {mode}", lambda: blosc2.open(str(path), **mode))
    if x is REFUSED:
        return
    try:
        for _ in range(rng.choice([1, 2, 4])):
            change(rec, x, rng)
        use(rec, x, rng)
        if isinstance(x, blosc2.NDArray | blosc2.SChunk) and rng.random() < 0.3:
            rec("compact", "compact", x.compact, asked=8 * (path.stat().st_size if path.is_file() else rec.size))
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)
    del x
    use(rec, opened(rec, path, source), rng)


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
    costs = 4 * max(x.chunksize, 0) + block_cost(x)
    if costs > 16 * ENOUGH:
        return
    key = basic_key(shape, rng, 5000)
    touched = min(len(list(itertools.islice(range(x.schunk.nchunks), 64))), 64) * max(x.chunksize, 0)
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
    kind = rng.randrange(6)
    if kind == 0:
        rec("change", "append_data", lambda: x.append_data(data), asked=asked, compare=False)
    elif kind == 1:
        rec("change", "update_data", lambda: x.update_data(nchunk, data, copy=True), asked=asked, compare=False)
    elif kind == 2:
        rec("change", "insert_data", lambda: x.insert_data(nchunk, data, copy=True), asked=asked, compare=False)
    elif kind == 3:
        rec("change", "delete_chunk", lambda: x.delete_chunk(nchunk), asked=asked, compare=False)
    elif kind == 4 and x.nbytes and x.chunksize:
        rec("change", "set_slice", lambda: x.__setitem__(slice(0, 1), bytes(x.typesize)), asked=asked, compare=False)
    elif kind == 5 and x.nchunks < 200 and x.nchunks:
        order = np.arange(x.nchunks)[::-1].copy()
        rec("change", "reorder", lambda: x.reorder_offsets(order), asked=asked, compare=False)


def change_store(rec: Recorder, x: Any, rng: random.Random) -> None:
    keys = rec("list", "keys", lambda: list(itertools.islice(x.keys(), 500)), compare=False) or []
    key = rng.choice(keys) if keys else "/none"
    new = rng.choice(["/new", "/g/new", f"/n{rng.randrange(9)}", "/a/b/c/d", key])
    value = rng.choice([np.arange(5), np.zeros((3, 4), "f4"), 7, b"bytes", np.arange(3000)])
    asked = 4 * rec.size + ENOUGH
    kind = rng.randrange(13)
    if kind < 3:
        rec("change_store", f"set {new!r}", lambda: x.__setitem__(new, value), asked=asked, compare=False)
    elif kind == 3:
        rec("change_store", "delete", lambda: x.__delitem__(key), asked=asked, compare=False)
    elif kind == 4 and hasattr(x, "rename"):
        rec("change_store", f"rename {key!r} {new!r}", lambda: x.rename(key, new), asked=asked, compare=False)
    elif kind == 5:
        items = {f"/many/{i}": np.arange(i) for i in range(rng.choice([2, 300]))}
        rec("change_store", "update", lambda: x.update(items), asked=asked, compare=False)
    elif kind == 6 and hasattr(x, "write_many"):
        rec("change_store", "write_many", lambda: x.write_many([("/w/a", np.arange(4)), ("/w/b", np.zeros(9))]),
            asked=asked,
            compare=False)  # fmt: skip
    elif kind == 7:
        rec("change_store", "flush", x.flush, asked=asked, compare=False)
    elif kind == 8 and hasattr(x, "compact"):
        rec("compact", "compact", x.compact, asked=asked, compare=False)
    elif kind == 9:
        rec("refresh_changed", "refresh", x.refresh, asked=asked, compare=False)
    elif kind == 10:
        rec("change_store", "discard", x.discard, asked=asked, compare=False)
    elif kind == 11:

        def transact() -> None:
            with x.transaction():
                x[new] = value
                x["/t"] = np.arange(3)

        rec("change_store", "transaction", transact, asked=asked, compare=False)
    elif kind == 12 and keys:
        leaf = rec("leaf", "leaf to change", lambda: x[key], compare=False)
        if type(leaf) is blosc2.NDArray:
            change_array(rec, leaf, rng)
        elif isinstance(leaf, blosc2.TreeStore):
            rec("change_store", "set attribute", lambda: leaf.vlmeta.__setitem__("a", 1), asked=asked, compare=False)
        if rng.random() < 0.5:
            rec("change_store", "flush", x.flush, asked=asked, compare=False)


def play_convert(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Copy to another form: archive, directory, another file."""
    x = opened(rec, path, source)
    out = path.parent / "converted"
    try:
        if isinstance(x, blosc2.DictStore):
            for name, suffix in (("to_b2z", ".b2z"), ("to_b2d", ".b2d"))[1 if x.is_zip_store else 0 :]:
                target = out.with_suffix(suffix)
                _remove(target)
                call = getattr(x, name)
                made = rec("convert", name, lambda call=call,
                           target=target: str(call(filename=str(target)) if name == "to_b2z"  # noqa: B023
                           else call(str(target)))[-3:], asked=4 * rec.size + ENOUGH)  # fmt: skip
                if made is not REFUSED:
                    use(rec, opened(rec, target, source), rng)
                _remove(target)
        elif isinstance(x, blosc2.NDArray | blosc2.SChunk) and hasattr(x, "to_cframe"):
            target = out.with_suffix(".b2nd")
            _remove(target)
            if type(x) is blosc2.NDArray:
                rec("convert", "save", lambda: x.save(str(target)), asked=4 * rec.size + 4 * x.chunksize, compare=False)
            elif isinstance(x, blosc2.SChunk):
                rec(
                    "convert",
                    "copy",
                    lambda: x.copy(urlpath=str(target), mode="w").nbytes,
                    asked=4 * rec.size + 4 * x.chunksize,
                )
            if target.exists():
                use(rec, opened(rec, target, source), rng)
            _remove(target)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close)


# ------------------------------------------------------------------ damage after opening
def play_moving(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Change the file under an open handle. A mapped one is never cut: the system answers that with SIGBUS."""
    from . import mutate
    from .samples import read

    x = opened(rec, path, source)
    if x is REFUSED:
        return
    leaf = REFUSED
    try:
        if isinstance(x, _STORES):
            keys = rec("list", "keys", lambda: list(itertools.islice(x.keys(), 100)), compare=False) or []
            if keys and rng.random() < 0.7:
                leaf = rec("leaf", "leaf", lambda: x[keys[0]], compare=False)
        if rng.random() < 0.6:
            use(rec, x, random.Random(1))
        for _ in range(rng.choice([1, 3])):
            files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
            file = rng.choice(sorted(files))
            old = file.read_bytes()
            sample, _ = mutate.damaged(read(file), rng, [read(file)])
            new = next(iter(sample.files.values()), b"")
            with open(file, "r+b") as stream:
                # a mapping sees the same bytes when they are put in place; the file never gets shorter under one
                stream.write(new if source is None else new[: len(old)])
                if source is None and rng.random() < 0.7:
                    stream.truncate(len(new))
            watched = _Uncompared(rec)
            use(watched, x, rng)
            if leaf is not REFUSED:
                use(watched, leaf, rng)
            if rng.random() < 0.4:
                watched("refresh", "refresh", x.refresh)
                use(watched, x, rng)
    finally:
        if hasattr(x, "close"):
            rec("close", "close", x.close, compare=False)


class _Uncompared:
    """A recorder whose results differ between sources: what a handle has in memory already is its own affair."""

    def __init__(self, rec: Recorder) -> None:
        self._rec, self.size, self.outcomes = rec, rec.size, rec.outcomes
        self.sizes_comparable = False

    def __call__(
        self, operation: str, what: str, call: Callable[[], Any], *, asked: int = 0, compare: bool = True
    ) -> Any:
        return self._rec(operation, what, call, asked=asked + 4 * ENOUGH, compare=False)


# ------------------------------------------------------------------ what must be the same
def sound_of(path: Path) -> Path:
    """Where the file before its damage is put."""
    return path.with_name(f"sound{path.suffix}")


def values(rec: Recorder, x: Any, limit: int = 60) -> dict[str, str]:
    """What an object holds, by name: errors by their class."""
    found: dict[str, str] = {}

    def note(name: str, operation: str, call: Callable[[], Any], asked: int = 0) -> Any:
        value = rec(operation, name, call, asked=asked)
        found[name] = rec.outcomes[-1][1]
        return value

    def note_leaf(name: str, leaf: Any) -> None:
        try:
            if type(leaf) is blosc2.NDArray and leaf.nbytes <= ENOUGH:
                found[f"{name} facts"] = repr((leaf.shape, leaf.dtype))
                note(f"{name} items", "read", lambda: leaf[()], 2 * leaf.nbytes + block_cost(leaf))
            elif isinstance(leaf, blosc2.SChunk) and leaf.nbytes <= ENOUGH:
                found[f"{name} facts"] = repr((leaf.nbytes, leaf.typesize))
                note(f"{name} items", "read", lambda: leaf[:], 2 * leaf.nbytes + block_cost(leaf))
            elif isinstance(leaf, _OBJECTS):
                note(f"{name} items", "objects", lambda: [_plain(v) for v in leaf], ENOUGH)
        except FormatError:
            found[f"{name} items"] = "FormatError"
        if hasattr(leaf, "vlmeta") and not isinstance(leaf, _STORES):
            note(f"{name} vlmeta", "vlmeta", lambda: leaf.vlmeta[:])

    if not isinstance(x, _STORES):
        note_leaf("it", x)
        return found
    keys = note("keys", "list", lambda: list(x.keys())) or []
    note("count", "list", lambda: len(x))
    if isinstance(x, blosc2.TreeStore):
        note("walk", "list", lambda: list(x.walk()))
        note("vlmeta", "attributes", lambda: x.vlmeta[:])
    for key in keys[:limit]:
        note_leaf(key, note(key, "leaf", lambda key=key: x[key]))
    return found


def _close(rec: Recorder, x: Any) -> None:
    if x is not REFUSED and hasattr(x, "close"):
        rec("close", "close", x.close)


def play_catalog(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Damage to a catalog must not be seen."""
    _play_catalog(rec, path, source, rng, forged=False)


def play_forged(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """A catalog that lies, with right checksums, may hide keys; no value is wrong, and nothing fails."""
    _play_catalog(rec, path, source, rng, forged=True)


def _play_catalog(rec: Recorder, path: Path, source: str | None, rng: random.Random, *, forged: bool) -> None:
    x, y = opened(rec, path, source), opened(rec, sound_of(path), source)
    if y is REFUSED:
        return
    if x is REFUSED:
        raise Failure("wrong value", "catalog", "an archive with a damaged catalog is not opened")
    right, got = values(rec, y), values(rec, x)
    if forged:
        keys = list(y)
        got = {}
        for key in keys[:60]:
            if rec("list", "in", lambda key=key: key in x):
                leaf = rec("leaf", key, lambda key=key: x[key])
                if type(leaf) is blosc2.NDArray:
                    got[f"{key} items"] = digest(leaf[()])
        right = {name: value for name, value in right.items() if name in got}
    else:
        got["stats"] = digest(rec("stats", "stats", lambda: x.stats(depth=2, by="dtype")))
        right["stats"] = digest(rec("stats", "stats", lambda: y.stats(depth=2, by="dtype")))
    for name, value in right.items():
        if got.get(name) != value:
            raise Failure("wrong value", f"catalog: {name.rpartition(' ')[2]}", f"{name}: {got.get(name)} for {value}")
    use(rec, x, rng)
    _close(rec, x)
    _close(rec, y)


def play_verify(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """What carries checksums is right or refused with `verify=True`, and `check` finds what is wrong.

    After one wrong byte what is read as a whole is so without being asked for.
    """
    sound = sound_of(path)
    if not sound.exists() or sound.read_bytes() == path.read_bytes():
        return
    report = rec("check", "check", lambda: blosc2.check(str(path)), compare=False)
    if report.ok and not report.unverified:
        raise Failure("check", "verify", "a wrong byte was not found")
    _compare_read(rec, path, source, True)
    good, damaged = sound.read_bytes(), path.read_bytes()
    if len(good) == len(damaged) and sum(a != b for a, b in zip(good, damaged, strict=True)) == 1:
        _compare_read(rec, path, source, None)


def _compare_read(rec: Recorder, path: Path, source: str | None, verify: bool | None) -> None:
    """Compare what is read of a damaged file with the sound one; without `verify`, what is read as a whole."""
    how = {} if verify is None else {"verify": verify}
    x = opened(rec, path, source, **how)
    y = opened(rec, sound_of(path), source)
    if x is not REFUSED and type(x) is type(y):
        got, right = values(rec, x), values(rec, y)
        for name, value in right.items():
            if verify is None and not name.endswith((" items", " facts")):
                continue
            if got.get(name, value) not in (value, "FormatError") and name not in ("keys", "count", "walk", "vlmeta"):
                play = "verify" if verify else "default"
                raise Failure("wrong value", f"{play}: {name.rpartition(' ')[2]}", f"{name}: {got[name]} for {value}")
    elif x is not REFUSED:
        raise Failure("wrong value", "verify", f"{type(x)} for {type(y)}")
    _close(rec, x)
    _close(rec, y)


def play_stale(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Fields that readers do not use may hold anything."""
    if path.is_dir():
        return
    data = bytearray(path.read_bytes())
    if sound_of(path).exists() and sound_of(path).read_bytes() != data:
        return  # of damaged files it is not clear where the fields are, nor in archives, which have dead ones
    if not data.startswith(layout.FRAME_MAGIC):
        return
    fields = [f for f in layout.frame_fields(data, 0) if f.name in layout.STALE]
    first = values(rec, opened(rec, path, source))
    for field in fields:
        if rng.random() < 0.7:
            marker = field.name == "header.has_vlmeta"
            data[field.at : field.at + field.width] = (
                rng.choice([b"\xc2", b"\xc3"]) if marker else rng.randbytes(field.width)
            )
    data[86] = 0  # without the mark of checksums, which such a header would contradict
    other = path.with_name(f"stale{path.suffix}")
    other.write_bytes(data)
    second = values(rec, opened(rec, other, source))
    if first != second:
        name = next(n for n in first if first.get(n) != second.get(n))
        raise Failure("wrong value", "stale", f"{name}: {first.get(name)} and {second.get(name)}")


def play_cut(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """A frame that is cut short is refused, wherever it is cut."""
    x = opened(rec, path, source)
    if x is not REFUSED:
        raise Failure("wrong value", "cut", f"a frame that is cut to {rec.size} bytes was accepted")


def play_facts(rec: Recorder, path: Path, source: str | None, rng: random.Random) -> None:
    """Damage behind the header changes neither shape nor dtype nor partitions."""
    sound = sound_of(path)
    if not sound.exists():
        return
    x, y = opened(rec, path, source), opened(rec, sound, source)
    if x is REFUSED or y is REFUSED:
        return
    first, second = facts(x), facts(y)
    if first != second:
        raise Failure("wrong value", "facts", f"{first} for {second}")
    use(rec, x, rng)


def facts(x: Any) -> dict[str, str]:
    """What the header of a frame settles."""
    names = ("nbytes", "shape", "dtype", "chunks", "blocks", "typesize", "chunksize", "blocksize")
    return {"kind": type(x).__name__, **{name: repr(getattr(x, name)) for name in names if hasattr(x, name)}}


PLAYS: dict[str, tuple[Play, int]] = {
    "read": (play_read, 8),
    "check": (play_check, 2),
    "salvage": (play_salvage, 2),
    "cframe": (play_cframe, 2),
    "change": (play_change, 5),
    "convert": (play_convert, 1),
    "moving": (play_moving, 4),
    # chosen for damage that they are about
    "stale": (play_stale, 0),
    "cut": (play_cut, 0),
    "facts": (play_facts, 0),
    "catalog": (play_catalog, 0),
    "forged": (play_forged, 0),
    "verify": (play_verify, 0),
}


def choose(rng: random.Random, sample_suffix: str) -> str:
    """Which play."""
    if sample_suffix == ".chunk":
        return "cframe"
    names = list(PLAYS)
    return rng.choices(names, [PLAYS[n][1] for n in names])[0]


def path_in(folder: Path, suffix: str) -> Path:
    """Where a sample is put."""
    return folder / f"x{suffix}"


def clean(folder: Path) -> None:
    """Remove what plays left."""
    for entry in list(os.scandir(folder)):
        _remove(Path(entry.path))
