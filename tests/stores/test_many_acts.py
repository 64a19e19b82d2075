"""Thousands of small leaves that are set, replaced and removed one by one, beside a dict."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount
from store_makers import Maker

import blosc2

#: Kinds of values, most of them small; `n` tells one from the next.
VALUES: list[Callable[[int], Any]] = [
    *[lambda n: np.full(20 + n % 3, n % 251, "u1")] * 6,
    lambda n: np.arange(n % 190 + 1, dtype="f4").reshape(-1, 1),
    lambda n: np.zeros(7, "i8"),
    lambda n: np.arange(5000) * n,
    lambda n: np.arange(2 * n + 2)[::2],
    lambda n: np.zeros((0, 3)),
    lambda n: np.array([(1, n)], dtype=[("x", "i4"), ("y", "f8")]),
    lambda n: np.array(["text", str(n)]),
    lambda n: [n, 2],
    lambda n: np.array([None]),
]


KINDS = ["b2e", "b2z", "tree-b2z", "b2d-embedded"]


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_those_of_a_dict(kind: str, tmp_path: Path) -> None:
    """Of published, replaced, edited, removed and new leaves, in the handle that changes them."""
    make = Maker(kind, tmp_path)
    rng = random.Random(4)
    model: dict[str, Any] = {}
    buffer = np.zeros(30, "u1")
    for mode in ("w", "a", "a"):
        with make(mode) as store:
            for n in range(1500):
                key = f"/g{(which := rng.randrange(600)) % 7}/h{which % 11}/k{which}"
                act = rng.random()
                if act < 0.3:  # the value may be used again
                    buffer[:] = n % 250
                    store[key] = buffer
                    model[key] = buffer.copy()
                elif act < 0.5:
                    value = rng.choice(VALUES)(n)
                    if np.asarray(value).dtype.hasobject:
                        with pytest.raises(TypeError, match="cannot be stored"):
                            store[key] = value
                        continue
                    store[key] = value
                    model[key] = np.array(value)
                elif key not in model:
                    with pytest.raises(KeyError):
                        store.read(key)
                elif act < 0.6:
                    del store[key], model[key]
                elif act < 0.65 and model[key].dtype == "u1":
                    leaf = store[key]
                    leaf[3] = model[key][3] = 200
                    np.testing.assert_array_equal(store.read(key), model[key])
                    del leaf
                else:
                    found = store.read(key)
                    np.testing.assert_array_equal(found, model[key], strict=True)
                    found[:] = found[:1]  # an array of its own
                if n in (700, 1100):
                    store.flush()
            recount(store, {key: value.tolist() for key, value in model.items()})
        with pytest.raises(blosc2.exceptions.ClosedStoreError):
            store.read(key)
    with make("r") as store:
        for key, value in model.items():
            np.testing.assert_array_equal(store[key][...], value, strict=True)
            np.testing.assert_array_equal(store.read(key), value, strict=True)


def test_the_defaults_of_the_moment_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    value = np.arange(20)
    with blosc2.DictStore(str(tmp_path / "x.b2z"), mode="w") as store:
        for n in range(4):
            store[f"/a{n}"] = value
        monkeypatch.setitem(blosc2.cparams_dflts, "codec", blosc2.Codec.LZ4)
        for n in range(4):
            store[f"/b{n}"] = value
        assert store["/a3"].cparams.codec == blosc2.Codec.ZSTD
        assert store["/b3"].cparams.codec == blosc2.Codec.LZ4


def test_frames_that_share_memory_stay_when_others_are_replaced(tmp_path: Path) -> None:
    store = blosc2.EmbedStore(str(tmp_path / "store.b2e"), mode="w")
    made = {f"/k{n}": np.full(50, n % 251, "u1") for n in range(3000)}
    with store.transaction():
        store.write_many(made)
        for n in range(0, 3000, 7):
            store[f"/k{n}"] = made[f"/k{n}"] = np.full(n % 90 + 1, 7, "i2")
            del store[f"/k{n + 1}"], made[f"/k{n + 1}"]
            assert (store[f"/k{n + 2}"][...] == made[f"/k{n + 2}"]).all()
    store.close()
    assert Maker("b2e", tmp_path).values() == {key: value.tolist() for key, value in made.items()}
