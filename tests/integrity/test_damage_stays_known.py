"""Damage that checksums tell of is told of after changes of other parts, too: it never gets a valid checksum."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2.exceptions import FormatError

ITEMS = np.random.default_rng(1).integers(0, 1 << 40, 40_000)
CHUNK = 4000
DAMAGED = slice(5 * CHUNK, 6 * CHUNK)


def an_item(leaf: Any) -> None:
    leaf[0] = 5


def a_chunk(leaf: Any) -> None:
    leaf[:CHUNK] = 5


def metadata(leaf: Any) -> None:
    leaf.vlmeta["unit"] = "mm"


def more_items(leaf: Any) -> None:
    leaf.append(np.arange(10))


def fewer_items(leaf: Any) -> None:
    leaf.resize((7 * CHUNK,))


Change = Callable[[Any], None]
CHANGES: list[Change] = [an_item, a_chunk, metadata, more_items, fewer_items]


def damage(file: Path) -> None:
    """Flip a bit of the sixth chunk, which is found by what is stored of it."""
    whole = blosc2.asarray(ITEMS, chunks=(CHUNK,), blocks=(1000,)).schunk.get_chunk(5)
    data = bytearray(file.read_bytes())
    data[data.index(whole) + 3000] ^= 1
    file.write_bytes(data)


def store_of(path: Path) -> Path:
    """A store with a damaged leaf and a sound one; the file of the damaged one."""
    array = blosc2.asarray(ITEMS, chunks=(CHUNK,), blocks=(1000,))
    if path.name.startswith("other"):  # no checksums but those of the archive
        blosc2.DictStore(path, mode="w").close()
        with zipfile.ZipFile(path) as file:
            embed = file.read("embed.b2e")
        with zipfile.ZipFile(path, "w") as file:
            file.writestr("embed.b2e", embed)
            file.writestr("leaf.b2nd", array.to_cframe())
            file.writestr("sound.b2nd", array.to_cframe())
    else:
        with blosc2.DictStore(path, mode="w", threshold=0) as store:
            store["/leaf"] = array
            store["/sound"] = array
    damaged = path / "leaf.b2nd" if path.suffix == ".b2d" else path
    damage(damaged)
    return damaged


@pytest.mark.parametrize("name", ["x.b2z", "x.b2d", "other.b2z"])
@pytest.mark.parametrize("change", CHANGES, ids=[change.__name__ for change in CHANGES])
def test_a_change_of_another_part_vouches_for_nothing(change: Change, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    store_of(path)
    refused = "/leaf"
    with blosc2.DictStore(path, mode="a") as store:
        try:
            change(store["/leaf"])
        except FormatError as error:
            refused = str(error)
    assert "/leaf" in refused
    with blosc2.DictStore(path, mode="r") as store:
        with pytest.raises(FormatError, match="checksum"):
            store["/leaf"][:]
        assert np.array_equal(store["/sound"][:], ITEMS)
    assert not blosc2.check(path).ok


@pytest.mark.parametrize("name", ["x.b2z", "x.b2d"])
def test_a_damaged_chunk_can_be_replaced(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    store_of(path)
    with blosc2.DictStore(path, mode="a") as store:
        store["/leaf"][DAMAGED] = ITEMS[DAMAGED]
        assert np.array_equal(store["/leaf"][:], ITEMS)
    assert blosc2.check(path).ok


@pytest.mark.parametrize("name", ["x.b2z", "x.b2d", "other.b2z"])
def test_a_copy_vouches_for_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    store_of(path)
    copies = tmp_path / "copies.b2z"
    with blosc2.DictStore(path, mode="r") as store, blosc2.DictStore(copies, mode="w") as other:
        for key, act in {
            "/assigned": lambda leaf: leaf,
            "/copied": lambda leaf: leaf.copy(),
            "/frame": lambda leaf: blosc2.ndarray_from_cframe(leaf.to_cframe()),
        }.items():
            with pytest.raises(FormatError, match="checksum"):  # now, or when it is read
                other[key] = act(store["/leaf"])
                other.flush()
                other[key][:]


Copy = Callable[[blosc2.NDArray, str], Any]
COPIES: dict[str, Copy] = {
    "slice": lambda array, path: array.slice(slice(0, 8 * CHUNK), urlpath=path),
    "concat": lambda array, path: blosc2.concat([array, array], urlpath=path),
    "concat in memory": lambda array, _: blosc2.concat([array, array]),
    "stack in memory": lambda array, _: blosc2.stack([array, array], axis=1),
    "permute_dims": lambda array, path: blosc2.permute_dims(array, (0,), urlpath=path),
    "copy of a view": lambda array, path: blosc2.expand_dims(array, 0).copy(urlpath=path),
    "copy of a view in memory": lambda array, _: blosc2.expand_dims(array, 0).copy(),
    "assignment": lambda array, path: assigned(array, path),
    "append": lambda array, path: appended(array, path),
}


def assigned(array: blosc2.NDArray, path: str) -> None:
    new = blosc2.zeros(array.shape, array.dtype, chunks=array.chunks, blocks=array.blocks, urlpath=path)
    new[:] = array


def appended(array: blosc2.NDArray, path: str) -> None:
    new = blosc2.zeros(array.chunks, array.dtype, chunks=array.chunks, blocks=array.blocks, urlpath=path)
    new.append(array)


@pytest.mark.parametrize("copy", COPIES.values(), ids=COPIES)
def test_a_copy_of_stored_chunks_vouches_for_nothing(copy: Copy, tmp_path: Path, source: str | None) -> None:
    path = tmp_path / "a.b2nd"
    array = blosc2.asarray(ITEMS, chunks=(CHUNK,), blocks=(1000,), urlpath=path)
    array.flush()
    del array
    damage(path)
    with pytest.raises(FormatError, match=r"a\.b2nd, byte \d+: chunk 5 .* checksum"):
        copy(blosc2.open(path, mmap_mode=source), str(tmp_path / "b.b2nd"))
    if copy in (COPIES["concat"], COPIES["concat in memory"]):  # stored chunks are compared wherever they are copied
        with pytest.raises(FormatError, match=r"chunk 5 .* checksum"):
            copy(blosc2.open(path, mmap_mode=source, verify=False), str(tmp_path / "d.b2nd"))
    with pytest.raises(FormatError, match=r"chunk 5 .* checksum"):  # in memory, with the checksums of the file
        copy(blosc2.ndarray_from_cframe(path.read_bytes()), str(tmp_path / "c.b2nd"))
