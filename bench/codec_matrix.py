"""Warm reads over codec, filter, size of items, access, mapping and threads, beside the reference package.

    python bench/codec_matrix.py                          all cells, some ten minutes
    python bench/codec_matrix.py --only "LZ4 5/shuffle"   rows whose names hold this
    python bench/codec_matrix.py --markdown               a table: the smallest and the median ratio

Each row is a volume of 16 MB: smooth, with noise, written once, in chunks of 1 MiB and blocks of 32 KiB. Each side is a
process of its own that opens the file once and reads the same selections of it again and again. The sides take turns;
the time of a cell is the smallest of all rounds, since other programs on the machine only add to it; for one thread it
is processor time. Where the reference is faster, both sides go on for up to four times the rounds. A ratio is the time
of the reference divided by that of this build: above 1 this build is faster. Both sides return a sum over what they
read, and the sums must agree.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sides

import blosc2

CODECS = {"BloscLZ 5": ("BLOSCLZ", 5), "LZ4 5": ("LZ4", 5), "LZ4HC 5": ("LZ4HC", 5), "zlib 5": ("ZLIB", 5),
          "zstd 1": ("ZSTD", 1), "zstd 5": ("ZSTD", 5), "zstd 9": ("ZSTD", 9)}  # fmt: skip
FILTERS = {"none": "NOFILTER", "shuffle": "SHUFFLE", "bitshuffle": "BITSHUFFLE"}
DTYPES = ("u1", "<i2", "<f4", "<f8")
# Axes of the volume, its chunks and blocks, by the size of an item.
LAYOUTS = {
    1: ((256, 256, 256), (64, 128, 128), (16, 32, 64)),
    2: ((128, 256, 256), (64, 64, 128), (16, 32, 32)),
    4: ((128, 128, 256), (64, 64, 64), (16, 16, 32)),
    8: ((128, 128, 128), (32, 64, 64), (16, 16, 16)),
}
ACCESSES = ("whole", "patch", "aligned", "plane", "column", "item")
# How long one request should take, so that the clock tells it well.
_NS_A_REQUEST = 3_000_000


class Row(NamedTuple):
    """One file."""

    codec: str
    filter: str
    dtype: str

    @property
    def name(self) -> str:
        return f"{self.codec}/{self.filter}/{self.dtype.strip('<')}"


def volume(dtype: str) -> np.ndarray[Any, Any]:
    """Smooth, with noise in its last digits, as measured data have it."""
    shape = LAYOUTS[np.dtype(dtype).itemsize][0]
    z, y, x = np.meshgrid(*(np.linspace(0, 6, n, dtype="f4") for n in shape), indexing="ij")
    noise = np.random.default_rng(1).normal(0, 0.02, shape).astype("f4")
    made = np.sin(z) * np.cos(2 * y) + np.sin(1.5 * x) * np.cos(y) + noise
    if dtype == "u1":
        return (made * 40 + 120).astype(dtype)
    return (made * 400).round().astype(dtype) / np.array(1 if dtype == "<i2" else 400, dtype)


def write(row: Row, items: np.ndarray[Any, Any], path: str) -> float:
    """Write the file of a row; its ratio of compression."""
    codec, level = CODECS[row.codec]
    _, chunks, blocks = LAYOUTS[items.dtype.itemsize]
    cparams = {
        "codec": blosc2.Codec[codec],
        "clevel": level,
        "filters": [blosc2.Filter[FILTERS[row.filter]]],
        "filters_meta": [0],
    }
    array = blosc2.asarray(items, chunks=chunks, blocks=blocks, urlpath=path, mode="w", cparams=cparams)
    return float(array.schunk.cratio)


def selections(access: str, dtype: str) -> list[list[Any]]:
    """What is read: for each axis an index or a pair of bounds; none for the whole array."""
    shape, _, blocks = LAYOUTS[np.dtype(dtype).itemsize]
    rng = np.random.default_rng(7)
    if access == "whole":
        return [[]]
    if access == "plane":
        return [[int(rng.integers(n)) if axis == 0 else [0, n] for axis, n in enumerate(shape)] for _ in range(4)]
    if access == "column":
        return [[int(rng.integers(n)) if axis == 2 else [0, n] for axis, n in enumerate(shape)] for _ in range(4)]
    if access == "item":
        return [[int(rng.integers(n)) for n in shape] for _ in range(16)]
    corners = [[int(rng.integers(n - 48)) for n in shape] for _ in range(8)]
    if access == "aligned":
        corners = [[c // b * b for c, b in zip(corner, blocks, strict=True)] for corner in corners]
        return [[[c, c + 2 * b] for c, b in zip(corner, blocks, strict=True)] for corner in corners]
    return [[[c, c + 40] for c in corner] for corner in corners]


def worker() -> None:
    """Answer requests, a JSON line each."""
    import time

    opened: dict[tuple[str, bool], Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        blosc2.set_nthreads(request["threads"])
        path, mapped = request["path"], request["mapped"]
        if (path, mapped) not in opened:
            opened.clear()
            opened[path, mapped] = blosc2.open(path, mode="r", mmap_mode="r" if mapped else None)
        array = opened[path, mapped]
        keys = [tuple(slice(*k) if isinstance(k, list) else k for k in key) if key else ... for key in request["keys"]]
        total = 0.0
        clock = time.thread_time_ns if request["threads"] == 1 else time.perf_counter_ns
        start = clock()
        for _ in range(request["repeats"]):
            for key in keys:
                last = array[key]
        spent = clock() - start
        for key in keys:
            last = np.asarray(array[key], "f8")
            total += float(last.sum())
        print(json.dumps({"ns": spent / request["repeats"] / len(keys), "sum": total}), flush=True)


def cells() -> Iterator[tuple[str, bool, int]]:
    yield from itertools.product(ACCESSES, (True, False), (1, 2))


def processes(reference: str) -> dict[str, sides.Side]:
    """A new process of each side."""
    here = Path(__file__).resolve()
    return {
        "this": sides.Side("this", sys.executable, isolated=False, worker=here, arguments=["--worker"]),
        "reference": sides.Side("reference", reference, isolated=True, worker=here, arguments=["--worker"]),
    }


def close(pair: dict[str, sides.Side]) -> None:
    for side in pair.values():
        side.close()


def take_turns(pair: dict[str, sides.Side], request: dict[str, Any], rounds: int, best: dict[str, float]) -> None:
    """Ask both sides so often, and keep the smallest times."""
    sums = set()
    repeats = 1
    for number in range(rounds + 1):
        for name in sorted(pair, reverse=bool(number % 2)):
            answer = pair[name].ask("read", **request, repeats=repeats)
            sums.add(answer["sum"])
            if number:  # the first warms up, and tells how often is enough
                best[name] = min(best.get(name, answer["ns"]), answer["ns"])
            elif name == "this":
                often = max(1, int(_NS_A_REQUEST / (answer["ns"] * len(request["keys"]))))
        repeats = often
    if len(sums) != 1:
        raise SystemExit(f"{request['path']}: the sides read different items")


def measure(reference: str, row: Row, path: str, rounds: int) -> dict[tuple[str, bool, int], list[float]]:
    """The times of both sides for each cell of a row.

    Where this package is slower, both sides go on, in new processes, and the smallest times count: a process keeps the
    memory of its results, and where that lies decides about a tenth or more of a whole array's time.
    """
    found = {}
    pair = processes(reference)
    for access, mapped, threads in cells():
        request: dict[str, Any] = {
            "path": path,
            "mapped": mapped,
            "threads": threads,
            "keys": selections(access, row.dtype),
        }
        best: dict[str, float] = {}
        for series in range(4):
            if series:
                if best["this"] <= best["reference"]:
                    break
                close(pair)
                pair = processes(reference)
            take_turns(pair, request, rounds, best)
        found[access, mapped, threads] = [best["this"], best["reference"]]
    close(pair)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="a Python that has the reference package")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="rows whose names hold this")
    parser.add_argument("--markdown", action="store_true", help="print a table of the ratios")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    reference = sides.reference_python(options.reference)
    slower = []
    if options.markdown:
        print("| codec / filter / items | ratio |", " | ".join(ACCESSES), "|")
        print("|---" * (len(ACCESSES) + 2) + "|")
    with tempfile.TemporaryDirectory() as folder:
        for dtype in DTYPES:
            items = volume(dtype)
            for row in (Row(codec, filter, dtype) for codec in CODECS for filter in FILTERS):
                if options.only not in row.name:
                    continue
                path = str(Path(folder) / f"{row.name.replace('/', ' ')}.b2nd")
                ratio = write(row, items, path)
                found = measure(reference, row, path, options.rounds)
                for (access, mapped, threads), (ours, theirs) in found.items():
                    where = f"{row.name}, {access}, {'mapped' if mapped else 'read'}, {threads} threads"
                    if not options.markdown:
                        print(f"{where:60s} {ours / 1000:10.1f} us {theirs / 1000:10.1f} us {theirs / ours:6.2f}")
                    if theirs < ours:
                        slower.append((theirs / ours, where))
                if options.markdown:
                    ratios = {
                        access: sorted(theirs / ours for cell, (ours, theirs) in found.items() if cell[0] == access)
                        for access in ACCESSES
                    }
                    shown = (f"{r[0]:.2f}, {(r[1] + r[2]) / 2:.1f}" for r in ratios.values())
                    print(f"| {row.name} | {ratio:.1f} |", " | ".join(shown), "|", flush=True)
                sys.stdout.flush()
                Path(path).unlink()
    print(f"\n{len(slower)} cells in which the reference was faster:")
    for ratio, where in sorted(slower):
        print(f"{ratio:6.3f}  {where}")


if __name__ == "__main__":
    main()
