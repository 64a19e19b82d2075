"""The rows of `gate.py`, and the process that runs them with the `blosc2` of its Python.

A row makes something, once or for each sample, and takes the time of an act on it. What several rows read is made once
in the folder that the process is given.
"""

from __future__ import annotations

import ctypes
import gc
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
    """One line of the table."""

    acts: Callable[[Path], Generator[Act, None, None]]
    limit: float = 0.97  # the least that the time of the old build, divided by that of the new one, may be
    most: float = 0.0  # seconds that the new build may take, in place of a ratio
    hot: bool = False  # whether its instructions are counted
    samples: int = 8  # how many of each process count


ROWS: dict[str, Row] = {}


def row(name: str, make: Make, act: Callable[[Any], Any], end: Callable[[Any], Any] | None = None, **more: Any) -> None:
    """A row that acts on what is made once or, where `end` takes it away, for each sample."""

    def acts(here: Path) -> Generator[Act, None, None]:
        made = make(here)
        while True:
            try:
                yield partial(act, made)
            finally:
                if end is not None:
                    end(made)
            made = make(here) if end is not None else made

    ROWS[name] = Row(acts, **more)


# ---------------------------------------------------------------------------------------------- what rows read
def kept(path: Path, make: Callable[[str], Any]) -> str:
    """The path of a file or store that is made the first time."""
    if not path.exists():
        make(str(path))
    return str(path)


def fill(kind: Any, count: int, path: str) -> None:
    """Make a store of tiny leaves."""
    with kind(path, mode="w") as store:
        store.write_many(zip(KEYS[:count], TINY))


def tiny(here: Path, kind: Any = blosc2.TreeStore, name: str = "tiny.b2z", count: int = LEAVES) -> str:
    return kept(here / name, partial(fill, kind, count))


def volume(n: int = 0) -> Any:
    x, y, z = np.ogrid[:128, :128, :128]
    return (x * y + 3 * z + (x * z) // (7 + n)).astype("<f4")


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


def imported(_: Any) -> float:
    """Nanoseconds of an import by a process of its own, which has those of others."""
    code = "import time, numpy, msgpack; t = time.perf_counter_ns(); import blosc2; print(time.perf_counter_ns() - t)"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)


def open_often(path: str) -> None:
    for _ in range(30):
        blosc2.open(path, mmap_mode="r").close()


def many_files(here: Path) -> list[str]:
    """More files than are kept open."""
    (here / "arrays").mkdir(exist_ok=True)
    return [kept(here / f"arrays/{n}.b2nd", lambda path: blosc2.asarray(TINY[0], urlpath=path)) for n in range(300)]


row("import", str, imported, samples=3)
row("open and close .b2z", tiny, open_often)
row("open and close .b2z without catalog", lambda here: tiny(here, name="few.b2z", count=200), open_often)
row("open and close .b2d", lambda here: tiny(here, blosc2.DictStore, "few.b2d", 200), open_often)
row("open and close .b2e", lambda here: tiny(here, blosc2.EmbedStore, "few.b2e", 200), open_often)
row("open arrays, mapped", many_files, lambda paths: [blosc2.open(path, mmap_mode="r") for path in paths], hot=True)
row("first leaf of a store", lambda here: [blosc2.open(tiny(here), mmap_mode="r") for _ in range(50)],
     lambda stores: [one[KEYS[7]] for one in stores], lambda stores: [one.close() for one in stores])  # fmt: skip


# ---------------------------------------------------------------------------------------------- leaves
def opened(mmap_mode: str | None, path: Callable[[Path], str], here: Path) -> Any:
    return blosc2.open(path(here), mode="r", mmap_mode=mmap_mode)


def held(here: Path) -> tuple[Any, list[Any]]:
    store = opened("r", tiny, here)
    return store, [store[key] for key in KEYS]


