"""Files that grow, and arrays written to files, beside the published package: times and sizes.

``python bench/growing.py [--reference PYTHON] [--count N] [--runs N] [--folder FOLDER] [JOB ...]``. The two packages
take turns. An append is given in microseconds, a file as a multiple of its chunks, and an array that is written in
milliseconds; all are medians of the runs. "synced" waits for the disk, as our default does, and "not" is
``durable=False``; the published package never waits.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import blosc2

ITEMS = 1024  # of 4 bytes
OURS = not hasattr(blosc2, "lazyexpr")


def rows_of(count: int) -> np.ndarray[Any, Any]:
    """Rows of 4 KB that compress to about a third."""
    return np.random.default_rng(1).integers(0, 1000, (min(count, 512), ITEMS), np.int32)


def how(durable: bool) -> dict[str, Any]:
    """The keywords of a file. The published package knows nothing of syncs."""
    return {} if durable or not OURS else {"durable": False}


def by_resize(path: str, count: int, durable: bool, chunk_rows: int = 1) -> float:
    rows = rows_of(count)
    array = blosc2.zeros((0, ITEMS), np.int32, chunks=(chunk_rows, ITEMS), urlpath=path, mode="w", **how(durable))
    began = time.perf_counter()
    for n in range(count):
        array.resize((n + 1, ITEMS))
        array[n] = rows[n % len(rows)]
    seconds = time.perf_counter() - began
    assert (array[count // 2] == rows[count // 2 % len(rows)]).all()
    return seconds / count


def by_append(path: str, count: int, durable: bool) -> float:
    rows = rows_of(count)
    array = blosc2.zeros((0, ITEMS), np.int32, chunks=(1, ITEMS), urlpath=path, mode="w", **how(durable))
    began = time.perf_counter()
    if OURS:
        for n in range(count):
            array.append(rows[n % len(rows), None])
    else:  # which has `append` for arrays of one axis only
        for n in range(count):
            array.resize((n + 1, ITEMS))
            array[n] = rows[n % len(rows)]
    return (time.perf_counter() - began) / count


def in_transactions(path: str, count: int, durable: bool) -> float:
    rows = rows_of(count)
    array = blosc2.zeros((0, ITEMS), np.int32, chunks=(1, ITEMS), urlpath=path, mode="w", **how(durable))
    began = time.perf_counter()
    for start in range(0, count, 100):
        if OURS:
            with array.transaction():
                for n in range(start, min(start + 100, count)):
                    array.append(rows[n % len(rows), None])
        else:
            for n in range(start, min(start + 100, count)):
                array.resize((n + 1, ITEMS))
                array[n] = rows[n % len(rows)]
    return (time.perf_counter() - began) / count


def chunks_of_bytes(path: str, count: int, durable: bool) -> float:
    rows = rows_of(count)
    schunk = blosc2.SChunk(chunksize=4 * ITEMS, urlpath=path, mode="w", cparams={"typesize": 4}, **how(durable))
    began = time.perf_counter()
    for n in range(count):
        schunk.append_data(rows[n % len(rows)])
    return (time.perf_counter() - began) / count


def asarray(path: str, _: int, durable: bool, codec: str = "ZSTD", clevel: int = 5, noise: bool = False) -> float:
    random = np.random.default_rng(1)
    values: Any = random.random((128, 160, 160), np.float32)
    if not noise:
        values = np.cumsum(random.integers(-20, 20, (128, 160, 160), np.int16), 2, np.int16).astype(np.float32)
    cparams = {"codec": blosc2.Codec[codec], "clevel": clevel, "nthreads": 2}
    options: dict[str, Any] = {"chunks": (32, 80, 80), "blocks": (8, 40, 40), "cparams": cparams}
    blosc2.asarray(values[:1])  # this package imports what it needs for writing with the first array, some 15 ms
    began = time.perf_counter()
    blosc2.asarray(values, urlpath=path, mode="w", **options, **how(durable))
    return time.perf_counter() - began


JOBS: dict[str, tuple[Callable[..., float], dict[str, Any]]] = {
    "resize-and-set": (by_resize, {}),
    "resize-and-set-16": (by_resize, {"chunk_rows": 16}),
    "append": (by_append, {}),
    "transaction": (in_transactions, {}),
    "append_data": (chunks_of_bytes, {}),
    "asarray-zstd5": (asarray, {}),
    "asarray-zstd1": (asarray, {"clevel": 1}),
    "asarray-lz4": (asarray, {"codec": "LZ4"}),
    "asarray-lz4-noise": (asarray, {"codec": "LZ4", "noise": True}),
}


def work(name: str, count: int, durable: bool, folder: str) -> dict[str, float]:
    job, options = JOBS[name]
    with tempfile.TemporaryDirectory(dir=folder) as made:
        path = os.path.join(made, "grown" + (".b2frame" if name == "append_data" else ".b2nd"))
        seconds = job(path, count, durable, **options)
        size = os.stat(path).st_size
        found = blosc2.open(path, mode="r")
        chunks = found if name == "append_data" else found.schunk
        whole = sum(len(chunks.get_chunk(n)) for n in range(chunks.nchunks))
        return {"seconds": seconds, "size": size, "whole": whole}


def ask(python: str, name: str, count: int, durable: bool, folder: str) -> dict[str, float]:
    """The figures of one run, in a process of its own."""
    env = dict(os.environ)
    if python != sys.executable:
        env.pop("PYTHONPATH", None)
    arguments = [python, str(Path(__file__).resolve()), "--work", name, str(count), str(int(durable)), folder]
    answer: dict[str, float] = json.loads(subprocess.run(arguments, env=env, check=True, stdout=subprocess.PIPE).stdout)
    return answer


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        name, count, durable, folder = sys.argv[2:]
        print(json.dumps(work(name, int(count), durable == "1", folder)))
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="a Python with the published package")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("jobs", nargs="*", default=list(JOBS), metavar="JOB", help=", ".join(JOBS))
    given = parser.parse_args()
    for name in given.jobs:
        sides: dict[str, tuple[str, bool]] = {"synced": (sys.executable, True), "not": (sys.executable, False)}
        if given.reference:
            sides["published"] = (given.reference, False)
        runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
        for _ in range(given.runs):
            for side, (python, synced) in sides.items():
                runs[side].append(ask(python, name, given.count, synced, given.folder))
        times = {side: statistics.median(run["seconds"] for run in found) for side, found in runs.items()}
        line = [f"{name:18}"]
        for side, found in runs.items():
            size = statistics.median(run["size"] / run["whole"] for run in found)
            one = f"{times[side] * 1e6:7.0f} us" if not name.startswith("asarray") else f"{times[side] * 1e3:7.1f} ms"
            ratio = f" {times[side] / times['published']:.2f}x" if given.reference and side != "published" else ""
            line.append(f"{side} {one}{ratio}, file {size:.2f}x")
        print("; ".join(line), flush=True)


if __name__ == "__main__":
    main()
