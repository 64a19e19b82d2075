"""What is pickled of an object on a server stands for one version: another one is refused, never shown beside it."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit
from fixture_kit import manifest

import blosc2
from blosc2.exceptions import RemoteChangedError, StaleHandleError

ITEMS = np.random.default_rng(8).integers(0, 256, (6, 20_000), "u1")
STORES = {"a.b2z": blosc2.TreeStore, "d.b2z": blosc2.DictStore, "a.b2e": blosc2.EmbedStore}


def make(folder: Path, name: str, add: int) -> Path:
    """A file of some name, in a folder of its own for each version. All versions have the same size."""
    path = folder / str(add) / name
    path.parent.mkdir(exist_ok=True)
    if path.exists():  # made anew, it would have another time inside
        return path
    if name not in STORES:
        array = blosc2.asarray(ITEMS + add, chunks=(1, 20_000), urlpath=str(path), mode="w", cparams={"clevel": 0})
        assert array.shape == ITEMS.shape
        return path
    with STORES[name](str(path), mode="w") as store:
        for i, row in enumerate(ITEMS):
            store[f"/g/{i}"] = blosc2.asarray(row + add, cparams={"clevel": 0})
    return path


def rows(store: Any) -> np.ndarray:
    return np.stack([store[f"/g/{i}"][:] for i in range(6)])


def below(store: Any) -> np.ndarray:
    return np.stack([store[f"/{i}"][:] for i in range(6)])


def in_order(found: np.ndarray) -> np.ndarray:
    """Rows in an order of their own: patches are shuffled."""
    return found[np.argsort(found[:, 0])]


# What is handed over of what was opened, and how it is read.
HANDED: dict[str, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "array": ("a.b2nd", lambda opened: opened, lambda array: array[:]),
    "view": ("a.b2nd", lambda opened: opened.squeeze(), lambda array: array[:]),
    "super-chunk": ("a.b2nd", lambda opened: opened.schunk, lambda data: np.frombuffer(data[:], "u1").reshape(6, -1)),
    "rows": ("a.b2nd", blosc2.Samples, lambda samples: samples.read_batch(range(6))),
    **{
        f"{what} {name}": (name, hand, use)
        for name in STORES
        for what, hand, use in [
            ("store", lambda opened: opened, rows),
            ("leaves", lambda opened: [opened[f"/g/{i}"] for i in range(6)], np.stack),
            ("samples", blosc2.Samples, lambda samples: samples.read_batch(range(6))),
            ("patches", lambda opened: blosc2.PatchSampler(opened, (20_000,)), np.asarray),
        ]
    },
    "group": ("a.b2z", lambda opened: opened["/g"], below),
}  # fmt: skip


@pytest.fixture(params=list(HANDED))
def handed(request: pytest.FixtureRequest) -> tuple[str, Callable[[Any], Any], Callable[[Any], Any]]:
    return HANDED[request.param]


def test_what_is_pickled_refuses_another_version(server: remote_kit.RangeServer, tmp_path: Path, handed: Any) -> None:
    name, hand, use = handed
    opened = blosc2.open(server.put(name, make(tmp_path, name, 0)), remote={"retries": 1})
    pickled = pickle.dumps(hand(opened))
    server.put(name, make(tmp_path, name, 1))
    for _ in range(2):
        other = pickle.loads(pickled)  # which itself raises nothing
        for _ in range(2):
            with pytest.raises(RemoteChangedError, match="since this handle was pickled") as raised:
                use(other)
            assert name in str(raised.value)
    # What is pickled now is the newer version.
    newer = blosc2.open(server.put(name, make(tmp_path, name, 1)))
    np.testing.assert_array_equal(in_order(use(pickle.loads(pickle.dumps(hand(newer))))), in_order(ITEMS + 1))
    # It may travel on, to where what it stands for is there again.
    server.put(name, make(tmp_path, name, 0))
    np.testing.assert_array_equal(in_order(use(pickle.loads(pickle.dumps(other)))), in_order(ITEMS))


@pytest.mark.parametrize("name", ["a.b2nd", *STORES])
def test_what_was_unpickled_may_be_refreshed(server: remote_kit.RangeServer, tmp_path: Path, name: str) -> None:
    """Opened in time, it is a handle like others."""
    opened = blosc2.open(server.put(name, make(tmp_path, name, 0)))
    other = pickle.loads(pickle.dumps(opened))
    server.put(name, make(tmp_path, name, 1))
    assert other.refresh()
    again = pickle.loads(pickle.dumps(other))
    for found in (other, again, copy.copy(again)):
        np.testing.assert_array_equal(found[:] if name == "a.b2nd" else rows(found), ITEMS + 1)


@pytest.mark.parametrize("name", ["a.b2nd", "a.b2z"])
def test_the_path_of_a_handle_opens_the_newest_version(
    server: remote_kit.RangeServer, tmp_path: Path, name: str
) -> None:
    opened = blosc2.open(server.put(name, make(tmp_path, name, 0)))
    pickled = pickle.dumps(opened)
    good = pickle.loads(pickled)
    server.put(name, make(tmp_path, name, 1))
    lost = pickle.loads(pickled)
    for handle in (opened, good, lost):
        path = handle.urlpath if name == "a.b2nd" else handle._table.backend.named
        found = blosc2.open(path)
        np.testing.assert_array_equal(found[:] if name == "a.b2nd" else rows(found), ITEMS + 1)


def test_an_old_leaf_of_a_refreshed_store(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """Its pickle does not become one of the newer version that its store shows."""
    store = blosc2.open(server.put("a.b2z", make(tmp_path, "a.b2z", 0)))
    leaf = store["/g/3"]
    np.testing.assert_array_equal(leaf[:], ITEMS[3])
    server.put("a.b2z", make(tmp_path, "a.b2z", 1))
    store.refresh()
    with pytest.raises((RemoteChangedError, StaleHandleError), match=r"a\.b2z"):
        pickle.loads(pickle.dumps(leaf))[:]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(store["/g/3"]))[:], ITEMS[3] + 1)


def test_values_that_were_decoded(server: remote_kit.RangeServer) -> None:
    """Of a store of the published package, whose values are compressed twice, they are told apart by their bytes."""
    entries = [e for e in manifest.files("embedstore") if e["path"].endswith(".b2e")]
    seen = 0
    for entry in entries:
        name = manifest.path_of(entry).name
        store = blosc2.open(server.put(name, manifest.path_of(entry)))
        for leaf in (store[key] for key in store):
            if hasattr(leaf, "to_cframe"):
                assert pickle.loads(pickle.dumps(leaf)).to_cframe() == leaf.to_cframe()
                seen += 1
    assert seen


@pytest.mark.parametrize("name", STORES)
def test_samples_of_a_store_that_was_refreshed(server: remote_kit.RangeServer, tmp_path: Path, name: str) -> None:
    store = blosc2.open(server.put(name, make(tmp_path, name, 0)))
    samples = blosc2.Samples(store)
    np.testing.assert_array_equal(samples[1], ITEMS[1])
    server.put(name, make(tmp_path, name, 1))
    store.refresh()
    for refused in (samples, pickle.loads(pickle.dumps(samples))):
        with pytest.raises(StaleHandleError, match="refreshed"):
            refused.read_batch([2])
    np.testing.assert_array_equal(blosc2.Samples(store)[2], ITEMS[2] + 1)


def test_a_server_that_tells_no_version(server: remote_kit.RangeServer, tmp_path: Path) -> None:
    """It is trusted as long as the size stays the same."""
    server.etags = False
    pickled = pickle.dumps(blosc2.open(server.put("a.b2nd", make(tmp_path, "a.b2nd", 0))))
    np.testing.assert_array_equal(pickle.loads(pickled)[:], ITEMS)
    server.objects["a.b2nd"] += b"more"
    with pytest.raises(RemoteChangedError):
        pickle.loads(pickled)[:]
