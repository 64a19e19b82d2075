"""Many small leaves in one call: what other threads and the iterable do meanwhile, and what fails."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child
from store_makers import Maker

import blosc2
from blosc2._backends.zip.backend import ZipBackend
from blosc2._stores import publish
from blosc2.exceptions import ClosedStoreError

#: So many that the file is written many times before the last one comes.
COUNT = 8_000

NOISE = np.random.default_rng(0).integers(0, 256, 5000, "u1")
SIZES = (3, 100, 1000, 4095, 4096, 5000, 32 << 10, 64 << 10, 65537, 100_000, 300_000, 1 << 20)


@pytest.fixture(params=["new", "beside others"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "s.b2z"
    if request.param != "new":
        with blosc2.DictStore(path, mode="w") as store:
            store.update(leaves(300, "/old"))
    return path


def leaves(count: int, group: str = "/g", size: int = 200) -> Iterator[tuple[str, np.ndarray]]:
    """Leaves of so many bytes; up to 256 they are all written by one native loop."""
    for n in range(count):
        yield f"{group}/k{n:06}", NOISE[n % 4001 :][: size + n % 3]


def found(path: Path) -> dict[str, bytes]:
    if not path.exists():
        return {}
    with blosc2.DictStore(path, mode="r") as store:
        return {key: store.read(key).tobytes() for key in store}


def expected(*groups: Iterator[tuple[str, np.ndarray]]) -> dict[str, bytes]:
    return {key: value.tobytes() for group in groups for key, value in group}


@pytest.mark.parametrize("hint", [-5, 10**30, "many", ArithmeticError, 1 << 40, 300, 3])
@pytest.mark.parametrize("count", [0, 20, 1000])
def test_a_length_that_is_not_so(count: int, hint: Any, path: Path) -> None:
    before = found(path)

    class Items:
        def __init__(self) -> None:
            self.items = leaves(count)

        def __iter__(self) -> Items:
            return self

        def __next__(self) -> tuple[str, np.ndarray]:
            return next(self.items)

        def __length_hint__(self) -> int:
            if isinstance(hint, type):
                raise hint
            return hint

    with blosc2.DictStore(path, mode="a") as store:
        assert store.write_many(Items()) == count
    assert found(path) == before | expected(leaves(count))
    assert blosc2.check(path).ok


@pytest.mark.parametrize("how", ["close", "with"])
@pytest.mark.parametrize("locking", [False, True])
def test_another_thread_that_closes_the_store(locking: bool, how: str, path: Path) -> None:
    """It waits until all are written."""
    before = found(path)
    for moment in range(6):
        path.unlink(missing_ok=True)
        if before:
            with blosc2.DictStore(path, mode="w") as store:
                store.update(leaves(300, "/old"))
        store = blosc2.DictStore(path, mode="a", locking=locking)
        begun = threading.Event()

        def items(begun: threading.Event = begun) -> Iterator[tuple[str, np.ndarray]]:
            for n, pair in enumerate(leaves(COUNT)):
                if n == 1500:
                    begun.set()
                yield pair

        done: list[int] = []
        thread = threading.Thread(
            target=lambda store=store, items=items, done=done: done.append(store.write_many(items()))
        )
        thread.start()
        assert begun.wait(60)
        time.sleep(moment / 1000)
        if how == "close":
            store.close()
        else:
            with pytest.raises(ArithmeticError), store:
                raise ArithmeticError
        thread.join(60)
        assert done == [COUNT]
        assert found(path) == before | expected(leaves(COUNT))
    assert blosc2.check(path).ok


@pytest.mark.parametrize("how", ["close", "with"])
@pytest.mark.parametrize("locking", [False, True])
def test_another_thread_that_begins_while_the_store_is_closed(
    locking: bool, how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused: nothing is written to a file that was closed, and nothing is half there."""
    before = found(path)
    store = blosc2.DictStore(path, mode="a", locking=locking)
    ended: list[Any] = []

    def write() -> None:
        try:
            ended.append(store.write_many(leaves(COUNT)))
        except (OSError, RuntimeError, ValueError) as error:
            ended.append(error)

    threads: list[threading.Thread] = []
    step = "_flush_now" if how == "close" else "drop"
    original = getattr(publish, step)

    def meanwhile(*given: Any, **more: Any) -> Any:
        if not threads:
            threads.append(threading.Thread(target=write))
            threads[0].start()
            threads[0].join(0.3)
        return original(*given, **more)

    monkeypatch.setattr(publish, step, meanwhile)
    if how == "close":
        store.close()
    else:
        with pytest.raises(ArithmeticError), store:
            raise ArithmeticError
    threads[0].join(60)
    assert [type(error) for error in ended] == [ClosedStoreError]
    monkeypatch.undo()
    assert found(path) == before
    assert not path.exists() or blosc2.check(path).ok


