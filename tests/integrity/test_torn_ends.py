"""The last write of a `.b2z` of which a disk took one sector and not the other: `check` says what readers say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
            return path.read_bytes(), first
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
