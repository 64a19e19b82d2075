"""A crash in the middle of a change, and another one while the next change is made.

The first leaves an end record of which the disk wrote one sector. The next change cuts that off; were this not durable
before something is written in its place, the second crash could leave one sector of each: a record that looks like
that of a version which was published and is damaged since, and the store would be refused.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from store_makers import before_sync

import blosc2
from blosc2._backends.zip.unfinished_append import END_WITH_CHECKSUM
from faults.crashes import FAST, Surveyor, go_on
from faults.disk import Tree
from faults.stories import stories

SECTOR = 512


def half_written_store(name: str, cut: int) -> tuple[bytes, bytes]:
    """A store whose last end record has so many bytes in one sector: without these, and without the others."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        path = Path(folder, name)
        with blosc2.TreeStore(str(path), mode="w", threshold=None) as store:
            store["/a"] = np.arange(100)
        for size in range(1, 3 * SECTOR):
            data = path.read_bytes()
            trial = Path(folder, "trial.b2z")
            trial.write_bytes(data)
            with blosc2.TreeStore(str(trial), mode="a") as store:
                store["/b"] = np.random.default_rng(size).integers(0, 256, size, "u1")
            made = before_sync(trial.read_bytes())
            if -(len(made) - END_WITH_CHECKSUM) % SECTOR == cut:
                border = len(made) - END_WITH_CHECKSUM + cut
                return made[: border - cut] + bytes(cut) + made[border:], made[:border] + bytes(END_WITH_CHECKSUM - cut)
    raise AssertionError("no size of the leaf puts the end record there")


@pytest.mark.parametrize("cut", [3, 7, 20])
def test_what_is_cut_off_is_gone_before_something_takes_its_place(cut: int) -> None:
    kind = stories()["tree b2z embedded"].kind
    for state in half_written_store(kind.name, cut):
        with tempfile.TemporaryDirectory(dir=FAST) as folder:
            Path(folder, kind.name).write_bytes(state)
            tree, _ = Tree.load(Path(folder))
        surveyor = Surveyor(kind, ["free"], limit=10, samples=100)
        surveyor.survey(go_on(kind), tree)
        assert surveyor.found.states > 10
        assert not surveyor.found.broken, "\n".join(surveyor.found.broken[:3])
