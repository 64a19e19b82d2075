"""How long do opening a file and reading one small array of it take, by the number of arrays that it has?

    python bench/opening.py                          up to a million arrays; others, which write slowly, fewer
    python bench/opening.py --other PATH/TO/python   with the published package, in that interpreter

Arrays are 16 float32 in groups of 1,000. A figure is the fastest of 25 openings, each with one array chosen at
random, because other programs may run; files are in the page cache. Prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

SIZES = (100, 1_000, 10_000, 100_000, 1_000_000)
MOST = {"h5py": 100_000, "zarr": 10_000, "other": 10_000}
ROUNDS = 25


def key(number: int) -> str:
    return f"/{number // 1000}/{number}"


def arrays(count: int) -> Iterator[tuple[str, Any]]:
    return ((key(number), np.full(16, number, "f4")) for number in range(count))


def write_ours(path: str, count: int) -> None:
    import blosc2

    with blosc2.TreeStore(path, mode="w") as store:
        store.write_many(arrays(count))


def read_ours(path: str, name: str) -> Any:
    import blosc2

    with blosc2.open(path, mode="r", mmap_mode="r") as store:
        return store[name][:]


def write_other(path: str, count: int) -> None:
    import blosc2

    with blosc2.TreeStore(path, mode="w") as store:
        for name, items in arrays(count):
            store[name] = items


def read_other(path: str, name: str) -> Any:
    import blosc2

    with blosc2.open(path, mode="r") as store:
        return store[name][:]


def write_h5py(path: str, count: int) -> None:
    import h5py

    with h5py.File(path, "w") as file:
        for name, items in arrays(count):
            file[name] = items


def read_h5py(path: str, name: str) -> Any:
    import h5py

    with h5py.File(path, "r") as file:
        return file[name][:]


def write_zarr(path: str, count: int) -> None:
    import zarr

    with zarr.storage.ZipStore(path, mode="w") as store:
        group = zarr.create_group(store)
        for name, items in arrays(count):
            group.create_array(name[1:], data=items)


def read_zarr(path: str, name: str) -> Any:
    import zarr

    with zarr.storage.ZipStore(path, mode="r") as store:
        return zarr.open_array(store, path=name[1:], mode="r")[:]


#: The suffix, how it is written and how one array of it is read.
SIDES: dict[str, tuple[str, Callable[[str, int], None], Callable[[str, str], Any]]] = {
    "ours": (".b2z", write_ours, read_ours),
    "other": (".b2z", write_other, read_other),
    "h5py": (".h5", write_h5py, read_h5py),
    "zarr": (".zip", write_zarr, read_zarr),
}


def measure(side: str, count: int) -> float:
    """The least of the seconds that opening and reading one array take."""
    suffix, write, read = SIDES[side]
    draw = np.random.default_rng(count)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/store{suffix}"
        write(path, count)
        read(path, key(0))
        times = []
        for number in draw.integers(0, count, ROUNDS):
            start = time.perf_counter()
            found = read(path, key(int(number)))
            times.append(time.perf_counter() - start)
            if not np.array_equal(found, np.full(16, number, "f4")):
                raise ValueError(f"{side}: another value under {key(int(number))}")
    return min(times)


def measure_other(python: str, count: int) -> float:
    done = subprocess.run([python, __file__, "--one", str(count)], check=True, capture_output=True, text=True)
    return float(json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", help="an interpreter with the published package")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure("other", options.one)))
        return
    sides = [side for side in SIDES if side != "other" or options.other]
    names = {"ours": "this package", "other": "`blosc2` 4.14.1"}
    print("| arrays | " + " | ".join(names.get(side, side) for side in sides) + " |")
    print("|---" * (len(sides) + 1) + "|")
    for count in SIZES:
        row = []
        for side in sides:
            if count > MOST.get(side, count):
                row.append("")
                continue
            print(f"{side}: {count}", file=sys.stderr)
            seconds = measure_other(options.other, count) if side == "other" else measure(side, count)
            row.append(f"{1e3 * seconds:.3g}")
        print(f"| {count:,} | " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
