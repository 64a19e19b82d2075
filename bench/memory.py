"""How much private memory does each operation on a large array take, and how long, compared with `cp` and `sync`?

    python bench/memory.py                    an array of 300 MB that does not compress
    python bench/memory.py --mb 6000 --limit 1024   one of 6 GB; no operation may have more than 1 GB of data
    python bench/memory.py --rows edit        the rows whose names hold a word
    python bench/memory.py --rows edited --chunk-kb 4 --repeat 7    small chunks; the median of seven

Each row is a process of its own, which prepares the operation (opens the array or store), signals that it starts, and
performs it. Meanwhile this process reads the other's private memory every few milliseconds: `RssAnon` of
`/proc/PID/status`, that is, pages that belong to no file. Pages of files, mapped or not, belong to the system, which
frees them when it needs memory. The figure is the peak minus the value before the operation. The goal is 64 MB and 4
chunks.

The last column compares the time with that of `cp` and `sync` for as many bytes as the operation has to move, measured
right before; files are in the page cache. For chunk files, that is `cp -r` and `sync` of each of as many. The goal is
1.5. Operations that move nothing (`check`) have no such figure.
A disk that others use, too, takes several times as long now and then: `--repeat` gives medians.

`--limit` sets `RLIMIT_DATA` of each process, in MB: beyond it the operation fails.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
GOAL_MB, GOAL_CHUNKS, GOAL_RATIO = 64, 4, 1.5
ROW = 1 << 20  # bytes of the items [i]
MB = 1 << 20

#: Name -> (what it starts from, what is done, how many times the array is moved).
ROWS: dict[str, tuple[str, Callable[[Any, Path], Callable[[], Any]], float]] = {}


def row(name: str, start: str = "array", moved: float = 1) -> Callable[[Any], Any]:
    """Make a function a row: it prepares the operation, and returns what to measure."""

    def add(make: Any) -> Any:
        ROWS[name] = (start, make, moved)
        return make

    return add


def noise(rows: int) -> Any:
    """Items that no codec can compress."""
    return np.random.default_rng(rows).integers(0, 256, (rows, 1024, 1024), "u1")


#: KB of a chunk of the array.
chunk_kb = 4096


def chunks() -> tuple[int, int, int]:
    """Their shape."""
    return (chunk_kb >> 10, 1024, 1024) if chunk_kb >= 1024 else (1, chunk_kb, 1024)


def prepare(kind: str, mb: int, folder: Path) -> Path:
    """The array, or a store with the array under the key /big; it is made once, and each row gets a copy."""
    import blosc2

    path = folder / f"start-{kind.replace('.', '')}{'.b2nd' if kind == 'array' else kind}"
    if path.exists():
        return path
    if kind == "array":
        step = 16
        blocks = (noise(min(step, mb - n)) for n in range(0, mb, step))
        blosc2.asarray(blocks, shape=(mb, 1024, 1024), dtype="u1", chunks=chunks(), urlpath=path)
    else:
        array = blosc2.open(str(prepare("array", mb, folder)))
        kinds: Any = blosc2.EmbedStore if kind == ".b2e" else blosc2.TreeStore
        with kinds(str(path), mode="w") as store:
            store["/big"] = array
    return path


def _copy(start: Path, suffix: str, folder: Path) -> Path:
    path = folder / f"work{suffix}"
    if start.is_dir():
        shutil.copytree(start, path)
    else:
        shutil.copyfile(start, path)
    return path


# ------------------------------------------------------------------------------------------------ rows
def _blosc2() -> Any:
    import blosc2

    return blosc2


@row("array: copy(urlpath=)")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(start))
    return lambda: array.copy(urlpath=str(folder / "out.b2nd"))


@row("array: copy(urlpath=), mapped")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(start), mmap_mode="r")
    return lambda: array.copy(urlpath=str(folder / "out.b2nd"))


@row("array: save")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(start))
    return lambda: array.save(str(folder / "out.b2nd"))


@row("array: copy(urlpath=, contiguous=False)")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(start))
    return lambda: array.copy(urlpath=str(folder / "out.b2nd"), contiguous=False)


@row("array: copy(urlpath=, other chunks)")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(start))
    return lambda: array.copy(urlpath=str(folder / "out.b2nd"), chunks=(8, 512, 512))


def _into(suffix: str) -> None:
    @row(f"array: into a {suffix}")
    def _(start: Path, folder: Path) -> Any:
        blosc2 = _blosc2()
        array = blosc2.open(str(start))

        def run() -> None:
            kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
            with kind(str(folder / f"out{suffix}"), mode="w") as store:
                store["/a"] = array

        return run


for _suffix in (".b2z", ".b2d", ".b2e"):
    _into(_suffix)


def _items_into(suffix: str) -> None:
    @row(f"array: items of a NumPy memmap into a {suffix}")
    def _(start: Path, folder: Path) -> Any:
        blosc2 = _blosc2()
        items = np.memmap(start, "u1", "r", 0, (start.stat().st_size // ROW, 1024, 1024))

        def run() -> None:
            kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
            with kind(str(folder / f"out{suffix}"), mode="w") as store:
                store["/a"] = items

        return run


for _suffix in (".b2z", ".b2d", ".b2e"):
    _items_into(_suffix)


@row("array: write_many into a .b2z")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    array = blosc2.open(str(start))

    def run() -> None:
        with blosc2.TreeStore(str(folder / "out.b2z"), mode="w") as store:
            store.write_many({"/a": array})

    return run


@row("array: check", moved=0)
def _(start: Path, folder: Path) -> Any:  # noqa: ARG001
    blosc2 = _blosc2()
    return lambda: blosc2.check(str(start)).ok or sys.exit("damaged")


@row("array: salvage")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    return lambda: blosc2.salvage(str(start), str(folder / "out.b2nd"))


@row("array: compact after an edit")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(_copy(start, ".b2nd", folder)), mode="a")
    array[5, 5, 5] = 1
    return lambda: array.compact()


@row("array: one item edited", moved=0)
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(_copy(start, ".b2nd", folder)), mode="a")

    def run() -> None:
        array[5, 5, 5] = 1

    return run


@row("array: [:] = one value", moved=0)
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(_copy(start, ".b2nd", folder)), mode="a")

    def run() -> None:
        array[:] = 7

    return run


@row("array: [:] = a mapped array of noise")
def _(start: Path, folder: Path) -> Any:
    array = _blosc2().open(str(_copy(start, ".b2nd", folder)), mode="a")
    items = np.memmap(start, "u1", "r", 4096)
    items = np.memmap(start, "u1", "r", 0, (array.shape[0] - 1, 1024, 1024))

    def run() -> None:
        array[:-1] = items

    return run


@row("array: resize and fill, 40 MB at a time")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    rows = start.stat().st_size // ROW
    items = noise(40)

    def run() -> None:
        array = blosc2.empty((0, 1024, 1024), "u1", chunks=(4, 1024, 1024), urlpath=str(folder / "out.b2nd"))
        for first in range(0, rows, 40):
            stop = min(first + 40, rows)
            array.resize((stop, 1024, 1024))
            array[first:stop] = items[: stop - first]

    return run


@row("array: append, 40 MB at a time")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    size = start.stat().st_size
    items = noise(40).reshape(-1)

    def run() -> None:
        array = blosc2.empty((0,), "u1", chunks=(4 << 20,), urlpath=str(folder / "out.b2nd"))
        for first in range(0, size, len(items)):
            array.append(items[: size - first])

    return run


@row("array: asarray of an iterable of 40 MB each")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    rows = start.stat().st_size // ROW
    items = noise(40)
    blocks = (items[: rows - first] for first in range(0, rows, 40))
    return lambda: blosc2.asarray(blocks, shape=(rows, 1024, 1024), urlpath=str(folder / "out.b2nd"))


@row("array: asarray of a mapped file")
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    items = np.memmap(start, "u1", "r", 0, (start.stat().st_size // ROW, 1024, 1024))
    return lambda: blosc2.asarray(items, urlpath=str(folder / "out.b2nd"))


@row("array: concat with itself", moved=2)
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    array = blosc2.open(str(start))
    return lambda: blosc2.concat([array, array], axis=0, urlpath=str(folder / "out.b2nd"))


@row("array: stack with itself", moved=2)
def _(start: Path, folder: Path) -> Any:
    blosc2 = _blosc2()
    array = blosc2.open(str(start))
    return lambda: blosc2.stack([array, array], axis=0, urlpath=str(folder / "out.b2nd"))


def _of_store(suffix: str) -> None:
    def opened(start: Path, folder: Path, mode: str) -> Any:
        blosc2 = _blosc2()
        kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
        path = start if mode == "r" else _copy(start, suffix, folder)
        return kind(str(path), mode=mode)

    @row(f"{suffix}: one item of the leaf edited", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")
        leaf = store["/big"]

        def run() -> None:
            leaf[5, 5, 5] = 1
            store.close()

        return run

    @row(f"{suffix}: an attribute of the leaf set", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")
        leaf = store["/big"]

        def run() -> None:
            leaf.attrs["a"] = 1
            store.close()

        return run

    @row(f"{suffix}: the leaf filled, 40 MB at a time", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")
        leaf = store["/big"]
        items = noise(40)

        def run() -> None:
            for first in range(0, len(leaf), 40):
                leaf[first : first + 40] = items[: len(leaf) - first]
            store.close()

        return run

    @row(f"{suffix}: the leaf resized and appended to", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")
        leaf = store["/big"]

        def run() -> None:
            rows = len(leaf)
            leaf.resize((rows + 4, 1024, 1024))
            leaf[rows:] = 5
            store.close()

        return run

    @row(f"{suffix}: one item of the leaf read", suffix, 0)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "r")
        return lambda: store["/big"][5, 5, 5]

    @row(f"{suffix}: rename", suffix, 1 if suffix == ".b2z" else 0)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")

        def run() -> None:
            store.rename("/big", "/large")
            store.close()

        return run

    @row(f"{suffix}: another small leaf", suffix, 0)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")

        def run() -> None:
            store["/small"] = np.arange(5)
            store.close()

        return run

    @row(f"{suffix}: compact", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "a")
        store["/gone"] = noise(20)
        store.flush()
        del store["/gone"]
        store.flush()
        return lambda: store.compact()

    @row(f"{suffix}: check", suffix, 0)
    def _(start: Path, folder: Path) -> Any:  # noqa: ARG001
        blosc2 = _blosc2()
        return lambda: blosc2.check(str(start)).ok or sys.exit("damaged")

    @row(f"{suffix}: salvage", suffix)
    def _(start: Path, folder: Path) -> Any:
        blosc2 = _blosc2()
        return lambda: blosc2.salvage(str(start), str(folder / f"out{suffix}"))

    for other in (".b2z", ".b2d", ".b2e"):

        @row(f"{suffix}: its leaf into a {other}", suffix)
        def _(start: Path, folder: Path, other: str = other) -> Any:
            blosc2 = _blosc2()
            store = opened(start, folder, "r")

            def run() -> None:
                kind = blosc2.EmbedStore if other == ".b2e" else blosc2.TreeStore
                with kind(str(folder / f"out{other}"), mode="w") as into:
                    into["/a"] = store["/big"]

            return run

    @row(f"{suffix}: its leaf copied to a file", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "r")
        return lambda: store["/big"].copy(urlpath=str(folder / "out.b2nd"))

    if suffix == ".b2e":
        return

    @row(f"{suffix}: to_b2d", suffix)
    def _(start: Path, folder: Path) -> Any:
        store = opened(start, folder, "r")
        return lambda: store.to_b2d(str(folder / "out.b2d"))

    if suffix == ".b2d":

        @row(f"{suffix}: to_b2z", suffix)
        def _(start: Path, folder: Path) -> Any:
            store = opened(start, folder, "r")
            return lambda: store.to_b2z(filename=str(folder / "out.b2z"))


for _suffix in (".b2z", ".b2d", ".b2e"):
    _of_store(_suffix)


# ------------------------------------------------------------------------------------------------ measuring
def work(name: str, folder: Path, start: Path, limit: int) -> None:
    """Run a row in this process, which reports when it begins and ends."""
    run = ROWS[name][1](start, folder)
    import blosc2

    blosc2.ones((3, 3))[:]  # what is only made once
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit * MB, limit * MB))
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    run()
    print(json.dumps({"seconds": time.perf_counter() - began}), flush=True)


def private(pid: int) -> int:
    """Bytes of the pages that only one process uses and that belong to no file."""
    with open(f"/proc/{pid}/status") as file:
        for line in file:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def measure(name: str, mb: int, folder: Path, limit: int) -> dict[str, Any]:
    """One row."""
    kind, _, moved = ROWS[name]
    start = prepare(kind, mb, folder)
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        command = [sys.executable, __file__, "--work", name, "--data", str(place), "--start", str(start),
                   "--limit", str(limit)]  # fmt: skip
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            if child.stdout.readline() != "ready\n":
                return {"name": name, "failed": "could not be prepared"}
            floor = copying(chunk_files(mb, folder) if "contiguous=False" in name else prepare("array", mb, folder),
                            place, moved)  # fmt: skip
            os.sync()
            before = most = private(child.pid)
            child.stdin.write("go\n")
            child.stdin.flush()
            while not select.select([child.stdout], [], [], 0.002)[0]:
                most = max(most, private(child.pid))
            answer = child.stdout.read()
        if not answer:
            return {"name": name, "failed": f"ended with {child.returncode}"}
        seconds = json.loads(answer)["seconds"]
        return {"name": name, "mb": (most - before) / MB, "seconds": seconds, "floor": floor}
    finally:
        shutil.rmtree(place)


def chunk_files(mb: int, folder: Path) -> Path:
    """The array as a directory of chunk files: to be compared with what makes one."""
    path = folder / "start-chunks.b2nd"
    if not path.exists():
        import blosc2

        blosc2.open(str(prepare("array", mb, folder))).copy(urlpath=str(path), contiguous=False)
    return path


def median(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several measurements of a row, the one in the middle of times and of those of `cp`, and the most memory."""
    if any("failed" in one for one in found):
        return next(one for one in found if "failed" in one)
    times = {name: float(np.median([one[name] for one in found])) for name in ("seconds", "floor")}
    return {**found[0], **times, "mb": max(one["mb"] for one in found)}


