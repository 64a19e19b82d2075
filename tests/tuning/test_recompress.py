"""Compressing the arrays of a store anew: smaller or untouched, with all that belongs to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_kit import Answer, failing

import blosc2
from blosc2.exceptions import ReadOnlyError

KINDS = [("TreeStore", "a.b2z"), ("TreeStore", "a.b2d"), ("DictStore", "a.b2z"), ("EmbedStore", "a.b2e")]


def values() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "/g/walk": rng.integers(-3, 4, (64, 8000)).cumsum(axis=1).astype("i2"),
        "/g/noise": rng.integers(0, 256, 100_000, dtype="u1"),
        "/g/h/zeros": np.zeros(5000),
        "/text": np.array(["some", "text"] * 50),
    }


@pytest.fixture(params=KINDS, ids=["-".join(kind) for kind in KINDS])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind, name = request.param
    made = str(tmp_path / name)
    with getattr(blosc2, kind)(made, mode="w") as store:
        store.update(values())
        store["/other"] = blosc2.SChunk(data=b"bytes " * 1000)
        leaf = store["/g/walk"]
        leaf.vlmeta["units"] = "m"
    return made


def sizes(path: str) -> dict[str, int]:
    with blosc2.open(path) as store:
        leaves = {key: store[key] for key in store}
        return {key: len(leaf.to_cframe()) for key, leaf in leaves.items() if hasattr(leaf, "to_cframe")}


def test_arrays_become_smaller_or_stay(path: str) -> None:
    before = sizes(path)
    with blosc2.open(path, mode="a") as store:
        done = store.recompress(cparams="smallest")
        assert done.leaves == 4
        assert done.changed >= 1
        assert done.after < done.before
        again = store.recompress(cparams="smallest")
        assert (again.changed, again.before) == (0, done.after)
    after = sizes(path)
    assert after.keys() == before.keys()
    assert all(after[key] <= before[key] for key in before)
    assert after["/g/walk"] < 0.97 * before["/g/walk"]
    with blosc2.open(path) as store:
        for key, items in values().items():
            assert np.array_equal(store[key][...], items)
        assert store["/g/walk"].vlmeta["units"] == "m"
        assert store["/other"][:] == b"bytes " * 1000
        assert store.check().ok


def test_keys_and_groups(path: str) -> None:
    with blosc2.open(path, mode="a") as store:
        assert store.recompress("/g", "smallest").leaves == 3
        assert store.recompress(["/g/walk", "/text"], "smallest").leaves == 2
        with pytest.raises(KeyError):
            store.recompress("/none")
        with pytest.raises((TypeError, ValueError)):
            store.recompress(cparams="smal")
    with blosc2.open(path) as store, pytest.raises(ReadOnlyError):
        store.recompress()


def test_an_interrupted_run_goes_on(path: str) -> None:
    def stop(done: int, total: int) -> None:
        if done == 2:
            raise InterruptedError

    whole = sizes(path)
    with blosc2.open(path, mode="a") as store:
        with pytest.raises(InterruptedError):
            store.recompress(cparams="smallest", progress=stop)
        store.recompress(cparams="smallest")
        for key, items in values().items():
            assert np.array_equal(store[key][...], items)
    assert sizes(path)["/g/walk"] < whole["/g/walk"]


@pytest.mark.parametrize("fill", [-9999.0, 1e20, 1234.567])
def test_rounding_spares_what_is_no_measured_number(path: str, fill: float) -> None:
    values = (280 + np.random.default_rng(0).standard_normal((90, 200))).astype("f4")
    values[:, ::5] = fill
    lat, packed = np.linspace(-89.9, 89.9, 90), values.clip(0, 999).astype("i2")
    with blosc2.open(path, mode="a") as store:
        store["/t"], store["/lat"], store["/packed"] = values, lat, packed
        store["/t"].vlmeta.update({"_FillValue": np.float32(fill), "missing_value": fill})
        store["/lat"].vlmeta["_ARRAY_DIMENSIONS"] = ["lat"]
        store["/packed"].vlmeta["scale_factor"] = 0.01
        assert store.recompress(["/t", "/lat", "/packed"], {"precision": 1}).changed
        found = store["/t"][...]
        assert np.array_equal(found == np.float32(fill), values == np.float32(fill))
        assert 0 < np.abs(found - values).max() <= 1
        assert store["/lat"][...].tolist() == lat.tolist()
        assert np.array_equal(store["/packed"][...], packed)


def test_a_failure_in_a_transaction_changes_nothing(path: str) -> None:
    before = sizes(path)
    with blosc2.open(path, mode="a") as store, pytest.raises(ZeroDivisionError), store.transaction():
        assert store.recompress(cparams="smallest").changed
        raise ZeroDivisionError
    assert sizes(path) == before


def test_the_command_line(path: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = Answer(capfd)
    before = sizes(path)
    told = run("tune", path)
    assert told.count("\n") == 4
    assert "/g/walk: balanced: zstd" in told
    table = run("tune", f"{path}/g/walk", "--goal", "size", "--read", "5")
    assert table.startswith("size: zstd")
    assert "chunks (" in table
    assert sizes(path) == before
    assert "array" in run("recompress", path, "--cparams", "smallest")
    assert "0 arrays" in run("recompress", path, "--cparams", "smallest")
    assert sizes(path)["/g/walk"] < before["/g/walk"]
    alone = tmp_path / "alone.b2nd"
    blosc2.asarray(values()["/g/walk"], urlpath=alone)
    run("recompress", str(alone), "--cparams", "smallest")
    assert np.array_equal(blosc2.open(alone)[...], values()["/g/walk"])
    assert "nothing is smaller" in run("recompress", str(alone), "--cparams", "smallest")
    assert "precision" in failing(run, "tune", str(alone), "--precision", "much")
    np.save(tmp_path / "w.npy", values()["/g/walk"])
    run("import", str(tmp_path / "w.npy"), str(tmp_path / "w.b2nd"), "--cparams", "smallest")
    assert blosc2.Filter.BYTEDELTA in blosc2.open(tmp_path / "w.b2nd").cparams.filters
    assert "--cparams" in failing(
        run, "import", str(tmp_path / "w.npy"), str(tmp_path / "v.b2nd"), "--cparams", "auto", "--level", "3"
    )
