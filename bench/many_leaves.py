"""How fast is a store with a million leaves, compared with LMDB, booklet and the reference package?

    python bench/many_leaves.py                    a million leaves, about 15 minutes, 3 GB of disk
    python bench/many_leaves.py --leaves 20000     the same rows in small, about a minute
    python bench/many_leaves.py --only texts       some of the rows: leaves, texts, catalog, upstream

Leaves are 16 float32 in nested groups of a `.b2z`; texts are 200 letters under keys of twelve. The samples of a row
alternate between the two sides, in one run. A figure is the median with half its interquartile range; a ratio (above 1:
this package is faster) is computed for each pair of samples. A process of its own builds each store; the peak of
resident memory is that of the whole process. Files are in the page cache, and mapped unless an option says otherwise.

LMDB and booklet are used if they are installed (`pip install '.[bench]'`); if one is missing, only its rows fail.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from figures import seconds, spread
from sides import JobError, Side, reference_python

RESULTS = Path(__file__).resolve().parent / "results" / "many_leaves.json"
WORKER = Path(__file__).resolve().with_name("leaf_worker.py")
MB = 1_000_000
SAMPLE = 10_000
Job = dict[str, Any]
Row = dict[str, Any]


def note(text: str) -> None:
    """Print progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


class Bench:
    """The sides, the sizes and the rows so far."""

    def __init__(self, options: argparse.Namespace, folder: Path, stack: contextlib.ExitStack) -> None:
        self.options, self.folder, self._stack = options, folder, stack
        self.rows: list[Row] = []
        self._sides: dict[str, Side] = {}

    def path(self, name: str) -> str:
        """A file of this run."""
        return str(self.folder / name)

    def side(self, name: str) -> Side:
        """A worker that stays: "ours" has the other packages too, "upstream" is the reference."""
        if name not in self._sides:
            if name == "ours":
                side = Side("this package", sys.executable, isolated=False, worker=WORKER)
            else:
                python = reference_python(self.options.python_upstream)
                side = Side("reference", python, isolated=True, worker=WORKER)
            self._stack.callback(side.close)
            self._sides[name] = side
        return self._sides[name]

    def ask(self, job: Job) -> dict[str, Any]:
        """One sample, by a worker that stays or by a new one."""
        job = dict(job)
        name = job.pop("side", "ours")
        if name != "new":
            return self.side(name).ask(**job)
        with contextlib.ExitStack() as stack:
            side = Side("this package, new", sys.executable, isolated=False, worker=WORKER)
            stack.callback(side.close)
            return side.ask(**job)

    def measure(
        self,
        name: str,
        ours: Job,
        beside: tuple[str, Job] | None = None,
        *,
        at_most: float | None = None,
        at_least: float | None = None,
        repeat: int = 0,
        ratio: bool = True,
    ) -> Row:
        """A row: a figure of this package, another to compare it with, and the goal for the figure or for the ratio."""
        jobs = {"ours": ours} | ({"beside": beside[1]} if beside else {})
        times: dict[str, list[float]] = {"ours": [], "beside": []}
        answers: dict[str, list[dict[str, Any]]] = {"ours": [], "beside": []}
        failed: dict[str, str] = {}
        for number in range(repeat or self.options.repeat):
            order = list(jobs.items())
            for who, job in order if number % 2 == 0 else order[::-1]:
                if who in failed:
                    continue
                try:
                    got = self.ask({**job, "number": number} if job["job"].startswith("commit") else job)
                except JobError as error:
                    failed[who] = str(error)
                    note(f"  {name}: {error}")
                    continue
                times[who].append(got["ns"])
                answers[who].append(got)
        sums = {who: got[0]["sum"] for who, got in answers.items() if got and "sum" in got[0]}
        if len(sums) == 2 and not math.isclose(sums["ours"], sums["beside"], rel_tol=1e-6):
            raise SystemExit(f"{name}: the two sides hold different values: {sums}")
        row: Row = {"name": name, "unit": "ns", "ours": spread(times["ours"]), "jobs": jobs, "failed": failed}
        if beside:
            row |= {"beside": spread(times["beside"]), "beside_name": beside[0]}
            if ratio:
                row["ratio"] = spread([b / a for a, b in zip(times["ours"], times["beside"], strict=False)])
        if answers["ours"] and "how" in answers["ours"][0]:
            row["how"] = answers["ours"][0]["how"]
        self.add(row, at_most=at_most, at_least=at_least)
        return {**row, "answers": answers["ours"]}

    def add(self, row: Row, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Judge a row, and show it."""
        if at_most is not None:
            row["asked"] = {"at_most": at_most}
            row["met"] = row["ours"].get("median", math.inf) <= at_most
        if at_least is not None:
            row["asked"] = {"at_least": at_least}
            row["met"] = row.get("ratio", {}).get("median", 0.0) >= at_least
        self.rows.append(row)
        note("  " + "  ".join(cell for cell in cells(row) if cell))


# --------------------------------------------------------------------------------------------------------- rows


def leaf_rows(bench: Bench) -> None:
    """Building, opening and reading a store of many small leaves."""
    count = bench.options.leaves
    path, plain, other = bench.path("leaves.b2z"), bench.path("plain.b2z"), bench.path("leaves.lmdb")
    about = {"family": "nested", "leaves": count}
    what = {**about, "path": path, "call": "TreeStore", "mmap_mode": bench.options.mmap_mode}
    title = f"{count:,} leaves"

    built = bench.measure(
        f"build {title}", {"job": "build", **what, "side": "new"},
        ("LMDB", {"job": "lmdb_build", **about, "path": other}), repeat=bench.options.builds,
    )  # fmt: skip
    for name, field, limit in (("peak of the process", "peak", 300 * MB), ("memory before it", "before", None)):
        peaks = spread([answer[field] for answer in built["answers"]])
        row = {"name": f"build {title}, {name}", "unit": "bytes", "ours": peaks, "failed": built["failed"]}
        bench.add(row, at_most=limit)

    try:
        catalog = bench.ask({"job": "without_catalog", "path": path, "to": plain})["catalog"]
    except JobError as error:
        raise SystemExit(f"there is no store to measure: {error}") from None
    opening = {"job": "open_and_find", **what, "loops": 5}
    bench.measure(f"open {title} and find a key, with a catalog", {**opening, "loops": 20}, at_most=1e6)
    if not catalog:
        bench.rows[-1] |= {"met": False, "failed": {"ours": "the archive has no catalog"}}
        note("  MISSED: the archive has no catalog, so that rows with one and rows without one are the same")
    bench.measure(f"open {title} and find a key, without a catalog", {**opening, "path": plain}, at_most=150e6)
    bench.measure(f"open {title} and len, with a catalog", {**opening, "length": True})
    bench.measure(f"open {title} and len, without a catalog", {**opening, "path": plain, "length": True})

    looking = {"job": "contains", **what, "sample": SAMPLE}
    for words, miss in (("hit", False), ("miss", True)):
        # What of it is the machine's memory shows a dict, which waits for it as well.
        known = ("dict", {"job": "dict_contains", **about, "sample": SAMPLE, "miss": miss})
        bench.measure(f"key in store, {words}", {**looking, "miss": miss}, known, at_most=200)
        bench.measure(
            f"key in store, {words}, all {count:,} keys", {**looking, "miss": miss, "sample": count}, repeat=3
        )
    bench.measure("store[key][:]", {"job": "read_each", **what, "sample": SAMPLE}, at_most=6e3)

    many = {"job": "read_many", **what, "sample": SAMPLE, "threads": 2}
    lmdb = ("LMDB getmulti", {"job": "lmdb_read", **about, "path": other, "sample": SAMPLE})
    bench.measure("read_many, 2 threads, each key", many, lmdb, at_most=1.5e3)
    bench.measure("read_many into out=, 2 threads, each key", {**many, "out": True}, lmdb)
    bench.measure("read_many, 2 threads beside 1", many, ("1 thread", {**many, "threads": 1}), at_least=1.8)

    bench.measure(f"walk {title}", {"job": "walk", **what}, at_most=0.7e9, repeat=3)
    child_rows(bench)


def child_rows(bench: Bench) -> None:
    """The children of groups of any size: what one costs must not depend on how many there are."""
    most = min(100_000, bench.options.leaves)
    what = {"path": bench.path("children.b2z"), "call": "TreeStore", "mmap_mode": bench.options.mmap_mode}
    bench.ask({"job": "make_children", **what, "sizes": sorted({10, 1000, most})})
    listing = {"job": "children", **what, "size": 1000}
    bench.measure("children of a group of 10, each", {**listing, "size": 10})
    # half as much again counts as proportional: more children take more of the processor's caches
    beside = ("of 1,000", listing)
    bench.measure(f"children of a group of {most:,}, each", {**listing, "size": most}, beside, at_least=1 / 1.5)


def text_rows(bench: Bench) -> None:
    """Texts under short keys, beside booklet."""
    count = min(50_000, bench.options.leaves)
    about = {"family": "words", "leaves": count, "sample": count}
    ours = {**about, "path": bench.path("texts.b2z"), "call": "DictStore", "mmap_mode": bench.options.mmap_mode}
    book = {**about, "path": bench.path("texts.booklet")}
    title = f"{count:,} texts"

    def beside(job: str, **more: Any) -> tuple[str, Job]:
        return "booklet", {**book, "job": job, **more}

    bench.measure(f"{title}: write, each", {**ours, "job": "texts_write"}, beside("booklet_write"), at_least=2)
    many = {**ours, "job": "read_many", "threads": 2}
    bench.measure(f"{title}: read_many beside book[key], each", many, beside("booklet_read"), at_least=3)
    bench.measure(f"{title}: read_many beside get_items, each", many, beside("booklet_read", bulk=True), at_least=3)
    bench.measure(f"{title}: store[key][:], each", {**ours, "job": "read_each"}, beside("booklet_read"))
    bench.measure(f"{title}: key in store", {**ours, "job": "contains"}, beside("booklet_contains"), at_least=8)
    bench.measure(f"{title}: list of keys, each", {**ours, "job": "texts_keys"}, beside("booklet_keys"), at_least=5)


def catalog_rows(bench: Bench) -> None:
    """What a catalog costs a commit, and statistics of a store with many groups."""
    count = min(100_000, bench.options.leaves)
    what = {
        "path": bench.path("prefixes.b2z"), "call": "TreeStore", "mmap_mode": bench.options.mmap_mode,
        "family": "prefixes", "leaves": count,
    }  # fmt: skip
    groups = len(group_paths(count))
    title = f"{count:,} leaves in {groups:,} groups"
    bench.measure(f"build {title}", {"job": "build", **what, "side": "new"}, repeat=bench.options.builds)
    for job, words, limit in (
        ("stats", "open and stats('/')", None),
        ("commit_one", "commit of one leaf more", None),
        ("commit_and_stats", "commit of one leaf more, open and stats('/')", 0.4e9),
    ):
        bench.measure(f"{title}: {words}", {"job": job, **what}, at_most=limit)


def group_paths(count: int) -> set[str]:
    """The groups of the keys that `leaf_worker.prefix_key` makes."""
    found: set[str] = set()
    for n in range(count):
        parts = [f"/bucket{n // 1000:03d}", f"/day{n * 2 // 3:06d}", f"/run{n:06d}", f"/part{n % 7}-{n:06d}"]
        found.update("".join(parts[:depth]) for depth in range(1, 5))
    return found


def upstream_rows(bench: Bench) -> None:
    """Compare with the reference, which reads the file that this package has written."""
    count = min(100_000, bench.options.leaves)
    what = {"path": bench.path("beside.b2z"), "call": "TreeStore", "family": "nested", "leaves": count}
    bench.ask({"job": "build", **what, "side": "new"})
    getting = {**what, "job": "get_each", "sample": 2000, "shared": 3}
    bench.measure(
        f"TreeStore[key] at {count:,} leaves", {**getting, "most": 2000},
        ("reference", {**getting, "most": 3, "side": "upstream"}), at_least=20_000, repeat=min(3, bench.options.repeat),
    )  # fmt: skip
    opening = {**what, "job": "open_and_find", "loops": 1}
    bench.measure(
        f"open {count:,} leaves and find a key", {**opening, "loops": 20},
        ("reference", {**opening, "side": "upstream"}), at_least=100, repeat=min(3, bench.options.repeat),
    )  # fmt: skip


PARTS = {"leaves": leaf_rows, "texts": text_rows, "catalog": catalog_rows, "upstream": upstream_rows}


# ------------------------------------------------------------------------------------------------------ results


def figure(row: Row, which: str) -> str:
    """A median with half its interquartile range."""
    found = row.get(which)
    if found is None:
        return ""
    if "median" not in found:
        return "failed"
    half = 50 * (found["q3"] - found["q1"]) / found["median"] if found["median"] else 0.0
    value = seconds(found["median"]) if row["unit"] == "ns" else f"{found['median'] / MB:.1f} MB"
    return f"{value} ±{half:.0f}%"


def cells(row: Row) -> Iterator[str]:
    """A row of the table."""
    asked = row.get("asked", {})
    yield row["name"] + (f" ({row['how']})" if row.get("how", "write_many") != "write_many" else "")
    if "at_most" in asked:
        limit = asked["at_most"]
        yield "<= " + (seconds(limit) if row["unit"] == "ns" else f"{limit / MB:.0f} MB")
    else:
        yield f">= {asked['at_least']:.3g}x" if asked else ""
    yield figure(row, "ours")
    yield f"{row['beside_name']} {figure(row, 'beside')}" if "beside" in row else ""
    ratio = row.get("ratio", {})
    yield f"{ratio['median']:.3g}x ({ratio['q1']:.3g}..{ratio['q3']:.3g})" if "median" in ratio else ""
    yield "" if "met" not in row else "met" if row["met"] else "MISSED"


def table(rows: list[Row]) -> str:
    """The goals beside the measured figures."""
    lines = [["job", "asked", "measured", "beside", "ratio (quartiles)", ""], *(list(cells(row)) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(text)


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure all selected rows."""
    with contextlib.ExitStack() as stack:
        bench = Bench(options, folder, stack)
        versions = {"ours": bench.ask({"job": "about"})}
        if versions["ours"]["reference"]:
            raise SystemExit(f"this is not the package to measure: {versions['ours']['file']}")
        for part in options.only or PARTS:
            note(part)
            PARTS[part](bench)
        if "upstream" in (options.only or PARTS):
            versions["upstream"] = bench.ask({"job": "about", "side": "upstream"})
    return {
        "question": "how does a store behave with a million leaves?",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "versions": versions,
        "parameters": {
            name: value for name, value in vars(options).items() if name not in ("output", "data", "python_upstream")
        },
        "rows": bench.rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=1_000_000, help="leaves of the largest store (1000000)")
    parser.add_argument("--repeat", type=int, default=7, help="pairs of samples a row (7)")
    parser.add_argument("--builds", type=int, default=3, help="pairs of samples of a row that builds a store (3)")
    parser.add_argument("--only", choices=list(PARTS), action="append", help="some of the rows; may be repeated")
    parser.add_argument(
        "--not-mapped", dest="mmap_mode", action="store_const", const=None, default="r", help="read by position"
    )
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (bench/results/many_leaves.json)")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure (a temporary one)")
    parser.add_argument("--python-upstream", metavar="PYTHON", help="a Python that has the reference package")
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="many_leaves_", dir=options.data) as folder:
        result = run(options, Path(folder))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result["rows"]))
    missed = [row["name"] for row in result["rows"] if row.get("met") is False]
    print(f"\n{len(result['rows'])} rows in {seconds((time.monotonic() - began) * 1e9)}; written to {options.output}")
    print(f"goals missed: {len(missed)}" if missed else "all goals met")
    if options.leaves < 1_000_000:
        print("the goals are those of a million leaves, and of 100,000 beside the reference")


if __name__ == "__main__":
    main()
