"""Changes of metadata in files wait where they come fast: nobody who looks can tell, and nothing is lost."""

from __future__ import annotations

import copy
import errno
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames import append, changeable

#: What programs of their own begin with: there, too, no change is cheap, nor old.
SLOW = """
import os, sys
import blosc2
from blosc2._frames.changeable import Costs, FileHandle
Costs.is_cheap = lambda self, allowance: False
FileHandle.is_due = FileHandle.is_late = False
"""


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


@pytest.mark.parametrize(("how", "waits"), [({"durable": True}, False), ({"locking": True}, False), ({}, True)])
def test_who_asked_for_it_waits_for_nothing(tmp_path: Path, how: Any, waits: bool) -> None:
    path = tmp_path / "x.b2nd"
    array = an_array(path, **how)
    array.vlmeta["k"] = 1
    assert is_waiting(array) is waits
    assert seen_by_others(path) == ({} if waits else {"k": 1})


def test_the_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change is published at once if little time went into that; after a second with the next one."""
    monkeypatch.undo()
    array = an_array(tmp_path / "x.b2nd")
    costs = array._handle._costs
    array.vlmeta["k"] = 1
    assert not is_waiting(array)
    with monkeypatch.context() as patch:
        patch.setattr(changeable.FileHandle, "is_late", False)  # for the thread, which would come before
        costs._took, costs._ended = 10.0, time.monotonic() + 100
        array.vlmeta["k"] = 2
        assert is_waiting(array)
        costs._ended = time.monotonic() - changeable.LONGEST_WAIT
        array.vlmeta["k"] = 3
        assert not is_waiting(array)
    costs._took, costs._ended = 10.0, time.monotonic() + 100
    array.vlmeta["k"] = 4
    assert is_waiting(array)
    costs._ended = time.monotonic() - changeable.LONGEST_WAIT
    until = time.monotonic() + 20
    while is_waiting(array) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_waiting(array)  # a thread has published it
    assert array.vlmeta["k"] == 4


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


def test_a_transaction_keeps_or_drops_all(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = an_array(path)
    array.vlmeta["k"] = 1
    with pytest.raises(KeyError), array.transaction():
        array.vlmeta["l"] = 2
        assert array.vlmeta[:] == {"k": 1, "l": 2}
        raise KeyError
    assert array.vlmeta[:] == seen_by_others(path) == {"k": 1}


# ------------------------------------------------------------------------------------------------ who publishes
@pytest.mark.parametrize(
    "end",
    [
        "", "del a", "a.flush(); os._exit(0)", "a.__exit__(None, None, None); os._exit(0)",
        "pid = os.fork()\nif not pid: os._exit(len(a.vlmeta) != 6)\nos._exit(os.waitpid(pid, 0)[1] != 0)",
    ],
)  # fmt: skip
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_it_is_published_in_the_end(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.b2nd"
    code = f"{SLOW}a = blosc2.open(sys.argv[1], mode='a')\nfor n in range(6): a.vlmeta[f'k{{n}}'] = n\n"
    code += f"assert a._handle.waiting is not None\n{end}"
    an_array(path)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert seen_by_others(path) == {f"k{n}": n for n in range(6)}


def test_a_kill_loses_only_what_waited(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    code = f"{SLOW}a = blosc2.open(sys.argv[1], mode='a')\na.attrs['k'] = 1; a.flush(); a.attrs['k'] = 2\nos._exit(9)"
    an_array(path)
    assert subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=False).returncode == 9
    assert seen_by_others(path) == {"k": 1}


def test_another_handle_comes_second(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = an_array(path)
    other = blosc2.open(path, mode="a")
    array.vlmeta["k"] = 1
    with pytest.raises(blosc2.StaleHandleError):
        other.vlmeta["k"] = 2
        other.flush()
    assert other.refresh()
    assert other.vlmeta[:] == {"k": 1}


@pytest.mark.filterwarnings("error")
def test_a_file_that_is_removed_or_replaced(tmp_path: Path) -> None:
    """Nobody is told of a loss."""
    path = tmp_path / "x.b2nd"
    for _ in range(2):
        array = an_array(path)
        array.vlmeta["k"] = 1
    blosc2.remove_urlpath(path)
    array = an_array(path)
    assert not array.vlmeta


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
