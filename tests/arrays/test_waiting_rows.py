"""Small changes of arrays in files wait where they come fast: nobody who looks can tell, and nothing is lost."""

from __future__ import annotations

import copy
import errno
import gc
import io
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2 import _arrays
from blosc2._arrays import waiting_rows
from blosc2._frames import append, changeable
from blosc2._tools.cli import main

#: What programs of their own begin with: there, too, no change is cheap, nor old.
SLOW = """
import gc, os, sys, time
import numpy as np
import blosc2
from blosc2._frames import changeable
from blosc2._frames.changeable import FileHandle
FileHandle.is_due = FileHandle.is_late = False
"""


@pytest.fixture(autouse=True)
def _slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """No change is cheap, nor has any waited for long."""
    monkeypatch.setattr(changeable.FileHandle, "is_due", False)
    monkeypatch.setattr(changeable.FileHandle, "is_late", False)


def rows_of(count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 1000, (count, 8), np.int32)


def new(path: Path, rows: int = 0, **how: Any) -> Any:
    return blosc2.asarray(rows_of(rows), chunks=(16, 8), blocks=(4, 8), urlpath=path, mode="w", **how)


def is_waiting(array: Any) -> bool:
    return array._handle.waiting is not None


def seen_by_others(path: Path) -> Any:
    """What another process finds, which knows nothing of what waits in this one."""
    code = "import sys, blosc2; a = blosc2.open(sys.argv[1])\n"
    code += "sys.stdout.buffer.write(str(a.shape).encode() + a[:].tobytes())"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, check=True, timeout=60)
    shape, _, data = done.stdout.partition(b")")
    return np.frombuffer(data, np.int32).reshape([int(n) for n in shape[1:].decode().split(",") if n.strip()])


def spent(path: Path) -> int:
    return path.stat().st_size


# ------------------------------------------------------------------------------------------------ what waits
def test_rows_wait_and_are_seen(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path), rows_of(10)
    size = path.stat().st_size
    for row in rows:
        array.append(row)
    assert is_waiting(array)
    assert path.stat().st_size == size
    assert array.shape == (10, 8)
    assert len(array) == 10
    assert array.size == 80
    assert array.dtype == "i4"
    assert is_waiting(array)  # for that nothing is published
    np.testing.assert_array_equal(array[:], rows)
    assert not is_waiting(array)
    assert path.stat().st_size > size
    np.testing.assert_array_equal(seen_by_others(path), rows)


def stored(array: Any, path: Path) -> Any:
    """What a store makes of it."""
    with blosc2.TreeStore(path.with_name("t.b2z"), mode="w") as store:
        store["/x"] = array
    return blosc2.open(path.with_name("t.b2z"))["/x"]


#: Ways to look at an array, each of which shows all of its rows.
LOOKS: list[Any] = [
    lambda a, _: a[:], lambda a, _: np.stack(list(a)), lambda a, _: np.stack([a[n] for n in range(len(a))]),
    lambda a, _: a.copy()[:], lambda a, _: a.slice(slice(None))[:], lambda a, _: a.read(),
    lambda a, _: a.read_many([slice(None)])[0], lambda a, _: np.asarray(a), lambda a, _: a.oindex[:, [*range(8)]],
    lambda a, _: blosc2.from_cframe(a.to_cframe())[:], lambda a, _: pickle.loads(pickle.dumps(a))[:],
    lambda a, _: copy.copy(a)[:], lambda a, _: copy.deepcopy(a)[:],
    lambda a, _: np.frombuffer(a.schunk[:], "i4").reshape(-1, 8)[: len(a)],
    lambda a, _: np.concatenate([
        np.frombuffer(a.schunk.decompress_chunk(n), "i4").reshape(-1, 8) for n in range(a.schunk.nchunks)
    ])[: len(a)],
    lambda a, _: np.concatenate([
        np.frombuffer(blosc2.decompress2(a.schunk.get_chunk(n)), "i4").reshape(-1, 8) for n in range(a.schunk.nchunks)
    ])[: len(a)],
    lambda a, _: a.squeeze()[:], lambda a, _: blosc2.expand_dims(a, 0)[0], lambda a, _: blosc2.asarray(a)[:],
    lambda a, _: blosc2.concat([a, a])[: len(a)],
    lambda a, path: a.save(path.with_name("y.b2nd")) or seen_by_others(path.with_name("y.b2nd")),
    lambda a, path: a.copy(urlpath=path.with_name("z.b2nd"), chunks=(5, 8))[:],
    lambda a, path: stored(a, path)[:],
]  # fmt: skip


@pytest.mark.parametrize("look", [
    *LOOKS,
    lambda a, path: blosc2.open(path)[:], lambda a, path: blosc2.open(path, mode="a")[:],
    lambda a, path: blosc2.open(path, mmap_mode="r")[:],
    lambda a, path: a.flush() or seen_by_others(path),
    lambda a, path: a.__exit__(None, None, None) or seen_by_others(path),
    lambda a, path: a.compact() and seen_by_others(path),
    lambda a, path: a.vlmeta.__setitem__("k", 1) or seen_by_others(path),
    lambda a, path: a.check().ok and seen_by_others(path),
])  # fmt: skip
def test_whoever_looks_finds_it(tmp_path: Path, look: Any) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path), rows_of(9)
    for row in rows:
        array.append(row)
    assert is_waiting(array)
    np.testing.assert_array_equal(np.asarray(look(array, path)), rows)


def run(*words: Any) -> str:
    """What the command `blosc2` says."""
    with redirect_stdout(io.StringIO()) as said:
        assert main([str(word) for word in words]) == 0
    return said.getvalue()


