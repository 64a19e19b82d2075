"""Super-chunks against plain bytes: slices, chunks of every kind, and every change, in memory and in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fixture_kit import cases, manifest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter, SChunk, SpecialValue

SOURCES: tuple[str | None, ...] = (None, "r")


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is synced: these tests write thousands of small files, and others see to durability."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("schunks") / "schunk.b2frame")


def noise(seed: int, size: int) -> bytes:
    """Bytes that compress a little."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 40, size) * rng.integers(0, 2, size)).astype(np.uint8).tobytes()


def check(schunk: SChunk, chunks: list[bytes]) -> None:
    """The super-chunk holds these chunks, by every way to read them."""
    whole = b"".join(chunks)
    assert schunk.nchunks == len(chunks)
    assert schunk.nbytes == len(whole)
    assert len(schunk) == len(whole) // schunk.typesize
    assert [schunk.decompress_chunk(n) for n in range(len(chunks))] == chunks
    assert schunk[:] == whole[: len(schunk) * schunk.typesize]
    assert [info.nchunk for info in schunk.iterchunks_info()] == list(range(len(chunks)))


# --------------------------------------------------------------------- slices

KINDS = [
    {"codec": Codec.BLOSCLZ}, {"codec": Codec.LZ4, "filters": [Filter.NOFILTER]}, {"codec": Codec.ZSTD},
    {"codec": Codec.ZLIB, "filters": [Filter.BITSHUFFLE]}, {"clevel": 0}, {"codec": Codec.ZSTD, "use_dict": True},
    {"codec": Codec.LZ4, "use_dict": True}, {"filters": [Filter.DELTA]},
]  # fmt: skip


