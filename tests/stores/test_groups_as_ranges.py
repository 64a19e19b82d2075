"""Groups of hundreds of leaves that are deleted and renamed."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount

import blosc2


def value(n: int) -> Any:
    return np.full(3, n, "i4")


def test_attributes_and_embedded_values_go_along(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w", threshold=100) as store:
        for n in range(400):
            store[f"/a/b{n % 2}/k{n}"] = np.arange(40 if n % 9 else 2)  # some of them are embedded
        store["/a/b0"].vlmeta["note"] = "old"
        store["/other"] = np.arange(3)
    with blosc2.TreeStore(path, mode="a", threshold=100) as store:
        held = store["/a/b1/k1"]
        held[0] = 77
        store.rename("/a/b0", "/c")
        assert store["/c"].vlmeta["note"] == "old"
        del store["/a"]
        assert list(store)[:2] == ["/c", "/c/k0"]
        assert len(store["/c"]) == 200
        assert held[0] == 77
    with blosc2.TreeStore(path, mode="r") as store:
        assert "/a" not in store
        assert store["/c"].vlmeta["note"] == "old"
        assert len(store["/c"]) == 200
        for n in range(0, 400, 2):
            np.testing.assert_array_equal(store[f"/c/k{n}"][:], np.arange(40 if n % 9 else 2))
    assert blosc2.check(path).ok


def test_case_twins_after_a_group_is_gone(tmp_path: Path) -> None:
    """Names that were removed count no more, and those that come back by undoing count again."""
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({f"/g{n % 2}/k{n}": value(n) for n in range(400)})
    with blosc2.TreeStore(path, mode="a") as store:
        with pytest.raises(ValueError, match="in case only"):
            store["/g0/K0"] = value(0)
        del store["/g0"]
        store["/g0/K0"] = value(5)
        with pytest.raises(ValueError, match="in case only"):
            store["/g0/k0"] = value(5)
        with pytest.raises(ValueError, match="in case only"):
            store["/g1/K1"] = value(5)
        store.discard()
        with pytest.raises(ValueError, match="in case only"):
            store["/g0/K0"] = value(0)
        with pytest.raises(ArithmeticError), store.transaction():
            del store["/g0"]
            store["/G0/k"] = value(1)
            raise ArithmeticError
        with pytest.raises(ValueError, match="in case only"):
            store["/G0/k0"] = value(0)
        assert len(store) == 402
    assert blosc2.check(path).ok


def test_a_commit_that_fails_keeps_the_group_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "s.b2z")
    model = {f"/g{n % 3}/k{n:03}": [n] * 3 for n in range(500)}
    with blosc2.TreeStore(path, mode="w") as store:
        store.update(model)
    store = blosc2.TreeStore(path, mode="a")
    del store["/g0"]
    store["/g0/again"] = value(1)
    with monkeypatch.context() as patch:

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("blosc2._backends.zip.publishing.write_directory", full)
        with pytest.raises(OSError, match="No space"):
            store.flush()
    kept = {key: items for key, items in model.items() if not key.startswith("/g0/")} | {"/g0/again": [1] * 3}
    recount(store, kept, (), model)
    with blosc2.TreeStore(path, mode="r") as reader:
        recount(reader, model)
    store.flush()
    recount(store, kept, (), model)
    store.close()
    with blosc2.TreeStore(path, mode="r") as reader:
        recount(reader, kept, (), model)
    assert blosc2.check(path).ok


def test_many_groups_one_after_the_other(tmp_path: Path) -> None:
    """More groups than are removed as ranges before a flush."""
    path = str(tmp_path / "s.b2z")
    model = {f"/g{n % 20:02}/k{n}": [n] * 3 for n in range(2000)}
    with blosc2.TreeStore(path, mode="w") as store:
        store.update(model)
    with blosc2.TreeStore(path, mode="a") as store:
        for group in range(19):
            del store[f"/g{group:02}"]
            assert len(store) == (19 - group) * 101
        kept = {key: items for key, items in model.items() if key.startswith("/g19/")}
        recount(store, kept, (), model)
    with blosc2.TreeStore(path, mode="r") as store:
        recount(store, kept, (), model)
    assert blosc2.check(path).ok


def test_all_of_a_flat_store(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.DictStore(path, mode="w") as store:
        store.update({f"/k{n}": value(n) for n in range(300)})
    with blosc2.DictStore(path, mode="a") as store:
        store["/k7"] = value(1)
        held = store["/k9"]
        store.clear()
        assert (list(store), len(store), "/k3" in store) == ([], 0, False)
        assert held[0] == 9
        store.discard()
        assert len(store) == 300
        store.clear()
        store["/K3"] = value(2)
    with blosc2.DictStore(path, mode="r") as store:
        assert list(store) == ["/K3"]
    assert blosc2.check(path).ok


def test_a_renamed_group_answers_before_it_is_published(tmp_path: Path) -> None:
    """All ways to ask for a leaf, while its member has the old name yet."""
    path = str(tmp_path / "s.b2z")
    large = np.random.default_rng(1).integers(0, 255, 3_000_000).astype("u1")
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({f"/old/sub{n % 3}/k{n}": value(n) for n in range(400)})
        store["/old/large"] = large
        store["/old/empty"] = np.zeros(0)
        store["/other/k"] = value(1)
    stored = {key: info.stored - len(key) for key, info in _described(path).items()}
    store = blosc2.TreeStore(path, mode="a")
    store.rename("/old", "/new/name")
    del store["/new/name/sub0/k3"]
    store["/new/name/sub0/k6"] = value(1006)
    store["/old/again"] = value(7)
    want = {f"/new/name/sub{n % 3}/k{n}": n for n in range(400) if n != 3}
    want["/new/name/sub0/k6"] = 1006
    assert [int(items[0]) for items in store.read_many(list(want))] == list(want.values())
    assert store.describe("/new/name/sub1/k1").shape == (3,)
    np.testing.assert_array_equal(store["/new/name/large"][:], large)
    assert "/old/sub1/k1" not in store
    assert "/new/name/sub0/k3" not in store
    assert list(store.get_subtree("/old")) == ["/again"]
    assert len(store.get_subtree("/new/name/sub0")) == 133
    with pytest.raises(ValueError, match="in case only"):
        store["/new/name/sub1/K1"] = value(0)
    with pytest.raises(ValueError, match="has"):
        store["/new/name/sub1"] = value(0)
    with pytest.raises(ValueError, match="already contains data"):
        store["/new/name/sub1/k1/below"] = value(0)
    copy = store.to_b2d(str(tmp_path / "copy.b2d"))
    store.rename("/new/name/sub2", "/third")  # of a group that was renamed already
    store.rename("/new/name/large", "/old/large")
    store.close()
    renamed = {key.replace("/new/name/sub2/", "/third/"): n for key, n in want.items()} | {
        "/other/k": 1,
        "/old/again": 7,
    }
    for made, expected in ((copy, want | {"/other/k": 1, "/old/again": 7}), (path, renamed)):
        with blosc2.TreeStore(made, mode="r") as found:
            leaves = {key for key in found if not isinstance(found[key], blosc2.TreeStore)}
            extra = {"/new/name/empty", "/new/name/large" if made == copy else "/old/large"}
            assert leaves == {*expected, *extra}
            assert {key: int(found[key][0]) for key in expected} == expected
        assert blosc2.check(made).ok
    # The stored bytes are those of before, but for the names.
    for key, info in _described(path).items():
        before = key.replace("/third/", "/old/sub2/").replace("/new/name/", "/old/")
        if before in stored and "k6" not in key:
            assert info.stored - len(key) == stored[before], key


def _described(path: str) -> dict[str, Any]:
    with blosc2.TreeStore(path, mode="r") as store:
        return {key: store.describe(key) for key in store if not isinstance(store[key], blosc2.TreeStore)}


def test_damage_is_not_hidden_by_a_new_name(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.update({f"/g/k{n}": np.full(50, n % 256, "u1") for n in range(300)})
    data = bytearray(path.read_bytes())
    data[data.index(bytes([77]) * 50) + 9] ^= 1
    path.write_bytes(data)
    with blosc2.TreeStore(str(path), mode="a") as store:
        store.rename("/g", "/h")
    found = [finding.key for finding in blosc2.check(str(path)) if finding.key]
    assert set(found) == {"/h/k77"}


def test_other_programs_read_groups_that_moved(tmp_path: Path) -> None:
    """Local headers have the new names, too."""
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({f"/g{n % 2}/k{n}": value(n) for n in range(400)})
    with blosc2.TreeStore(path, mode="a") as store:
        store.rename("/g0", "/moved/here")
        del store["/g1"]
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None
        names = sorted(name for name in z.namelist() if name.endswith(".b2nd"))
    assert names == sorted(f"moved/here/k{n}.b2nd" for n in range(0, 400, 2))
