"""Files that scripted programs make, and digests of their bytes: `snapshots.txt` has what these are to be.

    python tests/contract/snapshots.py                 compare, and say which are others
    python tests/contract/snapshots.py --write         write the digests anew: a commit of its own, with its reason
    python tests/contract/snapshots.py --only NAME --keep FOLDER      keep the files of some programs, to look at them

A program is a family and a number, which is the seed of all that it does. A line has its name, and for each step the
first 16 digits of SHA-256 of what lies at a path, or in memory, after it. Of a `.b2z` these fields are zeros before it
is hashed (doc/design/formats.md 7, catalog.md), in dead versions too: the times of members; of the catalog the seed,
the slots that it orders, and the checksums over these; the file checksum.

Bytes depend on the release of C-Blosc2 and, with zlib, on the processor, so the first line names the release, and no
program compresses with zlib. Nothing depends on time: the clock that paces publications stands still.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import blosc2
from blosc2 import Codec, Filter, SpecialValue, SplitMode

LIST = Path(__file__).with_name("snapshots.txt")
Random = np.random.RandomState  # its numbers are the same with each release of NumPy


# ---------------------------------------------------------------------------------------------- what is compared
def without_chance(data: bytes) -> bytes:
    """A `.b2z` with zeros for what is random, or the time, and for the checksums of that."""
    out = bytearray(data)

    def clear(at: int, length: int) -> None:
        out[at : at + length] = bytes(len(out[at : at + length]))

    for signature, stamp, crc, name_length, name in ((b"PK\3\4", 10, 14, 26, 30), (b"PK\1\2", 12, 16, 28, 46)):
        for found in re.finditer(re.escape(signature), data):
            at = found.start()
            clear(at + stamp, 4)
            length = int.from_bytes(data[at + name_length : at + name_length + 2], "little")
            if data[at + name : at + name + length] == b".b2/catalog":
                clear(at + crc, 4)
    for found in re.finditer(rb"b2catlog\x01\0\0\0\0\x01\0\0", data):
        at = found.start()
        if len(data) < at + 256:
            continue
        (size,) = struct.unpack_from("<Q", data, at + 40)
        slots, count, _, sums = struct.unpack_from("<4Q", data, at + 168)
        first = at + 256 - size
        if first < 0:
            continue
        clear(first + slots, 8 * count)
        clear(first + sums, at - first - sums)
        clear(at + 96, 16)
        clear(at + 240, 12)
    for found in re.finditer(rb"blosc2 [0-9a-f]{16} [0-9a-f]{8}", data):
        clear(found.end() - 8, 8)
    return bytes(out)


def digest(what: Any) -> str:
    """SHA-256 of bytes, of a file, or of a folder: the names and bytes of its files."""
    if not isinstance(what, Path):
        return hashlib.sha256(what).hexdigest()
    if not what.is_dir():
        data = what.read_bytes()
        return hashlib.sha256(without_chance(data) if data[:2] == b"PK" else data).hexdigest()
    total = hashlib.sha256()
    for path in sorted(what.rglob("*"), key=lambda path: path.relative_to(what).as_posix()):
        is_file = path.is_file()
        total.update(f"{path.relative_to(what).as_posix()}\0{digest(path) if is_file else 'folder'}\n".encode())
    return total.hexdigest()


class Steps:
    """What one program notes: a digest for each step."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.digests = folder, list[str]()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def note(self, what: Any) -> None:
        """Bytes, or what lies at a path."""
        found = Path(what) if isinstance(what, str) else what
        self.digests.append(digest(found)[:16])


# ---------------------------------------------------------------------------------------------- values
PLAIN = ["?", "|i1", "|u1", "<i2", ">u2", "<i4", ">i4", "<u8", "<i8", "<f2", "<f4", ">f4", "<f8", ">f8", "<c8", "<c16"]
OTHER = ["<M8[ns]", ">M8[D]", "<m8[25s]", "|S1", "|S7", "|S300", "<U3", ">U5", "|V5"]
STRUCTURED: list[Any] = [
    [("a", "<i4"), ("b", ">f8")], [("n", [("x", "<i2"), ("y", "|S2")]), ("z", "|u1"), ("m", "<f4", (2, 2))],
]  # fmt: skip
SHAPES: list[tuple[int, ...]] = [
    (), (1,), (23,), (1000,), (4097,), (0,), (3, 0), (9, 7), (100, 64), (64, 33), (257, 40), (5, 7, 9), (20, 30, 17),
    (3, 4, 5, 6), (2, 3, 2, 3, 2), (40, 1, 50),
]  # fmt: skip
CODECS = [Codec.BLOSCLZ, Codec.LZ4, Codec.LZ4HC, Codec.ZSTD]
FILTERS: list[list[Filter]] = [
    [], [Filter.SHUFFLE], [Filter.SHUFFLE], [Filter.BITSHUFFLE], [Filter.DELTA], [Filter.DELTA, Filter.SHUFFLE],
    [Filter.SHUFFLE, Filter.BYTEDELTA],
]  # fmt: skip


