from collections.abc import Callable
from typing import Any

from blosc2._core.frame.frame import Frame

#: What stands for the attributes of a group, whatever they are.
LEAF_OF_ATTRIBUTES: bytes

def describe(frame: Frame, dtype_of: Callable[[str], Any]) -> bytes: ...
