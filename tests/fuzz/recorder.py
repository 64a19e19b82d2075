"""Calls that are watched: what they gave, whether an error was a documented one, and what memory they took."""

from __future__ import annotations

import hashlib
import math
import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from blosc2.exceptions import FormatError

from .errors import allowed

MIB = 1 << 20
#: The rule: one operation holds at most this, and so many times the bytes of the file, beside what was asked for.
BASE = 64 * MIB
TIMES_FILE = 4
# Values of more bytes than this are not asked for: they only take time.
ENOUGH = 4 * MIB

# Operations on what was made in memory, which has no file.
_OF_COPIES = ("copy", "pickle", "compact")
_UNIT = 1024
# A sanitizer's allocator keeps what is released, with room around it: the peak is not that of the package.
_SANITIZED = "asan" in os.environ.get("LD_PRELOAD", "")
# Above this the peak is reset, so that the memory of one call is not counted for the next one.
_SOME = 8 * MIB
#: msgpack nests 1,024 levels, and each takes two calls of `stable`.
_DEEPEST = 5000


class Failure(Exception):
    """Something that must not happen; the text says what."""

    def __init__(self, kind: str, what: str, text: str) -> None:
        super().__init__(f"{kind}: {what}: {text}")
        self.kind, self.what, self.text = kind, what, text


class Refused:
    """Stands for the value of a call that raised a documented error."""

    def __bool__(self) -> bool:
        return False


REFUSED: Any = Refused()


def peak() -> int:
    """The most bytes that were resident since `forget_peak`."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT


def resident() -> int:
    """Bytes that are resident now."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def forget_peak() -> int:
    """Begin anew, where the system has a way to; bytes that are resident now."""
    try:
        with open("/proc/self/clear_refs", "wb", buffering=0) as file:
            file.write(b"5")
    except OSError:
        pass
    return resident()


class Recorder:
    """What the calls of one play gave, one after the other."""

    def __init__(self, size: int, note: Callable[[int, str], None]) -> None:
        self.size = size
        self.outcomes: list[tuple[str, str]] = []
        self.slowest = (0.0, "")
        self.largest = (0, "")
        self.errors = 0
        #: Whether the other source must give the same.
        self.comparable = True
        #: Whether that holds for compressed sizes, too: not for what was compressed just now.
        self.sizes_comparable = True
        self._note = note
        #: What errors about the file must name, where that is clear.
        self.named = ""
        self._floor = forget_peak()

    def __call__(
        self, operation: str, what: str, call: Callable[[], Any], *, asked: int = 0, compare: bool = True
    ) -> Any:
        """Do one call, and raise a `Failure` unless it ends as it may.

        `asked` is what the result and the blocks that hold it take. Where results are not to be compared between the
        two ways to read a file, `compare` is false.
        """
        self._note(len(self.outcomes), f"{operation}: {what}")
        start = time.process_time()
        value, outcome = REFUSED, "?"
        try:
            value = call()
            outcome = digest(value) if compare else "?"
        except Exception as error:
            if not allowed(operation, error):
                raise Failure("undocumented error", f"{operation}: {what}", _told(error)) from error
            if not str(error):
                raise Failure("an error that says nothing", f"{operation}: {what}", _told(error)) from error
            if (
                self.named
                and operation not in _OF_COPIES
                and isinstance(error, FormatError)
                and self.named not in str(error)
            ):
                raise Failure("an error that does not name the file", f"{operation}: {what}", _told(error)) from error
            outcome = type(error).__name__ if compare else "?"
            self.errors += 1
            error.__traceback__ = None
        spent = time.process_time() - start
        if spent > self.slowest[0]:
            self.slowest = spent, what
        # a value is copied once more for its digest
        used = peak() - self._floor
        if used > _SOME:
            self._floor = forget_peak()
        asked = max(asked, 0)  # of damaged sizes
        limit = BASE + TIMES_FILE * self.size + 2 * asked
        if used - 2 * asked > self.largest[0]:
            self.largest = used - 2 * asked, what
        if used > limit and not _SANITIZED:
            text = f"{used >> 10} KiB for a file of {self.size} bytes, {asked} asked for; {outcome}"
            raise Failure("memory", f"{operation}: {what}", text)
        self.outcomes.append((f"{operation}: {what}", outcome))
        return value


def _told(error: BaseException) -> str:
    """Class, text, and where it came from."""
    import traceback

    lines = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(error.__traceback__)]
    causes, cause = [], error.__cause__ or error.__context__
    while cause is not None and len(causes) < 3:
        causes.append(f"{type(cause).__name__}: {str(cause)[:200]}")
        cause = cause.__cause__ or cause.__context__
    after = f"; after {causes}" if causes else ""
    return f"{type(error).__module__}.{type(error).__name__}: {str(error)[:600]} ({' '.join(lines[-6:])}){after}"


def digest(value: Any) -> str:
    """A short text that is the same whenever the value is: the value itself where it is small."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, _DEEPEST))
    try:
        text = stable(value)
    finally:
        sys.setrecursionlimit(limit)
    if len(text) < 400:
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def stable(value: Any) -> str:
    """A text for any value, NaN and the order of sets included."""
    if value is None or isinstance(value, bool | int | str | Refused):
        return repr(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"bytes {hashlib.blake2b(value, digest_size=8).hexdigest()}"
    if isinstance(value, dict):
        return "{" + ",".join(f"{stable(k)}:{stable(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return type(value).__name__ + "[" + ",".join(stable(v) for v in value) + "]"
    if isinstance(value, set | frozenset):
        return "set[" + ",".join(sorted(stable(v) for v in value)) + "]"
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return f"array({value.shape},{stable(value.ravel().tolist())})"
        data = np.ascontiguousarray(value)
        raw = data.reshape(-1).view("u1") if data.dtype.itemsize and not data.dtype.hasobject else b""
        return f"array({value.dtype!r},{value.shape},{hashlib.blake2b(raw, digest_size=8).hexdigest()})"
    if isinstance(value, np.generic):
        return f"{value.dtype!r} {value.tobytes().hex()}"
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, complex):
        return f"complex {stable(value.real)} {stable(value.imag)}"
    if isinstance(value, float):
        return repr(value)
    return type(value).__name__
