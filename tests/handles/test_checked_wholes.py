"""What is read as a whole is checked against the checksums of its file, without being asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2

RNG = np.random.default_rng(17)
ITEMS = RNG.normal(size=(25, 30, 20)).astype("f4").round(2)
LONG = [RNG.integers(0, 1 << 62, size) for size in (170_000, 60_000, 90_000, 260_000)]
SMALL = [RNG.integers(0, 1000, 16) for _ in range(8)]


@pytest.fixture(params=[None, "r"], ids=["read", "mapped"])
def source(request: pytest.FixtureRequest) -> str | None:
    return request.param


# ---------------------------------------------------------------------- any byte of a file


def chunked(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 20, 20), blocks=(5, 10, 10), urlpath=str(path))


def one_chunk(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=ITEMS.shape, blocks=(5, 10, 10), urlpath=str(path)).vlmeta["a"] = "text" * 20


def stored(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 20, 20), urlpath=str(path), cparams={"clevel": 0})


def tiny(path: Path) -> None:
    blosc2.asarray(SMALL[0], urlpath=str(path))


def zeros(path: Path) -> None:
    blosc2.zeros((100, 100), urlpath=str(path))


def one_value(path: Path) -> None:
    blosc2.full((100, 100), 2.5, chunks=(30, 30), urlpath=str(path))


def delta(path: Path) -> None:
    blosc2.asarray(ITEMS, chunks=(10, 20, 20), urlpath=str(path), cparams={"filters": [blosc2.Filter.DELTA]})


def appended(path: Path) -> None:
    array = blosc2.zeros(ITEMS.shape, dtype="f4", chunks=(10, 20, 20), urlpath=str(path))
    array[:10] = ITEMS[:10]
    array.vlmeta["a"] = 1
    array[10:] = ITEMS[10:]


def schunk(path: Path) -> None:
    made = blosc2.SChunk(chunksize=8000, data=ITEMS.tobytes(), urlpath=str(path))
    made.vlmeta["a"] = {"list": list(range(50))}


def a_store(kind: Any, **how: Any) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with kind(str(path), mode="w", **how) as store:
            # At once: an EmbedStore would keep what it published in between.
            store.update({"/items": ITEMS, **{f"/small/{number}": small for number, small in enumerate(SMALL)}})

    return make


def a_store_of_long_values(kind: Any, **how: Any) -> Callable[[Path], None]:
    """Values that are longer than a chunk of embedded values, one of them changed; and some that reach into two."""

    def make(path: Path) -> None:
        with kind(str(path), mode="w", **how) as store:
            store.update({f"/long/{number}": items for number, items in enumerate(LONG)})
        with kind(str(path), mode="a", **how) as store:
            store["/long/0"][3] = 7
            store["/long/9"] = LONG[0]

    return make


def read_long(path: Path, source: str | None, **how: Any) -> list[Any]:
    with blosc2.open(str(path), mmap_mode=source, **how) as store:
        return [store[key][...] for key in sorted(store)]


def read_array(path: Path, source: str | None, **how: Any) -> list[Any]:
    array = blosc2.open(str(path), mmap_mode=source, **how)
    return [array[...], array.vlmeta[:]]


def read_schunk(path: Path, source: str | None, **how: Any) -> list[Any]:
    made = blosc2.open(str(path), mmap_mode=source, **how)
    chunks = b"".join(made.decompress_chunk(number) for number in range(made.nchunks))
    return [made[:], chunks, made.vlmeta[:]]


def read_store(path: Path, source: str | None, **how: Any) -> list[Any]:
    with blosc2.open(str(path), mmap_mode=source, **how) as store:
        return [store["/items"][...], *(store[f"/small/{number}"][...] for number in range(len(SMALL)))]


KINDS: dict[str, tuple[str, Callable[[Path], None], Callable[..., list[Any]]]] = {
    **{make.__name__: ("x.b2nd", make, read_array)
       for make in (chunked, one_chunk, stored, tiny, zeros, one_value, delta, appended)},
    "schunk": ("x.b2frame", schunk, read_schunk),
    "embed store": ("x.b2e", a_store(blosc2.EmbedStore), read_store),
    "directory": ("x.b2d", a_store(blosc2.TreeStore), read_store),
    "directory with embedded values": ("x.b2d", a_store(blosc2.DictStore, threshold=1000), read_store),
    "embed store of long values": ("x.b2e", a_store_of_long_values(blosc2.EmbedStore), read_long),
    "directory with long embedded values": (
        "x.b2d", a_store_of_long_values(blosc2.DictStore, threshold=None), read_long),
}  # fmt: skip


def files_of(path: Path) -> list[Path]:
    """The files that hold what is read."""
    return [path] if path.is_file() else sorted(file for file in path.rglob("*.b2*") if file.is_file())


@pytest.mark.parametrize("kind", KINDS)
def test_no_changed_byte_is_read_silently_wrong(kind: str, tmp_path: Path, source: str | None) -> None:
    name, make, read = KINDS[kind]
    path = tmp_path / name
    make(path)
    good = read(path, source)
    rng = np.random.default_rng(len(kind))
    files = files_of(path)
    sizes = np.array([file.stat().st_size for file in files])
    noticed = 0
    for _ in range(200):
        file = files[int(rng.choice(len(files), p=sizes / sizes.sum()))]
        data = bytearray(file.read_bytes())
        at = int(rng.integers(len(data)))
        before = data[at]
        data[at] ^= int(rng.integers(1, 256))
        file.write_bytes(data)
        try:
            found = read(path, source)
        except (blosc2.FormatError, KeyError):
            noticed += 1
        else:
            assert all(np.array_equal(a, b) for a, b in zip(found, good, strict=True)), (file.name, at)
        data[at] = before
        file.write_bytes(data)
    # Bytes that say nothing may change: the mark of the checksums, what little stands for nothing, and what an append
    # has written once more: of the long values that is half of the file, so 100 of 200 are noticed, more or less.
    assert noticed >= (70 if "long" in kind else 180)


# ---------------------------------------------------------------------- what is checked, and what is not


def flipped(path: Path, number: int = 0, behind: int = 200) -> None:
    """Change a byte of a stored chunk whose bytes are items."""
    at = blosc2.open(str(path), verify=False)._handle.frame.chunk_info(number)[0] + 32 + behind
    data = bytearray(path.read_bytes())
    data[at] ^= 64
    path.write_bytes(data)


def test_threads_that_share_a_chunk_check_it(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2nd"
    items = np.random.default_rng(5).normal(size=(256, 1024))
    for clevel in (0, 1):
        blosc2.asarray(items, chunks=items.shape, blocks=(8, 1024), urlpath=str(path), mode="w",
                       cparams={"clevel": clevel})  # fmt: skip
        np.testing.assert_array_equal(blosc2.open(str(path), mmap_mode=source, dparams={"nthreads": 4})[...], items)
        flipped(path, behind=1_000_000)
        array = blosc2.open(str(path), mmap_mode=source, dparams={"nthreads": 4})
        with pytest.raises(blosc2.FormatError):
            array[...]


def test_bytes_of_a_super_chunk_are_checked(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2frame"
    data = bytes(range(256)) * 100
    blosc2.SChunk(chunksize=8000, data=data, urlpath=str(path), cparams={"clevel": 0})
    flipped(path, 1)
    made = blosc2.open(str(path), mmap_mode=source)
    for whole in (
        lambda: made[:], lambda: made.get_chunk(1), lambda: made.decompress_chunk(1), lambda: made.get_slice(0, 16_000),
    ):  # fmt: skip
        with pytest.raises(blosc2.FormatError, match="checksum"):
            whole()
    assert made.get_slice(0, 8000) == data[:8000]
    assert made.get_slice(9000, 9100) == data[9000:9100]
    assert blosc2.open(str(path), mmap_mode=source, verify=False)[:] != data


def test_files_of_others_have_nothing_to_check(source: str | None) -> None:
    for entry in manifest.files("ndarray")[:3]:
        array = blosc2.open(str(manifest.path_of(entry)), mmap_mode=source)
        np.testing.assert_array_equal(array[...], blosc2.open(str(manifest.path_of(entry)), verify=False)[...])
