"""The rows of `every_method.py`, and the process that runs them with the `blosc2` of its Python.

A row is a statement of a table below, on one kind of data in one place. What it gives has to be the same for both
packages before any time is taken.
"""

from __future__ import annotations

import gc
import inspect
import re
import shutil
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from worker import serve

import blosc2

BATCH = 2e-3  # seconds that a batch of short calls takes at least
SAMPLE = 0.03  # seconds that samples of a row take in one turn, about
STORES = ("EmbedStore", "DictStore", "TreeStore")
CLASSES = (
    *STORES, "NDArray", "NDField", "SChunk", "ObjectArray", "BatchArray", "Batch", "CParams", "DParams", "Storage",
)  # fmt: skip
SPECIAL = ("__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__contains__")
#: Names that have no row.
NOT_TIMED = {
    "prints": "print_versions",
    "a setting": "set_nthreads set_blocksize set_compressor set_releasegil NDArray.keep_last_read",
    "frees what other rows need": "free_resources",
    "asks the system": "get_cpu_info detect_number_of_cores",
    "waits for other processes, or shows what they did": (
        "NDArray.holding_lock SChunk.holding_lock SChunk.lock SChunk.unlock SChunk.refresh NDArray.refresh "
        "SChunk.change_tick"
    ),
    "an internal, or each package's own choice": (
        "DictStore.estore TreeStore.estore DictStore.member_window TreeStore.member_window SChunk.get_vlblock "
        "SChunk.chunkshape BatchArray.chunk_copy BatchArray.items_per_block NDArray.to_device"
    ),
}

