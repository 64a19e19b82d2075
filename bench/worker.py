"""One side of a comparison: runs jobs with the `blosc2` of its Python, one JSON line for each request.

Both packages have the same import name, so each side is a process of its own, which is started once. Every job measures
its own time, reads the same items on both sides, touches each page of the result, and returns a sum over it. The driver
compares the sums, so a lazy or wrong result is noticed.
"""

from __future__ import annotations

import gc
import json
import math
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import blosc2

PAGE_ITEMS = 512  # float64 items of 4 KiB
Job = Callable[[dict[str, Any]], dict[str, Any]]
_clock = time.perf_counter_ns


def _open(job: dict[str, Any]) -> Any:
    call = getattr(blosc2, job["call"])
    if job["call"] == "open":
        return call(job["path"], mmap_mode=job["mmap_mode"])
    return call(job["path"], mode="r", mmap_mode=job["mmap_mode"])


def _close(store: Any) -> None:
    close = getattr(store, "close", None)
    if close is not None:
        close()


def _touch(items: np.ndarray) -> float:
    """A sum with one item of each page."""
    return float(items[::PAGE_ITEMS].sum()) + float(items[-1])


class _Quiet:
    """No garbage collection inside a measurement, and one before it."""

    def __enter__(self) -> None:
        gc.collect()
        gc.disable()

    def __exit__(self, *exc: object) -> None:
        gc.enable()


# ---------------------------------------------------------------------------------------- jobs on small leaves


