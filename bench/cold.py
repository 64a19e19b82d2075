"""How fast is data that is not in memory: on a disk, and over something as slow as a network?

    python bench/cold.py                 both, about 3 minutes
    python bench/cold.py --quick         fewer samples and patches
    python bench/cold.py --disk          only the disk (or --network)
    python bench/cold.py --network --background 64      more requests at a time than FUSE sends by default

*Disk*: a `.b2z` of 100 MB of zstd volumes, as `volumes.py` has them; its folder should be on a disk, not in memory.
Before each sample the file is taken out of the system's memory. A sample opens the store and reads random patches of
48x48x48. Beside it stand the reference package and what only reads the bytes of the same blocks: 16 threads all of
them, for `read_many`, and one thread those of one patch after the other. "device" is what the disk read, in MB;
"needed" the pages of those blocks.

*Network*: the file system of `tests/fixture_kit/slow_files.py`, which answers each request 5 ms late; it needs the
right to mount. A sample reads one patch of 27 blocks of an open array; a round trip is the time of a read of one byte.

The packages take turns, each sample is a new process, and a figure is the median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sides import once, reference_python

HERE = Path(__file__).resolve().parent
WORKER = HERE / "cold_worker.py"
RESULTS = HERE / "results" / "cold.json"
VOLUMES: dict[str, Any] = {"volumes": 22, "side": 160, "patch": [48] * 3}
#: Layouts of the arrays that are read over the network: patches of 27 blocks in one chunk and in eight.
NETWORK = [
    ("27 blocks of one chunk", [[0, 96]] * 3, [96] * 3, [32] * 3),
    ("27 blocks of eight chunks", [[48, 120]] * 3, [96] * 3, [32] * 3),
    ("27 small blocks of eight chunks", [[24, 60]] * 3, [48] * 3, [16] * 3),
]
OURS, THEIRS = "this package", "reference"


def sample(
    jobs: dict[str, tuple[int, dict[str, Any]]], pythons: tuple[str, str], repeat: int
) -> dict[str, dict[str, Any]]:
    """Medians of jobs that take turns; all must have read the same values."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in jobs}
    for _ in range(repeat):
        for name, (side, job) in jobs.items():
            found[name].append(once(pythons[side], job, worker=WORKER, isolated=side == 1))
    sums = {one["sum"] for samples in found.values() for one in samples if one["sum"]}
    if len(sums) > 1:
        raise SystemExit(f"the packages read different values: {sums}")
    return {
        name: {
            field: statistics.median(one[field] for one in samples)
            for field in ("ns", "bytes", "needed")
            if field in samples[0]
        }
        for name, samples in found.items()
    }


def disk(pythons: tuple[str, str], folder: str, repeat: int, counts: list[int]) -> dict[str, Any]:
    """Random patches of a store on a disk."""
    path = str(Path(folder) / "volumes.b2z")
    about = VOLUMES | {"path": path}
    size = once(pythons[0], about | {"job": "make"}, worker=WORKER, isolated=False)["ns"]
    print(f"\ndisk: {size / 1e6:.0f} MB, patches of 48x48x48\n")
    result: dict[str, Any] = {}
    for count in counts:
        job = about | {"job": "patches", "patches": count}
        modes: dict[str, dict[str, Any]] = {
            "mapped": {"mmap_mode": "r"}, "mapped, random": {"mmap_mode": "r", "advise": "random"},
            "mapped, normal": {"mmap_mode": "r", "advise": "normal"}, "positional": {"mmap_mode": None},
        }  # fmt: skip
        jobs = {f"{OURS}, {name}": (0, job | mode) for name, mode in modes.items()}
        jobs |= {f"{THEIRS}, {name}": (1, job | modes[name]) for name in ("mapped", "positional")}
        for name in ("mapped", "positional"):
            jobs[f"{OURS}, {name}, read_many"] = (0, job | modes[name] | {"together": True, "held": True})
        jobs["16 threads that only read"] = (0, job | {"job": "bare_reads", "threads": 16, "mmap_mode": None})
        jobs["one thread that only reads, patch after patch"] = (0, job | {"job": "bare_patches", "mmap_mode": None})
        rows = sample(jobs, pythons, repeat)
        needed = rows["16 threads that only read"]["needed"]
        theirs = rows[f"{THEIRS}, mapped"]["ns"]
        print(f"{count} patches, needed {needed / 1e6:.1f} MB")
        for name, row in rows.items():
            print(f"  {name:46} {row['ns'] / 1e6:8.1f} ms   device {row['bytes'] / 1e6:6.1f} MB   "
                  f"{theirs / row['ns']:5.2f} x the reference mapped")  # fmt: skip
        result[str(count)] = {"needed": needed, "rows": rows}
    return result


