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
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "memory.json"
GOAL_MB, GOAL_CHUNKS, GOAL_RATIO = 64, 4, 1.5
ROW = 1 << 20  # bytes of the items [i]
SUFFIXES = (".b2z", ".b2d", ".b2e")
MB = 1 << 20

Act = Callable[[Any, str], Any]
Make = Callable[[Path, Path], tuple[Any, str]]
#: Name -> (what it starts from, what opens that, what is done with it, how many times the array is moved). What is done
#: gets the path of what comes of it, too.
ROWS: dict[str, tuple[str, Make, Act, float]] = {}


@cache
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
def row(name: str, make: Make, act: Act, moved: float = 1, start: str = "array") -> None:
    """A row that starts from an array, or from a store of a kind with an array in it."""
    ROWS[name if start == "array" else f"{start}: {name}"] = (start, make, act, moved)


def kind_of(suffix: str) -> Any:
    import blosc2

    return blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore


def array_to_read(start: Path, folder: Path, mmap_mode: str | None = None) -> tuple[Any, str]:
    import blosc2

    return blosc2.open(str(start), mmap_mode=mmap_mode), str(folder / "out.b2nd")


def array_to_change(start: Path, folder: Path) -> tuple[Any, str]:
    import blosc2

    return blosc2.open(str(_copy(start, ".b2nd", folder)), mode="a"), str(start)


