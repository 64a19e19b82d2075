"""Many values written in one call: all or none, whatever becomes of the values, the store, the disk or the process."""

from __future__ import annotations

import os
import shutil
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
from store_kit import BAD_KEYS, BAD_VALUES, VALUES, tree_state

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


# ---------------------------------------------------------------------- what can be given
@pytest.mark.parametrize("more", [0, MANY], ids=["few", "many"])
def test_mappings_pairs_and_keywords(make: Maker, path: Path, source: str | None, more: int) -> None:
    expected = VALUES | dict(numbered(more))
    with make() as store:
        assert store.write_many(expected) == len(expected)
        store.write_many(iter([("noslash", [1]), (np.str_("/numpy_key"), [2])]))
        store.update({"/scalar": 8}, keyword=[3])
        store.update(keyword=[4], other=[5])
        store.update([("/late", [6])])
        assert store.update() is None
        assert store.write_many({}) == store.write_many(iter(())) == 0
    expected |= {"/noslash": [1], "/numpy_key": [2], "/scalar": 8, "/keyword": [4], "/other": [5], "/late": [6]}
    with make("r", mmap_mode=source) as store:
        assert_holds(store, expected)
        assert {type(key) for key in store} == {str}
    assert_sound(path)


@pytest.mark.parametrize("items", [5, None, [1, 2], ["/k"], [("/k",)], [("/k", 1, 2)]], ids=repr)
def test_what_is_no_items(make: Maker, path: Path, items: Any) -> None:
    with make() as store:
        store["/a"] = [1]
        store.flush()
        before = tree_state(path)
        with pytest.raises((TypeError, ValueError)):
            store.write_many(items)
        assert tree_state(path) == before
        assert_holds(store, {"/a": [1]})


@pytest.mark.parametrize("count", [3, 255, 256, 257, 600])
def test_one_buffer_for_all_values(make: Maker, path: Path, count: int) -> None:
    def refilled() -> Iterator[tuple[str, Any]]:
        small, large = np.zeros(6), np.zeros(40_000)
        for n in range(count):
            value = large if n % 50 == 49 else small
            value[:] = n
            yield f"/k{n}", value
            value[:] = -1

    with make() as store:
        assert store.write_many(refilled()) == count
    with make("r") as store:
        assert all((store[f"/k{n}"][:] == n).all() for n in range(count))
    assert_sound(path)


def test_values_of_many_sizes_and_kinds(make: Maker, path: Path, source: str | None, rng: np.random.Generator) -> None:
    values: dict[str, Any] = {}
    for n, (size, dtype) in enumerate([
        (64, "u1"), (1000, "<f4"), (30_000, ">i2"), (200_000, "f8"), (2 << 20, "u1"), (1 << 20, "i8"), (0, "f8"),
        (17, "M8[s]"), (9, "<U5"), (3000, "c16"), (500_000, "f4"), (70_000, "i2"),
    ]):  # fmt: skip
        raw = rng.integers(0, 256 if n % 2 else 3, size * np.dtype(dtype).itemsize, dtype="u1")
        flat = raw.view(dtype) if np.dtype(dtype).kind not in "fcU" else np.arange(size).astype(dtype)
        values[f"/v/{n}"] = flat.reshape(2, -1) if size % 2 == 0 else flat
        values[f"/v/{n}/t" if "dict" in path.name else f"/w/{n}"] = values[f"/v/{n}"].T
    values |= dict(numbered(MANY))
    array = blosc2.asarray(np.arange(100_000), chunks=(30_000,), blocks=(999,), meta={"m": [1]})
    array.vlmeta["unit"] = "mm"
    schunk = blosc2.SChunk(chunksize=64, data=bytes(range(200)), cparams={"typesize": 1})
    with make() as store:
        store.write_many({**values, "/array": array, "/schunk": schunk})
    with make("r", mmap_mode=source) as store:
        assert store["/array"].to_cframe() == array.to_cframe()
        assert store["/schunk"].to_cframe() == schunk.to_cframe()
        for key, value in values.items():
            assert store[key].dtype == value.dtype
            np.testing.assert_array_equal(store[key][()], value)
    assert_sound(path)


