"""What does it cost to write, replace and delete small leaves? Microseconds for each, beside LMDB if it is installed.

    python bench/small_writes.py                    all rows, some minutes
    python bench/small_writes.py --only single,bulk   some of: single, bulk, change, mixed, commit, larger, million

Values are 200 bytes. Flat keys are like ``/k0000123``, nested ones lie five groups deep, and cases are groups of two
leaves. Each figure is the best of `--repeat` runs: wall time, and in brackets the time of a processor. Everything is
durable at the end of a time, unless the row says otherwise.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

import blosc2

VALUES = [np.random.default_rng(n).integers(0, 256, 200).astype("u1") for n in range(64)]
ROWS = ("single", "bulk", "change", "mixed", "commit", "larger", "million")


# Groups of nested keys have some hundred leaves, those of cases two.
LAYOUTS: dict[str, Callable[[int], str]] = {
    "flat": lambda n: f"/k{n:07}",
    "nested": lambda n: f"/g{n % 3}/site{n // 20000}/day{n // 2000 % 10}/run{n // 200 % 10}/part{n // 100 % 2}/k{n:07}",
    "cases": lambda n: f"/site{n // 20000}/case{n // 2:06}/{('image', 'label')[n & 1]}",
}


def each_key(count: int, layout: str, first: int = 0) -> Iterator[str]:
    """Keys of leaves."""
    return map(LAYOUTS[layout], range(first, first + count))


def keys(count: int, layout: str, first: int = 0) -> list[str]:
    """The same in a list."""
    return list(each_key(count, layout, first))


def pairs(names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Keys with values."""
    return ((key, VALUES[n & 63]) for n, key in enumerate(names))


class Timed:
    """Wall and processor seconds of a block."""

    wall = user = 0.0

    def __enter__(self) -> Self:
        self.wall, self.user = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter()
        self.user += time.process_time()


def show(name: str, times: list[Timed], number: int, asked: str = "") -> None:
    """A row: the best of some times, for each of a number of things."""
    wall, user = min(one.wall for one in times), min(one.user for one in times)
    if number == 1:
        figure = f"{wall * 1e3:8.1f} ms ({user * 1e3:7.1f})"
    else:
        figure = f"{wall / number * 1e6:8.2f} us ({user / number * 1e6:7.2f})"
    print(f"{name:58} {figure}  {asked}", flush=True)


def lmdb_bulk(path: str, names: list[str]) -> Timed | None:
    """LMDB's time for the same in one transaction."""
    try:
        import lmdb
    except ImportError:
        return None
    raw = [value.tobytes() for value in VALUES]
    env = lmdb.open(path, map_size=1 << 32, subdir=False)
    with Timed() as timed, env.begin(write=True) as transaction:
        for n, key in enumerate(names):
            transaction.put(key.encode(), raw[n & 63])
    env.close()
    os.unlink(path)
    return timed


def make(kind: str, path: str, mode: str = "w") -> Any:
    """A store; a `.b2d` may embed its values."""
    if kind == ".b2e":
        return blosc2.EmbedStore(path, mode=mode)
    return blosc2.TreeStore(path, mode=mode, threshold=10_000 if "embedded" in kind else 0)


def single(folder: Path, repeat: int) -> None:
    """One assignment after the other, and again to replace them all."""
    for kind in (".b2z", ".b2e", ".b2d", ".b2d, embedded"):
        number = 50_000 if kind in (".b2z", ".b2e") else 5000
        for layout in LAYOUTS:
            items = list(pairs(keys(number, layout)))
            times: list[list[Timed]] = [[], [], [], []]
            for _ in range(repeat):
                path = str(folder / f"s{kind[:4]}")
                for turn, mode in ((0, "w"), (2, "a")):
                    store = make(kind, path, mode)
                    with Timed() as timed:
                        for key, value in items:
                            store[key] = value
                    with Timed() as close:
                        store.close()
                    times[turn].append(timed)
                    times[turn + 1].append(close)
                size = sum(file.stat().st_size for file in [Path(path), *Path(path).rglob("*")] if file.is_file())
                blosc2.remove_urlpath(path)
            what = f"{kind} {layout}"
            show(
                f"store[key] = value, {what}, without flush", times[0], number, "<= 5 us" if ".b2d" not in kind else ""
            )
            show(f"  its flush, {what}", times[1], number)
            show("  to replace them all", times[2], number)
            show("  its flush", times[3], number, f"{size / number:.0f} bytes on the disk for each")


