"""Blocks that are one byte throughout, and checking that decodes each block once."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import claims, limits
from fixture_kit.isolated import Worker

import blosc2
from blosc2._core.allocation import allowed
from blosc2._core.frame.frame_checksums import check_chunk
from blosc2._frames.metadata import pack
from blosc2._integrity import check_frames
from blosc2.exceptions import FormatError

BIG = 2147483615
MIB = 1 << 20
SLACK = 16 << 20
OBJECTS = {"vlarray": pack({"version": 1, "serializer": "msgpack"})}
ZERO, NAN, VALUE, UNINIT = 1, 2, 3, 4

needs_proc = pytest.mark.skipif(not limits.LINUX, reason="measures memory in /proc")


@pytest.fixture(scope="module")
def spender() -> Iterator[Worker]:
    worker = Worker("fixture_kit.spending_worker")
    yield worker
    worker.close()


def special(kind: int, nbytes: int, item: bytes = b"") -> bytes:
    head = struct.pack("<4B3i", 5, 1, 5, 4, nbytes, nbytes, 32 + len(item))
    return head + bytes(15) + bytes((kind << 4,)) + item


# ------------------------------------------------------------------ small files that claim much
@needs_proc
@pytest.mark.parametrize("chunk", [special(ZERO, BIG), special(NAN, BIG - 3), special(UNINIT, BIG),
                                   special(VALUE, BIG // 8 * 8, b"\xdb" + bytes(7)), claims.runs(BIG, 1 << 28)],
                         ids=["zeros", "nan", "undefined", "value", "runs"])  # fmt: skip
def test_an_entry_that_claims_much_is_refused_before_it_is_decoded(
    tmp_path: Path, source: str | None, spender: Worker, chunk: bytes
) -> None:
    path = tmp_path / "x.b2frame"
    nbytes = int.from_bytes(chunk[4:8], "little")
    claims.write_frame(path, [chunk] * 20, nbytes=20 * nbytes, metalayers=OBJECTS, variable=True)
    for do in ("x[0]", "x[:]", "check"):
        answer = spender.ask({"path": str(path), "mmap_mode": source, "do": do})
        assert answer["memory"] <= allowed(path.stat().st_size) + SLACK
        if do == "check":
            assert len(answer["result"][0]) == 20
        else:
            assert answer["error"] == "FormatError"


@needs_proc
def test_entries_together_stay_within_the_rule(tmp_path: Path, source: str | None, spender: Worker) -> None:
    path = tmp_path / "x.b2frame"
    packed = pack(bytes(16 * MIB))
    chunk = blosc2.compress2(packed, typesize=1)
    claims.write_frame(path, [chunk] * 40, nbytes=40 * len(packed), metalayers=OBJECTS, variable=True)
    ask = {"path": str(path), "mmap_mode": source}
    assert spender.ask({**ask, "do": "len(x[7])"})["result"] == 16 * MIB
    assert spender.ask({**ask, "do": "sum(map(len, x))"})["result"] == 640 * MIB
    answer = spender.ask({**ask, "do": "x[:]"})
    assert answer["error"] == "FormatError"
    assert answer["memory"] <= allowed(path.stat().st_size) + SLACK


@needs_proc
@pytest.mark.parametrize(("nbytes", "blocksize", "count"), [(BIG, 1 << 28, 20), (1 << 20, 1 << 19, 2000)])
def test_runs_take_no_memory(
    tmp_path: Path, source: str | None, spender: Worker, nbytes: int, blocksize: int, count: int
) -> None:
    path = tmp_path / "x.b2frame"
    claims.write_frame(path, [claims.runs(nbytes, blocksize)] * count, nbytes=count * nbytes, chunksize=nbytes)
    for do, result in (("repr(x[0])", "b'\\x00'"), (f"repr(x[{nbytes + 7}:{nbytes + 9}])", "b'\\x00\\x00'"),
                       ("check", [[], []])):  # fmt: skip
        answer = spender.ask({"path": str(path), "mmap_mode": source, "do": do})
        if do == "check":
            assert answer["result"][0] == []
        else:
            assert answer["result"] == result
        assert answer["memory"] <= allowed(path.stat().st_size) + SLACK


def test_chunks_that_share_bytes_are_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.b2frame"
    chunk = blosc2.compress2(np.arange(1000, dtype="i4"), typesize=4)
    data = bytearray(claims.write_frame(path, [chunk] * 9, nbytes=9 * 4000, chunksize=4000))
    start = struct.unpack_from(">i", data, 11)[0] + struct.unpack_from(">q", data, 39)[0]
    assert data[start + 2] & 2  # the offsets as they are
    struct.pack_into("<9q", data, start + 32, *[0, len(chunk)] * 4, 0)
    path.write_bytes(data)

    decoded: list[int] = []
    real = check_frames.check_chunk
    monkeypatch.setattr(check_frames, "check_chunk", lambda frame, n: (decoded.append(n), real(frame, n))[1])
    report = blosc2.check(path)
    assert "7 chunks lie upon others" in report[0].problem
    assert len(decoded) == 2


def test_blocks_that_share_bytes_are_damage() -> None:
    chunk = bytearray(claims.runs(4 * MIB, MIB))
    chunk[36:40] = chunk[32:36]
    chunk[40:44] = chunk[32:36]
    chunk[44:48] = chunk[32:36]
    chunk = chunk[:-12]
    struct.pack_into("<i", chunk, 12, len(chunk))
    assert blosc2.decompress2(bytes(chunk)) == bytes(4 * MIB)
    with pytest.raises(FormatError, match="upon each other"):
        check_chunk(frame_of(bytes(chunk), 4 * MIB), 0)


# ------------------------------------------------------------------ sound files
def frame_of(chunk: bytes, nbytes: int) -> Any:
    schunk = blosc2.SChunk(chunksize=nbytes, cparams={"typesize": 1})
    schunk.append_chunk(chunk)
    return schunk._handle.frame


def content(dtype: str, blocks: int, size: int) -> np.ndarray[Any, Any]:
    """Blocks of zeros, of one byte throughout, and of others."""
    items = np.arange(blocks * size, dtype=dtype).reshape(blocks, size)
    items[0] = 0
    items[2] = np.frombuffer(b"\x07" * 8, dtype)[0]
    items[3] = np.frombuffer(b"\xff" * 8, dtype)[0]
    items[4] = 3
    return items.ravel()


FILTERS = [
    [], ["SHUFFLE"], ["BITSHUFFLE"], ["DELTA"], ["TRUNC_PREC"], ["BYTEDELTA"], ["SHUFFLE", "BYTEDELTA"],
    ["TRUNC_PREC", "SHUFFLE"], ["DELTA", "SHUFFLE"],
]  # fmt: skip


# Of numbers that are no floating-point ones, nothing can be truncated.
CASES = [
    (dtype, names) for dtype in ("u1", "i4", "f8") for names in FILTERS if dtype == "f8" or "TRUNC_PREC" not in names
]


@pytest.mark.parametrize(("dtype", "filters"), CASES, ids=["-".join([dtype, *names]) for dtype, names in CASES])
def test_runs_are_read_as_what_they_stand_for(
    tmp_path: Path, source: str | None, dtype: str, filters: list[str]
) -> None:
    size = 2 * MIB // np.dtype(dtype).itemsize
    items = content(dtype, 6, size)[: 5 * size + 77]
    chosen = [blosc2.Filter[name] for name in filters]
    metas = [20 if one is blosc2.Filter.TRUNC_PREC else items.itemsize if one is blosc2.Filter.BYTEDELTA else 0
             for one in chosen]  # fmt: skip
    path = str(tmp_path / "x.b2nd")
    blosc2.asarray(items, chunks=(len(items),), blocks=(size,), urlpath=path,
                   cparams={"filters": chosen, "filters_meta": metas, "clevel": 1})  # fmt: skip
    whole = blosc2.open(path, mmap_mode=source)[...]
    if blosc2.Filter.TRUNC_PREC not in chosen:
        np.testing.assert_array_equal(whole, items)
    for start in range(0, len(items), size):
        part = blosc2.open(path, mmap_mode=source)[start + 3 : start + 9]
        np.testing.assert_array_equal(part, whole[start + 3 : start + 9])
    assert blosc2.check(path).ok


@pytest.mark.parametrize("params", [
    {}, {"typesize": 8, "splitmode": blosc2.SplitMode.ALWAYS_SPLIT}, {"typesize": 8, "codec": blosc2.Codec.LZ4},
    {"splitmode": blosc2.SplitMode.NEVER_SPLIT}, {"codec": blosc2.Codec.BLOSCLZ}, {"codec": blosc2.Codec.ZLIB},
    {"clevel": 0}, {"use_dict": True},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("blocksize", [1 << 12, 3 << 20])
def test_each_block_of_a_large_chunk_is_checked(params: dict[str, Any], blocksize: int) -> None:
    """Also a last one that is shorter than the others and not split, and runs between others."""
    data = bytearray(np.arange(10 * MIB // 8 + 5, dtype="i8").tobytes())
    data[blocksize : 2 * blocksize] = bytes(blocksize)
    chunk = bytearray(blosc2.compress2(bytes(data), blocksize=blocksize, **{"typesize": 4, "clevel": 1, **params}))
    assert check_chunk(frame_of(bytes(chunk), len(data)), 0) == len(chunk)
    if chunk[2] & 2:  # nothing to decode
        return
    nblocks = -(-len(data) // blocksize)
    for block in (0, nblocks // 2, nblocks - 1):
        broken = bytearray(chunk)
        start = struct.unpack_from("<i", chunk, 32 + 4 * block)[0]
        broken[start + 4 : start + 12] = b"\xff" * 8
        struct.pack_into("<i", broken, start, 1 << 30)
        with pytest.raises(FormatError):
            check_chunk(frame_of(bytes(broken), len(data)), 0)


# ------------------------------------------------------------------ embedded values
def test_values_that_share_bytes_are_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A map of many keys is small, and each may lead to the same large value."""
    path = tmp_path / "x.b2e"
    with blosc2.EmbedStore(str(path), mode="w") as store:
        store["/a"] = np.arange(1000)
    plain = path.rename(tmp_path / "x.b2frame")  # which is opened as a super-chunk
    schunk = blosc2.open(str(plain), mode="a")
    content = schunk.vlmeta["estore_metadata"]
    content["embed_map"].update({f"/k{number}": dict(content["embed_map"]["/a"]) for number in range(5000)})
    schunk.vlmeta["estore_metadata"] = content
    plain.rename(path)
    checked: list[str | None] = []
    real = check_frames.check_byte_range
    monkeypatch.setattr(
        check_frames, "check_byte_range", lambda *args, **how: (checked.append(args[-1]), real(*args, **how))[1]
    )
    report = blosc2.check(path)
    assert 1 < len(report) <= 101
    assert len(checked) == 2  # the frame itself, and one of the values


# ------------------------------------------------------------------ directories of chunk files
@needs_proc
def test_chunk_files_that_claim_much_take_no_memory(tmp_path: Path, spender: Worker) -> None:
    schunk = blosc2.SChunk(chunksize=1 << 30, urlpath=str(tmp_path / "y"), contiguous=False, cparams={"typesize": 1})
    schunk.append_chunk(claims.runs(1 << 30, 1 << 28))
    answer = spender.ask({"path": str(tmp_path / "y"), "mmap_mode": None, "do": "check"})
    assert answer["result"][0] == []
    assert answer["memory"] <= allowed(10_000) + SLACK
