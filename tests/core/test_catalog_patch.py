"""Catalogs that are made of the last one: what they say is what the directory and the leaves say, after any changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.catalogs import SKIPPED, SUFFIXES, catalog_of, compare, make, parts
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blosc2
from blosc2._backends.zip import publishing as zip_backend
from blosc2._core.io.source import Source
from blosc2._core.keys.keytable import KeyTable
from blosc2._core.keys.listing import KeyListing
from blosc2._core.zip.archive import Archive

SHAPES: list[tuple[int, ...]] = [(3,), (2, 5), (), (4, 1, 3), (7,)]
DTYPES = ["<i8", "<f4", "|u1", ">i2", "<c16", "<U3", "<M8[s]"]


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store gets a catalog, however small it is."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 1)


def value(n: int) -> Any:
    return np.zeros(SHAPES[n % len(SHAPES)], DTYPES[n % len(DTYPES)])


def groups_of(keys: Any) -> set[str]:
    return {key[:at] for key in keys for at in range(1, len(key)) if key[at] == "/"}


def check_catalog(path: Path, keys: Any, others: Any = ()) -> None:
    """The catalog is whole, and its hash finds these keys and their groups, and no others."""
    report = blosc2.check(str(path))
    assert report.ok, list(report)
    archive = Archive(Source.open(str(path)))
    assert archive.catalog is not None
    table = KeyTable.of_archive(archive, SUFFIXES, SKIPPED)
    listing = KeyListing(table)
    groups = groups_of(keys)
    assert all(table.find(key) >= 0 for key in keys)
    assert listing.below() == sorted(keys)
    assert all(listing.has_group(group) for group in groups)
    for other in others:
        assert (table.find(other) >= 0) == (other in keys)
        assert listing.has_group(other) == (other in groups)
    assert table.cataloged
    # Slots: one for each path, and nothing that leads elsewhere.
    fields, sections = parts(path.read_bytes(), archive)
    slots = np.frombuffer(sections["slots"], "<u8")[: fields["slot_count"]]
    assert np.count_nonzero(slots) == len(keys) + len(groups)
    assert 3 * np.count_nonzero(slots) <= 2 * fields["homes"]
    assert slots[-1] == 0


segments = st.sampled_from(["a", "b", "a-b", "a.b", "a+", "c", "é", "_meta", "x" * 30, "0"])
some_keys = st.lists(segments, min_size=1, max_size=4).map(lambda names: "/" + "/".join(names))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(some_keys, min_size=1, max_size=60, unique=True),
    st.lists(st.lists(st.tuples(some_keys, st.integers(0, 40)), min_size=1, max_size=9), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_changes(
    tmp_path_factory: pytest.TempPathFactory, keys: list[str], changes: list[list[tuple[str, int]]], reopen: bool
) -> None:
    """Leaves of a `DictStore`, in which a leaf may be named like a group, come, go and are replaced."""
    path = tmp_path_factory.mktemp("patch") / "s.b2z"
    fill = [f"/fill/{n % 5}/{n}" for n in range(60)]
    model = {key: value(n) for n, key in enumerate([*keys, *fill])}
    model = {key: leaf for key, leaf in model.items() if key.lower() == key}
    with blosc2.DictStore(str(path), mode="w") as store:
        for key, leaf in model.items():
            store[key] = leaf
    store = blosc2.DictStore(str(path), mode="a")
    gone: set[str] = set()
    for some in changes:
        for key, n in some:
            if n % 3 == 0 and key in model:
                del store[key], model[key]
                gone.add(key)
            elif n % 5 == 1 and fill[n] in model:
                del store[fill[n]], model[fill[n]]
                gone.add(fill[n])
            else:
                store[key] = model[key] = value(n)
        store.flush()
        check_catalog(path, model, gone | groups_of(gone))
        if reopen:
            store.close()
            store = blosc2.DictStore(str(path), mode="a")
    store.close()
    compare(path, model)


def test_what_the_catalog_claims_wrongly_is_not_kept(tmp_path: Path) -> None:
    """Counts of groups that nobody but a forger would write are found when a writer goes on from them."""
    from fixture_kit.catalogs import with_new_file_checksum

    path = make(tmp_path / "s.b2z", {f"/g{n % 4}/k{n}": value(0) for n in range(100)}, kind=blosc2.DictStore)
    data = bytearray(path.read_bytes())
    archive = Archive(Source.open(str(path)))
    assert archive.catalog is not None
    fields, _ = parts(bytes(data), archive)
    start = archive.directory_offset - fields["size"]
    data[start + 40 * 30 + 24] += 1  # groups before leaf 30
    part = with_new_file_checksum(bytearray(data[: archive.directory_offset]), start, fields["sums"])
    path.write_bytes(bytes(part) + bytes(data[archive.directory_offset :]))
    assert not blosc2.check(str(path)).ok
    with blosc2.DictStore(str(path), mode="a") as store:
        store["/later"] = value(1)
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.seed0, catalog.seed1) != (fields["seed0"], fields["seed1"])
    report = blosc2.check(str(path))
    assert not [finding for finding in report if "catalog" in finding.problem], list(report)


def test_slots_that_nobody_can_tell_apart(tmp_path: Path) -> None:
    """A slot that stands there twice: the hash is made anew rather than guessed at."""
    from fixture_kit.catalogs import with_new_file_checksum

    keys = [f"/k{n}" for n in range(300)]
    path = make(tmp_path / "s.b2z", {key: value(0) for key in keys}, kind=blosc2.DictStore)
    data = bytearray(path.read_bytes())
    archive = Archive(Source.open(str(path)))
    fields, sections = parts(bytes(data), archive)
    slots = np.frombuffer(sections["slots"], "<u8")[: fields["slot_count"]].copy()
    # Behind each run of taken slots, the last of them stands a second time: no search for a key comes there by itself.
    ends = np.flatnonzero((slots[:-1] != 0) & (slots[1:] == 0))
    slots[ends + 1] = slots[ends]
    start = archive.directory_offset - fields["size"]
    at = start + fields["slots"]
    data[at : at + slots.nbytes] = slots.tobytes()
    part = with_new_file_checksum(bytearray(data[: archive.directory_offset]), start, fields["sums"])
    path.write_bytes(bytes(part) + bytes(data[archive.directory_offset :]))
    catalog = catalog_of(path)
    assert catalog is not None
    with blosc2.DictStore(str(path), mode="a") as store:
        for key in keys[:30]:
            del store[key]
    catalog = catalog_of(path)
    assert catalog is not None
    assert (catalog.seed0, catalog.seed1) != (fields["seed0"], fields["seed1"])
    compare(path, {key: value(0) for key in keys[30:]})
