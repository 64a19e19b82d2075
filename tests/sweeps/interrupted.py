"""What sweeps over lines share: something is prepared, done with an interrupt at one line, and looked at."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from fixture_kit.interrupts import Interrupt


class Scene(Protocol):
    """Something that is open and about to be changed."""

    def act(self) -> object:
        """What is interrupted."""

    def check(self) -> None:
        """Look at what is left, and go on with it."""


def count_lines(begin: Callable[[Path], Scene], folder: Path) -> list[int]:
    """The lines of the package that an act comes to: how each is reached, by a number."""
    interrupt = Interrupt()
    for number in range(2):  # at first, some modules may have to be imported
        scene = begin(_new(folder / f"counted{number}"))
        with interrupt:
            scene.act()
        found, interrupt = interrupt.found, Interrupt()
        scene.check()
    return found


def play_line(begin: Callable[[Path], Scene], at: int, folder: Path) -> None:
    """One run with an interrupt before a line of the act."""
    scene = begin(_new(folder / f"line{at}"))
    with Interrupt(at) as interrupt, suppress(KeyboardInterrupt):
        scene.act()
        assert not interrupt.where, f"swallowed at {interrupt.where}"
    try:
        scene.check()
    except BaseException as error:
        error.add_note(f"interrupted before {interrupt.where}, line {at} of all")
        raise


def _new(folder: Path) -> Path:
    folder.mkdir()
    return folder
