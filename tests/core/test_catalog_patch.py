"""Catalogs that are made of the last one: what they say is what the directory and the leaves say, after any changes."""

from __future__ import annotations

import random
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


def seeds(path: Path) -> tuple[int, int]:
    catalog = catalog_of(path)
    assert catalog is not None
    return catalog.seed0, catalog.seed1


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


@pytest.mark.parametrize("number", [255, 256, 257, 700, 5000])
def test_a_tree_that_changes_little_at_a_time(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Around the number of leaves from which on there is a catalog, and across pages and tallies."""
    monkeypatch.setattr(zip_backend, "CATALOG_LEAST", 256)
    rng = random.Random(number)
    path = tmp_path / "s.b2z"
    model = {f"/g{n % 3}/h{n % 7}/k{n}": np.full(3, n, "i4") for n in range(number)}
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.update(model)
    kept = 0
    with blosc2.TreeStore(str(path), mode="a") as store:
        for turn in range(12):
            before = seeds(path) if len(model) >= 256 else None
            for _ in range(rng.randrange(1, 12)):
                what, key = rng.randrange(4), rng.choice(sorted(model))
                if what == 0:
                    del store[key], model[key]
                elif what == 1:
                    store[key] = model[key] = np.full(rng.randrange(1, 4), turn, "f8")
                elif what == 2:
                    store[f"/g{turn}/new/k{rng.random()}"] = model[f"/g{turn}/new/k"] = np.zeros(2)
                    del store[next(k for k in store if k.startswith(f"/g{turn}/new/k0."))], model[f"/g{turn}/new/k"]
                else:
                    store[f"/g1/h{turn}/n{turn}"] = model[f"/g1/h{turn}/n{turn}"] = np.full(4, turn, "u1")
            if turn == 5:
                store.get_subtree("/g1").attrs["note"] = turn
            store.flush()
            if len(model) >= 260:
                check_catalog(path, {*model, "/g1/__vlmeta__"} if turn >= 5 else model)
                kept += before == seeds(path)
            assert blosc2.check(str(path)).ok
    if number >= 700:
        assert kept == 12  # none of them made anew
    with blosc2.TreeStore(str(path), mode="r") as store:
        assert {key for key in store if not isinstance(store[key], blosc2.TreeStore)} == set(model)
        for key, leaf in model.items():
            np.testing.assert_array_equal(store[key][()], leaf)


def test_a_hash_that_gets_too_full_is_made_anew(tmp_path: Path) -> None:
    path = make(tmp_path / "s.b2z", {f"/k{n}": value(0) for n in range(400)})
    model = {f"/k{n}": None for n in range(400)}
    first = seeds(path)
    found = []
    with blosc2.DictStore(str(path), mode="a") as store:
        for turn in range(8):
            for n in range(20):
                store[f"/new{turn}-{n}"] = value(n)
                model[f"/new{turn}-{n}"] = None
            store.flush()
            check_catalog(path, model)
            found.append(seeds(path))
    # 400 paths with 700 homes: up to 466 of them.
    assert found[:3] == [first] * 3
    assert found[3] != first
    assert found[3:6] == [found[3]] * 3


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
