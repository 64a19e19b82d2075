"""The reference package in a virtual environment of its own, driven as a worker.

BLOSC2_UPSTREAM_PYTHON names a Python that has it; without it an environment is made once and kept in the user's
cache folder.
"""

from __future__ import annotations

import os
import subprocess
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fixture_kit.isolated import Worker

VERSION = "4.14.1"


class Upstream:
    """The reference package: every function of `fixture_kit.peer`, run over there."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        def call(**arguments: Any) -> Any:
            self._worker.send([name, arguments])
            answer = self._worker.answer()
            assert "error" not in answer, f"upstream: {answer['error']}\n{answer['traceback']}"
            return answer["value"]

        return call


def upstream_python() -> str:
    given = os.environ.get("BLOSC2_UPSTREAM_PYTHON")
    if given:
        return given
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "python-blosc2" / f"blosc2-{VERSION}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"blosc2=={VERSION}"], check=True)
        (folder / "complete").touch()
    return str(python)


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """The reference package, ready to be called."""
    worker = Worker("fixture_kit.peer", python=upstream_python(), timeout=60)
    reference = Upstream(worker)
    assert reference.about() == VERSION
    yield reference
    worker.close()
