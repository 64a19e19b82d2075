"""Stores and files under faults: failing calls, crashes at any moment, full disks. See README.md."""

from __future__ import annotations

import os

#: Whether everything is tried that can be, and not only a part that takes no long time.
FULL = os.environ.get("BLOSC2_FAULTS") == "full"
