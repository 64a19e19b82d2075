"""Many programs add leaves to one store with ``locking=True``: changes a second, here and with the reference package.

``python bench/sharing.py [--leaves 800] [--programs 1 4 16] [--reference PYTHON]``. Each leaf is an array of 64
numbers, added by an assignment of its own. What came first and last shows whether the programs take turns: the first
one to end should not be far ahead of the last. The result is counted.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sides import reference_python

KINDS = {".b2e": "EmbedStore", ".b2d": "DictStore", ".b2z": "DictStore"}

HEAD = """
import os, sys, time, warnings
import numpy as np
import blosc2
warnings.simplefilter("ignore")
path, me, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def opened(mode):
    if path.endswith(".b2e"):
        storage = blosc2.Storage(contiguous=True, urlpath=path, mode=mode, locking=True)
        return blosc2.EmbedStore(urlpath=path, mode=mode, storage=storage)
    return blosc2.DictStore(path, mode=mode, locking=True)
"""
ADD = """
store, value = opened("a"), np.arange(64.0)
store.get("/warm")
print("ready", flush=True)
sys.stdin.readline()
began = time.process_time()
for n in range(count):
    store[f"/program{me}/{n}"] = value
print(time.time(), time.process_time() - began, flush=True)
os._exit(0)
"""
MAKE = 'store = opened("w")\nstore["/warm"] = np.arange(64.0)\nos._exit(0) if count else store.close()'
COUNT = 'print(sum(1 for key in blosc2.open(path, mode="r") if key.count("/") == 2))'


def run(python: str, code: str, *arguments: object, isolated: bool) -> subprocess.Popen[str]:
    env = dict(os.environ)
    if isolated:
        env.pop("PYTHONPATH", None)
    command = [python, "-c", HEAD + code, *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def measure(python: str, suffix: str, programs: int, leaves: int, *, isolated: bool) -> str:
    with tempfile.TemporaryDirectory(dir=os.environ.get("BENCH_FOLDER")) as folder:
        path = Path(folder, "store" + suffix)
        assert run(python, MAKE, path, 0, int(isolated), isolated=isolated).wait() == 0
        count = leaves // programs
        all_of_them = [run(python, ADD, path, me, count, isolated=isolated) for me in range(programs)]
        for program in all_of_them:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        began = time.time()
        for program in all_of_them:
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.close()
        answers = [program.stdout.readline().split() for program in all_of_them if program.stdout is not None]
        ends = [float(answer[0]) - began for answer in answers if answer]
        cpu = sum(float(answer[1]) for answer in answers if answer)
        for program in all_of_them:
            program.wait()
        found = run(python, COUNT, path, 0, 0, isolated=isolated).communicate()[0].strip()
    lost = f", {count * programs - int(found or 0)} lost" if found != str(count * programs) else ""
    return (
        f"{count * programs / max(ends):7.0f} changes a second, the first program ended at {min(ends):6.2f} s, "
        f"the last at {max(ends):6.2f} s, {1e3 * cpu / count / programs:5.2f} ms of a processor each{lost}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leaves", type=int, default=800)
    parser.add_argument("--programs", type=int, nargs="+", default=[1, 4, 16])
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--reference", help="a Python that has the reference package")
    given = parser.parse_args()
    reference = reference_python(given.reference)
    for suffix in given.kinds:
        for programs in given.programs:
            print(
                f"{suffix} {programs:2} here  {measure(sys.executable, suffix, programs, given.leaves, isolated=False)}"
            )
            if suffix != ".b2z":  # where the reference has no locking
                there = measure(reference, suffix, programs, given.leaves, isolated=True)
                print(f"{suffix} {programs:2} there {there}", flush=True)


if __name__ == "__main__":
    main()
