"""Ctrl-C at any line: a store is open afterwards, with its pending changes, or closed and free for other writers."""

from __future__ import annotations

import dis
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import AtLine
from store_makers import KINDS, Maker, values_of

import blosc2

#: Of all lines, how many are tried in a short run.
_SOME = 8


@cache
def block_ends(code: CodeType) -> frozenset[int]:
    """Where the end of a ``with`` block is called, and where a ``try`` begins. The interpreter looks at signals after
    calls, so not between the last one in a block and this one, nor before an instruction that does nothing."""
    found, ahead = set(), []
    for instruction in dis.get_instructions(code):
        if instruction.opname == "NOP":
            found.add(instruction.offset)
        ahead = [*ahead[-3:], instruction]
        if [one.argrepr for one in ahead[-3:]] == ["None"] * 3:
            found.add(ahead[-3].offset)
            if ahead[0].opname == "SWAP":
                found.add(ahead[0].offset)
    return frozenset(found)


class Interrupt(AtLine):
    """Raises `KeyboardInterrupt` before the n-th line of the package, as a signal would."""

    def come(self) -> None:
        raise KeyboardInterrupt

    def watches(self, code: CodeType) -> bool:
        return code.co_name != "__del__"  # what a collector runs cannot raise

    def counts(self, frame: FrameType) -> bool:
        return frame.f_lasti not in block_ends(frame.f_code)


@dataclass
class Case:
    """What is interrupted: a store is prepared, something is done to it, and what is left is checked."""

    prepare: Callable[[Maker], Any]
    act: Callable[[Any], Any]
    check: Callable[[Any, Maker, str], None]


PUBLISHED = {"/g/a": [1, 2], "/g/b": list(range(50)), "/c": [3], "/d": list(range(9))}
AFTER = {"/g/a": [4, 2], "/g/e": list(range(50)), "/c": list(range(40)), "/f": [5]}


def filled(make: Maker) -> Any:
    with make("w") as store:
        store.update({key: np.array(value) for key, value in PUBLISHED.items()})
    return make("a")


def change(store: Any) -> None:
    """Changes of every kind, from `PUBLISHED` to `AFTER`."""
    store["/g/a"][0] = 4
    store.rename("/g/b", "/g/e")
    store["/c"] = np.arange(40)
    store["/f"] = np.array([5])
    del store["/d"]


def changed(make: Maker) -> Any:
    store = filled(make)
    change(store)
    return store


def check_ended(store: Any, make: Maker, *allowed: dict[str, Any]) -> None:
    """However a store was left, it ends well, and others can write to it then."""
    store.close()
    with make("a") as other:
        now = values_of(other)
        other["/more"] = [1]
    if make.is_directory:  # leaf by leaf
        assert all(any(now.get(key) == version.get(key) for version in allowed) for key in {*PUBLISHED, *AFTER})
    else:
        assert now in allowed
    assert make.values() == {**now, "/more": [1]}
    assert os.listdir(make.path.parent) == [make.path.name]


def undone(store: Any) -> None:
    """A transaction that raises."""
    with suppress(ZeroDivisionError), store.transaction():
        change(store)
        1 / 0  # noqa: B018


def check_undone(store: Any, make: Maker, where: str) -> None:
    assert values_of(store) == PUBLISHED
    with store.transaction():
        change(store)
    check_ended(store, make, AFTER)


def check_dropped(store: Any, make: Maker, where: str) -> None:
    shown = values_of(store)
    if (
        make.is_directory
    ):  # leaves with files were published by their assignments, and the others as soon as that is cheap
        assert all(shown.get(key) in (PUBLISHED.get(key), AFTER.get(key)) for key in {**PUBLISHED, **AFTER})
    else:
        assert shown in (PUBLISHED, AFTER)
    check_ended(store, make, shown)


def check_unchanged(store: Any, make: Maker, where: str) -> None:
    check_ended(store, make, PUBLISHED)


def check_operations(store: Any, make: Maker, where: str) -> None:
    """Each operation was done or not, and all that is known of the keys agrees."""
    shown = values_of(store)
    assert len(list(store)) == len(store)
    assert all(key in store for key in store)
    if make.is_tree:
        groups = {key[:end] for key in shown for end in range(1, len(key)) if key[end] == "/"}
        assert {key for key in store if isinstance(store[key], blosc2.TreeStore)} == groups
    assert set(shown) <= {*PUBLISHED, *AFTER}
    assert all(value in (PUBLISHED.get(key), AFTER.get(key)) for key, value in shown.items())
    assert ("/g/b" in shown) != ("/g/e" in shown)
    store.flush()
    check_ended(store, make, shown)


