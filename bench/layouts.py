"""What do default chunks and blocks cost who reads one image, one patch, one plane, one row at a time?

    python bench/layouts.py [--reference PYTHON]

Typical data, each stored with the defaults of both sides: a stack of images, a volume, embeddings, a table and series.
One thread of a process of its own for each side reads at random; the sides take turns; smallest times. The ratio of
times is that of the reference divided by that of this build: above 1 this build is faster.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import sides

import blosc2

# Name, and how one read of it looks: an index, a length, or None for all.
CASES: dict[str, list[tuple[str, tuple[int | None, ...]]]] = {
    "images (5000, 64, 64) u1": [("an image", (1, None, None)), ("a batch of 64 in order", (64, None, None))],
    "masks (5000, 64, 64) u1": [("an image", (1, None, None)), ("a batch of 64 in order", (64, None, None))],
    "volume (256, 256, 256) i2": [
        ("a patch of 32^3", (32, 32, 32)), ("a plane along", (1, None, None)), ("a plane across", (None, None, 1)),
    ],
    "embeddings (100000, 256) f4": [("a row", (1, None)), ("64 rows in order", (64, None))],
    "table (500000, 8) f8": [("a row", (1, None)), ("a column", (None, 1))],
    "series (5000000,) f4": [("4096 items", (4096,)), ("one item", (1,))],
}  # fmt: skip
ROUNDS, READS = 7, 24


def data(name: str) -> np.ndarray[Any, Any]:
    """Smooth with noise; masks have zeros around what they show."""
    rng = np.random.default_rng(3)
    kind = name.split()[0]
    if kind in ("images", "masks"):
        y, x = np.mgrid[0:64, 0:64].astype("f4")
        waves = [np.sin(x * rng.uniform(0.02, 0.3) + y * rng.uniform(0.02, 0.3)) for _ in range(40)]
        made = np.empty((5000, 64, 64), "u1")
        for n in range(len(made)):
            picture = 120 + sum(25 * rng.normal() * waves[rng.integers(40)] for _ in range(4))
            if kind == "masks":
                cx, cy, r = rng.uniform(15, 48), rng.uniform(15, 48), rng.uniform(5, 20)
                picture = np.where((x - cx) ** 2 + (y - cy) ** 2 < r * r, picture, 0)
            else:
                picture = picture + rng.normal(0, 3, (64, 64))
            made[n] = np.clip(picture, 0, 255)
        return made
    if kind == "volume":
        z, y, x = np.meshgrid(*[np.linspace(0, 6, 256, dtype="f4")] * 3, indexing="ij", sparse=True)
        return (np.sin(z) * np.cos(y) * 900 + np.sin(2 * x) * 300 + rng.normal(0, 6, (256,) * 3)).astype("i2")
    if kind == "embeddings":
        return rng.normal(0, 1, (100_000, 256)).astype("f2").astype("f4")
    if kind == "table":
        return np.cumsum(rng.integers(-5, 6, (500_000, 8)), axis=0).astype("f8")
    return np.cumsum(rng.normal(0, 1, 5_000_000)).round(2).astype("f4")


def worker() -> None:
    """Answer requests, a JSON line each."""
    import time

    blosc2.set_nthreads(1)
    arrays: dict[str, Any] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if request["job"] == "store":
            array = blosc2.asarray(np.load(request["path"]))
            arrays[request["name"]] = array
            answer = {"ratio": array.schunk.cratio, "chunks": array.chunks, "blocks": array.blocks}
        else:
            array = arrays[request["name"]]
            keys = [tuple(k if isinstance(k, int) else slice(*k) for k in key) for key in request["keys"]]
            start = time.thread_time_ns()
            for key in keys:
                array[key]
            answer = {"us": (time.thread_time_ns() - start) / len(keys) / 1000}
        print(json.dumps(answer), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--reference", help="a Python that has the reference package")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker()
        return
    here = Path(__file__).resolve()
    arguments = ["--worker"]
    pair = {
        "this": sides.Side("this", sys.executable, isolated=False, worker=here, arguments=arguments),
        "reference": sides.Side(
            "reference", sides.reference_python(options.reference), isolated=True, worker=here, arguments=arguments
        ),
    }
    rng = np.random.default_rng(5)
    with tempfile.TemporaryDirectory() as folder:
        for name, reads in CASES.items():
            items = data(name)
            path = str(Path(folder) / "x.npy")
            np.save(path, items)
            for side, one in pair.items():
                made = one.ask("store", name=name, path=path)
                print(f"{name}, {side}: blocks {tuple(made['blocks'])}, ratio {made['ratio']:.2f}")
            for what, lengths in reads:
                best: dict[str, float] = {}
                for number in range(ROUNDS):
                    keys = [
                        [
                            [0, n] if length is None else start if length == 1 else [start, start + length]
                            for n, length in zip(items.shape, lengths, strict=True)
                            for start in [int(rng.integers(n - (length or 0) + 1) if length else 0)]
                        ]
                        for _ in range(READS)
                    ]  # fmt: skip
                    for side in sorted(pair, reverse=bool(number % 2)):
                        us = pair[side].ask("read", name=name, keys=keys)["us"]
                        best[side] = min(best.get(side, us), us)
                ratio = best["reference"] / best["this"]
                print(f"    {what:24s} {best['this']:10.1f} us {best['reference']:10.1f} us {ratio:6.2f}")
    for one in pair.values():
        one.close()


if __name__ == "__main__":
    main()
