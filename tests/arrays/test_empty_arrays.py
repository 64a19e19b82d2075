"""Arrays without items, as constructors and `resize` make them and as a file may claim them to be."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import numpy as np
import pytest

import blosc2
from blosc2._core.ndim.geometry import Geometry
from blosc2.exceptions import FormatError

Shape = tuple[int, ...]


def stating(frame: bytes, chunks: Shape, blocks: Shape) -> bytes:
    """A frame of an array of two axes, with these chunks and blocks in its metadata."""
    data = bytearray(frame)
    at = data.index(b"\x97\x00\x02\x92\xd3") + 4 + 2 * 9
    for lengths in (chunks, blocks):
        assert data[at] == 0x92
        for axis, length in enumerate(lengths):
            data[at + 2 + 5 * axis : at + 6 + 5 * axis] = length.to_bytes(4, "big", signed=True)
        at += 11
    return bytes(data)


LEGAL: list[tuple[Shape, Shape, Shape]] = [
    ((5, 0), (5, 0), (5, 0)), ((0, 0), (0, 0), (0, 0)), ((0, 7), (3, 2), (2, 1)), ((5, 0), (0, 0), (0, 0)),
    ((5, 0), (0, 4), (0, 4)), ((0, 5), (1, 0), (1, 0)), ((0, 2), (9, 9), (1, 1)),
]  # fmt: skip
ILLEGAL: list[tuple[Shape, Shape, Shape]] = [
    ((5, 0), (2, 2), (3, 1)), ((5, 0), (-1, 1), (-1, 1)), ((5, 0), (1, 1), (1, -1)), ((5, 0), (5, 1), (5, 0)),
    ((5, 0), (0, 0), (1, 1)),
]  # fmt: skip


def public(array: blosc2.NDArray) -> list[str]:
    """Names of what may be asked without an argument."""
    return [name for name in dir(array) if not name.startswith("_") and name not in ("T", "mT")]


@pytest.mark.parametrize(("shape", "chunks", "blocks"), LEGAL)
def test_everything_can_be_asked(
    shape: Shape, chunks: Shape, blocks: Shape, source: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.b2nd"
    path.write_bytes(stating(blosc2.zeros(shape, dtype="u2").to_cframe(), chunks, blocks))
    items = np.zeros(shape, "u2")
    array = blosc2.open(str(path), mmap_mode=source)
    assert array.shape == shape
    assert array.chunks == chunks
    assert array.ext_shape == tuple(c and -(-n // c) * c for n, c in zip(shape, chunks, strict=True))
    assert array.ext_chunks == tuple(b and -(-c // b) * b for c, b in zip(chunks, blocks, strict=True))
    for name in public(array):
        getattr(array, name)
    assert array.check().ok
    assert repr(array)
    assert str(array.info)
    assert list(array.schunk.iterchunks("u2")) == []
    assert list(array.schunk.iterchunks_info()) == []
    if shape[0]:
        assert [row.shape for row in array] == [shape[1:]] * shape[0]
    all_of = (
        slice(None),
        slice(0, 2),
        slice(None, None, -2),
        (slice(None), slice(0, 3)),
        ...,
        None,
        (slice(0, 0), ...),
    )
    for key in all_of:
        assert array[key].shape == items[key].shape
        assert array.slice(key)[...].shape == array.slice(key).shape
        array.advise("willneed", key)
    keys = list(itertools.chain(all_of[:-3], [(slice(None), [])], [np.zeros(shape, bool)]))
    got = array.read_many(keys)
    assert [one.shape for one in got] == [items[key].shape for key in keys]
    assert array.read_many([slice(0, 2)] * 3).shape == (3, *items[0:2].shape)
    assert array.oindex[slice(None), slice(None)].shape == shape
    assert array[items.astype(bool)].shape == (0,)
    assert array.copy()[...].shape == shape
    assert blosc2.get_slice_nchunks(array, slice(None)).shape == (0,)
    assert blosc2.from_cframe(array.to_cframe()).shape == shape
    blosc2.salvage(str(path), str(tmp_path / "saved.b2nd"))
    assert blosc2.open(str(tmp_path / "saved.b2nd")).shape == shape


@pytest.mark.parametrize(("shape", "chunks", "blocks"), ILLEGAL)
def test_what_cannot_be_is_refused(
    shape: Shape, chunks: Shape, blocks: Shape, source: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "a.b2nd"
    path.write_bytes(stating(blosc2.zeros(shape, dtype="u2").to_cframe(), chunks, blocks))
    with pytest.raises(FormatError, match=r"a\.b2nd.* on axis . a block of"):
        blosc2.open(str(path), mmap_mode=source)
    assert not blosc2.check(str(path)).ok


@pytest.mark.parametrize(
    ("shape", "chunks", "blocks"),
    [((10,), (2**63 - 1,), (2,)), ((10, 10), (2**62, 2**62), (1, 1)), ((0,), (2**31,), (1,)), ((2**64,), (1,), (1,)),
     ((4,), (2**64,), (1,))],
)  # fmt: skip
def test_lengths_that_would_overflow(shape: Shape, chunks: Shape, blocks: Shape) -> None:
    with pytest.raises(ValueError, match=r"axis 0|a chunk"):
        Geometry(shape, chunks, blocks, 8)


@pytest.mark.parametrize("axes", [64, 65, 400])
def test_selections_of_more_axes_than_numpy_has(axes: int) -> None:
    array = blosc2.asarray(np.arange(10))
    keys = [(None,) * axes, (None,) * (axes + 1)]
    with pytest.raises(IndexError, match=f"selection 0 of the batch.* {axes + 1} axes"):
        array.read_many(keys)
    with pytest.raises((IndexError, ValueError), match=f"{axes + 1}"):
        array.read_many([0, *keys])
    most = array.read_many([(None,) * 63, 0])
    assert [items.ndim for items in most] == [64, 0]
    assert np.array_equal(most[0].ravel(), np.arange(10))


def test_chunks_that_no_item_fits(tmp_path: Path) -> None:
    """Arrays without items are read whatever their chunks are; with items, these would be too large."""
    frame = bytearray(blosc2.zeros((0, 4), "i4", chunks=(2, 4), blocks=(1, 2)).to_cframe())
    at = frame.index(b"b2nd", 97 - 40)
    at = frame.index(bytes.fromhex("d200000002"), at) + 1
    frame[at : at + 4] = (1 << 29).to_bytes(4)
    array = blosc2.ndarray_from_cframe(bytes(frame), copy=True)
    assert (array.shape, array.chunks, array[...].shape) == ((0, 4), (1 << 29, 4), (0, 4))
    with pytest.raises(ValueError, match="its chunks cannot hold items"):
        array.resize((3, 4))
    assert array.copy().shape == array.T.copy().T.shape == (0, 4)
    assert array.shape == (0, 4)


def test_rows_are_appended_to_a_list_that_was_empty() -> None:
    array = blosc2.asarray(np.zeros((0, 3)))
    for n in range(5):
        array.append([n, n, n])
    assert array[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert array.schunk.nchunks == 1


def test_an_array_that_is_larger_than_any_disk_can_be_written_to(tmp_path: Path) -> None:
    array = blosc2.empty((17_707_749_000, 768), "f4", urlpath=tmp_path / "a.b2nd")
    array[5], array[-1, 3] = 1, 2
    found = blosc2.open(tmp_path / "a.b2nd")
    assert (found[5, 700], found[-1, 3]) == (1, 2)
    assert os.path.getsize(tmp_path / "a.b2nd") < 1 << 20
