"""Small leaves of a file that is not mapped, which are read again and again: what they show is never old."""

from __future__ import annotations

import random
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
