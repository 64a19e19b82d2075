"""What a file may make one operation hold: 64 MiB, 4 bytes for each of its own, and what was asked for."""

from __future__ import annotations

import gc
import sysconfig
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from fixture_kit import claims, limits
from fixture_kit.isolated import Worker

import blosc2
from blosc2._core.allocation import FREE, Allowance, allowed
from blosc2._core.frame.frame_writer import pack_trailer
from blosc2._core.frame.packed import MOST_PER_BYTE, unpacked_size
from blosc2._frames.dtypes import dtype_from_description
from blosc2._frames.metadata import FEW_BYTES, pack, unpack
from blosc2._frames.update import ZERO_OFFSET
from blosc2._integrity import check_frames
from blosc2.exceptions import FormatError

#: Without its extension module, msgpack needs memory for two copies more of what it unpacks.
PURE = msgpack.Unpacker.__module__ == "msgpack.fallback"

needs_proc = pytest.mark.skipif(not limits.LINUX, reason="measures memory in /proc")
# What the process takes besides, for the interpreter and the allocator. That of Python without a GIL keeps memory that
# was freed: 14 times two pieces of 4 MiB, one of which is copied and kept, take 92 MiB there, and 64 with a GIL.
SLACK = 40 << 20 if sysconfig.get_config_var("Py_GIL_DISABLED") else 16 << 20


@pytest.fixture(scope="module")
def spender() -> Iterator[Worker]:
    worker = Worker("fixture_kit.spending_worker")
    yield worker
    worker.close()


def within(answer: dict[str, Any], path: Path, asked: int = 0) -> bool:
    """Whether what was done stayed within the rule."""
    most = allowed(path.stat().st_size, asked) + SLACK
    return answer["memory"] <= most


# ------------------------------------------------------------------ the rule
def test_the_rule() -> None:
    assert allowed(0) == 64 << 20
    assert allowed(1000, 5) == (64 << 20) + 4005
    allowance = Allowance(0)
    allowance.take(FREE - 10, passing=10)
    with pytest.raises(FormatError, match="11 bytes of memory, of 10"):
        allowance.take(1, passing=10)
    allowance.take(10)


# ------------------------------------------------------------------ what values take when they are unpacked
VALUES: dict[str, Callable[[], Any]] = {
    "ones": lambda: [1] * 100_000,
    "integers": lambda: list(range(20_000)),
    "floats": lambda: [n / 7 for n in range(20_000)],
    "empty maps": lambda: [{} for _ in range(20_000)],
    "small maps": lambda: [{str(n % 200): 0} for n in range(20_000)],
    "a large map": lambda: {f"k{n}": n for n in range(22_000)},  # just after it grew
    "a map of values": lambda: {f"/leaf{n}": {"offset": n * 1000, "length": n + 1000} for n in range(11_000)},
    "empty sets": lambda: [set() for _ in range(10_000)],
    "sets of five": lambda: [{1, 2, 3, 4, 5} for _ in range(5_000)],
    "a large set": lambda: set(range(52_500)),
    "sets in a set": lambda: {frozenset([n]) for n in range(5_000)},
    "tuples": lambda: [(1, 2) for _ in range(10_000)],
    "a large tuple": lambda: tuple(range(100_000)),
    "complex numbers": lambda: [complex(n, 1) for n in range(10_000)],
    "texts": lambda: [f"name {n}" for n in range(20_000)],
    "ASCII": lambda: "x" * 1_000_000,
    "Latin-1": lambda: "\xe9" * 500_000,
    "two bytes a character": lambda: "\u4e2d" + "a" * 500_000,
    "four bytes a character": lambda: "a" * 500_000 + "\U0001f600",
    "bytes": lambda: [b"abcd"] * 20_000,
    "small arrays": lambda: [np.zeros(2) for _ in range(1_000)],
    "fields": lambda: [np.zeros(2, [("a", "i4"), ("b", "f8")]) for _ in range(1_000)],
    "a large array": lambda: np.zeros(200_000),
    "an array of objects": lambda: np.array([{}, 1] * 20_000, dtype=object),
}


