"""Many small leaves written natively (`SmallLeaves`): the same keys, values and errors as one after the other."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._stores import new_keys

UNUSUAL = [
    "/a", "/A", "/a/b", "/a/b/c", "/g1/k3", "/G1/k3", "/g1/K3", "/g1", "/g1/k3/x", "/x.b2nd/y", "/x", "/con", "/é",
    "k4", "/__vlmeta__", "/_meta", "/embed.b2e", "/g2.b2f/u", "/g2", "/", "", "/k/", "/é/x", "/long" * 60,
]  # fmt: skip


def pairs_of(rng: random.Random, number: int, unusual: float) -> list[tuple[str, Any]]:
    """Pairs of which most are simple, some have unusual keys or values, and some come again."""
    found: list[tuple[str, Any]] = []
    for n in range(number):
        key = f"/g{rng.randrange(5)}/h{rng.randrange(5)}/k{n}" if rng.random() < 0.7 else f"/k{n}"
        if rng.random() < unusual:
            key = rng.choice(UNUSUAL)
        elif found and rng.random() < 0.05:
            key = rng.choice(found)[0]
        value: Any = np.full(rng.choice([3, 3, 200]), n % 250 + 1, "u1")
        if rng.random() < 0.05:
            value = rng.choice(
                [np.zeros(9), np.arange(3000), [1, 2], np.array(n), np.arange(40)[::2], np.full((2, 2), "é")]
            )
        found.append((key, value))
    return found


def contents(path: str) -> dict[str, Any]:
    with blosc2.open(path) as store:
        return {key: store[key][...].tolist() for key in store if not isinstance(store[key], blosc2.TreeStore)}


def attempt(path: str, cls: Any, pairs: list[Any], how: str, mode: str = "a") -> Any:
    """Write pairs; the type and the message of the error, if there is one."""
    with cls(path, mode=mode) as store:
        try:
            getattr(store, how)(iter(pairs))
        except (ValueError, TypeError) as error:
            return type(error), str(error).replace(path, "")
    return None


@pytest.mark.parametrize("how", ["write_many", "update"])
@pytest.mark.parametrize("cls", [blosc2.DictStore, blosc2.TreeStore])
@pytest.mark.parametrize("seed", range(8))
def test_the_native_way_does_what_the_general_one_does(
    seed: int, cls: Any, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [str(tmp_path / f"{name}.b2z") for name in ("native", "general")]
    rng = random.Random(seed)
    steps = [pairs_of(rng, 400, 0.0), pairs_of(rng, 400, 0.01), pairs_of(rng, 300, 0.002), pairs_of(rng, 300, 0.0)]
    native = [attempt(paths[0], cls, pairs, how) for pairs in steps]
    monkeypatch.setattr(new_keys, "raw_kinds", lambda encoding: None)
    general = [attempt(paths[1], cls, pairs, how) for pairs in steps]
    assert native == general
    found = contents(paths[0])
    assert found == contents(paths[1])
    expected: dict[str, Any] = {}
    for pairs, error in zip(steps, native, strict=True):
        if error is None:
            expected.update(
                {key if key.startswith("/") else "/" + key: np.asarray(value).tolist() for key, value in pairs}
            )
    assert found == expected
    assert all(blosc2.check(path).ok for path in paths)


def test_progress_and_interrupts_come_between(tmp_path: Path) -> None:
    value = np.full(10, 3, "u1")
    told: list[tuple[int, int]] = []
    with blosc2.DictStore(str(tmp_path / "x.b2z"), mode="w") as store:
        assert (
            store.write_many([(f"/k{n}", value) for n in range(5000)], progress=lambda *now: told.append(now)) == 5000
        )
        assert told[-1] == (5000, 50_000)
        assert [count for count, _ in told[:-1]] == [1024, 2048, 3072, 4096]

        def stop(count: int, nbytes: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            store.write_many([(f"/m{n}", value) for n in range(5000)], progress=stop)
        assert len(store) == 5000
        store.write_many([(f"/m{n}", value) for n in range(300)])
        assert len(store) == 5300


def test_others_may_not_change_the_store_meanwhile(tmp_path: Path) -> None:
    value = np.full(10, 3, "u1")
    path = str(tmp_path / "x.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        store["/old"] = value

        def pairs() -> Any:
            for n in range(4000):
                if n == 3000:
                    for act in (store.flush, store.close, lambda: store.__setitem__("/y", value)):
                        with pytest.raises(RuntimeError):
                            act()
                yield f"/k{n}", value

        assert store.write_many(pairs()) == 4000
    assert len(contents(path)) == 4001


def test_large_values_among_small_ones(tmp_path: Path) -> None:
    """Threads compress large values; when only small ones follow, these are written natively again."""
    path = str(tmp_path / "x.b2z")
    rng = np.random.default_rng(2)
    expected = {
        f"/k{n}": rng.integers(0, 9, 300_000 if n in (300, 301, 900, 1500) else 20).astype("i4") for n in range(2000)
    }
    before = blosc2.set_nthreads(2)
    try:
        with blosc2.TreeStore(path, mode="w") as store:
            assert store.write_many(expected) == 2000
    finally:
        blosc2.set_nthreads(before)
    with blosc2.open(path) as store:
        assert list(store) == sorted(expected)
        for key, value in expected.items():
            np.testing.assert_array_equal(store[key][...], value, strict=True)
