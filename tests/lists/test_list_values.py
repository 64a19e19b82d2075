"""What values lists take, in which blocks batches lie, and what is refused: hostile files too."""

from __future__ import annotations

import datetime as dt
import pathlib
import struct
import sys
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fixture_kit.names import shown
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import BatchArray, ObjectArray
from blosc2._core.codec.codec import Encoder, raw_blocks
from blosc2._core.frame.frame import Frame
from blosc2._core.frame.packed import PackedList
from blosc2._core.io.source import Source
from blosc2._frames.handle import encoding_of
from blosc2._frames.update import FrameUpdate
from blosc2.exceptions import FormatError, UnsupportedKindError

LENGTHS = "_batch_array_metadata"


@pytest.mark.parametrize(("value", "back"), [
    (np.float32(1.5), 1.5), (np.int8(-3), -3), (np.bool_(True), True), (np.str_("a"), "a"), (np.bytes_(b"a"), b"a"),
    (np.complex64(1j), 1j), (bytearray(b"ab"), b"ab"), (memoryview(b"ab"), b"ab"), ({1, 2}, {1, 2}),
    (frozenset([1]), {1}), (2**64 - 1, 2**64 - 1), (-(2**63), -(2**63)), ((1, (2, [()])), (1, (2, [()]))),
    ({b"k": 1}, {b"k": 1}), ("__tuple__", "__tuple__"), (("__tuple__", 1), ("__tuple__", 1)), ([[]], [[]]),
], ids=shown)  # fmt: skip
def test_values(value: Any, back: Any) -> None:
    for values, got in ((ObjectArray(), lambda v: v[0]), (BatchArray(), lambda v: v[0][1])):
        values.append(value if isinstance(values, ObjectArray) else [0, value])
        again = blosc2.from_cframe(values.to_cframe())
        for one in (values, again):
            assert got(one) == back
            assert type(got(one)) is type(back)


REFUSED = [
    dt.datetime(2020, 1, 1), dt.date(2020, 1, 1), dt.timedelta(1), np.datetime64("2020-01-01"),
    np.timedelta64(3, "s"), object(), len, pathlib.Path("a"), {1: 2}, {(1, 2): 3}, range(3), 2**64, -(2**63) - 1,
    np.ma.array([1, 2], mask=[0, 1]), ["__tuple__", 1], {"a": [("x", ["__tuple__"])]}, [(1, 2), ["__tuple__"]],
    type("Mine", (), {})(),
]  # fmt: skip


@pytest.mark.parametrize("value", REFUSED, ids=shown)
def test_what_could_not_come_back_is_refused(value: Any) -> None:
    """Dates are not values of this format; and nothing is pickled in their place."""
    values, batches = ObjectArray(), BatchArray()
    with pytest.raises((TypeError, ValueError, OverflowError), match=r"can not serialize|int"):
        values.append(value)
    with pytest.raises((TypeError, ValueError, OverflowError)):
        batches.append([1, value])
    assert (len(values), len(batches)) == (0, 0)


def test_objects_of_this_package_as_values(tmp_path: Path) -> None:
    inner, batches, store = ObjectArray(), BatchArray(items_per_block=2), blosc2.EmbedStore()
    inner.extend(["a", {"b": 2}])
    batches.extend([[1, 2, 3], ["x"]])
    store["/node"] = np.arange(3)
    path = tmp_path / "x.b2f"
    values = ObjectArray(urlpath=path)
    values.append({
        "array": blosc2.arange(6), "bytes": blosc2.SChunk(data=b"abc"), "list": inner, "batches": batches,
        "store": store,
    })  # fmt: skip
    for opened in (values, blosc2.open(path, deserialize="full")):
        got = opened[0]
        np.testing.assert_array_equal(got["array"][:], np.arange(6))
        assert got["bytes"][:] == b"abc"
        assert list(got["list"]) == ["a", {"b": 2}]
        assert [batch[:] for batch in got["batches"]] == [[1, 2, 3], ["x"]]
        np.testing.assert_array_equal(got["store"]["/node"][:], np.arange(3))
    with pytest.raises(blosc2.UnsafeDeserializationError):
        blosc2.open(path)[0]
    assert blosc2.check(path).ok