def items_of(start: Path, folder: Path) -> tuple[Any, str]:
    """As many items as the array has, of a file that is mapped by NumPy."""
    return np.memmap(start, "u1", "r", 0, (start.stat().st_size // ROW, 1024, 1024)), str(folder / "out.b2nd")


def beside_noise(make: Make) -> Make:
    """The noise that is written is there before anything is measured."""
    return lambda start, folder: (noise(40), make(start, folder))[1]


def path_of(start: Path, folder: Path) -> tuple[Any, str]:
    return str(start), str(folder / "out.b2nd")


def into(suffix: str, value: Callable[[Any], Any] = lambda array: array, *, many: bool = False) -> Act:
    """Store what is opened in a new store."""

    def act(array: Any, out: str) -> None:
        with kind_of(suffix)(out.removesuffix(".b2nd") + suffix, mode="w") as store:
            if many:
                store.write_many({"/a": value(array)})
            else:
                store["/a"] = value(array)

    return act


def edited(array: Any, _: str) -> None:
    array[5, 5, 5] = 1


def filled_with_noise(array: Any, start: str) -> None:
    array[:-1] = np.memmap(start, "u1", "r", 0, (array.shape[0] - 1, 1024, 1024))


def filled_with_one_value(array: Any, _: str) -> None:
    array[:] = 7


def edited_before(start: Path, folder: Path) -> tuple[Any, str]:
    array, out = array_to_change(start, folder)
    edited(array, out)
    return array, out


def resized_and_filled(items: Any, out: str) -> None:
    import blosc2

    array, some = blosc2.empty((0, 1024, 1024), "u1", chunks=(4, 1024, 1024), urlpath=out), noise(40)
    for first in range(0, len(items), 40):
        stop = min(first + 40, len(items))
        array.resize((stop, 1024, 1024))
        array[first:stop] = some[: stop - first]


def appended(items: Any, out: str) -> None:
    import blosc2

    array, some = blosc2.empty((0,), "u1", chunks=(4 << 20,), urlpath=out), noise(40).reshape(-1)
    for first in range(0, items.size, len(some)):
        array.append(some[: items.size - first])


def from_an_iterable(items: Any, out: str) -> None:
    import blosc2

    some = noise(40)
    blocks = (some[: len(items) - first] for first in range(0, len(items), 40))
    blosc2.asarray(blocks, shape=items.shape, urlpath=out)


def by_name(name: str, **how: Any) -> Act:
    """A function of the package, of what is opened, that writes to a path."""

    def act(opened: Any, out: str) -> Any:
        import blosc2

        return getattr(blosc2, name)(opened, urlpath=out, **how)

    return act


def twice(name: str) -> Act:
    return lambda array, out: by_name(name, axis=0)([array, array], out)


def sound(path: str, _: str) -> None:
    import blosc2

    if not blosc2.check(path).ok:
        sys.exit("damaged")


def salvaged(path: str, out: str, suffix: str = ".b2nd") -> None:
    import blosc2

    blosc2.salvage(path, out.removesuffix(".b2nd") + suffix)


row("array: copy(urlpath=)", array_to_read, lambda array, out: array.copy(urlpath=out))
row("array: copy(urlpath=), mapped", partial(array_to_read, mmap_mode="r"), lambda array, out: array.copy(urlpath=out))
row("array: save", array_to_read, lambda array, out: array.save(out))
row(
    "array: copy(urlpath=, contiguous=False)",
    array_to_read,
    lambda array, out: array.copy(urlpath=out, contiguous=False),
)
row(
    "array: copy(urlpath=, other chunks)",
    array_to_read,
    lambda array, out: array.copy(urlpath=out, chunks=(8, 512, 512)),
)
for _suffix in SUFFIXES:
    row(f"array: into a {_suffix}", array_to_read, into(_suffix))
for _suffix in SUFFIXES:
    row(f"array: items of a NumPy memmap into a {_suffix}", items_of, into(_suffix))
row("array: write_many into a .b2z", array_to_read, into(".b2z", many=True))
row("array: check", path_of, sound, 0)
row("array: salvage", path_of, salvaged)
row("array: compact after an edit", edited_before, lambda array, _: array.compact())
row("array: one item edited", array_to_change, edited, 0)
row("array: [:] = one value", array_to_change, filled_with_one_value, 0)
row("array: [:] = a mapped array of noise", array_to_change, filled_with_noise)
row("array: resize and fill, 40 MB at a time", beside_noise(items_of), resized_and_filled)
row("array: append, 40 MB at a time", beside_noise(items_of), appended)
row("array: asarray of an iterable of 40 MB each", beside_noise(items_of), from_an_iterable)
row("array: asarray of a mapped file", items_of, by_name("asarray"))
row("array: concat with itself", array_to_read, twice("concat"), 2)
row("array: stack with itself", array_to_read, twice("stack"), 2)


def store_to_read(suffix: str, start: Path, folder: Path) -> tuple[Any, str]:
    return kind_of(suffix)(str(start), mode="r"), str(folder / "out.b2nd")


def store_to_change(suffix: str, start: Path, folder: Path) -> tuple[Any, str]:
    """The store and its leaf, which is open."""
    store = kind_of(suffix)(str(_copy(start, suffix, folder)), mode="a")
    return (store, store["/big"]), ""


def store_to_compact(suffix: str, start: Path, folder: Path) -> tuple[Any, str]:
    (store, _), out = store_to_change(suffix, start, folder)
    store["/gone"] = noise(20)
    store.flush()
    del store["/gone"]
    store.flush()
    return store, out


def and_close(act: Callable[[Any, Any], Any]) -> Act:
    def acts(both: Any, _: str) -> None:
        act(*both)
        both[0].close()

    return acts


def fill(_: Any, leaf: Any) -> None:
    items = noise(40)
    for first in range(0, len(leaf), 40):
        leaf[first : first + 40] = items[: len(leaf) - first]


def let_grow(_: Any, leaf: Any) -> None:
    rows = len(leaf)
    leaf.resize((rows + 4, 1024, 1024))
    leaf[rows:] = 5


for _suffix in SUFFIXES:
    _change, _read = partial(store_to_change, _suffix), partial(store_to_read, _suffix)
    of_store = partial(row, start=_suffix)
    of_store("one item of the leaf edited", _change, and_close(lambda _, leaf: edited(leaf, "")))
    of_store("an attribute of the leaf set", _change, and_close(lambda _, leaf: leaf.attrs.update(a=1)))
    of_store("the leaf filled, 40 MB at a time", beside_noise(_change), and_close(fill))
    of_store("the leaf resized and appended to", _change, and_close(let_grow))
    of_store("one item of the leaf read", _read, lambda store, _: store["/big"][5, 5, 5], 0)
    of_store("rename", _change, and_close(lambda store, _: store.rename("/big", "/large")), int(_suffix == ".b2z"))
    of_store("another small leaf", _change, and_close(lambda store, _: store.update({"/small": np.arange(5)})), 0)
    of_store("compact", partial(store_to_compact, _suffix), lambda store, _: store.compact())
    of_store("check", path_of, sound, 0)
    of_store("salvage", path_of, partial(salvaged, suffix=_suffix))
    for _other in SUFFIXES:
        of_store(f"its leaf into a {_other}", _read, into(_other, lambda store: store["/big"]))
    of_store("its leaf copied to a file", _read, lambda store, out: store["/big"].copy(urlpath=out))
    if _suffix != ".b2e":
        of_store("to_b2d", _read, lambda store, out: store.to_b2d(out[:-4] + "b2d"))
    if _suffix == ".b2d":
        of_store("to_b2z", _read, lambda store, out: store.to_b2z(filename=out[:-4] + "b2z"))


# ------------------------------------------------------------------------------------------------ measuring
def work(name: str, folder: Path, start: Path, limit: int) -> None:
    """Run a row in this process, which reports when it begins and ends."""
    make, act = ROWS[name][1:3]
    opened, out = make(start, folder)
    import blosc2

    blosc2.ones((3, 3))[:]  # what is only made once
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit * MB, limit * MB))
    print("ready", flush=True)
    sys.stdin.readline()
    began = time.perf_counter()
    act(opened, out)
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
    kind, _, _, moved = ROWS[name]
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