def peak_of_unpacking(packed: bytes) -> int:
    gc.collect()  # objects of the value before, which the interpreter keeps for the next ones
    tracemalloc.start()
    try:
        value = unpack(packed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert value is not None
    return peak


@pytest.mark.parametrize("name", VALUES)
def test_no_value_takes_more_than_was_counted(name: str) -> None:
    packed = pack(VALUES[name]())
    unpack(packed)  # what is allocated once, is allocated
    # Keys of maps go into a table of the interpreter, which may grow just then: not three times in a row.
    peak = min(peak_of_unpacking(packed) for _ in range(3))
    counted = unpacked_size(packed)
    assert peak <= counted + len(packed) + 20_000
    # Nor is so much counted that files are refused without need.
    assert counted <= 8 * peak or name in ("small arrays", "fields")


def test_counting_ends_when_it_is_enough() -> None:
    copies = unpacked_size(b"\xc0" * 1_000_000)  # None takes nothing
    assert unpacked_size(b"\x80" * 1_000_000, copies + 1000) < copies + 2000


@pytest.mark.parametrize("packed", [b"", b"\xdd\xff", b"\xdd\xff\xff\xff\xff", b"\xc4\x05ab", b"\xc7\x09\x2d\x90",
                                    b"\xcb\0", b"\xc1", b"\xd9", b"\xdf\0\0\0\xff" * 3])  # fmt: skip
def test_damaged_values_are_counted_and_refused(packed: bytes) -> None:
    assert 0 <= unpacked_size(packed) < 10_000
    with pytest.raises(FormatError):
        unpack(packed)


def test_lists_inside_of_each_other_cannot_claim_more_than_there_is() -> None:
    hostile = b"\xdd" + (FEW_BYTES - 500).to_bytes(4)
    with pytest.raises(FormatError, match="lists are longer"):
        unpack(hostile * 500 + bytes(FEW_BYTES - 2500))  # so few that they are not counted before
    # What looks like them, inside of bytes, is none.
    assert unpack(pack([hostile * 40_000, [0] * 2000]))[0] == hostile * 40_000


def test_an_array_has_no_more_axes_than_numpy_takes() -> None:
    """The product of very many sizes would take for ever."""
    content = msgpack.packb({"dtype": {"str": "<i4"}, "shape": [2**63] * 100_000, "data": b""})
    with pytest.raises(FormatError, match="100000 axes"):
        unpack(msgpack.packb(msgpack.ExtType(46, content)))


def test_a_dtype_has_a_bounded_number_of_fields() -> None:
    fields = [(f"f{number}", "u1") for number in range(300)]
    many = [(f"g{number}", fields) for number in range(100)]
    for description in ([(f"f{number}", "u1") for number in range(20_000)], many, [("a", many)]):
        with pytest.raises(ValueError, match="more than 16384 fields"):
            dtype_from_description(description)
        with pytest.raises(TypeError, match="more than 16384 fields"):
            pack(np.zeros(0, description))
    assert unpack(pack(np.zeros(1, fields)))["f7"] == 0


# ------------------------------------------------------------------ metadata
@needs_proc
def test_entries_together_stay_within_the_rule(tmp_path: Path, source: str | None, spender: Worker) -> None:
    path = tmp_path / "entries.b2frame"
    claims.write_frame(path, vlmeta=claims.entries(300, pack(bytes((4 << 20) - 16))))
    answer = spender.ask({"path": str(path), "mmap_mode": source, "do": "vlmeta"})
    assert answer["error"] == "FormatError"
    assert path.name in answer["message"]
    assert within(answer, path)
    # One at a time they are no trouble.
    assert (
        spender.ask({"path": str(path), "mmap_mode": source, "do": "len(x.vlmeta['e7'])"})["result"] == (4 << 20) - 16
    )


@needs_proc
@pytest.mark.parametrize(
    "packed", [b"\xdd" + (3_000_000).to_bytes(4) + b"\x80" * 3_000_000, pack(bytes(90 << 20)), pack(bytes(40 << 20))]
)
def test_one_entry_stays_within_the_rule(tmp_path: Path, source: str | None, spender: Worker, packed: bytes) -> None:
    path = tmp_path / "entry.b2frame"
    claims.write_frame(path, vlmeta=claims.entries(1, packed))
    for do in ("vlmeta", "x.vlmeta['e0']", "repr"):
        answer = spender.ask({"path": str(path), "mmap_mode": source, "do": do})
        assert (answer["error"] == "FormatError") or "unreadable" in answer["result"]
        assert within(answer, path)


@needs_proc
def test_a_large_value_is_shown_in_part(tmp_path: Path, source: str | None, spender: Worker) -> None:
    path = tmp_path / "a.b2frame"
    claims.write_frame(path, vlmeta=claims.entries(1, pack(bytes((12 if PURE else 30) << 20))))
    answer = spender.ask({"path": str(path), "mmap_mode": source, "do": "repr"})
    assert answer["result"].startswith("{'e0': b'\\x00")
    assert len(answer["result"]) < 300
    assert within(answer, path)


@pytest.mark.parametrize(
    "value", [{"a": [1, "x" * 5000]}, ["x" * 5000], np.zeros(5000), "\0" * 5000, tuple("x" * 9999)]
)
def test_the_text_of_a_large_value_begins_as_that_of_a_small_one(value: Any) -> None:
    schunk = blosc2.SChunk()
    schunk.vlmeta["a"] = value
    assert len(repr(schunk.vlmeta)) < 300
    assert repr(schunk.vlmeta)[:12] == f"{{'a': {value!r}}}"[:12]


@pytest.mark.parametrize(
    "value",
    ["x" * 5_000_000, [1] * 1_000_000, bytes(14_000_000 if PURE else 20_000_000)],
    ids=["text", "list", "bytes"],
)
def test_what_compresses_well_can_be_read_back(tmp_path: Path, source: str | None, value: Any) -> None:
    path = str(tmp_path / "a.b2nd")
    blosc2.zeros(3, urlpath=path).attrs["log"] = value
    found = blosc2.open(path, mmap_mode=source)
    assert found.attrs["log"] == value
    assert found.attrs[:] == {"log": value}
    assert blosc2.check(path).ok
    with blosc2.TreeStore(str(tmp_path / "t.b2z"), mode="w") as tree:
        tree.attrs["log"] = value
    with blosc2.open(str(tmp_path / "t.b2z"), mmap_mode=source) as tree:
        assert tree.attrs["log"] == value


DENSE = {
    "negative numbers of sets": [set(range(-32, 128)) | {None}],
    "sets of 16": [set(range(-16, 0))] * 20,
    "sets of 15": [frozenset(range(-15, 0))] * 20,
    "sets of 7": [set(range(-7, 0))] * 20,
    "sets of 5": [set(range(-5, 0))] * 20,
    "sets of sets": [{frozenset(range(-n, 0)) for n in range(1, 30)}],
    "empty sets": [set()] * 100,
    "empty maps": [{}] * 100,
    "maps of one": [{"": {}}] * 100,
    "maps of six": [dict.fromkeys(("", *"abcde"), -1)] * 40,
    "tuples": [()] * 100,
    "complex numbers": [1j] * 100,
    "arrays": [np.arange(1)] * 30,
    "objects": [np.array([[], {}, None, (), 1.5], dtype=object)] * 30,
}


@pytest.mark.parametrize("what", DENSE)
def test_values_that_are_largest_for_their_bytes(tmp_path: Path, source: str | None, what: str) -> None:
    """Short data is not counted when it is written; reading it must not find that it is too large."""
    array = blosc2.zeros(3, urlpath=str(tmp_path / "a.b2nd"))
    value = DENSE[what] * ((FEW_BYTES - 10) // len(pack(DENSE[what])))
    packed = pack(value)
    assert len(packed) <= FEW_BYTES
    assert unpacked_size(packed) <= MOST_PER_BYTE * len(packed)
    array.attrs["x"] = value
    found = blosc2.open(array.urlpath, mmap_mode=source).attrs["x"]
    assert found == value if what not in ("arrays", "objects") else pack(found) == packed
    assert blosc2.check(array.urlpath).ok


def test_what_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "a.b2nd"
    array = blosc2.zeros(3, urlpath=str(path))
    array.attrs["good"] = bytes((14 if PURE else 20) << 20)
    before = path.read_bytes()
    for value in ([{}] * 1_000_000, bytes(40 << 20)):
        with pytest.raises(ValueError, match="'bad' could not be read again"):
            array.attrs["bad"] = value
    with pytest.raises(ValueError, match="could not be read again"):
        array.attrs.update({"bad": bytes(20 << 20), "worse": bytes(20 << 20)})
    with pytest.raises(ValueError, match="could not be read again"):
        blosc2.zeros(3, meta={"bad": [{}] * 1_000_000})
    assert path.read_bytes() == before
    array.attrs["small"] = 1
    # What does not compress makes its file larger, and the rule with it.
    noise = np.random.default_rng(0).bytes(40 << 20)
    array.attrs["noise"] = noise
    assert blosc2.open(str(path)).attrs["noise"] == noise


FILTERED = {"filters": [blosc2.Filter.SHUFFLE, blosc2.Filter.BITSHUFFLE], "typesize": 8}


@needs_proc
@pytest.mark.parametrize("filters", [1, 2])
def test_what_decoding_an_entry_takes_counts(tmp_path: Path, source: str | None, spender: Worker, filters: int) -> None:
    """With filters the C library holds several blocks, and a small chunk may claim a large one."""
    path = tmp_path / "entry.b2frame"
    how = {**FILTERED, "filters": FILTERED["filters"][:filters], "blocksize": 30 << 20}
    stored = blosc2.compress2(pack(bytes((30 << 20) - 5)), codec=blosc2.Codec.BLOSCLZ, **how)
    claims.write_frame(path, vlmeta={"e0": stored})
    answer = spender.ask({"path": str(path), "mmap_mode": source, "do": "len(x.vlmeta['e0'])"})
    assert answer["error"] == "FormatError", answer
    assert within(answer, path)


@needs_proc
@pytest.mark.parametrize("how", [{}, {"filters": FILTERED["filters"][1:]}, {"filters": FILTERED["filters"]}])
def test_one_item_takes_what_decoding_its_block_takes(
    tmp_path: Path, source: str | None, spender: Worker, how: dict[str, Any]
) -> None:
    path, size = tmp_path / "a.b2nd", 100 << 20
    items = np.arange(size // 8) // 1000
    blosc2.asarray(items, chunks=items.shape, blocks=items.shape, urlpath=str(path),
                   cparams={"codec": blosc2.Codec.BLOSCLZ, "filters": [blosc2.Filter.NOFILTER], **how})  # fmt: skip
    answer = spender.ask({"path": str(path), "mmap_mode": source, "do": "int(x[7_000_000])"})
    assert answer["result"] == 7000, answer
    assert within(answer, path, 4 * size if how else size)


@needs_proc
@pytest.mark.parametrize("raw", [True, False])
def test_blocks_of_a_byte_are_not_listed(tmp_path: Path, source: str | None, spender: Worker, raw: bool) -> None:
    path, size = tmp_path / "a.b2frame", 12 << 20
    chunk = bytearray(blosc2.compress2(np.random.default_rng(1).bytes(size), typesize=1, clevel=0))
    chunk[8:12] = (1 if raw else 4).to_bytes(4, "little")
    if not raw:
        chunk[2] &= ~2  # then its bytes are where blocks begin
    claims.write_frame(path, [bytes(chunk)], nbytes=size, chunksize=size)
    answer = spender.ask({"path": str(path), "mmap_mode": source, "do": "len(x.get_lazychunk(0))"})
    assert answer["error"] == "FormatError", answer
    assert within(answer, path)


# ------------------------------------------------------------------ changes
@needs_proc
@pytest.mark.parametrize("count", [1_500_000, 2_000_000, 4_000_000])
@pytest.mark.parametrize("do", ["x.update_data(5, bytes(range(64)), copy=True)", "x.delete_chunk(5)",
                                "x.insert_data(5, bytes(range(64)), copy=True)", "x.append_data(bytes(range(64)))",
                                "x.vlmeta.__setitem__('a', 1)"])  # fmt: skip
def test_a_small_change_of_a_file_that_claims_many_chunks(tmp_path: Path, spender: Worker, count: int, do: str) -> None:
    path = tmp_path / "a.b2frame"
    claims.write_frame(path, [ZERO_OFFSET], count=count, nbytes=64 * count, chunksize=64)
    answer = spender.ask({"path": str(path), "mmap_mode": None, "mode": "a", "do": do})
    assert answer["error"] in (None, "FormatError"), answer
    assert within(answer, path)


# ------------------------------------------------------------------ salvage
def test_trailers_that_are_none_cost_no_more_than_their_bytes(tmp_path: Path, spender: Worker) -> None:
    """Each was looked for in all the bytes before it, for each version: some minutes."""
    path = tmp_path / "x.b2frame"
    data = bytearray(claims.write_frame(path, [blosc2.compress2(bytes(range(100)), typesize=1, clevel=0)], nbytes=100))
    data[16:24] = (1 << 50).to_bytes(8)  # its end is lost
    path.write_bytes(data + bytes(1 << 20) + pack_trailer({}) * 3000)
    answer = spender.ask({"path": str(path), "mmap_mode": None, "do": "salvage"})
    assert answer["result"][0] == ["/"]


@pytest.mark.parametrize("count", [1_000, 200_000_000])
def test_chunks_that_only_the_table_knows_are_not_visited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    path = tmp_path / "x.b2frame"
    claims.damaged_table(path, chunks=[ZERO_OFFSET], count=count, nbytes=count * 1000, chunksize=1000)
    visited: list[int] = []
    monkeypatch.setattr(check_frames, "check_chunk", lambda frame, number: visited.append(number))
    report = blosc2.salvage(path, tmp_path / "out.b2frame")
    assert report.recovered
    assert not visited
    assert blosc2.open(str(tmp_path / "out.b2frame")).nchunks == count


def test_older_versions_with_the_same_damage_are_not_decoded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.b2nd"
    array = blosc2.asarray(np.arange(1000, dtype="i8"), chunks=(1000,), urlpath=str(path))
    for number in range(20):
        array.resize((1000 * (number + 2),))
        array[-1000:] = number
    data = bytearray(path.read_bytes())
    first = array._handle.frame.chunk_info(0)[0]
    data[first + 40] ^= 0xFF
    data[16:24] = (1 << 50).to_bytes(8)
    path.write_bytes(data)
    checked: list[int] = []
    real = check_frames.check_frame
    monkeypatch.setattr(
        check_frames, "check_frame", lambda frame, *more: (checked.append(frame.nchunks), real(frame, *more))
    )
    with pytest.raises(FormatError):
        blosc2.salvage(path, tmp_path / "out.b2nd")
    assert len(checked) <= 3


def test_special_chunks_that_must_be_stored_take_what_the_file_may_take(tmp_path: Path) -> None:
    path = str(tmp_path / "a.b2frame")
    schunk = blosc2.SChunk(chunksize=64, urlpath=path, cparams={"typesize": 1})
    schunk.fill_special(64 << 20, blosc2.SpecialValue.ZERO)
    before = Path(path).read_bytes()
    tracemalloc.start()
    try:
        with pytest.raises(FormatError, match="too many to change"):
            schunk.update_data(5, b"shorter than the others")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < FREE
    assert Path(path).read_bytes() == before
    schunk.update_data(5, bytes(range(64)))  # of the same size: one table of offsets
    assert schunk.decompress_chunk(5) == bytes(range(64))
    assert schunk.nchunks == 1 << 20
