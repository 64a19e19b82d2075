"""Super-chunks against plain bytes: slices, chunks of every kind, and every change, in memory and in files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from fixture_kit import cases
from fixture_kit.schunks import check
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, SChunk, SpecialValue

SOURCES: tuple[str | None, ...] = (None, "r")


pytestmark = pytest.mark.usefixtures("no_sync")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("schunks") / "schunk.b2frame")


@pytest.fixture
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def noise(seed: int, size: int) -> bytes:
    """Bytes that compress a little."""
    rng = np.random.default_rng(seed)
    return (rng.integers(0, 40, size) * rng.integers(0, 2, size)).astype(np.uint8).tobytes()


# --------------------------------------------------------------------- slices


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
        index = number % (count + 1)
        if what == "append":
            assert [s.append_data(data) for s in schunks] == [count + 1] * len(schunks)
            self.chunks.append(data)
        elif what == "insert":
            for s in schunks:
                s.insert_data(index, data)
            self.chunks.insert(index, data)
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
        index = number % len(self.chunks)
        if what == "delete":
            for s in schunks:
                s.delete_chunk(index)
            del self.chunks[index]
        elif what == "update":
            for s in schunks:
                s.update_data(index, data)
            self.chunks[index] = data
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
    schunks = [
        SChunk(**keywords), SChunk(**keywords, urlpath=path, mode="w"),
        SChunk(**keywords, urlpath=f"{path}.d", contiguous=False, mode="w"),
    ]  # fmt: skip
    model = Model(chunksize)
    for step in steps:
        before, old = blosc2.open(path), [*model.chunks]
        model.step(*step, schunks)
        opened = [blosc2.open(f"{path}.d"), *(blosc2.open(path, mmap_mode=mmap_mode) for mmap_mode in SOURCES)]
        for schunk in (*schunks, *opened):
            check(schunk, model.chunks)
            assert dict(schunk.vlmeta) == model.entries
        check(before, old)  # who opened it before sees what was there then
        stored = sum(opened[0]._handle.frame.chunk_info(n)[0] is not None for n in range(opened[0].nchunks))
        assert len(os.listdir(f"{path}.d")) == stored + 1  # the files of the current version, and the header
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


@pytest.mark.parametrize("how", [{}, {"urlpath": "x"}, {"urlpath": "x", "contiguous": False}], ids=str)
def test_a_short_chunk_instead_of_the_only_full_one(how: dict[str, Any], in_tmp_path: None) -> None:
    """Sizes differ from what they were, though they are equal: chunks of any size come after them."""
    schunk = SChunk(chunksize=8, cparams={"typesize": 1}, **how)
    for data in (b"01234567", b"89"):
        schunk.append_data(data)
    schunk.update_data(0, b"ab")
    assert schunk.chunksize == 0
    schunk.append_data(b"cdefg")
    check(schunk, [b"ab", b"89", b"cdefg"])


@pytest.mark.parametrize(("start", "stop", "data", "kind", "text"), [
    (0, 5, b"123", ValueError, "Not enough data"), (0, 2, b"123", ValueError, "do not fit"),
    (99, None, b"1", ValueError, "`start` cannot be greater"), (0, 1, "text", TypeError, "bytes-like"),
])  # fmt: skip
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
