"""An array of any size is converted in bounded memory: the source makes its items when they are asked for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

#: Planes of 1 MiB, and how much may be resident, the interpreter with NumPy included. All of the array is more.
PLANES, RESIDENT = 512, 300 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no /proc/self/status")

PROGRAM = """
import json, sys, types

import numpy as np

import blosc2
from blosc2._tools.converting.conversion import FORMATS, Format
from blosc2._tools.converting.conversion import ArrayItem

target, planes = sys.argv[1], int(sys.argv[2])
ramp = np.arange(1 << 18, dtype="i4").reshape(512, 512)
read = 0


def plane(number):
    "Every 16th is a ramp with the number of the plane, the others are zeros."
    return None if number % 16 else ramp + number


def items_of(box):
    global read
    items = np.zeros([side.stop - side.start for side in box], "i4")
    for number in range(box[0].start + -box[0].start % 16, box[0].stop, 16):
        items[number - box[0].start] = plane(number)[box[1:]]
    read += items.nbytes
    return items


class Source:
    def __init__(self, path):
        pass

    def items(self):
        yield ArrayItem("/ramps", (planes, 512, 512), np.dtype("i4"), items_of)

    def close(self):
        pass


module = types.ModuleType("blosc2._tools.converting.generated")
module.Source = Source
sys.modules[module.__name__] = module
FORMATS["generated"] = Format("generated", (".generated",), "generated:Source")
open(target + ".generated", "w").close()


def most_resident():
    "Of this program: ru_maxrss would begin with what its parent had."
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:")) * 1024


report = blosc2.convert(target + ".generated", target, verify=True)
resident = most_resident()
opened = blosc2.open(target)
found = opened if isinstance(opened, blosc2.NDArray) else opened["/ramps"]
wrong = [
    number
    for number in {0, 1, 16, planes // 2 // 16 * 16, planes - 1, (planes - 1) // 16 * 16}
    if not np.array_equal(found[number], np.zeros((512, 512), "i4") if number % 16 else plane(number))
]
print(json.dumps({
    "nbytes": report.nbytes, "read": read, "resident": resident, "wrong": wrong,
    "sound": bool(blosc2.check(target).ok),
}))
"""


@pytest.mark.parametrize("suffix", [".b2z", ".b2d", ".b2nd"])
def test_a_source_that_makes_its_items(tmp_path: Path, suffix: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / f"made{suffix}"), str(PLANES)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["nbytes"] == PLANES << 20
    assert found["read"] >= found["nbytes"]
    assert found["wrong"] == []
    assert found["sound"]
    assert found["resident"] < RESIDENT < found["nbytes"]
