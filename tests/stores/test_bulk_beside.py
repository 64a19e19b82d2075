"""Many values in one call: what else goes on, full disks, kills, memory."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import limits
from fixture_kit.bulk import (
    FEW,
    KINDS,
    MANY,
    MOST_KINDS,
    ZIPS,
    Broken,
    Maker,
    assert_holds,
    assert_sound,
    failing,
    leaves,
    maker_of,
    numbered,
)
from fixture_kit.isolated import environment
from store_kit import tree_state

import blosc2
from blosc2._core.zip import archive_writer


@pytest.fixture(params=MOST_KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def make(kind: str, tmp_path: Path) -> Maker:
    return maker_of(kind, tmp_path)


@pytest.fixture
def path(kind: str, tmp_path: Path) -> Path:
    return tmp_path / f"store{KINDS[kind][1]}"


# ---------------------------------------------------------------------- keys that exclude each other


@pytest.mark.parametrize("kind", ["tree-zip", "tree-directory"])
def test_attributes_stay(make: Maker, path: Path) -> None:
    with make() as store:
        store["/g/a"] = [1]
        store["/g"].vlmeta["unit"] = "mm"
        view = store["/g"].vlmeta
        store.write_many(numbered(MANY))
        view["more"] = 2
        with pytest.raises(ValueError, match="already has children"):
            store.write_many([*numbered(MANY), ("/g", [1])])
    with make("r") as store:
        assert store["/g"].vlmeta[:] == {"unit": "mm", "more": 2}
        assert_holds(store, {"/g/a": [1], **dict(numbered(MANY))})


# ---------------------------------------------------------------------- what else goes on
@pytest.mark.parametrize("count", [FEW, MANY])
def test_transactions(make: Maker, path: Path, count: int) -> None:
    with make() as store:
        store["/old"] = [1]
    before = tree_state(path)
    with make() as store:
        with pytest.raises(Broken), store.transaction():
            store.write_many(numbered(count))
            assert len(leaves(store)) == count + 1
            raise Broken
        assert_holds(store, {"/old": [1]})
        assert tree_state(path) == before
        with store.transaction():
            store["/early"] = [2]
            with pytest.raises(Broken):
                store.write_many(failing(count, Broken(), None))
            assert_holds(store, {"/old": [1], "/early": [2]})
            store.write_many(numbered(count))
            assert tree_state(path) == before
        assert tree_state(path) != before
    with make("r") as store:
        assert_holds(store, {"/old": [1], "/early": [2], **dict(numbered(count))})
    assert_sound(path)


def test_earlier_changes_are_published_before(make: Maker, path: Path) -> None:
    with make() as store:
        store["/a"], store["/b"] = [1], [2]
        store.flush()
        store["/a"][0] = 5
        del store["/b"]
        store["/c"] = [3]
        with pytest.raises(Broken):
            store.write_many(failing(400, Broken(), None))
        with make("r") as reader:
            assert_holds(reader, {"/a": [5], "/c": [3]})
        store.discard()
        assert_holds(store, {"/a": [5], "/c": [3]})


def test_leaves_stay_live(make: Maker, path: Path) -> None:
    with make() as store:
        store["/a"] = [1, 2]
        store["/g/k3"] = [1, 2]
        held, replaced = store["/a"], store["/g/k3"]
        store.write_many(numbered(MANY))
        assert replaced[:].tolist() == [1, 2]
        with pytest.raises(ValueError, match="another value"):
            replaced[0] = 5
        held[0] = 7
        assert store["/a"] is held
        store["/g/k3"][0] = 8
    with make("r") as store:
        assert_holds(store, dict(numbered(MANY)) | {"/a": [7, 2], "/g/k3": [8, 3, 3, 3, 3]})


MEANWHILE: dict[str, Callable[[Any], Any]] = {
    "set": lambda store: store.__setitem__("/meanwhile", [1]),
    "delete": lambda store: store.__delitem__("/old"),
    "edit": lambda store: store["/old"].__setitem__(0, 9),
    "flush": lambda store: store.flush(),
    "discard": lambda store: store.discard(),
    "refresh": lambda store: store.refresh(),
    "compact": lambda store: store.compact(),
    "transaction": lambda store: store.transaction().__enter__(),
    "rename": lambda store: store.rename("/old", "/renamed"),
    "close": lambda store: store.close(),
    "many": lambda store: store.write_many({"/inner": [1]}),
    "read": lambda store: np.testing.assert_array_equal(store["/old"][:], [1, 2]),
    "list": lambda store: (list(store), len(store), store.keys() & {"/old"}),
    "check": lambda store: store.check(),
}


@pytest.mark.parametrize("kind", ["dict-directory", "tree-zip"])
@pytest.mark.parametrize("what", MEANWHILE)
@pytest.mark.parametrize(("fresh", "at"), [(False, 300), (True, 1)], ids=["grown", "new"])
def test_a_generator_that_uses_the_store(make: Maker, path: Path, what: str, at: int, fresh: bool) -> None:
    """It may: what it does counts, or is refused; in no case is anything else lost."""
    expected: dict[str, Any] = {"/old": [1, 2]}
    if not fresh:
        with make() as store:
            store.update(expected)
    store = make()
    if fresh:
        store.update(expected)
        store.flush()
    refused = False

    def using() -> Iterator[tuple[str, Any]]:
        nonlocal refused
        for n, (key, value) in enumerate(numbered(600)):
            if n == at:
                try:
                    MEANWHILE[what](store)
                except (RuntimeError, ValueError):
                    refused = True
            yield key, value

    store.write_many(using())
    expected |= dict(numbered(600))
    if not refused:
        if what == "set":
            expected["/meanwhile"] = [1]
        elif what == "many":
            expected["/inner"] = [1]
        elif what == "delete":
            del expected["/old"]
        elif what == "edit":
            expected["/old"] = [9, 2]
        elif what == "rename":
            expected["/renamed"] = expected.pop("/old")
        else:
            assert what in ("read", "list", "check", "refresh")
    assert_holds(store, expected)
    store.close()
    with make("r") as store:
        assert_holds(store, expected)
    assert_sound(path)


@pytest.mark.parametrize("kind", ZIPS)
def test_a_store_that_is_ended_meanwhile(make: Maker, path: Path) -> None:
    with make() as store:
        store["/old"] = [1]

    def ending() -> Iterator[tuple[str, Any]]:
        for n, item in enumerate(numbered(600)):
            if n == 400:
                with pytest.raises(RuntimeError, match="write_many is under way"):
                    store.__exit__(None, None, None)
                assert store.closed
            yield item

    store = make()
    with pytest.raises((RuntimeError, ValueError), match="closed"):
        store.write_many(ending())
    with make("r") as store:
        assert_holds(store, {"/old": [1]})
    assert_sound(path)


def test_readers_see_the_old_version_meanwhile(make: Maker, source: str | None, kind: str) -> None:
    with make() as store:
        store["/old"] = [1]
    store = make()
    seen = 0

    def watched() -> Iterator[tuple[str, Any]]:
        nonlocal seen
        reader = make("r", mmap_mode=source)
        for n, item in enumerate(numbered(600)):
            if n % 100 == 99:
                reader.refresh()
                assert_holds(reader, {"/old": [1]})
                with make("r", mmap_mode=source) as other:
                    assert_holds(other, {"/old": [1]})
                seen += 1
            yield item
        reader.close()

    store.write_many(watched())
    store.close()
    assert seen == 6


# ---------------------------------------------------------------------- embedded values
def test_values_that_were_embedded(tmp_path: Path) -> None:
    path = tmp_path / "store.b2z"
    with blosc2.TreeStore(str(path), mode="w", threshold=None) as store:
        store.write_many(numbered(20))
        store["/h/x"] = [5]
    with blosc2.TreeStore(str(path), mode="a") as store:
        assert len(store.estore) == 21
        store.write_many((key, value + 1) for key, value in numbered(MANY, 10))
        expected = dict(numbered(10)) | {key: value + 1 for key, value in numbered(MANY, 10)} | {"/h/x": [5]}
        assert_holds(store, expected)
        assert len(store.estore) == 11  # the others would come back when the members go
        del store["/g/k10"]
        assert "/g/k10" not in store
    del expected["/g/k10"]
    with blosc2.TreeStore(str(path), mode="r") as store:
        assert_holds(store, expected)
    assert_sound(path)


# ---------------------------------------------------------------------- faults
FULL = """
import resource, signal, sys
import numpy as np
import blosc2
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, kind = sys.argv[1:]
store = getattr(blosc2, kind)(path, mode="a")
expected = {key: leaf[:].tolist() for key, leaf in store.items() if isinstance(leaf, blosc2.NDArray)}
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, resource.RLIM_INFINITY))
rng = np.random.default_rng(5)
for _ in range(2):
    try:
        store.write_many((f"/new/{n}", rng.integers(0, 1 << 62, 1000)) for n in range(2000))
    except OSError:
        pass
    else:
        sys.exit("it was not refused")
    assert {key: leaf[:].tolist() for key, leaf in store.items() if isinstance(leaf, blosc2.NDArray)} == expected
