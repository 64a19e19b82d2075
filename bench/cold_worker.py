"""One side of `cold.py`: jobs on files of which the system has nothing in memory, as in `worker.py`."""

from __future__ import annotations

import os
import struct
import threading
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from worker import Job, about, serve

import blosc2

_clock = time.perf_counter_ns
Key = tuple[slice, ...]


def _drop(path: str) -> None:
    """Take a file out of the system's memory; on a file system of FUSE, opening does it."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _device_bytes() -> int:
    """Bytes that this process had the disk read; those of another process, such as a server, are not among them."""
    return int(Path("/proc/self/io").read_text().split("read_bytes: ")[1].split()[0])


def _open(job: dict[str, Any]) -> Any:
    more = {"advise": job["advise"]} if job.get("advise") else {}
    return blosc2.open(job["path"], mode="r", mmap_mode=job["mmap_mode"], **more)


def _wanted(job: dict[str, Any]) -> list[tuple[str, Key]]:
    """Random keys and patches, the same on both sides."""
    rng = np.random.default_rng(job.get("seed", 11))
    found = []
    for _ in range(job["patches"]):
        corner = [int(rng.integers(job["side"] - length)) for length in job["patch"]]
        key = f"/volume/{rng.integers(job['volumes']):02d}"
        found.append((key, tuple(slice(at, at + n) for at, n in zip(corner, job["patch"], strict=True))))
    return found


def make(job: dict[str, Any]) -> dict[str, Any]:
    """Smooth volumes with noise, as scanners give them, in one `.b2z`."""
    rng = np.random.default_rng(5)
    axis = np.linspace(0, 3, job["side"])
    smooth = np.sin(axis)[:, None, None] * np.cos(2 * axis)[:, None] * np.sin(3 * axis) * 1000
    cparams = {"codec": blosc2.Codec.ZSTD, "clevel": 5}
    layout = {} if job.get("chunks") is None else {"chunks": job["chunks"], "blocks": job["blocks"]}
    with blosc2.DictStore(job["path"], mode="w") as store:
        for number in range(job["volumes"]):
            volume = (smooth * (1 + number / 10) + rng.normal(0, 20, smooth.shape)).astype("i2")
            store[f"/volume/{number:02d}"] = blosc2.asarray(volume, cparams=cparams, **layout)
    return {"ns": os.path.getsize(job["path"]), "sum": 0}


def patches(job: dict[str, Any]) -> dict[str, Any]:
    """Open a store, look arrays up, and read patches: one after the other, or in one call."""
    wanted = _wanted(job)
    _open(job)[wanted[0][0]][:1, :1, :1]  # what is imported when first used is there
    _drop(job["path"])
    before, start = _device_bytes(), _clock()
    store = _open(job)
    arrays = {key: store[key] for key, _ in wanted}
    opened = _clock()
    items = store.read_many(wanted) if job.get("together") else [arrays[key][where] for key, where in wanted]
    end = _clock()
    return {
        "ns": end - (opened if job.get("held") else start),
        "bytes": _device_bytes() - before,
        "sum": float(sum(int(one.sum(dtype="i8")) for one in items)),
    }


def _blocks(array: Any, where: Key) -> set[tuple[int, int]]:
    """Where the stored bytes of the blocks of a patch begin and end, and those that say where these are."""
    frame = array._handle.frame
    found: set[tuple[int, int]] = set()
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunks, strict=True)]
    inner = [-(-c // b) for c, b in zip(array.chunks, array.blocks, strict=True)]
    axes = [range(s.start // c, (s.stop - 1) // c + 1) for s, c in zip(where, array.chunks, strict=True)]
    for at in product(*axes):
        offset, *_ = frame.chunk_info(int(np.ravel_multi_index(at, grid)))
        head = frame.source.read(offset, 32 + 4 * int(np.prod(inner)))
        starts = [*struct.unpack_from(f"<{int(np.prod(inner))}i", head, 32), struct.unpack_from("<i", head, 12)[0]]
        found.add((offset, len(head)))
        begin = [max(s.start - i * c, 0) // b for s, i, c, b in zip(where, at, array.chunks, array.blocks, strict=True)]
        end = [
            (min(s.stop - i * c, c) - 1) // b for s, i, c, b in zip(where, at, array.chunks, array.blocks, strict=True)
        ]
        for block in product(*[range(low, high + 1) for low, high in zip(begin, end, strict=True)]):
            n = int(np.ravel_multi_index(block, inner))
            after = min(start for start in starts if start > starts[n])
            found.add((offset + starts[n], after - starts[n]))
    return found


def bare_reads(job: dict[str, Any]) -> dict[str, Any]:
    """What no package can do without: the bytes of the same blocks, read in many threads, and not decoded."""
    wanted = _wanted(job)
    store = _open(job)
    ranges = sorted(set().union(*[_blocks(store[key], where) for key, where in wanted]))
    needed = len({page for offset, size in ranges for page in range(offset // 4096, (offset + size - 1) // 4096 + 1)})
    del store
    _drop(job["path"])
    descriptor = os.open(job["path"], os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    left, lock = iter(ranges), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                piece = next(left, None)
            if piece is None:
                return
            os.pread(descriptor, piece[1], piece[0])

    before, start = _device_bytes(), _clock()
    threads = [threading.Thread(target=work) for _ in range(job["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    end = _clock()
    os.close(descriptor)
    return {"ns": end - start, "bytes": _device_bytes() - before, "needed": needed * 4096, "sum": 0}


def _ask(descriptor: int, ranges: list[tuple[int, int]]) -> None:
    for offset, size in ranges:
        for at in range(offset, offset + size, 1 << 17):  # Linux may read no more for one request
            os.posix_fadvise(descriptor, at, min(1 << 17, offset + size - at), os.POSIX_FADV_WILLNEED)


def _joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges with no more than a page between them as one."""
    found: list[tuple[int, int]] = []
    for offset, size in sorted(ranges):
        if found and offset - sum(found[-1]) <= 4096:
            first = found.pop()[0]
            found.append((first, offset + size - first))
        else:
            found.append((offset, size))
    return found