# ------------------------------------------------------------------------------------------------------ the statements
# Names that it covers (those of `blosc2` itself, or of the class of the table), what is timed; what is prepared before.
# A statement that begins with ~ gives something that both packages may choose.
READS = """
__getitem__         a[:]
__getitem__         a[item]                                  item = tuple(s // 3 for s in a.shape)
__getitem__         a[a.shape[0] // 2]
__getitem__         a[..., a.shape[-1] // 2]
__getitem__         a[patch]
__getitem__         a[chunk]
__getitem__         a[step]                                  step = (slice(None, None, 4),) * a.ndim
__getitem__         a[::-1]
__getitem__         a[places]                                places = some(a.shape[0], 100)
__getitem__         a[in_order]                              in_order = np.sort(some(a.shape[0], 100))
__getitem__         a[points]                                points = tuple(some(s, 200) for s in a.shape)
__getitem__         ~a[half]                                 half = mask(a, 2)
__getitem__         a[sparse]                                sparse = mask(a, 997)
oindex              a.oindex[lists]                          lists = tuple(np.sort(some(s, 5)) for s in a.shape)
take                a.take(places, axis=0)                   places = some(a.shape[0], 50)
.take               blosc2.take(a, places, axis=a.ndim - 1)  places = some(a.shape[-1], 10)
slice               a.slice(chunk)
slice               a.slice(most)                            most = part(a.shape, 0.1, 0.6)
slice               a.slice(slice(0, a.chunks[0]))
copy                a.copy()
.copy               blosc2.copy(a)
copy                a.copy(cparams=lz4)
copy                a.copy(chunks=a.blocks, blocks=a.blocks)
to_cframe           ~a.to_cframe()
tobytes             a.tobytes()
__getitem__         np.asarray(a)
__len__             len(a)
get_chunk           ~a.get_chunk(1)
iterchunks_info     ~list(a.iterchunks_info())
info info_items     ~str(a.info)
.expand_dims        blosc2.expand_dims(a, 0).shape
.squeeze squeeze    blosc2.squeeze(e, 0).shape               e = blosc2.expand_dims(a.copy(), 0)
.concat             blosc2.concat([a, a], axis=0)
.stack              blosc2.stack([a, a], axis=0)
.astype             blosc2.astype(a, "f8")[...]
sum .sum            ~a.sum()
mean .mean          ~a.mean()
std .std            ~a.std()
var .var            ~a.var()
min .min            ~a.min()
max .max            ~a.max()
prod .prod          ~a.prod()
any .any            ~a.any()
all .all            ~a.all()
argmin .argmin      ~a.argmin()
argmax .argmax      ~a.argmax()
sum                 ~a.sum(axis=0)
mean .mean          ~blosc2.mean(a, axis=a.ndim - 1)
max                 a.max(axis=0)
.get_slice_nchunks  blosc2.get_slice_nchunks(a, patch)
.empty_like         blosc2.empty_like(a).shape
.zeros_like         blosc2.zeros_like(a).shape
.ones_like          blosc2.ones_like(a).shape
.full_like          blosc2.full_like(a, 7).shape
schunk              a.schunk.decompress_chunk(1)
schunk              ~a.schunk.get_lazychunk(1)
schunk              a.schunk[:]
schunk              a.schunk[100:900]
schunk              a.schunk.get_slice(10, a.size // 2)
schunk              ~a.schunk.to_cframe()
schunk              [one.sum() for one in a.schunk.iterchunks(a.dtype)]
"""
# Only the published package's ways of these take long, or too much memory, for large arrays.
SMALL_READS = """
__iter__           [one for one in a][-1:]
T mT .transpose    a.T if a.ndim == 2 else blosc2.copy(a)
.permute_dims      blosc2.permute_dims(a, tuple(range(a.ndim))[::-1])
.matrix_transpose  blosc2.matrix_transpose(a) if a.ndim > 1 else 0
.take_along_axis   blosc2.take_along_axis(a, q, axis=0)  q = some(a.shape[0], a.size).reshape(a.shape)
"""
# What the published package has in one dimension only.
LINE_READS = ".reshape reshape    blosc2.reshape(a, (a.size // 10, 10))"
LINE_WRITES = "append              a.append(more); a.resize((a.size - 1,))           more = np.full(1, 3, a.dtype)"
WRITES = """
__setitem__  a[item] = 7       item = tuple(s // 3 for s in a.shape)
__setitem__  a[a.shape[0] // 3] = 7
__setitem__  a[patch] = items  items = a[patch]
__setitem__  a[patch] = 7
__setitem__  a[chunk] = items  items = a[chunk]
__setitem__  a[:] = items      items = a[:]
__setitem__  a[:] = b          b = a.copy()
__setitem__  a[sparse] = 7     sparse = mask(a, 99_991)
__setitem__  a[places] = 7     places = some(a.shape[0], 5)
resize       grow(a)
vlmeta       a.vlmeta["unit"] = "mm"
vlmeta       a.vlmeta["unit"]  a.vlmeta["unit"] = "mm"
vlmeta       a.vlmeta[:]       a.vlmeta["unit"] = "mm"
attrs        a.attrs["unit"] = "mm"
save         ~a.save(path, mode="w")
.save        ~blosc2.save(a, path, mode="w")
copy         a.copy(urlpath=path, mode="w")
"""
CREATING = """
.asarray                      blosc2.asarray(x)
.array                        blosc2.array(x)
.asarray                      blosc2.asarray(x, cparams=lz4)
.asarray                      blosc2.asarray(x, cparams=one)                            one = blosc2.CParams(codec=LZ4, nthreads=1)
.asarray                      blosc2.asarray(x, cparams=lz)                             lz = {"codec": blosc2.Codec.BLOSCLZ}
.asarray                      blosc2.asarray(x, cparams=fast)                           fast = {"clevel": 1}
.asarray                      blosc2.asarray(x, **grid(x.shape))
.asarray                      blosc2.asarray(x, urlpath=path, mode="w")
.frombuffer                   blosc2.frombuffer(b, x.shape, x.dtype)                    b = x.tobytes()
.pack_tensor                  blosc2.unpack_tensor(blosc2.pack_tensor(x))
.unpack_tensor                blosc2.unpack_tensor(b)                                   b = blosc2.pack_tensor(x)
.pack_array2                  blosc2.unpack_array2(blosc2.pack_array2(x))
.unpack_array2                blosc2.unpack_array2(b)                                   b = blosc2.pack_array2(x)
.pack_array .unpack_array     blosc2.unpack_array(blosc2.pack_array(x))
.pack .unpack                 blosc2.unpack(blosc2.pack(x))
.compress                     blosc2.decompress(blosc2.compress(b, typesize=8))         b = x.tobytes()
.decompress                   blosc2.decompress(b)                                      b = blosc2.compress(x.tobytes(), typesize=8)
.compress2                    blosc2.decompress2(blosc2.compress2(b))                   b = x.tobytes()
.decompress2                  blosc2.decompress2(b)                                     b = blosc2.compress2(x.tobytes())
.get_cbuffer_sizes .get_clib  blosc2.get_cbuffer_sizes(b)[0], blosc2.get_clib(b)        b = blosc2.compress2(x.tobytes())
.ndarray_from_cframe          blosc2.ndarray_from_cframe(b).shape                       b = blosc2.asarray(x).to_cframe()
.from_cframe                  blosc2.from_cframe(b).shape                               b = blosc2.asarray(x).to_cframe()
.schunk_from_cframe           len(blosc2.schunk_from_cframe(b)) > 0                     b = blosc2.asarray(x).to_cframe()
.compute_chunks_blocks        blosc2.compute_chunks_blocks(x.shape, few, few, x.dtype)  few = (10,) * x.ndim
.are_partitions_aligned       blosc2.are_partitions_aligned(x.shape, few, few)          few = (10,) * x.ndim
.are_partitions_behaved       ~blosc2.are_partitions_behaved(x.shape, few, few)         few = (10,) * x.ndim
.save_array                   ~blosc2.save_array(x, path, mode="w")
.save_tensor                  ~blosc2.save_tensor(x, path, mode="w")
.load_array                   blosc2.load_array(path)                                   blosc2.save_array(x, path, mode="w")
.load_tensor                  blosc2.load_tensor(path)                                  blosc2.save_tensor(x, path, mode="w")
.open                         blosc2.open(path, mode="r").shape                         blosc2.asarray(x, urlpath=path, mode="w")
.open                         blosc2.open(path, mode="r", mmap_mode="r").shape          blosc2.asarray(x, urlpath=path, mode="w")
.open                         blosc2.open(path, mode="r")[(1,) * x.ndim]                blosc2.asarray(x, urlpath=path, mode="w")
.load                         blosc2.load(path).shape                                   blosc2.asarray(x, urlpath=path, mode="w")
.remove_urlpath               touch(path); blosc2.remove_urlpath(path)
"""
OTHERS = """
.arange                   blosc2.arange(100)
.arange                   blosc2.arange(100_000)
.arange                   blosc2.arange(4_000_000)
.linspace                 blosc2.linspace(0, 1, 100)
.linspace                 blosc2.linspace(0, 1, 100_000)
.linspace                 blosc2.linspace(0, 1, 4_000_000)
.fromiter                 blosc2.fromiter(iter(range(100)), dtype="i8", shape=(100,))
.fromiter                 blosc2.fromiter(iter(range(100_000)), dtype="i8", shape=(100_000,))
.eye                      blosc2.eye(10)
.eye                      blosc2.eye(2000)
.asarray                  blosc2.asarray(x)                     x = records()
NDField.__getitem__       r["b"][:]                             r = blosc2.asarray(records())
NDField.__getitem__       r["b"][1000:2000]                     r = blosc2.asarray(records())
NDField.__setitem__       r["b"][5] = 1.0                       r = blosc2.asarray(records())
NDField.sum               ~r["b"].sum()                         r = blosc2.asarray(records())
NDField.mean              ~r["b"].mean()                         r = blosc2.asarray(records())
NDField.std               ~r["b"].std()                         r = blosc2.asarray(records())
NDField.var               ~r["b"].var()                         r = blosc2.asarray(records())
NDField.min               ~r["b"].min()                         r = blosc2.asarray(records())
NDField.max               ~r["b"].max()                         r = blosc2.asarray(records())
NDField.prod              ~r["b"].prod()                         r = blosc2.asarray(records())
NDField.any               ~r["b"].any()                         r = blosc2.asarray(records())
NDField.all               ~r["b"].all()                         r = blosc2.asarray(records())
NDField.argmin            ~r["b"].argmin()                         r = blosc2.asarray(records())
NDField.argmax            ~r["b"].argmax()                         r = blosc2.asarray(records())
NDField.__len__           len(r["b"])                           r = blosc2.asarray(records())
NDField.__iter__          next(iter(r["b"]))                    r = blosc2.asarray(records())
NDArray.fields            r.fields["b"][1000:2000]              r = blosc2.asarray(records())
NDArray.__getitem__       r[1000:2000]                          r = blosc2.asarray(records())
NDArray.item              one.item()                            one = blosc2.asarray(np.ones((1, 1)))
SChunk.fill_special       blosc2.SChunk(chunksize=4000).fill_special(1_000_000, blosc2.SpecialValue.ZERO)
.objectarray_from_cframe  blosc2.objectarray_from_cframe(b)[3]  b = a_list("ObjectArray", 100, None).to_cframe()
BatchArray.iter_items     sum(z.iter_items())                   z = a_list("BatchArray", 1000, None)
BatchArray.items          z.items[5]                            z = a_list("BatchArray", 1000, None)
BatchArray.items          len(z.items)                          z = a_list("BatchArray", 1000, None)
Batch.__getitem__         z[3]                                  z = a_list("BatchArray", 10, None)[7]
Batch.__len__             len(z)                                z = a_list("BatchArray", 10, None)[7]
Batch.__iter__            list(z)                               z = a_list("BatchArray", 10, None)[7]
Batch.__contains__        3 in z                                z = a_list("BatchArray", 10, None)[7]
Batch.count               z.count(3)                            z = a_list("BatchArray", 10, None)[7]
Batch.index               z.index(3)                            z = a_list("BatchArray", 10, None)[7]
.compressor_list          ~blosc2.compressor_list()
.get_compressor           ~blosc2.get_compressor()
.get_blocksize            ~blosc2.get_blocksize()
.clib_info                ~blosc2.clib_info(blosc2.Codec.ZSTD)
CParams.typesize          ~blosc2.CParams(codec=LZ4, typesize=4)
DParams.nthreads          ~blosc2.DParams(nthreads=2)
Storage.mode              ~blosc2.Storage(mode="r")
"""
SCHUNKS = """
append_data delete_chunk   s.append_data(b); s.delete_chunk(s.nchunks - 1)
append_data delete_chunk   s.append_data(b[:100]); s.delete_chunk(s.nchunks - 1)
append_chunk delete_chunk  s.append_chunk(c); s.delete_chunk(s.nchunks - 1)  c = s.get_chunk(1)
insert_data delete_chunk   s.insert_data(2, b, True); s.delete_chunk(2)
insert_chunk delete_chunk  s.insert_chunk(2, c); s.delete_chunk(2)           c = s.get_chunk(1)
update_data                s.update_data(1, b, True)
update_chunk               s.update_chunk(1, c)                              c = s.get_chunk(2)
update_special             s.update_special(3, blosc2.SpecialValue.ZERO)
set_slice __setitem__      s[100:200] = b[:400]
reorder_offsets            s.reorder_offsets(order)                          order = np.arange(s.nchunks)[::-1].copy()
__len__                    len(s)
__getitem__                s[:]
__getitem__                s[100:900]
get_slice                  s.get_slice(100, len(s) * 3 // 4)
get_slice                  s.get_slice(100, 1100, out)                       out = bytearray(4000)
decompress_chunk           s.decompress_chunk(1)
get_chunk                  ~s.get_chunk(1)
get_lazychunk              ~s.get_lazychunk(1)
iterchunks                 [one.sum() for one in s.iterchunks(np.dtype("f4"))]
iterchunks_info            ~list(s.iterchunks_info())
to_cframe                  ~s.to_cframe()
info info_items            ~str(s.info)
vlmeta                     for n in range(10): s.vlmeta[f"k{n}"] = n
vlmeta                     s.vlmeta["k"]                                     s.vlmeta["k"] = [1, 2]
vlmeta                     "k" in s.vlmeta                                   s.vlmeta["k"] = [1, 2]
attrs                      s.attrs["k"] = 3
nbytes                     ~schunk(path, size, count)
append_data                appended(path, size, count, b)
"""
LISTS = """
append pop          z.append(v); z.pop()
insert delete       z.insert(5, v); z.delete(5)
extend __delitem__  z.extend([v]); del z[len(z) - 1]
__setitem__         z[5] = v
__getitem__         whole(z[7])
__iter__            [whole(one) for one in z]
__len__             len(z)
copy                len(z.copy())
info info_items     ~str(z.info)
to_cframe           ~z.to_cframe()
clear               a_list(kind, count, path).clear()
"""
STORE_READS = """
__getitem__   s[keys[3]].shape
__getitem__   s[keys[3]][:]
__contains__  keys[3] in s
__contains__  "/g0/other" in s
__len__       ~len(s)
__iter__      sorted(s)
get           s.get(keys[2]).shape
get           s.get("/g0/other")
keys          sorted(s.keys())
values        sum(v.shape[0] for v in s.values() if isinstance(v, blosc2.NDArray))
values        round(sum(v[:].sum() for v in s.values() if isinstance(v, blosc2.NDArray)))
items         sum(len(key) for key, _ in s.items())
.open         blosc2.open(stored, mode="r", **how) is not None
.open         blosc2.open(stored, mode="r", **how)[keys[2]][0]
__setitem__   write_store(Path(path), kind, leaves)
"""
EMBED = """
to_cframe            ~s.to_cframe()
.estore_from_cframe  len(blosc2.estore_from_cframe(b))  b = s.to_cframe()
"""
DICT = """
info info_items  ~str(s.info)
"""
TREE = """
info info_items  ~str(s.info)
get_children     sorted(s.get_children("/g1"))
get_descendants  sorted(s.get_descendants("/g1"))
get_subtree      sorted(s.get_subtree("/g1"))
walk             [(path, sorted(groups), sorted(names)) for path, groups, names in s.walk("/")]
"""
CONVERTING = {
    ".b2z": "to_b2d  ~s.to_b2d(dirname=path, overwrite=True)",
    ".b2d": "to_b2z  ~s.to_b2z(filename=path, overwrite=True)",
    ".b2e": "",
}
STORE_CHANGES = """
__setitem__ __delitem__  s["/new"] = tiny; del s["/new"]  s = opened()
__setitem__ __delitem__  s = opened(); s["/new"] = tiny; del s["/new"]; end(s)
"""
# The published EmbedStore gives no key a second value.
DICT_CHANGES = """
__setitem__          s[keys[1]] = tiny  s = opened()
__setitem__ close    s = opened(); s[keys[1]] = tiny; end(s)
__setitem__ discard  s = opened(); s["/new"] = tiny; s.discard()
"""
TREE_CHANGES = """
vlmeta attrs  s.vlmeta["unit"] = "mm"  s = opened()
"""