def bulk(folder: Path, repeat: int) -> None:
    """Many at once."""
    number = 50_000
    for layout in LAYOUTS:
        names = keys(number, layout)
        items = list(pairs(names))
        found = [lmdb_bulk(str(folder / "x.lmdb"), names) for _ in range(repeat)]
        show(f"LMDB, one transaction, {layout}", [one for one in found if one], number) if found[0] else None
        for kind in (".b2z", ".b2e"):
            for how in ("write_many", "update"):
                times = []
                for _ in range(repeat):
                    path = str(folder / f"b{kind}")
                    store = make(kind, path)
                    with Timed() as timed:
                        getattr(store, how)(items)
                        store.close()
                    times.append(timed)
                    os.unlink(path)
                show(f"{how}, {kind} {layout}, durable", times, number, "<= LMDB, 1.5 us")


def change(folder: Path, repeat: int) -> None:
    """Replacing and deleting."""
    number = 10_000
    for kind in (".b2z", ".b2e"):
        base = str(folder / f"base{kind}")
        names = keys(50_000, "nested")
        with make(kind, base) as store:
            store.write_many(pairs(names))
        some = names[::5]
        items = list(pairs(some))
        for what in ("replace", "delete"):
            acts, closes = [], []
            for _ in range(repeat):
                path = str(folder / f"c{kind}")
                shutil.copy(base, path)
                store = make(kind, path, "a")
                with Timed() as timed:
                    if what == "replace":
                        for key, value in items:
                            store[key] = value
                    else:
                        for key in some:
                            del store[key]
                with Timed() as close:
                    store.close()
                acts.append(timed)
                closes.append(close)
                os.unlink(path)
            show(f"{what} {number} of 50,000, {kind}, without flush", acts, number, "<= 3 us")
            show("  its flush", closes, number)
        os.unlink(base)


def mixed(folder: Path, repeat: int) -> None:
    """Reads and writes through one handle."""
    number, count = 100_000, 1_000_000
    names = keys(count, "flat")
    path = str(folder / "m.b2z")
    with make(".b2z", path) as store:
        store.write_many(pairs(names))
    order = np.random.default_rng(3).integers(0, count, number).tolist()
    chosen = [names[n] for n in order]
    times = []
    for _ in range(repeat):
        store = make(".b2z", path, "a")
        store[names[0]], store[names[1]] = VALUES[0], VALUES[1]
        store.read(names[0])
        with Timed() as timed:
            for n, key in enumerate(chosen):
                if n % 5:
                    store.read(key)
                else:
                    store[key] = VALUES[n & 63]
        times.append(timed)
        store.discard()
        store.close()
    show("4 of 5 read, 1 of 5 assigned, of 1,000,000, .b2z", times, number, "<= 3 us")


