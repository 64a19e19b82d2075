from collections.abc import Callable
from typing import Any

from blosc2._core.frame import Frame

def describe(frame: Frame, dtype_of: Callable[[str], Any]) -> bytes: ...
