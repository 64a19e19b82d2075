"""One sample of `remote.py`: opens a URL, reads, and prints how long that took and a checksum of what was read.

It runs in the environment of either package.
"""

from __future__ import annotations

import json
import sys
import time
import zlib
from typing import Any

import numpy as np

import blosc2


def _sum(arrays: Any) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).data, total)
    return total


def _key(spans: list[list[int]]) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in spans)


def main() -> None:
    """Do the job that the command line holds."""
    job = json.loads(sys.argv[1])
    warm = blosc2.open(job["warm"])  # what a process imports and connects once
    warm[0:1]
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    found = blosc2.open(job["url"])
    opened = time.perf_counter() - start
    print("opened", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    if job["what"] == "whole":
        got = [found[...]]
    elif job["what"] == "patches":
        keys = [_key(spans) for spans in job["keys"]]
        got = found.read_many(keys) if job.get("together") else [found[key] for key in keys]
    elif job.get("together"):
        got = found.read_many(job["keys"])
    else:
        got = [found[key][...] for key in job["keys"]]
    seconds = time.perf_counter() - start
    print(json.dumps({"opened": opened, "seconds": seconds, "sum": _sum(got)}), flush=True)


if __name__ == "__main__":
    main()