def test_of_equal_keys_the_last_counts(make: Maker, path: Path) -> None:
    with make() as store:
        store.write_many(dict(numbered(MANY)))
        assert store.write_many([*numbered(MANY), ("g/k3", [1]), ("/g/k7", [2]), ("/g/k3", [3])]) == MANY + 3
        store.write_many([("/x", [1]), ("/x", [2])])
    expected = dict(numbered(MANY)) | {"/g/k3": [3], "/g/k7": [2], "/x": [2]}
    with make("r") as store:
        assert_holds(store, expected)
    with make() as store:
        store.compact()
        assert_holds(store, expected)
    assert_sound(path)


def test_another_store_and_the_store_itself(make: Maker, path: Path, tmp_path: Path) -> None:
    with make() as store:
        store.write_many(dict(numbered(MANY, group="")))
        store.write_many(store)
        store.write_many((key + "_copy", value) for key, value in list(store.items()))
        expected = dict(numbered(MANY, group="")) | {f"{k}_copy": v for k, v in numbered(MANY, group="")}
        assert_holds(store, expected)
        with blosc2.TreeStore(str(tmp_path / "sub" / "other.b2z"), mode="w") as other:
            other.get_subtree("/in/here").write_many(store)
            other["/in"].update({"x": [1]}, y=[2])
            assert_holds(other.get_subtree("/in/here"), expected)
            assert other["/in/x"][0] + other["/in/y"][0] == 3
    shutil.rmtree(tmp_path / "sub")
    assert_sound(path)


def test_progress(make: Maker) -> None:
    seen: list[tuple[int, int]] = []
    with make() as store:
        values = [*numbered(2500), ("/list", [1, 2, 3])]
        store.write_many(values, progress=lambda count, nbytes: seen.append((count, nbytes)))
        assert seen == [(1024, 1024 * 40), (2048, 2048 * 40), (2501, 2500 * 40 + 24)]
        seen.clear()
        store.write_many(numbered(3), progress=lambda count, nbytes: seen.append((count, nbytes)))
        assert seen == [(3, 120)]


@pytest.mark.parametrize("kind", ["embed", "tree-zip"])
def test_large_values_that_are_few(make: Maker, path: Path, rng: np.random.Generator) -> None:
    # more bytes than are kept as they are, in fewer values than are streamed
    values = {f"/v{n}": rng.bytes(1 << 16) * 32 for n in range(3)}
    arrays = {key: np.frombuffer(value, "u1") for key, value in values.items()}
    noise = {f"/n{n}": rng.integers(0, 1 << 62, 1 << 18) for n in range(40)}
    with make() as store:
        store.write_many(noise | arrays)
    with make("r") as store:
        assert_holds(store, noise | arrays)
    assert_sound(path)
    with make() as store:  # and then as few as usual
        store["/more"] = [1]
    with make("r") as store:
        assert_holds(store, noise | arrays | {"/more": [1]})
    assert_sound(path)