# ------------------------------------------------------------------------------------------------------------ the data
def walk(*shape: int) -> Any:
    """Random walks along the last axis, as measured series are."""
    return np.cumsum(np.random.default_rng(shape[0]).normal(size=shape), axis=-1)


DATA: dict[str, Callable[[], Any]] = {
    "1-d f8, 8 KB": lambda: walk(1000),
    "1-d f8, 32 MB": lambda: walk(4_000_000),
    "2-d i4, 16 MB": lambda: np.random.default_rng(2).integers(0, 1000, (4000, 1000)).astype("i4"),
    "3-d f4, 16 KB": lambda: (walk(16, 16, 16) * 50).astype("f4"),
    "3-d f4, 8 MB": lambda: (walk(128, 128, 128) * 50).astype("f4"),
    "3-d i2, 64 MB": lambda: (walk(256, 256, 512) * 50).astype("i2"),
    "3-d u1 images, 2 MB": lambda: np.random.default_rng(3).integers(0, 255, (500, 64, 64)).astype("u1"),
}
LEAVES = {
    "10 leaves of 80 B": (10, (10,)), "500 leaves of 80 B": (500, (10,)), "100 leaves of 80 KB": (100, (100, 100)),
    "4 leaves of 8 MB": (4, (1000, 1000)),
}  # fmt: skip
_made: dict[str, Any] = {}


