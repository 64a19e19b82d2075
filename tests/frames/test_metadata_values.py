"""Metadata of real arrays, super-chunks and groups: all are alike; bulk changes, memory, limits of the format."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import SChunk
from blosc2._frames import metadata
from blosc2._frames import metadata as vlmeta

KINDS = ["array in memory", "array in a file", "super-chunk in a directory", "tree", "group", "leaf"]


@pytest.fixture(params=KINDS)
def attributes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MutableMapping[str, Any]]:
    """An empty mapping of each kind that objects have."""
    if request.param == "array in memory":
        yield blosc2.zeros(3).attrs
    elif request.param == "array in a file":
        yield blosc2.zeros(3, urlpath=tmp_path / "a.b2nd").attrs
    elif request.param == "super-chunk in a directory":
        yield SChunk(data=b"abc", urlpath=tmp_path / "d", contiguous=False).attrs
    else:
        with blosc2.TreeStore(tmp_path / "t.b2d", mode="w") as tree:
            tree["/g/leaf"] = np.arange(3)
            yield {"tree": tree, "group": tree["/g"], "leaf": tree["/g/leaf"]}[request.param].attrs


def test_all_of_them_are_alike(attributes: Any) -> None:
    assert isinstance(attributes, MutableMapping)
    assert (dict(attributes), len(attributes), attributes[:], repr(attributes)) == ({}, 0, {}, "{}")
    attributes["a"] = (1, [2, {"b": None}])
    attributes[:] = {"c": 1j, "d": {1, 2}}
    attributes.update({"e": np.float32(0.5)}, f="text")
    attributes.update([("a", b"bytes")])
    want = {"a": b"bytes", "c": 1j, "d": {1, 2}, "e": 0.5, "f": "text"}
    assert attributes[:] == attributes.getall() == dict(attributes) == want
    assert attributes == want
    assert attributes.to_dict() == {name.encode(): value for name, value in want.items()}
    assert list(attributes) == attributes.get_names() == list(want)
    assert attributes.nvlmetalayers() == len(attributes) == 5
    assert repr(attributes) == repr(want)
    assert attributes.pop("a") == b"bytes"
    assert attributes.pop("a", 7) == attributes.get("a", 7) == attributes.setdefault("a", 7) == 7
    del attributes["a"]
    assert "a" not in attributes
    for act in (lambda: attributes["a"], lambda: attributes.pop("a"), lambda: attributes.__delitem__("a")):
        with pytest.raises(KeyError, match="not found"):
            act()
    with pytest.raises(NotImplementedError, match=r"unless \[:\]"):
        attributes[1:]
    attributes["long"] = "x" * 5000
    assert len(repr(attributes)) < 1000
    attributes.clear()
    assert dict(attributes) == {}
    attributes["again"] = 1
    assert attributes[:] == {"again": 1}


def test_arrays_of_this_package_are_stored_as_those_of_numpy(attributes: Any) -> None:
    array = blosc2.asarray(np.arange(6.0).reshape(2, 3))
    attributes["affine"], attributes["both"] = array, {"x": [array]}
    for found in (attributes["affine"], attributes[:]["both"]["x"][0]):
        assert type(found) is np.ndarray
        np.testing.assert_array_equal(found, array[:])


def test_limits_are_told_and_nothing_is_stored(attributes: Any) -> None:
    attributes["kept"] = 1
    for changes, kind, text in (
        ({"n" * 65537: 1}, ValueError, "1 to 65536 bytes"),
        ({"é" * 32769: 1}, ValueError, "not 65538"),
        ({"": 1}, ValueError, "1 to 31"),
        ({"a\0b": 1}, ValueError, "NUL"),
        ({5: 1}, TypeError, "must be a str"),
        ({f"n{n}": n for n in range(8000)}, ValueError, "8000 entries"),
        ({"a": 1 << 64}, (ValueError, OverflowError), "."),
        ({"a": object()}, TypeError, "can not serialize"),
        ({"a": {1: 2}}, TypeError, "."),
        ({"a": np.timedelta64(1, "s")}, TypeError, "can not serialize"),
    ):
        for act in (lambda c: attributes.update(c), lambda c: attributes.__setitem__(slice(None), {"good": 1, **c})):
            with pytest.raises(kind, match=text):
                act(changes)
    assert attributes[:] == {"kept": 1}


def test_names_of_any_length(attributes: Any) -> None:
    long = "semi_major_axis_of_the_reference_ellipsoid"
    attributes[long] = 6378137.0
    attributes.update({"é" * 40: {"a": (1, 2)}, "short": 1})
    assert attributes[:] == {"short": 1, long: 6378137.0, "é" * 40: {"a": (1, 2)}}
    assert (attributes[long], "é" * 40 in attributes, len(attributes)) == (6378137.0, True, 3)
    del attributes[long]
    assert sorted(attributes) == ["short", "é" * 40]


def test_more_entries_at_once_than_there_can_be(attributes: Any) -> None:
    with pytest.raises(ValueError, match="8000 entries"):
        attributes[:] = {f"n{n}": n for n in range(8001)}
    assert attributes[:] == {}
    attributes[:] = {f"n{n}": n for n in range(8000)}
    assert len(attributes) == 8000


def test_a_value_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "MAX_BUFFERSIZE", 1000)
    schunk = SChunk()
    with pytest.raises(ValueError, match=r"'a' has 1003 bytes, and 1000 are possible"):
        schunk.vlmeta["a"] = b"x" * 1000
    schunk.vlmeta["a"] = b"x" * 997
    with pytest.raises(ValueError, match="'m' has"):
        SChunk(meta={"m": b"x" * 1000})
    assert len(schunk.vlmeta) == 1


def test_a_bulk_read_is_of_one_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that another thread removes meanwhile is still read."""
    schunk = SChunk()
    schunk.vlmeta[:] = {"a": 1, "b": 2}
    other = schunk.vlmeta
    unpack = vlmeta.unpack

    def meanwhile(*args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        other.clear()
        return unpack(*args, **how)

    monkeypatch.setattr(vlmeta, "unpack", meanwhile)
    assert schunk.vlmeta[:] == {"a": 1, "b": 2}
    assert schunk.vlmeta[:] == {}


def test_names_with_zero_bytes_are_whole():
    frame = blosc2.asarray(np.arange(3), meta={"aXb": 1, "a": 2}).to_cframe()
    schunk = blosc2.ndarray_from_cframe(frame.replace(b"\xa3aXb", b"\xa3a\0b")).schunk
    assert dict(schunk.meta) == {**dict(schunk.meta), "a\0b": 1, "a": 2}
    assert "a\0" not in schunk.meta
    assert "a\ud800b" not in schunk.meta


MANY = """
import subprocess
import sys
import blosc2
handle = blosc2.open(sys.argv[1], "a", locking=True)
for n in range(20):
    handle.vlmeta["x" * 40 + f"{sys.argv[2]}_{n}"] = n
"""


def test_processes_that_add_long_names_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "a.b2frame"
    SChunk(data=b"abc", urlpath=path)
    done = [subprocess.Popen([sys.executable, "-c", MANY, str(path), str(n)]) for n in range(3)]
    assert [one.wait() for one in done] == [0, 0, 0]
    assert len(blosc2.open(path).vlmeta) == 60


def test_threads_that_add_long_names_lose_none() -> None:
    schunk = SChunk()

    def add(thread: int) -> None:
        for n in range(50):
            schunk.vlmeta["x" * 40 + f"{thread}_{n}"] = n

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(4)))
    assert len(schunk.vlmeta) == 200


def test_thousands_of_long_names_are_read_at_once() -> None:
    schunk = SChunk()
    names = {f"{n:06d}" * 6: n for n in range(5000)}
    schunk.vlmeta.update(names)
    assert schunk.vlmeta[:] == names
    assert dict(schunk.vlmeta) == names
    assert len(repr(schunk.vlmeta)) > 5000
