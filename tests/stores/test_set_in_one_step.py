"""`store[key] = value` in one native step (`LeafSetter`) does what the general way does: keys, values and errors."""

from __future__ import annotations

import random
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount

import blosc2
from blosc2._stores.leaves import leaf_setting


class Text(str):
    """A string of a class of its own."""

    __slots__ = ()


KINDS = {
    "embed": (blosc2.EmbedStore, ".b2e"),
    "dict": (blosc2.DictStore, ".b2z"),
    "tree": (blosc2.TreeStore, ".b2z"),
}
KEYS = [
    "/a", "/A", "/a/b", "/a/b/c", "/a/B", "/b", "/b/c/d/e/f", "/b/c/d/e/g", "/b/c", "b", "/a/", "//", "/con", "/x.",
    "/x.b2nd/y", "/x", "/é", "/E\u0301", "/__vlmeta__", "/a/__vlmeta__", "/_meta", "/embed.b2e", "/k-1", "/k_2", "/k 3",
    "/_k", "/_Meta", "/__k", "/b/_meta", "/_", "/g/_/k", "/-k", "/ k", "/k ", "/k /x", "/k .x", "/con .x", "/con x",
    "/conin$", "/a=1,b=(2)/c+d", "/a\\b", "/a?", "/a$", "/'%{}[]~#&;!@^`", "/A=1,b=(2)/c+d", "g/b", "G/b", "g/b/c",
    "/g/b", "b/_x/.y", Text("/text"), Text("text"), "/" + "long" * 55, "", "/",
]  # fmt: skip
# Each of them excludes some of the others in a tree.
PATHS = ["".join(f"/{name}" for name in names) for depth in (1, 2, 3) for names in product("abc", repeat=depth)]


def values(rng: random.Random) -> Any:
    """A value of some kind: most of them small, some that cannot be stored."""
    n = rng.randrange(1, 200)
    return rng.choice(
        [
            lambda: np.full(20, n, "u1"),
            lambda: np.full(20, n, "u1"),
            lambda: np.arange(n, dtype="f4").reshape(-1, 1),
            lambda: np.zeros(7, "i8"),
            lambda: np.arange(5000) * n,
            lambda: np.arange(2 * n)[::2],
            lambda: np.array(n),
            lambda: np.zeros((0, 3)),
            lambda: np.array([(1, 2.5)], dtype=[("x", "i4"), ("y", "f8")]),
            lambda: np.array(["text", "more"]),
            lambda: np.array([None]),
            lambda: [n, 2],
            dict,
        ]
    )()


def outcome(act: Any) -> Any:
    """What an act gives, or the error that it raises."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - compared with that of another store
        return type(error), str(error)


def shown(store: Any) -> dict[str, list[Any]]:
    """All leaves and their items."""
    found = {}
    for key in store:
        leaf = store[key]
        if not isinstance(leaf, blosc2.TreeStore):
            found[key] = np.asarray(leaf[...]).tolist()
    return found


@pytest.fixture
def never(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Stores that set no leaf in one step."""

    def off() -> None:
        monkeypatch.setattr(leaf_setting, "_new_setter", lambda store: None)

    return off


def act_on(store: Any, kind: float, key: str, other: str, value: Any) -> Any:
    """Do something to a store; what it gives."""

    def block() -> None:
        with store.transaction():
            store[key] = value
            store[other] = value
            if kind < 0.93:
                raise ArithmeticError

    if kind < 0.6:
        return outcome(lambda: store.__setitem__(key, value))
    if kind < 0.7:
        return outcome(lambda: store.__delitem__(key))
    if kind < 0.75:
        return outcome(lambda: store.rename(key, other))
    if kind < 0.8:
        return outcome(store.flush)
    if kind < 0.85 and isinstance(store, blosc2.TreeStore):
        return outcome(lambda: store.get_subtree("/a").__setitem__(key, value))
    if kind < 0.9:
        return outcome(lambda: store.update({key: value, other: value}))
    if kind < 0.95:
        return outcome(block)
    if kind < 0.97 and not isinstance(store, blosc2.EmbedStore):  # what that has published depends on the time
        return outcome(store.discard)
    return outcome(lambda: store[key][...].tolist())


