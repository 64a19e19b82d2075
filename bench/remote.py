"""How many requests, bytes and milliseconds does it take to read from a server?

    python bench/remote.py                   an array and a store over HTTP, each request 20 ms late; about 2 minutes
    python bench/remote.py --delay 50        as late as that, in ms
    python bench/remote.py --leaves 1000000  a larger store
    python bench/remote.py --reference PATH  the Python of the published package, with fsspec and aiohttp beside it

A server on this machine counts what is asked of it. A sample is a process that opens a URL and then reads; what it
imports, and its first connection, is not counted. The packages take turns, and times are medians. "x" is how many times
as many bytes were sent for reading as the stored blocks, or leaves, have.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tests"))

import remote_kit  # noqa: E402 - from the tests

import blosc2  # noqa: E402

SIDE = 256
PATCH = 64


def make_array(path: str, chunk: int) -> np.ndarray[Any, Any]:
    """A volume like a scan: smooth, with noise."""
    rng = np.random.default_rng(7)
    axis = np.linspace(0, 6, SIDE)
    smooth = np.sin(axis)[:, None, None] * np.cos(axis)[None, :, None] * np.sin(2 * axis)[None, None, :]
    volume = (1000 * smooth + rng.normal(0, 12, (SIDE,) * 3)).astype(np.int16)
    blosc2.asarray(volume, urlpath=path, mode="w", chunks=(chunk,) * 3, blocks=(32,) * 3)
    return volume


def make_store(path: str, leaves: int) -> None:
    """Many small leaves, a thousand in each group."""
    base = np.arange(256, dtype="u1").reshape(16, 16)
    values = [(base * (i + 1) % 251).astype("u1") for i in range(64)]
    with blosc2.TreeStore(path, mode="w") as store:
        store.write_many((f"/g{i // 1000:03d}/leaf{i:07d}", values[i % 64]) for i in range(leaves))


def patches(aligned: bool, count: int) -> list[list[list[int]]]:
    """Random patches of 64 x 64 x 64, on the borders of chunks or anywhere."""
    rng = np.random.default_rng(5)
    if aligned:
        grid = SIDE // PATCH
        starts = [np.array(np.unravel_index(i, (grid,) * 3)) * PATCH for i in rng.permutation(grid**3)[:count]]
    else:
        starts = list(rng.integers(0, SIDE - PATCH + 1, (count, 3)))
    return [[[int(s), int(s) + PATCH] for s in start] for start in starts]


def needed(path: str, keys: list[list[list[int]]]) -> int:
    """The stored bytes of all blocks that patches touch, of an array in a file."""
    array = blosc2.open(path)
    grid = [-(-n // c) for n, c in zip(array.shape, array.chunks)]
    touched: set[tuple[int, int]] = set()
    total = 0
    per = [c // b for c, b in zip(array.chunks, array.blocks)]
    for key in keys:
        blocks = [range(start // b, (stop - 1) // b + 1) for (start, stop), b in zip(key, array.blocks)]
        for where in np.stack(np.meshgrid(*blocks, indexing="ij"), -1).reshape(-1, len(blocks)):
            chunk = int(np.ravel_multi_index([w // p for w, p in zip(where, per)], grid))
            touched.add((chunk, int(np.ravel_multi_index([w % p for w, p in zip(where, per)], per))))
    for chunk in {chunk for chunk, _ in touched}:
        stored = array.schunk.get_chunk(chunk)
        starts = np.frombuffer(stored, "<i4", int(np.prod(per)), 32)
        ends = {int(a): int(b) for a, b in zip(sorted(starts), [*sorted(starts)[1:], len(stored)])}
        total += sum(ends[int(starts[block])] - int(starts[block]) for c, block in touched if c == chunk)
    return total


def sample(python: str, isolated: bool, server: remote_kit.RangeServer, job: dict[str, Any]) -> dict[str, Any]:
    """One process: its requests and bytes, for opening and for reading."""
    env = dict(os.environ)
    if isolated:
        env.pop("PYTHONPATH", None)
        env |= {"PYTHONPATH": os.environ.get("BLOSC2_UPSTREAM_PATH", "")}
    command = [python, str(HERE / "remote_worker.py"), json.dumps(job)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        found: dict[str, Any] = {}
        for step in ("ready", "opened"):
            if child.stdout.readline().strip() != step:
                child.kill()
                assert child.stderr is not None
                return {"error": (child.stderr.read().strip().splitlines() or ["?"])[-1]}
            if step == "opened":
                found["open"] = len(server.requests), server.sent
            server.forget()
            child.stdin.write("\n")
            child.stdin.flush()
        line = child.stdout.readline()
        if not line:
            assert child.stderr is not None
            return {"error": (child.stderr.read().strip().splitlines() or ["?"])[-1]}
    return found | json.loads(line) | {"read": (len(server.requests), server.sent), "most": server.most}


def show(name: str, found: list[dict[str, Any]], bytes_needed: int) -> int | None:
    """One row; the checksum of what was read."""
    wrong = [one["error"] for one in found if "error" in one]
    if wrong:
        print(f"  {name:34} {wrong[0][:110]}")
        return None
    opened, read = found[0]["open"], found[0]["read"]
    ms = [1e3 * statistics.median(one[what] for one in found) for what in ("opened", "seconds")]
    times = read[1] / max(bytes_needed, 1)
    print(
        f"  {name:23} open {opened[0]:2} requests {opened[1] / 1e3:6.1f} kB {ms[0]:5.0f} ms | read {read[0]:4} requests"
        f", {found[0]['most']:3} at once, {read[1] / 1e3:8.1f} kB = {times:.2f}x {ms[1]:5.0f} ms"
    )
    return int(found[0]["sum"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--delay", type=float, default=20, help="how late a request is answered, in ms")
    parser.add_argument("--leaves", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--reference", help="the Python of the published package; left out without it")
    given = parser.parse_args()
    sides = {"this package": (sys.executable, False)}
    if given.reference:
        sides["reference"] = (given.reference, True)
    with tempfile.TemporaryDirectory() as folder, remote_kit.running() as server:
        server.delay = given.delay / 1e3
        warm = f"{folder}/warm.b2nd"
        blosc2.asarray(np.arange(10), urlpath=warm)
        urls = {"warm": server.put("warm.b2nd", warm)}

        def compare(what: str, job: dict[str, Any], bytes_needed: int) -> None:
            print(what)
            rows: dict[str, list[dict[str, Any]]] = {}
            for _ in range(given.repeat):
                for side, (python, isolated) in sides.items():
                    rows.setdefault(side, []).append(sample(python, isolated, server, job))
                    if not isolated and "keys" in job:
                        together = job | {"together": True}
                        rows.setdefault(f"{side}, read_many", []).append(sample(python, isolated, server, together))
            sums = {show(name, found, bytes_needed) for name, found in rows.items()} - {None}
            if len(sums) > 1:
                print("  THE VALUES DIFFER")

        for chunk in (64, 128):
            path = f"{folder}/volume{chunk}.b2nd"
            make_array(path, chunk)
            job: dict[str, Any] = {"warm": urls["warm"], "url": server.put(f"volume{chunk}.b2nd", path)}
            size = os.path.getsize(path)
            print(f"\narray of {SIDE}^3 int16 in chunks of {chunk}^3, blocks of 32^3, {size / 1e6:.1f} MB stored")
            compare("all of it", job | {"what": "whole"}, size)
            for aligned in (True, False):
                for count in (1, 64):
                    keys = patches(aligned, count)
                    where = "on borders of 64" if aligned else "anywhere"
                    wanted = job | {"what": "patches", "keys": keys}
                    compare(f"{count} patches of 64^3, {where}", wanted, needed(path, keys))
        path = f"{folder}/store.b2z"
        make_store(path, given.leaves)
        job = {"warm": urls["warm"], "url": server.put("store.b2z", path), "what": "leaves"}
        print(f"\nstore of {given.leaves} leaves of 16x16 u1, {os.path.getsize(path) / 1e6:.1f} MB")
        step = max(given.leaves // 64, 1)
        leaf = os.path.getsize(path) // given.leaves
        for name, numbers in (
            ("1 leaf", [given.leaves // 3]),
            ("64 leaves of one group", [1000 * (given.leaves // 3000) + 7 * i for i in range(64)]),
            ("64 leaves of 64 groups", [min(step * i + i, given.leaves - 1) for i in range(64)]),
        ):
            keys_of = [f"/g{i // 1000:03d}/leaf{i:07d}" for i in numbers]
            compare(name, job | {"keys": keys_of}, leaf * len(numbers))


if __name__ == "__main__":
    main()
