"""Which syncs a test counts, or lets fail."""

from __future__ import annotations

import threading


def is_of_others() -> bool:
    """Whether this is the thread that publishes late changes, and ends arrays that earlier tests have left to it."""
    return threading.current_thread().name == "blosc2-publishing"
