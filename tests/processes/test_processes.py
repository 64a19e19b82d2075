"""Handles serve many threads and survive fork, spawn and forkserver: right values, and no hang.

Every scenario runs in a process of its own that dumps its stacks and ends when it takes too long.
"""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from fixture_kit.isolated import TESTS, environment

import blosc2

SCRIPT = str(TESTS / "fixture_kit" / "process_scenarios.py")
NAMES = ["array.b2nd", "schunk.b2frame", "EmbedStore.b2e", "DictStore.b2d", "DictStore.b2z", "TreeStore.b2z"]
MIXED = ["Mixed.b2z", "Mixed.b2d", "Mixed.b2e"]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")


def run(*args: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", SCRIPT, *args], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, f"{args}: exit code {done.returncode} at {done.stdout}\n{done.stderr[-4000:]}"


def run_each(scenario: str, folder: str, names: list[str], source: str | None) -> None:
    """A scenario with one handle after the other, in one process."""
    run(scenario, folder, ",".join(names), mode_of(source))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("processes"))
    run("make", path, "", "")
    return path


def mode_of(source: str | None) -> str:
    return source or "pread"


def test_four_threads_read_one_handle(folder: str, source: str | None) -> None:
    run_each("threads", folder, NAMES, source)


def test_sixteen_threads_read_one_handle(folder: str, source: str | None) -> None:
    """Also of stores whose leaves have 64 bytes or several MB, and all codecs."""
    run_each("sixteen_threads", folder, ["array.b2nd", *MIXED], source)


@needs_fork
def test_forked_workers_read_inherited_handles(folder: str, source: str | None) -> None:
    run_each("inherited", folder, [*NAMES, *MIXED], source)


@needs_fork
def test_fork_after_a_large_parallel_read(folder: str, source: str | None) -> None:
    run_each("fork_after_parallel_read", folder, ["array.b2nd", "DictStore.b2z", "EmbedStore.b2e", "Mixed.b2z"], source)


@needs_fork
def test_fork_while_threads_read(folder: str, source: str | None) -> None:
    run_each("fork_while_reading", folder, ["array.b2nd", "DictStore.b2z", "Mixed.b2z", "Mixed.b2e"], source)


@needs_fork
def test_fork_while_threads_open(folder: str, source: str | None) -> None:
    """What is known of recent files is in use by other threads at that moment."""
    run_each("fork_while_opening", folder, ["array.b2nd", "schunk.b2frame", *MIXED], source)


@needs_fork
@pytest.mark.parametrize("again", range(3))
@pytest.mark.parametrize("work", ["remembering", "compressing"])
def test_fork_while_threads_are_at_work(folder: str, work: str, again: int) -> None:
    run_each(f"fork_while_{work}", folder, ["array.b2nd"], None)


def test_copies_read_the_same(folder: str, source: str | None) -> None:
    run_each("copies", folder, [*NAMES, *MIXED], source)


@pytest.mark.parametrize(
    "method",
    [pytest.param("fork", marks=needs_fork), "spawn", pytest.param("forkserver", marks=needs_fork)],
)
def test_workers_read_pickled_handles(folder: str, method: str, source: str | None) -> None:
    run_each(f"pickled_{method}", folder, ["array.b2nd", "schunk.b2frame", *NAMES[2:5], "Mixed.b2z"], source)


def test_a_handle_pickles_as_a_reference_not_as_data(folder: str, source: str | None) -> None:
    for name in NAMES:
        x = blosc2.open(str(Path(folder, name)), mmap_mode=source)
        leaf = x["/group/array"] if isinstance(x, blosc2.EmbedStore | blosc2.DictStore) else x
        assert len(pickle.dumps(leaf)) < 2000, name


def test_an_array_in_memory_pickles_with_its_data() -> None:
    data = np.arange(2000.0).reshape(40, 50)
    x = blosc2.asarray(data, chunks=(10, 50), blocks=(5, 25), meta={"a": 1})
    x.vlmeta["b"] = (1, 2)
    for other in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        np.testing.assert_array_equal(other[:], data)
        assert (other.meta["a"], other.vlmeta["b"]) == (1, (1, 2))
        other[0, 0] = -1
    assert x[0, 0] == 0


def test_a_pickled_handle_of_a_changed_file_says_so(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(np.arange(100), urlpath=path)
    frozen = pickle.dumps(blosc2.open(path))
    blosc2.asarray(np.arange(7.0), urlpath=path, mode="w")
    with pytest.raises((ValueError, RuntimeError), match=r"x\.b2nd"):
        pickle.loads(frozen)[:]


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="memory is measured in /proc")
def test_a_worker_that_maps_a_store_copies_nothing_of_its_index(tmp_path: Path) -> None:
    """Keys are found, listed and counted in the mapped catalog and directory, whose pages all processes share."""
    path = tmp_path / "many.b2z"
    count = 100_000
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/group{n % 100}/leaf{n}", np.int32(n)) for n in range(count))
    assert path.stat().st_size > 39 << 20
    work = f"""
import blosc2
def private():
    with open("/proc/self/smaps_rollup") as file:  # what is its own; pages of a file that it maps are clean
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_Dirty")) << 10
with blosc2.TreeStore({str(path)!r}, mode="r", mmap_mode="r") as store:
    store["/group0/leaf0"][()]
with blosc2.TreeStore({str(path)!r}, mode="r", mmap_mode="r") as store:
    before = private()
    assert len(store) == {count} + 100
    assert sum(f"/group{{n % 100}}/leaf{{n}}" in store for n in range(0, {count}, 7)) == len(range(0, {count}, 7))
    assert store["/group5/leaf5"][()] == 5
    print(private() - before)
"""
    found = subprocess.run([sys.executable, "-W", "error", "-c", work], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    # In memory, the hash alone would be 1.4 MB, the directory 9 MB.
    assert int(found.stdout) < 600_000
