"""Errors of a full disk name the file that could not be written."""

from __future__ import annotations

import errno
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import name_target

resource = pytest.importorskip("resource")

NOISE = np.random.default_rng(8).integers(0, 1 << 62, 20_000)


@contextmanager
def full_disk(size: int) -> Iterator[None]:
    """No file can be longer: what the system says then names no file, like a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def set_and_flush(store: Any) -> None:
    store["/b"] = NOISE
    store.flush()


def many(store: Any) -> None:
    store.write_many((f"/{n}", NOISE[n : n + 2000]) for n in range(300))


def edit(store: Any) -> None:
    store["/a"][:] = NOISE[:5]
    store["/a"].resize((20_000,))
    store["/a"][:] = NOISE
    store.flush()


def transaction(store: Any) -> None:
    with store.transaction():
        store["/b"] = NOISE


@pytest.mark.parametrize("limit", [5000, 50_000])
@pytest.mark.parametrize("change", [set_and_flush, many, edit, transaction])
@pytest.mark.parametrize("name", ["s.b2e", "s.b2z", "s.b2d", "embedded.b2d"])
def test_stores(name: str, change: Callable[[Any], None], limit: int, tmp_path: Path) -> None:
    path = tmp_path / name
    kind = blosc2.EmbedStore if name == "s.b2e" else blosc2.TreeStore
    how = {"threshold": None} if name == "embedded.b2d" else {}
    with kind(str(path), mode="w", **how) as store:
        store["/a"] = NOISE[:5]
    if (name, change) == ("s.b2d", many):  # whose files are all small
        limit = 5000
    store = kind(str(path), mode="a", **how)
    with full_disk(limit), pytest.raises(OSError) as caught:
        change(store)
    assert caught.value.errno == errno.EFBIG
    assert str(path) in str(caught.value)
    store.discard()
    store.close()


def test_packing(tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2d"), mode="w") as store:
        store["/a"] = NOISE
        store.flush()
        for copy, name in ((store.to_b2z, "c.b2z"), (store.to_b2d, "c.b2d")):
            with full_disk(20_000), pytest.raises(OSError, match=rf"c\.{name[-3:]}"):
                copy(**{"filename" if name == "c.b2z" else "dirname": tmp_path / name})


@pytest.mark.parametrize("name", ["s.b2e", "s.b2z"])
def test_compact(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    kind = blosc2.EmbedStore if name == "s.b2e" else blosc2.TreeStore
    with kind(str(path), mode="w") as store:
        store["/a"] = NOISE
        store.flush()
        with full_disk(20_000), pytest.raises(OSError, match=name):
            store.compact()


@pytest.mark.parametrize("contiguous", [True, False])
def test_arrays(contiguous: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    with full_disk(5000), pytest.raises(OSError, match=r"a\.b2nd'"):
        blosc2.asarray(NOISE, urlpath=path, contiguous=contiguous)
    assert list(tmp_path.iterdir()) == []
    array = blosc2.asarray(NOISE[:5], urlpath=path, contiguous=contiguous, chunks=(4000,), blocks=(1000,))
    changes: list[Callable[[], Any]] = [lambda: array.append(NOISE), lambda: array.attrs.update(a=NOISE)]
    for change in changes:
        with full_disk(5000), pytest.raises(OSError, match=r"a\.b2nd"):
            change()
        np.testing.assert_array_equal(array[:], NOISE[:5])
    with full_disk(5000), pytest.raises(OSError, match=r"a\.b2nd'"):
        blosc2.asarray(NOISE).save(path, contiguous=contiguous, mode="w")
    np.testing.assert_array_equal(blosc2.open(path)[:], NOISE[:5])
    assert blosc2.check(path).ok


def test_buffers(tmp_path: Path) -> None:
    for save in (blosc2.save_array, blosc2.save_tensor):
        with full_disk(5000), pytest.raises(OSError, match=r"a\.b2frame'"):
            save(NOISE, tmp_path / "a.b2frame")
    schunk = blosc2.SChunk(chunksize=8000, urlpath=tmp_path / "s.b2frame")
    with full_disk(5000), pytest.raises(OSError, match=r"s\.b2frame"):
        schunk.append_data(NOISE[:1000])


@pytest.mark.parametrize("suffix", ["b2z", "b2d", "b2e", "b2nd", "safetensors", "h5", "zarr.zip", "into"])
def test_conversions(suffix: str, tmp_path: Path) -> None:
    """What is written beside the target is not named, and what cannot be resumed is gone."""
    pytest.importorskip({"h5": "h5py", "zarr.zip": "zarr"}.get(suffix, "numpy"))
    np.save(tmp_path / "in.npy", NOISE)
    target = tmp_path / ("c.b2z" if suffix == "into" else f"c.{suffix}")
    how = {"resume": False} if suffix in ("b2z", "b2d") else {}
    if suffix == "into":
        blosc2.TreeStore(str(target), mode="w").close()
        how = {"into": "/k"}
    before = set(tmp_path.iterdir())
    with full_disk(20_000), pytest.raises(OSError) as caught:
        blosc2.convert(tmp_path / "in.npy", target, **how)
    check_named(caught.value, None if suffix == "zarr.zip" else target)
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["m.b2z", "m.b2d", "m.b2e"])
def test_merging(name: str, tmp_path: Path) -> None:
    with blosc2.TreeStore(str(tmp_path / "s.b2z"), mode="w") as store:
        store["/a"] = NOISE
    with full_disk(20_000), pytest.raises(OSError) as caught:
        blosc2.merge([tmp_path / "s.b2z"], tmp_path / name)
    check_named(caught.value, tmp_path / name)


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("data", ["dataset", "blocks", "dask", "dask, no resume"])
@pytest.mark.parametrize("name", ["n.b2z", "n.b2d", "there.b2z"])
def test_data_of_others(name: str, data: str, large: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of a store that is written beside its place, nor of arrays and blocks that wait in a folder."""
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask.array")
    monkeypatch.setattr("blosc2._tools.integrations.array_writing._LARGE", 1000 if large else 1 << 30)
    target = tmp_path / name
    if name == "there.b2z":
        blosc2.TreeStore(str(target), mode="w").close()
    items = xarray.Dataset({"t": ("x", NOISE)})
    items = items.chunk(x=10_000) if data == "blocks" else items
    how: dict[str, Any] = {"mode": "a"}
    if data.startswith("dask"):
        items, how = dask.from_array(NOISE, chunks=10_000), {"resume": data == "dask"}
    with full_disk(20_000), pytest.raises(OSError) as caught:
        blosc2.to_store(items, target, "/g", **how)
    check_named(caught.value, target)


