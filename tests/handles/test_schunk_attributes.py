"""Super-chunks: how they are made, their attributes and parameters, several handles."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fixture_kit.schunks import check

import blosc2
from blosc2 import Codec, Filter, SChunk

pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("schunks") / "schunk.b2frame")


# --------------------------------------------------------------------- construction, attributes


def test_construction(tmp_path: Path) -> None:
    assert (SChunk().chunksize, SChunk().nchunks, len(SChunk()), SChunk()[:]) == (16 << 20, 0, 0, b"")
    items = np.arange(10, dtype="<f8")
    assert (SChunk(data=items).typesize, SChunk(data=items).chunksize) == (8, 80)
    assert SChunk(data=items, cparams={"typesize": 2}).typesize == 2
    assert SChunk(data=items, cparams=blosc2.CParams(typesize=4)).typesize == 4
    assert SChunk(data=b"abc").typesize == 1
    # As the published package has it: bytes, where nobody says what they are.
    for how in ({}, {"cparams": {"clevel": 1}}, {"storage": blosc2.Storage()}):
        assert SChunk(**how).typesize == 1
    assert SChunk(cparams=blosc2.CParams()).typesize == 8
    assert SChunk(data=items[::2])[:] == items[::2].tobytes()
    assert SChunk(data=np.array(["2020-01-01"], "M8[s]"))[:] == np.array(["2020-01-01"], "M8[s]").tobytes()
    assert SChunk(data=b"").nbytes == 0
    urlpath = tmp_path / "s.b2frame"
    schunk = SChunk(data=items, urlpath=urlpath, meta={"m": 1}, chunksize=32)
    assert (schunk.urlpath, schunk.mode, schunk.meta["m"], schunk.nchunks) == (str(urlpath), "a", 1, 3)
    before = urlpath.read_bytes()
    with pytest.raises(RuntimeError, match="Could not create"):
        SChunk(urlpath=urlpath)
    with pytest.raises(FileExistsError):
        SChunk(urlpath=urlpath, mode="x")
    assert urlpath.read_bytes() == before
    assert SChunk(urlpath=urlpath, mode="w").nchunks == 0
    for keywords, kind, text in (
        ({"chunkshape": 3}, ValueError, "no keyword 'chunkshape'"), ({"chunksize": 0}, ValueError, "chunksize"),
        ({"chunksize": 1 << 31}, ValueError, "chunksize"), ({"data": 5}, TypeError, "bytes-like"),
        ({"storage": {"urlpath": "x"}, "urlpath": "y"}, AttributeError, "Cannot pass both"),
        ({"deserialize": "yes"}, ValueError, "'safe' or 'full'"), ({"deserialize": True}, TypeError, "deserialize"),
        ({"mmap_mode": "r"}, ValueError, "urlpath must be set"),
        ({"mmap_mode": "w+"}, ValueError, "urlpath must be set"),
        ({"mmap_mode": "w+", "urlpath": "x", "contiguous": False}, ValueError, "Only contiguous storage is supported"),
        ({"cparams": {"clevel": 10}}, ValueError, "clevel"),
    ):  # fmt: skip
        with pytest.raises(kind, match=text):
            SChunk(**keywords)


def test_construction_for_reading(tmp_path: Path) -> None:
    urlpath = str(tmp_path / "s.b2frame")
    with pytest.raises(ValueError, match="does not exist"):
        SChunk(urlpath=urlpath, mode="r")
    SChunk(data=b"abc", urlpath=urlpath)
    schunk = SChunk(urlpath=urlpath, mode="r", mmap_mode="r")
    assert (schunk[:], schunk.mode, schunk.mmap_mode) == (b"abc", "r", "r")
    with pytest.raises(ValueError, match="reading mode"):
        schunk.append_data(b"1")
    assert SChunk(urlpath=urlpath, mode="r", chunksize=3, dparams={"nthreads": 1}).dparams.nthreads == 1
    with pytest.raises(ValueError, match="not specify a urlpath"):
        SChunk(mode="r")
    with pytest.raises(ValueError, match="takes no data"):
        SChunk(urlpath=urlpath, mode="r", data=b"abc")
    with pytest.raises(ValueError, match="have 3 bytes, not 4"):
        SChunk(urlpath=urlpath, mode="r", chunksize=4)
    blosc2.zeros(3, urlpath=str(tmp_path / "a.b2nd"))
    with pytest.raises(ValueError, match="Cannot open an NDArray as a SChunk"):
        SChunk(urlpath=str(tmp_path / "a.b2nd"), mode="r")


def test_programs_find_open_beside_the_class() -> None:
    from blosc2 import schunk

    assert schunk.open is blosc2.open
    assert schunk.SChunk is SChunk


def test_attributes(tmp_path: Path) -> None:
    items = np.arange(1000, dtype="<i4")
    urlpath = str(tmp_path / "s.b2frame")
    schunk = SChunk(chunksize=1200, data=items, urlpath=urlpath, cparams={"codec": Codec.LZ4, "blocksize": 400})
    assert (schunk.chunksize, schunk.chunkshape, schunk.blocksize, schunk.typesize) == (1200, 300, 400, 4)
    assert (schunk.nchunks, schunk.nbytes, len(schunk)) == (4, 4000, 1000)
    assert 0 < schunk.cbytes < 4000
    assert schunk.cratio == pytest.approx(4000 / schunk.cbytes)
    assert (schunk.contiguous, SChunk(data=b"x").contiguous) == (True, False)
    assert (schunk.initial_mapping_size, schunk.locking) == (None, False)
    assert (schunk.cparams.codec, schunk.cparams.typesize) == (Codec.LZ4, 4)
    tick = schunk.change_tick
    schunk.vlmeta["a"] = (1, 2)
    assert schunk.change_tick == tick + 1
    assert schunk.attrs["a"] == (1, 2)
    assert len(schunk.meta) == 0
    schunk.lock()
    schunk.unlock()
    with schunk.holding_lock(), schunk as same:
        assert same is schunk
    assert len(repr(schunk)) < 200
    assert "4000" in repr(schunk.info)
    assert "<table" in schunk.info._repr_html_()
    # without a block size in the header each chunk has its own
    assert SChunk(data=items).blocksize == 0
    assert SChunk().blocksize == 0
    for name in ("chunksize", "nbytes", "nchunks", "urlpath", "mode"):
        with pytest.raises(AttributeError):
            setattr(schunk, name, 1)


def test_new_parameters_apply_to_new_chunks() -> None:
    schunk = SChunk(chunksize=64, data=bytes(range(64)), cparams={"typesize": 1})
    schunk.cparams = blosc2.CParams(codec=Codec.ZLIB, filters=[Filter.DELTA], clevel=9)
    assert (schunk.cparams.typesize, schunk.typesize, len(schunk)) == (8, 1, 64)
    data = b"abcdefgh" * 8
    schunk.append_data(data)
    check(schunk, [bytes(range(64)), data])
    assert schunk.get_chunk(1)[22] == Codec.ZLIB.value
    schunk.dparams = {"nthreads": 2}
    assert schunk.dparams.nthreads == 2
    with pytest.raises(TypeError):
        schunk.dparams = cast("Any", 5)


def test_the_width_of_numbers_that_new_chunks_are_filtered_by(tmp_path: Path) -> None:
    """It can be told from that of items, which is fixed."""
    urlpath = str(tmp_path / "s.b2frame")
    items = np.arange(100, dtype="<i4")
    schunk = SChunk(chunksize=400, data=items, urlpath=urlpath)
    for cparams, width in (
        ({"clevel": 9}, 4), ({"typesize": 2}, 2), (blosc2.CParams(), 8), (blosc2.CParams(typesize=1), 1),
    ):  # fmt: skip
        schunk.cparams = cparams
        schunk.append_data(items)
        assert (schunk.cparams.typesize, schunk.get_chunk(schunk.nchunks - 1)[3], schunk.typesize) == (width, width, 4)
    assert schunk[:] == items.tobytes() * 5
    # who opens a file and does not ask for a width gets that of the items
    for cparams, width in (({"clevel": 9}, 4), ({"typesize": 2}, 2), (blosc2.CParams(), 4)):
        assert blosc2.open(urlpath, mode="a", cparams=cparams).cparams.typesize == width
    array = blosc2.arange(10, dtype="i4")
    array.schunk.cparams = blosc2.CParams(clevel=1)
    assert (array.cparams.typesize, array.cparams.clevel) == (4, 1)


@pytest.mark.parametrize("contiguous", [True, False, None])
def test_contiguous_in_memory_is_what_was_asked_for(contiguous: bool | None) -> None:
    schunk = SChunk(chunksize=8, contiguous=contiguous, cparams={"typesize": 1})
    for _ in range(3):
        schunk.append_data(b"12345678")
        assert schunk.contiguous is bool(contiguous)
    assert blosc2.zeros(3, contiguous=contiguous).schunk.contiguous is bool(contiguous)
    assert schunk.copy(contiguous=contiguous).contiguous is bool(contiguous)
    again = blosc2.schunk_from_cframe(schunk.to_cframe())
    again.append_data(b"1")
    assert again.contiguous is True


@pytest.mark.parametrize("urlpath", [None, "s.b2frame"])
def test_data_is_compressed_in_threads_to_the_same_chunks(
    urlpath: str | None, tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("blosc2._options.threads.BATCH_NBYTES", 300_000)
    items = np.cumsum(rng.integers(-2, 3, 200_000)).astype("<i4")
    items[50_000:90_000] = 0
    frames = []
    for nthreads in (1, 3):
        path = None if urlpath is None else tmp_path / urlpath
        schunk = SChunk(chunksize=60_000, data=items, urlpath=path, mode="w", cparams={"nthreads": nthreads})
        assert schunk.nchunks == 14
        assert schunk[:] == items.tobytes()
        frames.append([schunk.get_chunk(n) for n in range(14)])
    assert frames[0] == frames[1]
