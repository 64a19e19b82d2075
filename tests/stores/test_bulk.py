"""Many values written in one call: all of them or none, whatever becomes of the values, the disk or the process."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.bulk import (
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_kit import BAD_KEYS, BAD_VALUES, VALUES, tree_state

import blosc2


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
_names = st.sampled_from([f"/{g}k{n}" for g in ("", "g/", "g/h/") for n in range(5)])
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("many"), st.lists(st.tuples(_names, st.integers(0, 99)), max_size=9), st.booleans()),
        st.tuples(st.just("set"), _names, st.integers(0, 99)),
        st.tuples(st.just("delete"), _names, st.none()),
        st.tuples(st.just("edit"), _names, st.integers(0, 99)),
        st.tuples(st.just("reopen"), st.none(), st.none()),
        st.tuples(st.just("compact"), st.none(), st.none()),
        st.tuples(st.just("fail"), st.lists(st.tuples(_names, st.integers(0, 99)), max_size=5), st.booleans()),
    ),
    max_size=10,
)  # fmt: skip


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=_steps)
def test_as_a_dictionary(make: Maker, path: Path, steps: list[tuple[str, Any, Any]]) -> None:
    now: dict[str, list[int]] = {}
    filler = dict(numbered(MANY, group="/filler"))
    store = make("w")
    for what, which, value in steps:
        if what in ("many", "fail"):
            given_items = [(key, [n, n]) for key, n in which]
            if value:  # so many that they are written as they come, with those of interest among them
                given_items += list(filler.items())
                given_items += given_items[: len(which)]
            if what == "fail":
                store.flush()
                with pytest.raises(ValueError, match="empty path"):
                    store.write_many([*given_items, ("/a//b", [1])])
                continue
            store.write_many(iter(given_items))
            now |= {key: np.asarray(array).tolist() for key, array in given_items}
        elif what == "set":
            store[which] = now[which] = [value]
        elif what == "delete" and which in now:
            del store[which]
            del now[which]
        elif what == "edit" and which in now:
            store[which][0] = value
            now[which] = [value, *now[which][1:]]
        elif what == "reopen":
            store.close()
            with make("r") as reader:
                assert {key: leaf[:].tolist() for key, leaf in leaves(reader).items()} == now
            store = make()
        elif what == "compact":
            store.compact()
        assert {key: leaf[:].tolist() for key, leaf in leaves(store).items()} == now
    store.close()
    assert list(blosc2.check(str(path))) == []


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
