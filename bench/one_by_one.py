"""Assign many leaves one by one to each kind of store, and then replace them: seconds, and bytes of the result.

``python bench/one_by_one.py [NUMBER]``. The time ends when everything is durable.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import blosc2

KINDS = {
    ".b2e": (blosc2.EmbedStore, ".b2e", {}),
    ".b2z": (blosc2.TreeStore, ".b2z", {}),
    ".b2d": (blosc2.TreeStore, ".b2d", {}),
    ".b2d, embedded": (blosc2.TreeStore, ".b2d", {"threshold": 10_000}),
}


def main() -> None:
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for length in (8, 500):
        value = np.random.default_rng(1).integers(0, 1 << 62, length)
        for name, (kind, suffix, options) in KINDS.items():
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "store" + suffix)
                began, user = time.perf_counter(), time.process_time()
                with kind(path, mode="w", **options) as store:
                    for n in range(number):
                        store[f"/g{n % 100}/k{n}"] = value
                seconds, user = time.perf_counter() - began, time.process_time() - user
                again = time.process_time()
                with kind(path, mode="a", **options) as store:
                    for n in range(number):
                        store[f"/g{n % 100}/k{n}"] = value[::-1]
                again = time.process_time() - again
                size = sum(file.stat().st_size for file in [Path(path), *Path(path).rglob("*")] if file.is_file())
            what = f"{name:15} {number} x {value.nbytes} bytes"
            cpu = f"{user:6.2f} s of a processor, {again:6.2f} s to replace them"
            print(f"{what}: {seconds:6.2f} s, {cpu}, {size / 1e6:6.1f} MB")


if __name__ == "__main__":
    main()
