"""The rows of `gate.py`, and the process that runs them with the `blosc2` of its Python.

A row makes something, once or for each sample, and takes the time of an act on it. What several rows read is made once
in the folder that the process is given.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import mmap
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from worker import serve

import blosc2

Act = Callable[[], Any]
Make = Callable[[Path], Any]
PACKAGE = os.path.dirname(blosc2.__file__) + os.sep
LEAVES = 2000
KEYS = [f"/g{n % 20}/part{n // 100}/k{n}" for n in range(LEAVES)]
TINY = [np.arange(16, dtype="<f4") + n for n in range(LEAVES)]
BLOCK = np.arange(2048, dtype="<i8") * 7919 % 10007
LZ4 = {"codec": blosc2.Codec.LZ4, "clevel": 5}
GRID: dict[str, Any] = {"chunks": (64, 64, 64), "blocks": (16, 32, 32), "cparams": LZ4}


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    limit : float
        The least that the time of the old build, divided by that of the new one, may be.
    most : float
        Seconds that the new build may take, in place of a ratio; 0 for no such limit.
    hot : bool
        Whether its instructions are counted.
    samples : int
        How many samples of each process count.
    """

    acts: Callable[[Path], Generator[Act, None, None]]
    limit: float = 0.97
    most: float = 0.0
    hot: bool = False
    samples: int = 8


ROWS: dict[str, Row] = {}


def once(name: str, make: Make, act: Callable[[Any], Any], **more: Any) -> None:
    """A row that acts again and again on what is made once."""

    def acts(here: Path) -> Generator[Act, None, None]:
        made = make(here)
        while True:
            yield partial(act, made)

    ROWS[name] = Row(acts, **more)


def anew(name: str, make: Make, act: Callable[[Any], Any], end: Callable[[Any], Any] = id, **more: Any) -> None:
    """A row that acts on something else for each sample; `end` takes it away."""

    def acts(here: Path) -> Generator[Act, None, None]:
        while True:
            made = make(here)
            try:
                yield partial(act, made)
            finally:
                end(made)

    ROWS[name] = Row(acts, **more)


# ---------------------------------------------------------------------------------------------- what rows read
def kept(path: Path, make: Callable[[str], Any]) -> str:
    """The path of a file or store that is made the first time."""
    if not path.exists():
        aside = path.with_name("new-" + path.name)
        make(str(aside))
        aside.rename(path)
    return str(path)


def fill(kind: Any, count: int, path: str) -> None:
    """Make a store of tiny leaves."""
    with kind(path, mode="w") as store:
        store.write_many(zip(KEYS[:count], TINY))


def tiny(here: Path, kind: Any = blosc2.TreeStore, name: str = "tiny.b2z", count: int = LEAVES) -> str:
    return kept(here / name, partial(fill, kind, count))


