"""The state of a folder, to see that nothing in it changed."""

from __future__ import annotations

import os
from pathlib import Path


def tree_state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below `root` with its mode and its bytes; folders have none."""
    found = {}
    for folder, _, names in os.walk(root):
        for path in [Path(folder), *(Path(folder, name) for name in names)]:
            data = b"" if path.is_dir() else path.read_bytes()
            found[path.relative_to(root).as_posix()] = (path.stat().st_mode, data)
    return found
