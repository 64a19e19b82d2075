"""`locking=True`: handles of several processes that change one file, and follow each other."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import shared
from blosc2.exceptions import ReadOnlyError, StoreLockedError

if sys.platform != "win32":
    import fcntl

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no advisory locks")

CONTIGUOUS = pytest.mark.parametrize("contiguous", [True, False])


def super_chunk(path: Path, contiguous: bool, locking: bool = True) -> Any:
    """Four chunks of 100 numbers."""
    return blosc2.SChunk(
        800, np.arange(400), urlpath=path, contiguous=contiguous, locking=locking, cparams={"typesize": 8}
    )


def lock_file(path: Path) -> Path:
    return path / ".b2lock" if path.is_dir() else path.with_name(path.name + ".b2lock")


def in_processes(code: str, path: Path, count: int) -> list[subprocess.Popen[str]]:
    """Start programs that get the path and a number of their own."""
    text = "import sys\nimport numpy as np\nimport blosc2\npath, me = sys.argv[1], int(sys.argv[2])\n" + code
    return [
        subprocess.Popen([sys.executable, "-c", text, str(path), str(n)], stderr=subprocess.PIPE, text=True)
        for n in range(count)
    ]


def ended(programs: list[subprocess.Popen[str]]) -> None:
    for program in programs:
        _, error = program.communicate(timeout=120)
        assert program.returncode == 0, error


@CONTIGUOUS
def test_the_lock_file_comes_and_goes_with_the_data(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "data.b2frame"
    schunk = super_chunk(path, contiguous)
    assert schunk.locking
    lock = lock_file(path)
    assert lock.stat().st_size == 16
    schunk.append_data(np.arange(100))
    assert np.array_equal(np.frombuffer(schunk[:], "i8"), np.r_[0:400, 0:100])
    blosc2.remove_urlpath(path)
    assert not path.exists()
    assert not lock.exists()


@CONTIGUOUS
def test_no_lock_unless_asked_for(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "data.b2frame"
    schunk = super_chunk(path, contiguous, locking=False)
    schunk.append_data(np.arange(100))
    with schunk.holding_lock():
        schunk.lock()
        schunk.unlock()
    assert not schunk.locking
    assert not lock_file(path).exists()


@CONTIGUOUS
@pytest.mark.parametrize("mode", ["r", "a"])
def test_handles_follow_each_other(contiguous: bool, mode: str, tmp_path: Path) -> None:
    path = tmp_path / "data.b2frame"
    super_chunk(path, contiguous)
    one = blosc2.open(path, "a", locking=True)
    other = blosc2.SChunk(urlpath=path, mode="r", contiguous=contiguous, locking=True)
    if mode == "a":
        other = blosc2.open(path, "a", locking=True)
    assert other.locking
    one.update_special(1, blosc2.SpecialValue.ZERO)
    assert other.decompress_chunk(1) == bytes(800)
    one.vlmeta["unit"] = "mm"
    assert "unit" in other.vlmeta
    one.vlmeta["unit"] = "cm"
    assert other.vlmeta["unit"] == "cm"
    del one.vlmeta["unit"]
    assert "unit" not in other.vlmeta
    one.append_data(np.arange(100))
    with other.holding_lock():
        assert other.nchunks == 5
    if mode == "a":
        other.append_data(np.arange(100))
        assert one.nchunks == 6
    else:
        with pytest.raises(ReadOnlyError):
            other.append_data(np.arange(100))


@CONTIGUOUS
@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("pause", [0, 0.03])
def test_handles_follow_a_writer_that_does_not_lock(contiguous: bool, mode: str, pause: float, tmp_path: Path) -> None:
    """However fast one change follows the other, and where the file is written anew."""
    path = tmp_path / "data.b2nd"
    blosc2.zeros((4, 8), dtype="i4", chunks=(16, 8), urlpath=path, contiguous=contiguous).flush()
    reader = blosc2.open(path, mode=mode, locking=True)
    writer = blosc2.open(path, mode="a")
    for n in range(1, 40):
        writer[0] = n
        writer.flush()
        time.sleep(pause if n % 5 else 0)
        assert (reader[0] == n).all()
    writer.append(np.full((2, 8), 7, "i4"))
    writer.flush()
    assert (reader.shape, len(reader)) == ((6, 8), 6)
    writer.vlmeta["k"] = [1]
    writer.flush()
    assert reader.vlmeta["k"] == [1]
    writer.compact()
    assert (reader[5] == 7).all()
    other = blosc2.full((3, 8), 9, dtype="i4", urlpath=path, mode="w", contiguous=contiguous)
    assert reader.shape == other.shape
    assert (reader[:] == 9).all()


@CONTIGUOUS
def test_a_reader_that_follows_a_program(contiguous: bool, tmp_path: Path) -> None:
    """Every version that it shows is whole, and the last one is that of the writer's end."""
    path = tmp_path / "data.b2nd"
    blosc2.zeros((0, 8), dtype="i4", chunks=(16, 8), urlpath=path, contiguous=contiguous)
    reader = blosc2.open(path, mode="r", locking=True)
    writers = in_processes(
        "a = blosc2.open(path, mode='a')\n"
        "for n in range(300): a.append(np.full((1 + n % 3, 8), n, 'i4')); a.vlmeta['n'] = len(a)\n",
        path, 1,
    )  # fmt: skip
    seen = []
    while writers[0].poll() is None:
        items = reader[:]
        assert (items == items[:, :1]).all()
        assert (np.diff(items[:, 0]) >= 0).all()
        seen.append(len(items))
    ended(writers)
    assert seen == sorted(seen)
    assert len(set(seen)) > 3
    assert len(reader) == reader.vlmeta["n"] == 600