def test_a_program_that_ends_while_another_thread_writes(tmp_path: Path) -> None:
    """The file is left as it was."""
    code = """
import sys, threading
sys.path.insert(0, sys.argv[1])
import blosc2
from stores.test_bulk_among_threads import leaves
store = blosc2.DictStore(sys.argv[2], mode="a")
begun = threading.Event()
def items():
    for n, pair in enumerate(leaves(10_000_000)):
        if n == 5000:
            store["/old/k000001"][0] = 7
            begun.set()
        yield pair
threading.Thread(target=lambda: store.write_many(items()), daemon=True).start()
assert begun.wait(60)
"""
    path = tmp_path / "s.b2z"
    with blosc2.DictStore(path, mode="w") as store:
        store.update(leaves(300, "/old"))
    before = found(path)
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", code, str(Path(__file__).parents[1]), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "lost with the transaction" in done.stderr
    assert found(path) == before
    with blosc2.DictStore(path, mode="a") as store:
        store.write_many(leaves(COUNT))
    assert found(path) == before | expected(leaves(COUNT))
    assert blosc2.check(path).ok


@pytest.mark.parametrize("then", ["a leaf", "many leaves", "a large leaf"])
def test_an_interrupt_of_what_ends_a_failed_call(then: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its leaves are never published, whatever is written next."""
    after = {
        "a leaf": lambda: {"/after": np.arange(3, dtype="u1")},
        "many leaves": lambda: dict(leaves(COUNT, "/other")),
        "a large leaf": lambda: {"/after": np.resize(NOISE, 9 << 20)},
    }[then]()
    before = found(path)

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    def failing() -> Iterator[tuple[str, np.ndarray]]:
        yield from leaves(COUNT)
        raise ArithmeticError

    with blosc2.DictStore(path, mode="a") as store:
        monkeypatch.setattr(ZipBackend, "discard", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.write_many(failing())
        if len(after) > 1:
            store.write_many(after)
        else:
            store["/after"] = after["/after"]
    assert found(path) == before | expected(iter(after.items()))
    assert blosc2.check(path).ok


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


# ------------------------------------------------------------------ threads that compress
def of_size(rng: np.random.Generator, nbytes: int, dtype: str = "i2") -> Any:
    """An array that compresses to some part of it."""
    count = -(-nbytes // np.dtype(dtype).itemsize)
    return np.cumsum(rng.integers(-2, 3, count)).astype(dtype)


def all_kinds() -> list[tuple[str, Any]]:
    """Values of all sizes and kinds, in an order without any."""
    rng = np.random.default_rng(4)
    table = np.zeros(900, [("a", "i4"), ("b", "f8")])
    table["a"] = np.arange(900)
    values: list[Any] = [of_size(rng, size, dtype) for size in SIZES for dtype in ("i1", "i2", "i4", "f8", "u4", "i8")]
    values += [of_size(rng, 32 << 10).reshape(64, -1) for _ in range(100)]
    values += [np.zeros(5000), np.ones((40, 50)), np.zeros((9, 1000), "u1"), table, table[::2], np.empty((0, 5))]
    values += [of_size(rng, 20_000).reshape(100, 100).T, of_size(rng, 40_000)[::-3], np.array(["text"] * 3000)]
    values += [list(range(2000)), blosc2.arange(3000), blosc2.SChunk(data=b"12345678" * 900), np.float64(3.5)]
    order = rng.permutation(len(values))
    return [(f"/g{n % 3}/k{n}", values[n]) for n in order]


@pytest.mark.parametrize("make", ["b2e", "b2z", "b2d", "b2d-mixed", "b2d-embedded", "tree-b2z"], indirect=True)
def test_threads_make_the_leaves_of_single_assignments(make: Maker) -> None:
    items = all_kinds()
    with make("w") as store:
        for key, value in items:
            store[key] = value
    before, made = blosc2.nthreads, []
    for nthreads in (0, 1, 2, 4):
        if nthreads:
            blosc2.set_nthreads(nthreads)
            told: list[tuple[int, int]] = []
            with make("w") as store:
                assert store.write_many(iter(items), progress=lambda *now, told=told: told.append(now)) == len(items)
            assert told[-1] == (len(items), sum(getattr(v, "nbytes", np.asarray(v).nbytes) for _, v in items))
        with make("r") as store:
            made.append(
                {key: leaf.to_cframe() for key, leaf in store.items() if not isinstance(leaf, blosc2.TreeStore)}
            )
        assert blosc2.check(make.path).ok
    blosc2.set_nthreads(before)
    assert made[1:] == made[:1] * 3
    with make("r") as store:
        for key, value in items:
            is_array = not isinstance(value, blosc2.SChunk)
            np.testing.assert_array_equal(
                np.asarray(store[key]) if is_array else store[key][:], value if is_array else value[:]
            )
