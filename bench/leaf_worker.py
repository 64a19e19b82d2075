"""One side of `many_leaves.py`: jobs on stores of very many small values, with this package, LMDB or booklet.

It works like `worker.py` and has its jobs too: the process stays, takes one JSON line for each request, measures its
own time, and returns a sum over what it read. If another package or an older version lacks something, the job fails
with its name.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import resource
import shutil
import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from worker import JOBS, _clock, _close, _Quiet, serve

import blosc2

ITEMS, BATCH = 16, 10_000
CATALOG = b".b2/catalog"
Answer = dict[str, Any]

# ----------------------------------------------------------------------------------------------- keys and values


def nested_key(n: int) -> str:
    """Groups of 100 leaves, in groups of 100 groups."""
    return f"/experiment{n // 10_000:03d}/subject{n // 100 % 100:02d}/leaf{n % 100:02d}"


def prefix_key(n: int) -> str:
    """Leaves that mostly lie in groups of their own: 100,000 of them have some 267,000 groups."""
    return f"/bucket{n // 1000:03d}/day{n * 2 // 3:06d}/run{n:06d}/part{n % 7}-{n:06d}/leaf"


@functools.cache
def word_key(n: int) -> str:
    """Twelve random letters, different for each number."""
    draw = random.Random(n)
    return "/" + "".join(draw.choices(string.ascii_lowercase, k=12))


FAMILIES: dict[str, Callable[[int], str]] = {"nested": nested_key, "prefixes": prefix_key, "words": word_key}


@functools.lru_cache(maxsize=8)
def _numbers(count: int, sample: int) -> list[int]:
    """A shuffled sample, the same for all sides."""
    return random.Random(1).sample(range(count), min(sample, count))


def _sample(job: dict[str, Any]) -> list[str]:
    make = FAMILIES[job["family"]]
    return [make(n) for n in _numbers(job["leaves"], job["sample"])]


def _leaf_items(family: str, count: int) -> Iterator[tuple[str, np.ndarray]]:
    """Keys in order, each with 16 float32 from which the leaf's number can be read."""
    make = FAMILIES[family]
    for first in range(0, count, BATCH):
        numbers = range(first, min(first + BATCH, count))
        values = np.arange(first, first + len(numbers), dtype="f4")[:, None] + np.arange(ITEMS, dtype="f4")
        yield from zip(map(make, numbers), values, strict=True)


@functools.lru_cache(maxsize=1)
def _texts(count: int) -> dict[str, bytes]:
    """Values of 200 letters (50,000 by default), under keys of 12 letters."""
    letters = np.random.default_rng(1).integers(97, 123, (count, 200), dtype="u1")
    return {key: row.tobytes() for key, row in zip(map(word_key, range(count)), letters)}


def _sum(values: Any) -> float:
    if isinstance(values, np.ndarray):
        return float(values.sum(dtype="f8"))
    if isinstance(values, Mapping):
        values = values.values()
    return float(sum(np.asarray(value).sum(dtype="f8") for value in values))


