"""A reader written from the pages of the formats alone reads every file, and the bytes that they show are right."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

from . import format_reader as reader

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "data" / "fixtures"
# Codecs and filters that the pages leave out, and an array of 1 TiB.
NOT_DESCRIBED = {"ndcell", "ndlz", "ndmean", "zfp_acc", "zfp_prec", "zfp_rate", "huge_zeros"}


def whole(pattern: str) -> list[Path]:
    found = [path for path in sorted(FIXTURES.rglob(pattern)) if "hostile" not in path.parts]
    return [path for path in found if path.parent.suffix != ".b2d" and ".b2d" not in str(path.parent)]


ARRAYS = [path for path in whole("*.b2nd") if path.stem not in NOT_DESCRIBED]
STORES = [path for suffix in ("b2e", "b2d", "b2z") for path in whole("*." + suffix)]


def test_files_are_found() -> None:
    assert len(ARRAYS) > 100
    assert len(STORES) > 25


def zstd(data: bytes, size: int, dictionary: bytes) -> bytes:
    """A stream of zstd, decoded by the C library as a chunk of one block."""
    extra = struct.pack("<i", len(dictionary)) + dictionary if dictionary else b""
    total = 32 + 4 + len(extra) + 4 + len(data)
    head = bytes([5, 1, 0x95, 1]) + struct.pack("<3i", size, size, total) + bytes(6) + b"\x05" + bytes(8)
    chunk = head + bytes([1 if dictionary else 0]) + struct.pack("<i", 36 + len(extra)) + extra
    return bytes(blosc2.decompress2(chunk + struct.pack("<i", len(data)) + data))


def same(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any]) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("path", ARRAYS, ids=lambda path: path.stem)
def test_arrays(path: Path) -> None:
    same(reader.read_array(reader.read_frame(path.read_bytes(), zstd)), blosc2.open(path)[...])


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.name)
@pytest.mark.filterwarnings("ignore::UserWarning")  # files with the suffix of another kind
def test_stores(path: Path) -> None:
    leaves = reader.read_store(path, zstd)
    with blosc2.open(path, mode="r") as store:
        for key in store:
            value = store[key]
            if isinstance(value, blosc2.NDArray):
                same(reader.read_array(leaves[key]), value[...])
                assert set(leaves[key].vlmeta) == set(value.vlmeta)
            elif isinstance(value, blosc2.SChunk):
                assert leaves[key].items == value[:]


@pytest.mark.parametrize("codec", [blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.ZLIB, blosc2.Codec.ZSTD])
@pytest.mark.parametrize("filters", [[], [1], [2], [3], [3, 1], [1, 3], [1, 35]], ids=str)
def test_what_is_written(codec: Any, filters: list[int], tmp_path: Path) -> None:
    for dtype in ("u1", "i2", "f4", "c16", "S3"):
        items = (np.arange(70 * 41) ** 2 // 7 % 250).reshape(70, 41).astype(dtype)
        metas = [items.dtype.itemsize if name == 35 else 0 for name in filters]
        cparams = {"codec": codec, "filters": [blosc2.Filter(name) for name in filters], "filters_meta": metas}
        path = tmp_path / f"{dtype}.b2nd"
        blosc2.asarray(items, urlpath=path, chunks=(33, 20), blocks=(9, 11), cparams=cparams)
        same(reader.read_array(reader.read_frame(path.read_bytes(), zstd)), items)


def test_a_file_byte_by_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "doc" / "format" / "frame.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    exec(code, {})
    rows = re.findall(
        r"^\| (\d+) \| `((?:[0-9a-f]{2} ?)+)` \|", page.partition("## A file, byte by byte")[2], re.MULTILINE
    )
    shown = b""
    for at, text in rows:
        assert int(at) == len(shown)
        shown += bytes.fromhex(text)
    assert shown == Path("small.b2nd").read_bytes()


@pytest.mark.parametrize(
    "name", ["magic.b2frame", "frame_len_huge.b2frame", "chunk_version.b2frame", "nd_dtype_object.b2nd"]
)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(reader.Unreadable):
        frame = reader.read_frame((FIXTURES / "hostile" / name).read_bytes(), zstd)
        reader.read_array(frame)
