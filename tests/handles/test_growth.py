"""Files that grow keep to a size: what old versions leave behind is left out before it outweighs the rest."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._frames import append

SLACK = 1 << 13


@pytest.fixture(autouse=True)
def _early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are written anew too, and nothing waits for the disk."""
    monkeypatch.setattr(append, "_SLACK", SLACK // append._WAITING)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def whole(path: Any, folder: Path) -> int:
    """Bytes of a copy of a file without dead bytes."""
    copy = folder / "copied"
    shutil.copyfile(path, copy)
    blosc2.open(copy, mode="a").compact()
    return copy.stat().st_size


def is_bounded(path: Any, folder: Path) -> bool:
    size = os.stat(path).st_size
    if size <= SLACK:
        return True
    live = whole(path, folder)
    return size <= 2 * live + SLACK


def noise(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1 << 30, count, np.int32)


STEP = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 400)),
    st.tuples(st.just("resize"), st.integers(0, 3000)),
    st.tuples(st.just("set"), st.integers(0, 3000), st.integers(1, 300)),
    st.tuples(st.just("zero"), st.integers(0, 3000), st.integers(1, 300)),
    st.tuples(st.just("metadata"), st.integers(0, 2000)),
    st.tuples(st.just("open")),
    st.tuples(st.just("compact")),
)


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEP, min_size=3, max_size=60), chunk=st.sampled_from([7, 64, 500]), mapped=st.booleans())
def test_any_changes_of_an_array(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], chunk: int, mapped: bool
) -> None:
    folder = tmp_path_factory.mktemp("grown")
    path = str(folder / "x.b2nd")
    how: Any = {"mmap_mode": "r+"} if mapped else {"mode": "a"}
    blosc2.zeros(0, "i4", chunks=(chunk,), urlpath=path)
    array = blosc2.open(path, **how)
    model = np.zeros(0, "i4")
    metadata = b""
    for number, (kind, *arguments) in enumerate(steps):
        if kind == "append":
            model = np.concatenate([model, noise(arguments[0], number)])
            array.append(noise(arguments[0], number))
        elif kind == "resize":
            more = np.zeros(max(0, arguments[0] - len(model)), "i4")
            model = np.concatenate([model[: arguments[0]], more])
            array.resize(arguments[0])
        elif kind in ("set", "zero"):
            part = slice(arguments[0], arguments[0] + arguments[1])
            values = noise(len(model[part]), number) if kind == "set" else 0
            model[part] = values
            array[part] = values
        elif kind == "metadata":
            metadata = np.random.default_rng(number).bytes(arguments[0])
            array.vlmeta["x"] = metadata
        elif kind == "open":
            array = blosc2.open(path, **how)
        else:
            array.compact()
        assert is_bounded(path, folder)
    for found in (array, blosc2.open(path), blosc2.open(path, mmap_mode="r", verify=True)):
        np.testing.assert_array_equal(found[:], model)
        assert not metadata or found.vlmeta["x"] == metadata
    assert blosc2.check(path).ok


@pytest.mark.parametrize("rows", [1, 7, 50])
def test_a_file_that_was_never_flushed_stays_small(tmp_path: Path, rows: int) -> None:
    """Who makes a file grow has it written anew as soon as that costs half of what was written."""
    path = tmp_path / "x.b2nd"
    array = blosc2.zeros((0, 100), dtype="i4", chunks=(10, 100), blocks=(1, 100), urlpath=path)
    for n in range(120):
        array.append(noise(100 * rows, n).reshape(rows, 100))
        assert os.stat(path).st_size <= 2 * whole(path, tmp_path) + SLACK
    array.vlmeta["note"] = "x"
    array[:] = 0
    assert os.stat(path).st_size <= 2 * whole(path, tmp_path) + SLACK


