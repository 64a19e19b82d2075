"""The table of README.md: how fast are volumes in a store opened and read, compared with the reference package?

    python bench/volumes.py                 both mapped and neither mapped, about 3 minutes
    python bench/volumes.py --markdown      the same, printed as the README has it
    python bench/volumes.py --quick         small volumes and two processes a row, to see that it runs

This package writes two stores, and both packages read them. One has smooth `int16` volumes of 160x160x160 with noise,
stored with the default parameters (zstd). The other has `float32` volumes as nnU-Net writes them: LZ4HC with shuffle,
level 8, chunks and blocks for patches of 64x96x96. There the reference is strongest.

Each sample is a new process; the packages take turns. A figure is the median of the samples; a ratio is the median of
the ratios of the pairs (above 1: this package is faster), with its quartiles. All figures are warm: the file is in the
page cache, and data that is read repeatedly was read once before.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import seconds, spread, table
from sides import once, reference_python

WORKER = Path(__file__).resolve().with_name("volumes_worker.py")
RESULTS = Path(__file__).resolve().parent / "results" / "volumes.json"

ZSTD: dict[str, Any] = {
    "volumes": 12, "side": 160, "dtype": "i2", "codec": "ZSTD", "clevel": 5, "noise": 20.0,
    "chunks": None, "blocks": None,
}  # fmt: skip
LZ4: dict[str, Any] = {
    "volumes": 4, "side": 192, "dtype": "f4", "codec": "LZ4HC", "clevel": 8, "noise": 20.0,
    "chunks": [96, 192, 192], "blocks": [32, 48, 48],
}  # fmt: skip
ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("zstd", "open the store", {"job": "open_store"}),
    ("zstd", "one item of an open array", {"job": "read", "key": "item", "loops": 200}),
    ("zstd", "one patch of 48x48x48 of an open array, read again and again",
     {"job": "read", "key": "patch", "loops": 50}),
    ("zstd", "random patches of 48x48x48 of 12 open arrays", {"job": "patches", "patch": [48] * 3, "loops": 100}),
    ("zstd", "open, look up, one patch", {"job": "cold_patch"}),
    ("zstd", "1,000 points by index arrays", {"job": "read", "key": "points", "loops": 20}),
    ("zstd", "ten planes by a list", {"job": "read", "key": "planes", "loops": 20}),
    ("zstd", "a whole array of 8 MB", {"job": "read", "key": "whole", "loops": 20}),
    ("zstd", "compress 8 MB in memory", {"job": "compress", "loops": 5}),
    ("lz4", "LZ4HC: one patch of 64x96x96 of an open array, read again and again",
     {"job": "read", "key": "patch", "patch": [64, 96, 96], "loops": 50}),
    ("lz4", "LZ4HC: random patches of 64x96x96 of 4 open arrays",
     {"job": "patches", "patch": [64, 96, 96], "loops": 60}),
    ("lz4", "LZ4HC: a whole array of 28 MB", {"job": "read", "key": "whole", "loops": 10}),
]  # fmt: skip


def measure(name: str, job: dict[str, Any], pythons: tuple[str, str], repeat: int) -> dict[str, Any]:
    """Pairs of samples, the two packages in turns; both must have read the same values."""
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(-1, repeat):
        found = {}
        for side in (0, 1) if number % 2 else (1, 0):
            found[side] = once(pythons[side], job, worker=WORKER, isolated=side == 1)
            if number >= 0:
                times[side].append(found[side]["ns"])
        if not math.isclose(found[0]["sum"], found[1]["sum"], rel_tol=1e-9):
            raise SystemExit(f"{name}: the two packages read different values: {found}")
    ratio = spread([theirs / ours for ours, theirs in zip(*times, strict=True)])
    return {"name": name, "ours": spread(times[0]), "upstream": spread(times[1]), "ratio": ratio}


def markdown(rows: list[dict[str, Any]], mapped: list[dict[str, Any]]) -> str:
    """The table of the README: mapped on both sides, and the ratio with neither mapped."""
    lines = ["| | this package | `blosc2` | ratio, both mapped | ratio, neither mapped |", "|---|---|---|---|---|"]
    for row, other in zip(mapped, rows, strict=True):
        both, neither = row["ratio"], other["ratio"]
        lines.append(
            f"| {row['name']} | {seconds(row['ours']['median'])} | {seconds(row['upstream']['median'])} "
            f"| {both['median']:.2g} ({both['q1']:.2g} to {both['q3']:.2g}) "
            f"| {neither['median']:.2g} ({neither['q1']:.2g} to {neither['q3']:.2g}) |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="volumes of 40x40x40, two pairs of samples")
    parser.add_argument("--repeat", type=int, help="pairs of samples a row (7)")
    parser.add_argument("--only", help="rows whose name has this text")
    parser.add_argument("--markdown", action="store_true", help="print the table as the README has it")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (bench/results/volumes.json)")
    parser.add_argument("--python-upstream", metavar="PYTHON", help="a Python that has the reference package")
    options = parser.parse_args()
    repeat = options.repeat or (2 if options.quick else 7)
    pythons = (sys.executable, reference_python(options.python_upstream))
    about = {"job": "about"}
    sides = [once(python, about, worker=WORKER, isolated=number == 1) for number, python in enumerate(pythons)]
    if sides[0]["reference"] or not sides[1]["reference"]:
        raise SystemExit(f"these are not the two packages: {json.dumps(sides, indent=1)}")
    found: dict[str, list[dict[str, Any]]] = {"r": [], "None": []}
    with tempfile.TemporaryDirectory(prefix="volumes_") as folder:
        stores: dict[str, dict[str, Any]] = {}
        for name, what in (("zstd", ZSTD), ("lz4", LZ4)):
            about = what | ({"side": 128, "volumes": 6, "chunks": None, "blocks": None} if options.quick else {})
            stores[name] = about | {"path": str(Path(folder) / f"{name}.b2z")}
            once(pythons[0], stores[name] | {"job": "make"}, worker=WORKER, isolated=False)
        for mmap_mode in ("r", None):
            for name, label, job in ROWS:
                if options.only and options.only not in label:
                    continue
                row = measure(label, stores[name] | job | {"mmap_mode": mmap_mode}, pythons, repeat)
                found[str(mmap_mode)].append(row)
                print(("mapped      " if mmap_mode else "not mapped  ") + table([row]).splitlines()[2],
                      file=sys.stderr, flush=True)  # fmt: skip
    result = {
        "question": "how fast are volumes in a store opened and read, beside the reference package?",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "versions": sides,
        "mapped": found["r"],
        "not mapped": found["None"],
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    if options.markdown:
        print(markdown(found["None"], found["r"]))
        return
    for name, rows in (("both mapped", found["r"]), ("neither mapped", found["None"])):
        print(f"\n{name}\n{table(rows)}")
    print(f"\nwritten to {options.output}")


if __name__ == "__main__":
    main()