def network(pythons: tuple[str, str], folder: str, repeat: int, delay: float, background: int) -> dict[str, Any]:
    """Patches over a file system that answers late."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from fixture_kit.slow_files import SlowFiles

    served = Path(folder) / "served"
    served.mkdir()
    for number, (_, _, chunks, blocks) in enumerate(NETWORK):
        about = {"job": "make", "path": str(served / f"{number}.b2z"), "volumes": 1, "side": 192}
        once(pythons[0], about | {"chunks": chunks, "blocks": blocks}, worker=WORKER, isolated=False)
    result: dict[str, Any] = {}
    with SlowFiles(served, Path(folder) / "slow", background) as files:
        files.tell(delay=delay)
        trips = []
        for _ in range(20):
            descriptor = os.open(files.path / "0.b2z", os.O_RDONLY)
            start = time.perf_counter_ns()
            os.pread(descriptor, 1, 8192)
            trips.append(time.perf_counter_ns() - start)
            os.close(descriptor)
        trip = statistics.median(trips)
        print(f"\nnetwork: {delay * 1000:g} ms a request, {background} at a time, round trip {trip / 1e6:.2f} ms\n")
        for number, (name, where, _, _) in enumerate(NETWORK):
            job = {"job": "one_patch", "path": str(files.path / f"{number}.b2z"), "key": "/volume/00", "where": where}
            jobs = {
                f"{who}, {how}": (side, job | {"mmap_mode": mode})
                for side, who in enumerate((OURS, THEIRS))
                for how, mode in (("mapped", "r"), ("positional", None))
            }
            rows = sample(jobs, pythons, repeat)
            print(name)
            for who, row in rows.items():
                print(f"  {who:38} {row['ns'] / 1e6:8.1f} ms   {row['ns'] / trip:5.1f} round trips")
            result[name] = rows
        result |= {"round trip": trip, "background": background}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two samples, few patches")
    parser.add_argument("--repeat", type=int, help="samples a row (7)")
    parser.add_argument("--disk", action="store_true", help="only the disk")
    parser.add_argument("--network", action="store_true", help="only the file system that answers late")
    parser.add_argument("--delay", type=float, default=5, help="of each request, in ms (5)")
    parser.add_argument("--background", type=int, default=12, help="requests that FUSE sends at a time (12)")
    parser.add_argument("--folder", help="where to put the files; on a disk")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON file (bench/results/cold.json)")
    parser.add_argument("--python-upstream", metavar="PYTHON", help="a Python that has the reference package")
    options = parser.parse_args()
    repeat = options.repeat or (2 if options.quick else 7)
    pythons = (sys.executable, reference_python(options.python_upstream))
    result: dict[str, Any] = {
        "question": "how fast is data that is not in memory, beside the reference package?",
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    with tempfile.TemporaryDirectory(prefix="cold_", dir=options.folder) as folder:
        if not options.network:
            result["disk"] = disk(pythons, folder, repeat, [1, 4] if options.quick else [1, 4, 16, 64])
        if not options.disk:
            result["network"] = network(pythons, folder, repeat, options.delay / 1000, options.background)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten to {options.output}")


if __name__ == "__main__":
    main()
