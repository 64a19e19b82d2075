"""Which keys a store takes, and which it refuses beside others: the answer is that of each way to give a key a leaf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount
from store_kit import BAD_KEYS
from store_makers import KINDS, Maker, values_of

import blosc2

LARGE = np.arange(500)
MANY = {f"/many/k{n}": [n] for n in range(300)}


class Text(str):
    """A string of a class of its own."""

    __slots__ = ()


def in_transaction(store: Any, key: str) -> None:
    with store.transaction():
        store["/early"] = [1]
        store[key] = [2]


#: Ways to give a key the leaf [2]; there is a leaf "/other" that can get another key.
WAYS: dict[str, Callable[[Any, str], object]] = {
    "set an array": lambda store, key: store.__setitem__(key, np.array([2])),
    "set a list": lambda store, key: store.__setitem__(key, [2]),
    "setdefault": lambda store, key: store.setdefault(key, [2]),
    "update": lambda store, key: store.update({key: [2]}),
    "update many": lambda store, key: store.update({**MANY, key: [2]}),
    "write few": lambda store, key: store.write_many({key: np.array([2])}),
    "write many": lambda store, key: store.write_many(iter([*MANY.items(), (key, np.array([2]))])),
    "rename": lambda store, key: store.rename("/other", key),
    "transaction": in_transaction,
}
OF_FILES = [kind for kind in KINDS if kind not in ("b2e", "b2d-embedded")]


# ------------------------------------------------------------------ keys by themselves
#: Those that take one key at a time; `test_bulk.py` gives bad keys among many others.
SINGLE = [way for way in WAYS if "many" not in way]


@pytest.mark.parametrize("way", SINGLE)
@pytest.mark.parametrize("kind", ["b2e", "b2z", "b2d-mixed", "tree-b2z"])
def test_keys_that_no_store_takes(kind: str, way: str, tmp_path: Path) -> None:
    make = Maker(kind, tmp_path)
    bad = [*BAD_KEYS, *(["/__vlmeta__", "/a/__vlmeta__", "/__vlmeta__/a", "/_meta", "/"] if make.is_tree else [])]
    with make("w") as store:
        store["/other"] = [2]
        for key in bad:
            if way == "setdefault" and key == "/":
                continue  # which is there
            with pytest.raises(ValueError):
                WAYS[way](store, key)
        recount(store, {"/other": [2]})


UNUSUAL = [
    "/k-1", "/k_2", "/k 3", "/_k", "/_Meta", "/__k", "/b/meta", "/_", "/g/_/k", "/-k", "/ l", "/k .x", "/con x",
    "/conin$x", "/a=1,b=(2)/c+d", "/a$", "/'%{}[]~#&;!@^`", "no/slash", "/x.b2nd.y", "/é/ü", Text("/text"),
    Text("word"), "/" + "long" * 55,
]  # fmt: skip


@pytest.mark.parametrize("way", [*SINGLE, "all by update", "all by write_many"])
@pytest.mark.parametrize("kind", KINDS)
def test_unusual_keys(kind: str, way: str, tmp_path: Path) -> None:
    make = Maker(kind, tmp_path)
    expected = {"/" + key.removeprefix("/"): [2] for key in UNUSUAL}
    with make("w") as store:
        if way in WAYS:
            for key in UNUSUAL:
                store["/other"] = [2]
                WAYS[way](store, key)
            expected |= {"/early": [1]} if way == "transaction" else {}
            expected |= {"/other": [2]} if way != "rename" else {}
        else:
            getattr(store, way[7:])({**MANY, **{key: [2] for key in UNUSUAL}})
            expected |= MANY
        assert {type(key) for key in store} == {str}
        recount(store, expected)
    assert make.values() == expected


# ------------------------------------------------------------------ keys beside others
#: What is there, what is refused beside it, why, and whether that is so in trees alone.
CLASHES = [
    ("/a", "/a/b", "/a' that already contains data", True),
    ("/a/b", "/a", "already has children", True),
    ("/a/b/c/d", "/a/b", "already has children", True),
    ("/a/b", "/a/b/c/d", "/a/b' that already contains data", True),
    ("/many/x", "/many/x/y", "/many/x' that already contains data", True),
    ("/a/_x/b", "/a/_x", "already has children", True),
    ("/Key", "/kEY", "in case only", False),
    ("/\xdcn\xef/x", "/\xfcn\xcf/x", "in case only", False),
    ("/caf\xe9/x", "/CAFE\u0301/X", "accents", False),
    ("/stra\xdfe", "/STRASSE", "accents", False),
    ("/x", "/x.b2nd/y", "name of the file of a leaf", False),
    ("/x.b2nd/y", "/x", "name of the file of a leaf", False),
    ("/p/x.b2f/y/z", "/p/x", "name of the file of a leaf", False),
    ("/p/x", "/p/x.b2b/y.b2nd/z", "name of the file of a leaf", False),
]


@pytest.mark.parametrize("where", ["published", "pending", "among many", "embedded"])
@pytest.mark.parametrize(
    ("kind", "clash"),
    [(kind, n) for n, clash in enumerate(CLASHES) for kind in OF_FILES if kind.startswith("tree") or not clash[3]],
)
def test_keys_that_exclude_each_other(
    kind: str, clash: int, where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    first, second, match, _ = CLASHES[clash]
    make = Maker(kind, tmp_path)
    if where == "pending" and make.is_directory:
        request.getfixturevalue("changes_wait")
    expected = {"/other": [7], first: [1]}
    if where == "embedded":
        make.options = {"threshold": 200}
    with make("w") as store:
        if where == "among many":
            store.write_many(MANY)
            expected |= MANY
        store.update({"/other": [7]} if where == "pending" else {"/other": [7], first: [1]})
    if where == "embedded":
        make.options = {"threshold": 0}
    with make("a") as store:
        if where == "pending":
            for key in ("/warm/a", "/warm/b", "/other", first):  # from the second one on, this is the fast path
                store[key] = np.array(expected.setdefault(key, [1]))
        count = len(store)
        for way, act in WAYS.items():
            if way != "setdefault" or "children" not in match:  # a group is there
                with pytest.raises(ValueError, match=match):
                    act(store, second)
                assert len(store) == count, way
        for act in (store.update, store.write_many):
            for pairs in ([], [*MANY.items()]):
                with pytest.raises(ValueError, match=match):
                    act(iter([("/new" + first, [1]), *pairs, ("/new" + second, [2])]))
        recount(store, expected)
        del store[first]
        store[second] = [2]
        with pytest.raises(ValueError, match=match if first.lower() == second.lower() else None):
            store[first] = [1]
        del expected[first]
        expected[second] = [2]
        recount(store, expected)
    assert make.values() == expected
    assert blosc2.check(make.path).ok


@pytest.mark.parametrize("upper", [False, True], ids=["lower", "upper"])
@pytest.mark.parametrize("clash", range(len(CLASHES)))
def test_keys_that_exclude_each_other_in_a_store_that_is_empty(clash: int, upper: bool, tmp_path: Path) -> None:
    first, second, match, _ = CLASHES[clash]
    pairs = [("/G" + first, [1]), ("/G" + second, [2])] if upper else [(first, [1]), (second, [2])]
    with Maker("tree-b2z", tmp_path)("w") as store:
        for act in (store.write_many, store.update):
            with pytest.raises(ValueError, match=match):
                act(iter(pairs))
            assert not len(store)


def test_an_embed_store_has_them_side_by_side(tmp_path: Path) -> None:
    make = Maker("b2e", tmp_path)
    expected = {key: [n] for n, clash in enumerate(CLASHES) for key in clash[:2]}
    with make("w") as store:
        store.update(expected)
    assert make.values() == expected


@pytest.mark.parametrize("kind", OF_FILES)
def test_a_key_that_was_removed_excludes_nothing(kind: str, tmp_path: Path) -> None:
    make = Maker(kind, tmp_path)
    with make("w") as store:
        store.update({f"/a/k{n}": [n] for n in range(5)})
        for again, like in (("/a/K1", "/a/k1"), ("/a/k2", "/a/K2")):
            del store["/a/k" + again[-1]]
            store[again] = [9]
            with pytest.raises(ValueError, match=f"differs from '{again}' in case only"):
                store[like] = [8]
        del store["/a/K1"], store["/a/k2"]
        store["/a/k1"] = store["/a/K2"] = [3]
        with pytest.raises(TypeError, match="cannot be stored"):
            store["/b/group/key"] = np.array([None])
        store["/b/group"] = [4]  # a refused value leaves no group behind
        store.write_many(MANY)
        with pytest.raises(ValueError, match="in case only"):
            store["/many/K5"] = [1]
        del store["/many/k5"]
        store.write_many({**MANY, "/many/k5": [50]})
    assert make.values() == {
        "/a/K2": [3], "/a/k0": [0], "/a/k1": [3], "/a/k3": [3], "/a/k4": [4], "/b/group": [4], **MANY, "/many/k5": [50],
    }  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["/a?b", "/con", "/nul.x/y", "/end.", "/blank /x"])
def test_keys_of_others_can_be_read(
    key: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str | None
) -> None:
    make = Maker(kind, tmp_path)
    with make("w") as store:
        with monkeypatch.context() as patch:
            patch.setattr("blosc2._stores.store.new_key", lambda key: key)
            store[key], store["/large"] = [1], np.arange(40)
        store.flush()
        store["/large"] = np.arange(41)
        store.compact()
        assert make.values(mmap_mode=source)[key] == [1]
        store[key][0] = 5
        store.flush()
        with pytest.raises(ValueError, match="file everywhere"):
            store[key] = [2]
        with pytest.raises(ValueError, match="file everywhere"):
            store.rename("/large", key + ".")
        store.rename(key, "/good")
        store.rename("/large", "/other")
    assert make.values(mmap_mode=source) == {"/good": [5], "/other": list(range(41))}
    assert not blosc2.check(make.path)


# ------------------------------------------------------------------ what had to go for a leaf
def remove_attributes(store: Any) -> None:
    store["/g"].vlmeta.clear()


def remove_value(store: Any) -> None:
    del store["/h/small"]


# What is removed, then what is assigned that could not be there beside it, in a tree or in any store.
PAIRS: dict[str, tuple[Callable[[Any], None], str, bool]] = {
    "attributes, a leaf": (remove_attributes, "/g", True),
    "a value, a leaf": (remove_value, "/h", True),
    "a value, a leaf below it": (remove_value, "/h/small/x", True),
    "a value, another case": (remove_value, "/h/SMALL", False),
    "a value, a folder like its file": (remove_value, "/h/small.b2nd/x", False),
}


@pytest.mark.parametrize("how", ["set", "update", "rename"])
@pytest.mark.parametrize(
    ("cls", "pair"),
    [(cls, pair) for pair, found in PAIRS.items() for cls in (blosc2.TreeStore, blosc2.DictStore)[: 2 - found[2]]],
)
@pytest.mark.usefixtures("publishes_at_once")
def test_what_excluded_a_leaf_does_not_come_back_beside_it(
    cls: type, pair: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new leaf is not published before what had to go for it."""
    remove, key, _ = PAIRS[pair]
    is_tree = cls is blosc2.TreeStore
    path = str(tmp_path / "x.b2d")
    with cls(path, mode="w", threshold=100) as store:
        store["/h/small"], store["/k"] = [1], LARGE
        if is_tree:
            store.create_group("/g").vlmeta["x"] = 1
    with cls(path, mode="a", threshold=100) as store:
        with monkeypatch.context() as patch:  # the removal waits, as in a large store
            patch.setattr("blosc2._backends.publish_pace.Pace.is_due", lambda *given: False)
            remove(store)
        if how == "rename":
            store.rename("/k", key)
        elif how == "update":
            store.update({key: LARGE})
        else:
            store[key] = LARGE
        store.discard()
        leaves = values_of(store)
        assert leaves[key] == LARGE.tolist()
        assert len({name.lower() for name in leaves}) == len(leaves)
        recount(store, leaves, {"/g"} if is_tree and key != "/g" else ())
        assert key == "/g" or "/h/small" not in leaves
    assert blosc2.check(path).ok


