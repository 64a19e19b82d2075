"""A writer that is killed at any moment leaves an old version or a new one, whole."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from fixture_kit.isolated import environment

import blosc2

WRITER = """
import sys
import numpy as np
import blosc2

array_path, store_path = sys.argv[1:]
array = blosc2.open(array_path, mode="a")
store = blosc2.TreeStore(store_path, mode="a")
version = int(array[0, 0])
while True:
    version += 1
    array[:] = np.full((50, 100), version)
    store[f"/group/leaf{version % 7}"] = np.full(1000, version)
    store.flush()
    print(version, flush=True)
"""


def test_a_killed_writer_leaves_whole_versions(tmp_path: Path) -> None:
    rng = random.Random(20261121)
    array_path, store_path = str(tmp_path / "array.b2nd"), str(tmp_path / "store.b2z")
    blosc2.asarray(np.zeros((50, 100), "i8"), chunks=(10, 100), urlpath=array_path)
    with blosc2.TreeStore(store_path, mode="w") as store:
        store["/group/leaf0"] = np.zeros(1000, "i8")
    last = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, array_path, store_path], env=environment(), stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            assert int(writer.stdout.readline()) >= last  # it is under way
            time.sleep(rng.uniform(0, 0.15))
            writer.kill()
            written = writer.stdout.read().split()
        array = blosc2.open(array_path)[:]
        assert (array == array[0, 0]).all()
        assert array[0, 0] >= int(written[-1]) if written else array[0, 0] > last
        last = int(array[0, 0])
        with blosc2.open(store_path, mmap_mode="r") as store:
            versions = [store[f"/group/{name}"][:] for name in store.walk("/group").__next__()[2]]
        assert all((version == version[0]).all() for version in versions)
        assert max(int(version[0]) for version in versions) >= last - 1
    assert {path.name for path in tmp_path.iterdir()} == {"array.b2nd", "store.b2z"}
