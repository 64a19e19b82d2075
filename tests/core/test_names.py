"""Names of members as keys: those that others wrote."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

import blosc2

FRAME = blosc2.asarray(np.arange(3)).to_cframe()


# ---------------------------------------------------------------------- archives that others wrote
def keys_of(path: Path, members: list[tuple[str, bytes]]) -> list[str]:
    with zipfile.ZipFile(path, "w") as z:
        for name, data in members:
            z.writestr(name, data)
    with blosc2.DictStore(str(path), mode="r") as store:
        return list(store)


@pytest.mark.filterwarnings("ignore:.*suffix")
def test_suffixes_are_cut_once(tmp_path: Path) -> None:
    names = ["embed.b2nd", "a.b2nd", "d/a.b.c.b2f", "d/.b2nd", "x..b2b", "d/e.f/g.b2nd"]
    # A name that begins with its only dot has no suffix: a file with an unknown suffix, which is a frame.
    expected = ["/a", "/d/.b2nd", "/d/a.b.c", "/d/e.f/g", "/embed", "/x."]
    assert (
        keys_of(tmp_path / "x.b2z", [("embed.b2e", blosc2.EmbedStore().to_cframe()), *((n, FRAME) for n in names)])
        == expected
    )


@pytest.mark.filterwarnings("ignore:.*(suffix|more than one)")
def test_of_several_members_for_a_key_the_suffix_decides(tmp_path: Path) -> None:
    """Whichever of them comes first."""
    names = ["a.b2b", "a.b2nd", "a.b2f", "b.unknown", "b.b2b"]
    members = [(name, blosc2.asarray(np.arange(n)).to_cframe()) for n, name in enumerate(names, 1)]
    embed = "embed.b2e", blosc2.EmbedStore().to_cframe()
    for order in (members, members[::-1]):
        path = tmp_path / "x.b2z"
        assert keys_of(path, [embed, *order]) == ["/a", "/b"]
        with blosc2.DictStore(str(path), mode="r") as store:
            assert (store["/a"].shape, store["/b"].shape) == ((2,), (5,))
