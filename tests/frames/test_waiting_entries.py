"""Changes of metadata in files wait where they come fast: nobody who looks can tell, and nothing is lost."""

from __future__ import annotations

import copy
import errno
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import append, changeable


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change is cheap, nor has any waited for long."""
    monkeypatch.setattr(changeable.Costs, "is_cheap", lambda *_: False)
    monkeypatch.setattr(changeable.FileHandle, "is_due", False)
    monkeypatch.setattr(changeable.FileHandle, "is_late", False)


def an_array(path: Path, **how: Any) -> Any:
    return blosc2.asarray(np.arange(40).reshape(5, 8), urlpath=path, mode="w", **how)


def a_super_chunk(path: Path, **how: Any) -> Any:
    return blosc2.SChunk(chunksize=320, data=bytes(320), urlpath=str(path), mode="w", **how)


KINDS = pytest.mark.parametrize("make", [an_array, a_super_chunk])


def is_waiting(frame: Any) -> bool:
    return frame.vlmeta._handle.waiting is not None


def seen_by_others(path: Path) -> Any:
    """What another process finds, which knows nothing of what waits in this one."""
    code = "import sys, blosc2; print(blosc2.open(sys.argv[1]).vlmeta.getall())"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True, timeout=60)
    return eval(done.stdout)


# ------------------------------------------------------------------------------------------------ what waits
@KINDS
def test_entries_wait_and_are_seen(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "x"
    frame = make(path)
    size = path.stat().st_size
    for n in range(5):
        frame.vlmeta[f"k{n}"] = [n]
    del frame.attrs["k1"]
    frame.attrs["k0"] = "other"
    frame.vlmeta.update({"k1": 7, "k5": 8})
    want = {"k0": "other", "k2": [2], "k3": [3], "k4": [4], "k1": 7, "k5": 8}
    assert is_waiting(frame)
    assert path.stat().st_size == size
    assert list(frame.vlmeta.getall().items()) == list(frame.vlmeta[:].items()) == list(want.items())
    assert list(frame.vlmeta) == frame.vlmeta.get_names() == list(want)
    assert len(frame.vlmeta) == 6
    assert frame.vlmeta["k3"] == [3]
    assert "k1" in frame.vlmeta
    assert "k9" not in frame.vlmeta
    assert str(frame.vlmeta) == str(want)
    with pytest.raises(KeyError):
        frame.vlmeta["k9"]
    assert is_waiting(frame)  # for that nothing is published
    frame.flush()
    assert not is_waiting(frame)
    assert list(seen_by_others(path).items()) == list(frame.vlmeta.getall().items()) == list(want.items())


@KINDS
def test_what_is_in_the_file_shows_besides(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "x"
    frame = make(path)
    frame.vlmeta.update({"a": 1, "b": 2})
    frame.flush()
    frame.vlmeta["c"] = 3
    del frame.vlmeta["a"]
    assert is_waiting(frame)
    assert frame.vlmeta[:] == {"b": 2, "c": 3}
    frame.vlmeta.clear()
    assert not frame.vlmeta
    frame.vlmeta["b"] = 4
    assert is_waiting(frame)
    del frame
    assert seen_by_others(path) == {"b": 4}


@pytest.mark.parametrize(
    "look",
    [
        lambda a, _: blosc2.from_cframe(a.to_cframe()), lambda a, _: pickle.loads(pickle.dumps(a)),
        lambda a, _: copy.copy(a), lambda _, path: blosc2.open(path), lambda _, path: blosc2.open(path, mode="a"),
        lambda _, path: blosc2.open(path, mmap_mode="r"),
        lambda a, path: a.save(path.with_name("y.b2nd")) or blosc2.open(path.with_name("y.b2nd")),
        lambda a, path: (a.append([np.zeros(8, int)]) and a.flush()) or blosc2.open(path),
        lambda a, path: a.__setitem__(0, 1) or a.flush() or blosc2.open(path),
        lambda a, path: a.compact() and blosc2.open(path),
    ],
)  # fmt: skip
def test_whoever_looks_finds_it(tmp_path: Path, look: Any) -> None:
    path = tmp_path / "x.b2nd"
    array = an_array(path)
    array.vlmeta["k"] = 1
    assert is_waiting(array)
    assert look(array, path).vlmeta[:] == array.vlmeta[:] == {"k": 1}


def test_items_are_read_and_changed_meanwhile(tmp_path: Path) -> None:
    array, want = an_array(tmp_path / "x.b2nd"), np.arange(40).reshape(5, 8)
    for n in range(4):
        array.vlmeta["n"] = n
        np.testing.assert_array_equal(array[:], want)
        array.vlmeta["m"] = n
        assert array.shape == want.shape
        array.append(np.full((1, 8), n))
        array[0] = n
        want[0] = n
        want = np.append(want, [[n] * 8], 0)
    np.testing.assert_array_equal(array[:], want)
    assert array.vlmeta[:] == {"n": 3, "m": 3}


def test_it_is_published_when_it_is_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    array = an_array(tmp_path / "x.b2nd")
    monkeypatch.setattr(changeable, "_MOST_CHANGES", 3)
    waits = []
    for n in range(6):
        array.vlmeta["k"] = n
        waits.append(is_waiting(array))
    assert waits == [True, True, False] * 2
    array.vlmeta["large"] = bytes(5000)
    assert not is_waiting(array)
    monkeypatch.setattr(changeable, "_MOST_PACKED", 5000)
    array.vlmeta["a"] = bytes(3000)
    assert is_waiting(array)
    array.vlmeta["a"] = bytes(3000)
    assert not is_waiting(array)


def test_entries_that_share_one(tmp_path: Path) -> None:
    """Those with long names are published at once; others after them, too."""
    path, long = tmp_path / "x.b2nd", "long" * 20
    array = an_array(path)
    array.vlmeta["k"] = 1
    array.vlmeta[long] = 2
    array.vlmeta["l"] = 3
    del array.vlmeta["k"]
    assert array.vlmeta[:] == blosc2.open(path).vlmeta[:] == {"l": 3, long: 2}


# ------------------------------------------------------------------------------------------------ what fails
@KINDS
def test_a_full_disk(tmp_path: Path, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The change that was to publish is taken back; what waited before waits on, and is read and saved from memory."""
    path = tmp_path / "x.b2nd"
    array = make(path)
    items = array[:]
    array.vlmeta["k"] = 1

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(append, "_write_at", full)
        patch.setattr(changeable, "_MOST_CHANGES", 2)
        for _ in range(2):
            with pytest.raises(OSError, match="No space"):
                array.vlmeta["l"] = 2
            assert array.vlmeta[:] == {"k": 1}
        assert bytes(array[:]) == bytes(items)
        assert blosc2.from_cframe(array.to_cframe()).vlmeta[:] == {"k": 1}
        assert is_waiting(array)
    assert seen_by_others(path) == {}
    array.vlmeta["l"] = 3
    array.flush()
    assert seen_by_others(path) == {"k": 1, "l": 3}
