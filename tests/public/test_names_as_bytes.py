"""Names of metadata given as bytes, as programs for the published package do: they are the text of the same letters.

What is expected is what a dict with names as text gives, which is what the published package answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2

KINDS = ["array", "array on disk", "super-chunk", "objects", "batches", "tree", "group", "leaf"]


@pytest.fixture(params=KINDS)
def attributes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The changeable metadata of each kind of object; `attrs` is another name of it."""
    kind = request.param
    if kind in ("tree", "group", "leaf"):
        with blosc2.TreeStore(tmp_path / "tree.b2z", mode="w") as store:
            store["/g/a"] = np.arange(3)
            yield (store if kind == "tree" else store.get_subtree("/g") if kind == "group" else store["/g/a"]).attrs
    else:
        made = {
            "array": lambda: blosc2.zeros(3),
            "array on disk": lambda: blosc2.zeros(3, urlpath=tmp_path / "a.b2nd"),
            "super-chunk": blosc2.SChunk,
            "objects": blosc2.ObjectArray,
            "batches": blosc2.BatchArray,
        }[kind]()
        yield made.vlmeta


def test_changeable_metadata(attributes: Any) -> None:
    attributes[b"unit"] = "K"
    attributes["spacing"] = 2
    attributes.update({"ä".encode(): 3, b"spacing": 4})
    assert attributes[:] == {"unit": "K", "spacing": 4, "ä": 3}
    assert [attributes[name] for name in (b"unit", "unit", bytearray(b"unit"), "ä".encode())] == ["K", "K", "K", 3]
    assert [name in attributes for name in (b"unit", "ä".encode(), b"other")] == [True, True, False]
    assert (attributes.get(b"unit"), attributes.get(b"other", 7)) == ("K", 7)
    assert (attributes.setdefault(b"unit", 1), attributes.setdefault(b"new", 1)) == ("K", 1)
    assert (attributes.pop(b"new"), attributes.pop(b"new", 9)) == (1, 9)
    del attributes["ä".encode()]
    attributes[:] = {b"time": 5}
    assert set(attributes) == {"unit", "spacing", "time"}
    for name in ("unit", "spacing", "time"):
        del attributes[name.encode()]
    assert len(attributes) == 0
    for act in (lambda: attributes[b"unit"], lambda: attributes.__delitem__(b"unit"), lambda: attributes.pop(b"unit")):
        with pytest.raises(KeyError, match="unit"):
            act()


def test_names_that_are_no_text(attributes: Any) -> None:
    attributes["k"] = 1
    assert [name in attributes for name in (b"\xff", "\ud800")] == [False, False]
    for name in (b"\xff", "\ud800"):
        with pytest.raises(KeyError) as caught:
            attributes[name]
        str(caught.value).encode()
        with pytest.raises(ValueError, match="UTF-8") as refused:
            attributes[name] = 1
        str(refused.value).encode()
        assert not isinstance(refused.value, UnicodeError)
    with pytest.raises(ValueError, match="UTF-8 cannot express"):
        attributes["k"] = ["\ud800"]
    assert attributes[:] == {"k": 1}


def test_stored_as_they_are(tmp_path: Path) -> None:
    schunk = blosc2.SChunk()
    schunk.vlmeta.set_vlmeta(b"raw", b"\x05")
    assert schunk.vlmeta.get_vlmeta(b"raw") == b"\x05"
    schunk.vlmeta.del_vlmeta(b"raw")
    assert schunk.vlmeta.get_names() == []


@pytest.mark.parametrize(
    "make",
    [
        lambda meta: blosc2.SChunk(meta=meta),
        lambda meta: blosc2.SChunk(storage=blosc2.Storage(meta=meta)),
        lambda meta: blosc2.zeros(3, meta=meta),
        lambda meta: blosc2.asarray(np.arange(3), meta=meta),
        lambda meta: blosc2.ObjectArray(meta=meta),
        lambda meta: blosc2.BatchArray(meta=meta),
    ],
)
def test_fixed_metadata(make: Any) -> None:
    meta = make({b"unit": "K", "n": 1}).meta
    assert (meta["unit"], meta[b"unit"], meta.get(b"n"), b"unit" in meta, b"other" in meta) == (
        "K",
        "K",
        1,
        True,
        False,
    )
    assert {"unit", "n"} <= set(meta)
    meta[b"unit"] = "C"
    assert meta["unit"] == "C"
    with pytest.raises(KeyError, match="other"):
        meta[b"other"]
    with pytest.raises(ValueError, match="UTF-8"):
        make({b"\xff": 1})


def test_the_entry_of_a_list_of_batches_stays(tmp_path: Path) -> None:
    batches = blosc2.BatchArray()
    batches.append([1, 2, 3])
    name = "_batch_array_metadata"
    kept = batches.vlmeta[name]
    for act in (
        lambda: batches.vlmeta.__setitem__(name.encode(), 1),
        lambda: batches.vlmeta.update({name.encode(): 1}),
        lambda: batches.vlmeta.set_vlmeta(name.encode(), b"\x01"),
        lambda: batches.vlmeta.__delitem__(name.encode()),
    ):
        with pytest.raises(ValueError, match="changed with them alone"):
            act()
    batches.vlmeta[b"unit"] = "K"
    batches.vlmeta.clear()
    assert dict(batches.vlmeta) == {name: kept}


def test_fixed_metadata_of_a_store(tmp_path: Path) -> None:
    blosc2.EmbedStore(tmp_path / "a.b2e", mode="w", meta={b"unit": "K"}).close()
    assert blosc2.blosc2_ext.open(str(tmp_path / "a.b2e"), "r", 0).meta["unit"] == "K"


def test_geometry_by_its_name_as_bytes() -> None:
    array = blosc2.zeros((1,) * 16)
    assert array.meta[b"b2nd"] == array.meta["b2nd"]
    with pytest.raises(ValueError, match="written by the library"):
        array.meta[b"b2nd"] = array.meta["b2nd"]
    with pytest.raises(ValueError, match="written by the library"):
        blosc2.zeros(3, meta={b"b2nd": 1})
