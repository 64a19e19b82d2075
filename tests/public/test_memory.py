"""Arrays larger than memory: copied, stored, edited, checked and compacted by a process that may not hold them.

Each operation runs in a process of its own whose data (`RLIMIT_DATA`: heap, stacks, other private memory) may grow by a
few pieces and chunks only. With ``BLOSC2_LARGE=1`` the array has 6 GB and the process 1 GB; that needs some 50 GB of
disk and an hour.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import blosc2

LARGE = bool(os.environ.get("BLOSC2_LARGE"))
#: Rows of 1 MB, and those of a chunk.
ROWS, CHUNK = (6144, 4) if LARGE else (128, 1)
#: By how many MB the data of a process may grow.
ROOM = 1024 if LARGE else 96

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits all private memory of a process")

BEGIN = """
import os, resource, shutil, sys
import numpy as np
import blosc2

blosc2.set_nthreads(2)
path, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
warm = blosc2.asarray(np.random.default_rng(0).integers(0, 256, (8, 1024, 1024), "u1"), chunks=(1, 1024, 1024))
warm[:]  # threads and their stacks are there, also those that wait for the disk: the system keeps the stacks
warm.copy(urlpath=folder + "/warm", contiguous=False)
shutil.rmtree(folder + "/warm")
del warm

def kind(name):
    return blosc2.EmbedStore if name.endswith(".b2e") else blosc2.TreeStore

def remove(*names):
    "Make room on the disk."
    for name in names:
        if os.path.isdir(folder + name):
            shutil.rmtree(folder + name)
        else:
            os.remove(folder + name)

def same(array, changed={}):
    "Whether rows are those of the file, or as they were changed."
    origin = blosc2.open(path)
    for row in (0, 1, rows // 2, rows - 1):
        expected = np.full((1024, 1024), changed[row], "u1") if row in changed else origin[row]
        if not np.array_equal(array[row], expected):
            return False
    return True

with open("/proc/self/status") as file:
    held = next(int(line.split()[1]) for line in file if line.startswith("VmData:")) * 1024
limit = held + (int(sys.argv[4]) << 20)
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
"""

SUFFIXES = (".b2z", ".b2d", ".b2e")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An incompressible array, each row different."""
    path = tmp_path_factory.mktemp("large") / "large.b2nd"
    row = np.random.default_rng(0).integers(0, 256, 1 << 20, "u1")

    def rows():
        for n in range(ROWS):
            yield np.roll(row, 997 * n).reshape(1, 1024, 1024)

    blosc2.asarray(rows(), shape=(ROWS, 1024, 1024), chunks=(CHUNK, 1024, 1024), urlpath=path)
    yield path
    shutil.rmtree(path.parent)


@pytest.fixture(scope="module")
def stores(large: Path) -> dict[str, Path]:
    """A store of each kind that has it under /big."""
    made = {}
    for suffix in SUFFIXES:
        made[suffix] = large.with_suffix(suffix)
        run(f"with kind({suffix!r})(folder + '/large{suffix}', mode='w') as store: store['/big'] = blosc2.open(path)",
            large, large.parent)  # fmt: skip
    return made


def run(code: str, path: Path, folder: Path) -> None:
    """Run code in a process that cannot hold the array."""
    command = [sys.executable, "-c", BEGIN + code, str(path), str(folder), str(ROWS), str(ROOM)]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=3600)
    assert done.returncode == 0, done.stderr[-3000:]


def test_the_limit_is_one(large: Path, tmp_path: Path) -> None:
    run("""
try:
    blosc2.open(path)[:]
except MemoryError:
    pass
else:
    raise AssertionError("it can be held")
""", large, tmp_path)  # fmt: skip


