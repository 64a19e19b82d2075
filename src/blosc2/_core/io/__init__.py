"""Where bytes come from: mapped and read files, checksums, what a forked child has anew.

A source gives bytes by their place, whatever lies there; nothing here knows a format. Every other part may
use all of it.
"""

__all__ = [
    "checksum", "forking", "source",
]  # fmt: skip
