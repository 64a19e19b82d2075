"""Handles of one process on one store: opened again with mode "a", they share leaves, pending changes and the lock."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from typing import Any

import numpy as np
import pytest
from fixture_kit.forks import in_child
from store_makers import Maker

import blosc2
from blosc2.exceptions import ClosedStoreError

PUBLIC = pytest.mark.parametrize("by", ["class", "open"])


@pytest.fixture
def first(make: Maker) -> Any:
    store = make("w")
    store["/a"] = np.arange(3)
    store.flush()
    yield store
    store.close()


def again(make: Maker, by: str = "class", **how: Any) -> Any:
    return make("a", **how) if by == "class" else blosc2.open(make.path, mode="a", **how)


@PUBLIC
def test_both_show_what_either_changes(by: str, first: Any, make: Maker) -> None:
    second = again(make, by)
    assert type(second) is type(first)
    second["/b"] = [1, 2]
    first["/c"] = [3]
    del second["/a"]
    assert sorted(first) == sorted(second) == ["/b", "/c"]
    assert first["/b"] is second["/b"]
    first["/b"][0] = 9
    assert second["/b"][:].tolist() == [9, 2]
    second.rename("/b", "/d")
    assert "/b" not in first
    assert first["/d"][:].tolist() == [9, 2]
    first.discard()
    second["/e"] = [5]
    second.close()
    assert "/e" in make.values()
    assert first["/e"][:].tolist() == [5]


@PUBLIC
def test_each_is_closed_by_itself(by: str, first: Any, make: Maker) -> None:
    """The store is closed with its last handle; leaves stay live until then."""
    leaf = first["/a"]
    second = again(make, by)
    first["/b"] = [1]
    first.close()
    first.close()
    assert first.closed
    assert not second.closed
    acts = (
        lambda: first["/a"], lambda: first.__setitem__("/x", [1]), lambda: first.update({"/x": [1]}),
        lambda: list(first), lambda: len(first), lambda: "/a" in first, first.flush, first.discard,
        first.transaction, first.refresh,
        lambda: first.pop("/a"), lambda: first.write_many({"/x": [1]}), lambda: first.read_many(["/a"]),
    )  # fmt: skip
    for act in acts:
        with pytest.raises(ClosedStoreError):
            act()
    assert make.values() == {"/a": [0, 1, 2], "/b": [1]}  # what is closed is published
    leaf[0] = 7
    assert second["/a"] is leaf
    second["/c"] = [2]
    second.close()
    with pytest.raises(ValueError, match="closed"):
        leaf[0] = 8
    assert make.values() == {"/a": [7, 1, 2], "/b": [1], "/c": [2]}
    make("a").close()  # nothing is locked any more


def test_a_cell_of_a_notebook_runs_twice(make: Maker) -> None:
    """The name gets the new handle, and the old one, which nobody closed, is dropped without a warning or a loss."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(3):
            store = make("a")
            store[f"/n{n}"] = [n]
            gc.collect()
        store.close()
    assert make.values() == {f"/n{n}": [n] for n in range(3)}


def test_a_dropped_handle_leaves_its_leaves(first: Any, make: Maker) -> None:
    second = make("a")
    second["/b"] = [1, 2]
    leaf = second["/b"]
    leaf[0] = 5
    del second
    gc.collect()
    leaf[1] = 6
    assert first["/b"][:].tolist() == [5, 6]
    first.flush()
    assert make.values()["/b"] == [5, 6]


def test_a_with_block_inside_another(first: Any, make: Maker) -> None:
    with make("a") as second:
        second["/b"] = [1]
    with pytest.raises(ZeroDivisionError), make("a") as third:
        third["/c"] = [1]
        raise ZeroDivisionError
    first["/d"] = [2]
    first.close()
    assert make.values() == {"/a": [0, 1, 2], "/b": [1], "/c": [1], "/d": [2]}


def test_a_transaction_is_of_the_store(first: Any, make: Maker) -> None:
    second = make("a")
    with first.transaction():
        second["/b"] = [1]
        with make("a") as third:
            third["/c"] = [2]
        assert make.values() == {"/a": [0, 1, 2]}  # closing a handle does not end it
        with pytest.raises(RuntimeError, match="transaction"):
            second.flush()
    assert make.values() == {"/a": [0, 1, 2], "/b": [1], "/c": [2]}
    with pytest.raises(ZeroDivisionError), second.transaction():
        first["/d"] = [1]
        raise ZeroDivisionError
    assert "/d" not in first
    assert "/d" not in second
    second.close()


def test_keys_exclude_each_other_whoever_sets_them(first: Any, make: Maker) -> None:
    """Whatever sets leaves of one handle knows the keys of the others."""
    second = make("a")
    second["/g/x"] = np.arange(2)
    first["/h/y"] = np.arange(2)
    second["/h/z"] = np.arange(2)
    if isinstance(first, blosc2.TreeStore):
        for store, group in ((first, "/g"), (second, "/h")):
            with pytest.raises(ValueError, match="children"):
                store[group] = np.arange(2)
        for store, leaf in ((first, "/h/z"), (second, "/h/y")):
            with pytest.raises(ValueError, match="already contains data"):
                store[leaf + "/below"] = np.arange(2)
    if isinstance(first, blosc2.DictStore):
        with pytest.raises(ValueError, match="case only"):
            first["/G/x"] = np.arange(2)
    del first["/g/x"]
    assert "/g/x" not in second
    second["/g"] = np.arange(4)
    assert first["/g"][:].tolist() == [0, 1, 2, 3]
    second.close()


