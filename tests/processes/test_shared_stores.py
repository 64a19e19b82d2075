"""Many programs that change one store with ``locking=True``: nothing published is lost, also when some are killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment

import blosc2
from blosc2.exceptions import StoreLockedError

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")

KINDS = pytest.mark.parametrize(
    ("cls", "suffix", "threshold"),
    [("EmbedStore", ".b2e", 0), ("TreeStore", ".b2z", 0), ("DictStore", ".b2d", 0), ("DictStore", ".b2d", 100)],
    ids=["b2e", "b2z", "b2d", "b2d-mixed"],
)

HEAD = """
import os, sys, time
import numpy as np
import blosc2
cls, path, threshold, me, count = sys.argv[1:]
me, count = int(me), int(count)
def opened(mode="a", **more):
    more |= {} if cls == "EmbedStore" else {"threshold": int(threshold)}
    return getattr(blosc2, cls)(path, mode=mode, locking=True, **more)
print("ready", flush=True)
sys.stdin.readline()
"""

# Values of different sizes, so that some are embedded and some have files.
ADDS = """
store = opened()
for n in range(count):
    store[f"/job{me}/{n}"] = np.full(3 + 40 * (n % 2), 1000 * me + n)
    print(n, flush=True)
store.close()
print("closed", flush=True)
"""

COUNTS = """
store = opened()
for n in range(count):
    with store.transaction():
        counter = store["/counter"]
        counter[0] = counter[0] + 1
        store["/last"] = np.full(50, counter[0])
print("done", flush=True)
store.close()
"""

# Always the same number under both keys, until the reader has seen some, however seldom it comes to that.
PAIRS = """
store = opened()
n, end = 0, time.monotonic() + 60
while n < count or (not os.path.exists(path + ".seen") and time.monotonic() < end):
    value = me * 1_000_000 + n
    store.update({"/first": np.full(3, value), "/second": np.full(3, value), f"/other{me}/{n}": [value]})
    n += 1
print(n, flush=True)
store.close()
"""


STOPS = """
with opened().transaction() as store:
    store["/a"] = [1]
    print("in", flush=True)
    time.sleep(600)
