"""The faults are those of POSIX: elsewhere there is nothing to collect here."""

from __future__ import annotations

import os

collect_ignore_glob = ["test_*.py"] if os.name != "posix" else []
