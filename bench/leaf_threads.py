"""Small leaves by several threads through one handle, beside one thread.

    python bench/leaf_threads.py [--seconds 20] [--threads 4]

A store of 1,000 leaves of 400 bytes, `store[key][:]` in a random order of each thread's own; not mapped, and mapped.
Rounds of one thread and of several alternate. "together" is the time in which the threads read one leaf, all of them
counted; the ratio says how many times as many leaves that is, and is the median of the ratios of neighbours.

Where Python has a GIL, four threads share it, and can only be as fast as one: 1.0. Without a GIL two threads are
measured, with three controls that say what the machine gives meanwhile, which changes from hour to hour on rented
machines: loops that share nothing (1.9 to 2.0 with two whole processors, less where the two share one); what an access
to an object that another thread uses at the same time costs (where processors are far apart, or a hypervisor moves
them, ten times as much as on one chip); and the reads by which leaves of a file that is not mapped come, alone: each
thread has a descriptor of its own, but all read the same pages, which the system counts. The leaves here need few of
them, as pages that reads come back to are kept.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import repeat
from pathlib import Path

import numpy as np

import blosc2

LEAVES = 1000
Work = Callable[[int], object]


def seconds_of(work: Work, threads: int, times: int) -> float:
    """What the slowest of some threads takes, each of which does the work so many times."""
    barrier = threading.Barrier(threads)
    took = [0.0] * threads

    def run(thread: int) -> None:
        barrier.wait()
        start = time.perf_counter()
        for _ in repeat(None, times):
            work(thread)
        took[thread] = time.perf_counter() - start

    others = [threading.Thread(target=run, args=(n,)) for n in range(threads)]
    for one in others:
        one.start()
    for one in others:
        one.join()
    return max(took)


def reading(path: Path, mmap_mode: str | None, threads: int) -> Work:
    store = blosc2.DictStore(str(path), mode="r", mmap_mode=mmap_mode)
    keys = [[str(key) for key in store] for _ in range(threads)]
    for n, own in enumerate(keys):
        random.Random(n).shuffle(own)

    def read(thread: int) -> None:
        own = store  # a variable of an outer function has a lock, which threads would wait for
        for key in keys[thread]:
            own[key][:]

    return read


def alone(_thread: int) -> None:
    """Work on what no other thread has."""
    total = 0.0
    for number in range(20_000):
        total += number * 0.5


def shared() -> Work:
    """Take and drop references to one object, which every thread counts in the same place."""
    box = [object()]

    def touch(_thread: int) -> None:
        for _ in repeat(None, 20_000):
            box[0]

    return touch


def bare(path: Path, threads: int) -> Work:
    """As many bytes as a leaf has, at random places, by descriptors that are not closed: a process ends soon."""
    size = path.stat().st_size // LEAVES
    descriptors = [os.open(path, os.O_RDONLY) for _ in range(threads)]
    places = [random.Random(n).sample(range(0, LEAVES * size, size), LEAVES) for n in range(threads)]

    def read(thread: int) -> None:
        descriptor, length = descriptors[thread], size
        for place in places[thread]:
            os.pread(descriptor, length, place)

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20, help="how long in all")
    parser.add_argument("--threads", type=int, help="how many beside one (4; 2 without a GIL)")
    options = parser.parse_args()
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()
    threads = options.threads or (4 if has_gil else 2)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.b2z"
        rng = np.random.default_rng(0)
        with blosc2.DictStore(str(path), mode="w") as store:
            store.write_many((f"/g{n % 10}/leaf{n:04d}", rng.integers(0, 100, 50)) for n in range(LEAVES))
        cases: dict[str, tuple[Work, int, int]] = {
            "leaves, not mapped": (reading(path, None, threads), 10, 10 * LEAVES),
            "leaves, mapped": (reading(path, "r", threads), 10, 10 * LEAVES),
        }
        if not has_gil:
            cases |= {
                "control: nothing shared": (alone, 20, 20 * 20_000),
                "control: one object": (shared(), 20, 20 * 20_000),
                "control: bare reads": (bare(path, threads), 10, 10 * LEAVES),
            }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in cases}
        for work, times, _ in cases.values():
            seconds_of(work, threads, times)
        end = time.monotonic() + options.seconds
        while time.monotonic() < end:
            for name, (work, times, _) in cases.items():
                found[name].append((seconds_of(work, 1, times), seconds_of(work, threads, times) / threads))
    print(f"{'':24s} {'one thread':>11s} {f'{threads} together':>12s} {'ratio':>6s}")
    for name, (_, _, operations) in cases.items():
        one, together = (statistics.median(times) / operations * 1e9 for times in zip(*found[name], strict=True))
        ratio = statistics.median(first / second for first, second in found[name])
        print(f"{name:24s} {one:8.1f} ns {together:9.1f} ns {ratio:6.2f}")


if __name__ == "__main__":
    main()