def open_only(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store and nothing else; closing is not measured."""
    spent, found = 0, 0
    with _Quiet():
        for _ in range(job["loops"]):
            start = _clock()
            store = _open(job)
            spent += _clock() - start
            found += job["probe"] in store
            _close(store)
    return {"ns": spent / job["loops"], "sum": found / job["loops"]}


def open_and_list(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store and list all keys."""
    spent, count = 0, 0
    with _Quiet():
        for _ in range(job["loops"]):
            start = _clock()
            store = _open(job)
            keys = list(store.keys())
            spent += _clock() - start
            count = len(keys)
            _close(store)
    return {"ns": spent / job["loops"], "sum": count}


def get_leaf(job: dict[str, Any]) -> dict[str, Any]:
    """`store[key]` for leaves that are not open yet, each held until the end."""
    store = _open(job)
    keys = job["keys"]
    with _Quiet():
        start = _clock()
        leaves = [store[key] for key in keys]
        spent = _clock() - start
    total = float(sum(leaf[:].sum() for leaf in leaves))
    _close(store)
    return {"ns": spent / len(keys), "sum": total}


def get_held(job: dict[str, Any]) -> dict[str, Any]:
    """`store[key]` for leaves that are held."""
    store = _open(job)
    keys = job["keys"]
    held = [store[key] for key in keys]
    with _Quiet():
        start = _clock()
        leaves = [store[key] for key in keys]
        spent = _clock() - start
    total = float(sum(leaf[:].sum() for leaf in leaves))
    del held
    _close(store)
    return {"ns": spent / len(keys), "sum": total}


def read_leaf(job: dict[str, Any]) -> dict[str, Any]:
    """`store[key][:]` for leaves that are not open yet."""
    store = _open(job)
    keys = job["keys"]
    with _Quiet():
        start = _clock()
        values = [store[key][:] for key in keys]
        spent = _clock() - start
    total = float(sum(value.sum() for value in values))
    _close(store)
    return {"ns": spent / len(keys), "sum": total}


def read_held(job: dict[str, Any]) -> dict[str, Any]:
    """`leaf[:]` for leaves that are held."""
    store = _open(job)
    leaves = [store[key] for key in job["keys"]]
    with _Quiet():
        start = _clock()
        values = [leaf[:] for leaf in leaves]
        spent = _clock() - start
    total = float(sum(value.sum() for value in values))
    _close(store)
    return {"ns": spent / len(leaves), "sum": total}


def walk(job: dict[str, Any]) -> dict[str, Any]:
    """All of `TreeStore.walk()` in a store that was just opened."""
    store = _open(job)
    with _Quiet():
        start = _clock()
        steps = [(path, list(groups), list(leaves)) for path, groups, leaves in store.walk()]
        spent = _clock() - start
    _close(store)
    return {"ns": spent, "sum": sum(len(groups) + len(leaves) for _, groups, leaves in steps)}


# ------------------------------------------------------------------------------------------ jobs on big leaves


def full_scan(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store and read every leaf whole."""
    total = 0.0
    with _Quiet():
        start = _clock()
        store = _open(job)
        for key in job["keys"]:
            total += _touch(store[key][:])
        spent = _clock() - start
    _close(store)
    return {"ns": spent, "sum": total}


def random_slices(job: dict[str, Any]) -> dict[str, Any]:
    """Open the store and read slices of every leaf."""
    starts, length = job["starts"], job["length"]
    total = 0.0
    with _Quiet():
        start = _clock()
        store = _open(job)
        for key, firsts in zip(job["keys"], starts, strict=True):
            leaf = store[key]
            for first in firsts:
                total += _touch(leaf[first : first + length])
        spent = _clock() - start
    _close(store)
    return {"ns": spent, "sum": total}


# -------------------------------------------------------------------------------------------- files to compare on


def signal(node: int, items: int) -> np.ndarray:
    """Values of an instrument: slow oscillations, some drift and noise, recorded to three decimals."""
    rng = np.random.default_rng(node)
    t = np.linspace(0.0, 1.0, items)
    data = 100.0 + 5.0 * rng.standard_normal() * t
    for _ in range(4):
        data = data + rng.uniform(0.5, 8.0) * np.sin(2 * math.pi * (rng.uniform(1, 60) * t + rng.random()))
    return np.round(data + rng.normal(0.0, 0.02, items), 3)


def ramp(node: int, items: int) -> np.ndarray:
    """A ramp: it decodes about as fast as memory is copied, so the time outside the codec shows."""
    return np.arange(node * items, (node + 1) * items, dtype=np.float64)


def node_key(n: int) -> str:
    """The key of a node: groups of 16."""
    return f"/group{n // 16:03d}/node{n % 16:02d}"


def small_key(n: int) -> str:
    """The key of a small leaf: groups of 20."""
    return f"/group{n // 20:04d}/leaf{n % 20:02d}"


def make_grid(job: dict[str, Any]) -> dict[str, Any]:
    """A store of large leaves, all in one tier, or every other leaf embedded."""
    values = {"signal": signal, "ramp": ramp}[job["values"]]
    path, tier = job["path"], job["tier"]
    more = {} if job["store"] == "EmbedStore" else {"threshold": {"embedded": 1 << 60, "external": 0}.get(tier)}
    store = getattr(blosc2, job["store"])(path, mode="w", **more)
    aside = path + ".aside.b2nd"
    for n in range(job["nodes"]):
        value = values(n, job["items"])
        if tier == "mixed" and n % 2:
            # with threshold None a value goes to a file when it came from one
            store[node_key(n)] = blosc2.asarray(value, urlpath=aside, mode="w")
        else:
            store[node_key(n)] = blosc2.asarray(value) if tier == "mixed" else value
    _close(store)
    blosc2.remove_urlpath(aside)
    return {"keys": [node_key(n) for n in range(job["nodes"])]}


def make_small(job: dict[str, Any]) -> dict[str, Any]:
    """A store of leaves of 16 float32."""
    store = getattr(blosc2, job["store"])(job["path"], mode="w", threshold=0)
    keys = [small_key(n) for n in range(job["leaves"])]
    for n, key in enumerate(keys):
        store[key] = np.arange(n, n + 16, dtype=np.float32)
    _close(store)
    return {"keys": keys}


def about(job: dict[str, Any]) -> dict[str, Any]:
    """Which package this side runs."""
    if job.get("threads"):
        blosc2.set_nthreads(job["threads"])
    return {
        "version": blosc2.__version__,
        "reference": not hasattr(blosc2, "__upstream_api__"),
        "file": os.path.abspath(blosc2.__file__),
        "python": sys.version.split()[0],
        "numpy": np.__version__,
        "threads": int(blosc2.nthreads),
    }


JOBS: dict[str, Job] = {
    job.__name__: job
    for job in (
        open_only, open_and_list, get_leaf, get_held, read_leaf, read_held, walk, full_scan, random_slices,
        make_grid, make_small, about,
    )
}  # fmt: skip


def requests() -> Iterator[dict[str, Any]]:
    for line in sys.stdin:
        yield json.loads(line)


def serve(jobs: dict[str, Job]) -> None:
    """Answer requests until there are no more."""
    # nothing but answers may reach the driver
    answers, sys.stdout = sys.stdout, sys.stderr
    for request in requests():
        try:
            answer = jobs[request["job"]](request)
        except Exception as error:  # noqa: BLE001 - the driver decides what a failing job means
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    serve(JOBS)