"""


class Programs:
    """Programs that are started together."""

    def __init__(self, code: str, how: tuple[str, Path, int], number: int, count: int) -> None:
        cls, path, threshold = how
        self.all = [
            subprocess.Popen(
                [sys.executable, "-c", HEAD + code, cls, str(path), str(threshold), str(me), str(count)],
                env=environment(), text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            )
            for me in range(number)
        ]  # fmt: skip

    def __enter__(self) -> list[Any]:
        for program in self.all:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
        for program in self.all:
            assert program.stdin is not None
            program.stdin.write("go\n")
            program.stdin.close()
        return self.all

    def __exit__(self, *error: object) -> None:
        for program in self.all:
            program.kill()
            program.wait()
            assert program.stdout is not None
            program.stdout.close()


def opened(how: tuple[str, Path, int], mode: str = "r", **more: Any) -> Any:
    cls, path, threshold = how
    if cls != "EmbedStore":
        more["threshold"] = threshold
    return getattr(blosc2, cls)(path, mode=mode, **more)


def check_clean(path: Path) -> None:
    report = blosc2.check(path)
    assert report.ok, report


@KINDS
def test_sixteen_programs_of_which_two_are_killed(cls: str, suffix: str, threshold: int, tmp_path: Path) -> None:
    """They make a store together and add 100 leaves each; 1,000 take minutes, as each change lists all keys."""
    how, count = (cls, tmp_path / f"store{suffix}", threshold), int(os.environ.get("BLOSC2_SHARED_LEAVES", "100"))
    killed = {3: count // 3, 11: count // 2}
    said: dict[int, list[str]] = {}
    with Programs(ADDS, how, 16, count) as programs:
        for me, after in killed.items():
            for n in range(after):
                assert programs[me].stdout.readline() == f"{n}\n"
            programs[me].kill()
            programs[me].wait()
            said[me] = [str(n) for n in range(after)]
        for me, program in enumerate(programs):
            said.setdefault(me, []).extend(program.stdout.read().split())
            if me not in killed:
                assert program.wait() == 0
                assert said[me] == [*map(str, range(count)), "closed"]
    with opened(how) as store:
        keys = {key for key in store if isinstance(store[key], blosc2.NDArray)}
        for me in range(16):
            done = len([word for word in said[me] if word != "closed"])
            there = [n for n in range(count + 1) if f"/job{me}/{n}" in keys]
            # One may be published, and not reported any more.
            assert there in ([*range(done)], [*range(done + 1)]), me
            for n in there:
                np.testing.assert_array_equal(store[f"/job{me}/{n}"][:], np.full(3 + 40 * (n % 2), 1000 * me + n))
            keys -= {f"/job{me}/{n}" for n in there}
        assert not keys
    check_clean(how[1])
    with opened(how, "a", locking=True, timeout=5) as store:
        store["/after"] = [1]
        store.compact()
        assert "/after" in store
    check_clean(how[1])
    left = {path.name for path in how[1].parent.iterdir()}
    assert left <= {how[1].name, how[1].name + ".b2lock"}


@KINDS
def test_no_update_is_lost(cls: str, suffix: str, threshold: int, tmp_path: Path) -> None:
    how = cls, tmp_path / f"store{suffix}", threshold
    with opened(how, "w", locking=True) as store:
        store["/counter"] = np.zeros(1, "i8")
        with Programs(COUNTS, how, 4, 20) as programs:
            for n in range(20):
                with store.transaction():
                    counter = store["/counter"]
                    counter[0] = counter[0] + 1
                assert counter[0] > n
            for program in programs:
                assert program.stdout.read() == "done\n"
                assert program.wait() == 0
        assert store["/counter"][0] == 100
        assert store["/last"][:].tolist() in [[n] * 50 for n in (98, 99, 100)] or store["/last"][0] <= 100
    with opened(how) as store:
        assert store["/counter"][0] == 100
    check_clean(how[1])


@KINDS
def test_readers_see_whole_versions(cls: str, suffix: str, threshold: int, tmp_path: Path) -> None:
    how = cls, tmp_path / f"store{suffix}", threshold
    with opened(how, "w", locking=True) as store:
        store.update({"/first": np.full(3, -1), "/second": np.full(3, -1)})
    at_once = suffix != ".b2d"  # whose leaves are files, each by itself
    with opened(how, locking=True) as reader, Programs(PAIRS, how, 4, 40) as programs:
        seen: set[int] = set()
        while any(program.poll() is None for program in programs):
            first, second = reader.read_many(["/first", "/second"])
            assert first.min() == first.max()
            assert second.min() == second.max()
            if at_once:
                assert first[0] == second[0]
            assert "/first" in reader
            seen.add(int(first[0]))
            if len(seen) > 5:
                Path(f"{how[1]}.seen").touch()
            keys = list(reader)
            assert {"/first", "/second"} <= set(keys)
            for key in keys[-3:]:
                leaf = reader.get(key)
                assert leaf is not None
        assert all(program.wait() == 0 for program in programs)
        assert len(seen) > 5
        counts = [int(program.stdout.read()) for program in programs]
        assert min(counts) >= 40
        expected = {f"/other{me}/{n}" for me in range(4) for n in range(counts[me])} | {"/first", "/second"}
        assert {key for key in reader if isinstance(reader[key], blosc2.NDArray)} == expected
        assert reader.read("/first").tolist() == reader.read("/second").tolist()
    check_clean(how[1])


@KINDS
def test_kills_at_any_moment(cls: str, suffix: str, threshold: int, tmp_path: Path) -> None:
    how = cls, tmp_path / f"store{suffix}", threshold
    rng = random.Random(17)
    expected: set[str] = set()
    with opened(how, "w", locking=True, timeout=20) as store:
        for turn in range(5):
            with Programs(ADDS, how, 2, 10_000) as programs:
                for program in programs:
                    assert program.stdout.readline() == "0\n"
                time.sleep(rng.uniform(0, 0.1))
                programs[turn % 2].kill()
                programs[turn % 2].wait()
                store[f"/own{turn}"] = np.full(30, turn)  # and this handle goes on
                expected.add(f"/own{turn}")
                programs[1 - turn % 2].kill()
                programs[1 - turn % 2].wait()
                for me, program in enumerate(programs):
                    expected |= {f"/job{me}/{n}" for n in [0, *map(int, program.stdout.read().split())]}
            assert expected <= set(store)
            assert store[f"/own{turn}"][0] == turn
            check_clean(how[1])


FORKS = """
import os, sys, warnings
import numpy as np
import blosc2
from blosc2.exceptions import StoreLockedError
warnings.simplefilter("ignore", DeprecationWarning)
cls, path, threshold = sys.argv[1:]
more = {} if cls == "EmbedStore" else {"threshold": int(threshold)}
kind = getattr(blosc2, cls)
store = kind(path, mode="w", locking=True, **more)
store["/a"] = np.arange(3)
leaf = store["/a"]

