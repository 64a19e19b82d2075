"""Lists of values and of batches go back and forth between this package and the reference, and through its stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fixture_kit import manifest, peer, recipes

import blosc2

pytestmark = pytest.mark.interop

PARAMETERS = [
    ({}, None), ({"codec": "ZSTD", "clevel": 5, "use_dict": True}, 4), ({"codec": "LZ4", "clevel": 1}, 1),
    ({"codec": "ZSTD", "clevel": 0}, 2), ({"codec": "BLOSCLZ", "clevel": 9}, 100), ({"codec": "ZLIB", "clevel": 5}, 7),
    ({"codec": "LZ4HC", "clevel": 9, "use_dict": True}, 3),
]  # fmt: skip


def wanted(times: int) -> tuple[Any, Any]:
    """What the lists hold after so many rounds of changes."""
    values, batches = recipes.list_values(), recipes.list_batches()
    for _ in range(times):
        peer.change_list(values, recipes.list_values())
        peer.change_list(batches, recipes.list_batches())
    return manifest.tagged(values), manifest.tagged(batches)


def check_folder(folder: Path, times: int, describe: Any, single_items: Any) -> None:
    values, batches = wanted(times)
    found = describe(path=str(folder / "values.b2f"))
    assert (found["kind"], found["values"]) == ("objectarray", values)
    assert found["vlmeta"]["user"] == len(values)
    found = describe(path=str(folder / "batches.b2b"))
    assert (found["kind"], found["batches"]) == ("batcharray", batches)
    assert found["vlmeta"]["user"] == len(batches)
    assert single_items(path=str(folder / "batches.b2b")) == batches


@pytest.mark.parametrize(("cparams", "items_per_block"), PARAMETERS)
def test_lists_go_back_and_forth(cparams: dict[str, Any], items_per_block: int | None, tmp_path: Path,
                                 upstream: Any) -> None:  # fmt: skip
    for maker, others in ((peer, upstream), (upstream, peer)):
        if maker is upstream and cparams.get("clevel") == 0:
            continue  # its C library may die of it
        folder = tmp_path / ("ours" if maker is peer else "theirs")
        folder.mkdir()
        maker.make_lists(folder=str(folder), cparams=cparams, items_per_block=items_per_block)
        check_folder(folder, 1, peer.describe, peer.single_items)
        check_folder(folder, 1, upstream.describe, upstream.single_items)
        others.change_lists(folder=str(folder))
        check_folder(folder, 2, peer.describe, peer.single_items)
        check_folder(folder, 2, upstream.describe, upstream.single_items)
        maker.change_lists(folder=str(folder))
        check_folder(folder, 3, peer.describe, peer.single_items)
        check_folder(folder, 3, upstream.describe, upstream.single_items)
        for name in ("values.b2f", "batches.b2b"):
            assert blosc2.check(folder / name).ok
        for one in (others, maker):
            one.empty_lists(folder=str(folder))
            for describe in (peer.describe, upstream.describe):
                assert describe(path=str(folder / "values.b2f"))["values"] == []
                assert describe(path=str(folder / "batches.b2b"))["batches"] == []
