"""Parameters of a handle or store that two threads change or ask for at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import FULL
from fixture_kit.lines import Beside, lines_of

import blosc2
from blosc2._handles.handle import HandleOptions

FRAME = blosc2.asarray(np.arange(100)).to_cframe()


def at_each_line(
    call: Callable[[Any], Any], make: Callable[[], Any], beside: Callable[[Any], Any], step: int = 1
) -> Iterator[Any]:
    """The object, what the call gave, what another thread got before one of its lines, and which; for each line."""
    made = make()
    lines = lines_of(lambda: call(made))
    assert lines
    for at in range(0, lines, 1 if FULL else step):
        made = make()
        with Beside(partial(beside, made), at) as other:
            found = call(made)
        other.thread.join()
        yield made, found, other.found[0], other.where


def array() -> Any:
    return blosc2.from_cframe(FRAME)  # nobody has said anything about its parameters


def set_clevel(made: Any) -> None:
    made.cparams = blosc2.CParams(clevel=1)


def set_nthreads(made: Any) -> None:
    made.dparams = blosc2.DParams(nthreads=1)


def test_different_parameters_that_are_set_both_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made = array()
    replace = HandleOptions._replace
    others = [threading.Thread(target=lambda: set_nthreads(made))]

    def replaced(options: HandleOptions, **changes: Any) -> HandleOptions:
        if others:
            other = others.pop()
            other.start()
            other.join(0.3)  # it may have to wait for this one
            waiting.append(other)
        return replace(options, **changes)

    waiting: list[threading.Thread] = []
    monkeypatch.setattr(HandleOptions, "_replace", replaced)
    set_clevel(made)
    waiting[0].join()
    assert (made.cparams.clevel, made.dparams.nthreads) == (1, 1)


@pytest.mark.parametrize("name", ["cparams", "dparams"])
def test_all_threads_get_the_same_parameters_of_an_array(name: str) -> None:
    """They may be changed, and then count."""
    getattr(array(), name)
    for made, found, other, where in at_each_line(attrgetter(name), array, attrgetter(name)):
        assert found is other is getattr(made, name), where


def test_parameters_that_are_asked_for_do_not_undo_those_that_are_set() -> None:
    for made, _, _, where in at_each_line(attrgetter("dparams"), array, set_nthreads):
        assert made.dparams.nthreads == 1, where


@pytest.mark.parametrize("name", ["cparams", "dparams"])
def test_all_threads_get_the_same_parameters_of_a_store(name: str, tmp_path: Path) -> None:
    number = iter(range(1000))

    def store() -> blosc2.DictStore:
        return blosc2.DictStore(str(tmp_path / f"{next(number)}.b2z"), "w")

    getattr(store(), name)
    for made, found, other, where in at_each_line(attrgetter(name), store, attrgetter(name), 9):
        assert found is other is getattr(made, name), where
        made.close()
