"""How fast are stores opened and read, compared with the reference package?

    python bench/mmap_store_read.py                  everything, about 10 minutes
    python bench/mmap_store_read.py --quick          fewer nodes and repetitions, about 2 minutes
    python bench/mmap_store_read.py --only judged    the rows with a goal

Both packages read the same files, written by the reference, in one run, with alternating samples. Each is a process in
an environment of its own. A third process writes the files, because a process that has written them has a warmer heap.
`--against-itself` measures the reference on both sides; its ratios should be 1. A figure is the median of the samples
with its quartiles; a ratio is computed for each pair of samples (above 1: this package is faster).

`judged` rows have goals: stores of 64-byte leaves. `grid` rows combine: EmbedStore, DictStore and TreeStore in `.b2e`,
`.b2d` and `.b2z`; leaves embedded, external or half of each; page cache warm or cold; all of 128 nodes of 100,000
float64, or 8 slices of 4,096 items of each; mapped or not. The values are those of an instrument (`signal`, for which
both packages mostly wait for zstd) or a ramp (`--values ramp`, which costs the codec little). Cold rows need the right
to drop the page cache (root on Linux).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import seconds, spread, table
from sides import JobError, Side, reference_python

DROP_CACHES = Path("/proc/sys/vm/drop_caches")
RESULTS = Path(__file__).resolve().parent / "results" / "mmap_store_read.json"
ITEMS, SLICES, LENGTH = 100_000, 8, 4_096
SCAN_GOAL = SLICES_GOAL = 3.0


def drop_page_cache() -> str | None:
    """Empty the page cache; returns the reason if that is not possible."""
    if not DROP_CACHES.exists():
        return f"this platform has no {DROP_CACHES}"
    os.sync()
    try:
        DROP_CACHES.write_text("3\n")
    except OSError as error:
        return f"dropping the page cache needs root: {error}"
    return None


# ------------------------------------------------------------------------------------------------------- rows


def judged_rows(writer: Side, folder: Path) -> Iterator[dict[str, Any]]:
    """Rows for 64-byte leaves, each with its goal for the ratio."""
    order = random.Random(1)
    thousand, two_thousand = 1_000, 2_000
    flat, tree = str(folder / "small_dict.b2z"), str(folder / "small_tree.b2z")
    big = str(folder / "walk_tree.b2z")
    keys = writer.ask("make_small", path=flat, store="DictStore", leaves=thousand)["keys"]
    writer.ask("make_small", path=tree, store="TreeStore", leaves=thousand)
    writer.ask("make_small", path=big, store="TreeStore", leaves=two_thousand)
    order.shuffle(keys)
    probe = keys[0]
    for mmap_mode in ("r", None):
        how = "mapped" if mmap_mode else "not mapped"
        base = {"path": flat, "mmap_mode": mmap_mode}
        for call, name in (("DictStore", "constructor"), ("open", "blosc2.open")):
            job = {**base, "job": "open_only", "call": call, "probe": probe, "loops": 10}
            yield {"name": f"open .b2z of 1,000 leaves, {name}, {how}", "goal": 40.0, **job}
        job = {**base, "job": "open_and_list", "call": "DictStore", "loops": 5}
        yield {"name": f"open .b2z of 1,000 leaves and list keys, {how}", **job}
        leaves = {**base, "call": "DictStore", "keys": keys}
        yield {"name": f"store[key], 64-byte leaves, {how}", **leaves, "job": "get_leaf"}
        yield {"name": f"store[key][:], 64-byte leaves, {how}", "goal": 20.0, **leaves, "job": "read_leaf"}
        yield {"name": f"leaf[:], 64-byte leaves, held, {how}", **leaves, "job": "read_held"}
        some = {"path": tree, "mmap_mode": mmap_mode, "call": "TreeStore", "keys": keys[:200]}
        yield {"name": f"TreeStore[key] at 1,000 leaves, {how}", "goal": 300.0, **some, "job": "get_leaf"}
        yield {"name": f"TreeStore[key] at 1,000 leaves, held, {how}", **some, "job": "get_held"}
    walked = {"path": big, "mmap_mode": "r", "call": "TreeStore", "job": "walk", "slow": True}
    yield {"name": f"TreeStore.walk of {two_thousand:,} leaves", "goal": 2000.0, **walked}


def grid_files() -> Iterator[tuple[str, str, str]]:
    """Store, suffix and tier of each file of the grid."""
    yield "EmbedStore", ".b2e", "embedded"
    for store in ("DictStore", "TreeStore"):
        for suffix in (".b2d", ".b2z"):
            for tier in ("embedded", "external", "mixed"):
                yield store, suffix, tier


def grid_rows(writer: Side, folder: Path, nodes: int, values: str) -> Iterator[dict[str, Any]]:
    """The rows of the grid; each file is written right before it is measured, and removed after it."""
    positions = random.Random(2)
    starts = [[positions.randrange(ITEMS - LENGTH) for _ in range(SLICES)] for _ in range(nodes)]
    for store, suffix, tier in grid_files():
        path = folder / f"{store}_{tier}{suffix}"
        note(f"writing {path.name}")
        what = {"store": store, "tier": tier, "nodes": nodes, "items": ITEMS, "values": values}
        keys = writer.ask("make_grid", path=str(path), **what)["keys"]
        for job in ("full_scan", "random_slices"):
            read_bytes = 8 * nodes * (ITEMS if job == "full_scan" else SLICES * LENGTH)
            for mmap_mode in ("r", None):
                for cold in (False, True):
                    words = [store, suffix, tier, job.replace("_", " "), "mapped" if mmap_mode else "not mapped"]
                    yield {
                        "name": ", ".join([*words, "cold" if cold else "warm"]),
                        "goal": None if cold else SCAN_GOAL if job == "full_scan" else SLICES_GOAL,
                        "job": job, "path": str(path), "call": store, "mmap_mode": mmap_mode, "cold": cold,
                        "keys": keys, "bytes": read_bytes, "starts": starts, "length": LENGTH,
                    }  # fmt: skip
        shutil.rmtree(path) if path.is_dir() else path.unlink()


# ------------------------------------------------------------------------------------------------ measurements


def note(text: str) -> None:
    """Print progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def sample(side: Side, row: dict[str, Any]) -> dict[str, Any]:
    """One measurement of a side."""
    if row.get("cold"):
        drop_page_cache()
    job = {k: v for k, v in row.items() if k not in ("name", "goal", "cold", "bytes", "slow")}
    return side.ask(**job)


