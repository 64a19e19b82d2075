"""Catalogs of `.b2z` files: the same answers as without, whatever is in them.

The bytes are taken apart here by doc/format/catalog.md, not by the package.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.catalogs import (
    FOOTER,
    NAME,
    answers,
    archive_at,
    catalog_of,
    compare,
    full_tree,
    make,
    parts,
)
from fixture_kit.siphash import siphash13

import blosc2
from blosc2._backends.zip import publishing as zip_backend

USUAL = zip_backend.CATALOG_LEAST


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


def without(path: Path) -> Path:
    """A copy of a store whose catalog does not look like one."""
    copy = path.with_name("without-" + path.name)
    data = bytearray(path.read_bytes())
    at = archive_at(path).directory_offset - FOOTER
    assert data[at : at + 8] == b"b2catlog"
    data[at : at + 8] = b"nothing!"
    copy.write_bytes(data)
    assert catalog_of(copy) is None
    return copy


@pytest.fixture
def full(tmp_path: Path) -> Path:
    return full_tree(tmp_path / "full.b2z")


# ---------------------------------------------------------------------- the same answers
@pytest.mark.parametrize("kind", [blosc2.TreeStore, blosc2.DictStore])
def test_the_same_answers(full: Path, source: str | None, kind: Any) -> None:
    plain = answers(without(full), source, kind)
    assert answers(full, source, kind) == plain
    assert len(plain["keys"]) > 50
    assert plain["there"] == (["/scans", "/g/h", "g/h/c"] if kind is blosc2.TreeStore else ["g/h/c"])


@pytest.mark.parametrize("count", [255, 256])
def test_only_stores_of_many_leaves_have_one(tmp_path: Path, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", USUAL)
    path = make(tmp_path / "s.b2z", {f"/{n}": np.int8(n % 100) for n in range(count)})
    assert (catalog_of(path) is not None) == (count >= 256)
    assert (NAME in zipfile.ZipFile(path).namelist()) == (count >= 256)
    compare(path, {f"/{n}": np.int8(n % 100) for n in range(count)})


def test_it_is_the_last_member_and_no_key(full: Path) -> None:
    with zipfile.ZipFile(full) as z:
        assert z.testzip() is None
        names = z.namelist()
        assert names[-1] == NAME
        assert names.count(NAME) == 1
        data = z.read(NAME)
        leaves = [name for name in names if name.endswith((".b2nd", ".b2f", ".b2b"))]
    assert [name.rpartition(".")[0].encode() for name in leaves] == sorted(
        name.rpartition(".")[0].encode() for name in leaves
    )
    assert full.read_bytes()[archive_at(full).directory_offset - len(data) :].startswith(data)
    for kind in (blosc2.TreeStore, blosc2.DictStore):
        with kind(str(full), mode="r") as store:
            assert not any(".b2" in key for key in store)
            assert "/.b2/catalog" not in store
    with blosc2.TreeStore(str(full), mode="a") as store, pytest.raises(ValueError, match="reserved"):
        store["/.b2/catalog"] = [1]


def test_the_layout(full: Path) -> None:
    """Each section by the document, read by hand."""
    archive = archive_at(full)
    footer, sections = parts(full.read_bytes(), archive)
    directory = archive.source.read(archive.directory_offset, archive.directory_size)
    at = 0
    records: dict[str, tuple[int, int]] = {}
    while at < len(directory):
        length = 46 + sum(struct.unpack_from("<3H", directory, at + 28))
        name = directory[at + 46 : at + 46 + int.from_bytes(directory[at + 28 : at + 30], "little")].decode()
        records[name] = at, length
        at += length
    leaves = {n.rpartition(".")[0]: at for n, (at, _) in records.items() if n not in (NAME, "embed.b2e")}
    assert footer["leaves"] == len(leaves)
    assert footer["members"] == len(records)
    assert footer["embed"] == records["embed.b2e"][0]
    assert footer["own_record"] == records[NAME][0]
    assert footer["first_record"] == min(leaves.values())
    entries = [struct.unpack_from("<3Q4I", sections["leaves"], 40 * n) for n in range(len(leaves) + 1)]
    assert [entry[0] for entry in entries] == [*sorted(leaves.values()), records[NAME][0]]
    keys = sorted(leaves)
    assert [leaves[key] for key in keys] == [entry[0] for entry in entries[:-1]]
    # Every key is found by the rule, and every slot is that of a key.
    slots = struct.unpack(f"<{footer['slot_count']}Q", sections["slots"][: 8 * footer["slot_count"]])
    paths = dict(leaves)
    for key in reversed(keys):  # a group has the offset of the first leaf below it
        paths |= {key[:at] + "/": leaves[key] for at, c in enumerate(key) if c == "/"}
    assert sum(slot != 0 for slot in slots) == len(paths)
    for path, offset in paths.items():
        hashed = siphash13(footer["seed0"], footer["seed1"], path.rstrip("/").encode())
        slot = (hashed & 0xFFFFFFFF) * footer["homes"] >> 32
        while slots[slot] != (hashed >> 40 << 40 | offset + 1):
            assert slots[slot] != 0
            slot += 1
    # The running sums are those of the leaves' own sizes.
    with blosc2.DictStore(str(full), mode="r") as store:
        opened = [store["/" + key] for key in keys]
        sizes = [(leaf.nbytes, getattr(leaf, "schunk", leaf).cbytes) for leaf in opened]
    for n, (nbytes, cbytes) in enumerate(sizes):
        assert (entries[n + 1][1] - entries[n][1], entries[n + 1][2] - entries[n][2]) == (nbytes, cbytes)
    groups = {key[:i] for key in keys for i, c in enumerate(key) if c == "/"}
    assert footer["groups"] == entries[-1][3] == len(groups - set(keys))
    hidden = [key for key in keys if key.rpartition("/")[2] == "__vlmeta__"]
    assert footer["hidden"] == entries[-1][4] == len(hidden)
