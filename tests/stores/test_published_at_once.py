"""What is assigned is published when the assignment returns, as long as that is cheap: `EmbedStore`, `.b2d`."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import KINDS, Maker

from blosc2._backends import publish_pace as pace
from blosc2._stores import automatic_publishing

AT_ONCE = [kind for kind in KINDS if "b2z" not in kind]


@pytest.fixture(params=AT_ONCE)
def make(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setattr(pace, "_ALLOWANCE", 1e9)  # however slow the disk of this machine is
    monkeypatch.setattr(automatic_publishing, "ALLOWANCE", 1e9)
    return Maker(request.param, tmp_path)


@pytest.mark.parametrize("mode", ["a", "w", "x"])
def test_a_store_is_there_when_it_is_opened(mode: str, make: Maker) -> None:
    store = make(mode)
    if not make.there_when_opened:  # but when something is assigned
        assert not make.path.exists()
        store["/a"] = [1]
        assert make.values() == {"/a": [1]}
        del store["/a"]
    assert make.values() == {}
    store.flush()
    assert os.listdir(make.path.parent) == [make.path.name]
    store.close()
    assert make.values() == {}


def test_an_old_store_stays_until_something_is_assigned(make: Maker) -> None:
    with make("w") as store:
        store["/old"] = [1]
    store = make("w")
    assert list(store) == []
    assert make.values() == {"/old": [1]}
    store["/new"] = [2]
    assert make.values() == {"/new": [2]}
    store.close()
    make("w").close()
    assert make.values() == {}


def test_each_change_is_seen_when_it_returns(make: Maker) -> None:
    rng = np.random.default_rng(5)
    now: dict[str, list[int]] = {}
    with make("w") as store:
        for n in range(40):
            key = f"/g{n % 4}/k{n % 7}"
            now[key] = rng.integers(0, 99, n + 1).tolist()
            store[key] = now[key]
            assert make.values() == now
        for key in list(now)[::2]:
            del store[key], now[key]
            assert make.values() == now
        first, second, *_ = now
        store.rename(first, "/renamed")
        now["/renamed"] = now.pop(first)
        assert make.values() == now
        store.pop(second)
        del now[second]
        assert make.values() == now
        store.setdefault("/default", [1])
        now["/default"] = [1]
        store.update({f"/many/{n}": [n] for n in range(5)})
        now |= {f"/many/{n}": [n] for n in range(5)}
        assert make.values() == now
        store.clear()
        assert make.values() == {}


def test_changes_that_belong_together_are_published_together(make: Maker) -> None:
    store = make("w")
    store["/a"] = [1]

    def values(count: int) -> Any:
        for n in range(count):
            assert make.values() == {"/a": [1]}
            yield f"/k{n}", [n]
        if count == 3:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.update(values(3))
    assert make.values() == {"/a": [1]}
    with store.transaction():
        store["/b"] = [2]
        del store["/a"]
        store.update(values(4))
        assert make.values() == {"/a": [1]}
    assert make.values() == {"/b": [2], **{f"/k{n}": [n] for n in range(4)}}
    with pytest.raises(ZeroDivisionError), store.transaction():
        store["/c"] = [1]
        1 / 0  # noqa: B018
    assert "/c" not in make.values()
    store.close()


def test_edits_of_leaves_wait_for_the_next_publication(make: Maker) -> None:
    with make("w") as store:
        store["/a"] = [1, 2]
        leaf = store["/a"]
        leaf[0] = 5
        assert make.values() == {"/a": [1, 2]}
        store["/b"] = [3]
        if make.has_files:  # of which each is published by itself
            assert make.values() == {"/a": [1, 2], "/b": [3]}
            store.flush()
        assert make.values() == {"/a": [5, 2], "/b": [3]}
        leaf[1] = 6
        assert store["/a"] is leaf
        store.discard()
        assert leaf[:].tolist() == [5, 2]


def test_what_cannot_be_published_is_taken_back(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    with make("w") as store:
        store["/a"] = [1]
        store["/b"] = [2]
        now = make.values()
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with monkeypatch.context() as broken:

            def fsync(descriptor: int) -> None:
                raise full

            broken.setattr(os, "fsync", fsync)
            if make.is_directory:
                unlink = os.unlink

                def replace(old: str, new: str) -> None:
                    raise full

                def remove(path: str) -> None:
                    if make.path in Path(path).parents:
                        raise full
                    unlink(path)

                broken.setattr(os, "replace", replace)
                broken.setattr(os, "unlink", remove)
            for change in (
                lambda: store.__setitem__("/c", [3]),
                lambda: store.__setitem__("/a", np.arange(5000)),
                lambda: store.__delitem__("/a"),
                lambda: store.rename("/a", "/x"),
                lambda: store.update({"/c": [1], "/a": [2]}),
                store.clear,
            ):
                with pytest.raises(OSError, match="No space"):
                    change()
                assert {key: store[key][:].tolist() for key in store} == now
                assert make.values() == now
        store["/c"] = [3]
        assert make.values() == {**now, "/c": [3]}
    assert os.listdir(make.path.parent) == [make.path.name]


def pace_of(store: Any) -> pace.Pace:
    found: pace.Pace = store._table.publishing.pace
    return found


@pytest.mark.parametrize("length", [1, 500])
def test_many_assignments_write_in_all_what_they_hold(length: int, make: Maker) -> None:
    """As many publications as the values times a constant, one by one, whatever their number."""
    value = np.random.default_rng(1).integers(0, 1 << 62, length)
    counts = []
    for number in (2000, 8000):
        with make("w") as store:
            for n in range(number):
                store[f"/k{n}"] = value
            counts.append(pace_of(store).count)
            with make("r") as reader:
                waiting = number - len(reader)
        with make("r") as reader:
            assert len(reader) == number
        held = number * (value.nbytes + 500)
        assert os.path.getsize(make.path) < 4 * held
        assert waiting * (value.nbytes + 100) <= 2 * 64 * number + value.nbytes + 1000
    assert 0 < counts[0] < 1000
    assert counts[1] - counts[0] < counts[0]  # four times as many values: a constant more


@pytest.mark.parametrize("make", ["b2e", "b2d-embedded"], indirect=True)
def test_a_fifth_of_a_store_is_replaced_before_it_publishes(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pace follows the size of the map: to publish more often would take longer than the assignments."""
    monkeypatch.setattr(pace, "_LONGEST_WAIT", 1e9)
    values = [np.random.default_rng(n).integers(0, 255, 200, dtype="u1") for n in range(8)]
    with make("w") as store:
        store.write_many((f"/k{n}", values[n % 8]) for n in range(2000))
        store.flush()
        before = pace_of(store).count
        for n in range(400):
            store[f"/k{5 * n}"] = values[(n + 1) % 8]
        assert pace_of(store).count == before
        assert np.array_equal(make.values()["/k0"], values[0])
        for n in range(1200):
            store[f"/k{n}"] = values[(n + 1) % 8]
        assert before < pace_of(store).count <= before + 4
        assert np.array_equal(make.values()["/k0"], values[1])


@pytest.mark.parametrize("make", ["b2e", "b2d-embedded"], indirect=True)
def test_a_large_store_publishes_what_waits_at_flush(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "_LONGEST_WAIT", 1e9)
    with make("w") as store:
        store.write_many((f"/k{n}", [n]) for n in range(1000))
        store["/new"] = [1]
        del store["/k5"]
        found = make.values()
        assert "/new" not in found
        assert "/k5" in found
        store.flush()
        found = make.values()
        assert found["/new"] == [1]
        assert "/k5" not in found
        monkeypatch.setattr(pace, "_LONGEST_WAIT", 0.0)
        store["/newer"] = [2]  # a second has passed
        assert make.values()["/newer"] == [2]