def _peak() -> int:
    """The peak memory of this process, in bytes."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


# ------------------------------------------------------------------------------------------------- this package


def _write(store: Any, items: Iterable[tuple[str, Any]]) -> str:
    """Write all items with the fastest method that the package has; returns its name."""
    if hasattr(store, "write_many"):
        store.write_many(items)
        return "write_many"
    with store.transaction():
        for key, value in items:
            store[key] = value
    return "store[key] = value"


def _reading(job: dict[str, Any]) -> Any:
    return getattr(blosc2, job["call"])(job["path"], mode="r", mmap_mode=job.get("mmap_mode"))


def build(job: dict[str, Any]) -> Answer:
    """Write a new store of small leaves; times from open to close. The worker should be new."""
    blosc2.remove_urlpath(job["path"])
    before = _peak()
    with _Quiet():
        start = _clock()
        store = getattr(blosc2, job["call"])(job["path"], mode="w")
        how = _write(store, _leaf_items(job["family"], job["leaves"]))
        _close(store)
        spent = _clock() - start
    return {
        "ns": spent, "peak": _peak(), "before": before, "how": how, "bytes": os.path.getsize(job["path"]),
        "sum": job["leaves"],
    }  # fmt: skip


def make_children(job: dict[str, Any]) -> Answer:
    """A store of groups with so many leaves directly below each."""
    blosc2.remove_urlpath(job["path"])
    store = getattr(blosc2, job["call"])(job["path"], mode="w")
    value = np.zeros(1, "f4")
    _write(store, ((f"/group{size}/leaf{n:06d}", value) for size in job["sizes"] for n in range(size)))
    _close(store)
    return {}


def without_catalog(job: dict[str, Any]) -> Answer:
    """A copy of a store, with its catalog (if any) made invalid."""
    from blosc2._core.io.source import Source
    from blosc2._core.zip.archive import Archive

    shutil.copyfile(job["path"], job["to"])
    archive = Archive(Source.open(job["path"]))
    number = archive.find(CATALOG)
    if number < 0:
        return {"catalog": False}
    offset, size = archive.byte_range(number)
    with open(job["to"], "r+b") as file:
        file.seek(offset + size - 256)  # its footer
        file.write(bytes(256))
    return {"catalog": True, "bytes": size}


def open_and_find(job: dict[str, Any]) -> Answer:
    """Open the store and look up one key, or count the keys; closing is not measured."""
    probe = FAMILIES[job["family"]](job["leaves"] // 2)
    spent, found = 0, 0
    for _ in range(job["loops"]):
        with _Quiet():
            start = _clock()
            store = _reading(job)
            found += len(store) > 0 if job.get("length") else probe in store
            spent += _clock() - start
        _close(store)
    return {"ns": spent / job["loops"], "sum": found / job["loops"]}


def contains(job: dict[str, Any]) -> Answer:
    """`key in store`, one after the other."""
    store = _reading(job)
    answer = _contains(store, job)
    _close(store)
    return answer


def dict_contains(job: dict[str, Any]) -> Answer:
    """The same of a `dict` with as many keys."""
    key_of = FAMILIES[job["family"]]
    return _contains({key_of(number): number for number in range(job["leaves"])}, job)


def _contains(store: Any, job: dict[str, Any]) -> Answer:
    keys = _sample(job)
    if job.get("miss"):
        keys = [key + "x" for key in keys]
    rounds = max(1, job.get("most", 100_000) // len(keys))
    assert (keys[0] in store) is not job.get("miss", False)
    with _Quiet():
        start = _clock()
        for _ in range(rounds):
            found = [key in store for key in keys]
        spent = _clock() - start
    return {"ns": spent / rounds / len(keys), "sum": sum(found)}


def read_each(job: dict[str, Any]) -> Answer:
    """`store[key][:]`, one after the other."""
    store = _reading(job)
    keys = _sample(job)
    store[keys[0]][:]
    with _Quiet():
        start = _clock()
        values = [store[key][:] for key in keys]
        spent = _clock() - start
    _close(store)
    return {"ns": spent / len(keys), "sum": _sum(values)}


def get_each(job: dict[str, Any]) -> Answer:
    """`store[key]`, one after the other; the first keys are those of the other side."""
    store = _reading(job)
    keys = _sample(job)[: job["most"]]
    keys[0] in store  # noqa: B015 - reads the directory, if there is any left to read
    with _Quiet():
        start = _clock()
        leaves = [store[key] for key in keys]
        spent = _clock() - start
    total = _sum(leaf[:] for leaf in leaves[: job["shared"]])
    _close(store)
    return {"ns": spent / len(keys), "sum": total}


def read_many(job: dict[str, Any]) -> Answer:
    """`store.read_many(keys)`, by so many threads."""
    before = blosc2.set_nthreads(job["threads"])
    store = _reading(job)
    keys = _sample(job)
    out = np.empty((len(keys), ITEMS), "f4") if job.get("out") else None
    more = {} if out is None else {"out": out}
    store.read_many(keys[:10])
    with _Quiet():
        start = _clock()
        values = store.read_many(keys, **more)
        spent = _clock() - start
    total = _sum(values if out is None else out)
    _close(store)
    blosc2.set_nthreads(before)
    return {"ns": spent / len(keys), "sum": total}


def children(job: dict[str, Any]) -> Answer:
    """The children of a group, in a store that was just opened."""
    store = _reading(job)
    path = f"/group{job['size']}"
    count = len(store.get_children(path))
    rounds = max(3, 20_000 // job["size"])
    with _Quiet():
        start = _clock()
        for _ in range(rounds):
            store.get_children(path)
        spent = _clock() - start
    _close(store)
    return {"ns": spent / rounds / count, "sum": count / job["size"]}


def commit_one(job: dict[str, Any]) -> Answer:
    """Append one leaf to a store of many; times from open to close."""
    with _Quiet():
        start = _clock()
        store = getattr(blosc2, job["call"])(job["path"], mode="a")
        store[f"/one/more{job['number']}"] = np.arange(ITEMS, dtype="f4")
        _close(store)
        spent = _clock() - start
    return {"ns": spent}


def stats(job: dict[str, Any]) -> Answer:
    """`store.stats("/")` of a store that is just opened."""
    with _Quiet():
        start = _clock()
        store = _reading(job)
        store.stats("/")
        spent = _clock() - start
    _close(store)
    return {"ns": spent}


def commit_and_stats(job: dict[str, Any]) -> Answer:
    """The bytes of catalog and directory together: more than what the catalog adds to a commit."""
    return {"ns": commit_one(job)["ns"] + stats(job)["ns"]}


# ------------------------------------------------------------------------------------------------ texts, all sides


def _as_items(value: bytes) -> np.ndarray:
    return np.frombuffer(value, "u1")


def texts_write(job: dict[str, Any]) -> Answer:
    """Write a new store of texts; times from open to close."""
    arrays = {key: _as_items(value) for key, value in _texts(job["leaves"]).items()}
    blosc2.remove_urlpath(job["path"])
    with _Quiet():
        start = _clock()
        store = getattr(blosc2, job["call"])(job["path"], mode="w")
        how = _write(store, arrays.items())
        _close(store)
        spent = _clock() - start
    return {"ns": spent / len(arrays), "how": how}


def texts_keys(job: dict[str, Any]) -> Answer:
    """All keys."""
    store = _reading(job)
    with _Quiet():
        start = _clock()
        keys = list(store.keys())
        spent = _clock() - start
    _close(store)
    return {"ns": spent / len(keys), "sum": len(keys)}


def booklet_write(job: dict[str, Any]) -> Answer:
    """As `texts_write`, into a booklet."""
    import booklet

    texts = _texts(job["leaves"])
    with contextlib.suppress(FileNotFoundError):
        os.remove(job["path"])
    with _Quiet():
        start = _clock()
        book = booklet.open(job["path"], "n", key_serializer="str", value_serializer="bytes")
        book.update(texts)
        book.close()
        spent = _clock() - start
    return {"ns": spent / len(texts)}


def booklet_read(job: dict[str, Any]) -> Answer:
    """Values as NumPy arrays, one after the other or by `get_items`."""
    import booklet

    keys = _sample(job)
    with booklet.open(job["path"], "r") as book, _Quiet():
        start = _clock()
        if job.get("bulk"):
            values = [np.frombuffer(value, "u1") for _, value in book.get_items(keys)]
        else:
            values = [np.frombuffer(book[key], "u1") for key in keys]
        spent = _clock() - start
    return {"ns": spent / len(keys), "sum": _sum(values)}


def booklet_contains(job: dict[str, Any]) -> Answer:
    """`key in book`, one after the other."""
    import booklet

    keys = _sample(job)
    with booklet.open(job["path"], "r") as book, _Quiet():
        start = _clock()
        found = [key in book for key in keys]
        spent = _clock() - start
    return {"ns": spent / len(keys), "sum": sum(found)}


def booklet_keys(job: dict[str, Any]) -> Answer:
    """All keys."""
    import booklet

    with booklet.open(job["path"], "r") as book, _Quiet():
        start = _clock()
        keys = list(book.keys())
        spent = _clock() - start
    return {"ns": spent / len(keys), "sum": len(keys)}


# ---------------------------------------------------------------------------------------------------------- LMDB


def lmdb_build(job: dict[str, Any]) -> Answer:
    """The leaves of `build` in LMDB."""
    import lmdb

    shutil.rmtree(job["path"], ignore_errors=True)
    with _Quiet():
        start = _clock()
        with lmdb.open(job["path"], map_size=1 << 36) as environment, environment.begin(write=True) as change:
            for key, value in _leaf_items(job["family"], job["leaves"]):
                change.put(key.encode(), value.tobytes())
        spent = _clock() - start
    return {"ns": spent, "sum": job["leaves"]}


def lmdb_read(job: dict[str, Any]) -> Answer:
    """`getmulti`, and each value as an array. The keys are bytes already: that is how LMDB's users keep them."""
    import lmdb

    keys = [key.encode() for key in _sample(job)]
    with lmdb.open(job["path"], readonly=True, lock=False) as environment, environment.begin() as view:
        cursor = view.cursor()
        cursor.getmulti(keys[:10])
        with _Quiet():
            start = _clock()
            values = [np.frombuffer(value, "f4") for _, value in cursor.getmulti(keys)]
            spent = _clock() - start
        total = _sum(values)
    return {"ns": spent / len(keys), "sum": total}


JOBS |= {
    job.__name__: job
    for job in (
        build, make_children, without_catalog, open_and_find, contains, dict_contains, read_each, get_each, read_many,
        children, commit_one, stats, commit_and_stats, texts_write, texts_keys, booklet_write, booklet_read,
        booklet_contains, booklet_keys, lmdb_build, lmdb_read,
    )
}  # fmt: skip

if __name__ == "__main__":
    serve(JOBS)