@pytest.mark.parametrize("look", [
    lambda path, _: blosc2.check(path).ok, lambda path, _: run("check", path), lambda path, _: run("info", path),
    lambda path, out: blosc2.salvage(path, out) and blosc2.open(out)[:],
    lambda path, out: run("salvage", path, out) and blosc2.open(out)[:],
    lambda path, out: run("cp", path, out) == "" and blosc2.open(out)[:],
    lambda path, _: run("diff", path, path), lambda path, _: run("tune", path),
    lambda path, out: blosc2.convert(path, out.with_suffix(".b2z")) and blosc2.open(out.with_suffix(".b2z"))["/x"][:],
    lambda path, out: run("export", path, out.with_suffix(".npz")) and np.load(out.with_suffix(".npz"))["x"],
])  # fmt: skip
def test_whoever_reads_the_path_finds_it(tmp_path: Path, look: Any) -> None:
    """Also those that open no array."""
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    array.append(rows_of(6))
    found = look(path, tmp_path / "out.b2nd")
    assert not is_waiting(array)
    if isinstance(found, np.ndarray):
        np.testing.assert_array_equal(found, np.concatenate([rows_of(3), rows_of(6)]))
    elif isinstance(found, str) and "shape" in found:
        assert "(9, 8)" in found


@pytest.mark.parametrize("look", [
    lambda path, _: blosc2.check(path).ok, lambda path, _: run("stats", path), lambda path, _: run("ls", "-l", path),
    lambda path, _: blosc2.open(path)["/x"],
    lambda path, out: blosc2.salvage(path, out) and blosc2.open(out)["/x"],
    lambda path, out: run("pack", path, out) and blosc2.open(out)["/x"],
    lambda path, out: run("cp", f"{path}/x", out) and blosc2.open(out)["/x"],
    lambda path, out: blosc2.DictStore(path, mode="r").to_b2z(str(out)) and blosc2.open(out)["/x"],
])  # fmt: skip
def test_whoever_reads_the_folder_finds_it(tmp_path: Path, look: Any) -> None:
    with blosc2.TreeStore(tmp_path / "s.b2d", mode="w") as store:
        store["/x"] = blosc2.asarray(np.arange(3000), chunks=(500,))
    array = blosc2.open(tmp_path / "s.b2d" / "x.b2nd", mode="a")
    array.append(np.array([5]))
    assert is_waiting(array)
    found = look(tmp_path / "s.b2d", tmp_path / "out.b2z")
    assert not is_waiting(array)
    if isinstance(found, blosc2.NDArray):
        assert len(found) == 3001


def test_readers_keep_their_version(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path, 3), rows_of(3)
    reader = blosc2.open(path, mode="r")
    array.append(rows[0])
    np.testing.assert_array_equal(reader[:], rows)
    array[0] = 5
    assert reader.refresh() or not is_waiting(array)
    reader = blosc2.open(path)
    assert reader.shape == (4, 8)
    assert (reader[0] == 5).all()
    array.append(rows[1])
    assert reader.refresh()
    assert len(reader) == 5


def test_it_is_published_when_it_is_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path)
    monkeypatch.setattr(waiting_rows, "_MOST", 32 * 50)
    waits = []
    for row in rows_of(120):
        array.append(row)
        waits.append(is_waiting(array))
    assert waits == [(n + 1) % 50 != 0 for n in range(120)]
    monkeypatch.setattr(waiting_rows, "_MOST", 1 << 30)
    monkeypatch.setattr(waiting_rows, "_FEW", 1)
    while len(array) < 160:
        array.append(rows_of(1)[0])
        assert is_waiting(array) == (len(array) % 16 != 0)  # each chunk when it is full
    assert blosc2.open(path).shape == (160, 8)


@pytest.mark.parametrize(("how", "waits"), [({"durable": True}, False), ({"locking": True}, False), ({}, True)])
def test_who_asked_for_it_waits_for_nothing(tmp_path: Path, how: Any, waits: bool) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3, **how)
    array.append(rows_of(1)[0])
    assert is_waiting(array) is waits
    assert len(seen_by_others(path)) == (3 if waits else 4)


def test_the_pace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are published at once as long as that is cheap, then together; after a second with the next one."""
    monkeypatch.undo()
    monkeypatch.setattr(changeable.FileHandle, "is_late", False)
    array = new(tmp_path / "x.b2nd")
    costs = array._handle._costs
    array.append(rows_of(1)[0])
    assert not is_waiting(array)
    assert costs.count == 1
    costs._spent, costs._took, costs._ended = 1.0, 0.01, costs._ended + 100
    array.append(rows_of(1)[0])
    assert is_waiting(array)
    costs._ended -= 101.1
    costs._took = 10.0
    array.append(rows_of(1)[0])
    assert not is_waiting(array)
    assert costs.count == 2


# ------------------------------------------------------------------------------------------------ who publishes
@pytest.mark.parametrize(
    "end",
    [
        "", "del a", "a.flush(); os._exit(0)", "a.__exit__(None, None, None); os._exit(0)",
        "pid = os.fork()\nif not pid: os._exit(len(a) != 9 or len(a[:]) != 9)\nos._exit(os.waitpid(pid, 0)[1] != 0)",
        "a = [a]; a.append(a); del a; gc.collect()\nwhile changeable._left: time.sleep(0.01)\nos._exit(0)",
    ],
)  # fmt: skip
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_it_is_published_in_the_end(tmp_path: Path, end: str) -> None:
    path = tmp_path / "x.b2nd"
    code = f"{SLOW}a = blosc2.open(sys.argv[1], mode='a')\nfor n in range(6): a.append([n] * 8)\n"
    code += f"assert a._handle.waiting is not None\n{end}"
    new(path, 3)
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert seen_by_others(path)[3:, 0].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_process_of_multiprocessing_publishes_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    new(path, 3)
    (tmp_path / "program.py").write_text(
        SLOW
        + "import multiprocessing\nkept = []\n"
        + "def work(path):\n    kept.append(blosc2.open(path, mode='a'))\n    kept[0].append([7] * 8)\n"
        + "    assert kept[0]._handle.waiting is not None\n"
        + "if __name__ == '__main__':\n"
        + "    for how in multiprocessing.get_all_start_methods():\n"
        + "        p = multiprocessing.get_context(how).Process(target=work, args=(sys.argv[1],))\n"
        + "        p.start(); p.join(); assert p.exitcode == 0\n"
    )
    subprocess.run([sys.executable, str(tmp_path / "program.py"), str(path)], check=True, timeout=120)
    assert set(seen_by_others(path)[3:, 0].tolist()) == {7}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_publishes_nothing_of_its_parent(tmp_path: Path) -> None:
    """Also where rows were appended by another thread between the preparation of the fork and the fork."""
    path = tmp_path / "x.b2nd"
    code = f"""{SLOW}