store.write_many((f"/new/{n}", [n]) for n in range(400))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.write_many((f"/more/{n}", [n]) for n in range(400))
store.close()
"""


@pytest.mark.skipif(limits.resource is None, reason="the size of files is limited by POSIX")
@pytest.mark.parametrize("kind", ZIPS)
@pytest.mark.parametrize("fresh", [False, True], ids=["grown", "new"])
def test_a_full_disk(make: Maker, path: Path, kind: str, fresh: bool) -> None:
    expected: dict[str, Any] = {}
    if not fresh:
        expected = dict(numbered(MANY))
        with make() as store:
            store.write_many(expected)
    program = [sys.executable, "-c", FULL, str(path), KINDS[kind][0].__name__]
    subprocess.run(program, env=environment(), check=True)
    expected |= {f"/new/{n}": [n] for n in range(400)} | {f"/more/{n}": [n] for n in range(400)}
    with make("r") as store:
        assert_holds(store, expected)
    assert_sound(path)


KILLED = """
import sys
import numpy as np
import blosc2
path, kind = sys.argv[1:]
def values():
    for n in range(1 << 30):
        if n == 3000:
            print("now", flush=True)
        yield f"/new/{n}", np.random.default_rng(n).integers(0, 1 << 62, 100)
with getattr(blosc2, kind)(path, mode="a") as store:
    store.write_many(values())
