"""Chunks: made by hand after FORMATS section 2, and made by the encoder with every codec and filter."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
from fixture_kit.isolated import environment
from hypothesis import given, settings
from hypothesis import strategies as st

import blosc2
from blosc2 import Codec, Filter
from blosc2._core.codec import codec
from blosc2._core.codec.codec import Encoder, Encoding, decode_bytes
from blosc2.exceptions import FormatError


def chunk(
    payload: bytes = b"", *, nbytes: int, blocksize: int | None = None, typesize: int = 1, flags: int = 0x07,
    special: int = 0, filters: bytes = bytes(6), codec_id: int = 0, metas: bytes = bytes(6), version: int = 5,
    flags2: int = 0, cbytes: int | None = None,
) -> bytes:  # fmt: skip
    """A chunk by hand; by default a raw one (FORMATS 2.1)."""
    sizes = (nbytes, nbytes if blocksize is None else blocksize, 32 + len(payload) if cbytes is None else cbytes)
    header = bytes([version, 1, flags, typesize]) + b"".join(n.to_bytes(4, "little", signed=True) for n in sizes)
    return header + filters + bytes([codec_id, 0]) + metas + bytes([flags2, special]) + payload


def le(*numbers: int) -> bytes:
    return b"".join(n.to_bytes(4, "little", signed=True) for n in numbers)


# --------------------------------------------------------------------- chunks by hand


def test_special_chunks() -> None:
    assert decode_bytes(chunk(nbytes=100, special=0x10)) == bytes(100)
    assert decode_bytes(chunk(nbytes=100, special=0x40)) == bytes(100)  # undefined reads as zeros
    nans = decode_bytes(chunk(nbytes=24, typesize=8, special=0x20))
    assert np.isnan(np.frombuffer(nans, "<f8")).all()
    nans = decode_bytes(chunk(nbytes=24, typesize=4, special=0x20))
    assert np.isnan(np.frombuffer(nans, "<f4")).all()
    for size in (1, 3, 8, 300):
        item = bytes(range(7, 7 + size % 200)) + bytes(size - size % 200)
        assert decode_bytes(chunk(item, nbytes=7 * size, typesize=min(size, 255), special=0x30)) == item * 7


def test_raw_chunks() -> None:
    assert decode_bytes(chunk(b"hello", nbytes=5)) == b"hello"
    # filters are listed but not applied
    listed = chunk(b"abcdefgh", nbytes=8, typesize=4, filters=bytes([0, 0, 0, 0, 3, 1]), codec_id=5, flags=0x87)
    assert decode_bytes(listed) == b"abcdefgh"


def test_streams_of_blocks() -> None:
    """Two blocks of 40 bytes, one stream each: as they are, and one byte repeated."""
    raw = bytes(range(40))
    starts = le(40, 84)
    blocks = le(40) + raw + le(-0x41) + b"\x01"
    data = chunk(starts + blocks, nbytes=80, blocksize=40, flags=0x15)
    assert decode_bytes(data) == raw + b"A" * 40
    # blocks may lie in any order
    data = chunk(le(45, 40) + le(-0x42) + b"\x01" + le(40) + raw, nbytes=80, blocksize=40, flags=0x15)
    assert decode_bytes(data) == raw + b"B" * 40
    data = chunk(le(36) + le(0), nbytes=40, flags=0x15)
    assert decode_bytes(data) == bytes(40)


def test_split_blocks() -> None:
    """A block of 8 items of 4 bytes in four streams, one for each byte; shuffled, so that streams are byte planes."""
    streams = le(8) + bytes(range(8)) + le(0) + le(-7) + b"\x01" + le(8) + b"zzzzzzzz"
    data = chunk(le(36) + streams, nbytes=32, typesize=4, flags=0x05, filters=bytes([0, 0, 0, 0, 0, 1]))
    assert decode_bytes(data) == b"".join(bytes([n, 0, 7]) + b"z" for n in range(8))


def test_a_short_last_block() -> None:
    data = chunk(le(44, 88, 93) + le(40) + bytes(range(40)) + le(-1) + b"\x01" + le(10) + b"0123456789",
                 nbytes=90, blocksize=40, flags=0x15)  # fmt: skip
    assert decode_bytes(data) == bytes(range(40)) + b"\x01" * 40 + b"0123456789"


REFUSED = [
    ("no header", b"", "at least 32 bytes"),
    ("a short header", chunk(nbytes=0)[:31], "at least 32 bytes"),
    ("Blosc 1", chunk(b"12", nbytes=2, flags=0x02), "16-byte header"),
    ("an old version", chunk(b"12", nbytes=2, version=4), "version"),
    ("a new version", chunk(b"12", nbytes=2, version=7), "version"),
    ("cbytes below 32", chunk(b"12", nbytes=2, cbytes=31), "stored size"),
    ("cbytes negative", chunk(b"12", nbytes=2, cbytes=-1), "stored size"),
    ("cbytes too large", chunk(b"12", nbytes=2, cbytes=35), "stored size"),
    ("cbytes too small", chunk(b"12", nbytes=2, cbytes=33), "stored size"),
    ("nbytes negative", chunk(b"12", nbytes=-2), "negative or above"),
    ("nbytes above the limit", chunk(nbytes=2147483616, special=0x10), "negative or above"),
    ("a lazy chunk", chunk(b"12", nbytes=2, special=0x08), "flags"),
    ("an instrumented chunk", chunk(b"12", nbytes=2, special=0x80), "flags"),
    ("unknown flags", chunk(b"12", nbytes=2, flags2=0x02), "flags"),
    ("typesize 0", chunk(b"12", nbytes=2, typesize=0), "item size"),
    ("an unknown special kind", chunk(nbytes=8, special=0x50), "special chunk"),
    ("zeros with a payload", chunk(b"12", nbytes=8, special=0x10), "special chunk"),
    ("a value that does not divide", chunk(b"123", nbytes=8, special=0x30), "special chunk"),
    ("no value", chunk(nbytes=8, special=0x30), "special chunk"),
    ("NaN of two bytes", chunk(nbytes=8, typesize=2, special=0x20), "NaN"),
    ("raw of another size", chunk(b"123", nbytes=2), "raw chunk"),
    ("blocks of no bytes", chunk(le(36) + le(0), nbytes=4, blocksize=0, flags=0x15), "block size"),
    ("blocks too large", chunk(le(36) + le(0), nbytes=4, blocksize=536866817, flags=0x15), "block size"),
    ("a user codec", chunk(le(36) + le(0), nbytes=40, flags=0xD5, codec_id=160), "codec"),
    ("a plugin codec", chunk(le(36) + le(0), nbytes=40, flags=0xD5, codec_id=36), "codec"),
    ("codecs that disagree", chunk(le(36) + le(0), nbytes=40, flags=0x35, codec_id=5), "codec"),
    ("an unknown filter", chunk(le(36) + le(0), nbytes=40, flags=0x15, filters=bytes([34, 0, 0, 0, 0, 0])), "filter"),
    ("a user filter", chunk(le(36) + le(0), nbytes=40, flags=0x15, filters=bytes([0, 0, 160, 0, 0, 0])), "filter"),
    ("a start in the header", chunk(le(31) + le(0), nbytes=40, flags=0x15), "starts outside"),
    ("a start in the table", chunk(le(32) + le(0), nbytes=40, flags=0x15), "starts outside"),
    ("a start at the end", chunk(le(37) + le(0), nbytes=40, flags=0x15), "starts outside"),
    ("a negative start", chunk(le(-8) + le(0), nbytes=40, flags=0x15), "starts outside"),
    ("more blocks than bytes", chunk(le(36) + le(0), nbytes=4000, blocksize=1, flags=0x15), "starts outside"),
    ("a stream past the end", chunk(le(36) + le(39) + bytes(38), nbytes=40, flags=0x15), ""),
    ("garbage", chunk(le(36) + le(20) + b"\xff" * 20, nbytes=40, flags=0x35, codec_id=1), ""),
    ("no blocks", chunk(nbytes=40, blocksize=0, flags=0x15, flags2=1), "block size"),
    ("a codec that needs the array", chunk(le(36) + le(4) + b"abcd", nbytes=40, flags=0xD5, codec_id=32), "array"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_chunks_that_are_refused(data: bytes, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        decode_bytes(data, path="file", key="/k", offset=77)
    assert text in str(caught.value)
    assert (caught.value.path, caught.value.key, caught.value.offset) == ("file", "/k", 77)


# --------------------------------------------------------------------- encoding


def encoding(**more: Any) -> Encoding:
    fields: dict[str, Any] = {
        "codec": 5, "codec_meta": 0, "clevel": 5, "use_dict": False, "typesize": 4, "blocksize": 0, "splitmode": 3,
        "filters": (0, 0, 0, 0, 0, 1), "filters_meta": (0,) * 6,
    }  # fmt: skip
    return Encoding(**{**fields, **more})


@settings(max_examples=400, deadline=None)
@given(
    codec_id=st.sampled_from([0, 1, 2, 4, 5]),
    clevel=st.integers(0, 9),
    use_dict=st.booleans(),
    typesize=st.sampled_from([1, 2, 3, 4, 8, 16, 100, 300]),
    blocksize=st.sampled_from([0, 10, 33, 64, 1000]),
    splitmode=st.integers(1, 4),
    filters=st.sampled_from([(0,) * 6, (1, 0, 0, 0, 0, 0), (2, 0, 0, 0, 0, 0), (3, 0, 0, 0, 0, 0), (3, 1, 0, 0, 0, 0)]),
    sizes=st.lists(st.integers(0, 80) | st.integers(0, 1200) | st.integers(0, 20000), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_chunks_and_blocks_that_end_inside_an_item(
    codec_id: int, clevel: int, use_dict: bool, typesize: int, blocksize: int, splitmode: int,
    filters: tuple[int, ...], sizes: list[int], seed: int,
) -> None:  # fmt: skip
    """Left to itself, the C library writes chunks of such sizes that nobody can decode, or that decode wrongly."""
    how = encoding(codec=codec_id, clevel=clevel, use_dict=use_dict and codec_id in (1, 2, 5), typesize=typesize,
                   blocksize=blocksize, splitmode=splitmode, filters=filters)  # fmt: skip
    encoder = Encoder(how)
    rng = np.random.default_rng(seed)
    for size in sizes:
        top = int(rng.choice([1, 3, 256]))
        data = (
            (rng.integers(0, top, size) * (80 if top == 3 else 1) + (seed if top == 1 else 0))
            .astype(np.uint8)
            .tobytes()
        )
        assert decode_bytes(encoder.encode_bytes(data)) == data


@pytest.mark.parametrize("which", [Codec.ZSTD, Codec.LZ4, Codec.LZ4HC])
def test_dictionaries_and_what_follows_them(which: Codec) -> None:
    """A context that has seen a dictionary must not use it for the next chunk."""
    words = b"the quick brown fox jumps over the lazy dog; " * 3
    data = [np.roll(np.resize(np.frombuffer(words, np.uint8), 20000), n).tobytes() for n in range(6)]
    plain = Encoder(encoding(codec=which.value, typesize=1, blocksize=1000, filters=(0,) * 6))
    shared = Encoder(encoding(codec=which.value, typesize=1, blocksize=1000, filters=(0,) * 6, use_dict=True))
    stored = [(shared if n % 2 else plain).encode_bytes(content) for n, content in enumerate(data)]
    assert [c[31] & 1 for c in stored] == [0, 1] * 3
    for _ in range(3):
        for n in (1, 0, 3, 3, 2, 5, 4):
            assert decode_bytes(stored[n]) == data[n]


#: See chunk_errors.h.
NO_MEMORY = -117


def test_reasons_are_words() -> None:
    for status in sorted({*range(-121, -100), -1, -11, -999} - {NO_MEMORY}):
        assert len(codec.reason(status)) > 10
    with pytest.raises(MemoryError, match="not enough memory"):  # which says nothing of the chunk
        codec.reason(NO_MEMORY)
    # Of a library without some codec: the file is not damaged.
    assert "built without" in codec.reason(-7)
    assert "damaged" not in codec.reason(-7)


def test_codecs_and_filters_that_work_on_array_blocks(source: str | None, tmp_path: Any) -> None:
    rng = np.random.default_rng(6)
    items = np.kron(rng.integers(0, 9, (6, 8)), np.ones((8, 8), int)).astype("u1")
    smooth = np.add.outer(np.arange(40.0), np.arange(64.0))
    for n, (values, cparams, lossless) in enumerate((
        (items, {"codec": Codec.NDLZ, "codec_meta": 4, "filters": []}, True),
        (items, {"filters": [Filter.NDCELL], "filters_meta": [4]}, True),
        (smooth, {"codec": Codec.ZFP_PREC, "codec_meta": 40, "filters": []}, False),
        (smooth, {"codec": Codec.ZFP_ACC, "codec_meta": 0xFA, "filters": []}, False),
    )):  # fmt: skip
        path = str(tmp_path / f"{n}.b2nd")
        blosc2.asarray(values, chunks=(24, 32), blocks=(8, 16), cparams=cparams, urlpath=path)
        array = blosc2.open(path, mmap_mode=source)
        for key in (..., (slice(3, 30), slice(5, 50)), (7, slice(None, None, 3))):
            if lossless:
                np.testing.assert_array_equal(array[key], values[key])
            else:
                np.testing.assert_allclose(array[key], values[key], atol=0.1)
        changed = blosc2.open(path, mode="a")
        changed[2:5, 3:9] = values[2:5, 3:9]
        np.testing.assert_allclose(blosc2.open(path)[...], values, atol=0.1)


# --------------------------------------------------------------------- the environment

PROGRAM = """
import hashlib, os, threading, time
import numpy as np
import blosc2
from blosc2._core.codec import thread_pool

