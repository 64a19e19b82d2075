"""Every public operation that both packages have: this package beside the published one, by wall and processor time.

    python bench/every_method.py                            all rows, an hour on two cores
    python bench/every_method.py --only "NDArray a[patch]"  rows that have all of these words
    python bench/every_method.py --check                    every row once: results only
    python bench/every_method.py --markdown doc/coming-from/every-method.md

The published package (blosc2 4.14.1) is in an environment of its own: $BLOSC2_UPSTREAM_PYTHON, or one that is made
once. `every_method_rows.py` has the rows; `--names` prints public names of both packages that no row covers.

Both sides make their own data, act once, and must give equal results. Then they are measured in turns, by the least
time of some batches; in each of `--rounds` rounds they are new processes. The median of the rounds counts. Files lie
in /dev/shm where that is, so that the disk is not measured; `--data` names another folder. Losing rows come first. The
exit status is 1 if results differ, or if a row is below 0.95 by both clocks and by more than 0.3 us.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from figures import seconds
from sides import REFERENCE, JobError, Side, reference_python

WORKER = Path(__file__).resolve().with_name("every_method_rows.py")
LIMIT = 0.95
LEAST = 300.0  # nanoseconds of difference that count
Figures = dict[str, dict[str, dict[str, list[float]]]]
#: Why rows lose, as profiles show it: goes to the page.
REASONS = """\
Where the time goes, as profiles of these acts show:

* **Changes of an `SChunk` in memory** (`append_chunk`, `insert_chunk`, `update_chunk`, `delete_chunk`): each makes the
  next version of the frame, so that who reads goes on to read a whole one, and a change that fails changes nothing. Of
  the 0.7 us, 0.2 go to the new frame and its table, and the rest to Python: the method, the lock, and to show it. The
  published package changes its table in place, in C. `append_data` and others that compress take 2 us more, to
  look up parameters and an encoder. Chunks lie in one buffer; when it is full of them, it is copied to one of twice the
  size, where the published package asks for memory for each chunk.
* **Single keys of a `.b2d`**: `in` takes 1 us, which is that of asking the system for the time of the directory, so
  that what others publish is found; after `list(store)`, which fixes the keys until `refresh()`, it takes 0.05 us. Up
  to the eighth look, and where there are too many files, each look asks for files: 3 us for a key that is there, 21
  for one that is not. The published package lists all files when it opens the store.
* **`permute_dims` of one axis**: a new array is made, as of two axes; the published package gives the array itself,
  also where `cparams=` or `urlpath=` ask for something else.
* **Stored chunks of files** (`get_chunk`, `concat`, `stack`, `copy`, `load`): the checksum of each chunk is compared
  in the pass that copies it, which then takes up to half as long again; on processors without AVX-512, 45 us more for
  each MB, which is two to three times as long as to copy it. The published package has none.
* **`get_lazychunk`**: the positions of the blocks are put in order in Python, 4 to 6 us.
* **`info` of a `.b2d`**: it sums the sizes of all files, 2.5 us for each. The published package shows no sizes.
* **Changes of lists in memory** (`append`, `pop`, `insert`): each makes the next version, with the sizes of all values.
* **Copies above 32 MB** (`concat` and `stack` of large arrays): the chunks of an array in memory lie in one piece, so
  that it can be saved and sent as it is, and the C library gives pieces of that size back to the system. Their pages
  are new each time, which takes as long as to copy into them; chunks of some MB each, as the published package has
  them, are used again where a program drops one result before it makes the next.
* **`asarray` with BLOSCLZ or level 1, and `copy` with LZ4, in three dimensions**: blocks are cubes here, so that a
  patch touches few of them, and planes there. The same codec takes half as long again for them; with the same chunks
  and blocks it does not.
* **`to_b2d`**: each file is written aside, the file that it replaces is linked aside, and both are renamed, so that a
  failure brings the old store back. The published package writes over the files.
