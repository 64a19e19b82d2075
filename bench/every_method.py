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
import re
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


def reasons(page: Path) -> str:
    """What a page says of why rows lose: people wrote it, and it stays."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    found = re.search(r"^Where the time goes.*?(?=^\|)", text, re.MULTILINE | re.DOTALL)
    return found[0].rstrip() + "\n" if found else ""


def page(rows: list[dict[str, Any]], rounds: int, why: str) -> str:
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
        why,
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
        options.markdown.write_text(page(measured, options.rounds, reasons(options.markdown)))
    return bool(table.failed) or any(row["loses"] for row in measured)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.CalledProcessError as error:
        sys.exit(str(error))
