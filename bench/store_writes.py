"""How fast are stores written and changed, compared with the reference package?

    python bench/store_writes.py              new stores of 1,000 small leaves; one leaf more in a `.b2z` of 1 GB
    python bench/store_writes.py --quick      the same with a `.b2z` of 50 MB

Each package writes files of its own, with alternating samples. This package syncs what it writes to the disk, the
reference does not. To change a `.b2z`, the reference unpacks it and packs it again. A figure is the median with its
quartiles; a ratio is computed for each pair of samples (above 1: this package is faster).

Before ext4 makes a file, it looks at every inode that was freed in the last minutes. So after files were removed,
`.b2d` rows are slow on such a disk for both sides (600 us for each file instead of some 20). `--data` names a folder on
a disk where no files were removed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from figures import seconds, spread, table
from sides import JobError, Side, reference_python

RESULTS = Path(__file__).resolve().parent / "results" / "store_writes.json"
LEAVES, RATIO_GOAL = 1000, 60.0
# Goals in nanoseconds: for a leaf of a new store, for one leaf more in a large one.
NEW = [
    ("EmbedStore", ".b2e", 15_000), ("DictStore", ".b2z", 15_000), ("TreeStore", ".b2z", 15_000),
    ("DictStore", ".b2d", 70_000), ("TreeStore", ".b2d", 70_000),
]  # fmt: skip
APPEND_GOAL = 20e6


def measure(sides: dict[str, Side], jobs: dict[str, dict[str, Any]], repeat: int) -> dict[str, Any]:
    """Samples of both sides in turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    failed: dict[str, str] = {}
    for n in range(repeat):
        sums = set()
        for name, side in sides.items():
            try:
                got = side.ask(**{**jobs[name], "number": n})
            except JobError as error:
                failed[name] = str(error)
                continue
            sums.add(got["sum"])
            times[name].append(got["ns"])
        if len(sums) > 1:
            raise SystemExit(f"the two packages hold different values: {sorted(sums)}")
    ratio = spread([b / a for a, b in zip(times["ours"], times["upstream"], strict=False)])
    return {"ours": spread(times["ours"]), "upstream": spread(times["upstream"]), "ratio": ratio, "failed": failed}


def run(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """All rows."""
    rows = []
    with contextlib.ExitStack() as stack:
        sides = {
            "ours": Side("this package", sys.executable, isolated=False),
            "upstream": Side("reference", reference_python(options.python_upstream), isolated=True),
        }
        for side in sides.values():
            stack.callback(side.close)
        for call, suffix, most in NEW:
            jobs = {
                name: {"job": "write_leaves", "call": call, "path": str(folder / f"{name}{suffix}"), "count": LEAVES}
                for name in sides
            }
            row = {
                "name": f"{call} {suffix}: {LEAVES} leaves of 64 bytes, each",
                **measure(sides, jobs, options.repeat),
            }
            goal = RATIO_GOAL if suffix != ".b2d" else None
            met = row["ours"].get("median", 1e18) <= most and (goal is None or row["ratio"].get("median", 0) >= goal)
            rows.append({**row, "goal": goal or 1, "met": met, "most_ns": most})
        size = 5000 if options.quick else 100_000
        jobs = {}
        for name, side in sides.items():
            path = str(folder / f"{name} large.b2z")
            side.ask("make_large", path=path, count=10_000, bytes=size)
            jobs[name] = {"job": "append_leaf", "path": path}
        row = {"name": f"one leaf more in 10,000 of {size} bytes", **measure(sides, jobs, 3)}
        rows.append({**row, "goal": 1, "met": row["ours"].get("median", 1e18) <= APPEND_GOAL, "most_ns": APPEND_GOAL})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smaller large store")
    parser.add_argument("--repeat", type=int, default=5, help="pairs of samples a row (5)")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (bench/results/store_writes.json)")
    parser.add_argument("--data", type=Path, help="folder on the disk to measure (a temporary one)")
    parser.add_argument("--python-upstream", metavar="PYTHON", help="a Python that has the reference package")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="store_writes_", dir=options.data) as folder:
        rows = run(options, Path(folder))
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    for row in rows:
        if not row["met"]:
            print(f"missed: {row['name']}: at most {seconds(row['most_ns'])}")


if __name__ == "__main__":
    main()