"""


@pytest.mark.parametrize("kind", ZIPS)
@pytest.mark.parametrize("fresh", [False, True], ids=["grown", "new"])
def test_a_kill(make: Maker, path: Path, kind: str, fresh: bool, source: str | None) -> None:
    expected = dict(numbered(MANY))
    if not fresh:
        with make() as store:
            store.write_many(expected)
    before = None if fresh else path.read_bytes()
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), KINDS[kind][0].__name__], env=environment(), stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"now\n"
        writer.send_signal(signal.SIGKILL if hasattr(signal, "SIGKILL") else signal.SIGTERM)
    if fresh:
        assert not path.exists()
    else:
        with make("r", mmap_mode=source) as store:
            assert_holds(store, expected)
    with make() as store:
        if not fresh:
            assert path.read_bytes() == before
            assert_holds(store, expected)
        store.write_many(numbered(MANY, 100))
        store.compact()
    expected = dict(numbered(MANY, 100)) | ({} if fresh else expected)
    with make("r") as store:
        assert_holds(store, expected)
    assert_sound(path)


MEMORY = """
import sys
import numpy as np
import blosc2
from fixture_kit import limits
path, count = sys.argv[1], int(sys.argv[2])
def values(count):
    buffer = np.zeros(64)
    for n in range(count):
        buffer[:] = n
        yield f"/group{n % 7}/with/a/long/name/{n * 7919 % count:09d}", buffer
with blosc2.TreeStore(path + ".warm.b2z", mode="w") as store:
    store.write_many(values(1000))
before = limits.peak_memory()
with blosc2.TreeStore(path, mode="w") as store:
    assert store.write_many(values(count)) == count
    print(limits.peak_memory() - before)
"""


@pytest.mark.skipif(not limits.LINUX, reason="memory is measured as Linux has it")
def test_memory_is_bounded(tmp_path: Path) -> None:
    path, count = str(tmp_path / "large.b2z"), 200_000
    program = [sys.executable, "-c", MEMORY, path, str(count)]
    grown = int(subprocess.run(program, env=environment(), check=True, capture_output=True, text=True).stdout)
    # Frames of some 200 bytes behind an object each take twice as much, and pending changes five times.
    assert grown < 500 * count
    with blosc2.TreeStore(path, mode="r") as store:
        assert len(store) == count + 7 * 5
        assert store.stats()[0][5:7] == (count, count * 512)
        for n in range(0, count, 9973):
            assert (store[f"/group{n % 7}/with/a/long/name/{n * 7919 % count:09d}"][:] == n).all()


def test_more_records_than_memory_is_meant_for(tmp_path: Path) -> None:
    """Long names fill what is kept of leaves before the rest is sorted in files."""
    path = tmp_path / "long.b2z"
    stem = "/".join("n" * 230 for _ in range(15))
    count = 18_000  # of 7 KB each, stored twice
    with blosc2.DictStore(str(path), mode="w") as store:
        store.write_many((f"/{n * 7919 % count}/{stem}", [n]) for n in range(count))
        assert len(store) == count
    with blosc2.DictStore(str(path), mode="r", mmap_mode="r") as store:
        for n in range(0, count, 997):
            assert store[f"/{n * 7919 % count}/{stem}"][0] == n
    assert os.listdir(tmp_path) == [path.name]


def test_records_that_are_sorted_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What memory should not hold of a directory is sorted in runs and merged: the store is the same."""
    path = tmp_path / "s.b2z"
    monkeypatch.setattr(archive_writer, "RUNS_BUDGET", 16 << 10)
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.write_many((f"/{n * 7919 % 3000:04d}/{n % 3}", np.int32(n)) for n in range(6000))
        store.write_many((f"/{n:04d}/x", np.int32(-n)) for n in range(0, 3000, 2))
    expected = {f"/{n * 7919 % 3000:04d}/{n % 3}": n for n in range(6000)} | {
        f"/{n:04d}/x": -n for n in range(0, 3000, 2)
    }
    with blosc2.TreeStore(str(path), mode="r", mmap_mode="r") as store:
        keys = sorted(expected)
        assert [key for key in store if key.count("/") == 2] == keys
        assert store.read_many(keys).tolist() == [expected[key] for key in keys]
    assert [name for name in os.listdir(tmp_path) if name != "s.b2z"] == []
    assert blosc2.check(str(path)).ok
