"""Every operation that may be refused or fail, in any order, of all stores and tiers, beside a dictionary.

After each step the store and what others see equal the dictionaries, and after `close` what is stored does. With
``locking=True`` two handles take turns, and each shows at once what the other one has changed.
"""

from __future__ import annotations

import errno
import os
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fixture_kit.recount import recount
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from store_makers import KINDS, Maker, values_of

import blosc2

NAMES = ["/a", "/A", "/b", "/b.b2nd/x", "/g/a", "/g/b", "/g/h/c", "/G/b", "/é", "/e\u0301", "/a/under", "/con"]
LENGTHS = [1, 5, 300]
# How many runs there are of each kind of store.
EXAMPLES = int(os.environ.get("BLOSC2_EXAMPLES", "4"))

Values = dict[str, list[int]]
keys = st.sampled_from(NAMES)
lengths = st.sampled_from(LENGTHS)


class Fails(Exception):
    """What a block raises."""


def same(key: str) -> str:
    """What two keys have in common that one file system takes for the same."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", key).casefold())


def below(values: Values, group: str) -> list[str]:
    return [key for key in values if key.startswith(group + "/")]


class Machine(RuleBasedStateMachine):
    """A store and what it must show; `folder`, `kind` and `locking` are set by the test."""

    folder: Path
    kind: str
    locking = False
    made = 0

    @initialize()
    def create(self) -> None:
        Machine.made += 1
        folder = self.folder / str(Machine.made)
        folder.mkdir()
        self.make = Maker(self.kind, folder)
        how = {"locking": True} if self.locking else {}
        self.store = self.make("w", **how)
        self.other = self.make("a", **how) if self.locking else None
        self.store.flush()
        self.now: Values = {}
        self.published: Values = {}
        self.leaves: dict[str, Any] = {}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            with suppress(ValueError):
                self.store.close()
            if self.other is not None:
                self.other.close()
            assert self.make.values() == self.now
            assert not blosc2.check(self.make.path)

    # -------------------------------------------------------------------------------- the model
    def fits(self, values: Values) -> bool:
        """Whether a store can have these keys at the same time."""
        if any("con" in key.split("/") for key in values):
            return False
        if self.make.cls is blosc2.EmbedStore:
            return True
        if len(set(map(same, values))) < len(values) or any(below(values, key + ".b2nd") for key in values):
            return False
        return not self.make.is_tree or not any(below(values, key) for key in values)

    def try_(self, act: Callable[[], Any], after: Values, *, possible: bool = True) -> bool:
        """Do something that is refused where it is not possible: then nothing has happened."""
        if not (possible and self.fits(after)):
            with pytest.raises((ValueError, KeyError, TypeError, Fails)):
                act()
            return False
        act()
        self.now = after
        return True

    def value(self, length: int) -> Any:
        return np.arange(length) + length

    @invariant()
    def as_the_dictionaries(self) -> None:
        if not hasattr(self, "store"):
            return
        recount(self.store, self.now, (), NAMES)
        if self.other is not None:
            recount(self.other, self.now, (), NAMES)
            for key, leaf in self.leaves.items():
                assert leaf is not self.store.get(key) or leaf[:].tolist() == self.now[key]
            self.published = dict(self.now)
            self.store, self.other = self.other, self.store
        assert self.make.values() == self.published

    # -------------------------------------------------------------------------------- changes
    @rule(key=keys, length=lengths)
    def put(self, key: str, length: int) -> None:
        value = self.value(length)
        self.try_(lambda: self.store.__setitem__(key, value), {**self.now, key: value.tolist()})

    @rule(key=keys, number=st.integers(0, 99))
    def edit(self, key: str, number: int) -> None:
        if key in self.now:
            self.leaves[key] = leaf = self.store[key]
            leaf[0] = number
            self.now = {**self.now, key: [number, *self.now[key][1:]]}

    @rule(key=st.sampled_from([*NAMES, "/g", "/g/h", "/none"]))
    def delete(self, key: str) -> None:
        gone = {key, *(below(self.now, key) if self.make.is_tree else [])}
        after = {k: v for k, v in self.now.items() if k not in gone}
        self.try_(lambda: self.store.__delitem__(key), after, possible=after != self.now)

    @rule(key=st.sampled_from([*NAMES, "/g"]))
    def pop(self, key: str) -> None:
        expected = self.now.get(key)
        found: list[Any] = []
        after = {k: v for k, v in self.now.items() if k != key}
        if self.try_(lambda: found.append(self.store.pop(key)), after, possible=key in self.now):
            assert found[0][:].tolist() == expected

    @rule()
    def popitem(self) -> None:
        if not self.now:
            with pytest.raises(KeyError):
                self.store.popitem()
            return
        key, leaf = self.store.popitem()
        assert leaf[:].tolist() == self.now[key]
        self.now = {k: v for k, v in self.now.items() if k != key}

    @rule(old=st.sampled_from([*NAMES, "/g", "/g/h"]), new=st.sampled_from([*NAMES, "/g", "/h", "/G", "/A/x"]))
    def rename(self, old: str, new: str) -> None:
        moved = {old: new} if old in self.now else {}
        if self.make.is_tree:
            moved |= {key: new + key[len(old) :] for key in below(self.now, old)}
        possible = bool(moved) and (old == new or new not in self.now)
        if self.make.is_tree and old != new:
            above = any(new.startswith(key + "/") for key in self.now)
            possible = possible and not above and not new.startswith(old + "/") and not below(self.now, new)
        after = {moved.get(k, k): v for k, v in self.now.items()}
        self.try_(lambda: self.store.rename(old, new), after, possible=possible)

    @rule(items=st.lists(st.tuples(keys, lengths), max_size=4), wrong=st.sampled_from([None, "value", "raises"]))
    def update(self, items: list[tuple[str, int]], wrong: str | None) -> None:
        after = {**self.now, **{key: self.value(length).tolist() for key, length in items}}
        self.try_(lambda: self.store.update(self.given(items, wrong)), after, possible=wrong is None)
        shown = self.make.values()
        if shown != self.published and self.make.path.suffix == ".b2z":  # so many are published at once
            assert shown == self.now
            self.published = shown

    def given(self, items: list[tuple[str, int]], wrong: str | None) -> Iterator[tuple[str, Any]]:
        for key, length in items:
            yield key, self.value(length)
        if wrong == "value":
            yield "/last", object()
        elif wrong:
            raise Fails

    @rule(items=st.lists(st.tuples(keys, lengths), max_size=4), wrong=st.sampled_from([None, "value", "raises"]))
    def write_many(self, items: list[tuple[str, int]], wrong: str | None) -> None:
        after = {**self.now, **{key: self.value(length).tolist() for key, length in items}}
        before = dict(self.now)
        done = self.try_(lambda: self.store.write_many(self.given(items, wrong)), after, possible=wrong is None)
        # What waited is published first, whatever becomes of the rest.
        self.published = dict(self.now) if done else before

    @rule(data=st.data(), fails=st.booleans(), caught=st.booleans())
    def transaction(self, data: st.DataObject, fails: bool, caught: bool) -> None:
        before = dict(self.now)
        try:
            with self.store.transaction():
                for _ in range(3):
                    step = data.draw(st.sampled_from([self.put, self.rename, self.update, self.edit, self.delete]))
                    arguments = {
                        self.put: {"key": keys, "length": lengths}, self.edit: {"key": keys, "number": lengths},
                        self.rename: {"old": keys, "new": keys}, self.delete: {"key": keys},
                        self.update: {"items": st.lists(st.tuples(keys, lengths), max_size=3),
                                      "wrong": st.sampled_from([None, "value"])},
                    }[step]  # fmt: skip
                    step(**{name: data.draw(some) for name, some in arguments.items()})
                if caught:
                    with suppress(Fails, ValueError):
                        self.store.write_many(self.given([("/b", 5)], "raises"))
                if fails:
                    raise Fails
        except Fails:
            self.now = before
        else:
            self.published = dict(self.now)

    @rule()
    def clear(self) -> None:
        self.store.clear()
        self.now = {}

    # -------------------------------------------------------------------------------- publishing
    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.published = dict(self.now)

    @rule(call=st.sampled_from(["replace", "fsync", "link", "unlink"]), at=st.integers(0, 3))
    def flush_that_fails(self, call: str, at: int) -> None:
        real, left = getattr(os, call), [at]

        def failing(*arguments: Any, **how: Any) -> Any:
            left[0] -= 1
            if left[0] == -1:
                raise OSError(errno.EIO, "Input/output error")
            return real(*arguments, **how)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, call, failing)
            try:
                self.store.flush()
            except OSError:
                # What others see then is told in doc/guide/publishing.md; what this handle shows is what it is to be.
                assert values_of(self.store) == self.now
        self.flush()

    @rule()
    def discard(self) -> None:
        self.store.discard()
        self.now = dict(self.published)
        for key, leaf in self.leaves.items():
            if leaf._handle.session is not None and key in self.now:
                assert leaf[:].tolist() == self.now[key]

    @rule()
    def compact(self) -> None:
        self.store.compact()
        self.published = dict(self.now)

    @rule(kind=st.sampled_from(["b2z", "b2d"]))
    def copy(self, kind: str) -> None:
        if self.make.cls is not blosc2.EmbedStore:
            path = str(self.make.path.parent / f"copy.{kind}")
            if kind == "b2z":
                self.store.to_b2z(overwrite=True, filename=path)
            else:
                self.store.to_b2d(path, overwrite=True)
            with blosc2.open(path, mode="r") as copy:
                assert values_of(copy) == self.now

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.leaves = {}
        self.published = dict(self.now)
        self.store = self.make("a", **({"locking": True} if self.locking else {}))


@pytest.mark.usefixtures("changes_wait")
@pytest.mark.parametrize("kind", [*KINDS, "b2e, locking", "b2z, locking", "b2d, locking", "tree-b2d, locking"])
def test_beside_a_dictionary(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("blosc2._backends.CATALOG_LEAST", "blosc2._backends.zip.publishing.CATALOG_LEAST"):
        monkeypatch.setattr(name, 3)  # so many leaves are written as they come, and have a catalog
    kind, _, locking = kind.partition(", ")
    machine = type("Machine", (Machine,), {"folder": tmp_path, "kind": kind, "locking": bool(locking)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
