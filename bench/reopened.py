"""How fast are patches for a loader that opens the file for each one, as nnU-Net's dataset class does?

    python bench/reopened.py                            about a minute
    python bench/reopened.py --patch 128 128 128        other patches

Eight cases of float32 (1, 160, 192, 192), compressed by LZ4HC with shuffle in chunks of 1 MB and blocks of 16 KB. For
each patch of 64 x 96 x 96 of a random case, the file is opened mapped, with one thread for the decoder, sliced and let
go. One thread does this, then two, and two forked processes; then arrays are held. Each sample is a process of its own;
the sides take turns. A ratio above 1: this build is faster. `first patch` is the first one of a process.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sides

import blosc2

SHAPE, CHUNKS, BLOCKS = (1, 160, 192, 192), (1, 64, 64, 64), (1, 16, 16, 16)
CASES = 8
JOBS = ("first patch", "one thread", "two threads", "two processes", "held")


def write(folder: Path) -> None:
    """Smooth volumes with noise, as scans are after their preparation."""
    rng = np.random.default_rng(1)
    axes = np.meshgrid(*(np.linspace(0, 3, n, dtype="f4") for n in SHAPE[1:]), indexing="ij")
    for case in range(CASES):
        smooth = np.sin(axes[0] + case) * np.cos(2 * axes[1]) * np.sin(3 * axes[2])
        volume = np.round(smooth + rng.normal(0, 0.05, SHAPE[1:]), 2).astype("f4")[None]
        blosc2.asarray(
            np.ascontiguousarray(volume), urlpath=str(folder / f"{case}.b2nd"), chunks=CHUNKS, blocks=BLOCKS,
            cparams={"codec": blosc2.Codec.LZ4HC, "clevel": 8},
        )  # fmt: skip


def reads(folder: str, patch: list[int], patches: int, seed: int, held: dict[int, Any] | None = None) -> float:
    """A sum over what the patches hold; only a few items count, or the sum would take longer than the reading."""
    rng = np.random.default_rng(seed)
    total = 0.0
    for _ in range(patches):
        case = int(rng.integers(CASES))
        corner = [int(rng.integers(n - length + 1)) for n, length in zip(SHAPE[1:], patch, strict=True)]
        key = (0, *(slice(at, at + length) for at, length in zip(corner, patch, strict=True)))
        array = held[case] if held else opened(folder, case)
        total += float(array[key][::32, ::32, ::32].sum(dtype="f8"))
    return total


def opened(folder: str, case: int) -> Any:
    return blosc2.open(f"{folder}/{case}.b2nd", mode="r", dparams={"nthreads": 1}, mmap_mode="r")


def one_job(job: str, folder: str, patch: list[int], patches: int) -> tuple[float, float]:
    """Nanoseconds a patch, and a sum that both sides must agree about."""
    if job == "first patch":
        start = time.perf_counter_ns()
        items = opened(folder, 3)[(0, *map(slice, patch))]
        return time.perf_counter_ns() - start, float(items.sum(dtype="f8"))
    held = {case: opened(folder, case) for case in range(CASES)} if job == "held" else None
    reads(folder, patch, patches, 0, held)
    start = time.perf_counter_ns()
    total = 0.0
    if job == "two threads":
        sums = [0.0, 0.0]

        def work(number: int) -> None:
            sums[number] = reads(folder, patch, patches, number + 1)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = sum(sums)
    elif job == "two processes":
        children = [_forked(lambda number=number: reads(folder, patch, patches, number + 1)) for number in range(2)]  # type: ignore[misc]
        for child in children:
            if os.waitpid(child, 0)[1]:
                raise SystemExit("a process failed")
    else:
        total = reads(folder, patch, patches, 1, held)
    return (time.perf_counter_ns() - start) / (patches * (2 if job.startswith("two") else 1)), total


def _forked(work: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return child


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="a Python that has the reference package")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--patch", type=int, nargs=3, default=[64, 96, 96], help="the lengths of its axes")
    parser.add_argument("--patches", type=int, default=200, help="in each thread or process of a sample")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        job, folder = options.job
        print(json.dumps(one_job(job, folder, options.patch, options.patches)))
        return
    reference = sides.reference_python(options.reference)
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    sources = {"this": (sys.executable, dict(os.environ)), "reference": (reference, clean)}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        time.sleep(2.5)  # a file that has just been written is not kept open
        for job in JOBS:
            found: dict[str, list[float]] = {name: [] for name in sources}
            sums = set()
            for number in range(options.rounds):
                for name in sorted(sources, reverse=bool(number % 2)):
                    python, env = sources[name]
                    how = ["--patch", *map(str, options.patch), "--patches", str(options.patches)]
                    command = [python, __file__, "--job", job, folder, *how]
                    answer = subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout
                    ns, total = json.loads(answer)
                    found[name].append(ns)
                    sums.add(round(total, 6))
            if len(sums) != 1:
                raise SystemExit(f"{job}: the sides read different items")
            ours, theirs = (statistics.median(found[name]) for name in ("this", "reference"))
            ratio = statistics.median(b / a for a, b in zip(found["this"], found["reference"], strict=True))
            print(f"{job:14s} {ours / 1e6:8.2f} ms {theirs / 1e6:8.2f} ms  {ratio:5.2f}", flush=True)


if __name__ == "__main__":
    main()