def check_named(error: OSError, target: Path | None) -> None:
    assert error.errno == errno.EFBIG
    assert not any(part in str(error) for part in (".partial", ".tmp", ".staging", ".part"))
    if target is not None:
        assert target.name in str(error)


def test_errors_keep_all_else(tmp_path: Path) -> None:
    """Names in texts, notes and attributes are replaced, and a pickle has them, too."""
    told = blosc2.exceptions.StoreLockedError("s.p-1.b2z is in use", path=f"{tmp_path}/s.p-1.b2z", key="/a")
    told.add_note("while s.p-1.b2z/a was written")
    name_target(told, f"{tmp_path}/s.p-1.b2z", "s.b2z")
    for error in (told, pickle.loads(pickle.dumps(told))):
        assert str(error) == f"{tmp_path}/s.b2z, key '/a': s.b2z is in use"
        assert (error.path, error.key, error.reason) == (f"{tmp_path}/s.b2z", "/a", "s.b2z is in use")
    assert told.__notes__ == ["while s.b2z was written"]
    moved = OSError(13, "Permission denied", "/d/s.p-1.b2z", None, "/d/s.b2z")
    name_target(moved, "/d/s.p-1.b2z", "/d/s.b2z")
    assert str(moved) == "[Errno 13] Permission denied: '/d/s.b2z'"
    other = KeyError(7)
    name_target(other, "/d/s.p-1.b2z", "/d/s.b2z")
    assert other.args == (7,)
