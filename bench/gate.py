"""Has anything become slower? An old build beside a new one, row by row.

    python bench/gate.py --old PYTHON --new PYTHON               some 50 rows, in less than eight minutes
    python bench/gate.py --old PYTHON --new PYTHON --only leaf   rows with this in their names

Each Python has a `blosc2` of its own installed. In each round, a new process of either takes samples of all rows in
turns with the other's; the least of a row counts, and old / new is the ratio of the round. The lower quartile of the
ratios has to reach the limit of the row: 0.97, or less where a loss is accepted. A few rows have a limit in seconds. A
row that does not reach its limit is given as many rounds again, once. If the median of the ratios, or the ratio of the
least times of all rounds, then reaches it, the row is marked as noise and does not fail: look at it on a quiet machine.
Builds without a GIL are measured by `leaf_threads.py`.

Then instructions of the hot rows are counted by valgrind, and may become 1.02 times as many. Without valgrind, or on
another processor than x86-64, calls of functions are counted in their place. Last come Python functions that single
acts call: they may not become more.

Files lie in /dev/shm where that is, so that the disk is not measured, but for cold patches; `--data` names another
folder. The exit status is 1 if a row is beyond its limit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from figures import seconds, spread
from sides import JobError, Side

WORKER = Path(__file__).resolve().with_name("gate_rows.py")
VALGRIND = ["--tool=callgrind", "--instr-atstart=no", "--trace-children=yes", "-q"]
MORE_INSTRUCTIONS = 1.02
#: What single acts are to call at most, once the core is rebuilt: stated beside what they call now.
AIMS = {"open a store": 20, "first leaf": 6, "set a first leaf": 30, "flush": 60, "assign a slice in a file": 60}


class Gate:
    """The two builds, their folders, and what was measured."""

    def __init__(self, options: argparse.Namespace, folder: Path, disk: Path) -> None:
        self.pythons = {"old": options.old, "new": options.new}
        self.threads, self.folder = options.threads, folder
        self.ratios: dict[str, list[float]] = {}
        self.least: dict[str, dict[str, float]] = {}
        self.turn = 0
        for name in "ab":
            (folder / name).mkdir()
            (disk / name).mkdir()
            (folder / name / "disk").symlink_to(disk / name)
        with self.processes() as sides:
            found = [self.ask(side, "about") for side in sides.values()]
        self.rows: dict[str, dict[str, Any]] = {
            name: about for name, about in found[1]["rows"].items() if options.only in name
        }
        if not self.rows:
            sys.exit(f"no row has {options.only!r} in its name")
        print(f"old: {found[0]['file']}\nnew: {found[1]['file']}\n")

    @contextlib.contextmanager
    def processes(self) -> Iterator[dict[str, Side]]:
        """A new process of each build."""
        with contextlib.ExitStack() as stack:
            sides = {}
            for name, python in self.pythons.items():
                sides[name] = Side(name, python, isolated=True, worker=WORKER)
                stack.callback(sides[name].close)
            yield sides

    def ask(self, side: Side, job: str, **more: Any) -> dict[str, Any]:
        """Have a process do something in its folder. The builds change folders each round: where files lie matters."""
        here = self.folder / "ab"[(self.turn + (side.name == "new")) % 2]
        return side.ask(job, **{"here": str(here), "threads": self.threads, **more})

    def round(self, names: Iterable[str]) -> None:
        """Samples of rows by two new processes, which take turns."""
        self.turn += 1
        with self.processes() as sides:
            for side in sides.values():
                self.ask(side, "about")
            for name in names:
                taken: dict[str, list[float]] = {"old": [], "new": []}
                for n in range(self.rows[name]["samples"] + 1):
                    for side in sides.values() if n % 2 else reversed(sides.values()):
                        taken[side.name].append(self.ask(side, "sample", row=name)["ns"])
                for side in sides.values():
                    self.ask(side, "end", row=name)
                old, new = (min(taken[side][1:]) for side in ("old", "new"))  # the first one is warm after it
                self.ratios.setdefault(name, []).append(old / new)
                least = self.least.setdefault(name, {"old": old, "new": new})
                least["old"], least["new"] = min(least["old"], old), min(least["new"], new)

    def verdict(self, name: str) -> str:
        """Whether a row fails, or may do so because the machine does something else, too."""
        row, least, ratio = self.rows[name], self.least[name], spread(self.ratios[name])
        if row["most"]:
            return "FAILS" if least["new"] > row["most"] * 1e9 else ""
        if ratio["q1"] >= row["limit"]:
            return ""
        return "FAILS" if max(ratio["median"], least["old"] / least["new"]) < row["limit"] else "noise"

    def counts(self) -> tuple[str, dict[str, dict[str, int]]]:
        """Of hot rows, what is counted and how many of them there are."""
        hot = [name for name, row in self.rows.items() if row["hot"]]
        valgrind = shutil.which("valgrind") if platform.machine() == "x86_64" else None
        found: dict[str, dict[str, int]] = {}
        here = str(self.folder / "a")  # the same files: how long a lookup is depends on the seed of a catalog
        for name, python in self.pythons.items() if hot else ():
            out = str(self.folder / f"callgrind-{name}") if valgrind else ""
            before = [valgrind, *VALGRIND, f"--callgrind-out-file={out}"] if valgrind else []
            command = [*before, python, str(WORKER)]
            side = Side(name, command[0], isolated=True, worker=Path(command[1]), arguments=command[2:])
            with contextlib.closing(side):
                self.ask(side, "about")
                for row in hot:
                    found.setdefault(row, {})[name] = self.ask(side, "count", row=row, out=out, here=here)["count"]
        return "instructions" if valgrind else "calls of functions (there is no valgrind)", found

    def calls(self) -> dict[str, dict[str, int]]:
        """Python functions that single acts call."""
        with self.processes() as sides:
            found = {name: self.ask(side, "acts") for name, side in sides.items()}
        return {act: {name: found[name][act] for name in found} for act in found["old"]}


def line(*cells: str) -> None:
    print(f"{cells[0]:36}" + "".join(f"{cell:>12}" for cell in cells[1:]), flush=True)


def show_times(gate: Gate) -> list[str]:
    """The table of times; the rows that fail."""
    line("row", "old", "new", "quartile", "median", "limit")
    for name, row in gate.rows.items():
        least, ratio = gate.least[name], spread(gate.ratios[name])
        limit = f"{row['most']:g} s" if row["most"] else f"{row['limit']:.2f}"
        numbers = [seconds(least["old"]), seconds(least["new"]), f"{ratio['q1']:.3f}", f"{ratio['median']:.3f}", limit]
        line(name, *numbers, gate.verdict(name))
    return [name for name in gate.rows if gate.verdict(name) == "FAILS"]


def show_counts(what: str, counts: dict[str, dict[str, int]], most: float, aims: dict[str, int]) -> list[str]:
    """A table of counts; the rows in which there are too many more."""
    print()
    line(what, "old", "new", "new / old", "aim" if aims else "")
    failed = []
    for name, count in counts.items():
        ratio = count["new"] / max(count["old"], 1)
        numbers = [f"{count['old']:,}", f"{count['new']:,}", f"{ratio:.3f}", str(aims.get(name, ""))]
        line(name, *numbers, "FAILS" if ratio > most else "")
        failed += [name] if ratio > most else []
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--old", required=True, metavar="PYTHON", help="the Python that has the old build")
    parser.add_argument("--new", required=True, metavar="PYTHON", help="the Python that has the new one")
    parser.add_argument("--only", default="", metavar="PATTERN", help="rows with this in their names")
    parser.add_argument("--rounds", type=int, default=10, help="new processes of either (10)")
    parser.add_argument("--threads", type=int, default=1, help="that each may use (1)")
    parser.add_argument("--json", type=Path, help="a file for all figures")
    parser.add_argument("--data", type=Path, help="folder of the files")
    options = parser.parse_args()
    place = options.data or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    with (
        tempfile.TemporaryDirectory(prefix="gate-", dir=place) as folder,
        tempfile.TemporaryDirectory(prefix="gate-") as disk,
    ):
        try:
            gate = Gate(options, Path(folder), Path(disk))
            for _ in range(options.rounds):
                gate.round(gate.rows)
            slow = [name for name in gate.rows if gate.verdict(name)]
            for _ in range(options.rounds if slow else 0):
                gate.round(slow)
            failed = show_times(gate)
            what, counts = gate.counts()
            failed += show_counts(what, counts, MORE_INSTRUCTIONS, {})
            calls = gate.calls()
            failed += show_counts("Python functions that an act calls", calls, 1.0, AIMS)
        except JobError as error:
            sys.exit(str(error))
    if options.json:
        figures = {"least": gate.least, "ratios": gate.ratios, "counts": counts, "calls": calls, "failed": failed}
        options.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(f"\nbeyond their limits: {', '.join(failed)}" if failed else "\nno row is beyond its limit")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
