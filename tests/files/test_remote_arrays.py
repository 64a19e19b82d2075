"""Arrays on servers: which requests are sent, and what comes of them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aiohttp")
pytest.importorskip("fsspec")

import remote_kit

import blosc2


@pytest.fixture
def server() -> Iterator[remote_kit.RangeServer]:
    with remote_kit.running() as server:
        yield server


@pytest.fixture(scope="module")
def volume() -> np.ndarray:
    steps = np.random.default_rng(17).integers(0, 40, (96, 96, 96), dtype=np.int16)
    return np.cumsum(steps, axis=2, dtype=np.int16)


@pytest.fixture(scope="module")
def array_file(volume: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("remote") / "volume.b2nd"
    blosc2.asarray(volume, urlpath=str(path), chunks=(32, 32, 32), blocks=(16, 16, 16))
    return path


def test_an_array_is_read_over_http(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    assert len(server.requests) <= 2
    np.testing.assert_array_equal(array[10:50, 3, ::7], volume[10:50, 3, ::7])
    np.testing.assert_array_equal(array[...], volume)
    assert {request.method for request in server.requests} == {"GET"}
    # Nothing is sent twice.
    assert server.sent <= 1.05 * array_file.stat().st_size


def test_chunks_are_fetched_side_by_side(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    server.forget()
    server.delay = 0.05
    keys = [np.s_[i : i + 32, j : j + 32, 64:96] for i in (0, 32, 64) for j in (0, 32, 64)]
    for got, key in zip(array.read_many(keys), keys):
        np.testing.assert_array_equal(got, volume[key])
    assert server.most >= 4
    assert len(server.requests) <= len(keys) + 3


def test_a_pickle_reopens_by_url(server: remote_kit.RangeServer, array_file: Path, volume: np.ndarray) -> None:
    array = blosc2.open(server.put("volume.b2nd", array_file))
    packed = pickle.dumps(array)
    assert len(packed) < 1000
    np.testing.assert_array_equal(pickle.loads(packed)[5], volume[5])