a = blosc2.open(sys.argv[1], mode="a")
a.append([1] * 8)
from blosc2._frames import changeable
changeable._waiting.clear()  # as if the preparation had found nothing
pid = os.fork()
if not pid:
    assert len(a) == 3 and a.shape == a[:].shape
    a._handle.end()
    del a
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert len(blosc2.open(sys.argv[1])) == 3
a.flush()
assert len(blosc2.open(sys.argv[1])) == 4
"""
    new(path, 3)
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)


def test_a_kill_loses_only_what_waited(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    code = f"{SLOW}a = blosc2.open(sys.argv[1], mode='a')\na.append([1] * 8); a.flush(); a.append([2] * 8)\nos._exit(9)"
    new(path, 3)
    assert subprocess.run([sys.executable, "-c", code, str(path)], timeout=60, check=False).returncode == 9
    assert seen_by_others(path)[3:, 0].tolist() == [1]


def test_threads(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path)
    stop = threading.Event()
    errors: list[BaseException] = []

    def grow(number: int) -> None:
        for n in range(300):
            array.append(np.full((2, 8), 1000 * number + n, "i4"))

    def look() -> None:
        least = 0
        try:
            while not stop.is_set():
                items = array[:]
                assert len(items) >= least
                assert not len(items) % 2
                assert (items == items[:, :1]).all()
                assert (items[::2] == items[1::2]).all()
                least = len(items)
        except BaseException as error:  # noqa: BLE001 - told by the other thread
            errors.append(error)

    threads = [threading.Thread(target=grow, args=(n,)) for n in range(3)]
    reader = threading.Thread(target=look)
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    reader.join()
    assert not errors
    assert sorted(array[::2, 0].tolist()) == sorted(1000 * number + n for number in range(3) for n in range(300))


# ------------------------------------------------------------------------------------------------ who is beside
@pytest.mark.parametrize("change", [
    lambda a: a.append(rows_of(1)[0]), lambda a: a.__setitem__(0, 5), lambda a: a.vlmeta.update({"k": 1}),
    lambda a: a.resize((70, 8)), lambda a: a.append(rows_of(100)), lambda a: a.compact(),
])  # fmt: skip
def test_who_changes_the_file_with_another_handle_comes_second(tmp_path: Path, change: Any) -> None:
    """It is refused, as without waiting: what an older call has done is not lost."""
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    other = blosc2.open(path, mode="a")
    array.append(rows_of(1)[0])
    with pytest.raises(blosc2.StaleHandleError):
        change(other)
        other.flush()
    assert other.refresh()
    array.append(rows_of(1)[0])
    assert len(seen_by_others(path)) == 4
    assert len(array[:]) == len(seen_by_others(path)) == 5


@pytest.mark.filterwarnings("error")
def test_its_own_user_hears_of_what_is_lost(tmp_path: Path) -> None:
    """Not who changes the file with another handle, which finds that it cannot be published."""
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    other = blosc2.open(path, mode="a")
    array.append(rows_of(1)[0])
    code = "import sys, blosc2; blosc2.open(sys.argv[1], mode='a')[0] = 9"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    with pytest.raises(blosc2.StaleHandleError):
        other.vlmeta["k"] = 1
    assert is_waiting(array)
    with pytest.raises(blosc2.StaleHandleError, match=r"(?s)waited .* lost"):
        array[:]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("look", [lambda _, path: blosc2.open(path), lambda a, _: a[0], lambda a, _: a.flush()])
def test_what_waits_comes_before_who_holds_the_lock(tmp_path: Path, look: Any) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    shared = blosc2.open(path, mode="a", locking=True)
    array.append(rows_of(1)[0])
    with shared.holding_lock():
        assert len(shared) == 4
        look(array, path)
        shared[0] = 5
    assert len(seen_by_others(path)) == 4


@pytest.mark.filterwarnings("error")
def test_a_file_that_is_replaced_had_all(tmp_path: Path) -> None:
    """Its handle goes on to show what it has, and nobody is told of a loss where it is made anew in a loop."""
    path = tmp_path / "x.b2nd"
    for make in (lambda: new(path, 1), lambda: new(tmp_path / "y.b2nd", 1).copy(urlpath=path, mode="w")) * 2:
        array = make()
        array.append(rows_of(1)[0])
        old, array = array, make()
        assert len(array) == len(seen_by_others(path)) == 1
        assert len(old[:]) == 2
        array.append(rows_of(1)[0])
    assert len(array[:]) == 2


def test_opening_does_not_look_at_all_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [new(tmp_path / f"{n}.b2nd") for n in range(50)]
    for array in arrays:
        array.append(rows_of(1)[0])
    (tmp_path / "link.b2nd").symlink_to(tmp_path / "7.b2nd")
    assert len(blosc2.open(tmp_path / "link.b2nd")) == 1
    calls, stat = [], os.stat
    monkeypatch.setattr(os, "stat", lambda *given, **how: calls.append(given) or stat(*given, **how))
    assert len(blosc2.open(tmp_path / "8.b2nd")) == 1
    assert len(calls) < 20
    assert [is_waiting(array) for array in arrays[6:10]] == [True, False, False, True]


def test_a_thread_in_a_transaction_does_not_keep_the_program(tmp_path: Path) -> None:
    code = f"""{SLOW}
import threading
a, b = (blosc2.zeros((2, 8), dtype="i4", chunks=(16, 8), urlpath=sys.argv[1] + name) for name in "ab")
a[0] = 1
b.append([5] * 8)
begun = threading.Event()
def stay():
    with a.transaction():
        begun.set()
        threading.Event().wait()
threading.Thread(target=stay, daemon=True).start()
begun.wait()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=True, timeout=20)
    assert len(seen_by_others(tmp_path / "xb")) == 3


