"""A handle that has written most of its file leaves it without dead bytes, and others go on from there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import changeable


def noise(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 30, count, np.int32)


def changed(path: Path) -> Any:
    """An array of which most chunks were replaced once."""
    array = blosc2.asarray(noise(4000), chunks=(500,), blocks=(100,), urlpath=path, mode="w")
    for n in range(5):
        array[500 * n : 500 * n + 500] = noise(500, n + 2)
    array.vlmeta["note"] = [1, 2]
    return array


def is_compact(path: Path) -> bool:
    before = path.stat().st_size
    blosc2.open(path, mode="a").compact()
    return before == path.stat().st_size


@pytest.mark.parametrize("end", ["with", "last reference", "exit"])
def test_it_is_left_compact(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.b2nd"
    if end == "exit":
        code = "import sys; sys.path[:0] = [sys.argv[1]]; import pathlib, test_left_compact as t\n"
        code += "kept = t.changed(pathlib.Path(sys.argv[2]))"
        subprocess.run([sys.executable, "-c", code, str(Path(__file__).parent), str(path)], check=True, timeout=60)
    else:
        array = changed(path)
        large = path.stat().st_size
        if end == "with":
            with array:
                pass
            np.testing.assert_array_equal(array[:500], noise(500, 2))
            array[0] = 7
            assert blosc2.open(path)[0] == 7
            array[0] = noise(500, 2)[0]
        del array
        assert path.stat().st_size < 0.7 * large
    assert is_compact(path)
    found = blosc2.open(path)
    np.testing.assert_array_equal(found[:2500], np.concatenate([noise(500, n + 2) for n in range(5)]))
    np.testing.assert_array_equal(found[2500:], noise(4000)[2500:])
    assert found.vlmeta[:] == {"note": [1, 2]}
    assert blosc2.check(str(path)).ok


def test_who_has_written_little_leaves_it(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = changed(path)
    blosc2.open(path, mode="a").vlmeta["more"] = 1
    size, inode = path.stat().st_size, path.stat().st_ino
    del array  # shows an older version
    assert (path.stat().st_size, path.stat().st_ino) == (size, inode)


@pytest.mark.parametrize("act", [
    lambda a: a.append(noise(700)), lambda a: a.append(noise(3)), lambda a: a.vlmeta.update({"b": 1}),
    lambda a: a.resize((100,)), lambda a: a.__setitem__(slice(2, 3000), 5), lambda a: a.__setitem__([7, 3900], 5),
    lambda a: a.compact(), lambda a: a.schunk.update_data(1, noise(500)),
])  # fmt: skip
@pytest.mark.parametrize("block", [False, True])
def test_others_go_on_from_there(tmp_path: Path, act: Any, block: bool) -> None:
    """What they change is based on the version that is still there, in another file."""
    path = tmp_path / "x.b2nd"
    first = changed(path)
    other, expected = blosc2.open(path, mode="a"), first.copy()
    inode = path.stat().st_ino
    if block and act.__code__.co_names[0] != "compact":
        with other.transaction():
            del first
            assert path.stat().st_ino != inode
            act(other)
    else:
        del first
        assert path.stat().st_ino != inode
        act(other)
    act(expected)
    assert dict(other.vlmeta) == dict(expected.vlmeta) == dict(blosc2.open(path).vlmeta)
    for one in (other, blosc2.open(path)):
        np.testing.assert_array_equal(one[:], expected[:])
    assert blosc2.check(str(path)).ok


def test_what_lies_behind_a_compact_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a killed writer leaves it. Without dead bytes in the frame a new file would be a copy, which others refuse."""
    path = tmp_path / "x.b2nd"
    array, second = changed(path), blosc2.open(path, mode="a")
    for n in range(24):
        second[500 * (n % 8) : 500 * (n % 8) + 500] = noise(500, n + 20)
    second.flush()
    array.refresh()
    del second  # which leaves the file compact
    other = blosc2.open(path, mode="a")

    def broken(*_: Any, **__: Any) -> None:
        raise OSError(5, "broken")

    with monkeypatch.context() as patch:
        patch.setattr("blosc2._frames.append.NextVersion.end", broken)
        with pytest.raises(OSError, match="broken"):
            array[:500] = noise(500, 99)
    with path.open("ab") as file:
        file.write(b"a chunk" * 1000)
    del array
    other[0] = 5
    assert blosc2.open(path)[0] == 5


@pytest.mark.parametrize("act", [
    lambda a: a.vlmeta.update({"b": 1}), lambda a: a.__setitem__(slice(2, 3000), 5), lambda a: a.append(noise(3)),
])  # fmt: skip
def test_who_waits_for_the_lock_meanwhile_changes_the_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any
) -> None:
    """The lock that it gets then is that of a file without a name."""
    path = tmp_path / "x.b2nd"
    first = changed(path)
    other, expected = blosc2.open(path, mode="a"), first.copy()
    lock, inode = changeable.LockedFile, path.stat().st_ino

    def waited(*given: Any, **how: Any) -> Any:
        monkeypatch.setattr(changeable, "LockedFile", lock)
        first._handle.end()
        assert path.stat().st_ino != inode
        return lock(*given, **how)

    monkeypatch.setattr(changeable, "LockedFile", waited)
    for one in (other, expected):
        act(one)
    other.flush()
    for one in (other, blosc2.open(path)):
        assert dict(one.vlmeta) == dict(expected.vlmeta)
        np.testing.assert_array_equal(one[:], expected[:])
    assert blosc2.check(str(path)).ok
