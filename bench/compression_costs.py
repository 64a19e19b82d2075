"""Fit the weights of `_tuning/costs.py` to measured times of decoding.

    python bench/compression_costs.py [--only NAME ...] [--rounds 40]

Each data set of `compression_data.py` is compressed with zstd, with several filters and levels, and read whole by one
thread. The fit gives nanoseconds for a Huffman literal, a sequence, a stream, a byte that a match copies, and a byte
under each filter, by the size of items. Outliers, which other programs make, weigh little.
"""

from __future__ import annotations

import argparse
import struct
import sys
import time
from collections.abc import Iterator
from typing import Any

import compression_data
import numpy as np

import blosc2
from blosc2 import Codec, Filter
from blosc2._tuning import costs

LEVELS = (1, 5, 7, 9)
#: Nanoseconds for each byte, whatever it is: copying it.
COPIED = 0.05
#: A set is cut to so many bytes.
MOST = 2 << 20


def pipelines(items: Any) -> dict[str, tuple[list[Filter], list[int]]]:
    size = items.dtype.itemsize
    found = {"none": ([], []), "bitshuffle": ([Filter.BITSHUFFLE], [0])}
    widths = {size, size * items.shape[-1] if items.ndim > 1 and items.shape[-1] * size < 17 else size}
    for width in widths - {1}:
        name = "shuffle" if width == size else f"shuffle({width})"
        found[name] = ([Filter.SHUFFLE], [0 if width == size else width])
        if width < 128:
            found[f"{name} + bytedelta"] = ([Filter.SHUFFLE, Filter.BYTEDELTA], [0 if width == size else width, width])
    return found if size > 1 else {**found, "bytedelta": ([Filter.BYTEDELTA], [1])}


def counted(array: Any) -> list[int]:
    """Huffman literals, sequences, streams, and bytes that matches copy."""
    huffman = sequences = streams = matched = 0
    for number in range(array.schunk.nchunks):
        chunk = memoryview(array.schunk.get_chunk(number))
        nbytes, blocksize = struct.unpack_from("<ii", chunk, 4)
        if len(chunk) == 32 or chunk[2] & 2:
            continue
        for block, at in enumerate(struct.unpack_from(f"<{-(-nbytes // blocksize)}i", chunk, 32)):
            size = min(blocksize, nbytes - block * blocksize)
            count = 1 if chunk[2] & 16 or size < blocksize else chunk[3]
            for _ in range(count):
                (stored,) = struct.unpack_from("<i", chunk, at)
                at += 4 + (1 if stored < 0 else stored)
                if 0 < stored < size // count:
                    found = costs._zstd_counts(chunk[at - stored : at])
                    huffman += found.huffman
                    sequences += found.sequences
                    streams += 1
                    matched += size // count - found.literal
    return [huffman, sequences, streams, matched]


def measured(names: list[str], rounds: int) -> Iterator[tuple[str, int, list[int], float]]:
    """Pipeline with the size of items, bytes, counts, and nanoseconds."""
    for name in names:
        print(name, file=sys.stderr)
        items = np.ascontiguousarray(compression_data.SETS[name]())
        items = items[: max(MOST * len(items) // items.nbytes, 1)].copy()
        for pipeline, (filters, metas) in pipelines(items).items():
            for level in LEVELS:
                how = {"codec": Codec.ZSTD, "clevel": level, "filters": filters, "filters_meta": metas}
                array, out, best = blosc2.asarray(items, cparams=how), np.empty_like(items), 1e9
                for _ in range(rounds):
                    start = time.perf_counter_ns()
                    array.read(out=out)
                    best = min(best, time.perf_counter_ns() - start)
                yield f"{pipeline}, items of {items.dtype.itemsize}", items.nbytes, counted(array), best


def main() -> None:
    from scipy.optimize import nnls

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=compression_data.SETS, default=list(compression_data.SETS))
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    blosc2.set_nthreads(1)
    rows = list(measured(options.only, options.rounds))
    kinds = sorted({row[0] for row in rows})
    known = np.array([COPIED * nbytes for _, nbytes, _, _ in rows])
    times = np.array([time for _, _, _, time in rows])
    table = np.array([[*counts, *(nbytes * (kind == one) for one in kinds)] for kind, nbytes, counts, _ in rows], "f8")
    weights = np.ones(len(rows))
    for _ in range(30):
        found, _ = nnls(table / times[:, None] * weights[:, None], weights * (times - known) / times)
        errors = (table @ found + known) / times
        weights = 1 / np.sqrt(1 + ((errors - 1) / 0.2) ** 2)
    for name, value in zip(["Huffman literal", "sequence", "stream", "matched byte", *kinds], found, strict=True):
        print(f"{value:10.3f} ns  {name}")
    low, middle, high = np.percentile(errors, [5, 50, 95])
    print(f"told / measured: 5 % below {low:.2f}, half below {middle:.2f}, 5 % above {high:.2f}")


if __name__ == "__main__":
    main()
