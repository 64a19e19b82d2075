"""The two sides of a comparison as worker processes, and the environment of the reference package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REFERENCE = "blosc2==4.14.1"
WORKER = Path(__file__).resolve().with_name("worker.py")


class JobError(Exception):
    """One side could not do a job; the other side may."""


def reference_python(given: str | None) -> str:
    """A Python with the reference package: the given one, or a virtual environment that is made once."""
    given = given or os.environ.get("BLOSC2_UPSTREAM_PYTHON")
    if given:
        return given
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "python-blosc2" / REFERENCE.replace("==", "-")
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        print(f"making a virtual environment with {REFERENCE} in {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", REFERENCE], check=True)
        (folder / "complete").touch()
    return str(python)


class Side:
    """A worker that stays for the whole run."""

    def __init__(
        self, name: str, python: str, *, isolated: bool, worker: Path = WORKER, arguments: Iterable[str] = ()
    ) -> None:
        self.name = name
        env = dict(os.environ)
        if isolated:
            # the package under test must not shadow the reference
            env.pop("PYTHONPATH", None)
        self._child = subprocess.Popen(
            [python, str(worker), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=env,
            encoding="utf-8",
        )

    def ask(self, job: str, **arguments: Any) -> dict[str, Any]:
        """Have the worker do a job; a failure of the job is a `JobError`."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        try:
            self._child.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
            self._child.stdin.flush()
        except BrokenPipeError:
            raise JobError(f"{self.name}: the worker ended") from None
        line = self._child.stdout.readline()
        if not line:
            raise JobError(f"{self.name}: the worker ended with exit code {self._child.wait()} in {job}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise JobError(f"{self.name}: {answer['error']}")
        return answer

    def close(self) -> None:
        """End the worker."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.close()
        self._child.wait()
        self._child.stdout.close()


def once(python: str, job: dict[str, Any], *, worker: Path, isolated: bool) -> dict[str, Any]:
    """One job in a process of its own."""
    side = Side(python, python, isolated=isolated, worker=worker)
    try:
        return side.ask(**job)
    finally:
        side.close()