@pytest.mark.parametrize("keys", [KEYS, PATHS], ids=["unusual", "paths"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_it_does_what_the_general_way_does(kind: str, seed: int, keys: list[str], tmp_path: Path, never: Any) -> None:
    cls, suffix = KINDS[kind]
    paths = [str(tmp_path / (name + suffix)) for name in ("same", "name")]
    stores = []
    for n, path in enumerate(paths):
        (tmp_path / str(n)).mkdir()
        path = str(tmp_path / str(n) / ("store" + suffix))
        stores.append(cls(path, mode="w"))
        stores[-1]["/first"] = np.arange(3)  # its setter is there, or will never be
        if n == 0:
            assert stores[0]._setter is not None
            never()
    assert stores[1]._setter is None
    rng = random.Random(seed)
    for step in range(250):
        what = rng.random(), rng.choice(keys), rng.choice(keys), values(rng)
        ours, general = (act_on(store, *what) for store in stores)
        ours, general = (
            tuple(str(part).replace(str(tmp_path / str(n)), "") for part in found)
            if isinstance(found, tuple)
            else found
            for n, found in enumerate((ours, general))
        )
        assert ours == general, step
        if step % 10 == 0:
            assert shown(stores[0]) == shown(stores[1]), step
            if kind != "embed":  # the order of its keys depends on what was published when
                assert list(stores[0]) == list(stores[1])
    for store in stores:
        store.close()
    again = [blosc2.open(str(tmp_path / str(n) / ("store" + suffix))) for n in range(2)]
    assert shown(again[0]) == shown(again[1])
    assert blosc2.check(str(tmp_path / "0" / ("store" + suffix))).ok


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_a_dict(kind: str, tmp_path: Path) -> None:
    cls, suffix = KINDS[kind]
    path = str(tmp_path / ("store" + suffix))
    rng = np.random.default_rng(4)
    model: dict[str, Any] = {}
    for mode in ("w", "a", "a"):
        with cls(path, mode=mode) as store:
            for n in range(1500):
                key = f"/g{n % 7}/h{n % 11}/k{rng.integers(600)}"
                store[key] = model[key] = rng.integers(0, 256, rng.choice([8, 200])).astype("u1")
                if n % 5 == 0:
                    gone = rng.choice(list(model))
                    del store[gone], model[gone]
            recount(store, {key: value.tolist() for key, value in model.items()})
    with blosc2.open(path) as store:
        for key, value in model.items():
            np.testing.assert_array_equal(store[key][...], value, strict=True)
        assert sum(store._contents.has(key) for key in store) == len(model)


def test_the_value_may_be_used_again(tmp_path: Path) -> None:
    value = np.zeros(50, "u1")
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(1, 400):
            value[:] = n % 250 + 1
            store[f"/a/{n}"] = value
        for n in range(1, 400):
            assert store[f"/a/{n}"][0] == n % 250 + 1


def test_an_open_leaf_is_let_go(tmp_path: Path) -> None:
    """As in the general way, what was taken of a key before stays readable, and can no longer be changed."""
    with blosc2.DictStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(3):
            store["/a"] = np.arange(5) + n
        held = store["/a"]
        held[0] = 77
        store["/a"] = np.arange(5) * 2
        assert held[0] == 77
        assert store["/a"][:].tolist() == [0, 2, 4, 6, 8]
        with pytest.raises(blosc2.exceptions.ClosedStoreError):
            held[1] = 3


def test_the_defaults_of_the_moment_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.arange(20)
    with blosc2.DictStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(4):
            store[f"/a{n}"] = value
        monkeypatch.setitem(blosc2.cparams_dflts, "codec", blosc2.Codec.LZ4)
        for n in range(4):
            store[f"/b{n}"] = value
        assert store["/a3"].cparams.codec == blosc2.Codec.ZSTD
        assert store["/b3"].cparams.codec == blosc2.Codec.LZ4


def test_another_thread_waits_for_a_transaction(tmp_path: Path) -> None:
    import threading

    errors: list[Exception] = []
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(3):
            store[f"/a/{n}"] = np.arange(4)

        def other() -> None:
            try:
                store["/a/9"] = np.arange(4)
            except RuntimeError as error:
                errors.append(error)

        with store.transaction():
            store["/a/4"] = np.arange(4)
            # It waits for the lock of the transaction, and sets the leaf afterwards.
            thread = threading.Thread(target=other)
            thread.start()
            store["/a/5"] = np.arange(4)
        thread.join()
        assert all("another thread has a transaction" in str(error) for error in errors)
        assert {"/a/4", "/a/5"} <= set(store)


@pytest.mark.parametrize("kind", KINDS)
def test_reads_of_one_handle_see_what_is_pending(kind: str, tmp_path: Path) -> None:
    """`read` of published, replaced, edited, removed and new leaves, in a handle that changes them."""
    cls, suffix = KINDS[kind]
    path = str(tmp_path / ("store" + suffix))
    rng = np.random.default_rng(1)
    model = {f"/g{n % 5}/k{n}": rng.integers(0, 99, 30).astype("u1") for n in range(900)}
    with cls(path, mode="w") as store:
        store.update(model)
    with cls(path, mode="a") as store:
        for n in range(3000):
            key = f"/g{(which := int(rng.integers(1000))) % 5}/k{which}"
            act = rng.random()
            if act < 0.2:
                store[key] = model[key] = rng.integers(0, 99, 30).astype("u1")
            elif act < 0.25 and key in model:
                del store[key], model[key]
            elif act < 0.3 and key in model:
                leaf = store[key]
                leaf[3] = 200
                model[key] = model[key].copy()
                model[key][3] = 200
                np.testing.assert_array_equal(store.read(key), model[key])
                del leaf
            elif key in model:
                found = store.read(key)
                np.testing.assert_array_equal(found, model[key], strict=True)
                found[:] = 0  # an array of its own
            else:
                with pytest.raises(KeyError):
                    store.read(key)
            if n in (1000, 2000):
                store.flush()
    with pytest.raises(blosc2.exceptions.ClosedStoreError):
        store.read("/g0/k0")
    with blosc2.open(path) as store:
        for key, value in model.items():
            np.testing.assert_array_equal(store.read(key), value, strict=True)


@pytest.mark.parametrize("published", [False, True])
def test_a_leaf_in_a_new_group_takes_one_step(published: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow: list[str] = []
    put = leaf_setting.put
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as store:
        store["/site/leaf"] = np.arange(3)
        if published:
            store.flush()
            store["/more"] = np.arange(3)  # its setter learns of the version
        monkeypatch.setattr(leaf_setting, "put", lambda of, key, *rest: (slow.append(key), put(of, key, *rest)))
        for n in range(50):
            for name in ("image", "label"):
                store[f"/site/case{n}/scan{n % 3}/{name}"] = np.full(4, n)
        assert slow == []
        for key, match in [
            ("/site/leaf/below", "'/site/leaf' that already contains data"),
            ("/site/leaf/far/below", "'/site/leaf' that already contains data"),
            ("/site/case1/scan1/image/below/it", "'/site/case1/scan1/image' that already contains data"),
            ("/site/case1", "already has children"),
            ("/site", "already has children"),
        ]:
            with pytest.raises(ValueError, match=match):
                store[key] = np.arange(3)
        # A refused key leaves nothing behind: what would have been its group may be a leaf.
        with pytest.raises(TypeError, match="cannot be stored"):
            store["/other/group/key"] = np.array([None])
        store["/other/group"] = np.arange(3)
        with pytest.raises(ValueError, match="'/other/group' that already contains data"):
            store["/other/group/key"] = np.arange(3)
        del store["/other/group"]
        store["/other/group/key"] = np.arange(5)
        assert len(store["/site"]) == 1 + 50 * (2 + 2)
        assert store["/site/case49/scan1"].keys() == {"/image", "/label"}


def test_a_removed_key_can_be_set_again_at_once(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(5):
            store[f"/a/k{n}"] = np.arange(4)
        del store["/a/k1"]
        store["/a/K1"] = np.arange(5)
        with pytest.raises(ValueError, match="differs from '/a/K1' in case only"):
            store["/a/k1"] = np.arange(4)
        del store["/a/k2"]
        store["/a/k2"] = np.arange(6)
        with pytest.raises(ValueError, match="differs from '/a/k2' in case only"):
            store["/a/K2"] = np.arange(4)
        del store["/a/K1"], store["/a/k2"]
        store["/a/k1"] = store["/a/K2"] = np.arange(3)
        assert list(store["/a"]) == ["/K2", "/k0", "/k1", "/k3", "/k4"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_write_many_does_what_the_general_way_does(
    kind: str, in_transaction: bool, seed: int, tmp_path: Path, never: Any
) -> None:
    cls, suffix = KINDS[kind]
    stores = []
    for n in range(2):
        (tmp_path / str(n)).mkdir()
        stores.append(cls(str(tmp_path / str(n) / ("store" + suffix)), mode="w"))
        stores[-1]["/first"] = np.arange(3)
        if n == 0:
            never()
    rng = random.Random(seed)
    usual = [f"/{'g' * (n % 3)}{n % 3}/k{n}" for n in range(300)]

    def write(store: Any, pairs: list[tuple[str, Any]], told: list[tuple[int, int]]) -> Any:
        def progress(count: int, nbytes: int) -> None:
            told.append((count, nbytes))

        if not in_transaction:
            return store.write_many(iter(pairs), progress=progress)
        with store.transaction():
            return store.write_many(iter(pairs), progress=progress)

    for step in range(12):
        # Mostly good ones, so that more than the first few are written; some are written twice.
        pairs = [
            (rng.choice(KEYS[:1] + usual), np.full(rng.randrange(1, 300), rng.randrange(200), "u1"))
            for _ in range(rng.choice([3, 40, 1500]))
        ]
        if step % 3 == 2:
            pairs.insert(rng.randrange(len(pairs)), (rng.choice(KEYS), values(rng)))
        if step % 4 == 3:
            pairs[5:5] = [(f"/large/{n}", np.arange(3000) * n) for n in range(4)]
        told: list[list[tuple[int, int]]] = [[], []]
        ours, general = (outcome(partial(write, store, pairs, told[n])) for n, store in enumerate(stores))
        assert str(ours).replace(f"{tmp_path}/0", "") == str(general).replace(f"{tmp_path}/1", ""), step
        if not isinstance(ours, tuple):
            assert told[0] == told[1], step
        assert shown(stores[0]) == shown(stores[1]), step
    for store in stores:
        store.close()
    again = [cls(str(tmp_path / str(n) / ("store" + suffix)), mode="r") for n in range(2)]
    assert shown(again[0]) == shown(again[1])


def test_frames_that_share_memory_stay_when_others_are_replaced(tmp_path: Path) -> None:
    store = blosc2.EmbedStore(str(tmp_path / "store.b2e"), mode="w")
    made = {f"/k{n}": np.full(50, n % 251, "u1") for n in range(3000)}
    with store.transaction():
        store.write_many(made)
        for n in range(0, 3000, 7):
            store[f"/k{n}"] = made[f"/k{n}"] = np.full(n % 90 + 1, 7, "i2")
            del store[f"/k{n + 1}"], made[f"/k{n + 1}"]
            assert (store[f"/k{n + 2}"][...] == made[f"/k{n + 2}"]).all()
    store.close()
    with blosc2.EmbedStore(str(tmp_path / "store.b2e"), mode="r") as store:
        assert shown(store) == {key: value.tolist() for key, value in made.items()}
