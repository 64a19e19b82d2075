"""Selections and geometry: where items lie, computed here by hand or by NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._core.codec.codec import Encoding
from blosc2._core.ndim.geometry import Geometry
from blosc2._core.ndim.grid_read import Read, read_basic_into
from blosc2._core.ndim.grid_write import Write
from blosc2.exceptions import FormatError

ENCODING = Encoding(5, 0, 0, False, 8, 0, 3, (0,) * 6, (0,) * 6)


def frame_and_geometry(items: np.ndarray[Any, Any], **keywords: Any) -> tuple[Any, Geometry]:
    array = blosc2.asarray(items, **keywords)._handle.array
    assert array is not None
    return array[2], array[0]


# --------------------------------------------------------------------- geometry


def test_the_example_of_the_format() -> None:
    """FORMATS 3.2: shape 100 x 64, chunks 60 x 40, blocks 16 x 16, f8."""
    g = Geometry((100, 64), (60, 40), (16, 16), 8)
    assert (g.ndim, g.itemsize, g.size, g.grid, g.nchunks) == (2, 8, 6400, (2, 2), 4)
    assert (g.chunk_nbytes, g.block_nbytes) == (24576, 2048)
    items = np.arange(6400, dtype="<f8").reshape(100, 64)
    frame, _ = frame_and_geometry(items, chunks=(60, 40), blocks=(16, 16))
    assert np.frombuffer(frame.decode_chunk(0), "<f8")[1297] == items[17, 33]
    assert np.frombuffer(frame.decode_chunk(3), "<f8")[170] == items[70, 50]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_items_lie_where_the_format_says(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), max_size=4)))
    chunks = tuple(data.draw(st.integers(1, n + 2)) for n in shape)
    blocks = tuple(data.draw(st.integers(1, c)) for c in chunks)
    items = np.arange(1, 1 + int(np.prod(shape)), dtype="<i8").reshape(shape)
    frame, g = frame_and_geometry(
        items, chunks=chunks, blocks=blocks, cparams={"clevel": data.draw(st.sampled_from([0, 5]))}
    )
    grid = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    inner = [-(-c // b) for c, b in zip(chunks, blocks, strict=True)]
    assert g.grid == tuple(grid)
    decoded = [np.frombuffer(frame.decode_chunk(n), "<i8") for n in range(g.nchunks)]
    padding = [np.ones(len(chunk), bool) for chunk in decoded]
    for index in itertools.product(*map(range, shape)):
        c = [i // n for i, n in zip(index, chunks, strict=True)]
        within = [i % n for i, n in zip(index, chunks, strict=True)]
        b = [i // n for i, n in zip(within, blocks, strict=True)]
        inside = [i % n for i, n in zip(within, blocks, strict=True)]
        nchunk = int(np.ravel_multi_index(c, grid)) if shape else 0
        nblock = int(np.ravel_multi_index(b, inner)) if shape else 0
        offset = int(np.ravel_multi_index(inside, blocks)) if shape else 0
        at = nblock * int(np.prod(blocks)) + offset
        assert decoded[nchunk][at] == items[index]
        padding[nchunk][at] = False
    for chunk, unused in zip(decoded, padding, strict=True):
        assert not chunk[unused].any()  # padding is written as zeros


@pytest.mark.parametrize(
    ("chunks", "blocks", "in_order"),
    [((4, 6), (4, 6), True), ((4, 6), (2, 6), True), ((4, 6), (1, 3), True), ((4, 6), (2, 3), False),
     ((5, 6), (2, 6), False), ((4, 6), (4, 3), False), ((6,), (2,), True), ((7,), (2,), False), ((), (), True),
     ((2, 4, 6), (1, 2, 6), True), ((2, 4, 6), (1, 2, 3), False), ((2, 4, 6), (2, 4, 6), True)],
)  # fmt: skip
def test_chunks_in_c_order(chunks: tuple[int, ...], blocks: tuple[int, ...], in_order: bool) -> None:
    assert Geometry(chunks, chunks, blocks, 4).is_in_order is in_order


@pytest.mark.parametrize(
    ("shape", "chunks", "blocks", "itemsize"),
    [
        ((-1,), (1,), (1,), 1),
        ((5,), (2,), (3,), 1),
        ((5,), (0,), (0,), 1),
        ((5,), (2,), (0,), 1),
        ((5,), (2, 2), (1, 1), 1),
        ((5, 5), (2, 2), (1,), 1),
        ((1,) * 17, (1,) * 17, (1,) * 17, 1),
        ((5,), (2,), (1,), 0),
        ((1 << 62, 4), (1, 1), (1, 1), 1),
        ((1 << 40,), (1 << 31 - 1,), (1 << 31 - 1,), 8),
        ((1 << 31,), ((1 << 31) - 1,), (2,), 1),
    ],
)
def test_geometries_that_are_refused(shape: Any, chunks: Any, blocks: Any, itemsize: int) -> None:
    with pytest.raises((ValueError, OverflowError)):
        Geometry(shape, chunks, blocks, itemsize)


def test_the_metalayer() -> None:
    g = Geometry((3, 4), (2, 4), (1, 4), 4)
    packed = g.metalayer("<i4")
    assert len(packed) == 12 + 19 * 2 + 3
    assert packed == (
        b"\x97\0\2" + b"\x92\xd3" + bytes(7) + b"\3\xd3" + bytes(7) + b"\4" + b"\x92\xd2\0\0\0\2\xd2\0\0\0\4"
        b"\x92\xd2\0\0\0\1\xd2\0\0\0\4" + b"\0\xdb\0\0\0\3<i4"
    )  # fmt: skip
    # with 16 axes the marker runs over (FORMATS 3.1)
    assert Geometry((1,) * 16, (1,) * 16, (1,) * 16, 1).metalayer("|u1")[2:4] == b"\x10\xa0"
    with_16 = blosc2.asarray(np.arange(4).reshape((1,) * 14 + (2, 2)))
    np.testing.assert_array_equal(
        blosc2.from_cframe(with_16.to_cframe())[...], np.arange(4).reshape((1,) * 14 + (2, 2))
    )


def test_metalayers_that_are_refused() -> None:
    good = blosc2.asarray(np.arange(10, dtype="<i4"), chunks=(4,), blocks=(2,)).to_cframe()
    assert blosc2.ndarray_from_cframe(good).shape == (10,)
    for at, value, text in (
        (112, b"\x95", "metadata"),
        (113, b"\1", "version 1"),
        (114, b"\x11", "17 dimensions"),
        (114, b"\2", "2 dimensions"),
        (115, b"\x92", "array of 1 values"),
        (116, b"\xd2", "marker"),
        (117, b"\x80", "negative"),
        (124, b"\x0d", "4 chunks"),
        (126, b"\xd3", "marker"),
        (130, b"\3", "chunks of 16 bytes|chunk"),
        (130, b"\0", "block of 2"),
        (136, b"\5", "block of 5"),
        (137, b"\1", "dtype"),
        (138, b"\xda", "dtype"),
        (142, b"\4", "bytes is announced|announced"),
        (143, b"x", "dtype"),
        (145, b"8", "items of 8"),
        (144, b"\xff", "UTF-8"),
    ):
        data = bytearray(good)
        data[at : at + len(value)] = value
        with pytest.raises(FormatError, match=text) as caught:
            blosc2.ndarray_from_cframe(bytes(data))
        assert caught.value.offset == 112


# --------------------------------------------------------------------- operations


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_boxes_with_steps(data: Any) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    blocks = tuple(data.draw(st.integers(1, c)) for c in chunks)
    items = np.random.default_rng(1).integers(0, 1 << 40, shape)
    frame, g = frame_and_geometry(items, chunks=chunks, blocks=blocks)
    start = tuple(data.draw(st.integers(0, n - 1)) for n in shape)
    step = tuple(data.draw(st.integers(1, n)) for n in shape)
    count = tuple(data.draw(st.integers(0, -(-(n - a) // s))) for n, a, s in zip(shape, start, step, strict=True))
    box = tuple(slice(a, a + s * k, s) for a, s, k in zip(start, step, count, strict=True))
    out = np.full(count, -1)
    read = Read(frame, g, start, step, count, out)
    read.run(data.draw(st.integers(1, 9)))
    read.finish()
    np.testing.assert_array_equal(out, items[box])
    new = np.random.default_rng(2).integers(0, 1 << 40, count)
    write = Write(frame, g, start, step, count, new, ENCODING)
    write.run(data.draw(st.integers(1, 3)))
    write.finish()
    changed = items.copy()
    changed[box] = new
    touched = {
        int(np.ravel_multi_index([i // c for i, c in zip(index, chunks, strict=True)], g.grid))
        for index in itertools.product(*(range(*s.indices(n)) for s, n in zip(box, shape, strict=True)))
    }
    assert set(write.chunks) == touched
    array = blosc2.asarray(items, chunks=chunks, blocks=blocks)
    for nchunk, stored in write.take_chunks().items():
        assert isinstance(stored, bytes)
        array.schunk.update_chunk(nchunk, stored)
    np.testing.assert_array_equal(array[...], changed)
    assert write.chunks == {}


@pytest.mark.parametrize(
    ("start", "step", "count"),
    [((-1,), (1,), (1,)), ((0,), (1,), (11,)), ((9,), (1,), (2,)), ((0,), (0,), (1,)), ((0,), (5,), (3,)),
     ((0,), (1,), (-1,)), ((10,), (1,), (1,)), ((0,), (-1,), (2,))],
)  # fmt: skip
def test_selections_outside_are_refused(start: Any, step: Any, count: Any) -> None:
    frame, g = frame_and_geometry(np.arange(10))
    with pytest.raises((IndexError, ValueError)):
        Read(frame, g, start, step, count, np.zeros(max(count[0], 0), int))
    with pytest.raises((IndexError, ValueError)):
        Write(frame, g, start, step, count, np.zeros(max(count[0], 0), int), ENCODING)


def test_results_and_sources_that_do_not_fit() -> None:
    frame, g = frame_and_geometry(np.arange(10))
    readonly = np.zeros(4, int)
    readonly.flags.writeable = False
    for out in (np.zeros(5, int), np.zeros(4, "i4"), np.zeros((4, 2), int)[:, ::2], readonly):
        with pytest.raises(ValueError):
            Read(frame, g, (0,), (1,), (4,), out)
    for source in (np.zeros(5, int), np.zeros(4, "i4"), np.zeros((4, 1), int)):
        with pytest.raises(ValueError):
            Write(frame, g, (0,), (1,), (4,), source, ENCODING)
    # a result with the axes of the array may have any strides
    out = np.zeros(8, int)
    read = Read(frame, g, (3,), (2,), (3 + 1,), out[::-2])
    read.run()
    assert out.tolist() == [0, 9, 0, 7, 0, 5, 0, 3]
    # or other axes than the array, as integers and new axes ask for
    out = np.zeros((2, 2), int)
    read = Read(frame, g, (3,), (2,), (3 + 1,), out)
    read.run()
    assert out.tolist() == [[3, 5], [7, 9]]


def test_tasks_limits_and_pieces() -> None:
    items = np.arange(100)
    frame, g = frame_and_geometry(items, chunks=(10,), blocks=(2,))
    out = np.zeros(50, int)
    read = Read(frame, g, (25,), (1,), (50,), out)
    assert read.tasks == 6
    read.limit(0, 2)
    read.run()
    np.testing.assert_array_equal(out, np.where(np.arange(50) < 15, items[25:75], 0))
    read.limit(2, 100)
    read.run()
    np.testing.assert_array_equal(out, items[25:75])
    one = Read(frame, g, (0,), (1,), (10,), np.zeros(10, int))
    one.run(4)
    assert one.tasks == 5  # no more than blocks
    full = Read(frame, g, (0,), (1,), (100,), np.zeros(100, int))
    full.run(2)
    assert full.tasks == 10  # chunks enough for two
    nothing = Read(frame, g, (0,), (1,), (0,), np.zeros(0, int))
    nothing.run(4)
    nothing.finish()
    assert nothing.tasks == 0


def test_broadcast_and_reversed_sources() -> None:
    _, g = frame_and_geometry(np.zeros((6, 5), int), chunks=(4, 3), blocks=(2, 2))
    row = np.arange(5)
    for source in (
        np.broadcast_to(row, (6, 5)),
        np.arange(30).reshape(6, 5)[::-1, ::-1],
        np.arange(30).reshape(5, 6).T,
    ):
        write = Write(None, g, (0, 0), (1, 1), (6, 5), source, ENCODING)
        write.run()
        write.finish()
        array = blosc2.zeros((6, 5), dtype=int, chunks=(4, 3), blocks=(2, 2))
        for nchunk, stored in write.take_chunks().items():
            assert isinstance(stored, bytes)
            array.schunk.update_chunk(nchunk, stored)
        np.testing.assert_array_equal(array[...], source)


def test_whole_arrays() -> None:
    for shape in ((), (0, 3), (5,), (4, 6, 3)):
        items = np.arange(int(np.prod(shape))).reshape(shape)
        frame, g = frame_and_geometry(items)
        got = read_basic_into((g, items.dtype, frame), ..., 1, None)
        assert got is not None
        np.testing.assert_array_equal(got, items)
        assert got.flags.owndata
        for wrong in ((g, np.dtype("i1"), frame), (g, None, frame), (None, items.dtype, frame), (g, items.dtype, None)):
            with pytest.raises((TypeError, ValueError)):
                read_basic_into(wrong, ..., 1, None)  # type: ignore[arg-type]


def test_an_error_of_one_chunk_names_it() -> None:
    items = np.random.default_rng(3).integers(0, 1 << 60, 4000)
    data = bytearray(blosc2.asarray(items, chunks=(1000,), blocks=(1000,)).to_cframe())
    frame: Any = blosc2.ndarray_from_cframe(bytes(data))._handle.frame
    at = frame.chunk_info(2)[0]
    data[at + 2] = 2
    broken = blosc2.ndarray_from_cframe(bytes(data))
    np.testing.assert_array_equal(broken[:2000], items[:2000])
    with pytest.raises(FormatError, match="chunk 2") as caught:
        broken[:]
    assert caught.value.offset == at
    with pytest.raises(FormatError, match="chunk 2"):
        broken[2000:2001] = 1
    broken[3000:] = 1
    np.testing.assert_array_equal(broken[3000:], np.ones(1000))


def test_rows_of_any_length_are_copied() -> None:
    """Short rows are copied by their length, each in a way of its own."""
    items = np.random.default_rng(3).integers(0, 256, (6, 5, 300), np.uint8)
    for length in range(1, 150):
        # Blocks of `length` bytes a row, which are read whole, and of which a part is read and written.
        array = blosc2.asarray(items, chunks=(6, 5, 300), blocks=(3, 5, length), cparams={"clevel": 1, "filters": []})
        np.testing.assert_array_equal(array[...], items)
        np.testing.assert_array_equal(array[1:5, 1:4, 1:299], items[1:5, 1:4, 1:299])
        array[1:5, 2:4, 3:298] = items[1:5, 2:4, 3:298] ^ 255
        changed = items.copy()
        changed[1:5, 2:4, 3:298] ^= 255
        np.testing.assert_array_equal(array[...], changed)