def copying(array: Path, place: Path, times: float) -> float:
    """Seconds that `cp` and `sync` of the bytes of the array take, or of twice as many."""
    if not times:
        return 0
    target = place / "cp"
    os.sync()
    began = time.perf_counter()
    for n in range(int(times)):
        subprocess.run(["cp", "-r", "--reflink=never", array, f"{target}{n}"], check=True)
        files = sorted(map(str, Path(f"{target}{n}").iterdir())) if array.is_dir() else []
        subprocess.run(["sync", *files, f"{target}{n}"], check=True)
    taken = time.perf_counter() - began
    for n in range(int(times)):
        shutil.rmtree(f"{target}{n}") if array.is_dir() else os.unlink(f"{target}{n}")
    return taken


def main() -> None:
    """Measure all rows, or those whose names contain a word."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=300, help="size of the array")
    parser.add_argument("--limit", type=int, default=0, help="most MB of data that a process may have")
    parser.add_argument("--chunk-kb", type=int, default=4096, help="size of its chunks")
    parser.add_argument("--repeat", type=int, default=1, help="how often a row is measured, for the median")
    parser.add_argument("--rows", default="", help="only rows with this in their names")
    parser.add_argument("--data", default=None, help="where files are put")
    parser.add_argument("--json", default=None, help="where the figures go")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--start", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, Path(options.data), Path(options.start), options.limit)
        return
    global chunk_kb
    chunk_kb = options.chunk_kb
    folder = Path(tempfile.mkdtemp(dir=options.data))
    goal = GOAL_MB + GOAL_CHUNKS * 4
    rows = []
    try:
        print(f"{'operation':46} {'private':>9} {'time':>8} {'cp+sync':>8} {'ratio':>6}")
        for name in ROWS:
            if options.rows not in name:
                continue
            found = median([measure(name, options.mb, folder, options.limit) for _ in range(options.repeat)])
            rows.append(found)
            if "failed" in found:
                print(f"{name:46} {found['failed']}", flush=True)
                continue
            ratio = found["seconds"] / found["floor"] if found["floor"] else 0
            note = (" MEMORY" if found["mb"] > goal else "") + (" TIME" if ratio > GOAL_RATIO else "")
            times = f"{found['seconds']:6.2f} s {found['floor']:6.2f} s {ratio:6.2f}"
            print(f"{name:46} {found['mb']:6.0f} MB {times}{note}", flush=True)
    finally:
        shutil.rmtree(folder)
    path = Path(options.json) if options.json else RESULTS
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        json.dumps({"mb": options.mb, "chunk_kb": chunk_kb, "limit": options.limit, "rows": rows}, indent=1)
    )


if __name__ == "__main__":
    main()
