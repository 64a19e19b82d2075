"""Patches of mapped volumes, by codec and block size: this build compared with others and with the reference package.

    python bench/patches.py --other DIR --reference PYTHON      some minutes
    python bench/patches.py --quick                             some seconds, this build alone

A volume of 64 MB of float32 is written with each codec, shuffled, in the layout of nnU-Net (chunks of 1 MB, blocks of
16 KB) and in a layout with larger blocks. Each side is a process of its own with one thread. It opens the file mapped
and reads patches of 64 x 96 x 96 of one open array: the same four again and again, then four others each time, and then
the whole array. The sides take turns for some rounds, and only CPU time counts, so that other programs disturb little.
A ratio is this build's rate divided by that of the other side, as the median over the rounds: above 1 this build is
faster. All sides return a sum over what they read, and the sums must agree.

`--other` is a directory with another build of this package (its `src`); it may be repeated. The rules for prefetching
were decided with this script, by builds that differ in nothing else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import blosc2

SHAPE = (192, 288, 288)
PATCH = (64, 96, 96)
LAYOUTS = {"nnU-Net": ((64, 64, 64), (16, 16, 16)), "large blocks": ((64, 96, 96), (32, 48, 48))}
CODECS = {"LZ4HC 8": ("LZ4HC", 8), "LZ4 5": ("LZ4", 5), "BloscLZ 5": ("BLOSCLZ", 5), "zlib 5": ("ZLIB", 5),
          "zstd 1": ("ZSTD", 1), "zstd 5": ("ZSTD", 5), "zstd 9": ("ZSTD", 9), "stored": ("LZ4", 0)}  # fmt: skip
FIELDS = ("same", "random", "all")


def volume() -> np.ndarray[Any, Any]:
    """Smooth, with noise, in integer steps like those of a scanner, and constant outside the body."""
    z, y, x = np.meshgrid(*(np.linspace(0, 6, n, dtype="f4") for n in SHAPE), indexing="ij")
    noise = np.random.default_rng(1).normal(0, 0.05, SHAPE).astype("f4")
    made = np.sin(z) * np.cos(2 * y) + np.sin(1.5 * x) * np.cos(y) + noise
    made[(y - 3) ** 2 + (x - 3) ** 2 > 8.5] = -1
    return (np.round(made * 200) / 200).astype("f4")


def write(folder: Path) -> dict[str, Path]:
    """The files, by the names of the rows."""
    files: dict[str, Path] = {}
    items = volume()
    for layout, (chunks, blocks) in LAYOUTS.items():
        for name, (codec, level) in CODECS.items():
            path = folder / f"{len(files)}.b2nd"
            cparams = {"codec": blosc2.Codec[codec], "clevel": level, "filters": [blosc2.Filter.SHUFFLE]}
            array = blosc2.asarray(items, chunks=chunks, blocks=blocks, urlpath=str(path), cparams=cparams)
            files[f"{layout}, {name} ({array.schunk.cratio:.1f})"] = path
    return files


def worker() -> None:
    """Answer requests, a JSON line each: a file, keys, and how often."""
    blosc2.set_nthreads(1)
    arrays: dict[str, Any] = {}
    for line in sys.stdin:
        path, corners = json.loads(line)
        if path not in arrays:
            arrays[path] = blosc2.open(path, mmap_mode="r")
            arrays[path][...]
        array = arrays[path]
        keys: list[Any] = [tuple(slice(o, o + n) for o, n in zip(c, PATCH, strict=True)) for c in corners] or [...]
        total = 0.0
        start = time.process_time_ns()
        for key in keys:
            total += float(array[key][-1, -1, -1])
        spent = (time.process_time_ns() - start) / len(keys)
        print(json.dumps([spent, total]), flush=True)


class Side:
    """One build, in a process that stays."""

    def __init__(self, python: str, source: str | None) -> None:
        env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        if source is not None:
            env["PYTHONPATH"] = source
        self._child = subprocess.Popen(
            [python, str(Path(__file__).resolve()), "--worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=env,
        )  # fmt: skip

    def ask(self, path: Path, corners: list[list[int]]) -> tuple[float, float]:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(json.dumps([str(path), corners]) + "\n")
        self._child.stdin.flush()
        spent, total = json.loads(self._child.stdout.readline())
        return spent, total

    def close(self) -> None:
        self._child.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--other", action="append", default=[], help="a directory with another build, below src")
    parser.add_argument("--reference", help="a Python that has the reference package")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", default="", help="rows whose names hold this")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    here = str(Path(blosc2.__file__).resolve().parents[1])
    sides = {"this": Side(sys.executable, here)}
    for directory in options.other:
        sides[Path(directory).name] = Side(sys.executable, str(Path(directory) / "src"))
    if options.reference:
        sides["reference"] = Side(options.reference, None)
    rng = np.random.default_rng(0)
    fixed = [[50, 70, 90], [0, 0, 0], [101, 133, 17], [64, 64, 64]]
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write(Path(folder)).items():
            if options.only not in name:
                continue
            spent: dict[str, list[list[float]]] = {side: [[], [], []] for side in sides}
            for number in range(3 if options.quick else options.rounds):
                some = [[int(rng.integers(0, n - p + 1)) for n, p in zip(SHAPE, PATCH, strict=True)] for _ in range(4)]
                for field, corners in enumerate((fixed, some, [])):
                    if field == 2 and number % 3:
                        continue
                    totals = set()
                    for side in sorted(sides, reverse=bool(number % 2)):
                        ns, total = sides[side].ask(path, corners)
                        spent[side][field].append(ns)
                        totals.add(total)
                    if len(totals) != 1:
                        raise SystemExit(f"{name}: the sides read different items")
            print(f"{name:32s}", end="")
            for field, what in enumerate(FIELDS):
                print(f"  {what} {1e9 / statistics.median(spent['this'][field]):6.0f}/s", end="")
                for side in sides:
                    if side != "this":
                        pairs = zip(spent[side][field], spent["this"][field], strict=True)
                        print(f" {side} {statistics.median(a / b for a, b in pairs):5.3f}", end="")
            print(flush=True)
    for one in sides.values():
        one.close()


if __name__ == "__main__":
    main()
