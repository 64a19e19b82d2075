"""What is read of a `.b2z` as a whole is checked, without being asked for: against its checksums, or its member's."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit import manifest

import blosc2
from blosc2._backends.zip.members import SMALL_MEMBER
from blosc2._core.io.checksum import ZIP_WAYS, crc32
from blosc2._core.io.source import Source
from blosc2._core.zip.archive import Archive

RNG = np.random.default_rng(18)
SMALL = RNG.integers(0, 1000, 16)
MEDIUM = RNG.normal(size=(30, 40)).astype("f4")
LARGE = RNG.normal(size=(40, 30, 20)).astype("f4").round(2)
NOISE = RNG.integers(0, 255, 20_000, np.uint8)


@pytest.fixture(params=[None, "r"], ids=["read", "mapped"])
def source(request: pytest.FixtureRequest) -> str | None:
    return request.param


# ---------------------------------------------------------------------- any byte of a file


def own(path: Path, kind: Any = blosc2.TreeStore, **how: Any) -> None:
    """Small, medium and large leaves, of several chunks and of one, stored and compressed, with attributes."""
    with kind(str(path), mode="w", **how) as store:
        for number in range(4):
            store[f"/small/{number}"] = SMALL + number
        store["/medium"] = MEDIUM
        store["/large"] = blosc2.asarray(LARGE, chunks=(10, 30, 20), blocks=(5, 15, 20))
        store["/noise"] = blosc2.asarray(NOISE, chunks=(7000,), blocks=(1000,), cparams={"clevel": 0})
        store["/value"] = blosc2.full((300, 300), 2.5, chunks=(100, 100))
        store["/medium"].vlmeta["about"] = {"unit": "mm", "steps": list(range(40))}


def embedding(path: Path) -> None:
    own(path, blosc2.DictStore, threshold=3000)


def cataloged(path: Path) -> None:
    own(path)
    with blosc2.TreeStore(str(path), mode="a") as store:
        store.update({f"/many/{number}": SMALL * number for number in range(300)})


def changed(path: Path) -> None:
    """Two versions, of which the first leaves dead bytes."""
    own(path)
    with blosc2.TreeStore(str(path), mode="a") as store:
        store["/large"][3] = 1
        store["/small/1"] = SMALL * 2
        del store["/small/2"]


def of_others(path: Path) -> None:
    """Frames without checksums, large ones too, as other programs leave them."""
    plain(path, {"/small": SMALL, "/medium": MEDIUM, "/large": blosc2.asarray(LARGE, chunks=(10, 30, 20)),
                 "/noise": blosc2.asarray(NOISE, chunks=(7000,), cparams={"clevel": 0})})  # fmt: skip


def plain(path: Path, leaves: dict[str, Any], embedded: dict[str, Any] | None = None) -> None:
    """An archive as `zipfile` makes it, of frames that carry no checksums."""
    inner = blosc2.EmbedStore()
    for key, value in (embedded or {}).items():
        inner[key] = value
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as z:
        for key, value in leaves.items():
            z.writestr(f"{key[1:]}.b2nd", blosc2.asarray(value).to_cframe())
        z.writestr("embed.b2e", inner.to_cframe())


MADE = {"own": own, "embedding": embedding, "cataloged": cataloged, "changed": changed, "of others": of_others}


def read_all(path: Path, source: str | None, way: str = "leaf", **how: Any) -> dict[str, Any]:
    """Every leaf, whole."""
    mode = {"mode": "a"} if way == "live" else {"mode": "r", "mmap_mode": source}
    with blosc2.open(str(path), **mode, **how) as store:
        leaves = [key for key in store if isinstance(store[key], blosc2.NDArray)]
        if way == "read":
            return {key: store.read(key) for key in leaves}
        if way == "read_many":
            alike = [key for key in leaves if key.startswith(("/small", "/many"))]
            rows = store.read_many(alike)
            return {key: store[key][...] for key in leaves} | dict(zip(alike, rows, strict=True))
        return {key: store[key][...] for key in leaves}


def is_right(found: dict[str, Any], good: dict[str, Any]) -> bool:
    """Whether nothing is wrong: keys may be missing, as their names may be what is damaged."""
    return all(
        key not in good or (value.dtype == good[key].dtype and value.shape == good[key].shape
                            and value.tobytes() == good[key].tobytes())
        for key, value in found.items()
    )  # fmt: skip


def flips(path: Path, count: int, seed: int) -> Iterator[int]:
    """Change one byte after the other, each back again."""
    data = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    for at in np.unique(np.linspace(0, len(data) - 1, count).astype(int) + rng.integers(0, 30, count)):
        if at >= len(data):
            continue
        before = data[at]
        data[at] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        yield int(at)
        data[at] = before
    path.write_bytes(data)


WAYS = [(way, source) for way in ("leaf", "read", "read_many") for source in (None, "r")] + [("live", None)]


@pytest.mark.filterwarnings("ignore:.*is not shown")
@pytest.mark.parametrize(("way", "source"), WAYS)
@pytest.mark.parametrize("kind", MADE)
def test_no_changed_byte_is_read_silently_wrong(kind: str, way: str, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    MADE[kind](path)
    good = read_all(path, source, way)
    noticed = 0
    for at in flips(path, 200, len(kind) + len(way)):
        try:
            found = read_all(path, source, way)
        except (blosc2.FormatError, KeyError):
            noticed += 1
        else:
            assert is_right(found, good), at
            noticed += found.keys() != good.keys()
    # Dead bytes, times, and what local headers repeat say nothing.
    assert noticed >= (60 if kind in ("cataloged", "changed") else 140)


OF_UPSTREAM = ["dict_external.b2z", "dict_embedded.b2z", "dict_mixed.b2z", "tree_plain.b2z", "tree_embedded.b2z"]


@pytest.mark.filterwarnings("ignore:.*is not shown")
@pytest.mark.parametrize("name", OF_UPSTREAM)
def test_archives_of_upstream_too(name: str, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / name
    path.write_bytes((manifest.ROOT / "stores" / name).read_bytes())
    good = read_all(path, source)
    assert good
    noticed = 0
    for at in flips(path, 400, len(name)):
        try:
            found = read_all(path, source)
        except (blosc2.FormatError, KeyError):
            noticed += 1
        else:
            assert is_right(found, good), at
            noticed += found.keys() != good.keys()
    assert noticed >= 200


# ---------------------------------------------------------------------- what is checked, and what is not


def flip(path: Path, key: str, chunk: int | None = 0, behind: int = 200) -> None:
    """Change a byte of a stored chunk of a leaf, or that many bytes behind its first."""
    with blosc2.open(str(path), verify=False) as store:
        frame = store[key]._handle.frame
        at = (frame.offset if chunk is None else frame.chunk_info(chunk)[0] + 32) + behind
    data = bytearray(path.read_bytes())
    data[at] ^= 64
    path.write_bytes(data)


def test_which_leaves_carry_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    own(path)
    with blosc2.open(str(path)) as store:
        for key in "/small/0", "/value":
            assert store[key]._handle.frame.frame_len <= SMALL_MEMBER
            assert store[key]._handle.frame.checksums_len == 0
        for key in "/medium", "/large", "/noise":
            assert store[key]._handle.frame.frame_len > SMALL_MEMBER
            assert 28 <= store[key]._handle.frame.checksums_len <= 30 + 4 * store[key].schunk.nchunks
        assert blosc2.ndarray_from_cframe(store["/large"].to_cframe())._handle.frame.checksums_len == 0
    assert blosc2.check(str(path)).ok


def test_a_small_leaf_is_checked_when_it_is_opened(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    own(path)
    flip(path, "/small/2", behind=8)
    with blosc2.open(str(path), mmap_mode=source) as store:
        for read in (lambda: store["/small/2"], lambda: store.read("/small/2"), lambda: store.get("/small/2"),
                     lambda: store.read_many(["/small/1", "/small/2"])):  # fmt: skip
            with pytest.raises(blosc2.FormatError, match="checksum") as error:
                read()
            assert str(path) in str(error.value)
            assert "/small/2" in str(error.value)
            assert error.value.offset is not None
            assert "salvage" in str(error.value)
        np.testing.assert_array_equal(store["/small/1"][:], SMALL + 1)
        np.testing.assert_array_equal(store.read("/small/3"), SMALL + 3)
    with blosc2.open(str(path), mmap_mode=source, verify=False) as store:
        wrong = store["/small/2"][:]
        assert (wrong != SMALL + 2).any()
        np.testing.assert_array_equal(store.read("/small/2"), wrong)
        np.testing.assert_array_equal(store.read_many(["/small/2"])[0], wrong)
    with blosc2.open(str(path), mode="a") as store, pytest.raises(blosc2.FormatError, match="checksum"):
        store["/small/2"]
    with blosc2.open(str(path), mode="a", verify=False) as store:
        np.testing.assert_array_equal(store["/small/2"][:], wrong)


def test_whole_chunks_of_large_leaves_are_checked_and_parts_are_not(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    own(path)
    flip(path, "/noise", 1)
    with blosc2.open(str(path), mmap_mode=source) as store:
        leaf = store["/noise"]
        for whole in (lambda: leaf[:], lambda: leaf[7000:14000], lambda: leaf.schunk.decompress_chunk(1),
                      lambda: store.read("/noise"), lambda: store.read_many(["/noise", "/noise"])):  # fmt: skip
            with pytest.raises(blosc2.FormatError, match="checksum"):
                whole()
        np.testing.assert_array_equal(leaf[:7000], NOISE[:7000])
        assert leaf[7000:7500].shape == (500,)  # a part: nobody looked at its bytes
    with blosc2.open(str(path), mmap_mode=source, verify=True) as store, pytest.raises(blosc2.FormatError):
        store["/noise"][7000:7500]
    with blosc2.open(str(path), mmap_mode=source, verify=False) as store:
        assert (store["/noise"][:] != NOISE).sum() == 1
        assert (store.read("/noise") != NOISE).sum() == 1
        assert (store.read_many(["/noise"])[0] != NOISE).sum() == 1


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("behind", [66, None, -1])
def test_frames_without_checksums_are_checked_by_who_reads_all(
    tmp_path: Path, source: str | None, behind: int | None, threads: int
) -> None:
    """A chunk, the header, or the trailer, of leaves of one chunk and of several, compressed or not."""
    path = tmp_path / "x.b2z"
    items = np.random.default_rng(0).normal(size=(200, 1000)).round(1)
    for clevel in (0, 5):
        for chunks in ((200, 1000), (60, 300)):
            array = blosc2.asarray(items, chunks=chunks, blocks=(20, 100), cparams={"clevel": clevel})
            plain(path, {"/x": array})
            before = blosc2.set_nthreads(threads)
            try:
                with blosc2.open(str(path), mmap_mode=source) as store:
                    np.testing.assert_array_equal(store["/x"][:], items)
                    np.testing.assert_array_equal(store["/x"].schunk[:], array.schunk[:])
                    size = store["/x"]._handle.frame.frame_len
                if behind is None:
                    flip(path, "/x", None, 60_000)
                else:
                    flip(path, "/x", None, behind % size)
                with blosc2.open(str(path), mmap_mode=source) as store:
                    leaf = store["/x"]
                    with pytest.raises(blosc2.FormatError):
                        leaf[:]
                    with pytest.raises(blosc2.FormatError):
                        leaf.schunk[:]
                    with pytest.raises(blosc2.FormatError):
                        store.read("/x")
                with blosc2.open(str(path), mode="a") as store, pytest.raises(blosc2.FormatError):
                    store["/x"][...]
            finally:
                blosc2.set_nthreads(before)


def test_chunks_in_any_order_and_holes_between_them(tmp_path: Path, source: str | None) -> None:
    """Frames that were changed in place, which put new chunks at their ends."""
    file = tmp_path / "x.b2frame"
    made = blosc2.SChunk(chunksize=8000, data=NOISE.tobytes(), cparams={"clevel": 0}, urlpath=str(file))
    made.update_data(0, NOISE[8000:16000].tobytes(), copy=True)
    made.insert_data(0, NOISE[:8000].tobytes(), copy=True)
    raw = bytearray(file.read_bytes())
    raw[86] = 0  # no checksums
    path = tmp_path / "x.b2z"
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("x.b2f", raw)
        z.writestr("embed.b2e", blosc2.EmbedStore().to_cframe())
    with blosc2.open(str(path), mmap_mode=source) as store:
        good = store["/x"][:]
    assert good == made[:]
    for at in np.linspace(0, len(raw) - 1, 60).astype(int):
        damaged = bytearray(raw)
        damaged[at] ^= 4
        data = path.read_bytes()
        start = data.index(bytes(raw[:80]))
        path.write_bytes(data[:start] + damaged + data[start + len(raw) :])
        with blosc2.open(str(path), mmap_mode=source) as store, pytest.raises(blosc2.FormatError):
            store["/x"][:]
        path.write_bytes(data)


def test_what_a_leaf_of_others_does_not_say_for_free(tmp_path: Path, source: str | None) -> None:
    """Parts of its chunks, and its chunks one by one, when it is no small one."""
    path = tmp_path / "x.b2z"
    plain(path, {"/noise": blosc2.asarray(NOISE, chunks=(7000,), cparams={"clevel": 0})})
    flip(path, "/noise", 1)
    with blosc2.open(str(path), mmap_mode=source) as store:
        assert (store["/noise"][7000:14000] != NOISE[7000:14000]).sum() == 1
        with pytest.raises(blosc2.FormatError, match="checksum"):
            store["/noise"][:]
    with blosc2.open(str(path), mmap_mode=source, verify=True) as store, pytest.raises(blosc2.FormatError):
        store["/noise"]


def test_embedded_values_of_others(tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "x.b2z"
    for count in (1, 60):  # in one that is checked when the archive is opened, and in one that is when it is needed
        plain(path, {}, {f"/{number}": SMALL + number for number in range(count)})
        data = bytearray(path.read_bytes())
        with blosc2.open(str(path), mmap_mode=source) as store:
            at = store["/0"]._handle.frame.offset + 40
            np.testing.assert_array_equal(store["/0"][:], SMALL)
        data[at] ^= 1
        path.write_bytes(data)
        with pytest.raises(blosc2.FormatError, match="checksum"), blosc2.open(str(path), mmap_mode=source) as store:
            store["/0"]


def test_changed_leaves_get_new_checksums(tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    of_others(path)
    with blosc2.open(str(path), mode="a") as store:
        store["/large"][3] = 1
        store["/noise"].vlmeta["a"] = 1
    with blosc2.open(str(path)) as store:
        assert store["/large"]._handle.frame.checksums_len
        assert store["/noise"]._handle.frame.checksums_len
    assert blosc2.check(str(path)).ok
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None


def test_leaves_move_between_stores_with_and_without_checksums(tmp_path: Path) -> None:
    own(tmp_path / "x.b2z")
    with blosc2.open(str(tmp_path / "x.b2z")) as store:
        store.to_b2d(str(tmp_path / "y.b2d"))
        with blosc2.open(str(tmp_path / "y.b2d")) as other:
            other.to_b2z(filename=str(tmp_path / "z.b2z"))
            for name in "y.b2d", "z.b2z":
                with blosc2.open(str(tmp_path / name)) as copy:
                    for key, value in read_all(tmp_path / "x.b2z", None).items():
                        np.testing.assert_array_equal(copy[key][...], value)
                assert blosc2.check(str(tmp_path / name)).ok


# ---------------------------------------------------------------------- the checksum itself


@pytest.mark.parametrize("way", range(ZIP_WAYS))
def test_every_way_gives_the_checksum_of_zlib(way: int) -> None:
    data = np.random.default_rng(1).bytes(5000)
    for size in (*range(700), 1023, 1024, 1025, 4095, 4096, 4999):
        for start in (0, 1, size % 17):
            part = data[start : start + size]
            assert crc32(part, 0x1234, way=way) == zlib.crc32(part, 0x1234)
    assert crc32(data) == zlib.crc32(data)
    with pytest.raises(ValueError, match="ways"):
        crc32(b"1", way=ZIP_WAYS)


def test_the_directory_has_what_zlib_computes(tmp_path: Path) -> None:
    own(tmp_path / "x.b2z")
    archive = Archive(Source.open(str(tmp_path / "x.b2z")))
    for number in range(len(archive)):
        assert archive.crc(number) == zlib.crc32(archive.source.read(*archive.byte_range(number)))
