"""Names of tests: the same in each process, so that several can share the tests of a run."""

from __future__ import annotations

import re


def shown(value: object) -> str:
    """`repr` of a value, without the address and the module that some objects show."""
    return re.sub(r"<(?:[\w.]*\.)?(\w+)( object)? at 0x[0-9a-f]+>", r"<\1\2>", repr(value))
