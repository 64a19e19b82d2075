"""What no interrupt leaves out: the ends of context managers by generators, like those of `contextlib`; and steps.

An interrupt (Ctrl-C) at the beginning of an ``__exit__`` in Python keeps its generator where it yields, with the locks
that it holds, as long as somebody has the traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar, cast

from blosc2._core.io.sharing import Block

_P = ParamSpec("_P")
_T = TypeVar("_T")


class GeneratorBlock(Block, Generic[_T]):
    """What a generator does before it yields and afterwards.

    If the block raises, the generator is closed: that is a `GeneratorExit` where it yields.
    """

    __slots__ = ("_steps",)

    def __init__(self, steps: Iterator[_T]) -> None:
        self._steps = cast("Generator[_T, None, None]", steps)

    def __enter__(self) -> _T:
        try:
            return next(self._steps)
        except BaseException:
            self._steps.close()
            raise

    def _leave(self, failed: bool) -> None:
        if failed:
            self._steps.close()
        else:
            next(self._steps, None)


def as_block(function: Callable[_P, Iterator[_T]]) -> Callable[_P, GeneratorBlock[_T]]:
    """Have a function that yields once return a context manager."""

    @wraps(function)
    def begin(*given: Any, **more: Any) -> GeneratorBlock[_T]:
        return GeneratorBlock(function(*given, **more))

    return begin


def to_the_end(step: Callable[_P, None]) -> Callable[_P, None]:
    """Have a function that may be called again do all that it does: if it was interrupted, it begins anew."""

    @wraps(step)
    def done(*given: _P.args, **more: _P.kwargs) -> None:
        try:
            step(*given, **more)
        except BaseException:
            step(*given, **more)
            raise

    return done