mapped, not_mapped = partial(opened, "r", tiny), partial(opened, None, tiny)
row("store[key], not open", mapped, lambda store: [store[key] for key in KEYS], hot=True)
row("store[key], held", held, lambda both: [both[0][key] for key in KEYS * 5], hot=True)
row("key in store", mapped, lambda store: [key in store for key in KEYS * 5], hot=True)
row("no key in store", mapped, lambda store: [key + "x" in store for key in KEYS * 5], hot=True)
row("store.read, mapped", mapped, lambda store: [store.read(key) for key in KEYS], hot=True)
row("store.read, not mapped", not_mapped, lambda store: [store.read(key) for key in KEYS], limit=0.85)
row("store[key][:], mapped", mapped, lambda store: [store[key][:] for key in KEYS], hot=True)
row("store[key][:], not mapped", not_mapped, lambda store: [store[key][:] for key in KEYS], limit=0.85)
row("read_many of leaves", mapped, lambda store: [store.read_many(KEYS) for _ in range(3)], hot=True)
row("list(store)", mapped, lambda store: [list(store) for _ in range(4)], hot=True)
row("store.items()", mapped, lambda store: list(store.items()))
row("walk", mapped, lambda store: list(store.walk()))
row("get_children", mapped, lambda store: [store.get_children("/") for _ in range(200)])
row("stats", mapped, lambda store: [store.stats() for _ in range(50)])


# ---------------------------------------------------------------------------------------------- arrays
def array_in(where: str, here: Path) -> Any:
    if where == "memory":
        return blosc2.asarray(volume(), **GRID)
    path = kept(here / "volume.b2nd", lambda path: blosc2.asarray(volume(), urlpath=path, **GRID))
    return blosc2.open(path, mode="r", mmap_mode="r" if where == "mapped" else None)


def cold(here: Path) -> str:
    """A file on a disk, none of which is in memory."""
    path = volumes(here / "disk")
    with open(path, "rb") as file:
        os.fsync(file)
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return path


for _where in ("memory", "mapped", "positional"):
    row(f"slices 24x24x24, {_where}", partial(array_in, _where), lambda array: [array[box] for box in BOXES],
         hot=_where == "mapped")  # fmt: skip
in_file, store_of_volumes = partial(array_in, "mapped"), partial(opened, "r", volumes)
row("items", in_file, lambda array: [array[i, j, k] for i, j, k in ITEMS], hot=True)
row("all items", in_file, lambda array: array[:])
row("points", in_file, lambda array: array[POINTS])
row("read_many of boxes", in_file, lambda array: array.read_many(BOXES))
row("patches of a store, one by one", store_of_volumes, lambda store: [store[key][box] for key, box in PATCHES])
row("patches of a store, read_many", store_of_volumes, lambda store: store.read_many(PATCHES), hot=True)
row("64 cold patches", cold, lambda path: blosc2.open(path, mmap_mode="r").read_many(PATCHES), id, limit=0.90)


# ---------------------------------------------------------------------------------------------- writing to stores
def writing(name: str, act: Callable[[Any], Any], kind: Any = blosc2.TreeStore, suffix: str = ".b2z", *,
            count: int = 0, pending: bool = False, **more: Any) -> None:  # fmt: skip
    """An act on a store that is made anew for each sample, with so many leaves, and maybe one that is not published."""

    def make(here: Path) -> Any:
        path = str(here / f"changed{suffix}")
        blosc2.remove_urlpath(path)
        fill(kind, count, path)
        store = kind(path, mode="a")
        store["/warm"] = TINY[0]
        if kind is not blosc2.EmbedStore and not pending:
            store.flush()
        return store

    row(name, make, act, lambda store: store.close(), **more)


def set_leaves(store: Any, count: int = 1000) -> None:
    for key, value in zip(KEYS[:count], TINY):
        store[key] = value


def transactions(store: Any) -> None:
    for n in range(20):
        with store.transaction():
            set_leaves(store, 10)
            store.rename(KEYS[n % 10], f"/other{n}")


def write_by_two(store: Any) -> None:
    """With one thread nothing is written beside."""
    threads = blosc2.set_nthreads(2)
    store.write_many(zip(KEYS, TINY))
    blosc2.set_nthreads(threads)