def test_threads_that_append_from_each_other(tmp_path: Path) -> None:
    """Neither has its own lock while it reads the other."""
    code = f"""{SLOW}
import faulthandler, threading
faulthandler.dump_traceback_later(30, exit=True)
arrays = [blosc2.zeros((2, 8), dtype="i4", chunks=(16, 8), urlpath=sys.argv[1] + str(n)) for n in range(2)]
class Last:
    def __init__(self, array): self.array, self.met = array, False
    def __array__(self, dtype=None, copy=None):
        if not self.met:
            self.met = True
            both.wait()
        return self.array[len(self.array) - 1]
def append(one, other): one.append(Last(other))
def replace(one, other): one[0] = Last(other)
for act in (append, replace):
    both = threading.Barrier(2)
    for array in arrays:
        array.append([5] * 8)
    threads = [threading.Thread(target=act, args=(arrays[n], arrays[1 - n])) for n in range(2)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
assert [array[:, 0].tolist() for array in arrays] == [[5, 0, 5, 5, 5]] * 2
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.b2nd")], check=True, timeout=60)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("act", [
    lambda a: a.append(rows_of(2)), lambda a: a.append(rows_of(40)),
    lambda a: a.resize((2, 8)), lambda a: a.resize((90000, 8)),
])  # fmt: skip
def test_a_handler_of_signals_changes_the_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any, waits: bool
) -> None:
    """What it has appended is not put away by the change in whose middle it came."""
    array = new(tmp_path / "x.b2nd", 3)
    if waits:
        array.append([1] * 8)
    kept, resized = len(array), _arrays.resized_geometry

    def interrupted(*given: Any) -> Any:
        monkeypatch.setattr(_arrays, "resized_geometry", resized)
        array.append([7] * 8)
        return resized(*given)

    monkeypatch.setattr(_arrays, "resized_geometry", interrupted)
    with pytest.raises(RuntimeError, match="at the same time"):
        act(array)
    assert array.shape == (kept + 1, 8)
    assert array[kept].tolist() == [7] * 8
    array.append([8] * 8)
    assert array[-2:, 0].tolist() == [7, 8]


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers that send signals")
def test_signals_at_any_time(tmp_path: Path) -> None:
    code = f"""{SLOW}
import faulthandler, signal
faulthandler.dump_traceback_later(40, exit=True)
a = blosc2.zeros((0, 8), dtype="i4", chunks=(16, 8), urlpath=sys.argv[1])
counts = [0, 0]
def append(kind):
    try:
        a.append([kind] * 8)
        counts[kind] += 1
    except RuntimeError:
        pass
def handle(*_):
    append(1)
    signal.setitimer(signal.ITIMER_REAL, 0.0004)  # now: handlers that are slow would come within each other without end
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001)
for n in range(20000):
    append(0)
    if not n % 100:
        a.flush()
signal.signal(signal.SIGALRM, signal.SIG_IGN)  # a handler that is due would set the timer once more
signal.setitimer(signal.ITIMER_REAL, 0)
assert (counts[1], sum(counts)) == (np.count_nonzero(a[:, 0]), len(a)), (counts, a.shape)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.b2nd")], check=True, timeout=60)


# ------------------------------------------------------------------------------------------------ what fails
FULL = OSError(errno.ENOSPC, "No space left on device")


def failing(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def end(*_: object, **__: object) -> None:
        raise type(error)(*error.args)

    monkeypatch.setattr(append.NextVersion, "end", end)


@pytest.mark.parametrize("error", [FULL, MemoryError(), KeyboardInterrupt()])
@pytest.mark.parametrize("act", [
    lambda a: a.flush(), lambda a: a.__exit__(None, None, None), lambda a: a.append(rows_of(100)),
    lambda a: a.vlmeta.__setitem__("k", 1), lambda a: a.compact(), lambda a: a.refresh(), lambda a: a.resize((3, 8)),
    lambda a: a.transaction().__enter__(), lambda a: a.__setitem__((0, 0), 1),
])  # fmt: skip
def test_an_error_loses_nothing_that_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, act: Any
) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path), rows_of(5)
    for row in rows:
        array.append(row)
    with monkeypatch.context() as patched:
        failing(patched, error)
        for _ in range(2):
            with pytest.raises(type(error)):
                act(array)
            assert is_waiting(array)
            assert len(array) == 5
    np.testing.assert_array_equal(array[:], rows)
    array.flush()  # a read does not try at once again what took long
    np.testing.assert_array_equal(seen_by_others(path), rows)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("error", [FULL, MemoryError(), PermissionError(errno.EACCES, "Permission denied")])
def test_others_do_not_see_what_cannot_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 20)
    array.append(rows_of(9))
    failing(monkeypatch, error)
    assert len(array[:]) == 29
    assert len(seen_by_others(path)) == len(blosc2.open(path)) == 20


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("look", LOOKS)
def test_what_cannot_be_published_is_read_from_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, look: Any
) -> None:
    """By this handle alone; and it is published as soon as that is possible."""
    path = tmp_path / "x.b2nd"
    array, model = new(path, 20), np.concatenate([rows_of(20), rows_of(9, 1)])
    array.vlmeta["k"] = 5
    for row in model[20:]:
        array.append(row)
    with monkeypatch.context() as patched:
        failing(patched, FULL)
        np.testing.assert_array_equal(np.asarray(look(array, path)), model)
        assert is_waiting(array)
        assert (array.shape, array.vlmeta["k"]) == (model.shape, 5)
        np.testing.assert_array_equal(blosc2.open(path)[:], model[:20])
        array.append(model[0])
        assert len(array) == len(array[:]) == 30
        assert (array[29] == model[0]).all()
    assert len(array[:]) == len(blosc2.open(path)) == 30
    assert not is_waiting(array)
    array[2] = model[2] = 4
    with monkeypatch.context() as patched:
        failing(patched, FULL)
        np.testing.assert_array_equal(array[: len(model)], model)
    np.testing.assert_array_equal(array[: len(model)], model)


def test_reads_of_what_cannot_be_published_try_that_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    array, rows = new(tmp_path / "x.b2nd"), rows_of(9)
    for row in rows:
        array.append(row)
    costs = array._handle._costs
    with monkeypatch.context() as patched:
        failing(patched, FULL)
        assert len(array[:]) == 9
        costs._spent, costs._took, costs._ended = 1.0, 10.0, costs._ended + 100
        tried = costs.count
        for n, row in enumerate(rows):
            assert (array[n] == row).all()
        assert costs.count == tried
        costs._ended -= 1000
        assert len(array[:]) == 9
        assert costs.count == tried + 1