def items_of(data: str) -> Any:
    """The items of a set of data; those of the last few rows are kept."""
    if data not in _made:
        if len(_made) > 2:
            _made.clear()
        _made[data] = DATA[data]()
    return _made[data]


def records() -> Any:
    items = np.zeros(500_000, [("a", "i4"), ("b", "f8")])
    items["a"], items["b"] = np.arange(500_000), walk(500_000)
    return items


def grid(shape: tuple[int, ...]) -> dict[str, Any]:
    """Half of each axis is a chunk, half of that a block: eight chunks of eight blocks in three dimensions."""
    chunks = tuple(max(1, side // (2 if len(shape) > 1 else 8)) for side in shape)
    return {"chunks": chunks, "blocks": tuple(max(1, side // (2 if len(shape) > 1 else 16)) for side in chunks)}


def part(shape: tuple[int, ...], first: float, last: float) -> tuple[slice, ...]:
    return tuple(slice(int(side * first), max(int(side * first) + 1, int(side * last))) for side in shape)


def some(side: int, count: int) -> Any:
    return np.random.default_rng(side).integers(0, side, count)


def mask(array: Any, every: int) -> Any:
    return (np.arange(array.size) * 7919 % every == 0).reshape(array.shape)


def grow(array: Any) -> None:
    """Rows behind the last ones, and away again."""
    rows, rest = array.shape[0], array.shape[1:]
    array.resize((rows + max(1, rows // 20), *rest))
    array[rows:] = 3
    array.resize((rows, *rest))


def schunk(path: str | None, size: int, count: int) -> Any:
    place: dict[str, Any] = {"urlpath": path, "mode": "w"} if path else {}
    return blosc2.SChunk(chunksize=size, data=piece(size * count), cparams={"typesize": 4}, **place)


def piece(size: int) -> bytes:
    return bytes(items_of("3-d f4, 8 MB").tobytes()[:size])


def appended(path: str | None, size: int, count: int, data: bytes) -> int:
    place: dict[str, Any] = {"urlpath": path, "mode": "w"} if path else {}
    made = blosc2.SChunk(chunksize=size, **place)
    for _ in range(count):
        made.append_data(data)
    return int(made.nbytes)


def a_list(kind: str, count: int, path: str | None) -> Any:
    place: dict[str, Any] = {"urlpath": path, "mode": "w"} if path else {}
    made = getattr(blosc2, kind)(**place)
    made.extend([value_of(kind, n) for n in range(count)])
    return made


def whole(found: Any) -> Any:
    return list(found) if isinstance(found, blosc2.Batch) else found


def value_of(kind: str, n: int) -> Any:
    return {"a": n, "b": "x" * (n % 50)} if kind == "ObjectArray" else list(range(n % 7 + 20))


def write_store(path: Path, kind: str, leaves: str) -> None:
    items = [walk(*LEAVES[leaves][1]) + n for n in range(4)]
    remove(path)
    store = getattr(blosc2, kind)(str(path), mode="w")
    for n, key in enumerate(keys_of(leaves)):
        store[key] = items[n % 4]
    end(store)


def keys_of(leaves: str) -> list[str]:
    return [f"/g{n % 5}/n{n}" for n in range(LEAVES[leaves][0])]


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def touch(path: str) -> None:
    Path(path).touch()


def end(store: Any) -> None:
    if hasattr(store, "close"):
        store.close()


# ---------------------------------------------------------------------------------------------- what a row begins with
Names = dict[str, Any]


def item_names(here: Path, data: str) -> Names:
    return {"x": items_of(data), "path": str(here / "x.b2nd")}


def array_names(here: Path, data: str, where: str, *, changes: bool) -> Names:
    items = items_of(data)
    path = here / f"{'changed' if changes else zlib.crc32(data.encode())}.b2nd"
    if where == "memory":
        array = blosc2.asarray(items, **grid(items.shape))
    else:
        if changes or not path.exists():
            array = blosc2.asarray(items, urlpath=str(path), mode="w", **grid(items.shape))
        if not changes:
            array = blosc2.open(str(path), mode="r", mmap_mode="r" if where == "mapped" else None)
    chunk = tuple(slice(side, min(2 * side, end)) for side, end in zip(array.chunks, array.shape, strict=True))
    return {"a": array, "patch": part(array.shape, 0.2, 0.4), "chunk": chunk, "path": str(here / "x.b2nd")}


def schunk_names(here: Path, size: int, count: int, where: str) -> Names:
    own, other = (str(here / "s.b2frame"), str(here / "x.b2frame")) if where == "file" else (None, None)
    return {"s": schunk(own, size, count), "b": piece(size), "size": size, "count": count, "path": other}


def list_names(here: Path, kind: str, count: int, where: str) -> Names:
    own, other = (str(here / "z.b2b"), str(here / "x.b2b")) if where == "file" else (None, None)
    return {"z": a_list(kind, count, own), "v": value_of(kind, 3), "kind": kind, "count": count, "path": other}


def store_names(here: Path, kind: str, ext: str, leaves: str, *, mapped: bool = False, changes: bool = False) -> Names:
    stored = here / (f"changed{ext}" if changes else f"{kind}-{leaves.replace(' ', '-')}{ext}")
    if changes or not stored.exists():
        write_store(stored, kind, leaves)
    how: Names = {"mmap_mode": "r"} if mapped else {}
    other = {".b2z": ".b2d", ".b2d": ".b2z"}.get(ext, ext)
    cls = getattr(blosc2, kind)
    # Two handles that change one store are more than the published package takes.
    return ({} if changes else {"s": blosc2.open(str(stored), mode="r", **how)}) | {
        "how": how,
        "opened": lambda: cls(str(stored), mode="a"), "stored": str(stored), "path": str(here / f"x{other}"),
        "keys": keys_of(leaves), "kind": kind, "leaves": leaves, "tiny": np.arange(10.0),
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------------ the rows
@dataclass(frozen=True)
class Row:
    """What is timed, what is prepared before, what names these begin with, and the public names that it covers."""

    covers: tuple[str, ...]
    act: str
    before: str
    names: Callable[[Path], Names]


ROWS: dict[str, Row] = {}


def rows(table: str, cls: str, at: str, names: Callable[[Path], Names]) -> None:
    """Have the rows of a table, whose columns are two blanks or more apart; `at` says what they are about."""
    for line in filter(None, table.splitlines()):
        covers, act, *before = re.split(" {2,}", line)
        name = "; ".join(filter(None, (act.lstrip("~"), at)))
        assert name not in ROWS, name
        full = (name if "." in name else f"{cls}.{name}" for name in covers.split())
        ROWS[name] = Row(tuple(one.removeprefix(".") for one in full), act, before[0] if before else "", names)


def all_rows() -> None:
    """Have the rows of all tables."""
    for data in DATA:
        is_small, is_line = "MB" not in data, data.startswith("1-d")
        for where in ("memory", "file", "mapped"):
            tables = READS + SMALL_READS * is_small + LINE_READS * is_line
            rows(tables, "NDArray", f"{data}, {where}", partial(array_names, data=data, where=where, changes=False))
        for where in ("memory", "file"):
            tables = WRITES + LINE_WRITES * is_line
            rows(tables, "NDArray", f"{data}, {where}", partial(array_names, data=data, where=where, changes=True))
        rows(CREATING, "", data, partial(item_names, data=data))
    rows(OTHERS, "", "", lambda _: {})
    for name in ("zeros", "ones", "empty", "uninit", "nans", "full"):
        for side in (10, 1000, 10_000):
            rows(
                f".{name}  blosc2.{name}(({side}, {side}), {'3.5' if name == 'full' else 'dtype=float'}).shape",
                "",
                "",
                lambda _: {},
            )
    for size, count in ((1000, 20), (50_000, 100), (1 << 20, 8)):
        for where in ("memory", "file"):
            at = f"{count} chunks of {size} bytes, {where}"
            rows(SCHUNKS, "SChunk", at, partial(schunk_names, size=size, count=count, where=where))
    for kind in ("ObjectArray", "BatchArray"):
        for count in (20, 1000):
            for where in ("memory", "file"):
                rows(
                    LISTS, kind, f"{kind} of {count}, {where}", partial(list_names, kind=kind, count=count, where=where)
                )
    for kind, ext in (("EmbedStore", ".b2e"), *((kind, ext) for kind in STORES[1:] for ext in (".b2z", ".b2d"))):
        own = {"EmbedStore": EMBED, "DictStore": DICT, "TreeStore": TREE}[kind] + CONVERTING[ext]
        for leaves in LEAVES:
            for mapped in (False, True):
                at = f"{kind} {ext}, {leaves}{', mapped' * mapped}"
                rows(
                    STORE_READS + own, kind, at, partial(store_names, kind=kind, ext=ext, leaves=leaves, mapped=mapped)
                )
            tables = STORE_CHANGES + DICT_CHANGES * (kind != "EmbedStore") + TREE_CHANGES * (kind == "TreeStore")
            rows(
                tables,
                kind,
                f"{kind} {ext}, {leaves}",
                partial(store_names, kind=kind, ext=ext, leaves=leaves, changes=True),
            )
    for cls, make in INSTANCES.items():
        kept = getattr(blosc2, cls)
        named = {name for name in dir(kept) if isinstance(inspect.getattr_static(kept, name), property)}
        for name in sorted(named | set(getattr(kept, "__dataclass_fields__", ()))):
            if not name.startswith("_") and f"{cls}.{name}" not in " ".join(NOT_TIMED.values()).split():
                rows(
                    f"{cls}.{name}  ~one_{cls.lower()}.{name}  one_{cls.lower()} = {make}",
                    "",
                    "",
                    lambda here: {"here": here},
                )


#: How one of each class is made, of which properties are asked.
INSTANCES = {
    "NDArray": 'blosc2.asarray(items_of("3-d f4, 16 KB")[0])', "NDField": 'blosc2.asarray(records()[:100])["b"]',
    "SChunk": "schunk(None, 1000, 3)", "ObjectArray": 'a_list("ObjectArray", 10, None)',
    "BatchArray": 'a_list("BatchArray", 10, None)', "Batch": 'a_list("BatchArray", 10, None)[7]',
    "CParams": "blosc2.CParams()", "DParams": "blosc2.DParams()", "Storage": "blosc2.Storage()",
}  # fmt: skip


def public_names() -> list[str]:
    """What the package of this process offers, as far as it is timed here."""
    found = [name for name in dir(blosc2) if not name.startswith("_") and inspect.isroutine(getattr(blosc2, name))]
    for cls in CLASSES:
        kept = getattr(blosc2, cls, None)
        own = [n for n in dir(kept) if (not n.startswith("_") or n in SPECIAL) and hasattr(kept, n)]
        found += [f"{cls}.{n}" for n in own if getattr(object, n, None) is not getattr(kept, n)]
    return found


def plain(value: Any) -> Any:
    """What a result says, as numbers and checksums."""
    if isinstance(value, (blosc2.NDArray, blosc2.SChunk)):
        return plain(value[()] if isinstance(value, blosc2.NDArray) else value[:])
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, zlib.crc32(np.ascontiguousarray(value).tobytes())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return len(value), zlib.crc32(value)
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value


# ------------------------------------------------------------------------------------------------------- the processes
def is_expression(act: str) -> bool:
    """Whether an act has a value; otherwise it is one statement or several."""
    try:
        compile(act, "act", "eval")
    except SyntaxError:
        return False
    return True


class Turns:
    """The row that is at work: the driver takes samples of both packages in turns."""

    def __init__(self) -> None:
        self.names: Names = {}
        self.count = 1

    def about(self, _: dict[str, Any]) -> dict[str, Any]:
        """The rows, and names that this package offers."""
        rows = {name: one.covers for name, one in ROWS.items()}
        not_timed = " ".join(NOT_TIMED.values()).split()
        return {"names": public_names(), "rows": rows, "not timed": not_timed, "version": blosc2.__version__}

    def begin(self, job: dict[str, Any]) -> dict[str, Any]:
        """Make what the row needs, act twice, and say what that gives."""
        one, here = ROWS[job["row"]], Path(job["here"])
        self.names = names = COMMON | one.names(here)
        exec(one.before, names)
        act = one.act.lstrip("~")
        is_value = is_expression(act) and not act.startswith("grow")
        body = f"return {act}" if is_value else act
        exec(f"def act():\n {body}\ndef batch(range=range):\n for _ in range(count): act()", names)
        found = names["act"]()
        if "a" in names and not is_value:
            found = names["a"]
        told = repr(None if one.act.startswith("~") else plain(found))
        begun = time.perf_counter()
        names["act"]()
        took = max(time.perf_counter() - begun, 1e-8)
        names["count"] = self.count = max(1, int(BATCH / took)) if took < BATCH / 2 else 1
        return {"digest": zlib.crc32(told.encode()), "text": told[:200]}

    def sample(self, _: dict[str, Any]) -> dict[str, Any]:
        """The least wall and processor time of one call, of a few batches."""
        batch = self.names["batch"]
        walls: list[int] = []
        cpus: list[int] = []
        ends = time.perf_counter() + SAMPLE
        gc.collect()
        gc.disable()
        while not walls or time.perf_counter() < ends:
            cpu, begun = time.process_time_ns(), time.perf_counter_ns()
            batch()
            walls.append(time.perf_counter_ns() - begun)
            cpus.append(time.process_time_ns() - cpu)
        gc.enable()
        return {"wall": min(walls) / self.count, "cpu": min(cpus) / self.count}

    def end(self, _: dict[str, Any]) -> dict[str, Any]:
        """Let go of what the row needed. A store that ended later would write over that of the next row."""
        end(self.names.get("s"))
        self.names = {}
        return {}


all_rows()
COMMON: Names = {**globals(), "LZ4": blosc2.Codec.LZ4, "lz4": {"codec": blosc2.Codec.LZ4}}
if __name__ == "__main__":
    turns = Turns()
    serve({"names": turns.about, "begin": turns.begin, "sample": turns.sample, "end": turns.end})