items = np.arange(400000, dtype="<i4").reshape(400, 1000) // 7
frames = []
def write():
    array = blosc2.asarray(items, chunks=(100, 1000), blocks=(10, 1000), cparams={"nthreads": 2})
    assert (array[:] == items).all() and (array[5:300:7, 3:9] == items[5:300:7, 3:9]).all()
    frames.append(array.to_cframe())
    schunk = blosc2.SChunk(data=items, chunksize=1 << 16, cparams={"use_dict": True})
    assert schunk[:] == items.tobytes()
threads = [threading.Thread(target=write) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert len(frames) == 4 and len(set(frames)) == 1
if os.path.isdir("/proc/self/task"):  # where threads of the C library would show up
    until = time.monotonic() + 5
    known = threading.active_count() + thread_pool.count()
    while len(os.listdir("/proc/self/task")) > known and time.monotonic() < until:
        time.sleep(0.01)  # one that ended may still be listed
    assert len(os.listdir("/proc/self/task")) == known
for name in os.environ:
    if name.startswith("BLOSC_"):
        import subprocess
        assert subprocess.run(["printenv", name], capture_output=True, text=True).stdout.strip() == os.environ[name]
print(hashlib.sha256(frames[0]).hexdigest())
"""


def test_variables_of_the_c_library_change_nothing() -> None:
    digests = []
    for variables in (
        {}, {"BLOSC_NTHREADS": "4"}, {"BLOSC_CLEVEL": "0"}, {"BLOSC_COMPRESSOR": "lz4", "BLOSC_SHUFFLE": "NOSHUFFLE"},
        {"BLOSC_BLOCKSIZE": "4096", "BLOSC_SPLITMODE": "NEVER", "BLOSC_TYPESIZE": "3", "BLOSC_DELTA": "1"},
    ):  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", PROGRAM], env=environment(OPENBLAS_NUM_THREADS="1", **variables),
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 0, f"{variables}: {done.stderr[-2000:]}"
        digests.append(done.stdout)
    assert len(set(digests)) == 1


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
def test_signals_do_not_disturb_codecs_that_wait_for_each_other() -> None:
    items = np.cumsum(np.random.default_rng(0).random((256, 256)), 1)
    array = blosc2.asarray(
        items,
        chunks=(128, 128),
        blocks=(64, 64),
        cparams={"codec": blosc2.Codec.ZFP_PREC, "codec_meta": 40, "filters": []},
    )
    good = array[:]

    class Interrupt(Exception):
        pass

    armed = False

    def interrupt(*_: object) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupt

    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            assert (array[:] == good).all()

    threads = [threading.Thread(target=read) for _ in range(3)]
    before = signal.signal(signal.SIGALRM, interrupt)
    for thread in threads:
        thread.start()
    reads = 0
    until = time.monotonic() + 1.5
    interval = 0.01
    try:
        signal.setitimer(signal.ITIMER_REAL, interval, interval)
        while time.monotonic() < until or (not reads and time.monotonic() < until + 60):  # a busy machine takes longer
            try:
                armed = True
                assert (array[:] == good).all()
                armed = False
                reads += 1
            except Interrupt:
                if time.monotonic() > until:  # no read is as quick as that here
                    interval *= 1.5
                    signal.setitimer(signal.ITIMER_REAL, interval, interval)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        stop.set()
        for thread in threads:
            thread.join()
    assert reads


FILTER_LISTS = [[1, 2, 35], [2, 1, 2, 1], [35] * 3, [1] * 6, [3, 1], [3]]


@pytest.mark.parametrize("filters", FILTER_LISTS, ids=str)
@pytest.mark.parametrize("nthreads", [1, 2])
def test_no_filters_write_into_what_they_compress(filters: list[int], nthreads: int, rng: np.random.Generator) -> None:
    how = {"filters": filters, "filters_meta": [4 if item == 35 else 0 for item in filters], "nthreads": nthreads}
    noise = rng.integers(0, 1 << 32, 300_000, dtype="u4")  # which does not compress
    for items in (noise, np.arange(300_000, dtype="u4") % 977, noise[:9]):
        before = items.tobytes()
        items.flags.writeable = False
        array = blosc2.asarray(items, cparams=how)
        schunk = blosc2.SChunk(chunksize=1 << 18, data=items, cparams={**how, "typesize": 4})
        assert items.tobytes() == before
        assert array.tobytes() == before
        assert schunk[:] == before
        assert np.array_equal(array[100:2000], items[100:2000])
        array[5:7] = items[7:9]
        assert array[5:9].tolist() == [*items[7:9], *items[7:9]]


@pytest.mark.parametrize("filters", [[3, 1, 2], [1, 3, 35], [3, 3], [3, 1, 3]], ids=str)
def test_filters_that_could_not_be_undone_are_refused(filters: list[int]) -> None:
    how = {"filters": filters, "filters_meta": [4 if item == 35 else 0 for item in filters]}
    items = np.arange(100_000, dtype="u4")
    for make in (
        lambda: blosc2.asarray(items, cparams=how),
        lambda: blosc2.SChunk(chunksize=1 << 18, data=items, cparams=how),
        lambda: blosc2.compress2(items, **how),
    ):
        with pytest.raises(ValueError, match="DELTA"):
            make()


@pytest.mark.parametrize("nthreads", [1, 4])
def test_averages_of_cells_that_could_not_be_read_again_are_refused(nthreads: int) -> None:
    """The library takes blocks that are shorter than the cells, and cannot read some of what it wrote then."""
    items = np.ones((2, 23, 13), "f4")
    items[0] = np.arange(13)
    cparams = {"filters": [Filter.NDMEAN], "filters_meta": [4], "nthreads": nthreads}
    with pytest.raises(ValueError, match="a filter failed"):
        blosc2.asarray(items, chunks=(8, 26, 15), blocks=(2, 8, 13), cparams=cparams)
    array = blosc2.asarray(items[0], chunks=(8, 16), blocks=(4, 8), cparams=cparams)
    # Four items in a row of one cell: all become their average.
    np.testing.assert_allclose(array[0, :12], np.repeat([1.5, 5.5, 9.5], 4))
