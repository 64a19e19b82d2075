"""The contract of stores with ``locking=True``, where each change is published; and two handles as one dictionary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from file_store_kit import FileStoreContract
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import blosc2

pytestmark = pytest.mark.skipif(os.name == "nt", reason="locks of POSIX")


class Shared(FileStoreContract):
    """All of the contract but what is about changes that wait, and about mode "w" until its first change."""

    at_once = True
    #: Other threads and processes may be told of changes by times that are coarse.
    test_discard = test_changes_are_seen_when_published = None  # type: ignore[assignment]  # nothing waits
    test_what_is_dropped_is_published_and_warned_of = None  # type: ignore[assignment]
    test_start_empty = None  # type: ignore[assignment]  # it is emptied when it is opened
    test_an_exception_before_any_assignment_replaces_nothing = None  # type: ignore[assignment]
    test_who_wants_nothing_of_it_discards = None  # type: ignore[assignment]  # the lock's file has a count of changes

    def make(self, path: Path, mode: str = "a", **more: Any) -> Any:
        return super().make(path, mode, locking=not more.get("mmap_mode"), **more)

    def beside(self, path: Path) -> list[str]:
        return [path.name] if path.is_dir() else [path.name, path.name + ".b2lock"]

    def test_as_a_dictionary(self, tmp_path: Path) -> None:
        """Any sequence of changes by two handles, compared with a plain dictionary."""
        contract = self
        names = st.sampled_from(["/a", "/b", "/g/a", "/g/b", "/g/h/c", "/é"])
        handles = st.integers(0, 1)
        lengths = st.sampled_from([1, 5, 3000])
        counter = iter(range(10**9))

        class Machine(RuleBasedStateMachine):
            @initialize()
            def create(self) -> None:
                self.path = tmp_path / f"m{next(counter)}{contract.suffix}"
                self.stores = [contract.make(self.path) for _ in range(2)]
                self.reader = contract.kind(str(self.path), mode="r", locking=True)
                self.now: dict[str, list[int]] = {}
                self.held: dict[tuple[int, str], Any] = {}

            @rule(me=handles, key=names, length=lengths)
            def put(self, me: int, key: str, length: int) -> None:
                value = np.random.default_rng(length).integers(0, 1 << 40, length)
                self.stores[me][key] = value
                self.now[key] = value.tolist()

            @rule(me=handles, key=names)
            def delete(self, me: int, key: str) -> None:
                if key in self.now:
                    del self.stores[me][key]
                    del self.now[key]
                else:
                    with pytest.raises(KeyError):
                        del self.stores[me][key]

            @rule(me=handles, key=names)
            def hold(self, me: int, key: str) -> None:
                if key in self.now:
                    self.held[me, key] = self.stores[me][key]

            @rule(me=handles, key=names, number=st.integers(0, 1000))
            def edit(self, me: int, key: str, number: int) -> None:
                if key in self.now:
                    self.stores[me][key][0] = number
                    self.now[key] = [number, *self.now[key][1:]]

            @rule(me=handles, old=names, new=names)
            def rename(self, me: int, old: str, new: str) -> None:
                store = self.stores[me]
                if old not in self.now:
                    with pytest.raises(KeyError):
                        store.rename(old, new)
                elif new in self.now and new != old:
                    with pytest.raises(ValueError, match="taken"):
                        store.rename(old, new)
                else:
                    store.rename(old, new)
                    self.now[new] = self.now.pop(old)

            @rule(me=handles, key=names, length=lengths, fails=st.booleans())
            def transaction(self, me: int, key: str, length: int, fails: bool) -> None:
                store = self.stores[me]
                try:
                    with store.transaction():
                        for other in list(self.now)[::2]:
                            del store[other]
                        store[key] = np.arange(length)
                        if fails:
                            raise ZeroDivisionError
                except ZeroDivisionError:
                    return
                for other in list(self.now)[::2]:
                    del self.now[other]
                self.now[key] = list(range(length))

            @rule(me=handles, length=lengths)
            def update(self, me: int, length: int) -> None:
                self.stores[me].update({"/a": np.arange(length), "/b": np.arange(2)})
                self.now |= {"/a": list(range(length)), "/b": [0, 1]}

            @rule(me=handles)
            def compact(self, me: int) -> None:
                self.stores[me].compact()

            @rule(me=handles)
            def flush(self, me: int) -> None:
                self.stores[me].flush()

            @rule(me=handles)
            def discard(self, me: int) -> None:
                self.stores[me].discard()

            @rule(me=handles)
            def reopen(self, me: int) -> None:
                self.stores[me].close()
                self.held = {held: leaf for held, leaf in self.held.items() if held[0] != me}
                self.stores[me] = contract.make(self.path)

            @invariant()
            def same(self) -> None:
                if not hasattr(self, "stores"):
                    return
                for store in (*self.stores, self.reader):
                    arrays = {k: v for k, v in store.items() if isinstance(v, blosc2.NDArray)}
                    assert {k: v[:].tolist() for k, v in arrays.items()} == self.now
                for (me, key), leaf in list(self.held.items()):
                    if self.stores[me].get(key) is not leaf:  # it was deleted, or set by this handle
                        del self.held[me, key]
                    else:
                        assert leaf[:].tolist() == self.now[key]

            def teardown(self) -> None:
                if hasattr(self, "stores"):
                    for store in (*self.stores, self.reader):
                        store.close()
                    report = blosc2.check(self.path)
                    assert report.ok, report

        run_state_machine_as_test(
            Machine, settings=settings(max_examples=15, stateful_step_count=20, deadline=None,
                                       suppress_health_check=list(HealthCheck))
        )  # fmt: skip


class TestEmbedded(Shared):
    kind = blosc2.EmbedStore
    suffix = ".b2e"


class TestZip(Shared):
    kind = blosc2.DictStore
    suffix = ".b2z"


class TestDirectory(Shared):
    kind = blosc2.DictStore
    suffix = ".b2d"


class TestTreeInZip(Shared):
    kind = blosc2.TreeStore
    suffix = ".b2z"


class TestMixedTree(Shared):
    kind = blosc2.TreeStore
    suffix = ".b2d"
    options: ClassVar[dict[str, Any]] = {"threshold": 100}
