"""The last write of a `.b2z` of which a disk took one sector and not the other, and files that were cut short later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from store_makers import before_sync

import blosc2
from blosc2._backends.zip.unfinished_append import END_WITH_CHECKSUM

SECTOR = 512
NOISE = np.random.default_rng(5).integers(0, 256, 2 * SECTOR, np.uint8)


def crossing(path: Path, cut: int) -> tuple[bytes, int]:
    """A store of two versions, the last of whose end record has so many bytes before a border; and its first end."""
    size = 0
    for _ in range(3):
        with blosc2.DictStore(str(path), mode="w") as store:
            store["/old"] = np.arange(3)
            store.flush()
            first = path.stat().st_size
            store["/new"] = np.arange(3)
            store["/noise"] = NOISE[: SECTOR + size]  # each byte of it is one more before the end record
        missing = (END_WITH_CHECKSUM - cut - path.stat().st_size) % SECTOR
        if not missing:
            return before_sync(path.read_bytes()), first
        size = (size + missing) % SECTOR
    raise AssertionError("the border is not met")


@pytest.mark.parametrize("cut", range(1, END_WITH_CHECKSUM))
def test_one_sector_of_the_last_write(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "x.b2z"
    data, first = crossing(path, cut)
    border = len(data) - END_WITH_CHECKSUM + cut
    assert border % SECTOR == 0
    states = {
        "the second": data[: border - cut] + bytes(cut) + data[border:],
        "the first": data[:border] + bytes(len(data) - border),
        "the first, and no more": data[:border],
        "none": data[: border - cut] + bytes(END_WITH_CHECKSUM),
    }
    for which, state in states.items():
        path.write_bytes(state)
        with blosc2.open(str(path)) as store:
            shown = list(store)
        report = blosc2.check(path)
        if shown == ["/old"]:
            assert report.ok, (which, str(report))
            assert any("not finished" in note.problem for note in report.notes), which
            assert [note.offset for note in report.notes if "not finished" in note.problem] == [first]
        else:  # only digits of the checksum are missing
            assert which != "the second"
            assert len(shown) == 3
        with blosc2.DictStore(str(path), mode="a") as store:
            store["/next"] = np.arange(2)
        with blosc2.open(str(path)) as store:
            assert sorted(store) == sorted([*shown, "/next"])


def flushed(path: Path) -> None:
    with blosc2.TreeStore(path, "w") as store:
        for n in range(3):
            store[f"/{n}"] = NOISE
            store.flush(durable=n != 1)


def flushed_lazily(path: Path) -> None:
    with blosc2.TreeStore(path, "w") as store:
        for n in range(3):
            store[f"/{n}"] = NOISE
            store.flush(durable=False)


def reopened(path: Path) -> None:
    for n in range(3):
        with blosc2.TreeStore(path, "a") as store:
            store[f"/{n}"] = NOISE


def converted(path: Path) -> None:
    source = path.with_suffix(".npz")
    np.savez(source, a=NOISE, b=NOISE)
    blosc2.convert(source, path)


@pytest.mark.parametrize("make", [flushed, flushed_lazily, reopened, converted])
def test_a_store_that_was_cut_short_shows_no_older_version(make: Callable[[Path], None], tmp_path: Path) -> None:
    path, cut = tmp_path / "x.b2z", tmp_path / "cut.b2z"
    make(path)
    assert blosc2.check(path).ok
    data = path.read_bytes()
    for size in (*range(0, len(data) - END_WITH_CHECKSUM, 97), len(data) - END_WITH_CHECKSUM):
        cut.write_bytes(data[:size])
        with pytest.raises(blosc2.FormatError):
            blosc2.open(cut)
        assert not blosc2.check(cut).ok
        with pytest.raises(blosc2.FormatError):
            blosc2.TreeStore(cut, "a")
        assert cut.read_bytes() == data[:size]


def test_a_store_that_was_written_anew_keeps_its_only_version(tmp_path: Path) -> None:
    """It ends where the file before had a version."""
    path, noise = tmp_path / "x.b2z", np.random.default_rng(1).integers(0, 256, 300_000, np.uint8)
    for count in (1, 11):
        with blosc2.TreeStore(path, "a") as store:
            for _ in range(count):
                store["/a"] = noise
                store.flush(durable=False)
    np.testing.assert_array_equal(blosc2.open(path)["/a"][:], noise)
