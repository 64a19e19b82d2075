"""Changes of a file are appended, then published: every state in between, and every failure, shows one version.

The states are those of FORMATS 8.1, built from the bytes before and after a change.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.schunks import decode_all

import blosc2
from blosc2 import SChunk, SpecialValue
from blosc2.exceptions import FormatError

# Header fields that make a version current: name -> bytes (FORMATS 1.1)
FIELDS = {"frame_len": slice(16, 24), "nbytes": slice(30, 38), "cbytes": slice(39, 47)}

ITEMS = np.arange(1000, dtype="<i4") // 7


def everything(path: Path) -> Any:
    """All that a file holds, whatever its checksums say; raises where something of it cannot be read."""
    found = blosc2.open(str(path), verify=False)
    frame = found._handle.frame
    decode_all(frame)
    data = found[...].tobytes() if isinstance(found, blosc2.NDArray) else found[:]
    shape = found.shape if isinstance(found, blosc2.NDArray) else found.nchunks
    return data, shape, dict(found.vlmeta)


def array_file(path: Path) -> None:
    array = blosc2.asarray(ITEMS, chunks=(300,), blocks=(100,), urlpath=str(path))
    array.vlmeta["kept"] = "old"


def schunk_file(path: Path) -> None:
    schunk = SChunk(chunksize=1200, data=ITEMS, urlpath=str(path))
    schunk.vlmeta["kept"] = "old"


def assign(x: Any) -> None:
    x[250:700] = np.arange(450, dtype="<i4") * 3


def grow(x: Any) -> None:
    x.append(np.arange(450, dtype="<i4"))


def shrink(x: Any) -> None:
    x.resize((301,))


def set_vlmeta(x: Any) -> None:
    x.vlmeta["kept"] = "new"


def append_chunk(x: Any) -> None:
    x.append_data(np.arange(300, dtype="<i4"))


def append_special(x: Any) -> None:
    x.fill_special(600, SpecialValue.ZERO)


def delete_chunk(x: Any) -> None:
    x.delete_chunk(1)


def lengthen_last(x: Any) -> None:
    x.set_slice(bytes(400), start=1000)


CHANGES: list[tuple[Callable[[Path], None], Callable[[Any], None]]] = [
    (array_file, assign), (array_file, grow), (array_file, shrink), (array_file, set_vlmeta),
    (schunk_file, set_vlmeta), (schunk_file, append_chunk), (schunk_file, append_special), (schunk_file, delete_chunk),
    (schunk_file, lengthen_last),
]  # fmt: skip

each_change = pytest.mark.parametrize(("make", "change"), CHANGES, ids=lambda f: f.__name__)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.b2frame"


class Versions:
    """A file before and after a change, with what each version holds."""

    def __init__(self, path: Path, make: Callable[[Path], None], change: Callable[[Any], None]) -> None:
        make(path)
        self.path = path
        self.before, self.old = path.read_bytes(), everything(path)
        change(blosc2.open(str(path), mode="a"))
        self.after, self.new = path.read_bytes(), everything(path)
        assert self.old != self.new
        self.end = int.from_bytes(self.before[FIELDS["frame_len"]], "big")
        self.header_len = int.from_bytes(self.before[11:15], "big")

    def show(self, data: bytes) -> Any:
        self.path.write_bytes(data)
        return everything(self.path)


@each_change
def test_an_unfinished_append_shows_the_old_version(path: Path, make: Any, change: Any) -> None:
    v = Versions(path, make, change)
    tail = v.after[v.end :]
    for size in {0, 1, 20, 31, 32, len(tail) // 2, len(tail) - 1, len(tail)}:
        assert v.show(v.before + tail[:size]) == v.old
        # and it can be changed: the remains are overwritten, unless they may have been visible for a moment
        change(blosc2.open(str(path), mode="a"))
        if size < len(tail):
            assert path.read_bytes() == v.after
        else:
            assert path.read_bytes()[v.header_len : len(v.after)] == v.after[v.header_len :]
            assert everything(path) == v.new
            assert [one for one in blosc2.check(path) if one.kind == "damage"] == []
    assert v.show(v.before + b"\xff" * 5000) == v.old
    change(blosc2.open(str(path), mode="a"))
    assert everything(path) == v.new
    assert path.stat().st_size == len(v.after)


@each_change
def test_half_written_headers(path: Path, make: Any, change: Any) -> None:
    v = Versions(path, make, change)
    differing = {name for name, field in FIELDS.items() if v.before[field] != v.after[field]}
    assert "frame_len" in differing
    for mask in range(1, 2 ** len(differing)):
        new = {name for bit, name in enumerate(sorted(differing)) if mask >> bit & 1}
        data = bytearray(v.before[: v.header_len] + v.after[v.header_len :])
        for name in new:
            data[FIELDS[name]] = v.after[FIELDS[name]]
        if new == differing:
            continue
        if new == {"frame_len"}:  # the old data with the new metadata
            shown = v.show(bytes(data))
            assert shown == (*v.old[:2], v.new[2])
            with pytest.raises(blosc2.FormatError, match="header"):  # which no version had, as its checksum says
                blosc2.open(str(path))
        else:
            with pytest.raises(blosc2.FormatError):
                v.show(bytes(data))


def test_a_file_that_changed_behind_the_handle_is_not_written(path: Path) -> None:
    array_file(path)
    one, two = blosc2.open(str(path), mode="a"), blosc2.open(str(path), mode="a")
    assign(one)
    after = path.read_bytes()
    with pytest.raises(blosc2.StaleHandleError, match=r"refresh.*locking=True") as caught:
        grow(two)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == after
    assert two.refresh() is True
    np.testing.assert_array_equal(two[:], one[:])
    shutil.copy(path, path.with_name("other"))
    os.replace(path.with_name("other"), path)
    with pytest.raises(blosc2.FormatError, match="refresh"):
        grow(two)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        grow(two)
    with pytest.raises(FileNotFoundError):
        two.refresh()
    np.testing.assert_array_equal(two[:], one[:])


def test_a_handle_works_on_after_the_process_went_to_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    array = blosc2.asarray(ITEMS, chunks=(300,), blocks=(100,), urlpath="a.b2nd")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir("other")
    array[0] = 5
    array.resize((0,))
    array.append([1, 2])
    assert array.refresh() is False
    assert array.urlpath == "a.b2nd"
    assert blosc2.open(tmp_path / "a.b2nd")[:].tolist() == [1, 2]
    assert sorted(os.listdir(tmp_path)) == ["a.b2nd", "other"]
    assert os.listdir(tmp_path / "other") == []


# --------------------------------------------------------------------- in memory


def test_memory_is_given_back_when_chunks_are_replaced_over_and_over(rng: np.random.Generator) -> None:
    array = blosc2.asarray(rng.integers(0, 1 << 60, 20000), chunks=(5000,), blocks=(5000,))
    live = array.cbytes
    largest = 0
    for n in range(60):
        array[n : n + 5] = n
        largest = max(largest, array.cbytes)
    assert largest < 8 * live
    assert len(array.to_cframe()) < 2 * live


@pytest.mark.filterwarnings("ignore:.*another handle or process changed this file:RuntimeWarning")  # rows that waited
def test_two_handles_of_one_file_never_damage_it(tmp_path: Path) -> None:
    path = str(tmp_path / "shared.b2nd")
    handles = [blosc2.asarray(np.arange(1000), chunks=(100,), urlpath=path), blosc2.open(path, mode="a")]
    refused: list[BaseException] = []

    def write(handle: Any, base: int) -> None:
        for i in range(60):
            try:
                handle[i] = base + i
            except FormatError as error:
                refused.append(error)
                handle.refresh()

    threads = [threading.Thread(target=write, args=(h, 10_000 * (n + 1))) for n, h in enumerate(handles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = blosc2.open(path)[:]
    assert (found[100:] == np.arange(100, 1000)).all()
    assert all(int(v) in (i, 10_000 + i, 20_000 + i) for i, v in enumerate(found[:60]))
    assert all("changed this file" in str(error) for error in refused)


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_bytes_and_copies_of_the_version_that_is_shown(mmap_mode: str | None, tmp_path: Path) -> None:
    """Another handle publishes a later one: its header is in the file, the reader's is not any more."""
    path = tmp_path / "a.b2nd"
    items = np.random.default_rng(0).integers(0, 99, (40, 50))
    writer = blosc2.asarray(items, chunks=(10, 50), blocks=(5, 50), urlpath=path)
    before, frame = path.read_bytes(), writer.to_cframe()
    reader = blosc2.open(path, mode="r", mmap_mode=mmap_mode)
    writer[5:25] = 7
    writer.schunk.vlmeta["a"] = 1
    assert path.read_bytes()[: len(before)] != before
    assert reader.to_cframe() == frame
    for copy in (reader.copy(), reader.copy(urlpath=tmp_path / "b.b2nd")):
        np.testing.assert_array_equal(copy[...], items)
        assert not len(copy.schunk.vlmeta)
    np.testing.assert_array_equal(blosc2.open(tmp_path / "b.b2nd")[...], items)