def test_a_value_is_a_copy() -> None:
    batches = BatchArray()
    batches.append([{"a": 1}, 2])
    batch = batches[0]
    batch[0]["a"] = 5
    assert batch[0] == {"a": 1}


# ------------------------------------------------------------ batches
def test_batches_are_sequences_that_are_not_empty() -> None:
    batches = BatchArray()
    for bad in ("ab", b"ab", 5, {"a": 1}, {1}, (i for i in range(3)), np.arange(3), None):
        with pytest.raises(TypeError, match="must be sequences"):
            batches.append(bad)
    with pytest.raises(ValueError, match="cannot be empty"):
        batches.append([])
    batches.append((1, 2))
    batches.append(range(3))
    batches.append(batches[0])
    assert [batch[:] for batch in batches] == [[1, 2], [0, 1, 2], [1, 2]]
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            BatchArray(items_per_block=wrong)
    with pytest.raises(ValueError, match="Unsupported BatchArray serializer"):
        BatchArray(serializer="pickle")


@pytest.mark.parametrize("items_per_block", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("use_dict", [False, True])
def test_blocks(items_per_block: int, use_dict: bool, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    items = [{"n": n, "text": "some words " * (n % 5)} for n in range(23)]
    batches = BatchArray(items_per_block, urlpath=path, cparams={"use_dict": use_dict})
    batches.append(items)
    batches.append(items[:1])
    found = blosc2.open(path, mmap_mode=source)
    assert found.items_per_block == items_per_block
    blocks = [msgpack.unpackb(found.schunk.get_vlblock(0, n)) for n in range(-(-23 // items_per_block))]
    assert blocks == [items[n : n + items_per_block] for n in range(0, 23, items_per_block)]
    batch = found[0]
    assert [batch[n] for n in range(-23, 23)] == items + items
    assert batch[2:20:5] == items[2:20:5]
    assert batch[::-1] == items[::-1]
    assert [len(one) for one in found] == [23, 1]
    assert found.items[:] == items + items[:1]
    assert found.items[22:] == [items[22], items[0]]
    assert found.items[::-4] == (items + items[:1])[::-4]
    assert found.items[-1] == items[0]
    assert list(found.items) == list(found.iter_items()) == items + items[:1]
    assert found.vlmeta[LENGTHS] == {"batch_lengths": [23, 1]}
    for use in (lambda: batch[23], lambda: batch[-24]):
        with pytest.raises(IndexError, match="Batch index out of range"):
            use()
    with pytest.raises(IndexError, match="item index out of range"):
        found.items[24]
    with pytest.raises(TypeError, match="item indices must be integers"):
        found.items[1.5]
    with pytest.raises(TypeError, match="Batch indices"):
        batch["a"]
    with pytest.raises(ValueError, match="zero"):
        found.items[::0]
    assert batch.nbytes == sum(len(msgpack.packb(block)) for block in blocks)
    assert batch.cbytes == len(batch.lazybatch) == len(found.schunk.get_chunk(0))
    shown = dict(found.info_items)
    assert shown["nitems"] == 24
    assert shown["nbatches"] == "2 (items per batch: mean=12.00, max=23, min=1)"
    count = len(blocks) + 1
    sizes = [len(block) for block in blocks] + [1]
    assert shown["nblocks"] == f"{count} (items per block: mean={24 / count:.2f}, max={max(sizes)}, min={min(sizes)})"


def test_one_item_takes_one_block(tmp_path: Path, source: str | None) -> None:
    """All other blocks are damaged, and are not looked at."""
    path = tmp_path / "x.b2b"
    batches = BatchArray(items_per_block=10, urlpath=path, cparams={"clevel": 5})
    items = [f"{n} " * 40 for n in range(100)]
    batches.append(items)
    data = bytearray(path.read_bytes())
    frame = Frame.open(Source.open(str(path)))
    at, _, cbytes, *_ = frame.chunk_info(0)
    starts = [*struct.unpack_from("<10i", data, at + 32), cbytes]
    for n in range(10):
        if n != 4:
            data[at + starts[n] + 4 : at + starts[n + 1]] = b"\xff" * (starts[n + 1] - starts[n] - 4)
    path.write_bytes(data)
    found = blosc2.open(path, mmap_mode=source)
    assert [found[0][n] for n in range(40, 50)] == items[40:50]
    assert found.items[45] == items[45]
    assert found[0][41:49:3] == items[41:49:3]
    for n in (39, 50):
        with pytest.raises(FormatError, match=r"x\.b2b.*chunk 0"):
            found[0][n]
    with pytest.raises(FormatError):
        found[0][:]
    assert not blosc2.check(path).ok


def test_items_of_a_block_follow_the_first_batch() -> None:
    for clevel, budget in ((1, 1 << 20), (3, 1 << 20), (5, 8 << 20), (7, 16 << 20)):
        batches = BatchArray(cparams={"clevel": clevel, "codec": blosc2.Codec.LZ4})
        item = b"x" * 300_000
        batches.append([item] * 70)
        assert batches.items_per_block == min(budget // len(msgpack.packb(item)), 70)
    for clevel in (0, 9):
        batches = BatchArray(cparams={"clevel": clevel, "codec": blosc2.Codec.LZ4})
        batches.append([b"x" * 300_000] * 70)
        assert batches.items_per_block == 70
    batches = BatchArray()
    assert batches.items_per_block is None
    batches.vlmeta["user"] = 1
    batches.append([1, 2, 3])
    assert (batches.items_per_block, batches.vlmeta["user"]) == (3, 1)
    batches.clear()
    assert (batches.items_per_block, batches.vlmeta[:]) == (3, {"user": 1})
    batches.append(list(range(10)))
    assert batches[0][:] == list(range(10))


def test_the_lengths_are_the_lists_own() -> None:
    batches = BatchArray()
    batches.extend([[1, 2], [3]])
    batches.vlmeta["mine"] = 1
    for change in (
        lambda: batches.vlmeta.__setitem__(LENGTHS, {"batch_lengths": [1, 1]}), lambda: batches.vlmeta.pop(LENGTHS),
        lambda: batches.vlmeta.update({LENGTHS: 1, "other": 2}), lambda: batches.vlmeta.__delitem__(LENGTHS),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="changed with them alone"):
            change()
    batches.vlmeta.update(batches.vlmeta[:])
    batches.vlmeta.clear()
    assert list(batches.vlmeta) == [LENGTHS]
    assert [batch[:] for batch in batches] == [[1, 2], [3]]


def test_copies_of_batches() -> None:
    batches = BatchArray(items_per_block=2)
    batches.extend([[1, 2, 3], ["a"]])
    batches.vlmeta["x"] = 1
    moved = batches.chunk_copy()
    assert [one.lazybatch for one in moved] == [one.lazybatch for one in batches]
    assert moved.cparams == batches.cparams
    for name in ("cparams", "items_per_block", "serializer"):
        with pytest.raises(ValueError, match=name):
            batches.chunk_copy(**{name: 1})
    other = batches.copy(items_per_block=1)
    assert other.items_per_block == 1
    assert [batch[:] for batch in other] == [[1, 2, 3], ["a"]]
    assert other.vlmeta["x"] == 1
    assert other.schunk.get_vlblock(0, 2) == b"\x91\x03"
    assert BatchArray().chunk_copy()[:] == []


# ------------------------------------------------------------ the rule of allocation
def test_what_could_not_be_read_again_is_refused() -> None:
    huge = "x" * 200_000_000
    values = ObjectArray(cparams={"clevel": 1, "codec": blosc2.Codec.LZ4})
    values.append(huge)
    assert values[0] == huge
    assert values.cbytes > len(huge) // 4
    with pytest.raises(ValueError, match="could not be read again"):
        values.append([1.5] * 20_000_000)
    assert len(values) == 1
    del values, huge
    batches = BatchArray(items_per_block=1_000_000, cparams={"clevel": 1, "codec": blosc2.Codec.LZ4})
    with pytest.raises(ValueError, match="could not be read again"):
        batches.append([1.5] * 20_000_000)
    batches.append([b"\0" * 30_000_000] * 3)
    assert batches[0][2] == b"\0" * 30_000_000
    assert len(batches) == 1


@pytest.mark.parametrize("codec", [blosc2.Codec.LZ4, blosc2.Codec.LZ4HC])
def test_dictionaries_that_the_library_moves_over_themselves(codec: Any) -> None:
    """With few blocks it is moved by less than its length (doc/design/c-blosc2.md, faults of the library)."""
    rng = np.random.default_rng(1)
    words = [rng.bytes(40) for _ in range(30)]
    blocks = [b"".join(words[n] for n in rng.integers(30, size=60)) for _ in range(14)]
    encoding = encoding_of(blosc2.CParams(codec=codec, clevel=5, use_dict=True, typesize=1, filters=[]), 1, 0)
    chunk = Encoder(encoding).encode_blocks(blocks)
    start = 32 + 4 * len(blocks)
    assert int.from_bytes(chunk[start : start + 4], "little") > 4 * len(blocks) + 4  # the dictionary's size
    plain = encoding_of(blosc2.CParams(codec=codec, clevel=5, typesize=1, filters=[]), 1, 0)
    assert len(chunk) < len(Encoder(plain).encode_blocks(blocks)) < sum(map(len, blocks))
    size = sum(map(len, blocks))
    source = Source.of_buffer(chunk)
    frame = Frame.assemble(source, np.array([0]), 1, size, 0, encoding, {}, {}, vlblocks=True, variable=True)
    assert frame.vl_blocks(0) == blocks
    assert [frame.vl_block(0, n) for n in range(len(blocks))] == blocks


# ------------------------------------------------------------ files of others
def packed_batches(path: Path, blocks: list[bytes], lengths: Any, items_per_block: Any = 2, **more: Any) -> None:
    """A file of one batch with these blocks."""
    batches = BatchArray(urlpath=path, items_per_block=5, mode="w")
    batches.append([1])
    handle = batches._handle
    update = FrameUpdate(handle.frame)
    update.replace(0, raw_blocks(blocks), sum(map(len, blocks)))
    meta = {"version": 1, "serializer": "msgpack", "items_per_block": items_per_block, "arrow_schema": None, **more}
    update.metalayers["batcharray"] = msgpack.packb(meta)
    handle.publish(update, fresh=True)
    if lengths is None:
        handle.set_vlmeta({LENGTHS: None})
    else:
        handle.set_vlmeta({LENGTHS: msgpack.packb(lengths)})


def test_lengths_that_are_missing_or_wrong(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    blocks = [b"\x92\x01\x02", b"\x92\x03\x04", b"\x91\x05"]
    for lengths in (None, {"batch_lengths": [5, 1]}, {"batch_lengths": []}):
        packed_batches(path, blocks, lengths)
        found = blosc2.open(path, mmap_mode=source)
        assert (len(found[0]), found[0][:], found[0][4], found.items[3]) == (5, [1, 2, 3, 4, 5], 5, 4)
    for items_per_block in (1, 3, 5, 100):  # which is not what the blocks have
        packed_batches(path, blocks, {"batch_lengths": [5]}, items_per_block)
        found = blosc2.open(path, mmap_mode=source)
        assert [found[0][n] for n in range(5)] == [1, 2, 3, 4, 5]
        assert blosc2.check(path).ok
    packed_batches(path, blocks, {"batch_lengths": [6]})
    found = blosc2.open(path, mmap_mode=source)
    with pytest.raises(FormatError, match="5 items, not 6"):
        found[0][:]
    assert any("of batch 0 is wrong" in one.problem for one in blosc2.check(path).findings)
    report = blosc2.salvage(path, tmp_path / "out.b2b")
    assert report is not None
    assert [batch[:] for batch in blosc2.open(tmp_path / "out.b2b")] == [[1, 2, 3, 4, 5]]
    assert blosc2.open(tmp_path / "out.b2b").vlmeta[LENGTHS] == {"batch_lengths": [5]}
    for lengths in ({"batch_lengths": [0]}, {"batch_lengths": [True]}, {"batch_lengths": ["a"]}, {}, [1],
                    {"batch_lengths": [2**63]}):  # fmt: skip
        packed_batches(path, blocks, lengths)
        with pytest.raises(FormatError, match=r"x\.b2b.*_batch_array_metadata"):
            len(blosc2.open(path, mmap_mode=source)[0])
        assert not blosc2.check(path).ok


@pytest.mark.parametrize(("blocks", "reason"), [
    ([b"\x92\x01\x02", b"\x91\x03", b"\x92\x04\x05"], "of all lengths"),
    ([b"\x90"], "of all lengths"),
    ([b"\x92\x01\x02", b"\x93\x01\x02\x03"], "of all lengths"),
    ([b"\x01"], "no list"),
    ([b"\x92\x01\xcd"], "cut off"),
    ([b"\x92\x01\x02\x03"], "bytes follow"),
    ([b"\xdd\xff\xff\xff\xff\x01"], "items are not in"),
    ([b"\x91\xdd\xff\xff\xff\xff"], "cut off"),
    ([b"\x91\xc1"], "cut off or no value"),
])  # fmt: skip
def test_blocks_that_make_no_batch(blocks: list[bytes], reason: str, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    packed_batches(path, blocks, {"batch_lengths": [5]})
    found = blosc2.open(path, mmap_mode=source)
    for read in (lambda: found[0][:], lambda: list(found[0]), lambda: found.items[:]):
        with pytest.raises(FormatError, match=rf"x\.b2b.*({reason}|items, not)"):
            read()
    assert not blosc2.check(path).ok


def test_a_block_that_begins_with_the_mark_of_tuples(tmp_path: Path) -> None:
    path = tmp_path / "x.b2b"
    packed_batches(path, [msgpack.packb(["__tuple__", 1]), msgpack.packb([2])], {"batch_lengths": [3]})
    found = blosc2.open(path)
    assert found[0][:] == ["__tuple__", 1, 2]
    assert [found[0][n] for n in range(3)] == ["__tuple__", 1, 2]
    with pytest.raises(ValueError, match="__tuple__"):
        BatchArray(items_per_block=2).append([1, 2, "__tuple__", 4])


def test_batches_packed_in_unknown_ways(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2b"
    for more, error in (
        ({"serializer": "pickle"}, UnsupportedKindError), ({"version": 2}, UnsupportedKindError),
        ({"items_per_block": 0}, FormatError), ({"items_per_block": "a"}, FormatError),
        ({"arrow_schema": 5}, FormatError),
    ):  # fmt: skip
        packed_batches(path, [b"\x91\x01"], {"batch_lengths": [1]}, **{"items_per_block": 2, **more})
        found = blosc2.open(path, mmap_mode=source)
        with pytest.raises(error):
            found[0][0]
        with pytest.raises(error):
            found[0][:]
        with pytest.raises(error):
            blosc2.open(path, mode="a").append([1])
    content = {"version": 1, "serializer": "pickle"}
    schunk = blosc2.SChunk(cparams={"typesize": 1}, meta={"vlarray": content})
    schunk.append_data(b"\x80\x04N.")
    found = blosc2.from_cframe(schunk.to_cframe())
    for use in (lambda: found[0], lambda: found.append(1)):
        with pytest.raises(UnsupportedKindError, match="pickle"):
            use()


def test_parameters_that_no_list_can_have() -> None:
    """They are refused by the constructor, not by the first value."""
    delta = blosc2.CParams(typesize=1, filters=[blosc2.Filter.DELTA])
    with pytest.raises(ValueError, match="none of them DELTA"):
        BatchArray(cparams=delta)
    with pytest.raises(ValueError, match="cannot be compressed with these"):
        ObjectArray(cparams={"codec": blosc2.Codec.BLOSCLZ, "use_dict": True})


def test_bombs(tmp_path: Path, source: str | None) -> None:
    """A block that is far larger than its file, and lists of which every byte makes an object."""
    path = tmp_path / "x.b2b"
    huge = b"\x91\xc6" + (150_000_000).to_bytes(4) + bytes(150_000_000)
    chunk = Encoder(encoding_of(blosc2.CParams(typesize=1, clevel=1), 1, 0)).encode_blocks([huge])
    packed_batches(path, [b"\x91\x01"], {"batch_lengths": [1]})
    batches = blosc2.open(path, mode="a")
    update = FrameUpdate(batches._handle.frame)
    update.replace(0, chunk, len(huge))
    batches._handle.publish(update)
    del huge, batches
    found = blosc2.open(path, mmap_mode=source)
    for read in (lambda: found[0][0], lambda: found[0][:], lambda: found.pop()):
        with pytest.raises((FormatError, ValueError), match=r"would take|reading mode"):
            read()


def test_any_damaged_byte(tmp_path: Path) -> None:
    """Whatever byte of a file of either kind is another one: values, or an error of ours."""
    rng = np.random.default_rng(5)
    for cls, elements in ((ObjectArray, ["a" * 50, {"b": [1, 2, (3,)]}, 1]), (BatchArray, [["a" * 50, 1], [{"b": 2}]])):
        values = cls(urlpath=tmp_path / f"{cls.__name__}.b2f")
        values.extend(elements)
        data = values.to_cframe()
        for at in range(len(data)):
            changed = bytearray(data)
            changed[at] ^= int(rng.integers(1, 256))
            try:
                found = blosc2.from_cframe(bytes(changed))
                [one[:] if isinstance(one, blosc2.Batch) else one for one in found]
                if isinstance(found, BatchArray):
                    [found[n][0] for n in range(len(found))]
                    found.items[:]
            except (FormatError, UnsupportedKindError, blosc2.UnsafeDeserializationError):
                pass


def test_nothing_is_pickled() -> None:
    for name in ("objectarray", "batch_array", "_lists.batches",
                 "_lists.lists",  "_lists.arrow_blocks", "_frames.metadata"):  # fmt: skip
        assert "pickle" not in vars(sys.modules[f"blosc2.{name}"])


@given(data=st.binary(max_size=60) | st.lists(st.integers(0, 255), max_size=40).map(lambda n: bytes([0x9F, *n])))
@settings(max_examples=500, deadline=None)
def test_packed_lists_of_any_bytes(data: bytes) -> None:
    """What msgpack takes for one list is one here, and of nothing else is anything given out."""
    unpacker = msgpack.Unpacker(strict_map_key=False, raw=True, max_buffer_size=0)
    unpacker.feed(data)
    try:
        count = unpacker.read_array_header()
        spans = []
        for _ in range(count):
            start = unpacker.tell()
            unpacker.skip()
            spans.append(data[start : unpacker.tell()])
        whole = unpacker.tell() == len(data)
    except (ValueError, msgpack.exceptions.OutOfData, msgpack.exceptions.UnpackException):
        whole = False
    if whole:
        packed = PackedList(data)
        assert [packed.item(n) for n in range(len(packed))] == spans
        assert b"".join(spans) == b"".join(part[1:] for part in packed.parts(15))
    else:
        with pytest.raises(ValueError):
            PackedList(data)