def grown(path: Path, how: Any = None) -> Any:
    """An array with so many dead bytes that soon the file will be written anew."""
    blosc2.asarray(noise(1000), chunks=(100,), urlpath=path, mode="w")
    return blosc2.open(path, **(how or {"mode": "a"}))


def grow(array: Any, path: Path, most: int = 400) -> bool:
    """Change an array until its file is written anew; False if that does not happen."""
    inode = path.stat().st_ino
    size = 0
    for n in range(most):
        array[:100] = n
        if path.stat().st_ino != inode or path.stat().st_size < size:
            return True
        size = path.stat().st_size
    return False


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = grown(path)
    path.chmod(0o640)
    assert grow(array, path)
    assert path.stat().st_mode & 0o777 == 0o640


def test_a_file_with_two_names_keeps_both(tmp_path: Path) -> None:
    path, name = tmp_path / "x.b2nd", tmp_path / "y.b2nd"
    array = grown(path)
    os.link(path, name)
    assert not grow(array, path)
    np.testing.assert_array_equal(blosc2.open(name)[:], array[:])
    name.unlink()
    assert grow(array, path)


def failing(code: int) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EBUSY])
@pytest.mark.parametrize("name", ["open", "replace", "copy_file_range"])
def test_where_no_new_file_can_be_made_appends_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, name: str
) -> None:
    path = tmp_path / "x.b2nd"
    array = grown(path)
    with monkeypatch.context() as patch:
        if name == "open":
            patch.setattr(append, "NewFile", failing(code))
        elif name == "replace":
            patch.setattr(os, name, failing(code))
        else:
            patch.setattr(append, "write_parts", failing(code))
        tries = 0

        def counted(*arguments: Any, **keywords: Any) -> Any:
            nonlocal tries
            tries += 1
            return real(*arguments, **keywords)

        real = append.Growth._write_anew
        patch.setattr(append.Growth, "_write_anew", counted)
        assert not grow(array, path, 1000)
        assert 0 < tries < 100  # it is not tried for each append
    model = noise(1000)
    model[:100] = 999
    np.testing.assert_array_equal(array[:], model)
    np.testing.assert_array_equal(blosc2.open(path)[:], model)
    assert os.listdir(tmp_path) == ["x.b2nd"]
    assert grow(array, path, 4000)
    assert is_bounded(path, tmp_path)


def test_what_killed_writers_left_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = grown(path)
    (tmp_path / ".x.b2nd.grown.0123abcd.tmp").write_bytes(b"left")
    assert grow(array, path)
    assert os.listdir(tmp_path) == ["x.b2nd"]


def test_files_of_other_programs_grow_too(tmp_path: Path) -> None:
    """Without checksums, until they are written anew."""
    path = tmp_path / "x.b2nd"
    path.write_bytes(blosc2.asarray(noise(1000), chunks=(100,)).to_cframe())
    array = blosc2.open(path, mode="a")
    assert grow(array, path)
    assert blosc2.check(path).ok
    np.testing.assert_array_equal(blosc2.open(path)[100:], noise(1000)[100:])


WRITER = """
import sys, numpy as np, blosc2
from blosc2._frames import append
append._SLACK = 1 << 9
array = blosc2.open(sys.argv[1], mode="a", locking=True)
for n in range(int(sys.argv[3])):
    with array.holding_lock():
        array.append(np.full(10, int(sys.argv[2]), "i4"))
        array[0] = array[0] + 1
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_two_processes_that_share_a_file(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.zeros(1, "i4", chunks=(32,), urlpath=path, locking=True)
    children = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(number), "150"], env=os.environ | {
            "PYTHONPATH": os.pathsep.join(sys.path)}) for number in (1, 2)
    ]  # fmt: skip
    assert [child.wait(120) for child in children] == [0, 0]
    items = array[:]
    assert items[0] == 300
    assert sorted(items[1:].tolist()) == [1] * 1500 + [2] * 1500
    assert is_bounded(path, tmp_path)
    assert blosc2.check(path).ok