def measure(ours: Side, reference: Side, row: dict[str, Any], repeat: int) -> dict[str, Any]:
    """All samples of a row, interleaved; the sums over what was read must agree."""
    pairs = (("ours", ours), ("upstream", reference))
    times: dict[str, list[float]] = {"ours": [], "upstream": []}
    failed: dict[str, str] = {}
    sums: set[float] = set()
    warm_up = 0 if row.get("slow") or row.get("cold") else 1
    for n in range(-warm_up, min(repeat, 3) if row.get("slow") else repeat):
        for name, side in pairs if n % 2 == 0 else pairs[::-1]:
            if name in failed:
                continue
            try:
                got = sample(side, row)
            except JobError as error:
                failed[name] = str(error)
                note(f"  {row['name']}: {error}")
                continue
            sums.add(got["sum"])
            if n >= 0:
                times[name].append(got["ns"])
    if sums and not math.isclose(min(sums), max(sums), rel_tol=1e-9):
        raise SystemExit(f"{row['name']}: the two packages read different values: {sorted(sums)}")
    ratio = spread([b / a for a, b in zip(times["ours"], times["upstream"], strict=False)])
    kept = ("name", "job", "call", "mmap_mode", "cold", "bytes", "goal")
    out = {key: row[key] for key in kept if key in row}
    out |= {"ours": spread(times["ours"]), "upstream": spread(times["upstream"]), "ratio": ratio, "failed": failed}
    if row.get("goal") is not None:
        out["met"] = ratio.get("median", 0.0) >= row["goal"]
    return out


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure all selected rows."""
    with contextlib.ExitStack() as stack:
        python = reference_python(options.python_upstream)
        if options.against_itself:
            ours = Side("reference again", python, isolated=True)
        else:
            ours = Side("this package", sys.executable, isolated=False)
        reference = Side("reference", python, isolated=True)
        writer = Side("writer", python, isolated=True)
        for side in (ours, reference, writer):
            stack.callback(side.close)
        versions = {name: side.ask("about", threads=options.threads) for name, side in
                    (("ours", ours), ("upstream", reference))}  # fmt: skip
        if versions["ours"]["reference"] is not options.against_itself or not versions["upstream"]["reference"]:
            raise SystemExit(f"these are not the two packages: {json.dumps(versions, indent=1)}")
        cannot = drop_page_cache()
        if cannot:
            note(f"cold rows are skipped: {cannot}")
        rows: list[dict[str, Any]] = []
        sources = []
        if options.only in (None, "judged"):
            sources.append(judged_rows(writer, folder))
        if options.only in (None, "grid"):
            sources.append(grid_rows(writer, folder, options.nodes, options.values))
        for row in (row for source in sources for row in source):
            if row.get("cold") and cannot:
                continue
            rows.append(measure(ours, reference, row, options.repeat))
            note(table(rows[-1:]).splitlines()[2])
    return {
        "question": "how fast are stores opened and read, beside the reference package?",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"platform": platform.platform(), "processor": processor(), "cores": os.cpu_count()},
        "versions": versions,
        "parameters": {"nodes": options.nodes, "items": ITEMS, "values": options.values, "slices": SLICES,
                       "length": LENGTH, "repeat": options.repeat, "quick": options.quick,
                       "against_itself": options.against_itself, "cold": cannot or "measured"},
        "rows": rows,
    }  # fmt: skip


def processor() -> str:
    """The name of the processor."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="16 nodes and 3 repetitions")
    parser.add_argument("--repeat", type=int, help="pairs of samples a row (7)")
    parser.add_argument("--nodes", type=int, help="nodes of a store of the grid (128)")
    parser.add_argument("--only", choices=["judged", "grid"], help="half of the rows")
    parser.add_argument("--values", choices=["signal", "ramp"], default="signal", help="what the grid's leaves hold")
    parser.add_argument("--threads", type=int, help="threads of both sides (what each takes by itself)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (bench/results/mmap_store_read.json)")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure (a temporary one)")
    parser.add_argument("--python-upstream", metavar="PYTHON", help="a Python that has the reference package")
    parser.add_argument("--against-itself", action="store_true", help="the reference on both sides")
    options = parser.parse_args()
    options.repeat = options.repeat or (3 if options.quick else 7)
    options.nodes = options.nodes or (16 if options.quick else 128)

    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mmap_store_read_", dir=options.data) as folder:
        result = run(options, Path(folder))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result["rows"]))
    missed = [row["name"] for row in result["rows"] if row.get("met") is False]
    print(f"\n{len(result['rows'])} rows in {seconds((time.monotonic() - began) * 1e9)}; written to {options.output}")
    print(f"goals missed: {len(missed)}" if missed else "all goals met")


if __name__ == "__main__":
    main()