@pytest.mark.parametrize(("act", "again"), [(lambda a: a.flush(), False), (lambda a: a.append(rows_of(40)), True)])
def test_the_error_says_where_the_rows_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any, again: bool
) -> None:
    array = new(tmp_path / "x.b2nd")
    array.append(rows_of(1))
    failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match=r"still in memory, where reads and save\(\) find it: call flush\(\)") as raised:
        act(array)
    assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "x.b2nd"))
    assert ("this change was not made: make it again" in str(raised.value)) is again


@pytest.mark.parametrize(("act", "waits"), [(act, waits) for waits in (False, True) for act in (
    lambda a: a.append(rows_of(1)), lambda a: a.__setitem__(1, 9), lambda a: a.resize((5, 8)),
    lambda a: a.attrs.__setitem__("unit", "mm"),
)] + [(lambda a: a.append(rows_of(40)), True), (lambda a: a.compact(), True)])  # fmt: skip
def test_the_error_says_what_becomes_of_the_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, act: Any, waits: bool
) -> None:
    array = new(tmp_path / "x.b2nd", 3)
    if waits:
        array.append(rows_of(1))
    monkeypatch.setattr(changeable.FileHandle, "is_due", True)
    monkeypatch.setattr(changeable.Costs, "is_cheap", lambda *_: False)
    failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(OSError, match="this change was not made: make it again") as raised:
        act(array)
    assert ("still in memory" in str(raised.value)) is waits
    np.testing.assert_array_equal(array[:], np.concatenate([rows_of(3), rows_of(int(waits))]))
    assert "unit" not in array.attrs


@pytest.mark.parametrize("how", [[], ["-W", "error"]])
@pytest.mark.parametrize(("end", "lines"), [
    ("del a", 1), ("a = [a]; a.append(a); del a; gc.collect()\nwhile changeable._left: time.sleep(0.01)", 1), ("", 1),
    ("try:\n    a.__exit__(None, None, None)\nexcept OSError as error: assert error.errno == 28\ndel a", 0),
    ("try:\n    a.__exit__(None, None, None)\nexcept OSError as error: assert error.errno == 28", 0),
])  # fmt: skip
def test_a_loss_is_told_once_and_in_one_line(tmp_path: Path, end: str, lines: int, how: list[str]) -> None:
    code = f"""{SLOW}
import errno, gc, time, warnings
from blosc2._frames import append, changeable
a = blosc2.zeros((3, 8), dtype="i4", urlpath=sys.argv[1])
a.append([5] * 8)
a.append([6] * 8)
def fail(*_, **__): raise OSError(errno.ENOSPC, "No space left on device")
append.NextVersion.end = fail
warnings.showwarning = lambda message, *_: print(message, file=sys.stderr)
{end}
"""
    command = [sys.executable, *how, "-c", code, str(tmp_path / "x.b2nd")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    if how and end and lines:
        assert "2 rows that waited to be published" in done.stderr  # as all warnings that are to be errors
        return
    assert len(done.stderr.splitlines()) == lines, done.stderr
    if lines:
        assert "No space left on device" in done.stderr
        assert "x.b2nd" in done.stderr
        assert "lost" in done.stderr
        assert ("2 rows" in done.stderr) is bool(end)


def test_who_changes_the_file_does_not_lose_what_cannot_be_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change of another handle, for which there is room, would make it stale."""
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    other = blosc2.open(path, mode="a")
    array.append(rows_of(1))
    with monkeypatch.context() as patched:
        patched.setattr(waiting_rows.WaitingRows, "update", lambda *_: (_ for _ in ()).throw(FULL))
        with pytest.raises(OSError, match="No space left"):
            other.vlmeta["k"] = 1
    assert len(array[:]) == len(seen_by_others(path)) == 4


@pytest.mark.parametrize("first", [True, False])
def test_a_change_that_cannot_be_published_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    """What was changed before it goes on to wait."""
    path = tmp_path / "x.b2nd"
    array, rows = new(path, 3), rows_of(6)
    for row in rows[:0] if first else rows[3:5]:
        array.append(row)
    kept = array.shape[0]
    with monkeypatch.context() as patched:
        failing(patched, OSError(errno.ENOSPC, "No space left on device"))
        patched.setattr(changeable.FileHandle, "is_due", True)
        for change in (
            lambda: array.append(rows[5]), lambda: array.append(rows[4:6]), lambda: array.resize((kept + 4, 8)),
        ):  # fmt: skip
            with pytest.raises(OSError, match="No space left"):
                change()
            assert array.shape == (kept, 8)
            assert is_waiting(array) is not first
    np.testing.assert_array_equal(array[:], rows[:kept])
    array.append(rows[5])
    np.testing.assert_array_equal(array[:], np.concatenate([rows[:kept], rows[5:]]))


@pytest.mark.parametrize("by_append", [True, False])
def test_an_interrupt_before_it_is_noted_that_rows_were_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_append: bool
) -> None:
    """What is appended then is not taken for a part of what was published."""
    path = tmp_path / "x.b2nd"
    array, rows = new(path, 3), rows_of(6)
    array.append(rows[3])
    look, calls = changeable.FileHandle._shows_other, []

    def interrupted(handle: Any, waiting: Any) -> bool:
        calls.append(waiting)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return look(handle, waiting)

    with monkeypatch.context() as patched:
        patched.setattr(changeable.FileHandle, "_shows_other", interrupted)
        patched.setattr(changeable.FileHandle, "is_due", by_append)
        with pytest.raises(KeyboardInterrupt):
            array.append(rows[4]) if by_append else array.flush()
    for row in rows[len(array) :]:
        array.append(row)
    np.testing.assert_array_equal(array[:], rows)
    np.testing.assert_array_equal(seen_by_others(path), rows)


def test_a_change_of_another_process_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    array.append(rows_of(1)[0])
    code = "import sys, blosc2; blosc2.open(sys.argv[1], mode='a')[0] = 9"
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    with pytest.raises(blosc2.StaleHandleError, match=r"(?s)another handle or process.*waited .* lost"):
        array.flush()
    assert not is_waiting(array)
    assert array.shape == (3, 8)
    assert array.refresh()
    assert (array[0] == 9).all()
    array.append(rows_of(1)[0])
    array.flush()
    assert len(seen_by_others(path)) == 4


def test_what_waits_for_a_file_that_was_moved_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path, 3), rows_of(3, seed=1)
    array.append(rows[0])
    moved = path.rename(tmp_path / "moved.b2nd")
    for _ in range(2):
        with pytest.raises(FileNotFoundError, match="still in memory"):
            array.flush()
    blosc2.open(moved)  # which publishes what waits for a file
    array.append(rows[1])
    array.save(tmp_path / "saved.b2nd")
    moved.rename(path)
    array.append(rows[2])
    array.flush()
    np.testing.assert_array_equal(blosc2.open(path)[:], [*rows_of(3), *rows])


@pytest.mark.filterwarnings("error")
def test_a_file_that_is_gone_in_the_end_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    array.append(rows_of(1)[0])
    path.unlink()
    del array
    gc.collect()
    assert not path.exists()


def test_who_opens_a_file_hears_of_changes_that_are_lost(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    array.append(rows_of(1)[0])
    other = new(path.with_name("y.b2nd"), 5)
    path.with_name("y.b2nd").replace(path)
    with pytest.warns(RuntimeWarning, match=r"(?s)another handle or process.*waited .* lost"):
        assert len(blosc2.open(path)) == 5
    assert not is_waiting(array)
    assert len(other) == 5


def test_a_damaged_chunk_is_told_once(tmp_path: Path) -> None:
    """Rows behind it cannot be published, whatever is done; the others can still be read."""
    path = tmp_path / "x.b2nd"
    array = new(path, 20)
    data = bytearray(path.read_bytes())
    at = array._handle.frame.chunk_info(1)[0]
    data[at : at + 40] = bytes(40)
    path.write_bytes(data)
    array = blosc2.open(path, mode="a", verify=False)
    array.append(rows_of(1)[0])
    assert is_waiting(array)
    with pytest.raises(blosc2.FormatError) as raised:
        array.flush()
    assert "lost" in str(raised.value.__notes__)
    np.testing.assert_array_equal(array[:16], rows_of(20)[:16])


def test_rows_that_do_not_fit_are_refused_at_once(tmp_path: Path) -> None:
    array = new(tmp_path / "x.b2nd", 3)
    array.append(rows_of(1)[0])
    for wrong in ([1] * 7, [[1] * 9], np.zeros((2, 2, 8))):
        with pytest.raises(ValueError, match="rows to append"):
            array.append(wrong)
        with pytest.raises(ValueError, match=r"cannot be assigned|broadcast"):
            array[1] = np.zeros((2, 3))
    with pytest.raises(IndexError):
        array[40] = 1
    with pytest.raises((TypeError, ValueError)):
        array.append(["x"] * 8)
    assert array.shape == (4, 8)


# ------------------------------------------------------------------------------------------------ nothing else happens
IS_LATE = changeable.FileHandle.is_late


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has waited for a tenth of a second is late."""
    monkeypatch.setattr(changeable.FileHandle, "is_late", IS_LATE)
    monkeypatch.setattr(changeable, "LONGEST_WAIT", 0.1)


def until(found: Any) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end
        time.sleep(0.01)


def clocks() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "blosc2-publishing"]