def bare_patches(job: dict[str, Any]) -> dict[str, Any]:
    """What no package can do without that reads one patch after the other: its bytes, in two steps, and not decoded."""
    store = _open(job)
    patches = [_blocks(store[key], where) for key, where in _wanted(job)]
    heads = [sorted(one for one in patch if one[1] < 4096) for patch in patches]
    blocks = [_joined(sorted(patch)) for patch in patches]
    del store
    _drop(job["path"])
    descriptor = os.open(job["path"], os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
    into = memoryview(bytearray(1 << 24))
    known: set[tuple[int, int]] = set()
    before, start = _device_bytes(), _clock()
    for head, ranges in zip(heads, blocks, strict=True):
        for step in ([one for one in head if one not in known], ranges):
            _ask(descriptor, step)
            for offset, size in step:
                os.preadv(descriptor, [into[:size]], offset)
        known.update(head)
    end = _clock()
    os.close(descriptor)
    return {"ns": end - start, "bytes": _device_bytes() - before, "sum": 0}


def one_patch(job: dict[str, Any]) -> dict[str, Any]:
    """One patch of an array that is open, and of which nothing was read."""
    where = tuple(slice(start, stop) for start, stop in job["where"])
    _drop(job["path"])
    array = _open(job)[job["key"]]
    start = _clock()
    items = array[where]
    return {"ns": _clock() - start, "sum": float(items.sum(dtype="i8"))}


JOBS: dict[str, Job] = {job.__name__: job for job in (make, patches, bare_reads, bare_patches, one_patch, about)}


if __name__ == "__main__":
    serve(JOBS)
