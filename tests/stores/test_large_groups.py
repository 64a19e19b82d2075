"""Deleting groups of many leaves: published, pending, replaced, held and edited ones; undone, flushed, set again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2


def made(path: str, number: int = 700) -> dict[str, Any]:
    """A store with some groups; its leaves by key."""
    model = {f"/g{n % 3}/h{n % 2}/k{n}": np.full(9, n % 250 + 1, "u1") for n in range(number)}
    model["/g1/é/x"] = np.arange(4)
    with blosc2.TreeStore(path, mode="w") as store:
        store.update(model)
        store.get_subtree("/g1").attrs["note"] = 3
    return model


def leaves(store: Any) -> dict[str, Any]:
    return {key: store[key][...].tolist() for key in store if not isinstance(store[key], blosc2.TreeStore)}


def check(store: Any, model: dict[str, Any]) -> None:
    groups = {key[:end] for key in model for end in range(1, len(key)) if key[end] == "/"}
    assert list(store) == sorted([*model, *groups])
    assert len(store) == len(model) + len(groups)
    assert leaves(store) == {key: np.asarray(value).tolist() for key, value in model.items()}


def without(model: dict[str, Any], group: str) -> dict[str, Any]:
    return {key: value for key, value in model.items() if not key.startswith(group + "/")}


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_a_large_group_is_deleted(suffix: str, tmp_path: Path) -> None:
    path = str(tmp_path / ("x" + suffix))
    model = made(path, 700 if suffix == ".b2z" else 200)
    with blosc2.TreeStore(path, mode="a") as store:
        held = store["/g1/h1/k7"]
        edited = store["/g1/h1/k13"]
        edited[2] = 99
        store["/g1/h0/k4"] = np.arange(3)
        store["/g1/new/k"] = np.arange(3)
        del store["/g1/h1/k19"]
        del store["/g1"]
        assert held[0] == 8
        assert edited[2] == 99
        with pytest.raises(blosc2.exceptions.ClosedStoreError):
            edited[1] = 5
        with pytest.raises(KeyError):
            store["/g1/h1/k7"]
        assert "/g1" not in store
        check(store, without(model, "/g1"))
        model = without(model, "/g1")
        # A group may become a leaf, and keys that were deleted come again, also in another case.
        store["/g1"] = model["/g1"] = np.arange(5)
        check(store, model)
        del store["/g1"], model["/g1"]
        for n in range(1, 100, 3):
            store[f"/g1/h1/k{n}"] = model[f"/g1/h1/k{n}"] = np.full(7, n, "u1")
        store["/g1/H0/k"] = model["/g1/H0/k"] = np.arange(2)
        with pytest.raises(ValueError, match="in case only"):
            store["/g1/h1/K1"] = np.arange(2)
        check(store, model)
    with blosc2.open(path) as store:
        check(store, model)
    assert blosc2.check(path).ok


def test_a_deletion_is_taken_back(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    model = made(path)
    with blosc2.TreeStore(path, mode="a") as store:
        store["/g1/h1/k7"] = model["/g1/h1/k7"] = np.arange(11)
        with pytest.raises(ArithmeticError), store.transaction():
            del store["/g1"]
            store["/g1/h1/k1"] = np.arange(2)
            del store["/g2/h0"]
            assert "/g1/h1/k7" not in store
            raise ArithmeticError
        check(store, model)
        del store["/g2"]
        check(store, without(model, "/g2"))
        store.discard()
        assert len(leaves(store)) == len(model)
        store.get_subtree("/g1").clear()
        assert not [key for key in store if key.startswith("/g1/")]
    with blosc2.open(path) as store:
        assert len(leaves(store)) == len(without(model, "/g1"))


def test_all_is_deleted(tmp_path: Path) -> None:
    path = str(tmp_path / "x.b2z")
    made(path)
    with blosc2.TreeStore(path, mode="a") as store:
        store.clear()
        assert list(store) == []
    with blosc2.TreeStore(path, mode="a") as store:
        assert list(store) == []
        store["/g1/h1/k1"] = np.arange(3)
    with blosc2.open(path) as store:
        assert leaves(store) == {"/g1/h1/k1": [0, 1, 2]}
    assert blosc2.check(path).ok


def test_a_deletion_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "x.b2z")
    model = made(path)
    with blosc2.TreeStore(path, mode="a") as store:
        store["/g1/h1/k7"] = model["/g1/h1/k7"] = np.arange(11)
        held = store["/g1/h1/k13"]

        def fail(path: str) -> None:
            raise ArithmeticError

        with monkeypatch.context() as patch:
            patch.setattr(type(store._table.foreign), "remove", lambda self, path: fail(path))
            with pytest.raises(ArithmeticError):
                del store["/g1"]
        check(store, model)
        held[0] = 5
        model["/g1/h1/k13"] = held[:]
        check(store, model)
    with blosc2.open(path) as store:
        check(store, model)
