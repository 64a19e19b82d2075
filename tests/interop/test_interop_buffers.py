"""Chunks, packed arrays and pickles go back and forth between this package and the reference with the same values."""

from __future__ import annotations

import base64
import os
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import buffer_peer as peer
from fixture_kit.isolated import Worker

import blosc2

pytestmark = pytest.mark.interop

CODECS = ["BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD"]
SIZES = [0, 1, 7, 31, 32, 33, 64, 100, 1000, 4096, 10_001, 300_000]


@pytest.fixture(scope="module")
def theirs(upstream: Any) -> Iterator[Any]:
    """The functions of `fixture_kit.buffer_peer`, run by the reference package."""
    worker = Worker("fixture_kit.buffer_peer", python=upstream._worker.command[0], timeout=60)
    reference = type(upstream)(worker)
    assert reference.about() == upstream.about()
    yield reference
    worker.close()


def text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _pickled(items: Any) -> Any:
    """What pickling makes of an array: it may change the byte order of dates."""
    return pickle.loads(pickle.dumps(items, pickle.HIGHEST_PROTOCOL))


def values(size: int, seed: int) -> bytes:
    """Bytes of one of four kinds: of few values, noise, zeros, and a ramp."""
    rng = np.random.default_rng(seed)
    kind = seed % 4
    if kind == 2:
        return bytes(size)
    if kind == 3:
        return np.arange(size // 4 + 1, dtype="<i4").tobytes()[:size]
    return rng.integers(0, (7, 256)[kind], size, dtype=np.uint8).tobytes()


def check(chunk: str, data: bytes, theirs: Any) -> None:
    """Both read the chunk, and say the same about it."""
    ours = peer.decompress(chunk)
    assert base64.b64decode(ours[0]) == data
    assert theirs.decompress(chunk=chunk) == ours


PARAMETERS: list[dict[str, Any]] = [
    {}, {"clevel": 0}, {"clevel": 9, "typesize": 1}, {"typesize": 3}, {"typesize": 255}, {"typesize": 256},
    {"typesize": 5000}, {"blocksize": 4096}, {"blocksize": 100, "typesize": 4}, {"splitmode": "ALWAYS_SPLIT"},
    {"splitmode": "NEVER_SPLIT"}, {"splitmode": "FORWARD_COMPAT_SPLIT", "typesize": 7}, {"filters": []},
    {"filters": ["BITSHUFFLE"], "typesize": 4}, {"filters": ["BITSHUFFLE"], "typesize": 3}, {"filters": ["DELTA"]},
    {"filters": ["DELTA", "SHUFFLE"], "typesize": 2}, {"filters": ["SHUFFLE", "BYTEDELTA"], "filters_meta": [0, 8]},
    {"filters": ["SHUFFLE", "BYTEDELTA"], "typesize": 4},
    {"filters": ["TRUNC_PREC", "SHUFFLE", "BYTEDELTA"], "filters_meta": [23, 0, 4], "typesize": 4},
    {"filters": ["SHUFFLE", "BITSHUFFLE", "SHUFFLE"], "typesize": 4},
]  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("cparams", PARAMETERS, ids=str)
def test_chunks_of_compress2(codec: str, cparams: dict[str, Any], theirs: Any) -> None:
    for seed, size in enumerate(SIZES):
        data = values(size, seed)
        # Where the last item is not whole, they cannot undo the delta filter, nor read blocks of a given size.
        rest = size % cparams.get("typesize", 8)
        defect = rest and ("DELTA" in cparams.get("filters", []) or "blocksize" in cparams)
        how = {"codec": codec, **cparams}
        check(peer.compress2(text(data), how), data, theirs)
        # A third filter writes into the source there, and damages what turns out to be incompressible.
        if not defect and len(cparams.get("filters", [])) < 3:
            check(theirs.compress2(data=text(data), cparams=how), data, theirs)


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD", "LZ4HC"])
def test_chunks_with_a_dictionary(codec: str, theirs: Any) -> None:
    data = np.arange(100_000, dtype="<i4").tobytes() + values(50_000, 1)
    for how in (
        {"codec": codec, "use_dict": True, "blocksize": 4096, "typesize": 4},
        {"codec": codec, "use_dict": True},
    ):
        check(peer.compress2(text(data), how), data, theirs)
        check(theirs.compress2(data=text(data), cparams=how), data, theirs)


@pytest.mark.parametrize(("filter", "meta"), [("TRUNC_PREC", 10), ("TRUNC_PREC", -10), ("INT_TRUNC", -20)])
def test_lossy_chunks(filter: str, meta: int, theirs: Any) -> None:
    """The same bits are lost."""
    data = (np.arange(1000) * 1.37).astype("<f4" if filter == "TRUNC_PREC" else "<i4").tobytes()
    how = {"filters": [filter, "BITSHUFFLE"], "filters_meta": [meta, 0], "typesize": 4}
    ours = peer.compress2(text(data), how)
    other = theirs.compress2(data=text(data), cparams=how)
    got = {peer.decompress(chunk)[0] for chunk in (ours, other)}
    got |= {theirs.decompress(chunk=chunk)[0] for chunk in (ours, other)}
    assert len(got) == 1
    assert got != {text(data)}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("filter", ["NOFILTER", "SHUFFLE", "BITSHUFFLE", "DELTA", "TRUNC_PREC"])
def test_chunks_of_compress(codec: str, filter: str, theirs: Any) -> None:
    for seed, size in enumerate(SIZES):
        for typesize, clevel in ((1, 1), (8, 5), (7, 9), (300, 1), (4, 0)):
            data = values(size, seed)
            how = {"typesize": typesize, "clevel": clevel, "filter": filter, "codec": codec}
            ours = peer.compress(text(data), **how)
            check(ours, data, theirs)
            other = theirs.compress(data=text(data), **how)
            check(other, data, theirs)
            # The parameters come to the same: no more bytes. (Above 255 they cut blocks between items all the same.)
            assert len(ours) <= len(other) or typesize > 255


def test_chunks_of_blosc_1(upstream: Any) -> None:
    """Written by the reference library in its mode for that."""
    worker = Worker(
        "fixture_kit.buffer_peer", python=upstream._worker.command[0], timeout=60, BLOSC_BLOSC1_COMPAT="1"
    )  # fmt: skip
    old = type(upstream)(worker)
    try:
        for codec in ("BLOSCLZ", "LZ4", "LZ4HC", "ZLIB", "ZSTD"):
            for filter in ("NOFILTER", "SHUFFLE", "BITSHUFFLE"):
                for seed, size in enumerate((0, 1, 31, 64, 1000, 4096, 65_536, 300_000)):
                    for typesize in (1, 4, 8):
                        data = values(size, seed)
                        stored = old.compress(data=text(data), typesize=typesize, clevel=5, filter=filter, codec=codec)
                        chunk = base64.b64decode(stored)
                        assert chunk[2] & 5 != 5
                        if filter == "BITSHUFFLE" and not chunk[2] & 2 and size // typesize % 8:
                            with pytest.raises(blosc2.FormatError, match="multiple of 8"):
                                blosc2.decompress(chunk)
                            continue
                        assert blosc2.decompress(chunk) == blosc2.decompress2(chunk) == data
                        assert blosc2.get_cbuffer_sizes(chunk)[:2] == (size, len(chunk))
    finally:
        worker.close()


@pytest.mark.parametrize("number", range(len(peer.ARRAYS)), ids=lambda n: f"{peer.ARRAYS[n]}")
@pytest.mark.parametrize("writer", ["ours", "upstream"])
def test_saved_arrays(number: int, writer: str, tmp_path: Path, theirs: Any) -> None:
    path = str(tmp_path / "items.b2frame")
    want = peer.describe(peer.items(number))
    for chunksize in (None, 24_000):
        size = (peer if writer == "ours" else theirs).save(path=path, number=number, chunksize=chunksize)
        assert size == os.path.getsize(path)
        assert peer.load(path) == want
        if peer.items(number).dtype.kind == "V" and peer.items(number).dtype.names is None and writer == "upstream":
            continue  # they describe a void dtype as a structure, and get one without fields
        assert theirs.load(path=path) == want


def test_a_directory_of_theirs(tmp_path: Path, theirs: Any) -> None:
    path = str(tmp_path / "items")
    theirs.save(path=path, number=19, chunksize=100_000, contiguous=False)
    assert os.path.isdir(path)
    assert peer.describe(blosc2.load_array(path)) == peer.describe(peer.items(19))


@pytest.mark.parametrize("number", range(len(peer.ARRAYS)), ids=lambda n: f"{peer.ARRAYS[n]}")
def test_pickled_arrays(number: int, theirs: Any) -> None:
    want = peer.describe(_pickled(peer.items(number)))
    assert theirs.unpickled(packed=peer.pickled(number)) == want
    if peer.items(number).size:  # there is nothing to divide by otherwise
        assert peer.unpickled(theirs.pickled(number=number)) == want


def test_raw_opening(tmp_path: Path, theirs: Any) -> None:
    array, schunk = str(tmp_path / "x.b2nd"), str(tmp_path / "x.b2frame")
    blosc2.ones(5, urlpath=array).vlmeta["a"] = 1
    peer.save(schunk, 0)
    for path in (array, schunk):
        assert theirs.raw(path=path) == peer.raw(path)