def one_of(rs: Random, items: Any) -> Any:
    return items[rs.randint(len(items))]


def values(rs: Random, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Zeros, one item throughout, a ramp, a few items again and again, or noise."""
    dtype = np.dtype(dtype)
    out = np.zeros(shape, dtype)
    kind = rs.randint(5)
    if dtype.names:
        for name in dtype.names:
            out[name][...] = values(rs, out[name].shape, out[name].dtype)
        return out
    numbers = [
        lambda: np.zeros(out.size, np.int64),
        lambda: np.full(out.size, rs.randint(1, 100)),
        lambda: np.arange(out.size) // rs.randint(1, 9) % 1000,
        lambda: rs.randint(0, 50, 7)[np.arange(out.size) % 7],
        lambda: rs.randint(0, 1 << 31, out.size),
    ][kind]()
    if dtype.kind == "V":
        raw = np.resize(numbers.astype("<i8"), out.size * dtype.itemsize).tobytes()[: out.nbytes]
        return np.frombuffer(raw, dtype).reshape(shape)
    if dtype.kind in "mM":
        return numbers.astype("<i8").view(f"{dtype.kind}8{dtype.str[3:]}").astype(dtype).reshape(shape)
    with np.errstate(all="ignore"):
        return numbers.astype("U9" if dtype.kind == "S" else numbers.dtype).astype(dtype).reshape(shape)


def compression(rs: Random, itemsize: int = 8) -> dict[str, Any]:
    """Parameters of a compressor."""
    filters = one_of(rs, FILTERS)
    meta = [min(itemsize, 127) if filter is Filter.BYTEDELTA else 0 for filter in filters]
    codec = one_of(rs, CODECS)
    return {
        "codec": codec, "clevel": int(one_of(rs, [0, 1, 3, 5, 5, 9])), "filters": filters, "filters_meta": meta,
        "splitmode": one_of(rs, [SplitMode.AUTO_SPLIT, SplitMode.ALWAYS_SPLIT, SplitMode.NEVER_SPLIT]), "nthreads": 1,
        "use_dict": bool(codec is not Codec.BLOSCLZ and rs.randint(8) == 0),
    }  # fmt: skip


def partition(rs: Random, shape: tuple[int, ...]) -> dict[str, Any]:
    """Chunks and blocks, or those by default, which depend on the shape and the item size only."""
    if 0 in shape or rs.randint(3) == 0:
        return {}
    chunks = tuple(int(rs.randint((n + 2) // 3, n + 1)) for n in shape)
    return {"chunks": chunks, "blocks": tuple(int(rs.randint((n + 3) // 4, n + 1)) for n in chunks)}


def attributes(rs: Random) -> dict[str, Any]:
    names = ["unit", "é", "n" * 31, "list", "of"]
    some: list[Any] = [1.5, "text " * 9, {"a": [1, None, {"b": b"\0\xff"}]}, (1, (2, "x")), -(2**40), 2**63 + 1, True]
    return {names[n]: one_of(rs, some) for n in range(rs.randint(1, len(names)))}


def some_array(rs: Random, **more: Any) -> blosc2.NDArray:
    dtype = np.dtype(one_of(rs, [*PLAIN, *OTHER, *STRUCTURED]))
    shape = one_of(rs, SHAPES)
    cparams = compression(rs, dtype.itemsize)
    return blosc2.asarray(values(rs, shape, dtype), cparams=cparams, **partition(rs, shape), **more)


# ---------------------------------------------------------------------------------------------- arrays
def array(rs: Random, steps: Steps) -> None:
    """An array of any type in memory, a file, a directory; its copies."""
    one = some_array(rs, meta={"m": [1, "x"]} if rs.randint(4) == 0 else None)
    steps.note(one.to_cframe())
    one.save(steps.path("a.b2nd"))
    steps.note(steps.path("a.b2nd"))
    one.vlmeta.update(attributes(rs))
    one.save(steps.path("b.b2nd"), contiguous=bool(rs.randint(3)))
    steps.note(steps.path("b.b2nd"))
    again = one.copy(cparams=compression(rs, one.dtype.itemsize), urlpath=steps.path("c.b2nd"), mode="w")
    steps.note(steps.path("c.b2nd"))
    if again.ndim and again.size:
        steps.note(again.slice(slice(0, again.shape[0] // 2 + 1)).to_cframe())


def lossy(rs: Random, steps: Steps) -> None:
    """Filters and codecs that keep less than all bits of numbers."""
    shape = one_of(rs, [(1000,), (64, 33), (20, 30, 17)])
    cut = int(rs.randint(3, 12))
    for dtype, filter, meta in (
        ("<f4", Filter.TRUNC_PREC, cut),
        ("<f8", Filter.TRUNC_PREC, cut),
        ("<i4", Filter.INT_TRUNC, cut),
    ):
        cparams = {
            "codec": one_of(rs, CODECS),
            "filters": [filter, Filter.SHUFFLE],
            "filters_meta": [meta, 0],
            "nthreads": 1,
        }
        data = (np.arange(np.prod(shape)) * 37 % 1009).astype(dtype).reshape(shape) / np.array(8, dtype)
        steps.note(blosc2.asarray(data.astype(dtype), cparams=cparams, **partition(rs, shape)).to_cframe())


def constructor(rs: Random, steps: Steps) -> None:
    """Each constructor, and what makes arrays of arrays."""
    shape = one_of(rs, [shape for shape in SHAPES if shape])
    size = int(np.prod(shape))
    more = {"cparams": compression(rs), **partition(rs, shape)}
    dtype = one_of(rs, PLAIN[1:])
    made: list[Callable[[], blosc2.NDArray]] = [
        lambda: blosc2.zeros(shape, dtype, **more),
        lambda: blosc2.ones(shape, dtype, **more),
        lambda: blosc2.uninit(shape, dtype, **more),
        lambda: blosc2.full(shape, int(rs.randint(1, 99)), dtype, **more),
        lambda: blosc2.full(shape, b"xyz", "|S3", **more),
        lambda: blosc2.nans(shape, one_of(rs, ["<f4", "<f8", ">f8"]), **more),
        lambda: blosc2.arange(size, dtype="<i8", shape=shape, **more),
        lambda: blosc2.arange(3, 3 + 2 * size, 2, dtype="<f4", shape=shape, **more),
        lambda: blosc2.linspace(0, 64, 257, dtype="<f8", chunks=(100,), blocks=(32,), cparams=compression(rs)),
        lambda: blosc2.eye(40, 33, k=int(rs.randint(-3, 4)), dtype=dtype, cparams=compression(rs)),
        lambda: blosc2.fromiter(iter(range(size)), shape, "<i4", c_order=bool(rs.randint(2)), **more),
        lambda: blosc2.frombuffer(bytes(range(200)), (200,), "|u1", cparams=compression(rs, 1)),
        lambda: blosc2.zeros_like(some_array(rs)),
        lambda: blosc2.concat([blosc2.arange(60, shape=(6, 10), chunks=(4, 5), blocks=(2, 5))] * 3, axis=1),
        lambda: blosc2.stack([blosc2.arange(60, shape=(6, 10), chunks=(4, 5), blocks=(2, 5))] * 3, axis=1),
        lambda: blosc2.arange(size, shape=shape, **more).reshape((size,)),
        lambda: blosc2.permute_dims(blosc2.arange(60, shape=(3, 4, 5), chunks=(2, 4, 5), blocks=(1, 2, 5)), (2, 0, 1)),
        lambda: blosc2.take(blosc2.arange(60, chunks=(20,), blocks=(5,)), [5, 3, 59, 0]),
        lambda: blosc2.astype(blosc2.arange(60, chunks=(20,), blocks=(5,)), "<f4"),
    ]  # fmt: skip
    for _ in range(5):
        steps.note(one_of(rs, made)().to_cframe())


def piece(rs: Random, shape: tuple[int, ...]) -> tuple[slice, ...]:
    """A box, or every other item of it."""
    key = []
    for n in shape:
        first = int(rs.randint(n))
        key.append(slice(first, int(rs.randint(first, n)) + 1, one_of(rs, [1, 1, 1, 2])))
    return tuple(key)


def edit(rs: Random, steps: Steps) -> None:
    """An array is changed in memory, a file or a directory: its bytes after each change."""
    shape = one_of(rs, [(1000,), (100, 64), (20, 30, 17), (257, 40)])
    dtype = one_of(rs, [*PLAIN[1:], "|S7", STRUCTURED[0]])
    where = one_of(rs, ["file", "file", "file", "directory", "memory"])
    path = None if where == "memory" else steps.path("a.b2nd")
    storage = {"contiguous": where != "directory"} | ({"urlpath": path, "mode": "w"} if path else {})
    cparams = compression(rs, np.dtype(dtype).itemsize)
    one = blosc2.asarray(values(rs, shape, dtype), cparams=cparams, **partition(rs, shape), **storage)

    def change() -> None:
        shape = one.shape
        kind = rs.randint(9)
        if kind in (0, 1, 2) and one.size:
            key = piece(rs, shape)
            one[key] = values(rs, np.empty(shape, "?")[key].shape, dtype)
        elif kind == 3 and one.size:
            one[piece(rs, shape)] = np.zeros((), dtype)
        elif kind == 4 and one.size:
            points = np.unique(rs.randint(0, shape[0], 9))
            one[points] = values(rs, (len(points), *shape[1:]), dtype)
        elif kind == 5:
            one.append(values(rs, (int(rs.randint(1, 40)), *shape[1:]), dtype))
        elif kind == 6:
            one.resize(tuple(int(max(1, n + rs.randint(-9, 20))) for n in shape))
        elif kind == 7:
            one.vlmeta.update(attributes(rs))
        elif kind == 8 and len(one.vlmeta):
            del one.vlmeta[next(iter(one.vlmeta))]

    for _ in range(6):
        if rs.randint(4) == 0:
            with one.transaction():
                for _ in range(3):
                    change()
        else:
            change()
        if path is not None and rs.randint(5) == 0:
            one = blosc2.open(path, mode="a")
        steps.note(path or one.to_cframe())


# ---------------------------------------------------------------------------------------------- super-chunks, buffers
def schunk(rs: Random, steps: Steps) -> None:
    """A super-chunk is filled and changed."""
    where = one_of(rs, ["file", "file", "directory", "memory"])
    path = None if where == "memory" else steps.path("s.b2frame")
    storage = {"contiguous": where != "directory"} | ({"urlpath": path, "mode": "w"} if path else {})
    typesize = one_of(rs, [1, 4, 8])
    chunksize = typesize * int(rs.randint(100, 900))
    cparams = {**compression(rs, typesize), "typesize": typesize, "blocksize": typesize * 64}

    def chunk() -> bytes:
        return values(rs, (chunksize,), "|u1").tobytes()

    meta = {"m": {"a": 1}} if rs.randint(2) else None
    one = blosc2.SChunk(chunksize, chunk() + chunk() + chunk()[: typesize * 50], cparams=cparams, meta=meta, **storage)
    steps.note(path or one.to_cframe())
    for _ in range(6):
        kind, n = rs.randint(8), int(rs.randint(max(one.nchunks - 1, 1)))
        if kind == 0:
            one.append_data(chunk())
        elif kind == 1:
            one.insert_data(n, chunk())
        elif kind == 2:
            one.update_data(n, chunk())
        elif kind == 3 and one.nchunks > 2:
            one.delete_chunk(n)
        elif kind == 4 and one.nbytes % chunksize == 0:
            one.fill_special(2 * chunksize // typesize, one_of(rs, [SpecialValue.ZERO, SpecialValue.UNINIT]))
        elif kind == 5:
            one.update_special(n, SpecialValue.ZERO)
        elif kind == 6:
            one.vlmeta.update(attributes(rs))
        else:
            items = one.nbytes // typesize
            first = int(rs.randint(items))
            last = int(rs.randint(first, items)) + 1
            one.set_slice(values(rs, ((last - first) * typesize,), "|u1").tobytes(), first, last)
        steps.note(path or one.to_cframe())


def buffer(rs: Random, steps: Steps) -> None:
    """Chunks and frames that no object stays of."""
    data = values(rs, (int(rs.randint(1, 6000)),), one_of(rs, PLAIN[3:]))
    itemsize = data.dtype.itemsize
    steps.note(blosc2.compress2(data, **compression(rs, itemsize), typesize=itemsize, blocksize=64 * itemsize))
    cparams = {**compression(rs, itemsize), "typesize": itemsize, "blocksize": 64 * itemsize}
    steps.note(blosc2.pack_tensor(data, chunksize=1024 * itemsize, cparams=cparams))
    blosc2.save_array(data, steps.path("a.b2frame"), chunksize=1024 * itemsize, cparams=cparams, mode="w")
    steps.note(steps.path("a.b2frame"))


# ---------------------------------------------------------------------------------------------- lists
def thing(rs: Random) -> Any:
    things: list[Any] = [
        "a", {"n": 1, "t": (1, (2,)), "l": [None, True]}, b"\0" * 300, 2.5, "words " * 500, [], (), -(2**63), 2**64 - 1,
        1j, np.arange(5, dtype="<i2"), "é" * 20, 0, {7},
    ]  # fmt: skip
    return one_of(rs, things)


def objects(rs: Random, steps: Steps) -> None:
    """A list of values, or of batches, is changed in memory or in a file."""
    is_batches = bool(rs.randint(2))
    path = steps.path("l.b2b" if is_batches else "l.b2f") if rs.randint(4) else None
    storage = {"urlpath": path, "mode": "w"} if path else {}
    cparams = {"codec": one_of(rs, CODECS[1:]), "clevel": 5, "nthreads": 1, "use_dict": bool(rs.randint(2))}
    one: Any
    if is_batches:
        one = blosc2.BatchArray(items_per_block=one_of(rs, [None, 3]), cparams=cparams, **storage)
    else:
        one = blosc2.ObjectArray(cparams=cparams, **storage)

    def item() -> Any:
        return [thing(rs) for _ in range(rs.randint(1, 9))] if is_batches else thing(rs)

    one.extend([item() for _ in range(rs.randint(1, 9))])
    for _ in range(6):
        kind, n = rs.randint(7), int(rs.randint(max(len(one), 1)))
        if kind in (0, 1) or not len(one):
            one.append(item())
        elif kind == 2:
            one.insert(n, item())
        elif kind == 3:
            one[n] = item()
        elif kind == 4:
            del one[n]
        elif kind == 5:
            one.extend([item() for _ in range(3)])
        else:
            one.vlmeta["note"] = thing(rs)
        steps.note(path or one.to_cframe())


# ---------------------------------------------------------------------------------------------- stores
def leaf(rs: Random) -> Any:
    kind = rs.randint(12)
    if kind < 5:
        return values(rs, one_of(rs, [(), (5,), (9, 7)]), one_of(rs, PLAIN))
    if kind < 7:
        return values(rs, one_of(rs, SHAPES), one_of(rs, [*PLAIN, *OTHER, *STRUCTURED]))
    if kind == 7:
        return some_array(rs)
    if kind == 8:
        cparams = {"nthreads": 1, "typesize": 1, "blocksize": 512}
        return blosc2.SChunk(1000, values(rs, (2500,), "|u1").tobytes(), cparams=cparams)
    if kind == 9:
        one = blosc2.ObjectArray(cparams={"nthreads": 1})
        one.extend([thing(rs) for _ in range(4)])
        return one
    return one_of(rs, [7, 2.5, [1.5, 2.5], True])


class Acts:
    """Acts on a store, one after the other; `keys` is what is in it."""

    def __init__(self, rs: Random, steps: Steps, cls: Any, suffix: str, **options: Any) -> None:
        self.rs, self.steps, self.cls, self.options = rs, steps, cls, options
        self.path = steps.path("store" + suffix)
        self.is_tree, self.has_flush = cls is blosc2.TreeStore, cls is not blosc2.EmbedStore
        self.keys: list[str] = []
        self.store = cls(self.path, mode="w", **options)

    def new_key(self) -> str:
        """A key that is not there, below which nothing is."""
        while True:
            key = "".join(f"/{one_of(self.rs, ['g', 'h', 'é', 'a b', 'x.y'])}" for _ in range(self.rs.randint(3)))
            key += f"/k{self.rs.randint(1000)}"
            if key not in self.keys:
                return key

    def group(self) -> str | None:
        groups = sorted({key[: key.rindex("/")] for key in self.keys} - {""})
        return one_of(self.rs, groups) if groups else None

    def set(self) -> None:
        key = self.new_key()
        self.store[key] = leaf(self.rs)
        self.keys.append(key)

    def replace(self) -> None:
        if self.keys:
            self.store[one_of(self.rs, self.keys)] = leaf(self.rs)

    def delete(self) -> None:
        if self.keys:
            key = one_of(self.rs, self.keys)
            del self.store[key]
            self.keys.remove(key)

    def rename(self) -> None:
        if self.keys and self.has_flush:
            old, new = one_of(self.rs, self.keys), self.new_key()
            self.store.rename(old, new)
            self.keys[self.keys.index(old)] = new

    def rename_group(self) -> None:
        group, new = self.group(), f"/new{self.rs.randint(1000)}"
        if group is not None and self.is_tree and not any(key.startswith(new + "/") for key in self.keys):
            self.store.rename(group, new)
            self.keys = [new + key[len(group) :] if key.startswith(group + "/") else key for key in self.keys]

    def delete_group(self) -> None:
        group = self.group()
        if group is not None and self.is_tree:
            del self.store[group]
            self.keys = [key for key in self.keys if not key.startswith(group + "/")]

    def attributes(self) -> None:
        group = self.group()
        if self.is_tree:
            (self.store if group is None else self.store[group]).vlmeta.update(attributes(self.rs))

    def make_group(self) -> None:
        if self.is_tree:
            self.store.create_group(f"/made{self.rs.randint(1000)}")

    def edit(self) -> None:
        if self.keys:
            one = self.store[one_of(self.rs, self.keys)]
            if isinstance(one, blosc2.NDArray) and one.size and not one.dtype.names and one.ndim:
                one[: one.shape[0] // 2 + 1] = np.zeros((), one.dtype)
            one.vlmeta["seen"] = int(self.rs.randint(100))

    def many(self) -> None:
        items = {}
        for _ in range(self.rs.randint(1, 12)):
            items[self.new_key()] = leaf(self.rs)
        how = self.store.update if self.rs.randint(2) else self.store.write_many
        how(items)
        self.keys += [key for key in items if key not in self.keys]

    def transaction(self) -> None:
        if not self.has_flush:
            return
        before = list(self.keys)
        try:
            with self.store.transaction():
                for _ in range(4):
                    one_of(self.rs, [self.set, self.set, self.replace, self.delete, self.rename])()
                if self.rs.randint(3) == 0:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            self.keys = before

    def flush(self) -> None:
        if self.has_flush:
            self.store.flush()
        self.steps.note(self.path)

    def reopen(self) -> None:
        self.store.close()
        self.steps.note(self.path)
        self.store = self.cls(self.path, mode="a", **self.options)

    def compact(self) -> None:
        if self.has_flush:
            self.store.compact()
            self.steps.note(self.path)

    def play(self, count: int) -> None:
        often = [self.set, self.set, self.set, self.replace, self.delete, self.many]
        others = [
            self.rename, self.rename_group, self.delete_group, self.attributes, self.make_group, self.edit,
            self.transaction, self.flush, self.reopen, self.compact,
        ]  # fmt: skip
        for _ in range(count):
            one_of(self.rs, [*often, *others])()
        self.store.close()
        self.steps.note(self.path)

    def convert(self) -> None:
        """The store as an archive and as a directory."""
        with self.cls(self.path, mode="r") as store:
            store.to_b2z(filename=self.steps.path("copy.b2z"))
            store.to_b2d(self.steps.path("copy.b2d"))
        self.steps.note(self.steps.path("copy.b2z"))
        self.steps.note(self.steps.path("copy.b2d"))


def embed(rs: Random, steps: Steps) -> None:
    """Acts on a `.b2e`."""
    acts = Acts(rs, steps, blosc2.EmbedStore, ".b2e", cparams={"clevel": int(one_of(rs, [0, 5])), "nthreads": 1})
    acts.play(16)
    with blosc2.EmbedStore(acts.path, mode="r") as store:
        steps.note(store.to_cframe())


def store(rs: Random, steps: Steps) -> None:
    """Acts on a `.b2d` or `.b2z` of either class."""
    cls, suffix = one_of(rs, [blosc2.DictStore, blosc2.TreeStore]), one_of(rs, [".b2d", ".b2z"])
    acts = Acts(rs, steps, cls, suffix, threshold=one_of(rs, [0, 0, 100, None]), cparams={"nthreads": 1})
    acts.play(20)
    if rs.randint(3) == 0:
        acts.convert()


def shared(rs: Random, steps: Steps) -> None:
    """Acts on a store with `locking=True`, where each is published."""
    cls, suffix = one_of(rs, [blosc2.DictStore, blosc2.TreeStore]), one_of(rs, [".b2d", ".b2z"])
    Acts(rs, steps, cls, suffix, locking=True, cparams={"nthreads": 1}).play(10)


def bulk(rs: Random, steps: Steps) -> None:
    """Stores of so many leaves that they have a catalog, and what is changed in them."""
    cls, count = one_of(rs, [blosc2.DictStore, blosc2.TreeStore]), int(rs.randint(256, 700))
    acts = Acts(rs, steps, cls, ".b2z", threshold=one_of(rs, [0, 0, 0, 100]), cparams={"nthreads": 1})
    items = {
        f"/g{n % 7}/part{n // 50}/k{n}": values(rs, one_of(rs, [(4,), (3, 5)]), one_of(rs, PLAIN)) for n in range(count)
    }
    if rs.randint(2):
        acts.store.write_many(items)
    else:
        for key, value in items.items():
            acts.store[key] = value
    acts.keys = list(items)
    acts.reopen()
    acts.play(14)


FAMILIES: dict[Callable[[Random, Steps], None], int] = {
    array: 90, lossy: 6, constructor: 30, edit: 50, schunk: 36, buffer: 16, objects: 36, embed: 26, store: 80,
    shared: 10, bulk: 12,
}  # fmt: skip


# ---------------------------------------------------------------------------------------------- all of them
@contextmanager
def nothing_by_chance() -> Iterator[None]:
    """One thread, a clock that stands still, files of one mode, catalogs of some hundred leaves.

    Nothing waits for the disk, which changes no byte.
    """
    threads, umask = blosc2.set_nthreads(1), os.umask(0o022)
    try:
        with (
            mock.patch("time.monotonic", return_value=time.monotonic()),
            mock.patch("os.fsync", return_value=None),
            mock.patch("os.fdatasync", return_value=None),
            mock.patch("blosc2._backends.zip.publishing.CATALOG_LEAST", 256),
            mock.patch("blosc2._backends.CATALOG_LEAST", 256),
        ):
            yield
    finally:
        blosc2.set_nthreads(threads)
        os.umask(umask)


def played(folder: Path, only: str = "") -> dict[str, list[str]]:
    """Play the programs, each in a folder of its own: their digests by their names."""
    found = {}
    with nothing_by_chance():
        for family, count in FAMILIES.items():
            for number in range(count):
                name = f"{family.__name__}-{number:02}"
                if only in name:
                    (folder / name).mkdir()
                    steps = Steps(folder / name)
                    family(Random(list(name.encode())), steps)
                    found[name] = steps.digests
    return found


def listed(only: str = "") -> dict[str, list[str]]:
    """The digests that the list has."""
    lines = [line.split() for line in LIST.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    return {name: digests for name, *digests in lines if only in name}


def release() -> str:
    """The release of C-Blosc2 that the list is of."""
    return LIST.read_text(encoding="utf-8").partition("\n")[0].rpartition(" ")[2]


def differences(found: dict[str, list[str]], there: dict[str, list[str]]) -> list[str]:
    """The programs that make other bytes, with the first step that does."""
    out = []
    for name in sorted(found.keys() | there.keys()):
        new, old = found.get(name, []), there.get(name, [])
        if new != old:
            same = next((n for n, pair in enumerate(zip(new, old)) if pair[0] != pair[1]), min(len(new), len(old)))
            out.append(f"{name}: step {same}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the digests anew")
    parser.add_argument("--only", default="", metavar="NAME", help="programs with this in their names")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="a new folder where the files stay")
    options = parser.parse_args()
    if options.write and options.only:
        parser.error("--write takes no --only: the list has all programs")
    with tempfile.TemporaryDirectory(prefix="snapshots-") as folder:
        if options.keep:
            options.keep.mkdir()
        found = played(options.keep or Path(folder), options.only)
    if options.write:
        lines = [f"# C-Blosc2 {blosc2.blosclib_version}", *(" ".join([name, *found[name]]) for name in found)]
        LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    others = differences(found, listed(options.only))
    print(*others or [f"{len(found)} programs: the same bytes"], sep="\n")
    sys.exit(bool(others))


if __name__ == "__main__":
    main()
