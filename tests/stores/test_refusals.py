"""Operations that are refused or fail change nothing: neither what a store shows, nor what it publishes later."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from store_makers import KINDS, Maker, values_of

import blosc2


@pytest.fixture
def filled(make: Maker) -> Iterator[Any]:
    with make("w") as store:
        for i in range(3):
            store[f"/g/k{i}"] = np.arange(10 * i, 10 * i + 30)
        store["/small"], store["/keep"] = [1], [2]
        store.flush()
        yield store


def check_nothing_happened(store: Any, make: Maker, before: dict[str, list[Any]]) -> None:
    """Whatever was refused, the store and its file are as if it had not been asked for."""
    assert values_of(store) == before
    store.close()
    assert make.values() == before


#: Keys that only stores with files refuse, beside what `filled` has.
CLASHES = ["/KEEP", "/small.b2nd/x", "/G/k1"]


@pytest.mark.parametrize("pending", [False, True])
@pytest.mark.parametrize("new", CLASHES)
@pytest.mark.usefixtures("changes_wait")
def test_a_refused_rename(filled: Any, make: Maker, new: str, pending: bool) -> None:
    if make.cls is blosc2.EmbedStore:
        new = "/keep"
    if pending:
        filled["/g/k0"] = [5]
    leaf = filled["/g/k0"]
    before = values_of(filled)
    with pytest.raises(ValueError, match=r"[Kk]ey"):
        filled.rename("/g/k0", new)
    assert filled._table.has_changes == pending
    leaf[0] = 77  # still the leaf of its key
    before["/g/k0"][0] = 77
    assert filled["/g/k0"] is leaf
    check_nothing_happened(filled, make, before)


# ------------------------------------------------------------------------------------------------ update
@pytest.mark.parametrize("count", [3, 254, 300])
def test_an_update_that_is_refused(filled: Any, make: Maker, count: int) -> None:
    filled["/pending"] = [4]
    del filled["/small"]
    filled["/g/k2"][0] = -1
    before, published = values_of(filled), make.values()

    def items() -> Iterator[tuple[str, Any]]:
        yield "/g/k0", [0]
        yield "/pending", [0]
        yield "/small", [0]
        for n in range(count - 3):
            yield f"/many/k{n}", [n]
        yield "/many/last", object()

    with pytest.raises(TypeError):
        filled.update(items())
    assert values_of(filled) == before
    assert make.values() == published  # what waited still waits
    check_nothing_happened(filled, make, before)


@pytest.mark.parametrize("wrong", [("/many/last", object()), ("/many/K3", [1]), ("/g/k0/x", [1])])
def test_an_update_of_many_with_nothing_pending(filled: Any, make: Maker, wrong: tuple[str, Any]) -> None:
    if (wrong[0] == "/g/k0/x" and not make.is_tree) or (wrong[0] == "/many/K3" and make.path.suffix == ".b2e"):
        wrong = ("/a//b", [1])
    before, leaf = values_of(filled), filled["/g/k0"]
    many = [("/g/k0", [0]), *((f"/many/k{n}", [n]) for n in range(300))]
    for size in (100, 255, 301):
        with pytest.raises((TypeError, ValueError)):
            filled.update(iter([*many[:size], wrong]))
        assert values_of(filled) == make.values() == before
        assert filled["/g/k0"] is leaf
    filled.update(many)
    after = {**before, **dict(many)}
    assert values_of(filled) == after
    check_nothing_happened(filled, make, after)


def test_an_update_within_an_update(filled: Any, make: Maker) -> None:
    before = values_of(filled)

    def items(fails: bool) -> Iterator[tuple[str, Any]]:
        yield "/a", [1]
        filled.update({"/b": [2], "/g/k0": [3]})
        with pytest.raises(TypeError):
            filled.update({"/b": [4], "/c": object()})
        assert filled["/b"][:] == [2]
        yield "/d", object() if fails else [5]

    with pytest.raises(TypeError):
        filled.update(items(fails=True))
    assert values_of(filled) == before
    filled.update(items(fails=False))
    check_nothing_happened(filled, make, {**before, "/a": [1], "/b": [2], "/g/k0": [3], "/d": [5]})


# ------------------------------------------------------------------------------------------------ copies and retries
@pytest.mark.parametrize("make", [kind for kind in KINDS if kind != "b2e"], indirect=True)
@pytest.mark.parametrize("how", ["to_b2z", "to_b2d"])
def test_copies_of_what_waits(filled: Any, make: Maker, tmp_path: Path, source: str | None, how: str) -> None:
    filled.rename("/g/k0", "/h/k0")
    filled.rename("/small", "/s")
    filled.rename("/s", "/t")
    filled["/small"] = np.arange(200)
    filled.rename("/g/k1", "/g/k0")
    filled["/g/k0"][0] = 55
    del filled["/keep"]
    expected, published = values_of(filled), make.values()
    for overwrite in (False, True):
        copy = getattr(filled, how)(**{"filename" if how == "to_b2z" else "dirname": tmp_path / f"copy.{how[-3:]}"},
                                    overwrite=overwrite)  # fmt: skip
        with blosc2.open(copy, mode="r", mmap_mode=source) as store:
            assert values_of(store) == expected
        assert not blosc2.check(copy)
    with pytest.raises(FileExistsError):
        getattr(filled, how)(tmp_path / f"copy.{how[-3:]}")
    assert make.values() == published
    check_nothing_happened(filled, make, expected)


# ------------------------------------------------------------------------------------------------ trees
@pytest.fixture(params=[".b2z", ".b2d"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with blosc2.TreeStore(str(tmp_path / f"tree{request.param}"), mode="w") as tree:
        tree["/a/x"], tree["/a/y"], tree["/b"] = [1], [2], [3]
        tree["/a"].vlmeta["unit"] = "mm"
        tree["/only"] = [4]
        tree.get_subtree("/attributes").vlmeta["of"] = "nothing"
        tree.flush()
        yield tree


def test_pop_takes_out_leaves_alone(tree: Any) -> None:
    before = values_of(tree)
    for store, key in ((tree, "/a"), (tree, "a"), (tree, "/attributes"), (tree, "/"), (tree["/a"], "/")):
        for default in ((), (None,)):
            with pytest.raises(TypeError, match="no leaf"):
                store.pop(key, *default)
    for store, key in ((tree, "/none"), (tree["/a"], "z"), (tree, "/a/__vlmeta__")):
        with pytest.raises(KeyError):
            store.pop(key)
        assert store.pop(key, 5) == 5
    assert values_of(tree) == before
    assert not tree._table.has_changes
    assert tree["/a"].pop("x")[:] == [1]
    assert tree.pop("b")[:] == [3]
    assert values_of(tree) == {"/a/y": [2], "/only": [4]}
    assert tree["/a"].vlmeta["unit"] == "mm"


def test_popitem_takes_out_leaves_alone(tree: Any) -> None:
    key, leaf = tree["/a"].popitem()
    assert (key, leaf[:].tolist()) == ("/x", [1])
    found = {key: leaf[:].tolist() for key, leaf in (tree.popitem() for _ in range(3))}
    assert found == {"/a/y": [2], "/b": [3], "/only": [4]}
    for store in (tree, tree["/a"]):
        with pytest.raises(KeyError, match="no leaf"):
            store.popitem()
    assert tree["/a"].vlmeta["unit"] == "mm"  # attributes are nobody's item
    path = tree.localpath
    tree.close()
    with blosc2.open(path, mode="r") as reader:
        assert list(reader) == ["/a", "/attributes"]
        with pytest.raises(KeyError, match="no leaf"):
            reader.popitem()


def test_attributes_below_a_leaf(tree: Any) -> None:
    for group in ("/b", "/b/c", "/b/c/d"):
        for attempt in (
            lambda group=group: tree.get_subtree(group).vlmeta.__setitem__("x", 1),
            lambda group=group: tree.get_subtree(group).attrs.update(x=1),
        ):
            with pytest.raises(ValueError, match=r"is a leaf|contains data"):
                attempt()
    with pytest.raises(ValueError, match="reserved"):
        tree.get_subtree("/a/__vlmeta__/c").vlmeta["x"] = 1
    assert not tree._table.has_changes
    tree["/b"] = [5]
    assert list(tree) == ["/a", "/a/x", "/a/y", "/attributes", "/b", "/only"]


def test_attributes_that_are_refused(tree: Any) -> None:
    attributes = tree["/a"].vlmeta
    with pytest.raises((TypeError, ValueError, OverflowError)):
        attributes.update(unit="cm", wrong=1 << 70)
    assert attributes[:] == {"unit": "mm"}
    attributes["more"] = [1, 2]
    attributes.clear()
    assert attributes[:] == {}
    tree["/a"].attrs["again"] = 1
    del tree["/a"].attrs["again"]
    path = tree.localpath
    tree.close()
    with blosc2.DictStore(path, mode="r") as plain:  # which would show it
        assert "/a/__vlmeta__" not in plain


# ------------------------------------------------------------------------------------------------ compaction
@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize("mode", ["w", "a"])
def test_compaction_of_what_was_dropped(make: Maker, mode: str) -> None:
    with make(mode) as store:
        store["/x"] = [1]
        store.discard()
        if make.there_when_opened:  # an empty store is there since it was opened
            before, after = store.compact()
            assert 0 < after <= before
            assert make.values() == {}
        else:
            assert store.compact() == (0, 0)
            assert not make.path.exists()
            assert store.compact() == (0, 0)
        store["/y"] = [2]
        before, after = store.compact()
        assert 0 < after <= before
    assert make.values() == {"/y": [2]}


@pytest.mark.parametrize("make", [kind for kind in KINDS if kind != "b2d"], indirect=True)
def test_compaction_does_not_replace_what_must_not_be_written(
    filled: Any, make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(5):
        filled["/keep"] = filled["/small"] = [i]
        filled.flush()
    before = values_of(filled)
    target = make.path / "embed.b2e" if make.is_directory else make.path
    files = {path: path.read_bytes() for path in [make.path, *make.path.rglob("*")] if path.is_file()}
    real = os.open

    def denied(path: Any, flags: int, *more: Any, **how: Any) -> int:
        if os.fspath(path) == str(target) and flags & (os.O_RDWR | os.O_WRONLY):  # as a user whom permissions stop
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return real(path, flags, *more, **how)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", denied)
        with pytest.raises(PermissionError) as raised:
            filled.compact()
        assert raised.value.filename == str(target)
    assert {path: path.read_bytes() for path in files} == files
    filled.compact()
    check_nothing_happened(filled, make, before)


# ------------------------------------------------------------------------------------------------ leaves in hand
@pytest.mark.usefixtures("changes_wait")
def test_leaves_show_what_is_published_after_discard(filled: Any, make: Maker) -> None:
    before, leaves = values_of(filled), {key: filled[key] for key in ("/g/k0", "/g/k1", "/g/k2", "/small", "/keep")}
    leaves["/g/k0"][:5] = -1
    leaves["/g/k1"].resize((70,))
    leaves["/small"].vlmeta["note"] = 1
    filled.rename("/keep", "/kept")
    for again in range(2):
        filled.discard()
        for key in ("/g/k0", "/g/k1", "/g/k2", "/small"):
            assert filled[key] is leaves[key]
            assert leaves[key][:].tolist() == before[key]
        assert "note" not in leaves["/small"].vlmeta
        leaves["/g/k0"][3] = leaves["/g/k1"][2] = again  # and are those of their keys
    before["/g/k0"][3] = before["/g/k1"][2] = 1
    leaves["/g/k1"].append(np.arange(40))
    before["/g/k1"] += list(range(40))
    check_nothing_happened(filled, make, before)


@pytest.mark.usefixtures("changes_wait")
def test_leaves_of_what_was_never_published(filled: Any, make: Maker) -> None:
    before = values_of(filled)
    filled["/new"], filled["/small"] = [1, 2], blosc2.SChunk(data=b"12345678")
    new, other = filled["/new"], filled["/small"]
    filled.discard()
    assert new[:].tolist() == [1, 2]
    assert other[:] == b"12345678"
    for leaf in (new, other):
        with pytest.raises(ValueError, match="no longer changed"):
            leaf[0:1] = [1] if leaf is new else b"1"
    check_nothing_happened(filled, make, before)


def test_leaves_show_what_was_before_a_transaction_that_raised(filled: Any, make: Maker) -> None:
    filled["/g/k1"][0] = 100  # pending
    filled["/new"] = [7, 8]
    before, leaves = values_of(filled), {key: filled[key] for key in ("/g/k0", "/g/k1", "/g/k2", "/new")}
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), filled.transaction():
            for leaf in leaves.values():
                leaf[1] = -5
            leaves["/g/k1"].resize((3,))
            1 / 0  # noqa: B018
        assert all(filled[key] is leaf for key, leaf in leaves.items())
        assert {key: leaf[:].tolist() for key, leaf in leaves.items()}.items() <= before.items()
    leaves["/new"][0] = 9
    before["/new"][0] = 9
    check_nothing_happened(filled, make, before)


def test_a_leaf_replaced_in_a_transaction_that_raised_is_live_again(filled: Any, make: Maker) -> None:
    held, before = filled["/g/k0"], values_of(filled)
    with pytest.raises(ZeroDivisionError), filled.transaction():
        held[1] = -5
        filled["/g/k0"] = [7, 8]
        replaced = filled["/g/k0"]
        replaced[0] = 9
        del filled["/g/k1"]
        1 / 0  # noqa: B018
    assert filled["/g/k0"] is held
    assert held[:].tolist() == before["/g/k0"]
    assert replaced[:].tolist() == [9, 8]
    with pytest.raises(ValueError, match="no longer changed"):
        replaced[0] = 1
    held[0] = 70
    before["/g/k0"][0] = 70
    check_nothing_happened(filled, make, before)


@pytest.mark.parametrize("update_fails", [False, True], ids=["update ends", "update fails"])
def test_a_transaction_that_values_of_an_update_begin(filled: Any, make: Maker, update_fails: bool) -> None:
    before, transaction = values_of(filled), filled.transaction()

    def items() -> Iterator[tuple[str, Any]]:
        yield "/new/first", [1]
        transaction.__enter__()
        yield "/new/second", [2]
        if update_fails:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) if update_fails else nullcontext():
        filled.update(items())
    assert "/new/second" not in filled if update_fails else "/new/second" in filled
    filled["/new/third"] = [3]
    transaction.__exit__(ZeroDivisionError, ZeroDivisionError(), None)
    if not update_fails:
        before["/new/first"] = [1]
    check_nothing_happened(filled, make, before)


# ------------------------------------------------------------------------------------------------ threads
def in_thread(act: Callable[[], Any]) -> BaseException | None:
    """What another thread raised."""
    caught: list[BaseException | None] = [None]

    def run() -> None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001 - it is what is asked for
            caught[0] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return caught[0]


def test_other_threads_are_kept_out_of_a_transaction(filled: Any, make: Maker) -> None:
    leaf = filled["/g/k0"]
    if make.is_tree:
        filled["/g"].vlmeta["unit"] = "m"
    before = values_of(filled)
    tries: list[Callable[[], Any]] = [
        lambda: filled.__setitem__("/x", [1]), lambda: filled.__delitem__("/small"),
        lambda: filled.rename("/small", "/s"),
        lambda: filled.update({"/x": [1]}), lambda: filled.write_many({"/x": [1]}), filled.clear, filled.popitem,
        lambda: filled.pop("/small"), lambda: filled.setdefault("/x", [1]), lambda: leaf.__setitem__(0, -1),
        lambda: leaf.vlmeta.update(x=1), lambda: filled.transaction().__enter__(), filled.flush, filled.discard,
        filled.compact, filled.close,
    ]  # fmt: skip
    if make.is_tree:
        tries += [lambda: filled["/g"].vlmeta.update(unit="mm"), lambda: filled["/g"].vlmeta.clear()]
    with filled.transaction():
        filled["/mine"] = [2]
        for attempt in tries:
            error = in_thread(attempt)
            assert isinstance(error, RuntimeError)
            assert "transaction" in str(error)
        assert in_thread(lambda: filled["/mine"][:]) is None  # reading is free
    assert in_thread(lambda: filled.__setitem__("/theirs", [3])) is None
    check_nothing_happened(filled, make, {**before, "/mine": [2], "/theirs": [3]})


def test_a_change_that_waited_for_the_lock_is_kept_out_too(filled: Any, make: Maker) -> None:
    before = values_of(filled)
    begun = threading.Event()

    def change() -> None:
        begun.set()
        filled["/theirs"] = [3]

    errors: list[BaseException | None] = []
    with filled._table.lock:
        thread = threading.Thread(target=lambda: errors.append(in_thread(change)))
        thread.start()
        begun.wait()
        transaction = filled.transaction()
        transaction.__enter__()
    thread.join()
    transaction.__exit__(None, None, None)
    done = errors == [None]  # it may have come too late to meet the transaction
    assert done or isinstance(errors[0], RuntimeError)
    check_nothing_happened(filled, make, {**before, **({"/theirs": [3]} if done else {})})


@pytest.mark.parametrize("count", [20, 300])
def test_what_other_threads_set_is_not_taken_back_with_an_update(make: Maker, count: int) -> None:
    """With few items, and with as many as a `.b2z` writes at once."""

    def other() -> None:
        store["/k1"], store["/own"] = [2], [3]
        del store["/k2"]

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(count):
            if n == 5:
                assert in_thread(other) is None
            yield f"/k{n}", [1]
        yield "/bad", object()

    with make("w") as store:
        store["/k0"], store["/k2"] = [7], [7]
        store.flush()
        with pytest.raises(TypeError):
            store.update(items())
        wanted = {"/k0": [7], "/k1": [2], "/own": [3]}
        assert values_of(store) == wanted
    assert make.values() == wanted


def test_an_update_whose_frames_were_moved_out_of_memory(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blosc2._stores.pending.MEMORY_LIMIT", 2000)

    def items() -> Iterator[tuple[str, Any]]:
        for n in range(30):
            yield f"/k{n}", np.arange(n, n + 100)
            if n == 20:
                assert in_thread(lambda: store.__setitem__("/k3", [5])) is None
        yield "/bad", object()

    with make("w") as store:
        with pytest.raises(TypeError):
            store.update(items())
        assert values_of(store) == {"/k3": [5]}
    assert make.values() == {"/k3": [5]}


def test_a_transaction_that_cannot_be_published(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waits for its end sets its key afterwards, and keeps it."""
    with make("w") as store:
        store["/a"] = [1]
        store.flush()
        started, tries = threading.Event(), []

        def setter() -> None:
            started.wait()
            while True:
                try:
                    store["/own"] = [3]
                except RuntimeError:  # the transaction is under way: refused, as documented
                    continue
                return

        thread = threading.Thread(target=setter)
        thread.start()

        def fail(*_: Any, **__: Any) -> None:
            started.set()
            tries.append(thread.join(0.05))  # it waits for the lock by now
            raise OSError(errno.ENOSPC, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr(store._table.backend, "publish", fail)
            with pytest.raises(OSError, match="No space"), store.transaction():
                store["/c"] = [2]
            assert tries
        thread.join()
        assert values_of(store) == {"/a": [1], "/own": [3]}
    assert make.values() == {"/a": [1], "/own": [3]}


def test_leaves_of_a_writer_stay_live_when_it_looks_for_changes(make: Maker) -> None:
    with make("w") as store:
        store["/a"] = np.arange(3)
        store.flush()
        leaf = store["/a"]
        assert not store.refresh()
        leaf[0] = 5
        assert store["/a"][0] == 5
    assert make.values() == {"/a": [5, 1, 2]}


def test_a_leaf_of_a_store_that_nobody_holds(filled: Any, make: Maker) -> None:
    """Nobody closed it: what is said must help all the same."""
    before = values_of(filled)
    filled.close()
    with pytest.raises(ValueError, match=r"nothing holds it any more, .* keep it in a variable"):
        make("a")["/g/k0"].append([1])
    with pytest.raises(ValueError, match="nothing holds it any more"):
        make("a")["/g/k0"].attrs["x"] = 1
    leaf = make("a")["/g/k0"]
    assert leaf[:].tolist() == before["/g/k0"]
    assert make.values() == before
