"""Parameters of a handle or store that threads change or ask for at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import blosc2
from blosc2._frames.handle import HandleOptions


def array(_: Path) -> Any:
    """One about whose parameters nobody has said anything."""
    return blosc2.from_cframe(blosc2.asarray(np.arange(100)).to_cframe())


def store(folder: Path) -> Any:
    return blosc2.DictStore(str(folder / "x.b2z"), "w")


def set_clevel(made: Any) -> None:
    made.cparams = blosc2.CParams(clevel=1)


def set_nthreads(made: Any) -> None:
    made.dparams = blosc2.DParams(nthreads=1)


def test_different_parameters_that_are_set_both_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = array(tmp_path)
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
@pytest.mark.parametrize("make", [array, store])
def test_all_threads_get_the_same_parameters(make: Callable[[Path], Any], name: str, tmp_path: Path) -> None:
    """They may be changed, and then count."""
    made = make(tmp_path)
    together = threading.Barrier(8)
    found: list[Any] = []

    def ask() -> None:
        together.wait()
        found.append(getattr(made, name))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one is getattr(made, name) for one in found)
    if make is store:
        made.close()
