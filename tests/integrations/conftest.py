"""Marks that xarray's own tests have."""

from __future__ import annotations

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for name in ("flaky", "network", "asyncio", "mypy", "skip_if_param", "skip_with_dask_array"):
        config.addinivalue_line("markers", f"{name}: of xarray's own tests")
