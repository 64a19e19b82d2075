"""Files of a directory: the order in which they take their new places, and what follows their frames."""

from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._backends.directory.files import in_steps


@pytest.mark.parametrize(
    ("keys", "renamed", "expected"),
    [
        ([], {}, []),
        (["/a", "/b"], {}, [["/a", "/b"]]),
        (["/a", "/b"], {"/b": "/a"}, [["/b"], ["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/c"}, [["/a"], ["/b"], ["/c"]]),
        (["/d", "/e"], {"/e": "/d", "/d": "/was"}, [["/e"], ["/d"]]),
        (["/a", "/b", "/x"], {"/a": "/b", "/b": "/a"}, [["/x"], ["/a", "/b"]]),
        (["/a"], {"/a": "/a"}, [["/a"]]),
        (["/a", "/b", "/c"], {"/a": "/b", "/b": "/a", "/c": "/z"}, [["/c"], ["/a", "/b"]]),
    ],
)
def test_steps(keys: list[str], renamed: dict[str, str], expected: list[list[str]]) -> None:
    assert in_steps(keys, renamed) == expected


@pytest.mark.parametrize("count", [10, 100_000])
def test_what_an_append_left_behind_a_leaf(count: int, source: str | None, tmp_path: Path) -> None:
    """A leaf that was opened alone may have been changed by a program that was killed."""
    values = np.random.default_rng(1).integers(0, 1 << 60, count)
    path, packed, copy = tmp_path / "s.b2d", tmp_path / "s.b2z", tmp_path / "t.b2d"
    with blosc2.TreeStore(str(path), mode="w", threshold=0) as store:
        store["/g/a"], store["/b"] = values, values + 1
    for name in ("g/a.b2nd", "b.b2nd"):
        with open(path / name, "ab") as file:
            file.write(b"rest")
    assert blosc2.check(str(path)).ok
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert np.array_equal(store["/g/a"][:], values)
        assert [row.nbytes for row in store.stats()] == [2 * values.nbytes]
        store.to_b2z(str(packed))
        store.to_b2d(str(copy))
    with blosc2.open(str(path), mode="a") as store:
        store.rename("/b", "/c")
        store["/d"] = store["/c"]
        store["/g/a"][0] = 7
    for place, keys in ((path, ("/c", "/d")), (packed, ("/b",)), (copy, ("/b",))):
        assert blosc2.check(str(place)).ok
        with blosc2.open(str(place), mmap_mode=source) as store:
            assert all(np.array_equal(store[key][:], values + 1) for key in keys)
            assert np.array_equal(store["/g/a"][1:], values[1:])
            assert store["/g/a"][0] == (7 if place == path else values[0])
