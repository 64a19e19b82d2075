"""Keys that UTF-8 cannot express: no store has one; reads find nothing, and writes are refused in words that print."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import KINDS, Maker

import blosc2
from blosc2.exceptions import StoreKeyError

#: Half of a character; what a byte of a file name that is not UTF-8 becomes; both inside of keys.
BAD = ["/\ud800", "\ud800", "/g/\udcff", "/\udcff/a", "/g\ud800/a"]
VALUE = np.arange(3)
MANY = [(f"/many/{n}", VALUE) for n in range(300)]

ABSENT: dict[str, Callable[[Any, str], Any]] = {
    "[]": lambda store, key: store[key],
    "read": lambda store, key: store.read(key),
    "read_many": lambda store, key: store.read_many(["/g/a", key]),
    "describe": lambda store, key: store.describe(key) if hasattr(store, "describe") else store[key],
    "advise": lambda store, key: store.advise("willneed", keys=[key]),
    "advise a group": lambda store, key: store.advise("willneed", prefix=key),
    "delete": lambda store, key: store.__delitem__(key),
    "pop": lambda store, key: store.pop(key),
    "rename": lambda store, key: store.rename(key, "/other"),
}
REFUSED: dict[str, Callable[[Any, str], Any]] = {
    "assign": lambda store, key: store.__setitem__(key, VALUE),
    "setdefault": lambda store, key: store.setdefault(key, VALUE),
    "update": lambda store, key: store.update({"/new": VALUE, key: VALUE}),
    "update with many": lambda store, key: store.update([*MANY, (key, VALUE)]),
    "write_many": lambda store, key: store.write_many([("/new", VALUE), (key, VALUE)]),
    "write_many with many": lambda store, key: store.write_many([*MANY, (key, VALUE)]),
    "rename": lambda store, key: store.rename("/g/a", key),
}
OF_TREES: dict[str, Callable[[Any, str], Any]] = {
    "create_group": lambda store, key: store.create_group(key),
    "rename a group": lambda store, key: store.rename("/g", key),
    "attributes": lambda store, key: store.get_subtree(key).attrs.__setitem__("unit", "K"),
    "below": lambda store, key: store.get_subtree(key).__setitem__("/x", VALUE),
}


@pytest.fixture(params=list(KINDS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    made = Maker(request.param, tmp_path)
    with made("w") as store:
        store["/g/a"], store["/h"] = VALUE, np.arange(400)
    return made


def views(store: Any) -> list[Any]:
    """A store, and the view of its group."""
    return [store, store.get_subtree("/g")] if isinstance(store, blosc2.TreeStore) else [store]


def check_printable(error: BaseException) -> None:
    """An error can be shown everywhere, and no longer is one of the encoder."""
    assert not isinstance(error, UnicodeError)
    for text in (str(error), repr(error), *getattr(error, "__notes__", ())):
        text.encode()
    str(pickle.loads(pickle.dumps(error))).encode()


@pytest.mark.parametrize("mode", ["r", "a"])
@pytest.mark.parametrize("key", BAD, ids=ascii)
def test_nothing_is_found(make: Maker, mode: str, key: str) -> None:
    with make(mode) as store:
        for shown in views(store):
            assert key not in shown
            assert shown.keys() & {key} == set()
            assert (key, VALUE) not in shown.items()
            assert shown.get(key, 5) == 5
            for name, act in ABSENT.items():
                if mode == "r" and name in ("delete", "pop", "rename"):
                    continue
                if shown is store or name not in ("read_many", "advise"):
                    with pytest.raises(StoreKeyError) as caught:
                        act(shown, key)
                    check_printable(caught.value)
            if mode == "a":
                assert shown.pop(key, 5) == 5
        if isinstance(store, blosc2.TreeStore):
            group = store.get_subtree(key)
            assert (store.get_descendants(key), store.get_children(key)) == ([], [])
            assert [names for _, *names in store.walk(key)] in ([], [[[], []]])
            assert (len(group), list(group), dict(group.attrs), "/a" in group) == (0, [], {}, False)
            assert not group.is_table()
            with pytest.raises(StoreKeyError) as caught:
                store.tree(key)
            check_printable(caught.value)
            repr(group).encode()
    assert make.values() == {"/g/a": VALUE.tolist(), "/h": list(range(400))}


@pytest.mark.parametrize("key", BAD, ids=ascii)
def test_writes_are_refused(make: Maker, key: str) -> None:
    with make("a") as store:
        acts = {**REFUSED, **OF_TREES} if isinstance(store, blosc2.TreeStore) else REFUSED
        for shown in views(store):
            for name, act in acts.items():
                if shown is not store and name.startswith("rename"):
                    continue
                with pytest.raises(ValueError, match="UTF-8 cannot express") as caught:
                    act(shown, key)
                check_printable(caught.value)
    assert make.values() == {"/g/a": VALUE.tolist(), "/h": list(range(400))}


def test_a_store_in_memory() -> None:
    store = blosc2.EmbedStore()
    store["/a"] = VALUE
    for key in BAD:
        assert key not in store
        with pytest.raises(StoreKeyError) as caught:
            store[key]
        check_printable(caught.value)
        with pytest.raises(ValueError, match="UTF-8 cannot express"):
            store[key] = VALUE
    assert list(store) == ["/a"]