* **`keys()`, `sorted(store)`, one item of a `Batch` or `ObjectArray`**: one or two microseconds of Python: views that
  notice that the store was changed or closed, and checks of what a file says.
* **`CParams(...)`**: each field is checked when it is set, and not when it is used.
* **`fill_special` of many chunks**: 0.1 us for each entry of the table.
"""


class Table:
    """Rows, what was measured of them, and what differs."""

    def __init__(self, reference: str, folder: Path) -> None:
        self.pythons, self.folder = {"published": reference, "ours": sys.executable}, folder
        self.figures: Figures = {}
        self.failed: dict[str, str] = {}

    def names(self) -> tuple[list[str], list[str], dict[str, str]]:
        """The rows, public names of both that no row covers, and both versions."""
        with ExitStack() as stack:
            told = {side: self._process(side, stack).ask("names") for side in self.pythons}
        rows = [name for name in told["ours"]["rows"] if name in told["published"]["rows"]]
        covered = {name for row in told["ours"]["rows"].values() for name in row} | set(told["ours"]["not timed"])
        both = set(told["ours"]["names"]) & set(told["published"]["names"])
        return rows, sorted(both - covered), {side: one["version"] for side, one in told.items()}

    def _process(self, side: str, stack: ExitStack) -> Side:
        process = Side(side, self.pythons[side], isolated=True, worker=WORKER)
        stack.callback(process.close)
        return process

    def round(self, names: Iterable[str], *, measure: bool) -> None:
        """All rows once, by new processes, which take turns."""
        with ExitStack() as stack:
            sides = {side: self._process(side, stack) for side in self.pythons}
            for number, name in enumerate(names):
                try:
                    self._row(sides, name, number, measure=measure)
                except JobError as error:
                    self.failed[name] = str(error)
                    if "the worker ended" in str(error):
                        raise
                for process in sides.values():
                    process.ask("end")

    def _row(self, sides: dict[str, Side], name: str, number: int, *, measure: bool) -> None:
        given = {}
        for side, process in sides.items():
            here = self.folder / side
            here.mkdir(exist_ok=True)
            given[side] = process.ask("begin", row=name, here=str(here))
        if given["ours"]["digest"] != given["published"]["digest"]:
            self.failed[name] = f"{given['ours']['text']} != {given['published']['text']}"
            return
        taken = self.figures.setdefault(name, {side: {"wall": [], "cpu": []} for side in sides})
        for side in sorted(sides, reverse=bool(number % 2)) if measure else ():
            for clock, ns in sides[side].ask("sample").items():
                taken[side][clock].append(ns)

    def rows(self) -> list[dict[str, Any]]:
        """What was measured, the losing rows first."""
        made = []
        for name, taken in self.figures.items():
            if name in self.failed or not taken["ours"]["wall"]:
                continue
            median = {
                side: {clock: statistics.median(all_) for clock, all_ in one.items()} for side, one in taken.items()
            }
            ratio = {clock: median["published"][clock] / max(median["ours"][clock], 1.0) for clock in ("wall", "cpu")}
            loses = max(ratio.values()) < LIMIT and median["ours"]["wall"] - median["published"]["wall"] > LEAST
            made.append({"name": name, **median, "ratio": ratio, "loses": loses})
        return sorted(made, key=lambda row: (not row["loses"], max(row["ratio"].values())))


def summary(rows: list[dict[str, Any]]) -> str:
    ratios = {clock: statistics.median(row["ratio"][clock] for row in rows) for clock in ("wall", "cpu")}
    return (
        f"{len(rows)} rows; the median is {ratios['wall']:.2f} times as fast by wall time, {ratios['cpu']:.2f} by "
        f"processor time; {sum(row['loses'] for row in rows)} rows lose"
    )


def lines(rows: list[dict[str, Any]]) -> Iterable[list[str]]:
    for row in rows:
        yield [
            row["name"], seconds(row["published"]["wall"]), seconds(row["ours"]["wall"]), f"{row['ratio']['wall']:.2f}",
            f"{row['ratio']['cpu']:.2f}",
        ]  # fmt: skip


def acts(rows: list[dict[str, Any]]) -> Iterable[list[str]]:
    """For each act its row in the middle, the least ratio of its rows, and how many they are."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in sorted(rows, key=lambda row: float(max(row["ratio"].values()))):
        found.setdefault(row["name"].rsplit("; ", 1)[0], []).append(row)
    for name, every in found.items():
        middle = every[len(every) // 2]
        yield [
            f"`{name}`", seconds(middle["published"]["wall"]), seconds(middle["ours"]["wall"]),
            f"{max(middle['ratio'].values()):.2f}", f"{max(every[0]['ratio'].values()):.2f}", str(len(every)),
        ]  # fmt: skip


def as_table(heads: list[str], body: Iterable[list[str]]) -> list[str]:
    every = [heads, ["---"] * len(heads), *body]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in every]