def commit(folder: Path, repeat: int) -> None:
    """A thousand leaves more, and large groups."""
    for count, asked in ((100_000, "<= 30 ms"), (1_000_000, "<= 200 ms")):
        base = str(folder / "base.b2z")
        with make(".b2z", base) as store:
            store.write_many(pairs(each_key(count, "nested")))
        flushes, calls = [], []
        grown = 0
        for n in range(repeat):
            path = str(folder / "c.b2z")
            shutil.copy(base, path)
            subprocess.run(["sync", path], check=True)
            store = make(".b2z", path, "a")
            items = list(pairs(keys(1000, "nested", first=2_000_000 + 1000 * n)))
            store["/one"] = VALUES[0]
            store.flush()
            size = os.path.getsize(path)
            with Timed() as timed:
                for key, value in items:
                    store[key] = value
                with Timed() as flush:
                    store.flush()
            calls.append(timed)
            flushes.append(flush)
            grown = os.path.getsize(path) - size
            store.close()
        show(f"1,000 leaves into {count}, assigned and flushed", calls, 1, f"{asked}; file grows {grown / 1e6:.1f} MB")
        show("  its flush alone", flushes, 1)
        if count == 100_000:
            with make(".b2z", base, "a") as store:
                store.write_many(pairs(f"/big/{n}" for n in range(100_000)))
            for what in ("del", "rename"):
                calls, flushes = [], []
                for _ in range(repeat):
                    shutil.copy(base, path)
                    store = make(".b2z", path, "a")
                    with Timed() as timed:
                        if what == "del":
                            del store["/big"]
                        else:
                            store.rename("/big", "/large")
                    with Timed() as flush:
                        store.close()
                    calls.append(timed)
                    flushes.append(flush)
                show(f"{what} of a group of 100,000", calls, 1, "<= 10 ms" if what == "del" else "")
                show("  its flush", flushes, 1)
        os.unlink(base)


def larger(folder: Path, repeat: int) -> None:
    """Arrays of 4 KB to 1 MB, with one thread and with two; "main" is the processor time of the thread that calls."""
    rng = np.random.default_rng(0)
    for kind in (".b2z", ".b2e"):
        for size, number in ((4 << 10, 4000), (32 << 10, 1000), (64 << 10, 500), (256 << 10, 150), (1 << 20, 48)):
            values = [np.cumsum(rng.integers(-3, 4, size // 4)).astype("i4") for _ in range(8)]
            items = [(f"/k{n}", values[n % 8]) for n in range(number)]
            for nthreads in (1, 2):
                blosc2.set_nthreads(nthreads)
                times, mains = [], []
                for _ in range(repeat):
                    path = str(folder / f"l{kind}")
                    store = make(kind, path)
                    main = -time.thread_time()
                    with Timed() as timed:
                        store.write_many(items)
                        store.close()
                    mains.append(main + time.thread_time())
                    times.append(timed)
                    os.unlink(path)
                what = f"write_many of {size >> 10} KB, {kind}, {nthreads} thread{'s' * (nthreads > 1)}, durable"
                show(what, times, number, f"main {min(mains) / number * 1e6:8.2f} us")


BUILD = """
import resource, sys
sys.path.insert(0, {bench!r})
from small_writes import Timed, each_key, make, pairs
with Timed() as generating:
    for pair in pairs(each_key(1_000_000, {layout!r})):
        pass
with Timed() as timed:
    with make(".b2z", {path!r}) as store:
        store.write_many(pairs(each_key(1_000_000, {layout!r})))
print(timed.wall, timed.user, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, generating.wall)
"""


def million(folder: Path, repeat: int) -> None:
    """A new store of a million leaves, in a process of its own."""
    for layout in ("flat", "nested"):
        times, peaks, generating = [], [], 0.0
        for _ in range(min(repeat, 3)):
            path = str(folder / "million.b2z")
            code = BUILD.format(bench=os.path.dirname(os.path.abspath(__file__)), path=path, layout=layout)
            found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
            timed = Timed()
            timed.wall, timed.user, peak, generating = map(float, found.stdout.split())
            times.append(timed)
            peaks.append(peak)
            os.unlink(path)
        show(
            f"1,000,000 leaves, {layout}, durable", times, 1,
            f"<= 2500 ms, 300 MB; peak {min(peaks) / 1024:.0f} MB, keys alone {generating * 1e3:.0f} ms",
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(ROWS), help="rows, separated by commas")
    parser.add_argument("--repeat", type=int, default=5, help="runs of each row (5)")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure (a temporary one)")
    options = parser.parse_args()
    print(f"file {blosc2.__file__}, peak before {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MB")
    functions: dict[str, Callable[[Path, int], None]] = {
        "single": single, "bulk": bulk, "change": change, "mixed": mixed, "commit": commit, "larger": larger,
        "million": million,
    }  # fmt: skip
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory(prefix="small_writes_", dir=options.data) as folder:
            functions[name](Path(folder), options.repeat)


if __name__ == "__main__":
    main()