def test_each_compresses_as_it_was_told(first: Any, make: Maker) -> None:
    second = make("a", cparams={"codec": blosc2.Codec.LZ4, "clevel": 1})
    data = np.arange(20_000)
    first["/x"], second["/y"], first["/z"] = data, data, data
    codecs = [first[key].schunk.cparams.codec for key in ("/x", "/y", "/z")]
    assert codecs == [blosc2.Codec.ZSTD, blosc2.Codec.LZ4, blosc2.Codec.ZSTD]
    second.close()


def test_threads_open_and_close(first: Any, make: Maker) -> None:
    failed: list[BaseException] = []

    def work(me: int) -> None:
        try:
            for n in range(20):
                with make("a") as store:
                    store[f"/t{me}_{n}"] = [me, n]
        except BaseException as error:  # noqa: BLE001 - told below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
    first.close()
    expected = {f"/t{me}_{n}": [me, n] for me in range(3) for n in range(20)}
    assert make.values() == {"/a": [0, 1, 2], **expected}


def test_one_joins_while_the_last_one_closes(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The handle that is being closed has seen no other one."""
    first = make("w")
    first["/a"] = [1]
    joined: list[Any] = []
    seen = type(first._table.session).check_between

    def between(session: Any, what: str) -> None:
        seen(session, what)
        if what == "close the store" and not joined:
            thread = threading.Thread(target=lambda: joined.append(make("a")))
            thread.start()
            thread.join(60)

    monkeypatch.setattr(type(first._table.session), "check_between", between)
    first.close()
    monkeypatch.undo()
    assert first.closed
    joined[0]["/b"] = [2]
    joined[0].close()
    assert make.values() == {"/a": [1], "/b": [2]}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_reads_both(first: Any, make: Maker) -> None:
    second = make("a")
    second["/b"] = [1, 2]

    def child() -> None:
        assert second["/b"][:].tolist() == [1, 2]
        for store in (first, second):
            with pytest.raises(blosc2.StoreLockedError):
                store["/c"] = [3]
        second.close()
        assert second.closed
        assert first["/b"][:].tolist() == [1, 2]
        first.close()

    in_child(child)
    second["/d"] = [4]
    second.close()
    assert make.values() == {"/a": [0, 1, 2], "/b": [1, 2], "/d": [4]}


def test_a_store_that_was_removed_is_not_shared(make: Maker) -> None:
    first = make("w")
    first["/a"] = [1]
    first.flush()
    blosc2.remove_urlpath(make.path)
    with make("a") as second:
        assert list(second) == []
        second["/b"] = [2]
    assert make.values() == {"/b": [2]}
    first.discard()
    first.close()


def test_views_end_with_their_handle(tmp_path: Any) -> None:
    path = tmp_path / "tree.b2z"
    first = blosc2.TreeStore(path, mode="w")
    first["/g/x"] = [1]
    view = first["/g"]
    second = blosc2.TreeStore(path, mode="a")
    assert list(second["/g"]) == ["/x"]
    first.close()
    for act in (lambda: view["/x"], lambda: list(view), lambda: view.__setitem__("/y", [1])):
        with pytest.raises(ClosedStoreError):
            act()
    second["/g"].vlmeta["unit"] = "s"
    second.close()
    with blosc2.TreeStore(path, mode="r") as store:
        assert store["/g"].vlmeta["unit"] == "s"


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_each_places_values_by_its_own_threshold(tmp_path: Any, suffix: str) -> None:
    path = tmp_path / f"tree{suffix}"
    with blosc2.TreeStore(path, mode="w") as files, blosc2.TreeStore(path, mode="a", threshold=None) as embedded:
        changes: list[Any] = [
            lambda store, name: store.__setitem__(f"/{name}", np.arange(5)),
            lambda store, name: store.write_many({f"/{name}/{n}": np.arange(3) for n in range(3)}),
            lambda store, name: store.create_group(f"/{name}-group"),
            lambda store, name: store.get_subtree(f"/{name}-attrs").vlmeta.update(unit="s"),
            lambda store, name: store.update({f"/{name}-more": [1, 2]}),
        ]
        for number, change in enumerate(changes):
            change(files, f"file-{number}")
            change(embedded, f"value-{number}")
            change(files, f"file-{number}-again")
        with files.transaction():
            files["/file-waits"] = [1]
            embedded["/value-waits"] = [2]
            files.rename("/file-waits", "/file-renamed")
        files.flush()
        assert all("/value" in key for key in files.estore)
        assert not any("/value" in key for key in files.map_tree)
        assert sum("/file" in key for key in files.map_tree) == 2 * 7 + 1


def test_messages_name_a_path_that_leads_there(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first handle may have been given one relative to a folder that was left since."""
    path = str(tmp_path / "tree.b2z")
    monkeypatch.chdir(tmp_path)
    with blosc2.TreeStore("tree.b2z", mode="w") as first:
        first["/x"] = [1]
        first.flush()
        with blosc2.TreeStore(path, mode="a") as second:
            monkeypatch.chdir("/")
            assert path in repr(second)
            assert "on disk" in repr(second)
            assert second["/x"].urlpath == path
            with pytest.raises(KeyError, match=r"/tree\.b2z: Key '/nope' not found"):
                second["/nope"]
        with pytest.raises(ClosedStoreError) as caught:
            second["/x"]
        assert path in str(caught.value)


def test_a_transaction_of_a_handle_that_was_closed_does_not_begin(first: Any, make: Maker) -> None:
    second = again(make)
    transaction = first.transaction()
    first.close()
    with pytest.raises(ClosedStoreError), transaction:
        pass
    second["/b"] = [1]
    second.flush()
    second.close()
    assert make.values() == {"/a": [0, 1, 2], "/b": [1]}
