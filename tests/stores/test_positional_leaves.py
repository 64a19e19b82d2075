"""Small leaves of a file that is not mapped, which are read again and again: what they show is never old."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import numpy as np
import pytest

import blosc2

#: So many leaves of 448 bytes lie in 110 pages.
LEAVES = 1000


def value(n: int, salt: int = 0) -> np.ndarray:
    return np.random.default_rng([n, salt]).integers(0, 100, 50)


def key(n: int) -> str:
    return f"/g{n % 10}/leaf{n:06d}"


def written(path: Path, count: int = LEAVES) -> Path:
    with blosc2.DictStore(str(path), mode="w") as store:
        store.write_many((key(n), value(n)) for n in range(count))
    return path


def passes(store: blosc2.DictStore, count: int = LEAVES, times: int = 4) -> None:
    """Read all leaves again and again, in a random order."""
    order = list(range(count))
    for number in range(times):
        random.Random(number).shuffle(order)
        for n in order:
            store[key(n)][:]


@pytest.mark.parametrize("of", ["arrays", "items"])
def test_values(tmp_path: Path, of: str) -> None:
    """Of leaves in one page and in two, in all orders."""
    store = blosc2.DictStore(str(written(tmp_path / "s.b2z")), mode="r")
    wanted = [value(n) for n in range(LEAVES)]
    for order in (
        range(LEAVES),
        range(LEAVES - 1, -1, -1),
        random.Random(0).sample(range(LEAVES), LEAVES),
        range(LEAVES),
    ):
        for n in order:
            got = store[key(n)][:] if of == "arrays" else store.read(key(n))
            assert np.array_equal(got, wanted[n])


@pytest.mark.parametrize("mode", ["r", "a"])
def test_other_versions(tmp_path: Path, mode: str) -> None:
    """What is shown after a refresh, or a flush of the store's own, is what was published then."""
    path = written(tmp_path / "s.b2z")
    reader = blosc2.DictStore(str(path), mode=mode)
    passes(reader)
    for version in range(1, 4):
        with blosc2.DictStore(str(path), mode="a") if mode == "r" else reader.transaction() as writer:
            for n in range(version, LEAVES, 7):
                writer[key(n)] = value(n, version)
        if mode == "r":
            assert reader.refresh()
        for _ in range(3):
            for n in range(LEAVES):
                salt = max((v for v in range(1, version + 1) if n >= v and (n - v) % 7 == 0), default=0)
                assert np.array_equal(reader[key(n)][:], value(n, salt))
    reader.close()


@pytest.mark.parametrize("tail", [5, 4096, 20_000])
def test_what_lies_behind_a_version_is_not_kept(tmp_path: Path, tail: int) -> None:
    """A reader that was opened while a killed writer's bytes lay behind the end, which the next writer replaces."""
    path = written(tmp_path / "s.b2z", 40)
    with open(path, "ab") as file:
        file.write(b"\xa5" * tail)
    reader = blosc2.DictStore(str(path), mode="r")
    passes(reader, 40, 10)
    with blosc2.DictStore(str(path), mode="a") as writer:
        for n in range(40, 100):
            writer[key(n)] = value(n)
    for n in range(40):
        assert np.array_equal(reader[key(n)][:], value(n))
    assert reader.refresh()
    for _ in range(4):
        for n in range(100):
            assert np.array_equal(reader[key(n)][:], value(n))
    reader.close()


def test_a_file_that_is_cut(tmp_path: Path) -> None:
    """A leaf is as it was, or there is an error that names the file."""
    path = written(tmp_path / "s.b2z")
    store = blosc2.DictStore(str(path), mode="r")
    passes(store)
    os.truncate(path, path.stat().st_size // 2)
    for n in range(LEAVES):
        try:
            got = store[key(n)][:]
        except blosc2.FormatError as error:
            if str(path) not in str(error):
                raise
        else:
            assert np.array_equal(got, value(n))
    store.close()


@pytest.mark.parametrize("of", ["arrays", "items"])
def test_bytes_that_were_wrong_for_a_while(tmp_path: Path, of: str) -> None:
    """A file of which some bytes come late, as when it is copied into place, is not taken for damaged for ever."""
    path = written(tmp_path / "s.b2z", 200)
    store = blosc2.DictStore(str(path), mode="r")
    for n in range(100, 140):
        store[key(n)][:]
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.write(bytes(8192))
    for n in [*range(5)] * 4:
        with pytest.raises(blosc2.FormatError):
            store[key(n)][:]
    with path.open("r+b") as file:
        file.write(whole[:8192])
    for n in [*range(200)] * 2:
        assert np.array_equal(store[key(n)][:] if of == "arrays" else store.read(key(n)), value(n))
    store.close()


def test_threads(tmp_path: Path) -> None:
    """Threads that read by one handle, more of them than there are places."""
    store = blosc2.DictStore(str(written(tmp_path / "s.b2z", 400)), mode="r")
    wanted = [value(n) for n in range(400)]
    wrong: list[int] = []

    def read(seed: int) -> None:
        order = list(range(400))
        for _ in range(5):
            random.Random(seed).shuffle(order)
            wrong.extend([n for n in order if not np.array_equal(store[key(n)][:], wanted[n])])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
