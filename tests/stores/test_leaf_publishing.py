"""What a store knows of the leaves that it publishes by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import blosc2
from blosc2._backends import publish_pace as pace
from blosc2._stores import leaf_publishing
from blosc2._stores.leaves.value_to_frame import frame_of


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_ALLOWANCE", 1e9)
    monkeypatch.setattr(leaf_publishing, "ALLOWANCE", 1e9)


def put(store: Any, key: str, value: list[int]) -> bool:
    found: bool = store._publishing.put(store, key, frame_of(value, key, None, {}), value)
    return found


def test_a_zip_publishes_no_leaf_by_itself(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2z", mode="w") as store:
        store["/a"] = [1]
        store.flush()
        publishing = store._publishing
        assert not put(store, "/b", [2])
        assert not publishing.remove(store, "/a")
        assert not publishing.is_due(store, 1 << 40, None)
        assert not publishing.is_unsettled(store)
        assert list(store) == ["/a"]


def test_what_it_publishes_it_knows_until_keys_are_listed(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w") as store:
        store["/a"] = [1]
        store.flush()
        publishing = store._publishing
        assert put(store, "/b", [2])
        assert publishing.remove(store, "/a")
        assert store._contents.placed == {"/a": False, "/b": True}
        assert publishing.is_unsettled(store)
        with blosc2.DictStore(tmp_path / "x.b2d", mode="r") as reader:
            assert list(reader) == ["/b"]
        store.flush()
        assert store._contents.placed == {}
        assert not publishing.is_unsettled(store)
        assert list(store) == ["/b"]


def test_a_file_hides_an_embedded_value_until_the_next_flush(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w", threshold=200) as store:
        store["/a"] = [1]
        store.flush()
        assert put(store, "/a", list(range(100)))
        assert store._publishing.hidden == {"/a"}
        assert "/a" in store._backend.embedded.entries
        assert store["/a"][:].tolist() == list(range(100))
        store.flush()
        assert store._publishing.hidden == set()
        assert "/a" not in store._backend.embedded.entries


def test_in_a_block_or_a_transaction_leaves_wait(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w") as store:
        store["/a"] = [1]
        store.flush()
        with store.transaction():
            assert not put(store, "/b", [2])
            assert not store._publishing.remove(store, "/a")
        with leaf_publishing.AllOrNone(store):
            assert not put(store, "/b", [2])
        assert list(store) == ["/a"]


def test_a_key_that_others_get_waits_for_them(tmp_path: Path) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w") as store:
        store["/a"] = [1]
        store.flush()
        with store.transaction():
            store.rename("/a", "/b")
            assert store._publishing.origins == {"/a"}
        assert store._publishing.origins == set()
        assert list(store) == ["/b"]
        try:
            with store.transaction():
                store.rename("/b", "/c")
                raise ZeroDivisionError
        except ZeroDivisionError:
            store.discard()
        assert store._publishing.origins == set()


def test_a_large_part_that_waits_for_the_disk_goes_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w") as store:
        store.update({f"/k{n}": [n] for n in range(5)})
        store.flush()
        publishing = store._publishing
        monkeypatch.setattr(leaf_publishing, "ALLOWANCE", -1.0)
        monkeypatch.setattr(pace, "_PART", 1e9)
        publishing.leaf_pace._took = 1.0
        store["/k0"], store["/k1"] = [7], [8]
        assert publishing.waiting == {"/k0", "/k1"}
        del store["/k0"]
        assert publishing.waiting == {"/k1"}
        store.flush()
        assert publishing.waiting == set()
    with blosc2.DictStore(tmp_path / "x.b2d", mode="r") as reader:
        assert {key: reader[key][:].tolist() for key in reader} == {"/k1": [8], "/k2": [2], "/k3": [3], "/k4": [4]}


def test_an_interrupt_right_behind_a_publication_loses_no_leaf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves that were renamed and waited for the disk can be published once more."""
    with blosc2.DictStore(tmp_path / "x.b2d", mode="w") as store:
        store.update({f"/k{n}": [n] for n in range(3)})
        store.flush()
        monkeypatch.setattr(leaf_publishing, "ALLOWANCE", -1.0)
        monkeypatch.setattr(leaf_publishing, "GROUP", 4)
        monkeypatch.setattr(pace, "_PART", 1e9)
        store._publishing.leaf_pace._took = 1.0
        store.rename("/k0", "/moved")
        assert "/moved" in store._publishing.waiting

        def interrupt(block: Any, keys: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(leaf_publishing.AllOrNone, "forget_keys", interrupt)
            with pytest.raises(KeyboardInterrupt), leaf_publishing.AllOrNone(store):
                store["/k1"], store["/k2"] = [7], [8]
        assert store["/moved"][:].tolist() == [0]
        store.flush()
        assert "/k0" not in store
    with blosc2.DictStore(tmp_path / "x.b2d", mode="r") as reader:
        assert sorted(reader) == ["/k1", "/k2", "/moved"]
        assert reader["/moved"][:].tolist() == [0]


def test_after_an_interrupt_what_is_listed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with blosc2.TreeStore(tmp_path / "x.b2d", mode="w") as store:
        store.update({"/g/a": [1], "/g/b": [2]})
        store.flush()
        assert list(store) == ["/g", "/g/a", "/g/b"]

        def interrupt(block: Any, keys: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(leaf_publishing.AllOrNone, "forget_keys", interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.rename("/g/b", "/g/e")
        now = list(store)
        assert now in (["/g", "/g/a", "/g/b"], ["/g", "/g/a", "/g/e"])
        assert store[now[-1]][:].tolist() == [2]
        assert len(store) == 3
    with blosc2.TreeStore(tmp_path / "x.b2d", mode="r") as reader:
        assert list(reader) == now
