"""Which sizes of blocks and chunks should be the default? Measures the time of patches and the compression ratio.

    python bench/chunk_shapes.py             about a minute
    python bench/chunk_shapes.py --quick     fewer sizes and patches, some seconds

If the packages nibabel and scikit-image are installed (`pip install '.[demo]'`), two arrays are real images: the brain
scan and a photograph of the demo, mirrored until they are much larger than a patch. Two others are generated: a smooth
volume of floats with some noise, and a signal. `compute_chunks_blocks` divides each of them, with different limits for
the bytes of a block and of a chunk. Then one thread reads random patches: cubes of 64 and 128, a plane through each
axis in turn, squares of the photograph, runs of the signal. A row has the compression ratio, the median time of the
patches, and how many uncompressed bytes of blocks a patch touches for each byte of its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from figures import seconds

import blosc2
from blosc2._arrays.chunk_shapes import CHUNK_NBYTES, block_limit, default_partitions
from blosc2._tools.demo import DemoError, load_photograph, load_scan

RESULTS = Path(__file__).resolve().parent / "results" / "chunk_shapes.json"
KIB = 1 << 10
#: Bytes of blocks and of chunks.
SIZES = [(block * KIB, 2048 * KIB) for block in (8, 16, 32, 64, 128, 256, 512)] + [
    (64 * KIB, chunk * KIB) for chunk in (256, 512, 1024, 4096, 8192, 16384)
]
QUICK = [(block * KIB, 2048 * KIB) for block in (16, 64, 128, 256)] + [(64 * KIB, 512 * KIB)]

Array = np.ndarray[Any, Any]
Box = tuple[slice, ...]
Patches = dict[str, Callable[[np.random.Generator], Box]]


# ------------------------------------------------------------------------------------------------------ arrays


def mirrored(image: Array, shape: tuple[int, ...]) -> Array:
    """An image, mirrored repeatedly until it has at least this shape, and cut to the shape."""
    wider = [(0, max(want - have, 0)) for want, have in zip(shape, image.shape, strict=True)]
    return np.ascontiguousarray(np.pad(image, wider, mode="symmetric")[tuple(slice(n) for n in shape)])


def smooth_volume(edge: int, dtype: str) -> Array:
    """Floats that vary slowly, with noise in the last digits, like the result of a simulation or a reconstruction."""
    rng = np.random.default_rng(1)
    axis = np.linspace(0, 6, edge)
    field = np.sin(axis)[:, None, None] * np.cos(2 * axis)[:, None] + np.sin(axis * 1.5)
    noisy = field + rng.normal(0, 1e-3, field.shape)
    return np.round(noisy, 6).astype(dtype)


def signal(items: int) -> Array:
    """Samples of an instrument: 16 bits of a wave with noise, as float64."""
    rng = np.random.default_rng(2)
    return np.round(1000 * np.sin(np.arange(items) / 300) + rng.normal(0, 3, items)) / 8


def arrays(edge: int) -> Iterator[tuple[str, Array, Patches]]:
    """Name, items and kinds of patches of each array."""
    try:
        scan = load_scan().data
        scan = np.concatenate([scan[..., 0], scan[..., 1]], axis=2)  # mirrors of so few slices would share a block
        yield "brain scan, int16", mirrored(scan, (edge,) * 3), volume_patches(edge)
        photograph = load_photograph("retina").data
        yield "photograph, uint8", mirrored(photograph, (2048, 2048, 3)), photograph_patches(2048)
    except DemoError as error:
        print(f"no real images: {error}")
    for dtype in ("float32", "float64"):
        yield f"smooth volume, {dtype}", smooth_volume(edge, dtype), volume_patches(edge)
    items = edge**3 // 4
    yield "signal, float64", signal(items), {"4,096 items": lambda rng: (run(rng, items, 4096),)}


def run(rng: np.random.Generator, length: int, count: int) -> slice:
    """A random run of items of an axis."""
    start = int(rng.integers(0, length - count + 1))
    return slice(start, start + count)


def volume_patches(edge: int) -> Patches:
    """Cubes and planes of a cube."""

    def plane(rng: np.random.Generator) -> Box:
        place = [slice(0, edge)] * 3
        axis = int(rng.integers(3))
        place[axis] = run(rng, edge, 1)
        return tuple(place)

    return {
        "64^3": lambda rng: tuple(run(rng, edge, 64) for _ in range(3)),
        "128^3": lambda rng: tuple(run(rng, edge, 128) for _ in range(3)),
        "plane": plane,
    }


def photograph_patches(edge: int) -> Patches:
    """Squares of a photograph, with its colours."""

    def square(side: int) -> Callable[[np.random.Generator], Box]:
        return lambda rng: (run(rng, edge, side), run(rng, edge, side), slice(0, 3))

    return {"64^2": square(64), "256^2": square(256)}


# --------------------------------------------------------------------------------------------------- measuring


def touched(place: Box, array: blosc2.NDArray) -> float:
    """Bytes of the blocks that a patch touches, for one byte of its own."""
    ratio = 1.0
    for part, chunk, block, length in zip(place, array.chunks, array.blocks, array.shape, strict=True):
        first = {(i // chunk, i % chunk // block) for i in range(part.start, min(part.stop, length))}
        ratio *= len(first) * block / (part.stop - part.start)
    return ratio


def _read_speed(array: blosc2.NDArray) -> float:
    started = time.perf_counter_ns()
    array[...]
    return array.nbytes / (time.perf_counter_ns() - started)


def measure(items: Array, patches: Patches, sizes: tuple[int, int], count: int) -> dict[str, Any]:
    """One row: an array cut in one way, and its patches."""
    chunks, blocks = default_partitions(items.shape, items.itemsize, *sizes)
    started = time.perf_counter_ns()
    array = blosc2.asarray(items, chunks=chunks, blocks=blocks, cparams={"nthreads": 1}, dparams={"nthreads": 1})
    took = time.perf_counter_ns() - started
    row: dict[str, Any] = {
        "block_nbytes": sizes[0], "chunk_nbytes": sizes[1], "chunks": chunks, "blocks": blocks,
        "ratio": items.nbytes / array.cbytes, "write_gb_s": items.nbytes / took,
        "read_gb_s": max(_read_speed(array) for _ in range(3)),
        "default": sizes == (block_limit(items.itemsize), CHUNK_NBYTES), "patches": {},
    }  # fmt: skip
    for name, choose in patches.items():
        rng = np.random.default_rng(3)  # the same patches for every row
        samples, reached = [], []
        for _ in range(count):
            place = choose(rng)
            blosc2.free_resources()  # no block is left from the patch before
            started = time.perf_counter_ns()
            patch = array[place]
            samples.append(time.perf_counter_ns() - started)
            reached.append(touched(place, array))
            if not np.array_equal(patch, items[place]):
                raise SystemExit(f"wrong items at {place} of chunks {chunks}, blocks {blocks}")
        row["patches"][name] = {"median": statistics.median(samples), "touched": statistics.mean(reached)}
    return row


def table(name: str, rows: list[dict[str, Any]]) -> str:
    """The rows of one array as text."""
    kinds = list(rows[0]["patches"])
    lines = [["block", "chunk", "ratio", "write", "read GB/s", *kinds, "blocks", "chunks"]]
    for row in rows:
        figures = [f"{seconds(row['patches'][k]['median'])} ({row['patches'][k]['touched']:.1f}x)" for k in kinds]
        mark = " *" if row["default"] else ""
        lines.append([
            f"{row['block_nbytes'] // KIB} KiB{mark}", f"{row['chunk_nbytes'] // KIB} KiB", f"{row['ratio']:.2f}",
            f"{row['write_gb_s']:.2f}", f"{row['read_gb_s']:.2f}", *figures, str(row["blocks"]), str(row["chunks"]),
        ])  # fmt: skip
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    return "\n".join([f"\n{name}  (* the default)", *text])


def main() -> None:
    """Measure, print, store."""
    summary, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer sizes and patches")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go (default: %(default)s)")
    options = parser.parse_args()
    edge, sizes, count = (192, QUICK, 7) if options.quick else (256, SIZES, 25)
    found = []
    for name, items, patches in arrays(edge):
        rows = [measure(items, patches, size, count) for size in sizes]
        print(table(name, rows), flush=True)
        found.append({"array": name, "shape": items.shape, "dtype": str(items.dtype), "rows": rows})
    options.json.parent.mkdir(parents=True, exist_ok=True)
    about = {"machine": platform.platform(), "blosc2": blosc2.__version__, "numpy": np.__version__, "arrays": found}
    options.json.write_text(json.dumps(about, indent=1))
    print(f"\nwritten to {options.json}")


if __name__ == "__main__":
    main()
