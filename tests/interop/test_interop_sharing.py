"""Stores that several handles change in turns are stores for the reference, too, and handles follow what it changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixture_kit import peer

import blosc2

pytestmark = pytest.mark.interop

FORMS = pytest.mark.parametrize(
    ("cls", "suffix", "threshold"),
    [("EmbedStore", ".b2e", 0)]
    + [(cls, suffix, t) for cls in ("DictStore", "TreeStore") for suffix in (".b2d", ".b2z") for t in (0, 1000)],
)


def digests(leaves: dict[str, tuple[str, int]]) -> dict[str, str | None]:
    return {key: peer.leaf_digest(*what) for key, what in leaves.items()}


@FORMS
def test_what_two_handles_write(cls: str, suffix: str, threshold: int, tmp_path: Path, upstream: Any) -> None:
    path = str(tmp_path / f"x{suffix}")
    more: dict[str, Any] = {} if cls == "EmbedStore" else {"threshold": threshold}
    kind = getattr(blosc2, cls)
    leaves: dict[str, tuple[str, int]] = {}

    def compare() -> None:
        got = upstream.describe(path=path)
        assert got["kind"] == cls.lower()
        assert {key: leaf["sha256"] for key, leaf in got["leaves"].items()} == digests(leaves)

    with (
        kind(path, mode="w", locking=True, **more) as first,
        kind(path, mode="a", locking=True, **more) as second,
        kind(path, mode="r", locking=True) as reader,
    ):
        for n in range(12):
            what = (("small", "big")[n % 2], n)
            (first, second)[n % 3 == 0][f"/g{n % 4}/leaf{n}"] = peer.leaf_value(*what)
            leaves[f"/g{n % 4}/leaf{n}"] = what
        del first["/g1/leaf5"]
        del leaves["/g1/leaf5"]
        with second.transaction():
            second["/g0/leaf0"] = peer.leaf_value("big", 99)
            second.rename("/g2/leaf2", "/moved")
        leaves["/g0/leaf0"], leaves["/moved"] = ("big", 99), leaves.pop("/g2/leaf2")
        first["/g0/leaf4"][:] = peer.leaf_value("small", 77)
        leaves["/g0/leaf4"] = ("small", 77)
        compare()
        # While nobody here makes a change, the reference does.
        steps = [["set", "/theirs/a", "big", 5], ["delete", "/moved"], ["set", "/theirs/b", "small", 6]]
        upstream.change_store(path=path, cls=cls, mode="a", steps=steps, threshold=threshold)
        del leaves["/moved"]
        leaves |= {"/theirs/a": ("big", 5), "/theirs/b": ("small", 6)}
        for store in (first, second, reader):
            assert {k for k in store if isinstance(store[k], blosc2.NDArray)} == set(leaves)
        second["/last"] = peer.leaf_value("small", 8)
        leaves["/last"] = ("small", 8)
        assert reader["/last"][:].tolist() == peer.leaf_value("small", 8).tolist()
        assert first["/theirs/a"][:].tolist() == peer.leaf_value("big", 5).tolist()
        compare()
    compare()
    report = blosc2.check(path)
    assert report.ok, report
