"""What a thread reads is never older than what was there before it began, whatever another one is in the middle of."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import Beside, lines_of
from fixture_kit.recount import recount
from store_makers import Maker

import blosc2
from blosc2._stores.leaves.live_leaf import LiveHandle


@pytest.mark.parametrize("mmap_mode", ["r", None])
@pytest.mark.parametrize("kind", ["b2e", "b2z", "b2d", "b2d-embedded", "tree-b2z"])
def test_a_leaf_opened_during_a_refresh(kind: str, mmap_mode: Any, tmp_path: Path) -> None:
    """Another thread shows a newer version while this one opens a leaf and keeps it: later reads show the newer one."""
    make = Maker(kind, tmp_path)

    def publish(number: int) -> None:
        with make("a") as writer:
            writer["/a"] = np.full(50, number)
            writer["/other"] = blosc2.SChunk(data=bytes([number]) * 1000)

    def show(number: int) -> bool:
        publish(number)
        return bool(store.refresh())

    publish(0)
    with make("r", mmap_mode=mmap_mode) as store:
        for key, value in (("/a", lambda leaf: int(leaf[:][0])), ("/other", lambda leaf: leaf[:][0])):
            for _ in range(2):  # at first, some modules may have to be imported
                store.refresh()
                lines = lines_of(lambda: store[key])  # noqa: B023 - called before the next one
            number = 1
            for at in range(0, lines, 1 if FULL else 7):
                number = number % 200 + 1
                with Beside(lambda: show(number), at) as beside:  # noqa: B023
                    kept = store[key]
                if beside.thread.ident is not None:
                    beside.thread.join()
                    assert beside.found == [True]
                    assert value(store[key]) == number, f"at {beside.where}"
                del kept


READS: dict[str, Callable[[Any], Any]] = {
    "read": lambda store: int(store.read("/k3")[0]),
    "item": lambda store: int(store["/k3"][0]),
    "size": lambda store: store.describe("/k3").shape,
    "pending": lambda store: store._table.has_changes,
}


@pytest.mark.parametrize(
    ("kind", "what"),
    [(kind, what) for kind in ("b2e", "b2z", "b2d", "tree-b2z") for what in READS if (kind, what) != ("b2e", "size")],
)
def test_an_edit_that_is_just_taken_as_a_change(
    kind: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = Maker(kind, tmp_path)
    with make("w") as store:
        for n in range(5):
            store[f"/k{n}"] = np.full(50, n)
    with make("a") as store:
        store.read("/k3")  # learns how such leaves are read
        leaf = store["/k3"]
        leaf.resize((60,))
        leaf[:] = 777
        found: list[Any] = []
        reading = threading.Thread(target=lambda: found.append(READS[what](store)))
        real = LiveHandle.byte_range

        def byte_range(self: Any) -> Any:
            if reading.ident is None:
                reading.start()
                reading.join(1)  # it may wait until the edit is taken
            return real(self)

        monkeypatch.setattr(LiveHandle, "byte_range", byte_range)
        store.flush()
        assert reading.ident is not None
        reading.join()
        assert found == [{"read": 777, "item": 777, "size": (60,), "pending": True}[what]]
    assert make.values()["/k3"] == [777] * 60


def listed(store: Any) -> list[str]:
    try:
        return list(store)
    except RuntimeError:  # as documented, where keys come on the way
        return ["/first", "/x"]


WHAT: dict[str, Callable[[Any], Any]] = {
    "list": listed,
    "find": lambda store: [key for key in ("/first", "/x") if key in store],
}


@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("change", ["flush", "set"])
@pytest.mark.parametrize("kind", ["b2e", "b2z", "b2z-mixed", "tree-b2z", "b2d", "tree-b2d"])
def test_a_key_that_comes_or_is_published_meanwhile(kind: str, change: str, what: str, tmp_path: Path) -> None:
    """Another thread does so before a line of this one, which finds what was there all the time; later all is there."""
    lines = 0
    for at in (-1, *range(0, 200, 1 if FULL else 9)):
        if at > lines:
            break
        with Maker(kind, tmp_path)("w") as store:
            store["/first"] = np.arange(200)
            store.flush()
            store["/first"] = store["/x"] = np.arange(30)
            now = {"/first": [*range(30)], "/x": [*range(30)]}

            def act(store: Any = store) -> None:
                if change == "flush":
                    store.flush()
                else:
                    store["/newer"] = [1]

            with Beside(act, at) as beside:
                found = WHAT[what](store)
            lines = max(lines, beside.lines)
            assert {"/first", "/x"} <= {*found} <= {"/first", "/x", "/newer"}, beside.where
            if beside.thread.ident is not None:
                beside.thread.join()
                now |= {"/newer": [1]} if change == "set" else {}
            recount(store, now)


# ------------------------------------------------------------------ other threads
@pytest.fixture
def others() -> Iterator[list[Callable[..., Any]]]:
    """Ways to have something done in one thread each, always the same."""
    pools = [ThreadPoolExecutor(1) for _ in range(3)]
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
        assert [in_thread(item, store, 1) for in_thread in others] == [101] * 3
        filled(tmp_path / "s.b2z", 200)
        assert [in_thread(item, store, 2) for in_thread in others] == [102] * 3
        assert others[0](store.refresh)
        assert [in_thread(item, store, 2) for in_thread in others] == [202] * 3
        assert item(store, 3) == 203
        others[1](store.close)
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


# ------------------------------------------------------------------ folders that go
def rename(store: Any) -> None:
    store.rename("/g", "/a/n")


def delete(store: Any) -> None:
    del store["/g"]


LOOKS = ["list", "refresh", "open", "items", "values", "walk", "stats", "tree", "check", "copy"]


@pytest.mark.parametrize("act", LOOKS)
@pytest.mark.parametrize("change", [rename, delete])
def test_a_folder_that_goes_while_it_is_looked_at(
    change: Callable[[Any], None], act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "x.b2d")
    with blosc2.TreeStore(path, mode="w") as store:
        store["/g/h/x"], store["/g/y"], store["/z"] = [1], [2], [3]
    writer = blosc2.TreeStore(path, mode="a")
    writer.get("/z")
    changes = [change]
    real = os.scandir

    def come_between(folder: Any) -> Any:
        if changes and str(folder).rstrip("/").endswith("/g"):
            changes.pop()(writer)
        return real(folder)

    after = {"/a/n/h/x", "/a/n/y", "/z"} if change is rename else {"/z"}
    with blosc2.TreeStore(path, mode="r") as reader, monkeypatch.context() as patch:
        if act == "refresh":
            list(reader)
            writer["/new"] = [4]
            after |= {"/new"}
        patch.setattr(os, "scandir", come_between)
        if act == "refresh":
            reader.refresh()
        elif act == "open":
            list(blosc2.open(path))
        elif act in ("items", "values", "walk"):
            list(getattr(reader, act)())
        elif act == "check":
            assert blosc2.check(path).ok
        elif act == "copy":
            reader.to_b2z(filename=str(tmp_path / "copy.b2z"))
        else:
            {"list": list, "stats": lambda store: store.stats(), "tree": lambda store: str(store.tree())}[act](reader)
        assert {key for key in reader if isinstance(reader[key], blosc2.NDArray)} == after
    assert not changes
    writer.close()


def test_items_leave_out_leaves_that_went(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2d")
    with blosc2.TreeStore(path, mode="w") as writer:
        writer["/a"], writer["/b"], writer["/c"] = [1], [2], [3]
        writer.flush()
        with blosc2.TreeStore(path, mode="r") as reader:
            pairs, leaves = iter(reader.items()), iter(reader.values())
            assert next(pairs)[0] == "/a"
            next(leaves)
            del writer["/b"]
            assert [key for key, _ in pairs] == ["/c"]
            assert [leaf[0] for leaf in leaves] == [3]