def volume(n: int = 0) -> np.ndarray[Any, Any]:
    x, y, z = np.ogrid[:128, :128, :128]
    values: np.ndarray[Any, Any] = (x * y + 3 * z + (x * z) // (7 + n)).astype("<f4")
    return values


def volumes(here: Path) -> str:
    def make(path: str) -> None:
        with blosc2.DictStore(path, mode="w") as store:
            store.update({f"/v{n}": blosc2.asarray(volume(n), **GRID) for n in range(3)})

    return kept(here / "volumes.b2z", make)


def boxes(count: int, side: int = 24) -> list[tuple[str, tuple[slice, ...]]]:
    starts = np.random.default_rng(count).integers(0, 128 - side, (count, 3)).tolist()
    return [(f"/v{n % 3}", tuple(slice(a, a + side) for a in one)) for n, one in enumerate(starts)]


PATCHES = boxes(64)
BOXES = [box for _, box in boxes(100)]
ITEMS = np.random.default_rng(1).integers(0, 128, (200, 3)).tolist()
POINTS = tuple(np.array(ITEMS).T)


# ---------------------------------------------------------------------------------------------- importing, opening
def imported(_: Any) -> float:
    """Nanoseconds of an import by a process of its own, which has those of others."""
    code = "import time, numpy, msgpack; t = time.perf_counter_ns(); import blosc2; print(time.perf_counter_ns() - t)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def open_often(path: str) -> None:
    for _ in range(30):
        blosc2.open(path, mmap_mode="r").close()


TURNS = itertools.count()


def some_paths(here: Path) -> list[str]:
    """Other files each time."""

    def make(folder: str) -> None:
        os.mkdir(folder)
        for n in range(300):
            blosc2.asarray(TINY[n], urlpath=f"{folder}/{n}.b2nd")

    folder, first = kept(here / "arrays", make), next(TURNS) % 6 * 50
    return [f"{folder}/{n}.b2nd" for n in range(first, first + 50)]


def close_all(stores: list[Any]) -> None:
    for store in stores:
        store.close()


once("import", str, imported, samples=3)
once("open and close .b2z", tiny, open_often)
once("open and close .b2z without catalog", lambda here: tiny(here, name="few.b2z", count=200), open_often)
once("open and close .b2d", lambda here: tiny(here, blosc2.DictStore, "few.b2d", 200), open_often)
once("open and close .b2e", lambda here: tiny(here, blosc2.EmbedStore, "few.b2e", 200), open_often)
anew("open an array, mapped", some_paths, lambda paths: [blosc2.open(path, mmap_mode="r") for path in paths], hot=True)
anew("first leaf of a store", lambda here: [blosc2.open(tiny(here), mmap_mode="r") for _ in range(50)],
     lambda stores: [store[KEYS[7]] for store in stores], close_all)  # fmt: skip


# ---------------------------------------------------------------------------------------------- leaves
def mapped(here: Path) -> Any:
    return blosc2.open(tiny(here), mode="r", mmap_mode="r")


def not_mapped(here: Path) -> Any:
    return blosc2.open(tiny(here), mode="r")


def held(here: Path) -> tuple[Any, list[Any]]:
    store = mapped(here)
    return store, [store[key] for key in KEYS]


once("store[key], not open", mapped, lambda store: [store[key] for key in KEYS], hot=True)
once("store[key], held", held, lambda both: [both[0][key] for key in KEYS * 5], hot=True)
once("key in store", mapped, lambda store: [key in store for key in KEYS * 5], hot=True)
once("no key in store", mapped, lambda store: [key + "x" in store for key in KEYS * 5], hot=True)
once("store.read, mapped", mapped, lambda store: [store.read(key) for key in KEYS], hot=True)
once("store.read, not mapped", not_mapped, lambda store: [store.read(key) for key in KEYS], limit=0.85)
once("store[key][:], mapped", mapped, lambda store: [store[key][:] for key in KEYS], hot=True)
once("store[key][:], not mapped", not_mapped, lambda store: [store[key][:] for key in KEYS], limit=0.85)
once("read_many of leaves", mapped, lambda store: [store.read_many(KEYS) for _ in range(3)], hot=True)
once("list(store)", mapped, lambda store: [list(store) for _ in range(4)], hot=True)
once("store.items()", mapped, lambda store: list(store.items()))
once("walk", mapped, lambda store: list(store.walk()))
once("get_children", mapped, lambda store: [store.get_children("/") for _ in range(200)])
once("stats", mapped, lambda store: [store.stats() for _ in range(50)])


# ---------------------------------------------------------------------------------------------- arrays
def array_in(where: str, here: Path) -> Any:
    if where == "memory":
        return blosc2.asarray(volume(), **GRID)
    path = kept(here / "volume.b2nd", lambda path: blosc2.asarray(volume(), urlpath=path, **GRID))
    return blosc2.open(path, mode="r", mmap_mode="r" if where == "mapped" else None)


def cold(here: Path) -> str:
    """A file on a disk, none of which is in memory."""
    path = volumes(here / "disk")
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)
    return path


def read_cold(path: str) -> None:
    with blosc2.open(path, mmap_mode="r") as store:
        store.read_many(PATCHES)


for _where in ("memory", "mapped", "positional"):
    once(f"slices 24x24x24, {_where}", partial(array_in, _where), lambda array: [array[box] for box in BOXES],
         hot=_where == "mapped")  # fmt: skip
in_file, store_of_volumes = partial(array_in, "mapped"), lambda here: blosc2.open(volumes(here), mmap_mode="r")
once("items", in_file, lambda array: [array[i, j, k] for i, j, k in ITEMS], hot=True)
once("all items", in_file, lambda array: array[:])
once("points", in_file, lambda array: array[POINTS])
once("read_many of boxes", in_file, lambda array: array.read_many(BOXES))
once("patches of a store, one by one", store_of_volumes, lambda store: [store[key][box] for key, box in PATCHES])
once("patches of a store, read_many", store_of_volumes, lambda store: store.read_many(PATCHES), hot=True)
anew("64 cold patches", cold, read_cold, limit=0.90)


# ---------------------------------------------------------------------------------------------- writing to stores
def writing(name: str, act: Callable[[Any], Any], kind: Any = blosc2.TreeStore, suffix: str = ".b2z", *,
            count: int = 0, **more: Any) -> None:  # fmt: skip
    """An act on a store that is made anew for each sample, with so many leaves."""

    def make(here: Path) -> Any:
        path = str(here / f"changed{suffix}")
        blosc2.remove_urlpath(path)
        fill(kind, count, path)
        store = kind(path, mode="a")
        store["/warm"] = TINY[0]
        if kind is not blosc2.EmbedStore:
            store.flush()
        return store

    anew(name, make, act, lambda store: store.close(), **more)