def test_what_is_removed_is_shown_on(tmp_path: Path) -> None:
    path = tmp_path / "data.b2nd"
    blosc2.zeros((4, 8), dtype="i4", urlpath=path)
    reader = blosc2.open(path, mode="r", locking=True)
    path.unlink()
    assert (reader[0] == 0).all()


def test_an_unchanged_file_is_asked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By one call, as soon as no change could come that leaves no trace."""
    path = tmp_path / "data.b2nd"
    blosc2.zeros((4, 8), dtype="i4", urlpath=path)
    reader = blosc2.open(path, mode="r", locking=True)
    time.sleep(0.05)
    reader[0]
    calls = []
    monkeypatch.setattr(shared, "begins_with", lambda *_: calls.append(1) or True)
    for _ in range(5):
        reader[0]
    assert not calls


def test_the_shape_is_the_newest(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    one = blosc2.zeros((2, 3), chunks=(1, 3), blocks=(1, 3), urlpath=path, locking=True)
    other, third = (blosc2.open(path, locking=True) for _ in range(2))
    one.resize((4, 3))
    one[3] = 7
    assert repr(other).startswith("<NDArray (2, 3)")  # which looks nothing up
    assert other.shape == (4, 3)
    assert len(other) == 4
    assert np.array_equal(other[-1], [7, 7, 7])
    assert third.refresh()
    assert third.shape == (4, 3)
    assert not third.refresh()


def test_views_and_pickles_lock_too(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.zeros((1, 3), urlpath=path, locking=True)
    other = blosc2.open(path, "a", locking=True)
    view = array.squeeze(0)
    other[0, 0] = 1
    view[1] = 2
    travelled = pickle.loads(pickle.dumps(other))
    array[0, 2] = 3
    for found in (array, other, travelled):
        assert found.schunk.locking
        assert np.array_equal(found[:], [[1, 2, 3]])
    assert view.schunk.locking
    with view.holding_lock():
        view[0] = view[0] + 1
    assert other[0, 0] == 2


def test_a_new_file_of_the_same_name_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    old = blosc2.zeros(3, urlpath=path, locking=True)
    blosc2.full(5, 2.0, urlpath=path, mode="w", locking=True)
    assert np.array_equal(old[:], [2] * 5)
    old[0] = 1
    assert blosc2.open(path)[0] == 1


def test_threads_of_one_handle_wait_for_each_other(tmp_path: Path) -> None:
    array = blosc2.zeros(1, "i8", urlpath=tmp_path / "count.b2nd", locking=True)

    def count() -> None:
        for _ in range(10):
            with array.holding_lock(), array.schunk.holding_lock():  # once more does no harm
                array[0] = array[0] + 1

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert array[0] == 30


@CONTIGUOUS
def test_no_append_of_several_programs_is_lost(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.arange(
        37, dtype="i8", chunks=(100,), blocks=(25,), urlpath=path, locking=True, contiguous=contiguous
    )
    programs = in_processes(
        """
array = blosc2.open(path, "a", locking=True)
for n in range(15):
    with array.holding_lock():
        array.append(np.full(25, 100 * me + n))
        array.vlmeta[f"writer {me}"] = n
""",
        path, 3,
    )  # fmt: skip
    while any(program.poll() is None for program in programs):
        items = array[37:]
        assert np.array_equal(items.reshape(-1, 25).min(1), items.reshape(-1, 25).max(1))
    ended(programs)
    assert np.array_equal(array[:37], np.arange(37))
    assert sorted(array[37:].reshape(-1, 25)[:, 0]) == [100 * writer + n for writer in range(3) for n in range(15)]
    assert array.vlmeta[:] == {f"writer {n}": 14 for n in range(3)}


def test_opening_while_others_write(tmp_path: Path) -> None:
    path = tmp_path / "data.b2frame"
    super_chunk(path, contiguous=True)
    writers = in_processes(
        """
schunk = blosc2.open(path, "a", locking=True)
rng = np.random.default_rng(me)
for n in range(40):
    if n % 2:
        schunk.update_chunk(me, blosc2.compress2(rng.integers(0, 2**62, 100), typesize=8))
    else:
        schunk.update_special(me, blosc2.SpecialValue.UNINIT)
