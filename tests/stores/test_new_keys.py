"""Which new keys can be beside existing ones, and beside each other."""

from __future__ import annotations

from typing import Any

import pytest

import blosc2
from blosc2._stores.contents import Contents
from blosc2._stores.new_keys import NewKeys, NewNames
from blosc2._stores.pending import PendingChanges


def contents_of(*keys: str) -> Contents:
    store = blosc2.EmbedStore()
    for key in keys:
        store[key] = [1]
    store.flush()
    return Contents(store._backend, PendingChanges())


@pytest.mark.parametrize(
    ("existing", "key", "match"),
    [
        ("/Scan", "/scan", "differs from '/Scan' in case only"),
        ("/caf\xe9", "/CAFE\u0301", "accents"),
        ("/x", "/x.b2nd/y", "group '/x.b2nd' would have the name of the file of a leaf"),
        ("/x.b2nd/y", "/x", "group '/x.b2nd' would have the name of the file of a leaf"),
        ("/a", "/.b2/x", "reserved for the store itself"),
        ("/a", "/.B2/x", "reserved for the store itself"),
    ],
)
def test_a_key_that_excludes_another(existing: str, key: str, match: str) -> None:
    names, contents = NewNames(), contents_of(existing)
    with pytest.raises(ValueError, match=match):
        names.check_new(key, contents, is_new=True)
    names.check_new("/other", contents, is_new=True)


def test_existing_keys_are_not_compared() -> None:
    names, contents = NewNames(), contents_of("/Scan", "/scan")
    names.check_new("/scan", contents, is_new=False)
    names.unchecked = True
    names.check_new("/SCAN", contents, is_new=True)


def test_keys_that_were_removed_exclude_nothing() -> None:
    names, contents = NewNames(), contents_of("/Scan", "/x.b2nd/y")
    names.check("/other", contents)  # from now on it has the hashes of all keys
    contents._pending.frames = {"/Scan": None, "/x.b2nd/y": None}
    contents.recount()
    names.key_changed("/Scan", -1)
    names.check("/scan", contents)
    names.check("/x", contents)


def test_streamed_keys_are_known_by_their_hashes_alone() -> None:
    names, contents = NewNames(), contents_of("/a")
    names.check("/one", contents, streaming=True)
    with pytest.raises(ValueError, match="differs from another new key in case only"):
        names.check("/ONE", contents, streaming=True)
    names.forget()
    names.check("/ONE", contents, streaming=True)
    names.recount()
    names.forget_removed()
    names.check("/one", contents, streaming=True)


def admission(contents: Contents, *, grouped: bool = True) -> tuple[NewKeys, list[str]]:
    checked: list[str] = []
    return NewKeys(contents, NewNames(), checked.append, grouped=grouped), checked


@pytest.mark.parametrize("existing", [(), ("/there",)])
@pytest.mark.parametrize(
    ("first", "second", "match"),
    [
        ("/a", "/a/b", "Cannot add child"),
        ("/a/b", "/a", "already has children"),
        ("/Scan", "/scan", "another new key"),
        ("/x", "/x.b2nd/y", "name of the file of a leaf"),
        ("/x.b2nd/y", "/x", "name of the file of a leaf"),
        ("/a", "/b//c", "empty path segments"),
    ],
)
def test_new_keys_that_exclude_each_other(existing: tuple[str, ...], first: str, second: str, match: str) -> None:
    admit, _ = admission(contents_of(*existing))
    assert admit(first) == first
    with pytest.raises(ValueError, match=match):
        admit(second)


def test_without_groups_a_leaf_may_be_below_another() -> None:
    admit, _ = admission(contents_of(), grouped=False)
    assert [admit(key) for key in ("/a", "/a/b", "c", "/a")] == ["/a", "/a/b", "/c", "/a"]
    assert "/c" in admit
    assert admit.may_have("/a/b")
    assert not admit.may_have("/none")


def test_each_new_group_is_checked_against_the_store() -> None:
    admit, checked = admission(contents_of("/there"))
    for key in ("/g/a", "/g/b", "/h/a"):
        admit(key)
    assert checked == ["/g/a", "/g/b", "/h/a"]

    def refuse(key: str) -> None:
        raise ValueError(f"no {key}")

    refusing: Any = NewKeys(contents_of("/there"), NewNames(), refuse, grouped=True)
    with pytest.raises(ValueError, match="no /g/a"):
        refusing("/g/a")