def set_leaves(store: Any, count: int = 1000) -> None:
    for key, value in zip(KEYS[:count], TINY):
        store[key] = value


def transactions(store: Any) -> None:
    for n in range(20):
        with store.transaction():
            set_leaves(store, 10)
            store.rename(KEYS[n % 10], f"/other{n}")


def flushes(store: Any) -> None:
    for n in range(20):
        store[f"/new{n}"] = TINY[n]
        store.flush()


def close(store: Any) -> None:
    store["/new"] = TINY[1]
    store.close()


def large_group(here: Path) -> Any:
    def make(path: str) -> None:
        with blosc2.TreeStore(path, mode="w") as store:
            store.write_many((f"/group/g{n % 100}/k{n}", TINY[0]) for n in range(100_000))

    return blosc2.TreeStore(kept(here / "large.b2z", make), mode="a")


def forget(store: Any) -> None:
    store.discard()
    store.close()


writing("set small leaves, TreeStore .b2z", set_leaves, hot=True)
writing("set small leaves, DictStore .b2z", set_leaves, blosc2.DictStore, hot=True)
writing("set small leaves, .b2d", lambda store: set_leaves(store, 50), blosc2.DictStore, ".b2d")
writing("set small leaves, .b2e", lambda store: set_leaves(store, 100), blosc2.EmbedStore, ".b2e")
writing("replace small leaves", lambda store: set_leaves(store, LEAVES), count=LEAVES)
writing("update", lambda store: store.update(zip(KEYS, TINY)), hot=True)
writing("write_many of tiny leaves", lambda store: store.write_many(zip(KEYS, TINY)), limit=0.75)
writing("write_many of leaves of 16 KB", lambda store: store.write_many((key, BLOCK) for key in KEYS[:100]))
writing("flush of one leaf, 20 times", flushes, count=LEAVES)
writing("close after one leaf", close, count=LEAVES)
writing("20 transactions of 11 acts", transactions)
writing("del of leaves", lambda store: [store.__delitem__(key) for key in KEYS[:500]], count=LEAVES)
writing("rename of leaves", lambda store: [store.rename(key, "/r" + key[1:]) for key in KEYS[:50]], count=LEAVES)
writing("compact", lambda store: store.compact(), count=LEAVES)
anew("rename of a group of 100,000", large_group, lambda store: store.rename("/group", "/other"), forget,
     limit=0.0, most=0.5, samples=2)  # fmt: skip
anew("del of a group of 100,000", large_group, lambda store: store.__delitem__("/group"), forget,
     limit=0.0, most=0.01, samples=2)  # fmt: skip
once("to_b2z of a directory", lambda here: blosc2.DictStore(tiny(here, blosc2.DictStore, "few.b2d", 200), mode="r"),
     lambda store: store.to_b2z(overwrite=True, filename=store.localpath + "-copy.b2z"))  # fmt: skip
once("check", lambda here: tiny(here, name="few.b2z", count=200), blosc2.check)


# ---------------------------------------------------------------------------------------------- making, changing arrays
def new_array(in_file: bool, here: Path) -> Any:
    value, where = np.arange(200_000, dtype="<f8").reshape(2000, 100), {"urlpath": here / "changed.b2nd", "mode": "w"}
    options: dict[str, Any] = {"chunks": (200, 100), "blocks": (50, 100), "cparams": LZ4, **(where if in_file else {})}
    return blosc2.asarray(value, **options)


def assign(array: Any) -> None:
    for n in range(20):
        array[n * 97 : n * 97 + 30, 10:50] = n


def grow(array: Any) -> None:
    for n in range(10):
        array.append(ROWS_OF_100)
        array.resize((array.shape[0] + n, 100))


def set_attributes(array: Any) -> Any:
    for n in range(40):
        array.vlmeta[f"name{n % 4}"] = {"value": n}
    return array


ROWS_OF_100 = np.arange(3000.0).reshape(30, 100)
once("asarray of small arrays", str, lambda _: [blosc2.asarray(value) for value in TINY[:200]], hot=True)
once("asarray of 8 MB", lambda _: volume(), lambda value: blosc2.asarray(value, **GRID))
for _in_file in (False, True):
    _make, _of = partial(new_array, _in_file), "file" if _in_file else "memory"
    anew(f"assignment of slices, {_of}", _make, assign, hot=not _in_file)
    anew(f"append and resize, {_of}", _make, grow)
    anew(f"vlmeta set, {_of}", _make, set_attributes)
once("vlmeta get", lambda _: set_attributes(blosc2.asarray(TINY[0])),
     lambda array: [array.vlmeta["name1"] for _ in range(500)], hot=True)  # fmt: skip