def transact(store: Any) -> None:
    with store.transaction():
        change(store)


def check_flushed(store: Any, make: Maker, where: str) -> None:
    """Published or not, the handle shows its changes, and can publish them again."""
    assert values_of(store) == AFTER
    assert len(list(store)) == len(store)
    store["/f"] = [5]
    store.flush()
    assert make.values() == values_of(store) == AFTER
    store["/f"][0] = 5
    check_ended(store, make, AFTER)


def check_flushed_and_dropped(store: Any, make: Maker, where: str) -> None:
    """What is dropped then is what was not published."""
    store.discard()
    check_shown(store, make, where)


def check_shown(store: Any, make: Maker, where: str) -> None:
    """The handle shows what is in the file, be it the old version or the new one, and goes on from there."""
    shown = values_of(store)
    assert shown == make.values()
    if not make.is_directory:
        assert shown in (PUBLISHED, AFTER)
    store["/f"] = [5]
    store.flush()
    assert make.values() == values_of(store) == {**shown, "/f": [5]}
    del store["/f"]
    store.flush()
    check_ended(store, make, {key: value for key, value in shown.items() if key != "/f"})


def check_transacted(store: Any, make: Maker, where: str) -> None:
    shown = values_of(store)
    if not make.is_directory:
        assert shown in (PUBLISHED, AFTER)
    check_shown(store, make, where)


def check_compacted(store: Any, make: Maker, where: str) -> None:
    """Packed anew or not, the values are the same, and the handle goes on."""
    assert values_of(store) == AFTER
    store["/f"] = [6]
    store.flush()
    assert make.values() == values_of(store) == {**AFTER, "/f": [6]}
    store.compact()
    del store["/f"]
    store.flush()
    check_ended(store, make, {key: value for key, value in AFTER.items() if key != "/f"})


def flushed(make: Maker) -> Any:
    store = changed(make)
    store.flush()
    return store


def write_many(store: Any) -> None:
    store.write_many((key, np.array(value)) for key, value in AFTER.items() if key not in PUBLISHED)


def check_written(store: Any, make: Maker, where: str) -> None:
    """All of the batch or none of it; in a directory, each leaf whole."""
    shown = values_of(store)
    new = {key: value for key, value in AFTER.items() if key not in PUBLISHED}
    if make.is_directory:
        assert all(shown.get(key, value) == value for key, value in {**PUBLISHED, **new}.items())
        assert PUBLISHED.items() <= shown.items()
    else:
        assert shown in (PUBLISHED, PUBLISHED | new)
    write_many(store)
    check_ended(store, make, PUBLISHED | new)


def check_closed(store: Any, make: Maker, where: str) -> None:
    """What is closed has published its changes, and what is open has them."""
    if store.closed:
        assert make.values() == AFTER
    check_ended(store, make, AFTER)


CASES = {
    "flush": Case(changed, lambda store: store.flush(), check_flushed),
    "quick flush": Case(changed, lambda store: store.flush(durable=False), check_flushed),
    "flush, discard": Case(changed, lambda store: store.flush(), check_flushed_and_dropped),
    "transaction": Case(filled, transact, check_transacted),
    "close with changes": Case(changed, lambda store: store.close(), check_closed),
    "operations": Case(filled, change, check_operations),
    "undone": Case(filled, undone, check_undone),
    "discard": Case(changed, lambda store: store.discard(), check_dropped),
    "compact": Case(flushed, lambda store: store.compact(), check_compacted),
    "write_many": Case(filled, write_many, check_written),
    "close": Case(filled, lambda store: store.close(), check_unchanged),
}


# A file that was opened when the interrupt came, and is known to nobody yet, is closed by the collector.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_interrupts(kind: str, case: str, tmp_path: Path) -> None:
    """Once for each line, or for some of them."""
    chosen, number = CASES[case], 0

    def prepared() -> tuple[Any, Maker]:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        make = Maker(kind, folder)
        return chosen.prepare(make), make

    for _ in range(2):  # at first, some modules may have to be imported
        store, make = prepared()
        with Interrupt() as count:
            chosen.act(store)
        chosen.check(store, make, "")
    for at in range(len(kind), count.lines, 1 if FULL else max(1, count.lines // _SOME)):
        store, make = prepared()
        with Interrupt(at) as interrupt, suppress(KeyboardInterrupt):
            chosen.act(store)
            assert not interrupt.where, f"swallowed at {interrupt.where}"
        try:
            chosen.check(store, make, interrupt.where)
        except BaseException as error:
            error.add_note(f"interrupted before {interrupt.where}, line {at} of all")
            raise
