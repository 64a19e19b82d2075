"""Frames of embedded values whose chunks have several sizes: nobody writes such; what reads them has to know them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import blosc2

VALUES = {
    "/a": np.arange(5),
    "/long": np.random.default_rng(1).integers(0, 256, 3 << 20, dtype="u1"),
    "/z": np.arange(9.0),
}
# Bytes of the chunks, the last one takes what is left: values begin, end and cross within them.
SIZES = (100, 1000, 700_001, 1 << 20, 300)


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file of embedded values, its bytes in chunks of several sizes."""
    made = str(tmp_path / "made.b2e")
    with blosc2.EmbedStore(made, mode="w") as written:
        for key, value in VALUES.items():
            written[key] = blosc2.asarray(value, cparams={"clevel": 0})
    equal = blosc2.schunk_from_cframe(Path(made).read_bytes())
    data, path = equal[:], str(tmp_path / "a.b2e")
    variable = blosc2.SChunk(
        chunksize=-1, urlpath=path, cparams={"typesize": 1, "clevel": 0}, meta={"b2embed": equal.meta["b2embed"]}
    )
    for name in equal.vlmeta:
        variable.vlmeta[name] = equal.vlmeta[name]
    for size in (*SIZES, len(data) - sum(SIZES)):
        variable.append_data(data[:size])
        data = data[size:]
    assert variable.chunksize == 0
    return path


@pytest.mark.parametrize("mmap_mode", [None, "r"])
def test_values_are_read(store: str, mmap_mode: str | None) -> None:
    with blosc2.EmbedStore(store, mode="r", mmap_mode=mmap_mode) as opened:
        for key, value in VALUES.items():
            np.testing.assert_array_equal(opened[key][:], value)
    assert blosc2.check(store).ok


def test_it_is_salvaged_compacted_and_changed(store: str, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved.b2e")
    blosc2.salvage(store, saved, fill=7)
    for path in (store, saved):
        with blosc2.EmbedStore(path, mode="a") as opened:
            opened["/new"] = np.arange(4)
            opened.compact()
        with blosc2.EmbedStore(path, mode="r") as opened:
            for key, value in {**VALUES, "/new": np.arange(4)}.items():
                np.testing.assert_array_equal(opened[key][:], value)
        assert blosc2.check(path).ok