def page(rows: list[dict[str, Any]], rounds: int) -> str:
    """The page of the documentation."""
    losing = [row for row in rows if row["loses"]]
    parted = ((line[0].rpartition("; "), line[1:]) for line in lines(losing))
    named = ([f"`{act or on}`", on if act else "", *rest] for (act, _, on), rest in parted)
    how = "of one round" if rounds == 1 else f"medians of {rounds} rounds"
    text = [
        "# Every operation, timed",
        "",
        f"Every public operation that this package and `{REFERENCE}` have, on the same data. Times are wall times of",
        f"one call with two threads, {how}. A ratio above 1 means that this package is faster.",
        "",
        f"{summary(rows)}: they are slower by more than a twentieth by both clocks.",
        "",
        "## Rows that lose",
        "",
        REASONS,
        *as_table(["operation", "on", "published", "here", "by wall time", "by processor time"], named),
        "",
        "## All operations",
        "",
        "For each operation its row in the middle, by the better clock; the least ratio, and how many rows there are.",
        "",
        *as_table(["operation", "published", "here", "ratio", "least", "rows"], acts(rows)),
        "",
        "Made by `python bench/every_method.py --markdown PAGE`.",
        "",
    ]
    return "\n".join(text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", help="one that has the published package")
    parser.add_argument("--only", default="", metavar="WORDS", help="rows that have all of these words")
    parser.add_argument("--rounds", type=int, default=5, help="how often both are started anew")
    parser.add_argument("--names", action="store_true", help="print names that no row covers")
    parser.add_argument("--check", action="store_true", help="compare results, and measure nothing")
    parser.add_argument("--data", type=Path, help="the folder for files")
    parser.add_argument("--json", type=Path, help="write all figures to a file")
    parser.add_argument("--markdown", type=Path, metavar="PAGE", help="write the table as a page")
    options = parser.parse_args()
    shm = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="every-method-", dir=options.data or (shm if shm.is_dir() else None)))
    try:
        table = Table(reference_python(options.reference), folder)
        rows, without, versions = table.names()
        if options.names:
            print(*without, sep="\n", end="\n" if without else "")
            return bool(without)
        print(versions)
        wanted = [name for name in rows if all(word in name for word in options.only.split())]
        for n in range(1 if options.check else options.rounds):
            table.round([name for name in wanted if name not in table.failed], measure=not options.check)
            if options.json:
                options.json.write_text(json.dumps({"versions": versions, "figures": table.figures}))
            print(f"round {n + 1} done", file=sys.stderr)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    measured = table.rows()
    for name, why in table.failed.items():
        print(f"FAILED {name}: {why}")
    if measured:
        for line in lines(measured):
            print(f"{line[3]:>7} {line[4]:>7}  {line[1]:>8} {line[2]:>8}  {line[0]}")
        print(summary(measured))
    if options.markdown:
        options.markdown.write_text(page(measured, options.rounds))
    return bool(table.failed) or any(row["loses"] for row in measured)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