@pytest.mark.parametrize("cparams", KINDS, ids=str)
@pytest.mark.parametrize("typesize", [1, 4])
def test_slices_as_long_as_a_block_from_any_start(
    cparams: dict[str, Any], typesize: int, path: str, source: str | None
) -> None:
    """A slice of exactly a block's length that starts inside one is where the C library reads wrong data."""
    block, data = 64, noise(3, 4 * 230)
    SChunk(chunksize=4 * block + 16, data=data, urlpath=path, mode="w",
           cparams={**cparams, "typesize": typesize, "blocksize": block})  # fmt: skip
    schunk = blosc2.open(path, mmap_mode=source)
    for length in range(block // typesize - 2, block // typesize + 3):
        for start in range(len(schunk) - length):
            assert schunk[start : start + length] == data[start * typesize : (start + length) * typesize]


@settings(max_examples=150, deadline=None)
@given(
    size=st.integers(0, 500),
    typesize=st.sampled_from([1, 2, 4, 7]),
    chunk=st.integers(1, 60),
    blocks=st.integers(0, 90),
    seed=st.integers(0, 999),
    cut=st.tuples(st.integers(-600, 600), st.integers(-600, 600)),
    data=st.data(),
)
def test_any_slice(
    size: int, typesize: int, chunk: int, blocks: int, seed: int, cut: tuple[int, int], data: Any, path: str
) -> None:
    content = noise(seed, size * typesize + data.draw(st.integers(0, typesize - 1)))
    blocksize = data.draw(st.sampled_from([blocks, blocks * typesize]))
    chunksize = data.draw(st.sampled_from([chunk, chunk * typesize]))
    cparams = {**data.draw(cases.cparams(typesize)), "typesize": typesize, "blocksize": blocksize}
    SChunk(chunksize=chunksize, data=content, urlpath=path, mode="w", cparams=cparams)
    start, stop = cut
    items = [content[i : i + typesize] for i in range(0, size * typesize, typesize)]
    for mmap_mode in SOURCES:
        schunk = blosc2.open(path, mmap_mode=mmap_mode)
        check(schunk, [content[i : i + chunksize] for i in range(0, len(content), chunksize)])
        want = b"".join(items[start:stop])
        assert schunk[start:stop] == schunk.get_slice(start, stop) == want
        out = np.zeros(len(want) + 3, np.uint8)
        assert schunk.get_slice(start, stop, out) is None
        assert out.tobytes() == want + bytes(3)
        if -size <= start < size:
            assert schunk[start] == items[start]


def test_keys() -> None:
    schunk = SChunk(data=b"abcdef", chunksize=4, cparams={"typesize": 2})
    assert (schunk[0], schunk[-1], schunk[5:], schunk[2:1], schunk[-100:100]) == (b"ab", b"ef", b"", b"", b"abcdef")
    with pytest.raises(IndexError, match="`step` must be 1"):
        schunk[::2]
    for index in (3, -4):
        with pytest.raises(IndexError):
            schunk[index]
    assert list(schunk) == [b"ab", b"cd", b"ef"]
    assert b"cd" in list(iter(schunk))
    with pytest.raises(TypeError):
        schunk["a"]
    with pytest.raises(TypeError):
        blosc2.asarray(schunk)


def test_get_slice_into_a_buffer() -> None:
    items = np.arange(20, dtype="i4")
    schunk = SChunk(data=items, chunksize=32)
    out = np.zeros((2, 5), "i4")
    schunk.get_slice(3, 13, out)
    np.testing.assert_array_equal(out.ravel(), items[3:13])
    with pytest.raises(ValueError, match="Not enough space"):
        schunk.get_slice(0, 11, out)
    with pytest.raises(ValueError, match="writable"):
        schunk.get_slice(0, 2, b"12345678")
    with pytest.raises(ValueError):
        schunk.get_slice(0, 2, np.zeros((4, 4), "i4")[:, ::2])


# --------------------------------------------------------------------- changes

STEP = st.tuples(
    st.sampled_from(["append", "insert", "update", "delete", "special", "slice", "reorder", "chunk", "vlmeta"]),
    st.integers(0, 1000), st.integers(1, 16), st.booleans(),
)  # fmt: skip


class Model:
    """A list of chunks that is changed as the super-chunks are."""

    def __init__(self, chunksize: int) -> None:
        self.chunks: list[bytes] = []
        self.chunksize = chunksize
        self.entries: dict[str, int] = {}

    def step(self, what: str, number: int, size: int, full: bool, schunks: list[SChunk]) -> None:
        data = noise(number, self.chunksize if full else 4 * size)
        if schunks[0].chunksize:
            data = data[: schunks[0].chunksize]
        count = len(self.chunks)
        place = number % (count + 1)
        if what == "append":
            assert [s.append_data(data) for s in schunks] == [count + 1] * len(schunks)
            self.chunks.append(data)
        elif what == "insert":
            for s in schunks:
                s.insert_data(place, data)
            self.chunks.insert(place, data)
        elif what == "chunk":
            stored = SChunk(data=data, cparams={"typesize": 4, "codec": Codec.LZ4}).get_chunk(0)
            for s in schunks:
                s.append_chunk(stored)
            self.chunks.append(data)
        elif what == "special":
            kind = [SpecialValue.ZERO, SpecialValue.NAN, SpecialValue.UNINIT, SpecialValue.VALUE][number % 4]
            item = {SpecialValue.NAN: np.full(1, np.nan, "f4").tobytes(), SpecialValue.VALUE: b"abcd"}.get(
                kind, bytes(4)
            )
            pieces = [schunks[0].chunksize // 4] if schunks[0].chunksize else []
            pieces = pieces * (size // pieces[0]) + [size % pieces[0]] if pieces else [size]
            for s in schunks:
                s.fill_special(size, kind, b"abcd")
            self.chunks += [item * n for n in pieces if n]
        elif what == "vlmeta":
            for s in schunks:
                s.vlmeta["v"] = number
            self.entries["v"] = number
        elif count:
            self.change(what, number, data, schunks)

    def change(self, what: str, number: int, data: bytes, schunks: list[SChunk]) -> None:
        place = number % len(self.chunks)
        if what == "delete":
            for s in schunks:
                s.delete_chunk(place)
            del self.chunks[place]
        elif what == "update":
            for s in schunks:
                s.update_data(place, data)
            self.chunks[place] = data
        elif what == "reorder":
            order = np.random.default_rng(number).permutation(len(self.chunks))
            for s in schunks:
                s.reorder_offsets(order)
            self.chunks = [self.chunks[n] for n in order]
        else:
            whole = b"".join(self.chunks)
            start = number % (len(whole) // 4)
            stop = min(start + len(data) // 4, len(whole) // 4)
            for s in schunks:
                s[start:stop] = data[: 4 * (stop - start)]
            whole = whole[: 4 * start] + data[: 4 * (stop - start)] + whole[4 * stop :]
            sizes = [len(chunk) for chunk in self.chunks]
            self.chunks = [whole[sum(sizes[:n]) : sum(sizes[: n + 1])] for n in range(len(sizes))]


@settings(max_examples=250, deadline=None)
@given(steps=st.lists(STEP, max_size=12), blocksize=st.sampled_from([0, 8, 20]), clevel=st.sampled_from([0, 5]))
def test_changes_are_those_of_a_list_of_chunks(
    steps: list[tuple[str, int, int, bool]], blocksize: int, clevel: int, path: str
) -> None:
    chunksize = 40
    keywords: dict[str, Any] = {
        "chunksize": chunksize, "cparams": {"typesize": 4, "blocksize": blocksize, "clevel": clevel},
    }  # fmt: skip
    schunks = [SChunk(**keywords), SChunk(**keywords, urlpath=path, mode="w")]
    model = Model(chunksize)
    for step in steps:
        before, old = blosc2.open(path), [*model.chunks]
        model.step(*step, schunks)
        for schunk in (*schunks, *(blosc2.open(path, mmap_mode=mmap_mode) for mmap_mode in SOURCES)):
            check(schunk, model.chunks)
            assert dict(schunk.vlmeta) == model.entries
        check(before, old)  # who opened it before sees what was there then
    check(blosc2.from_cframe(schunks[0].to_cframe()), model.chunks)
    check(schunks[1].copy(), model.chunks)


def test_set_slice_and_growth(path: str) -> None:
    for keywords in ({}, {"urlpath": path, "mode": "w"}):
        schunk = SChunk(chunksize=16, data=b"0123456789", cparams={"typesize": 1}, **keywords)
        schunk[3:5] = b"ab"
        assert schunk[:] == b"012ab56789"
        schunk.set_slice(b"XYZ" * 10, start=8)
        check(schunk, [b"012ab567XYZXYZXY", b"ZXYZXYZXYZXYZXYZ", b"XYZXYZ"])
        schunk.set_slice(b"!", -1, None)
        schunk[:1] = b"?"
        assert schunk[:] == b"?12ab567" + b"XYZ" * 9 + b"XY!"
        schunk.set_slice(b"end", start=len(schunk), stop=len(schunk) + 3)
        assert schunk[-4:] == b"!end"


@pytest.mark.parametrize(
    ("start", "stop", "data", "kind", "text"),
    [
        (0, 5, b"123", ValueError, "Not enough data"), (0, 2, b"123", ValueError, "do not fit"),
        (99, None, b"1", ValueError, "`start` cannot be greater"), (0, 1, "text", TypeError, "bytes-like"),
    ],
)  # fmt: skip
def test_slices_that_cannot_be_set(start: int, stop: int | None, data: Any, kind: type[Exception], text: str) -> None:
    schunk = SChunk(chunksize=16, data=b"0123456789", cparams={"typesize": 1})
    with pytest.raises(kind, match=text):
        schunk.set_slice(data, start, stop)
    with pytest.raises(IndexError, match="`step` must be 1"):
        schunk[::2] = b"01234"
    with pytest.raises(TypeError):
        schunk[0] = b"0"
    assert schunk[:] == b"0123456789"


def test_chunks_that_are_refused(tmp_path: Path) -> None:
    urlpath = tmp_path / "s.b2frame"
    schunk = SChunk(chunksize=16, data=b"0123456789abcdef0123", urlpath=str(urlpath), cparams={"typesize": 1})
    before, wrong = urlpath.read_bytes(), cast("Any", 1)
    batch = next(p for p in sorted((Path(__file__).parents[1] / "data" / "fixtures" / "objects").glob("*batch*"))
                 if blosc2.open(str(p)).schunk.nchunks)  # fmt: skip
    variable = blosc2.open(str(batch)).schunk.get_chunk(0)
    empty = bytes([5, 1, 5, 1]) + bytes(8) + (32).to_bytes(4, "little") + bytes(15) + b"\x10"
    old = bytes([2, 1, 1, 1]) + (4).to_bytes(4, "little") * 2 + (20).to_bytes(4, "little") + b"0123" + bytes(12)
    for make, kind, text in (
        (lambda: schunk.append_data(bytes(17)), RuntimeError, "Could not append"),
        (lambda: schunk.append_data(b""), RuntimeError, "cannot be empty"),
        (lambda: schunk.update_data(0, b""), ValueError, "cannot be empty"),
        (lambda: schunk.insert_data(5, b"1"), RuntimeError, "Could not insert the desired chunk"),
        (lambda: schunk.insert_data(-1, b"1"), IndexError, "Could not insert the desired chunk"),
        (lambda: schunk.update_data(2, b"1"), RuntimeError, "Could not update the desired chunk"),
        (lambda: schunk.delete_chunk(2), RuntimeError, "Could not delete the desired chunk"),
        (lambda: schunk.delete_chunk(-1), RuntimeError, "Could not delete the desired chunk"),
        (lambda: schunk.append_chunk(b"short"), ValueError, "at least 32 bytes"),
        (lambda: schunk.update_chunk(0, bytes(20)), RuntimeError, "at least 32 bytes"),
        (lambda: schunk.append_chunk(bytes(40)), blosc2.FormatError, "16-byte header"),
        (lambda: schunk.append_chunk(old), blosc2.FormatError, "16-byte header"),
        (lambda: schunk.append_chunk(empty), ValueError, "cannot be empty"),
        (lambda: schunk.append_chunk(variable), NotImplementedError, "variable length"),
        (lambda: schunk.append_chunk(schunk.get_chunk(0) + b"more"), blosc2.FormatError, "stored size"),
        (lambda: schunk.reorder_offsets([0]), ValueError, "one for each chunk"),
        (lambda: schunk.reorder_offsets([0.0, 1.0]), ValueError, "integers"),
        (lambda: schunk.reorder_offsets([1, 1]), RuntimeError, "exactly once"),
        (lambda: schunk.fill_special(4, wrong), TypeError, "SpecialValue"),
        (lambda: schunk.fill_special(-1, SpecialValue.ZERO), IndexError, "negative"),
        (lambda: schunk.fill_special(4, SpecialValue.NAN), ValueError, "NaN"),
        (lambda: schunk.fill_special(4, SpecialValue.VALUE), ValueError, "needs a value"),
        (lambda: schunk.fill_special(4, SpecialValue.VALUE, b"12"), ValueError, "2 bytes"),
        (lambda: schunk.fill_special(4, SpecialValue.NOT_SPECIAL), TypeError, "NOT_SPECIAL"),
        (lambda: schunk.update_special(7, SpecialValue.ZERO), RuntimeError, "Could not update"),
        (lambda: schunk.get_chunk(2), RuntimeError, "Error while getting the chunk"),
        (lambda: schunk.decompress_chunk(-1), RuntimeError, "Error while getting the chunk"),
        (lambda: schunk.decompress_chunk(0, bytearray(15)), RuntimeError, "15 bytes"),
        (lambda: schunk.get_vlblock(0, 0), ValueError, "variable length"),
    ):
        with pytest.raises(kind, match=text):
            make()
        assert urlpath.read_bytes() == before, text
    check(blosc2.open(str(urlpath)), [b"0123456789abcdef", b"0123"])


def test_chunks_and_their_descriptions() -> None:
    schunk = SChunk(chunksize=400, cparams={"typesize": 4})
    items = np.arange(100, dtype="<i4")
    schunk.append_data(items)
    for special, value in ((SpecialValue.ZERO, None), (SpecialValue.VALUE, 7), (SpecialValue.VALUE, 2.5)):
        schunk.fill_special(100, special, value)
    schunk.append_data(items[:3])
    infos = list(schunk.iterchunks_info())
    assert [info.special.name for info in infos] == ["NOT_SPECIAL", "ZERO", "VALUE", "VALUE", "NOT_SPECIAL"]
    assert [info.repeated_value for info in infos[1:4]] == [None, b"\7\0\0\0", np.float32(2.5).tobytes()]
    assert infos[2].cratio == pytest.approx(400 / 36)
    assert infos[0].lazychunk == schunk.get_lazychunk(0) == schunk.get_chunk(0)[:32]
    for got, want in zip(
        schunk.iterchunks("<i4"), [items, items * 0, items * 0 + 7, np.full(100, 2.5, "<f4").view("<i4"), items[:3]],
        strict=True,
    ):  # fmt: skip
        np.testing.assert_array_equal(got, want)
        assert got.flags.writeable
    dst = bytearray(404)
    assert schunk.decompress_chunk(0, dst) is None
    assert dst == items.tobytes() + bytes(4)
    schunk.update_special(0, SpecialValue.NAN)
    assert np.isnan(np.frombuffer(schunk[:100], "<f4")).all()
    # a zeros chunk that only the table knows gets the header of FORMATS 2.1
    stored = schunk.get_chunk(1)
    assert len(stored) == 32
    assert (stored[2] & 5, stored[3], stored[4:8], stored[31]) == (5, 4, (400).to_bytes(4, "little"), 0x10)


# --------------------------------------------------------------------- construction, attributes


def test_construction(tmp_path: Path) -> None:
    assert (SChunk().chunksize, SChunk().nchunks, len(SChunk()), SChunk()[:]) == (16 << 20, 0, 0, b"")
    items = np.arange(10, dtype="<f8")
    assert (SChunk(data=items).typesize, SChunk(data=items).chunksize) == (8, 80)
    assert SChunk(data=items, cparams={"typesize": 2}).typesize == 2
    assert SChunk(data=items, cparams=blosc2.CParams(typesize=4)).typesize == 4
    assert SChunk(data=b"abc").typesize == 1
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
        ({"chunkshape": 3}, ValueError, "not supported as keyword"), ({"chunksize": 0}, ValueError, "chunksize"),
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


def test_a_mapping_decides_over_the_mode(tmp_path: Path) -> None:
    urlpath = str(tmp_path / "s.b2frame")
    none = cast("Any", None)
    assert SChunk(data=b"abc", urlpath=urlpath, mode=none, mmap_mode="w+").mode == "a"
    assert SChunk(urlpath=urlpath, mode=none, mmap_mode="r").mode == "r"
    assert blosc2.open(urlpath, none, mmap_mode="r")[:] == b"abc"
    for make in (lambda: SChunk(mode=none), lambda: blosc2.open(urlpath, none)):
        with pytest.raises(ValueError, match="mode must be"):
            make()


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
    monkeypatch.setattr("blosc2._options.parallel.BATCH_NBYTES", 300_000)
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


def test_reading_into_buffers_of_any_kind() -> None:
    items = np.array(["2020-01-01", "2021-02-03", "NaT"], "M8[s]")
    schunk = SChunk(data=items, chunksize=16)
    out = np.empty((3, 1), "M8[s]")
    schunk.get_slice(out=out)
    np.testing.assert_array_equal(out[:, 0], items)
    schunk.decompress_chunk(0, out[:2])
    assert schunk.get_slice(2, 2, np.empty(0)) is None
    assert schunk.get_slice(2, 2, bytearray()) is None
    with pytest.raises(ValueError, match="Not enough space"):
        schunk.get_slice(0, 1, np.empty((0, 4)))
    with pytest.raises(TypeError, match="writable buffer, not int"):
        schunk.get_slice(0, 1, 5)
    for refused in (np.empty((4, 4))[:, ::2], np.frombuffer(bytes(32), "u1"), memoryview(bytes(32))):
        with pytest.raises(ValueError, match="writable and C-contiguous"):
            schunk.decompress_chunk(0, refused)


def test_two_handles_and_refresh(tmp_path: Path) -> None:
    urlpath = str(tmp_path / "s.b2frame")
    one = SChunk(chunksize=8, data=b"01234567", urlpath=urlpath, cparams={"typesize": 1})
    two = blosc2.open(urlpath, mode="a")
    one.append_data(b"89")
    assert two[:] == b"01234567"
    with pytest.raises(ValueError, match="refresh"):
        two.append_data(b"xx")
    assert blosc2.open(urlpath)[:] == b"0123456789"
    assert two.refresh() is True
    assert two.refresh() is False
    two.append_data(b"xx")
    check(two, [b"01234567", b"89", b"xx"])
    one.refresh()
    check(one, [b"01234567", b"89", b"xx"])


def test_headers_that_leave_the_chunk_size_to_the_first_chunk(tmp_path: Path) -> None:
    urlpath = tmp_path / "s.b2frame"
    SChunk(chunksize=8, urlpath=str(urlpath), cparams={"typesize": 1})
    data = bytearray(urlpath.read_bytes())
    data[58:62] = b"\xff" * 4
    data[86] = 0  # as others write it
    urlpath.write_bytes(data)
    schunk = blosc2.open(str(urlpath), mode="a")
    schunk.append_data(b"123456")
    schunk.append_data(b"12")
    assert schunk.chunksize == 6
    check(blosc2.open(str(urlpath)), [b"123456", b"12"])


def test_blocks_of_variable_length_are_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "batches.b2b"
    path.write_bytes((manifest.ROOT / "objects" / "batch_varied.b2b").read_bytes())
    before = path.read_bytes()
    with pytest.raises(NotImplementedError, match="variable length"):
        blosc2.open(str(path), mode="a").schunk.set_slice(b"ZZZZ", 0, 4)
    assert path.read_bytes() == before


def test_what_is_no_bytes_is_refused(tmp_path: Path) -> None:
    objects = np.array([{}, []], dtype=object)
    path = tmp_path / "new.b2frame"
    with pytest.raises(TypeError, match="pointers"):
        SChunk(data=objects, urlpath=path)
    for codec in ({"codec": Codec.NDLZ, "filters": []}, {"filters": [blosc2.Filter.NDCELL], "filters_meta": [4]}):
        with pytest.raises(ValueError, match="blocks of arrays"):
            SChunk(urlpath=path, cparams=codec)
    assert not path.exists()
    schunk = SChunk(chunksize=16, data=bytes(32))
    for change in (
        lambda: schunk.append_data(objects), lambda: schunk.insert_data(0, objects),
        lambda: schunk.update_data(0, objects), lambda: schunk.set_slice(objects),
    ):  # fmt: skip
        with pytest.raises(TypeError, match="pointers"):
            change()
    assert schunk[:] == bytes(32)


def test_chunks_larger_than_the_others_are_refused() -> None:
    schunk = SChunk(chunksize=80, data=np.arange(20))
    large, small = (blosc2.compress2(np.arange(n), typesize=8) for n in (11, 9))
    for change in (
        lambda: schunk.append_chunk(large),
        lambda: schunk.insert_chunk(0, large),
        lambda: schunk.update_chunk(0, large),
    ):
        with pytest.raises(RuntimeError, match="88 bytes"):
            change()
    assert (schunk.chunksize, schunk.nchunks) == (80, 2)
    assert schunk[:] == np.arange(20).tobytes()
    assert schunk.append_chunk(small) == 3
    assert schunk[:] == np.r_[0:20, 0:9].tobytes()
