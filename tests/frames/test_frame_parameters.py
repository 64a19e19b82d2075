"""Damaged compression parameters in a header: reading does not need them, writing refuses them."""

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import CompressionError, FormatError

ITEMS = np.arange(100, dtype="i4")
#: Bytes of the header, and what no writer could do with them there.
DAMAGE = {
    "codec": (77, b"\x63"),
    "a codec that is not built in": (77, b"\x26"),
    "level": (27, b"\xe6"),
    "filter": (71, b"\x63"),
    "filter meta": (79, b"\xff"),
    "two deltas": (71, b"\x03\x03"),
    "two deltas beside a filter of arrays": (71, b"\x03\x03\x20"),
    "a delta among three": (71, b"\x03\x01\x20"),
}


def damaged(frame: bytes, what: str) -> bytes:
    offset, wrong = DAMAGE[what]
    # So that the byte of the full codec id counts.
    whole = bytearray(frame)
    whole[27] = whole[27] & 0xF0 | 6
    whole[offset : offset + len(wrong)] = wrong
    return bytes(whole)


@pytest.mark.parametrize("what", DAMAGE)
def test_an_array_is_read_and_not_changed(tmp_path, what):
    path = tmp_path / "a.b2nd"
    before = damaged(blosc2.asarray(ITEMS, chunks=(30,), blocks=(10,)).to_cframe(), what)
    path.write_bytes(before)
    array = blosc2.open(path, mode="a")
    assert np.array_equal(array[...], ITEMS)
    offset = DAMAGE[what][0]
    for change in (lambda: array.__setitem__(3, 9), lambda: array.append(ITEMS)):
        with pytest.raises(FormatError, match=rf"a\.b2nd, byte {offset}: .*cparams=") as caught:
            change()
        assert caught.value.offset == offset
    with pytest.raises(FormatError, match="cparams="):
        array.copy()
    assert path.read_bytes() == before
    assert np.array_equal(array.copy(cparams={"clevel": 1})[...], ITEMS)


def test_arrays_made_of_it_refuse_too():
    frame = damaged(blosc2.asarray(ITEMS, chunks=(30,), blocks=(10,)).to_cframe(), "level")
    array = blosc2.ndarray_from_cframe(frame)
    made = [
        lambda: array.slice(slice(3, 40)), lambda: array.reshape((10, 10)), lambda: array.copy(dtype="f4"),
        lambda: blosc2.permute_dims(array, (0,), chunks=(20,)),
    ]  # fmt: skip
    for make in made:
        with pytest.raises(FormatError, match="byte 27: "):
            make()


def test_zfp_with_what_it_cannot_take():
    cparams = {"codec": blosc2.Codec.ZFP_PREC, "codec_meta": 30, "filters": [], "filters_meta": []}
    frame = bytearray(blosc2.asarray(np.linspace(0, 1, 100), chunks=(30,), blocks=(10,), cparams=cparams).to_cframe())
    with pytest.raises(ValueError, match="float"):
        blosc2.ndarray_from_cframe(bytes(frame)).copy(dtype="i4")
    frame[72] = 1
    array = blosc2.ndarray_from_cframe(bytes(frame), copy=True)
    items = array[...]
    for change in (array.copy, lambda: array.slice(slice(3, 40)), lambda: array.append(items)):
        with pytest.raises(FormatError, match="byte 71: "):
            change()
    assert np.array_equal(array.copy(cparams={"clevel": 1})[...], items)


def test_a_cell_size_that_the_codec_does_not_have():
    cparams = {"codec": blosc2.Codec.NDLZ, "codec_meta": 4, "filters": [], "filters_meta": []}
    frame = bytearray(blosc2.zeros((40, 50), "u1", chunks=(32, 32), blocks=(16, 16), cparams=cparams).to_cframe())
    frame[78] = 0
    array = blosc2.ndarray_from_cframe(bytes(frame), copy=True)
    with pytest.raises(FormatError, match="byte 78: "):
        array[3:5] = 7


def test_a_block_size_that_no_header_should_have():
    frame = bytearray(blosc2.SChunk(chunksize=64, data=bytes(64) + bytes(range(64))).to_cframe())
    frame[53:57] = b"\xff" * 4
    schunk = blosc2.schunk_from_cframe(bytes(frame), copy=True)
    schunk.reorder_offsets([1, 0])
    assert schunk[:] == bytes(range(64)) + bytes(64)


@pytest.mark.parametrize("what", DAMAGE)
def test_a_super_chunk_is_read_and_not_changed(tmp_path, what):
    path = tmp_path / "a.b2frame"
    data = ITEMS.tobytes()
    before = damaged(blosc2.SChunk(chunksize=100, data=data, cparams={"typesize": 4}).to_cframe(), what)
    path.write_bytes(before)
    schunk = blosc2.open(path, mode="a")
    assert schunk[:] == data
    with pytest.raises(FormatError, match=rf"byte {DAMAGE[what][0]}: "):
        schunk.append_data(bytes(100))
    assert path.read_bytes() == before


def test_parameters_that_are_given_count():
    schunk = blosc2.schunk_from_cframe(damaged(blosc2.SChunk(data=bytes(64)).to_cframe(), "level"), copy=True)
    schunk.cparams = blosc2.CParams(typesize=8)
    schunk.append_data(bytes(range(64)))
    assert schunk[:] == bytes(64) + bytes(range(64))


def test_a_filter_that_fails_on_the_data():
    cparams = {"filters": [blosc2.Filter.NDMEAN], "filters_meta": [4], "codec": blosc2.Codec.LZ4}
    with pytest.raises(CompressionError, match="could not compress") as caught:
        blosc2.asarray(np.zeros((20, 20), "u1") + np.arange(20, dtype="u1"), cparams=cparams)
    assert isinstance(caught.value, ValueError)


def test_chunks_that_are_too_small_for_what_is_appended():
    """Each chunk of a byte takes far more than a byte until it is written."""
    frame = bytearray(blosc2.SChunk(chunksize=4, data=b"abcd", cparams={"typesize": 4}).to_cframe())
    frame[30:38] = (1).to_bytes(8, "big")
    frame[58:62] = (1).to_bytes(4, "big")
    at = int.from_bytes(frame[11:15], "big")
    frame[at + 4 : at + 8] = (1).to_bytes(4, "little")
    frame[at + 8 : at + 12] = (1).to_bytes(4, "little")
    schunk = blosc2.schunk_from_cframe(bytes(frame), copy=True)
    with pytest.raises(FormatError, match="byte 58: "):
        schunk.set_slice(bytes(1 << 20), start=0)
