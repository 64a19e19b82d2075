"""Many small leaves, which another thread writes to the file: what comes in between, and what fails."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from fixture_kit.forks import in_child

import blosc2

#: So many that the file is written many times before the last one comes.
COUNT = 12_000

NOISE = np.random.default_rng(0).integers(0, 256, 5000, "u1")


@pytest.fixture(params=["new", "beside others"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "s.b2z"
    if request.param != "new":
        with blosc2.DictStore(path, mode="w") as store:
            store.update(leaves(300, "/old"))
    return path


def leaves(count: int, group: str = "/g") -> Iterator[tuple[str, np.ndarray]]:
    for n in range(count):
        yield f"{group}/k{n:06}", NOISE[n % 4001 :][: 600 + n % 3]


def found(path: Path) -> dict[str, bytes]:
    if not path.exists():
        return {}
    with blosc2.DictStore(path, mode="r") as store:
        return {key: store.read(key).tobytes() for key in store}


def expected(*groups: Iterator[tuple[str, np.ndarray]]) -> dict[str, bytes]:
    return {key: value.tobytes() for group in groups for key, value in group}


@pytest.mark.parametrize("nthreads", [1, 2, 8])
def test_all_arrive(nthreads: int, path: Path) -> None:
    before = found(path)
    blosc2.set_nthreads(nthreads)
    with blosc2.DictStore(path, mode="a") as store:
        assert store.write_many(leaves(COUNT)) == COUNT
    assert found(path) == before | expected(leaves(COUNT))
    assert blosc2.check(path).ok


@pytest.mark.parametrize("at", [5000, COUNT - 1])
def test_an_iterable_that_closes_the_store(at: int, path: Path) -> None:
    before, files = found(path), os.listdir(path.parent)
    store = blosc2.DictStore(path, mode="a")

    def closing() -> Iterator[tuple[str, np.ndarray]]:
        for n, pair in enumerate(leaves(COUNT)):
            if n == at:
                store.close()
            yield pair

    with pytest.raises(RuntimeError, match="under way"):
        store.write_many(closing())
    store.close()
    assert found(path) == before
    assert {*os.listdir(path.parent)} - {*files} <= {"s.b2z"}  # the empty store, if it is new


@pytest.mark.parametrize("error", [ArithmeticError, KeyboardInterrupt])
@pytest.mark.parametrize("at", [2500, 7001])
def test_an_iterable_that_raises(at: int, error: type[BaseException], path: Path) -> None:
    before, files = found(path), os.listdir(path.parent)

    def failing() -> Iterator[tuple[str, np.ndarray]]:
        for n, pair in enumerate(leaves(COUNT)):
            if n == at:
                raise error
            yield pair

    with blosc2.DictStore(path, mode="a") as store:
        with pytest.raises(error):
            store.write_many(failing())
        assert found(path) == before
        store["/after"] = np.arange(3)
        store.write_many(leaves(COUNT))
    assert found(path) == before | expected(leaves(COUNT)) | {"/after": np.arange(3).tobytes()}
    assert {*os.listdir(path.parent)} - {*files} <= {"s.b2z"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_an_iterable_that_forks(path: Path) -> None:
    """The child goes on with the iteration, and is refused; the parent's leaves arrive."""
    before = found(path)
    store = blosc2.DictStore(path, mode="a")
    parent = os.getpid()
    child = 0

    def forking() -> Iterator[tuple[str, np.ndarray]]:
        nonlocal child
        for n, pair in enumerate(leaves(COUNT)):
            if n == 5000:
                child = os.fork()
            yield pair

    try:
        store.write_many(forking())
    except BaseException as error:
        if os.getpid() == parent:
            raise
        os._exit(7 if isinstance(error, blosc2.StoreLockedError) else 1)
    if os.getpid() != parent:
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    in_child(lambda: found(path))
    store.close()
    assert found(path) == before | expected(leaves(COUNT))
    assert blosc2.check(path).ok


@pytest.mark.skipif(sys.platform != "linux", reason="a limit of the size of files stands for a full disk")
def test_a_disk_that_is_full_for_a_while(path: Path) -> None:
    code = """
import errno, os, resource, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import blosc2
from stores.test_bulk_in_background import COUNT, expected, found, leaves
path = Path(sys.argv[2])
before = found(path)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
with blosc2.DictStore(path, mode="a") as store:
    for room in (1_300_000, 3_000_000, 9_000_000):
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
        try:
            store.write_many(leaves(COUNT))
        except OSError as error:
            assert error.errno == errno.EFBIG and str(path) in str(error), error
        else:
            raise AssertionError("there was no room for that")
        assert found(path) == before
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    store.write_many(leaves(COUNT))
assert found(path) == before | expected(leaves(COUNT))
assert blosc2.check(path).ok
"""
    tests = str(Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code, tests, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
