"""What tests of stores share."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_makers import KINDS, Maker


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    """A store of each kind; `indirect` chooses some kinds."""
    return Maker(request.param, tmp_path)
