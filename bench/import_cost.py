"""What does `import blosc2` cost over `import numpy`? Milliseconds and MB, beside the limits: 20 ms and 6 MB.

    python bench/import_cost.py                40 new processes
    python bench/import_cost.py --quick        8
    python bench/import_cost.py --repeat 100

Each process imports NumPy, which `blosc2` needs in any case, and then `blosc2`; the figures are medians of what each of
the two takes. Compiled files (`.pyc`) are there: a first process is not counted. Time is wall time, and that of the
processor, which is the one to look at where much else runs on the machine. Memory is all that becomes resident
(`VmRSS`), and the part of it that belongs to no file (`RssAnon`), which only Linux tells.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys

LIMIT_MS, LIMIT_MB = 20, 6
PROGRAM = """
import time

def now():
    memory = []
    try:
        with open("/proc/self/status") as file:
            status = dict(line.split(":", 1) for line in file)
        memory = [int(status[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon")]
    except OSError:
        pass
    return [1e3 * time.perf_counter(), 1e3 * time.process_time(), *memory]

now()
figures = [now()]
import numpy
figures.append(now())
import blosc2
figures.append(now())
print([[after - before for before, after in zip(*pair)] for pair in zip(figures, figures[1:])])
"""
ROWS = (("ms, wall", LIMIT_MS), ("ms, processor", LIMIT_MS), ("MB resident", LIMIT_MB), ("MB of no file", None))


def measured() -> list[list[float]]:
    """What NumPy and what this package took in one new process."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    # Threads of NumPy's BLAS wait actively for a while after they begin, and that would count as time of our import.
    env["OPENBLAS_NUM_THREADS"] = "1"
    done = subprocess.run([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, check=True, env=env)
    figures: list[list[float]] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=40, help="how many processes")
    parser.add_argument("--quick", action="store_true", help="eight processes")
    options = parser.parse_args()
    measured()
    runs = [measured() for _ in range(8 if options.quick else options.repeat)]
    print(f"{'':14} {'numpy':>8} {'blosc2':>8} {'limit':>8}")
    for i, (row, limit) in enumerate(ROWS[: len(runs[0][0])]):
        numpy, ours = (statistics.median(run[kind][i] for run in runs) for kind in (0, 1))
        said = "" if limit is None else f"{limit:8}{'' if ours <= limit else '  over the limit'}"
        print(f"{row:14} {numpy:8.1f} {ours:8.1f} {said}".rstrip())


if __name__ == "__main__":
    main()
