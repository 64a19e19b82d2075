"""What a thread reads is never older than what was there before it began, whatever another one is in the middle of."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import Beside, lines_of
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
    "pending": lambda store: store._unpublished,
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