@pytest.mark.usefixtures("clock")
def test_what_waits_is_published_though_nothing_else_happens(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path), rows_of(9)
    for row in rows[:8]:
        array.append(row)
    until(lambda: not is_waiting(array))
    np.testing.assert_array_equal(seen_by_others(path), rows[:8])
    until(lambda: not clocks())
    array.append(rows[8])
    until(lambda: not is_waiting(array))
    np.testing.assert_array_equal(seen_by_others(path), rows)


@pytest.mark.usefixtures("clock")
def test_what_cannot_be_published_then_waits_for_its_user(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array = new(path, 3)
    array.append(rows_of(1))
    with pytest.MonkeyPatch.context() as patched:
        failing(patched, OSError(errno.ENOSPC, "No space left on device"))
        until(lambda: array._handle._costs.count > 2)
        assert is_waiting(array)
        with pytest.raises(OSError, match="No space left"):
            array.flush()
    until(lambda: not is_waiting(array))
    np.testing.assert_array_equal(seen_by_others(path)[3:], rows_of(1))


@pytest.mark.usefixtures("clock")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_thread_ends_before_a_fork(tmp_path: Path) -> None:
    array = new(tmp_path / "x.b2nd", 3)
    array.append(rows_of(1))
    assert clocks()
    child = os.fork()
    if not child:
        os._exit(0 if len(array) == 4 and not clocks() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not clocks()
    array.append(rows_of(1))
    until(lambda: not is_waiting(array))


@pytest.mark.usefixtures("clock")
def test_appending_beside_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "x.b2nd"
    array, rows = new(path), rows_of(2000)
    for n, row in enumerate(rows):
        array.append(row)
        if n % 50 == 0:
            time.sleep(0.01)
    until(lambda: not is_waiting(array))
    np.testing.assert_array_equal(seen_by_others(path), rows)


# ------------------------------------------------------------------------------------------------ nobody waits for ever
@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
@pytest.mark.parametrize("drop", ["del a", "a = [a]; a.append(a); del a; gc.collect()"])
def test_the_end_of_a_handle_does_not_wait_for_who_waits_for_its_thread(tmp_path: Path, drop: str) -> None:
    """Another thread publishes in the file, and waits for a lock of the one in whose middle the handle ends."""
    code = f"""{SLOW}
import faulthandler, fcntl, gc, threading, time
faulthandler.dump_traceback_later(30, exit=True)
a = blosc2.zeros((3, 8), dtype="i4", urlpath=sys.argv[1])
a.append([5] * 8)
mine, begun = threading.Lock(), threading.Event()
def publish():
    with open(sys.argv[1], "r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        begun.set()
        with mine:
            pass
with mine:
    thread = threading.Thread(target=publish)
    thread.start()
    begun.wait()
    {drop}
    time.sleep(0.1)
thread.join()
from blosc2._frames import changeable
while changeable._left: time.sleep(0.01)
os._exit(0)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.b2nd")], check=True, timeout=60)
    assert len(seen_by_others(tmp_path / "x.b2nd")) == 4


def test_the_collector_comes_in_the_middle_of_a_logger(tmp_path: Path) -> None:
    """Which a publication tells of what it does: its lock cannot be taken twice."""
    code = f"""{SLOW}
import faulthandler, gc, logging, threading
faulthandler.dump_traceback_later(30, exit=True)
a = [blosc2.zeros((3, 8), dtype="i4", urlpath=sys.argv[1])]
a[0].append([5] * 8)
a.append(a)
class Handler(logging.Handler):
    def __init__(self):
        super().__init__()
        self.mine = threading.Lock()
    def emit(self, record):
        global a
        with self.mine:
            a = None
            gc.collect()
logging.getLogger("blosc2").addHandler(Handler())
logging.getLogger("blosc2").setLevel(1)
logging.getLogger("blosc2").info("begin")
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x.b2nd")], check=True, timeout=60)
    assert len(seen_by_others(tmp_path / "x.b2nd")) == 4


def test_arrays_that_end_while_their_thread_changes_others(tmp_path: Path) -> None:
    """Two threads, each of which collects the handle of the file that the other one changes."""
    code = f"""{SLOW}
import faulthandler, gc, threading
faulthandler.dump_traceback_later(50, exit=True)
names = [sys.argv[1] + str(n) for n in range(2)]
for name in names:
    blosc2.zeros((0, 8), dtype="i4", chunks=(16, 8), urlpath=name)
added = [0, 0]
def work(number):
    for n in range(60):
        try:
            a = [blosc2.open(names[n % 2], mode="a")]
            a.append(a)
            a[0].append([number] * 8)
            added[number] += 1
            b = blosc2.open(names[1 - n % 2], mode="a")
            with b.transaction():
                del a
                gc.collect()
                b.append([number] * 8)
                added[number] += 1
        except (blosc2.StaleHandleError, RuntimeError):
            pass
threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "x")], check=True, timeout=60)
    for n in range(2):
        assert blosc2.check(tmp_path / f"x{n}").ok


@pytest.mark.usefixtures("clock")
@pytest.mark.skipif(sys.platform == "win32", reason="no locks there")
def test_the_thread_does_not_wait_for_one_file(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    locked, free = new(tmp_path / "x.b2nd", 3), new(tmp_path / "y.b2nd", 3)
    with (tmp_path / "x.b2nd").open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        locked.append(rows_of(1))
        free.append(rows_of(1))
        until(lambda: not is_waiting(free))
        assert is_waiting(locked)
    until(lambda: not is_waiting(locked))
    assert len(seen_by_others(tmp_path / "x.b2nd")) == 4


# ------------------------------------------------------------------------------------------------ how much
def held_by(arrays: list[Any]) -> int:
    return sum(array._handle.waiting.nbytes for array in arrays if is_waiting(array))


def test_all_handles_together_hold_no_more_than_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changeable, "_MOST_IN_ALL", 40_000)
    arrays, model = [new(tmp_path / f"{n}.b2nd") for n in range(20)], rows_of(100)
    for row in model:
        for array in arrays:
            array.append(row)
            assert held_by(arrays) <= 40_000 + 2 * 32 * 100
    assert any(map(is_waiting, arrays))
    for array in arrays:
        np.testing.assert_array_equal(array[:], model)


# ------------------------------------------------------------------------------------------------ what it becomes
@pytest.mark.parametrize("dtype", ["u1", "<f8", ">i4", "S5", "U3", "M8[s]", [("a", "u1"), ("b", "<i8")], "c16", "?",
                                   np.dtype([("a", "u1"), ("b", "<i8")], align=True)])  # fmt: skip
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_types_and_shapes(tmp_path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
    path = tmp_path / "x.b2nd"
    items = (
        np.random.default_rng(1).integers(0, 200, (20, *shape)).astype("u1").astype(np.dtype(dtype), casting="unsafe")
        if not isinstance(dtype, list) and np.dtype(dtype).names is None
        else np.zeros((20, *shape), dtype)
    )
    array = blosc2.asarray(items, chunks=(8, *shape), urlpath=path)
    model = items.copy()
    for n in (3, 3, 19, 0):
        array[n] = model[n] = items[7]
    assert is_waiting(array)
    np.testing.assert_array_equal(array[:], model)
    for n in range(5):
        array.append(items[n : n + 1])
    array[22] = items[9]
    model = np.concatenate([model, items[:5]])
    model[22] = items[9]
    assert is_waiting(array)
    np.testing.assert_array_equal(blosc2.open(path)[:], model)


def test_the_bytes_are_those_of_one_append(tmp_path: Path) -> None:
    one, other = new(tmp_path / "one.b2nd", 3), new(tmp_path / "other.b2nd", 3)
    rows = rows_of(9)
    for row in rows:
        one.append(row)
    one.flush()
    other.append(rows)
    other.flush()
    assert (tmp_path / "one.b2nd").read_bytes() == (tmp_path / "other.b2nd").read_bytes()


def test_an_array_that_was_longer_shows_zeros(tmp_path: Path) -> None:
    array = new(tmp_path / "x.b2nd", 12)
    array.resize((5, 8))
    array.flush()
    array.resize((9, 8))
    array[8] = 4
    array.resize((14, 8))
    assert is_waiting(array)
    expected = np.zeros((14, 8), "i4")
    expected[:5], expected[8] = rows_of(5), 4
    np.testing.assert_array_equal(array[:], expected)
    array.resize((3, 8))
    array.resize((16, 8))
    assert is_waiting(array)
    expected[3:] = 0
    np.testing.assert_array_equal(array[:], np.concatenate([expected, np.zeros((2, 8), "i4")]))


class Beside:
    """Random changes of an array in a file, and of one of NumPy."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path, self.random = path, random.Random(seed)
        shape = self.random.choice([(), (8,), (3, 5)])
        chunk = self.random.choice([1, 4, 16])
        self.mapped = self.random.random() < 0.3
        self.array = blosc2.zeros((2, *shape), "i4", chunks=(chunk, *shape), urlpath=path, mode="w")
        self.model = np.zeros((2, *shape), "i4")
        self.notes: dict[str, int] = {}
        self.acts = [self.append] * 6 + [self.set] * 5 + [
            self.resize, self.grow, self.part, self.note, self.read, self.read_one, self.others, self.flush,
            self.reopen, self.transaction, self.look_at_length, self.fails,
        ]  # fmt: skip

    def items(self, count: int) -> Any:
        return np.random.default_rng(self.random.randrange(10**6)).integers(1, 99, (count, *self.model.shape[1:]), "i4")

    def append(self) -> None:
        rows = self.items(self.random.choice([1, 1, 1, 2, 7, 40]))
        self.array.append(rows)
        self.model = np.concatenate([self.model, rows])

    def set(self) -> None:
        if not len(self.model):
            return
        start = self.random.randrange(len(self.model))
        stop = min(len(self.model), start + self.random.choice([1, 1, 2, 9]))
        rows = self.items(stop - start)
        if self.random.random() < 0.3:
            rows = rows[:1]
        key: Any = start if stop == start + 1 and self.random.random() < 0.5 else slice(start, stop)
        rows = rows[0] if isinstance(key, int) else rows
        self.array[key] = rows
        self.model[key] = rows

    def resize(self) -> None:
        length = self.random.randrange(60)
        more = np.zeros((max(0, length - len(self.model)), *self.model.shape[1:]), "i4")
        self.model = np.concatenate([self.model[:length], more])
        self.array.resize(self.model.shape)

    def grow(self) -> None:
        """As programs do that know no `append`."""
        for row in self.items(3):
            self.array.resize((len(self.model) + 1, *self.model.shape[1:]))
            self.array[len(self.model)] = row
            self.model = np.concatenate([self.model, row[None]])

    def part(self) -> None:
        if self.model.ndim > 1 and len(self.model):
            key = (slice(self.random.randrange(len(self.model)), None, 2), 1)
            self.array[key] = self.model[key] = 5

    def note(self) -> None:
        self.notes["n"] = self.array.vlmeta["n"] = self.random.randrange(99)

    def read(self) -> None:
        np.testing.assert_array_equal(self.array[:], self.model)
        assert self.array.vlmeta[:] == self.notes

    def read_one(self) -> None:
        if len(self.model):
            index = self.random.randrange(-len(self.model), len(self.model))
            np.testing.assert_array_equal(self.array[index], self.model[index])

    def others(self) -> None:
        np.testing.assert_array_equal(blosc2.open(self.path, mmap_mode=self.random.choice([None, "r"]))[:], self.model)

    def flush(self) -> None:
        self.array.flush()
        assert not is_waiting(self.array)

    def reopen(self) -> None:
        how: Any = {"mmap_mode": "r+"} if self.mapped else {"mode": "a"}
        self.array = blosc2.open(self.path, **how)

    def transaction(self) -> None:
        before = self.model.copy(), dict(self.notes)
        try:
            with self.array.transaction():
                for act in (self.append, self.set, self.note, self.grow):
                    act()
                if self.random.random() < 0.5:
                    raise ZeroDivisionError
        except ZeroDivisionError:
            self.model, self.notes = before

    def look_at_length(self) -> None:
        assert self.array.shape == self.model.shape
        assert len(self.array) == len(self.model)

    def fails(self) -> None:
        with pytest.MonkeyPatch.context() as patched:
            failing(patched, OSError(errno.EIO, "broken"))
            patched.setattr(changeable.FileHandle, "is_due", True)
            before = len(self.model)
            with pytest.raises(OSError, match="broken"):
                self.array.append(self.items(1))
            assert len(self.array) == before

    def play(self, count: int) -> None:
        for _ in range(count):
            self.random.choice(self.acts)()
        self.read()
        del self.array
        np.testing.assert_array_equal(blosc2.open(self.path)[:], self.model)
        assert blosc2.check(str(self.path)).ok


@pytest.mark.parametrize("seed", range(40))
def test_beside_numpy(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if seed % 4 == 0:
        monkeypatch.setattr(waiting_rows, "_MOST", 700)
    if seed % 5 == 0:
        monkeypatch.setattr(waiting_rows, "_MOST_PIECES", 3)
    if seed % 3 == 0:
        monkeypatch.setattr(waiting_rows, "_FEW", 1)
    Beside(tmp_path / "x.b2nd", seed).play(120)


# ------------------------------------------------------------------------------------------------ what comes between
@pytest.mark.parametrize("change", ["rows", "metadata"])
def test_an_interrupt_before_anything_waits(change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is accepted later is not taken for something that was published."""
    array = new(tmp_path / "a.b2nd")
    array.vlmeta["first"] = 0
    array.flush()

    def accept(n: int) -> None:
        if change == "rows":
            array.append(rows_of(1) + n)
        else:
            array.vlmeta[f"k{n}"] = n

    def interrupted(_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(changeable.Costs, "is_cheap", lambda *_: False)
    with monkeypatch.context() as patched:
        patched.setattr(changeable, "note_waiting", interrupted)
        with pytest.raises(KeyboardInterrupt):
            accept(1)
    accept(2)
    with suppress(RuntimeError):  # it may be refused, as what it would change is shown anew
        array.vlmeta["large"] = "x" * 10_000
    accept(3)
    array.flush()
    found = blosc2.open(str(tmp_path / "a.b2nd"))
    if change == "rows":
        np.testing.assert_array_equal(found[-2:], np.concatenate([rows_of(1) + 2, rows_of(1) + 3]))
    else:
        assert (found.vlmeta["k2"], found.vlmeta["k3"]) == (2, 3)


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="no links here")
def test_a_handle_by_way_of_a_link_comes_second(tmp_path: Path) -> None:
    array = new(tmp_path / "a.b2nd", rows=4)
    os.symlink(tmp_path / "a.b2nd", tmp_path / "b.b2nd")
    other = blosc2.open(str(tmp_path / "b.b2nd"), mode="a")
    array.append(rows_of(1))
    assert is_waiting(array)
    with pytest.raises(blosc2.exceptions.StaleHandleError):
        other[0, 0] = 5
    array.flush()
    np.testing.assert_array_equal(blosc2.open(str(tmp_path / "a.b2nd"))[-1:], rows_of(1))
