"""What a thread finds leaves by may be its own: it ends with the version that it shows, whoever shows another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import Maker

import blosc2
from blosc2._stores.contents import Contents

THREADS = 3


@pytest.fixture
def others() -> Iterator[list[Callable[..., Any]]]:
    """Ways to have something done in one thread each, always the same."""
    pools = [ThreadPoolExecutor(1) for _ in range(THREADS)]
    yield [lambda act, *given, pool=pool: pool.submit(act, *given).result(30) for pool in pools]
    for pool in pools:
        pool.shutdown()


def filled(path: Path, number: int) -> str:
    with blosc2.DictStore(str(path), mode="w") as store:
        for i in range(4):
            store[f"/leaf{i}"] = np.full(9, number + i)
    return str(path)


def item(store: Any, i: int) -> int:
    return int(store[f"/leaf{i}"][0])


@pytest.mark.parametrize("mapped", ["r", None])
def test_a_newer_version_is_shown_to_all_threads(
    others: list[Callable[..., Any]], mapped: str | None, tmp_path: Path
) -> None:
    path = filled(tmp_path / "s.b2z", 100)
    with blosc2.DictStore(path, mode="r", mmap_mode=mapped) as store:
        assert [in_thread(item, store, 1) for in_thread in others] == [101] * THREADS
        filled(tmp_path / "s.b2z", 200)
        assert [in_thread(item, store, 2) for in_thread in others] == [102] * THREADS
        assert others[0](store.refresh)
        assert [in_thread(item, store, 2) for in_thread in others] == [202] * THREADS
        assert item(store, 3) == 203


def test_a_closed_store_is_closed_to_all_threads(others: list[Callable[..., Any]], tmp_path: Path) -> None:
    store = blosc2.DictStore(filled(tmp_path / "s.b2z", 100), mode="r")
    assert [in_thread(item, store, 1) for in_thread in others] == [101] * THREADS
    others[0](store.close)
    for in_thread in others:
        with pytest.raises(ValueError, match="closed"):
            in_thread(item, store, 1)


def test_threads_get_the_same_leaf_as_long_as_somebody_holds_it(
    others: list[Callable[..., Any]], tmp_path: Path
) -> None:
    with blosc2.DictStore(filled(tmp_path / "s.b2z", 100), mode="r") as store:
        for in_thread in others:
            # The leaf that was opened before it is gone by then, and another one is opened after it.
            in_thread(item, store, 0)
            leaf = in_thread(store.__getitem__, "/leaf1")
            in_thread(item, store, 2)
            in_thread(item, store, 3)
            assert all(other(store.__getitem__, "/leaf1") is leaf for other in others)
            del leaf


def test_a_listing_of_keys_that_have_changed_since_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.DictStore(filled(tmp_path / "s.b2z", 100), mode="a") as store:
        store["/new"] = np.zeros(2)
        make, entered, go_on = Contents._list, threading.Event(), threading.Event()

        def slow(self: Contents, *given: Any) -> Any:
            made = make(self, *given)
            entered.set()
            assert go_on.wait(30)
            return made

        monkeypatch.setattr(Contents, "_list", slow)
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(store._contents.listing)
            assert entered.wait(30)
            monkeypatch.undo()
            store["/newer"] = np.zeros(2)
            assert "/newer" in store._contents.listing().below()
            go_on.set()
            assert "/newer" not in late.result(30).below()
        assert "/newer" in store._contents.listing().below()


def test_a_reader_of_the_version_before_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version is shown while a thread makes what opens leaves: that is of the version that it looked at."""
    path = filled(tmp_path / "s.b2z", 100)
    with blosc2.DictStore(path, mode="r") as store:
        filled(tmp_path / "s.b2z", 200)
        shows = blosc2.DictStore._shows_published_keys
        refreshed = []

        def slow(self: Any) -> bool:
            if not refreshed:
                with ThreadPoolExecutor(1) as pool:
                    refreshed.append(pool.submit(store.refresh).result(30))
            return shows(self)

        monkeypatch.setattr(blosc2.DictStore, "_shows_published_keys", slow)
        item(store, 1)
        monkeypatch.undo()
        assert refreshed == [True]
        assert [item(store, i) for i in range(4)] == [200, 201, 202, 203]
        assert store.read("/leaf3")[0] == 203


@pytest.mark.parametrize("kind", ["b2e", "b2z", "b2z-mixed", "tree-b2z", "b2d", "tree-b2d"])
def test_a_key_that_is_published_meanwhile_is_listed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread publishes it between the two looks of a listing: it is in what waits, or in what is published."""
    with Maker(kind, tmp_path)("w") as store:
        store["/first"] = np.arange(200)
        store.flush()
        store["/first"] = store["/x"] = np.arange(30)
        backend = type(store._backend)
        flushed = []
        name = "keys" if kind == "b2e" else "listing"
        published = getattr(backend, name)

        def slow(self: Any) -> Any:
            found = published(self)
            if not flushed:
                flushed.append(True)
                with ThreadPoolExecutor(1) as pool:
                    pool.submit(store.flush).result(30)
            return found

        monkeypatch.setattr(backend, name, slow)
        assert store._contents.keys() == ["/first", "/x"]
        assert flushed
        monkeypatch.undo()
        assert list(store) == ["/first", "/x"]
        assert len(store) == 2
