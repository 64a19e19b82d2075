"""Groups that are deleted and renamed, beside a dict that does the same leaf by leaf.

From 256 leaves on an archive has a catalog, and large groups of it are removed as ranges; so the sizes lie around that.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import blosc2

GROUPS = ["/g0", "/g1", "/g1/h0", "/g1/h1", "/g1/h1/i", "/g-1", "/é", "/g0.x"]
NAMES = [*GROUPS, "/new", "/new/x", "/g1/h2", "/g1/H0"]
Model = dict[str, int]


def start(number: int) -> Model:
    """Leaves in groups of different sizes, one of which is named like another one and more."""
    return {f"{GROUPS[n % 3 and n % len(GROUPS)]}/k{n:04}": n for n in range(number)}


def value(n: int) -> Any:
    return np.full(3, n, "i4")


def groups_of(model: Model) -> set[str]:
    return {key[:at] for key in model for at in range(1, len(key)) if key[at] == "/"}


def below(model: Model, group: str) -> list[str]:
    return [key for key in model if key.startswith(group + "/")]


def has_twin(model: Model, key: str) -> bool:
    """Whether a new key would differ from another one in case only, which no store allows."""
    return key not in model and key.lower() in {name.lower() for name in [*model, *groups_of(model)]}


def compare(store: Any, model: Model, gone: set[str]) -> None:
    """All that a store says of its keys is what the dict says."""
    groups = groups_of(model)
    assert list(store) == sorted([*model, *groups])
    assert len(store) == len(model) + len(groups)
    for key in {*list(model)[:: max(1, len(model) // 40)], *groups, *list(gone)[:40]}:
        assert (key in store) == (key in model or key in groups), key
    for key in list(model)[:: max(1, len(model) // 25)]:
        assert store[key][0] == model[key], key
        assert store.read(key)[0] == model[key], key
    for key in list(gone)[:40]:
        if key not in model and key not in groups:
            with pytest.raises(KeyError):
                store[key]
    for group in groups & set(GROUPS):
        view = store[group]
        assert len(view) == len(below(model, group)) + len([g for g in groups if g.startswith(group + "/")])
        names = {key[len(group) + 1 :].split("/")[0] for key in below(model, group)}
        assert sorted(store.get_children(group)) == sorted(f"{group}/{name}" for name in names)
    walked = {f"{path.rstrip('/')}/{name}" for path, _, leaves in store.walk("/") for name in leaves}
    assert walked == set(model)


moves = st.one_of(
    st.tuples(st.just("del"), st.sampled_from(GROUPS)),
    st.tuples(st.just("del leaf"), st.integers(0, 900)),
    st.tuples(st.just("set"), st.sampled_from(GROUPS), st.integers(0, 300)),
    st.tuples(
        st.just("rename"), st.sampled_from(GROUPS), st.sampled_from([*GROUPS, "/new", "/new/x", "/g1/h2", "/g1/H0"])
    ),
    st.tuples(st.sampled_from(["flush", "discard", "reopen", "hold", "begin", "fail", "succeed", "compact", "many"])),
)


class Play:
    """One store and the dict beside it."""

    def __init__(self, path: str, number: int) -> None:
        self.path = path
        self.model = start(number)
        with blosc2.TreeStore(path, mode="w") as store:
            store.update({key: value(n) for key, n in self.model.items()})
        self.published = dict(self.model)
        self.gone: set[str] = set()
        self.held: list[Any] = []
        self.store = blosc2.TreeStore(path, mode="a")

    def act(self, move: tuple[Any, ...], transaction: bool = False) -> None:
        what, store, model = move[0], self.store, self.model
        if what == "del":
            keys = below(model, move[1])
            if keys:
                del store[move[1]]
                self.gone |= {*keys, move[1]}
                for key in keys:
                    del model[key]
        elif what == "del leaf":
            keys = sorted(model)
            if keys:
                key = keys[move[1] % len(keys)]
                del store[key], model[key]
                self.gone.add(key)
        elif what == "set":
            key = f"{move[1]}/k{move[2]:04}"
            if has_twin(model, key):
                with pytest.raises(ValueError, match="in case only"):
                    store[key] = value(move[2] + 1000)
            else:
                store[key] = value(move[2] + 1000)
                model[key] = move[2] + 1000
        elif what == "rename":
            self.rename(*move[1:])
        elif what == "hold":
            self.held += [(store[key], n) for key, n in list(model.items())[::37]]
        elif what == "many" and not transaction:
            more = {f"/many/k{n}": n for n in range(70)}
            store.write_many((key, value(n)) for key, n in more.items())
            model.update(more)
            self.published = dict(model)
        elif what in ("flush", "reopen", "compact") and not transaction:
            if what == "reopen":
                store.close()
                self.store = blosc2.TreeStore(self.path, mode="a")
            else:
                getattr(store, what)()
            self.published = dict(model)
            report = blosc2.check(self.path)
            assert report.ok, list(report)
            with blosc2.TreeStore(self.path, mode="r", mmap_mode="r") as reader:
                compare(reader, model, self.gone)
        elif what == "discard" and not transaction and self.path.endswith(".b2z"):  # a `.b2d` publishes at once
            store.discard()
            self.model = dict(self.published)

    def rename(self, old: str, new: str) -> None:
        store, model = self.store, self.model
        keys = below(model, old)
        if not keys:
            return
        taken = new in groups_of(model)
        folded = {key.lower() for key in [*model, *groups_of(model)] if not (key + "/").startswith(old + "/")}
        twin = any((new + key[len(old) :]).lower() in folded for key in keys)
        if new == old:
            store.rename(old, new)
        elif taken or new.startswith(old + "/"):
            with pytest.raises(ValueError, match=r"has|inside|taken"):
                store.rename(old, new)
        elif twin:
            with pytest.raises(ValueError, match="in case only"):
                store.rename(old, new)
        else:
            store.rename(old, new)
            for key in keys:
                model[new + key[len(old) :]] = model.pop(key)
            self.gone |= {*keys, old}

    def run(self, moves: list[tuple[Any, ...]]) -> None:
        try:
            self._run(list(moves))
        except BaseException:
            if not self.store.closed:
                self.store.discard()
                self.store.close()
            raise

    def _run(self, moves: list[tuple[Any, ...]]) -> None:
        while moves:
            move = moves.pop(0)
            if move[0] != "begin":
                self.act(move)
                compare(self.store, self.model, self.gone)
                continue
            # A transaction up to the move that ends it.
            before = dict(self.model)
            failed = False
            try:
                with self.store.transaction():
                    while moves and moves[0][0] not in ("fail", "succeed"):
                        self.act(moves.pop(0), transaction=True)
                        compare(self.store, self.model, self.gone)
                    failed = bool(moves) and moves[0][0] == "fail"
                    if failed:
                        raise ArithmeticError
            except ArithmeticError:
                assert failed
            if failed:
                self.model = before
            else:
                self.published = dict(self.model)
            compare(self.store, self.model, self.gone)
        for leaf, n in self.held:
            assert leaf[0] == n  # what somebody held stays readable
        self.store.close()
        with blosc2.TreeStore(self.path, mode="r") as store:
            compare(store, self.model, self.gone)
        report = blosc2.check(self.path)
        assert report.ok, list(report)


@pytest.mark.parametrize("number", [250, 256, 262, 700])
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(moves, min_size=1, max_size=9))
def test_any_order(tmp_path_factory: pytest.TempPathFactory, number: int, moves: list[tuple[Any, ...]]) -> None:
    Play(str(tmp_path_factory.mktemp("ranges") / "s.b2z"), number).run(moves)


def test_a_key_like_one_of_a_renamed_group_is_refused(tmp_path: Path) -> None:
    play = Play(str(tmp_path / "s.b2z"), 250)
    assert "/g1/h1/k0019" in play.model
    play.run([("rename", "/g1/h1", "/g1/H0"), ("set", "/g1/h0", 19), ("set", "/g1/h0", 20)])
    assert "/g1/h0/k0020" in play.model
    assert "/g1/h0/k0019" not in play.model


@pytest.mark.parametrize("suffix", [".b2z", ".b2d"])
def test_a_group_goes_and_comes_again(suffix: str, tmp_path: Path) -> None:
    play = Play(str(tmp_path / ("s" + suffix)), 400 if suffix == ".b2z" else 270)
    play.run(
        [
            ("del", "/g0"), ("set", "/g0", 3), ("set", "/g0", 1), ("flush",), ("del", "/g1"), ("set", "/g1/h1/i", 5),
            ("hold",), ("begin",), ("del", "/g1"), ("del", "/g-1"), ("set", "/g1", 7), ("fail",), ("del", "/g-1"),
            ("discard",), ("del", "/g1/h1"), ("del", "/g1"), ("begin",), ("set", "/g1/h0", 9), ("del", "/é"),
            ("succeed",),
            ("rename", "/g1", "/new"), ("set", "/g1", 2), ("del", "/new"), ("reopen",), ("del", "/g0.x"), ("compact",),
        ]
    )  # fmt: skip


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
    model = start(500)
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({key: value(n) for key, n in model.items()})
    store = blosc2.TreeStore(path, mode="a")
    del store["/g0"]
    store["/g0/again"] = value(1)
    with monkeypatch.context() as patch:

        def full(*_: Any, **__: Any) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("blosc2._backends.zip.publishing.write_directory", full)
        with pytest.raises(OSError, match="No space"):
            store.flush()
    kept = {key: n for key, n in model.items() if not key.startswith("/g0/")} | {"/g0/again": 1}
    compare(store, kept, set(model) - set(kept))
    with blosc2.TreeStore(path, mode="r") as reader:
        compare(reader, model, set())
    store.flush()
    compare(store, kept, set(model) - set(kept))
    store.close()
    with blosc2.TreeStore(path, mode="r") as reader:
        compare(reader, kept, set(model) - set(kept))
    assert blosc2.check(path).ok


def test_all_groups(tmp_path: Path) -> None:
    """An archive without leaves has no catalog."""
    play = Play(str(tmp_path / "s.b2z"), 400)
    play.run([*(("del", group) for group in GROUPS), ("flush",), ("set", "/g0", 3), ("reopen",), ("many",)])


def test_a_name_whose_leaves_were_removed_one_by_one(tmp_path: Path) -> None:
    play = Play(str(tmp_path / "s.b2z"), 400)
    play.run([("del", "/g1/h0"), ("rename", "/g0", "/g1/h0"), ("flush",), ("del leaf", 3)])
    play = Play(str(tmp_path / "t.b2z"), 700)
    play.run([("del leaf", 116), ("rename", "/g0", "/new"), ("flush",), ("del leaf", 300), ("rename", "/new", "/g0")])


def test_many_groups_one_after_the_other(tmp_path: Path) -> None:
    """More groups than are removed as ranges before a flush."""
    path = str(tmp_path / "s.b2z")
    model = {f"/g{n % 20}/k{n}": n for n in range(2000)}
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({key: value(n) for key, n in model.items()})
    with blosc2.TreeStore(path, mode="a") as store:
        for group in range(19):
            del store[f"/g{group}"]
            for key in below(model, f"/g{group}"):
                del model[key]
            compare(store, model, set())
    with blosc2.TreeStore(path, mode="r") as store:
        compare(store, model, set())
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
    assert store._pending.removed_groups == ("/old",)  # no list of removed keys
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


def test_names_that_are_unusual(tmp_path: Path) -> None:
    path = str(tmp_path / "s.b2z")
    with blosc2.TreeStore(path, mode="w") as store:
        store.update({f"/g/é{n}.x": value(n) for n in range(300)})
        store.update({f"/h/k{n}": value(n) for n in range(300)})
        store["/H2/K1"] = value(0)
    with blosc2.TreeStore(path, mode="a") as store:
        with pytest.raises(ValueError, match="in case only"):
            store.rename("/h", "/h2")  # "/h2/k1" beside "/H2/K1"
        with pytest.raises(ValueError, match="device"):
            store.rename("/h", "/con")
        store.rename("/g", "/g2")
        assert store._pending.removed_groups == ("/g",)
        store.rename("/h", "/G")
        assert len(store) == 301 + 300 + 3
    with blosc2.TreeStore(path, mode="r") as store:
        assert int(store["/g2/é7.x"][0]) == 7
        assert int(store["/G/k9"][0]) == 9
        assert "/h" not in store
    assert blosc2.check(path).ok


def test_damage_is_not_hidden_by_a_new_name(tmp_path: Path) -> None:
    path = tmp_path / "s.b2z"
    with blosc2.TreeStore(str(path), mode="w") as store:
        store.update({f"/g/k{n}": np.full(50, n % 256, "u1") for n in range(300)})
    data = bytearray(path.read_bytes())
    data[data.index(bytes([77]) * 50) + 9] ^= 1
    path.write_bytes(data)
    with blosc2.TreeStore(str(path), mode="a") as store:
        store.rename("/g", "/h")
        assert store._pending.removed_groups
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
