"""The faults are those of POSIX: elsewhere there is nothing to collect here."""

from __future__ import annotations

import os

import pytest

from blosc2 import _backends
from blosc2._backends.zip import publishing

collect_ignore_glob = ["test_*.py"] if os.name != "posix" else []


@pytest.fixture(autouse=True)
def few_leaves_have_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each story is played hundreds of times; what is large is slow, and fails at no other calls."""
    monkeypatch.setattr(publishing, "CATALOG_LEAST", 40)
    monkeypatch.setattr(_backends, "CATALOG_LEAST", 40)