# ---------------------------------------------------------------------- against a dictionary
@pytest.mark.parametrize("at", [2, 300])
@pytest.mark.parametrize(
    ("error", "last"),
    [(Broken(), None), (KeyboardInterrupt(), None), (None, ("/bad//key", [1])), (None, (5, [1])),
     (None, ("/x", object())), (None, ("/x", np.array([None] * 30_000))), (None, "pair"), (None, ("/embed.b2e", [1]))],
    ids=["raises", "interrupt", "key", "number", "value", "objects", "pair", "reserved"],
)  # fmt: skip
def test_a_failure_changes_nothing(make: Maker, path: Path, at: int, error: BaseException | None, last: Any) -> None:
    expected = {"/old": [1, 2], "/new/k1": [3]}
    with make() as store:
        store.write_many(expected)
    before = tree_state(path)
    with make() as store:
        with pytest.raises((Broken, KeyboardInterrupt, TypeError, ValueError)):
            store.write_many(failing(at, error, last))
        assert {name: state[0] for name, state in tree_state(path).items()} == {n: s[0] for n, s in before.items()}
        assert [name for name in os.listdir(path.parent) if not name.endswith(".b2lock")] == [path.name]
        assert_holds(store, expected)
        store["/old"][0] = 9  # it is in use as before
        store["/new/k2"] = [4]
        store.write_many(numbered(MANY, group="/after"))
    with make("r") as store:
        assert_holds(store, {"/old": [9, 2], "/new/k1": [3], "/new/k2": [4], **dict(numbered(MANY, group="/after"))})
    assert_sound(path)


@pytest.mark.parametrize("at", [2, 400])
def test_a_failure_leaves_no_new_store(make: Maker, path: Path, at: int) -> None:
    store = make("w")
    with pytest.raises(Broken):
        store.write_many(failing(at, Broken(), None))
    there = [name for name in os.listdir(path.parent) if name.startswith(path.name) and "lock" not in name]
    if path.suffix == ".b2e":  # which is there, and empty, since it was opened
        assert there == [path.name]
        assert leaves(blosc2.open(path)) == {}
    else:
        assert there == []
    assert leaves(store) == {}
    store.write_many(numbered(MANY))
    store.close()
    with make("r") as store:
        assert_holds(store, dict(numbered(MANY)))
    assert_sound(path)


def test_a_failure_in_mode_w_keeps_the_old_store(make: Maker, path: Path) -> None:
    with make() as store:
        store.write_many(numbered(MANY))
    before = tree_state(path)
    with pytest.raises(Broken), make("w") as store:
        store.write_many(failing(400, Broken(), None))
    assert tree_state(path) == before
    with make("w") as store:
        store.write_many(numbered(MANY, group="/h"))
        assert_holds(store, dict(numbered(MANY, group="/h")))
    with make("r") as store:
        assert_holds(store, dict(numbered(MANY, group="/h")))
    assert_sound(path)


@pytest.mark.parametrize("when", [1024, 1500])
def test_progress_that_raises(make: Maker, path: Path, when: int) -> None:
    def stop(count: int, nbytes: int) -> None:
        if count == when:
            raise Broken

    with make() as store:
        store["/a"] = [1]
        store.flush()
        with pytest.raises(Broken):
            store.write_many(numbered(1500), progress=stop)
        assert_holds(store, {"/a": [1]})
    with make("r") as store:
        assert_holds(store, {"/a": [1]})
    assert_sound(path)


@pytest.mark.parametrize("kind", ["embed", *ZIPS])
@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_no_store_takes(make: Maker, key: str) -> None:
    with make() as store:
        for count in (0, MANY):
            with pytest.raises(ValueError):
                store.write_many([*numbered(count), (key, [1])])
        assert leaves(store) == {}


@pytest.mark.parametrize("kind", ["embed", *ZIPS])
@pytest.mark.parametrize("value", BAD_VALUES, ids=lambda value: type(value).__name__)
def test_values_that_are_no_arrays(make: Maker, value: Any) -> None:
    with make() as store:
        for count in (0, MANY):
            with pytest.raises(TypeError, match=r"/bad.*cannot be stored"):
                store.write_many([*numbered(count), ("/bad", value)])
        assert leaves(store) == {}


def test_read_only_and_closed(make: Maker, path: Path) -> None:
    with make() as store:
        store["/a"] = [1]
    before = tree_state(path)
    with make("r") as store:
        for call in (store.write_many, store.update):
            with pytest.raises(ValueError, match="read-only mode"):
                call({"/b": [1]})
    for call in (store.write_many, store.update):
        with pytest.raises(ValueError, match="closed store"):
            call({"/b": [1]})
    assert tree_state(path) == before


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
