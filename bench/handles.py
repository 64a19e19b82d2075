"""How much memory does the handle of a leaf take, and is all of it freed?

    python bench/handles.py                 100,000 leaves of 64 bytes held; ten million leaves opened and let go
    python bench/handles.py --quick         10,000 and 200,000

A new process for each source counts resident bytes, with the resident pages of the file, which other processes share,
and without them (`private`). Growth is the difference between the end and the first tenth of the cycles.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

import blosc2


def write(path: str, leaves: int) -> None:
    """A store of leaves of eight numbers each."""
    with blosc2.DictStore(path, mode="w") as store:
        for number in range(leaves):
            store[key_of(number)] = np.arange(8) + number


def key_of(number: int) -> str:
    return f"/g{number // 1000:03d}/leaf{number:06d}"


def resident() -> tuple[int, int]:
    """Resident bytes, and those that do not belong to a file."""
    memory = psutil.Process().memory_info()
    return memory.rss, memory.rss - getattr(memory, "shared", 0)


def hold(path: str, mmap_mode: str | None, leaves: int) -> None:
    """Open leaves, keep them, and report the memory of each."""
    store = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    keys = [key_of(number) for number in range(leaves)]
    held = [store[key][:] for key in keys[:10]] + [None] * leaves
    before = resident()
    start = time.perf_counter()
    for number, key in enumerate(keys):
        held[number] = store[key]
    elapsed = time.perf_counter() - start
    after = resident()
    each = [(b - a) / leaves for a, b in zip(before, after, strict=True)]
    microseconds = elapsed / leaves * 1e6
    print(f"held, mmap_mode={mmap_mode}: {each[0]:.0f} bytes each, {each[1]:.0f} private, {microseconds:.2f} us")
    assert all(store[key] is leaf for key, leaf in zip(keys, held))


def cycle(path: str, mmap_mode: str | None, leaves: int, cycles: int) -> None:
    """Open leaves and let them go; every hundredth is read, every thousandth kept for a while."""
    store = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    keys = [key_of(number) for number in range(leaves)]
    held = [None] * 100
    order = np.random.default_rng(1).integers(0, leaves, 1 << 16).tolist()
    begun = 0
    elapsed = 0.0
    for done in range(0, cycles, len(order)):
        start = time.perf_counter()
        for number, pick in enumerate(order):
            leaf = store[keys[(pick + done) % leaves]]
            if number % 100 == 0:
                leaf[:]
            if number % 1000 == 0:
                held[number // 1000 % 100] = leaf
        elapsed += time.perf_counter() - start
        if done <= cycles // 10:
            gc.collect()
            begun = resident()[1]
    gc.collect()
    grown = resident()[1] - begun
    rounds = -(-cycles // len(order)) * len(order)
    microseconds = elapsed / rounds * 1e6
    print(f"{rounds} cycles, mmap_mode={mmap_mode}: {microseconds:.2f} us each, {grown} private bytes grown")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--task", nargs=5, metavar=("WHAT", "PATH", "MMAP", "LEAVES", "CYCLES"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        what, path, mmap, leaves, cycles = given.task
        if what == "hold":
            hold(path, mmap or None, int(leaves))
        else:
            cycle(path, mmap or None, int(leaves), int(cycles))
        return
    leaves, cycles = (10_000, 200_000) if given.quick else (100_000, 10_000_000)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "leaves.b2z")
        write(path, leaves)
        for what in ("hold", "cycle"):
            for mmap in ("r", ""):
                task = ["--task", what, path, mmap, str(leaves), str(cycles)]
                subprocess.run([sys.executable, __file__, *task], check=True)


if __name__ == "__main__":
    main()