""",
        path, 2,
    )  # fmt: skip
    readers = in_processes(
        """
for _ in range(60):
    assert len(blosc2.open(path, locking=True)[:]) == 3200
""",
        path, 2,
    )  # fmt: skip
    ended(writers + readers)


def test_the_lock_is_gone_with_its_program(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.zeros(3, urlpath=path, locking=True)
    programs = in_processes(
        """
import os
array = blosc2.open(path, "a", locking=True)
array.schunk.lock()
array[0] = 1
os._exit(0)
""",
        path, 1,
    )  # fmt: skip
    ended(programs)
    array[1] = 1
    assert np.array_equal(array[:], [1, 1, 0])


@CONTIGUOUS
@pytest.mark.parametrize("locking", [True, False])
def test_a_change_waits_as_long_as_it_is_told(contiguous: bool, locking: bool, tmp_path: Path) -> None:
    path = tmp_path / "data.b2nd"
    blosc2.zeros(4, urlpath=path, contiguous=contiguous, locking=locking)
    array = blosc2.open(path, mode="a", locking=locking, timeout=0.2)
    array[0] = 1
    array.flush()
    locked = lock_file(path) if locking else path  # as another program locks it
    number = os.open(locked, os.O_RDONLY)
    fcntl.flock(number, fcntl.LOCK_EX)
    last = threading.Timer(10, fcntl.flock, (number, fcntl.LOCK_UN))  # so that it fails where nothing else ends it
    last.start()
    try:
        begun = time.monotonic()
        with pytest.raises(StoreLockedError, match=r"data\.b2nd: .*wait longer with timeout="):
            array[0] = 2
            array.flush()
        if locking:
            with pytest.raises(StoreLockedError):
                blosc2.open(path, mode="a", locking=True, timeout=0)
        assert time.monotonic() - begun >= 0.2
    finally:
        last.cancel()
        last.join()
        os.close(number)
    array[1] = 3
    array.flush()
    assert blosc2.open(path)[1] == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_child_does_not_keep_the_lock_of_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.zeros(3, urlpath=path, locking=True)
    there, back = os.pipe()
    with array.holding_lock():
        child = os.fork()
        if not child:
            os.close(back)
            os.read(there, 1)  # until the parent has closed its end
            os._exit(0)
        array[0] = 1
    other = blosc2.open(path, "a", locking=True)
    other[1] = 2
    assert np.array_equal(array[:], [1, 2, 0])
    os.close(back)
    os.close(there)
    assert os.waitpid(child, 0)[1] == 0


def test_where_there_can_be_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    for make in (blosc2.SChunk, lambda **how: blosc2.zeros(3, **how)):
        with pytest.raises(ValueError, match="urlpath"):
            make(locking=True)
        with pytest.raises(ValueError, match="mmap_mode"):
            make(locking=True, urlpath=path, mmap_mode="w+")
    assert list(tmp_path.iterdir()) == []
    blosc2.zeros(3, urlpath=path)
    with pytest.raises(ValueError, match="mmap_mode"):
        blosc2.open(path, mmap_mode="r", locking=True)
    with pytest.raises(ValueError, match="offset"):
        blosc2.open(path, offset=8, locking=True)
    with pytest.raises(FileNotFoundError):
        blosc2.open(tmp_path / "none.b2nd", locking=True)
    with pytest.raises(RuntimeError, match="lock"):
        blosc2.open(path, locking=True).schunk.unlock()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["array.b2nd", "array.b2nd.b2lock"]


def test_the_count_of_changes(tmp_path: Path) -> None:
    """Other programs know by it that there is something new: 8 bytes of zero, then the number."""
    path = tmp_path / "array.b2nd"
    array = blosc2.zeros(3, urlpath=path, locking=True)

    def count() -> int:
        content = lock_file(path).read_bytes()
        assert content[:8] == bytes(8)
        return int.from_bytes(content[8:], "little")

    before = count()
    array[0] = 1
    assert count() == before + 1
    assert array[0] == 1
    assert blosc2.open(path, locking=True)[1] == 0
    assert count() == before + 1


def test_a_folder_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "array.b2nd"
    blosc2.zeros(3, urlpath=path)
    really = os.open

    def refusing(name: Any, flags: int, *mode: Any, **how: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(13, "no", name)
        return really(name, flags, *mode, **how)

    monkeypatch.setattr(os, "open", refusing)
    assert np.array_equal(blosc2.open(path, locking=True)[:], [0, 0, 0])
    with pytest.raises(PermissionError):
        blosc2.open(path, "a", locking=True)


def test_the_raw_open_locks(tmp_path: Path) -> None:
    path = tmp_path / "array.b2nd"
    array = blosc2.zeros(3, urlpath=path, locking=True)
    found = blosc2.blosc2_ext.open(path, "a", 0, locking=True)
    array[0] = 1
    assert found[0] == 1