ARRAY = {
    "copy": "copied = array.copy(urlpath=out)\nassert same(copied)",
    "copy of a mapped file": "copied = blosc2.open(path, mmap_mode='r').copy(urlpath=out)\nassert same(copied)",
    "save": "array.save(out)\nassert same(blosc2.open(out))",
    "other chunks": "copied = array.copy(urlpath=out, chunks=(2, 512, 1024))\nassert same(copied)",
    "check": "assert blosc2.check(path).ok",
    "salvage": "blosc2.salvage(path, out)\nassert same(blosc2.open(out))",
    "concat": """
joined = blosc2.concat([array, array], axis=0, urlpath=out)
assert same(joined) and np.array_equal(joined[rows + 1], array[1])
""",
    "stack": """
stacked = blosc2.stack([array, array], axis=0, urlpath=out)
assert np.array_equal(stacked[1, 1], array[1])
""",
    "rows of an iterable": """
made = blosc2.asarray((array[n : n + 1] for n in range(rows)), shape=array.shape, urlpath=out, chunks=(rows, 64, 64))
assert same(made)
""",
    "edits, and compact": """
array.copy(urlpath=out)
copied = blosc2.open(out, mode="a")
for first in range(0, rows, 16):
    copied[first : first + 16] = array[rows - 16 : rows]
copied[:] = array[0]
copied[1] = 5
copied.compact()
assert (copied[1] == 5).all() and np.array_equal(copied[rows - 1], array[0]) and blosc2.check(out).ok
""",
    "resize and fill": """
made = blosc2.empty((0, 1024, 1024), "u1", urlpath=out, chunks=array.chunks)
for first in range(0, rows, 16):
    made.resize((first + 16, 1024, 1024))
    made[first:] = array[first : first + 16]
assert same(made)
""",
    "copy to chunk files, and from them": """
copied = array.copy(urlpath=out, contiguous=False)
assert same(copied)
assert same(blosc2.open(out).copy(urlpath=out + ".one")) and blosc2.check(out).ok
""",
    "chunk files in stores": """
array.copy(urlpath=out, contiguous=False)
for suffix in (".b2z", ".b2d", ".b2e"):
    with kind(suffix)(folder + "/store" + suffix, mode="w") as store:
        store["/a"] = blosc2.open(out)
    with kind(suffix)(folder + "/store" + suffix, mode="r") as store:
        assert same(store["/a"])
        store["/a"].copy(urlpath=folder + "/again.b2nd", contiguous=False)
    remove("/store" + suffix, "/again.b2nd")
""",
    "resize and fill chunk files": """
made = blosc2.empty((0, 1024, 1024), "u1", urlpath=out, chunks=array.chunks, contiguous=False)
for first in range(0, rows, 16):
    made.resize((first + 16, 1024, 1024))
    made[first:] = array[first : first + 16]
made[1] = 5
assert same(made, {1: 5}) and same(blosc2.open(out), {1: 5})
made[:] = array[0]
assert np.array_equal(made[rows - 1], array[0])
""",
    "leaves that grow": """
for suffix in (".b2z", ".b2d", ".b2e"):
    with kind(suffix)(folder + "/store" + suffix, mode="w") as store:
        store["/a"] = blosc2.empty((0, 1024, 1024), "u1", chunks=array.chunks)
        leaf = store["/a"]
        for first in range(0, rows, 16):
            leaf.resize((first + 16, 1024, 1024))
            leaf[first:] = array[first : first + 16]
    with kind(suffix)(folder + "/store" + suffix, mode="r") as store:
        assert same(store["/a"])
    remove("/store" + suffix)
""",
    "append": """
made = blosc2.empty((0,), "u1", urlpath=out, chunks=(1 << 20,))
for first in range(0, rows, 16):
    made.append(array[first : first + 16].reshape(-1))
assert np.array_equal(made[(rows - 1) << 20 :], array[rows - 1].reshape(-1))
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder that is removed at once, as what is in it is large."""
    yield tmp_path
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("name", ARRAY)
def test_an_array_is_not_held(large: Path, folder: Path, name: str) -> None:
    run("out = folder + '/out.b2nd'\narray = blosc2.open(path)\n" + ARRAY[name], large, folder)


STORE = {
    "into another": """
for suffix in (".b2z", ".b2d", ".b2e"):
    with kind(suffix)(folder + "/out" + suffix, mode="w") as other, kind(store_path)(store_path, mode="r") as store:
        other["/a"] = store["/big"]
    with kind(suffix)(folder + "/out" + suffix, mode="r") as other:
        assert same(other["/a"])
    assert blosc2.check(folder + "/out" + suffix).ok
""",
    "one row edited": """
with kind(store_path)(store_path, mode="a") as store:
    store["/big"][1] = 5
    store["/big"].attrs["a"] = 1
with kind(store_path)(store_path, mode="r") as store:
    assert same(store["/big"], {1: 5}) and store["/big"].attrs["a"] == 1
assert blosc2.check(store_path).ok
""",
    "filled": """
with kind(store_path)(store_path, mode="a") as store:
    leaf, array = store["/big"], blosc2.open(path)
    for first in range(0, rows, 4):
        leaf[first : first + 4] = array[rows - 4 :]
    leaf[0] = 3
    store.flush()
    leaf[1] = 5
with kind(store_path)(store_path, mode="r") as store:
    assert np.array_equal(store["/big"][rows - 1], blosc2.open(path)[rows - 1])
    assert (store["/big"][0] == 3).all() and (store["/big"][1] == 5).all()
""",
    "renamed, compacted": """
with kind(store_path)(store_path, mode="a") as store:
    store.rename("/big", "/large")
    store.flush()
    store.compact()
with kind(store_path)(store_path, mode="r") as store:
    assert same(store["/large"])
assert blosc2.check(store_path).ok
""",
    "checked, salvaged, copied": """
assert blosc2.check(store_path).ok
out = folder + "/saved" + suffix
assert blosc2.salvage(store_path, out).recovered
with kind(out)(out, mode="r") as store:
    assert same(store["/big"])
    store["/big"].copy(urlpath=folder + "/out.b2nd")
    if suffix != ".b2e":
        store.to_b2d(folder + "/out.b2d")
    if suffix == ".b2d":
        store.to_b2z(filename=folder + "/out.b2z")
assert same(blosc2.open(folder + "/out.b2nd"))
""",
}


@pytest.mark.parametrize("name", STORE)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_leaf_is_not_held(stores: dict[str, Path], large: Path, folder: Path, suffix: str, name: str) -> None:
    store_path = folder / f"work{suffix}"
    copying = "import shutil\n(shutil.copytree if suffix == '.b2d' else shutil.copyfile)(source, store_path)\n"
    given = f"suffix, store_path, source = {suffix!r}, {str(store_path)!r}, {str(stores[suffix])!r}\n"
    run(given + copying + STORE[name], large, folder)
