"""What sweeps over lines share: something is prepared, done with an interrupt at one line, and looked at."""

from __future__ import annotations

import dis
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final, Protocol

from stores.test_interrupts import Interrupt

_CAUGHT: Final = dis.opmap.get("PUSH_EXC_INFO", -1)


class Signal(Interrupt):
    """Passes over the instruction by which an error is caught: no signal is looked at between it and the raising."""

    def counts(self, frame: FrameType) -> bool:
        return frame.f_code.co_code[frame.f_lasti] != _CAUGHT and super().counts(frame)


class Scene(Protocol):
    """Something that is open and about to be changed."""

    def act(self) -> object:
        """What is interrupted."""

    def check(self) -> None:
        """Look at what is left, and go on with it."""


def count_lines(begin: Callable[[Path], Scene], folder: Path) -> int:
    """The lines of the package that an act comes to."""
    interrupt = Signal()
    for number in range(2):  # at first, some modules may have to be imported
        scene = begin(_new(folder / f"counted{number}"))
        with interrupt:
            scene.act()
        lines, interrupt = interrupt.lines, Signal()
        scene.check()
    return lines


def play_line(begin: Callable[[Path], Scene], at: int, folder: Path) -> None:
    """One run with an interrupt before a line of the act."""
    scene = begin(_new(folder / f"line{at}"))
    with Signal(at) as interrupt, suppress(KeyboardInterrupt):
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
