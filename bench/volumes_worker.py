"""One side of `volumes.py`: jobs on a store of volumes, one JSON line for each request, as in `worker.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from worker import Job, about, serve

import blosc2

PLANES = [3, 17, 30, 44, 61, 78, 90, 111, 130, 155]
_clock = time.perf_counter_ns


def _open(job: dict[str, Any]) -> Any:
    return blosc2.open(job["path"], mode="r", mmap_mode=job["mmap_mode"])


def _starts(volumes: int, side: int, patch: list[int], count: int) -> Iterator[tuple[str, tuple[slice, ...]]]:
    """Random keys and patches, the same on both sides."""
    rng = np.random.default_rng(11)
    for _ in range(count):
        corner = [int(rng.integers(side - length)) for length in patch]
        key = f"/volume/{rng.integers(volumes):02d}"
        yield key, tuple(slice(at, at + length) for at, length in zip(corner, patch, strict=True))


def make(job: dict[str, Any]) -> dict[str, Any]:
    """Smooth volumes with noise, as scanners give them, in one `.b2z`."""
    rng = np.random.default_rng(5)
    side, dtype = job["side"], np.dtype(job["dtype"])
    axis = np.linspace(0, 3, side)
    smooth = np.sin(axis)[:, None, None] * np.cos(2 * axis)[:, None] * np.sin(3 * axis) * 1000
    cparams = {"codec": getattr(blosc2.Codec, job["codec"]), "clevel": job["clevel"]}
    with blosc2.DictStore(job["path"], mode="w", cparams=blosc2.CParams(**cparams)) as store:
        for number in range(job["volumes"]):
            noise = rng.normal(0, job["noise"], (side, side, side))
            volume = (smooth * (1 + number / 10) + noise).astype(dtype)
            where = {} if job["chunks"] is None else {"chunks": job["chunks"], "blocks": job["blocks"]}
            store[f"/volume/{number:02d}"] = blosc2.asarray(volume, cparams=cparams, **where)
    return {"ns": 0, "sum": 0}


def open_store(job: dict[str, Any]) -> dict[str, Any]:
    # The first one may import what is needed, which leaves little of anything else in the caches of the processor.
    for _ in range(2):
        _open(job)
    start = _clock()
    store = _open(job)
    spent = _clock() - start
    return {"ns": spent, "sum": len(list(store.keys()))}


def cold_patch(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store, look one array up, read one patch."""
    _open(job)["/volume/01"][:5, :5, :5]
    start = _clock()
    store = _open(job)
    patch = store["/volume/03"][50:98, 40:88, 60:108]
    return {"ns": _clock() - start, "sum": float(patch.sum(dtype="f8"))}


def patches(job: dict[str, Any]) -> dict[str, Any]:
    """Random patches of open arrays."""
    store = _open(job)
    wanted = list(_starts(job["volumes"], job["side"], job["patch"], job["loops"]))
    arrays = {key: store[key] for key, _ in wanted}
    total = 0.0
    spent = 0
    for key, where in wanted:
        start = _clock()
        patch = arrays[key][where]
        spent += _clock() - start
        total += float(patch.sum(dtype="f8"))
    return {"ns": spent / job["loops"], "sum": total}


def _key_of(job: dict[str, Any]) -> Any:
    side = job["side"]
    rng = np.random.default_rng(3)
    return {
        "item": (7, side // 2, side - 9),
        "points": tuple(rng.integers(0, side, 1000) for _ in range(3)),
        "planes": [n * side // 160 for n in PLANES],
        "patch": tuple(slice(20, 20 + length) for length in job.get("patch", [48, 48, 48])),
        "whole": slice(None),
    }[job["key"]]


def read(job: dict[str, Any]) -> dict[str, Any]:
    """One key of an open array, read again and again."""
    array, key = _open(job)["/volume/03"], _key_of(job)
    first = array[key]
    start = _clock()
    for _ in range(job["loops"]):
        array[key]
    return {"ns": (_clock() - start) / job["loops"], "sum": float(np.asarray(first).sum(dtype="f8"))}


def compress(job: dict[str, Any]) -> dict[str, Any]:
    """A volume compressed in memory."""
    volume = _open(job)["/volume/03"][:]
    cparams = {"codec": getattr(blosc2.Codec, job["codec"]), "clevel": job["clevel"]}
    blosc2.asarray(volume, cparams=cparams)
    start = _clock()
    for _ in range(job["loops"]):
        blosc2.asarray(volume, cparams=cparams)
    return {"ns": (_clock() - start) / job["loops"], "sum": float(volume.sum(dtype="f8"))}


JOBS: dict[str, Job] = {job.__name__: job for job in (make, open_store, cold_patch, patches, read, compress, about)}


if __name__ == "__main__":
    serve(JOBS)
