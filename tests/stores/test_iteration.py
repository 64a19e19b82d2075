"""Going through the keys of a store: as through those of a dict, changes on the way included."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

import numpy as np
import pytest
from store_makers import Maker

COUNTS = [1, 2, 40, 2100]
WAYS: dict[str, Callable[[Any], Iterator[Any]]] = {
    "store": iter,
    "keys": lambda store: iter(store.keys()),
    "values": lambda store: iter(store.values()),
    "items": lambda store: iter(store.items()),
}
CHANGES: dict[str, Callable[[Any], Any]] = {
    "set": lambda store: store.__setitem__("/new", [1]),
    "delete": lambda store: store.__delitem__("/k0000"),
    "rename": lambda store: store.rename("/k0000", "/renamed"),
    "clear": lambda store: store.clear(),
    "pop": lambda store: store.pop("/k0000"),
    "write_many": lambda store: store.write_many({"/new": [1]}),
}
HARMLESS: dict[str, Callable[[Any], Any]] = {
    "overwrite": lambda store: store.__setitem__("/k0000", [9]),
    "edit": lambda store: store["/k0000"].__setitem__(0, 9),
    "flush": lambda store: store.flush(),
    "compact": lambda store: store.compact(),
    "read": lambda store: store["/k0000"][:],
}


def filled(make: Maker, count: int) -> Any:
    store = make("w")
    store.write_many((f"/k{n:04}", [n]) for n in range(count))
    return store


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("count", "at"), [(1, 1), (2, 1), (2, 2), (40, 17)])
def test_changes_of_keys_are_noticed(make: Maker, way: str, change: str, count: int, at: int) -> None:
    with filled(make, count) as store:
        going = WAYS[way](store)
        for _ in range(at):
            next(going)
        CHANGES[change](store)
        with pytest.raises(RuntimeError, match="during iteration"):
            next(going)
        keys = list(store)  # from the start, all is as it should be
        assert len(keys) == len(store) == len(set(keys))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("change", HARMLESS)
def test_other_changes_are_none(make: Maker, way: str, change: str) -> None:
    with filled(make, 40) as store:
        going = WAYS[way](store)
        next(going)
        HARMLESS[change](store)
        assert len(list(going)) == 39


@pytest.mark.parametrize("make", ["b2z", "tree-b2z", "b2e"], indirect=True)
@pytest.mark.parametrize("at", [0, 1023, 1024, 2100])
def test_long_ones(make: Maker, at: int) -> None:
    with filled(make, 2100) as store:
        going = iter(store)
        found = [next(going) for _ in range(at)]
        assert found == [f"/k{n:04}" for n in range(at)]
        store["/new"] = [1]
        if at:
            with pytest.raises(RuntimeError, match="during iteration"):
                next(going)
        else:
            assert len(list(iter(store))) == 2101


@pytest.mark.usefixtures("changes_wait")
def test_discarded_changes_are_changes(make: Maker) -> None:
    with filled(make, 5) as store:
        store["/new"] = [1]
        going = iter(store)
        next(going)
        store.discard()
        with pytest.raises(RuntimeError, match="during iteration"):
            next(going)


@pytest.mark.parametrize("pending", [False, True])
def test_views_are_those_of_a_dict(make: Maker, pending: bool) -> None:
    with filled(make, 40) as store:
        plain = {f"/k{n:04}": n for n in range(40)}
        if pending:
            store["/new"] = [99]
            del store["/k0007"]
            plain["/new"] = 99
            del plain["/k0007"]
        keys, items, found = store.keys(), store.items(), store.values()
        assert isinstance(keys, KeysView)
        assert isinstance(items, ItemsView)
        assert isinstance(found, ValuesView)
        assert len(keys) == len(items) == len(found) == len(plain)
        assert keys == plain.keys()
        assert set(keys) == set(plain)
        other = {"/k0001", "/k0002", "/none"}
        assert keys & other == plain.keys() & other
        assert keys | other == plain.keys() | other
        assert keys - other == plain.keys() - other
        assert keys ^ other == plain.keys() ^ other
        assert other - keys == other - plain.keys()
        assert not keys.isdisjoint(other)
        assert keys >= {"/k0001"}
        assert keys > {"/k0001"}
        assert "/k0001" in keys
        assert "/none" not in keys
        assert 5 not in keys
        assert {key: int(value[0]) for key, value in items} == plain
        assert [int(value[0]) for value in found] == [plain[key] for key in keys]
        leaf = store["/k0001"]
        assert ("/k0001", leaf) in items
        assert ("/none", leaf) not in items
        later = len(keys)
        store["/later"] = np.arange(3)
        assert len(keys) == later + 1  # they follow the store
        assert "/later" in keys
