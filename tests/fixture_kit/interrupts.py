"""Ctrl-C at one point of a call: before a line of the package, or where the interpreter looks at signals."""

from __future__ import annotations

import dis
import inspect
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType
from typing import Any

from fixture_kit.lines import PACKAGE, AtLine

# So many calls tell whether a line was reached in the same way in another operation.
_SHORT = 3


@cache
def block_ends(code: CodeType) -> frozenset[int]:
    """Where the end of a ``with`` block is called, a ``try`` begins or an error is caught. The interpreter looks at
    signals after calls, so not between the last one in a block and its end, nor before an instruction that does
    nothing, nor between an error and its handler."""
    found: set[int] = set()
    ahead: list[dis.Instruction] = []
    for instruction in dis.get_instructions(code):
        if instruction.opname in ("NOP", "PUSH_EXC_INFO"):
            found.add(instruction.offset)
        ahead = [*ahead[-3:], instruction]
        if [one.argrepr for one in ahead[-3:]] == ["None"] * 3:
            found.add(ahead[-3].offset)
            if ahead[0].opname == "SWAP":
                found.add(ahead[0].offset)
    return frozenset(found)


class Interrupt(AtLine):
    """Raises `KeyboardInterrupt` before the n-th line of the package, as a signal would.

    With `thin`, a line counts the first time, the second, the fourth and so on that it is reached by one way of calls:
    for what is done hundreds of times.
    """

    #: So many calls tell ways apart.
    depth = 8

    def __init__(self, at: int = -1, *, thin: bool = False) -> None:
        super().__init__(at)
        self._thin = thin
        #: What a run without an interrupt comes to: a number for each line that counts, which tells how it is reached.
        self.found: list[int] = []
        self._times: Counter[tuple[Any, ...]] = Counter()

    def come(self) -> None:
        caller: FrameType | None = sys._getframe()
        while caller is not None:
            if caller.f_code.co_name == "__del__":  # what a collector runs cannot raise
                self.where = ""
                return
            caller = caller.f_back
        raise KeyboardInterrupt

    def counts(self, frame: FrameType) -> bool:
        return frame.f_lasti not in block_ends(frame.f_code) and self.is_due(frame)

    def is_due(self, frame: FrameType) -> bool:
        """Whether this is not one of many times."""
        if self._thin:
            way = tuple(_calls(frame, self.depth))
            times = self._times[way] = self._times[way] + 1
            if times & (times - 1):
                return False
        if self.at < 0:
            calls = [(code.co_filename, code.co_firstlineno, at) for code, at in _calls(frame, _SHORT)]
            self.found.append(zlib.crc32(repr(calls).encode()))
        return True


def _calls(frame: FrameType | None, depth: int) -> Iterator[tuple[CodeType, int]]:
    """The innermost calls, and where each is."""
    while frame is not None and depth:
        yield frame.f_code, frame.f_lasti
        frame, depth = frame.f_back, depth - 1


@cache
def _names(code: CodeType) -> dict[int, str]:
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


class Signal(Interrupt):
    """Raises `KeyboardInterrupt` at the n-th point of the package at which the interpreter looks at signals: at the
    beginning of a function, behind a call of native code, whose result is lost then, and before a next round."""

    #: The frame of the last instruction, and its name.
    _last: tuple[FrameType | None, str] = (None, "")

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        last, self._last = self._last, (None, "")
        code = frame.f_code
        if not code.co_filename.startswith(PACKAGE) or not self.watches(code):
            return None
        frame.f_trace_opcodes = True
        # A generator may also be called to be closed, by the collector.
        looks = event == "call" and not code.co_flags & inspect.CO_GENERATOR
        if event == "opcode":
            looks = last[0] is frame and (last[1].startswith("CALL") or last[1].startswith("JUMP_BACKWARD"))
            self._last = frame, _names(code).get(frame.f_lasti, "")
        if looks and self.is_due(frame):
            self.lines += 1
            if self.lines - 1 == self.at:
                self.where = f"{os.path.basename(code.co_filename)}:{frame.f_lineno} ({event})"
                sys.settrace(None)
                self._last = (None, "")
                self.come()
        return self._kept

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        self._last = (None, "")