def large_group(here: Path) -> Any:
    def make(path: str) -> None:
        with blosc2.TreeStore(path, mode="w") as store:
            store.write_many((f"/group/g{n % 100}/k{n}", TINY[0]) for n in range(100_000))

    return blosc2.TreeStore(kept(here / "large.b2z", make), mode="a")


def forget(store: Any) -> None:
    store.discard()
    store.close()


FEW: dict[str, Any] = {"limit": 0.0, "samples": 2}
writing("set small leaves, TreeStore .b2z", set_leaves, hot=True)
writing("set small leaves, DictStore .b2z", set_leaves, blosc2.DictStore, hot=True)
writing("set small leaves, .b2d", lambda store: set_leaves(store, 50), blosc2.DictStore, ".b2d")
writing("set small leaves, .b2e", lambda store: set_leaves(store, 100), blosc2.EmbedStore, ".b2e")
writing("replace small leaves", lambda store: set_leaves(store, LEAVES), count=LEAVES)
writing("update", lambda store: store.update(zip(KEYS, TINY)), hot=True)
writing("write_many of tiny leaves", write_by_two, limit=0.75)
writing("write_many of leaves of 16 KB", lambda store: store.write_many((key, BLOCK) for key in KEYS[:100]))
writing("20 flushes of a leaf", lambda store: [(store.update({f"/n{n}": TINY[n]}), store.flush()) for n in range(20)],
        count=LEAVES)  # fmt: skip
# It compacts what was written twice.
writing("close", lambda store: store.close(), count=LEAVES, pending=True, limit=0.55)
writing("20 transactions of 11 acts", transactions)
writing("del of leaves", lambda store: [store.__delitem__(key) for key in KEYS[:500]], count=LEAVES)
writing("rename of leaves", lambda store: [store.rename(key, "/r" + key[1:]) for key in KEYS[:50]], count=LEAVES)
writing("compact", lambda store: store.compact(), count=LEAVES)
row(
    "rename of a group of 100,000", large_group, lambda store: store.rename("/group", "/other"), forget, most=0.5, **FEW
)
row("del of a group of 100,000", large_group, lambda store: store.__delitem__("/group"), forget, most=0.01, **FEW)
row("to_b2z of a directory", lambda here: blosc2.DictStore(tiny(here, blosc2.DictStore, "few.b2d", 200), mode="r"),
     lambda store: store.to_b2z(overwrite=True, filename=store.localpath + "-copy.b2z"))  # fmt: skip
row("check", lambda here: tiny(here, name="few.b2z", count=200), blosc2.check)


def new_array(in_file: bool, here: Path) -> Any:
    value, where = np.arange(200_000, dtype="<f8").reshape(2000, 100), {"urlpath": here / "changed.b2nd", "mode": "w"}
    options: dict[str, Any] = {"chunks": (200, 100), "blocks": (50, 100), "cparams": LZ4, **(where if in_file else {})}
    return blosc2.asarray(value, **options)


def grow(array: Any) -> None:
    for n in range(10):
        array.append(ROWS_OF_100)
        array.resize((array.shape[0] + n, 100))


def set_attributes(array: Any) -> Any:
    for n in range(40):
        array.vlmeta[f"name{n % 4}"] = {"value": n}
    return array


SLICES = [(slice(n, n + 30), slice(10, 50)) for n in range(0, 1940, 97)]
ROWS_OF_100 = np.arange(3000.0).reshape(30, 100)
row("asarray of small arrays", str, lambda _: [blosc2.asarray(value) for value in TINY[:200]], hot=True)
row("asarray of 8 MB", lambda _: volume(), lambda value: blosc2.asarray(value, **GRID))
for _in_file in (False, True):
    _make, _of = partial(new_array, _in_file), "file" if _in_file else "memory"
    row(
        f"assignment of slices, {_of}",
        _make,
        lambda array: [array.__setitem__(box, 1) for box in SLICES],
        id,
        hot=not _in_file,
    )
    row(f"append and resize, {_of}", _make, grow, id)
    # A file is written anew as soon as most of it is dead, which of metadata it soon is.
    row(f"vlmeta set, {_of}", _make, set_attributes, id, limit=0.88 if _in_file else 0.97)
