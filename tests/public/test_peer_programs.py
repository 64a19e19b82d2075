"""What programs of others showed, when they were run with this package (see `doc/coming-from/compatibility.md`)."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

ITEMS = np.arange(24.0).reshape(4, 6)


# ------------------------------------------------------------------------------------------- arrays as iterables
@pytest.mark.parametrize("c_order", [True, False])
@pytest.mark.parametrize(
    "source", [ITEMS, ITEMS[::-1], ITEMS.reshape(2, 3, 4), ITEMS.ravel(), np.asfortranarray(ITEMS)]
)
def test_fromiter_of_an_array_with_all_its_items(source: np.ndarray[Any, Any], c_order: bool) -> None:
    for shape in ((4, 6), (24,), (3, 8), (2, 2, 6)):
        half = tuple(-(-n // 2) for n in shape)
        made = blosc2.fromiter(source, shape, "f4", c_order=c_order, chunks=half, blocks=half)
        np.testing.assert_array_equal(made[...], source.reshape(shape).astype("f4"), strict=True)


def test_fromiter_of_an_array_with_other_items() -> None:
    for shape in ((2, 6), (5, 6), 7):
        with pytest.raises(ValueError, match="does not have the items"):
            blosc2.fromiter(ITEMS, shape, "f4")
    # One axis is an iterable as any other.
    assert blosc2.fromiter(np.arange(9), (2, 3), "i4")[...].tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.raises(ValueError, match="too short"):
        blosc2.fromiter(np.arange(9), (2, 5), "i4")


# -------------------------------------------------------------------------------------------------- file:// URLs
def test_file_urls_are_paths(tmp_path: Path) -> None:
    path = tmp_path / "a name with % and ü.b2nd"
    blosc2.asarray(ITEMS, urlpath=path.as_uri(), mode="w")
    assert [found.name for found in tmp_path.iterdir()] == [path.name]
    for url in (path.as_uri(), path.as_uri().replace("file://", "FILE://localhost")):
        for mmap_mode in (None, "r"):
            np.testing.assert_array_equal(blosc2.open(url, mmap_mode=mmap_mode)[...], ITEMS)
    for suffix in (".b2d", ".b2z", ".b2e"):
        store = tmp_path / f"x{suffix}"
        kind = blosc2.EmbedStore if suffix == ".b2e" else blosc2.TreeStore
        with kind(store.as_uri(), mode="w") as written:
            written["/a"] = ITEMS
        with blosc2.open(store.as_uri()) as opened:
            np.testing.assert_array_equal(opened["/a"][...], ITEMS)


@pytest.mark.parametrize("url", ["file://elsewhere/x.b2nd", "file:///x.b2nd?version=1", "file:///x.b2nd#a"])
def test_file_urls_that_are_no_paths(url: str) -> None:
    with pytest.raises(ValueError, match=r"x\.b2nd.*: a file"):
        blosc2.open(url)


# ------------------------------------------------------------------------------------------- what is said, and is
@pytest.mark.parametrize("suffix", [".b2d", ".b2z"])
def test_info_of_a_dict_store_lists_its_keys(tmp_path: Path, suffix: str) -> None:
    with blosc2.DictStore(tmp_path / f"x{suffix}", mode="w") as store:
        assert dict(store.info_items)["contents"] == ""
        store["/g/b"], store["/a&"] = 1.5 * ITEMS, ITEMS
        assert dict(store.info_items)["contents"] == "/a&\n/g/b"
        assert "/a&amp;\n/g/b" in store.info._repr_html_()
        for n in range(200):
            store[f"/n/{n}"] = ITEMS[0]
        lines = str(dict(store.info_items)["contents"]).split("\n")
        assert (len(lines), lines[0], lines[-1]) == (21, "/a&", "...")


def test_info_of_a_group_names_it(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "x.b2z", mode="w") as store:
        store["/g/h/a"] = ITEMS
        for group, want in (
            ("/g/h", "/g/h\n└── a"),
            ("/g", "/g\n└── h\n    └── a"),
            ("/", "/\n└── g\n    └── h\n        └── a"),
        ):
            assert dict(store.get_subtree(group).info_items)["contents"] == want
            assert "h\n" in str(store.info)
        for n in range(200):
            store[f"/n/{n}"] = ITEMS[0]
        lines = dict(store.info_items)["contents"].split("\n")
        assert (len(lines), lines[0], lines[-1]) == (21, "/", "...")


def test_attributes_are_one_object(tmp_path: Path) -> None:
    for kind in (blosc2.SChunk, blosc2.ObjectArray, blosc2.BatchArray, lambda **how: blosc2.zeros(3, **how)):
        handle = kind(urlpath=str(tmp_path / "x"), mode="w", contiguous=True)
        assert handle.attrs is handle.vlmeta
        handle.attrs["unit"] = "K"
        assert blosc2.open(tmp_path / "x").vlmeta["unit"] == "K"


def test_fields_say_how_to_assign() -> None:
    array = blosc2.zeros(3, dtype="i4, f8")
    with pytest.raises(TypeError, match=r'array\.fields\["f1"\]\[:\] = values'):
        array.fields["f1"] = np.ones(3)
    array.fields["f1"][:] = np.ones(3)
    assert array[...].tolist() == [(0, 1.0)] * 3


def test_a_byte_range_of_what_is_not_there(tmp_path: Path) -> None:
    with blosc2.TreeStore(tmp_path / "x.b2z", mode="w") as store:
        store["/g/a"] = ITEMS
        store.flush()
        assert store.member_window("/g/a") is not None
        assert [store.member_window(key) for key in ("/g", "/g/b", "/none")] == [None] * 3


@pytest.mark.parametrize("whole_folder", [False, True])
def test_a_file_that_was_removed_needs_no_disk(tmp_path: Path, whole_folder: bool) -> None:
    """All was published, and who removed it wanted that: closing does not complain, and brings nothing back."""
    folder = tmp_path / "folder"
    folder.mkdir()
    store = blosc2.EmbedStore(folder / "x.b2e", mode="w")
    store["/a"] = store["/b"] = ITEMS  # the second by an append
    shutil.rmtree(folder) if whole_folder else (folder / "x.b2e").unlink()
    store.close()
    assert not (folder / "x.b2e").exists()