def child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0

def refused(function):
    try:
        function()
    except StoreLockedError:
        return
    raise AssertionError("not refused")

def set_b():
    store["/b"] = [1]

def set_item():
    leaf[0] = 9

def inherited():
    assert store["/a"][:].tolist() == [0, 1, 2]
    refused(set_b)
    refused(set_item)
    refused(lambda: store.pop("/a"))
    refused(lambda: store.transaction().__enter__())
    other = kind(path, mode="a", locking=True, **more)
    other["/own%d" % os.getppid()] = [2]
    assert "/own%d" % os.getppid() in store   # which follows
    store.close()

child(inherited)
assert "/own%d" % os.getpid() in store
store["/b"] = [3]

def in_block():
    assert store["/c"][0] == 4
    refused(set_item)
    with kind(path, mode="r", locking=True) as reader:
        assert "/c" not in reader or path.endswith(".b2d")
    other = kind(path, mode="a", locking=True, timeout=0.1, **more)
    refused(lambda: other.update({"/d": [5]}))

with store.transaction():
    store["/c"] = [4]
    child(in_block)
    pid = os.fork()
    if pid == 0:
        pass        # the end of the block does nothing here
if pid == 0:
    store.close()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
with kind(path, mode="a", locking=True, timeout=5, **more) as other:
    other["/e"] = [6]
assert sorted(key for key in store if len(key) == 2) == ["/a", "/b", "/c", "/e"]
# A child that outlives the change of its parent does not hold the lock.
reading, writing = os.pipe()
with store.transaction():
    store["/f"] = [7]
    pid = os.fork()
    if pid == 0:
        os.read(reading, 1)
        os._exit(0)
with kind(path, mode="a", locking=True, timeout=5, **more) as other:
    other["/g"] = [8]
os.write(writing, b"x")
os.waitpid(pid, 0)
store.close()
print("fine")
"""


@KINDS
def test_forked_children(cls: str, suffix: str, threshold: int, tmp_path: Path) -> None:
    path = tmp_path / f"store{suffix}"
    done = subprocess.run(
        [sys.executable, "-c", FORKS, cls, str(path), str(threshold)], env=environment(), text=True,
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr
    check_clean(path)


def test_a_program_that_stops_makes_others_wait(tmp_path: Path) -> None:
    how = "DictStore", tmp_path / "store.b2z", 0
    with opened(how, "w", locking=True, timeout=0.3) as store, Programs(STOPS, how, 1, 0) as (program,):
        assert program.stdout.readline() == "in\n"
        with pytest.raises(StoreLockedError, match="turn") as raised:
            store["/b"] = [2]
        assert how[1].name in str(raised.value)
        assert list(store) == []
        program.kill()
        program.wait()
        store["/b"] = [2]
        assert list(store) == ["/b"]