# ---------------------------------------------------------------------------------------------- counts
class Instructions:
    """Counts instructions under `valgrind --tool=callgrind --instr-atstart=no`.

    Valgrind takes a request where it sees some rotations of a register (valgrind.h): here in a function of a few bytes.
    """

    CODE = "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3"
    DUMP, ZERO, START, STOP = (0x43540000 + n for n in (0, 1, 4, 5))  # callgrind.h

    def __init__(self, out: str) -> None:
        self.out = Path(out)
        self.memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self.memory.write(bytes.fromhex(self.CODE))
        address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.function = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(address)

    def ask(self, request: int) -> None:
        words = (ctypes.c_uint64 * 6)(request)
        self.function(ctypes.addressof(words))

    def __call__(self, act: Act) -> int:
        before = set(self.out.parent.glob(self.out.name + ".*"))
        self.ask(self.ZERO)
        self.ask(self.START)
        act()
        self.ask(self.STOP)
        self.ask(self.DUMP)
        (new,) = set(self.out.parent.glob(self.out.name + ".*")) - before
        found = re.search(r"^totals: (\d+)", new.read_text(encoding="utf-8"), re.MULTILINE)
        assert found is not None
        return int(found[1])


def calls(act: Act, only: str = "") -> int:
    """How many functions are called: those in C, too, or those of Python in files below a folder."""
    seen = [0]

    def note(frame: Any, event: str, _: Any) -> None:
        seen[0] += (event == "call" and frame.f_code.co_filename.startswith(only)) or (event == "c_call" and not only)

    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(None)
    return seen[0]


def python_calls(here: Path) -> dict[str, int]:
    """Functions of the package, in Python, that acts call which are done once."""
    path, file = str(here / "calls.b2z"), str(here / "calls.b2nd")
    found, value = {}, TINY[0]
    with blosc2.DictStore(path, mode="w") as store:
        store["/a/b"], store["/c"] = np.arange(100), value
    with blosc2.open(path, mmap_mode="r") as store:  # what is imported or made once is there
        store["/a/b"][1]
    opened: list[Any] = []
    found["open a store"] = calls(lambda: opened.append(blosc2.open(path, mmap_mode="r")), PACKAGE)
    found["first leaf"] = calls(lambda: opened[0]["/a/b"], PACKAGE)
    opened[0].close()
    with blosc2.DictStore(path, mode="a") as store:
        store["/x"] = value
        store.flush()
        found["set a first leaf"] = calls(lambda: store.__setitem__("/y", value), PACKAGE)
        found["flush"] = calls(store.flush, PACKAGE)
    array = blosc2.asarray(np.zeros((100, 100)), chunks=(50, 50), blocks=(10, 50), urlpath=file, mode="w")
    array[0] = 1
    found["assign a slice in a file"] = calls(lambda: array.__setitem__((slice(3, 30), 5), 2.0), PACKAGE)
    return found


# ---------------------------------------------------------------------------------------------- the process
RUNNING: dict[str, Generator[Act, None, None]] = {}


def sample(job: dict[str, Any]) -> dict[str, Any]:
    """One sample of a row, which goes on from the last one."""
    name = job["row"]
    if name not in RUNNING:
        RUNNING[name] = ROWS[name].acts(Path(job["here"]))
        gc.collect()
    act = next(RUNNING[name])
    gc.disable()
    start = time.perf_counter_ns()
    found = act()
    spent = time.perf_counter_ns() - start
    gc.enable()
    return {"ns": found if isinstance(found, float) else spent}


def end(job: dict[str, Any]) -> dict[str, Any]:
    """End a row."""
    RUNNING.pop(job["row"]).close()
    gc.collect()
    return {}


def count(job: dict[str, Any]) -> dict[str, Any]:
    """Instructions of a hot row, or functions that it calls where nothing counts instructions."""
    rows = ROWS[job["row"]].acts(Path(job["here"]))
    next(rows)()  # what is done once
    gc.disable()
    counted: Callable[[Act], int] = Instructions(job["out"]) if job["out"] else calls
    found = counted(next(rows))
    gc.enable()
    return {"count": found}


def about(job: dict[str, Any]) -> dict[str, Any]:
    """Which package this is, and its counts of calls; from now on it uses so many threads."""
    blosc2.set_nthreads(job["threads"])
    rows = {
        name: {"limit": row.limit, "most": row.most, "hot": row.hot, "samples": row.samples}
        for name, row in ROWS.items()
    }
    return {"file": blosc2.__file__, "rows": rows}


def acts(job: dict[str, Any]) -> dict[str, Any]:
    """Functions of Python that single acts call."""
    return python_calls(Path(job["here"]))


if __name__ == "__main__":
    serve({job.__name__: job for job in (sample, end, count, about, acts)})