row("vlmeta get", lambda _: set_attributes(blosc2.asarray(TINY[0])),
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

    def ask(self, *requests: int) -> None:
        for request in requests:
            words = (ctypes.c_uint64 * 6)(request)
            self.function(ctypes.addressof(words))

    def __call__(self, act: Act) -> int:
        before = set(self.out.parent.glob(self.out.name + ".*"))
        self.ask(self.ZERO, self.START)
        act()
        self.ask(self.STOP, self.DUMP)
        (new,) = set(self.out.parent.glob(self.out.name + ".*")) - before
        return int(re.findall(r"^totals: (\d+)", new.read_text(encoding="utf-8"), re.MULTILINE)[0])


def calls(act: Act, only: str = "") -> int:
    """How many functions are called: those in C, too, or those of Python in files below a folder."""
    seen = [0]

    def note(frame: Any, event: str, _: Any) -> None:
        seen[0] += (event == "call" and frame.f_code.co_filename.startswith(only)) or (event == "c_call" and not only)

    sys.setprofile(note)
    act()
    sys.setprofile(None)
    return seen[0]


# ---------------------------------------------------------------------------------------------- the process
RUNNING: dict[str, Generator[Act, None, None]] = {}


def sample(job: dict[str, Any]) -> dict[str, Any]:
    """One sample of a row, which goes on from the last one."""
    name = job["row"]
    if name not in RUNNING:
        RUNNING[name] = ROWS[name].acts(Path(job["here"]))
        gc.collect()
    act = next(RUNNING[name])
    start = time.perf_counter_ns()
    found = act()
    spent = time.perf_counter_ns() - start
    return {"ns": found if isinstance(found, float) else spent}


def end(job: dict[str, Any]) -> dict[str, Any]:
    """End a row."""
    RUNNING.pop(job["row"]).close()
    return {}


def count(job: dict[str, Any]) -> dict[str, Any]:
    """Instructions of a hot row, or functions that it calls where nothing counts instructions."""
    rows = ROWS[job["row"]].acts(Path(job["here"]))
    next(rows)()  # what is done once
    counted: Callable[[Act], int] = Instructions(job["out"]) if job["out"] else calls
    return {"count": counted(next(rows))}


def about(job: dict[str, Any]) -> dict[str, Any]:
    """Which package this is, and what rows there are; from now on it uses so many threads."""
    blosc2.set_nthreads(job["threads"])
    rows = {name: {key: what for key, what in vars(row).items() if key != "acts"} for name, row in ROWS.items()}
    return {"file": blosc2.__file__, "rows": rows}


def acts(job: dict[str, Any]) -> dict[str, Any]:
    """Functions of the package, in Python, that single acts call."""
    path, file, opened = f"{job['here']}/calls.b2z", f"{job['here']}/calls.b2nd", list[Any]()
    with blosc2.TreeStore(path, mode="w") as store:
        store["/a/b"], store["/c"] = np.arange(100), TINY[0]
    with blosc2.open(path, mmap_mode="r") as store:  # what is imported or made once is there
        store["/a/b"][1]
    found = {"open a store": calls(lambda: opened.append(blosc2.open(path, mmap_mode="r")), PACKAGE)}
    found["first leaf"] = calls(lambda: opened[0]["/a/b"], PACKAGE)
    with blosc2.TreeStore(path, mode="a") as store:
        store["/x"] = TINY[0]
        store.flush()
        found["set a first leaf"] = calls(lambda: store.__setitem__("/g/y", TINY[1]), PACKAGE)
        found["flush"] = calls(store.flush, PACKAGE)
    array = blosc2.asarray(np.zeros((100, 100)), chunks=(50, 50), blocks=(10, 50), urlpath=file, mode="w")
    array[0] = 1
    found["assign a slice in a file"] = calls(lambda: array.__setitem__((slice(3, 30), 5), 2.0), PACKAGE)
    return found


if __name__ == "__main__":
    gc.disable()  # but for the collection before each row
    serve({job.__name__: job for job in (sample, end, count, about, acts)})