@pytest.mark.parametrize("embedded", [0, 1, 2])
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_check_finds_a_name_of_a_leaf_and_a_group(suffix: str, embedded: int, tmp_path: Path) -> None:
    path = str(tmp_path / ("x" + suffix))
    with blosc2.TreeStore(path, mode="w", threshold=100 if embedded else 0) as store:
        store["/g/x"] = [1] if embedded == 1 else LARGE
        store["/g-"] = [1]
    assert blosc2.check(path).ok
    with blosc2.DictStore(path, threshold=100 if embedded else 0) as store:
        store["/g"] = [1] if embedded == 2 else LARGE
    (finding,) = blosc2.check(path)
    assert finding.key == "/g"
    assert "a group as well" in finding.problem
    with blosc2.DictStore(path) as store:  # as it says
        store.rename("/g", "/other")
    assert blosc2.check(path).ok
    with blosc2.TreeStore(path) as store:
        assert list(store) == ["/g", "/g-", "/g/x", "/other"]


@pytest.mark.parametrize("kind", ["b2z", "b2d"])
def test_names_that_could_not_be_collected_are_collected_again(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory that is short then must not let a key in that differs from another one in case only."""
    make = Maker(kind, tmp_path)
    with make("w") as store:
        store["/A"] = [1]
    with make("a") as store:
        with monkeypatch.context() as patch:
            patch.setattr("blosc2._stores.new_keys.KeySet", lambda: (_ for _ in ()).throw(MemoryError))
            with pytest.raises(MemoryError):
                store["/b"] = np.array([2])
        with pytest.raises(ValueError, match="differs from '/A' in case only"):
            store["/a"] = np.array([3])
        store["/b"] = np.array([2])
        assert values_of(store) == {"/A": [1], "/b": [2]}


@pytest.mark.parametrize("suffix", [".b2e", ".b2z", ".b2d"])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_get_tells_what_is_not_there_from_what_is_no_key(tmp_path: Path, suffix: str, mode: Any) -> None:
    kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
    path = str(tmp_path / f"a{suffix}")
    with kind(path, mode="w") as store:
        store["/g/a"] = np.arange(3)
    with kind(path, mode=mode) as store:
        assert store.get("/g/b") is None
        assert store.get("g/b", 7) == 7
        assert store.get("/g/a")[1] == store.get("g/a", 7)[1] == 1
        for key in ("/g/a/", "", "/g//a"):
            with pytest.raises(ValueError, match="Key cannot"):
                store.get(key)
    for key in ("/g/a", "/g/b"):
        with pytest.raises(ValueError, match="closed"):
            store.get(key)
