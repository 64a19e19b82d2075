"""Workers that may be killed by what they read: one process each, little address space, one line an answer."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[1]


def environment(**more: str) -> dict[str, str]:
    """The environment of a child that imports the same package and the modules of the tests."""
    env = dict(os.environ, PYTHONFAULTHANDLER="1", **more)
    env["PYTHONPATH"] = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return env


class WorkerDied(Exception):
    """The process ended, or gave no answer in time."""


class Worker:
    """A child that runs a module of `fixture_kit` and answers requests, one JSON line each.

    Parameters
    ----------
    module : str
        What `python -m` runs.
    timeout : float
        Seconds without an answer after which the child counts as hung.
    python : str
        Another interpreter, which then sees the tests' modules but not the package under test.
    env : str
        Variables of the child.
    """

    def __init__(self, module: str, *, timeout: float = 30.0, python: str | None = None, **env: str) -> None:
        self.timeout = timeout
        self.env = environment(**env)
        self.command = [sys.executable, "-W", "error", "-m", module]
        if python is not None:
            self.env["PYTHONPATH"] = str(TESTS)
            self.command = [python, "-W", "ignore", "-m", module]
        self._child: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env=self.env,
        )
        lines: queue.Queue[str | None] = queue.Queue()
        errors: list[str] = []

        def read_answers() -> None:
            assert child.stdout is not None
            for line in child.stdout:
                lines.put(line)
            lines.put(None)

        def read_errors() -> None:
            # always drained: a child must not block because nobody reads what it complains about
            assert child.stderr is not None
            errors.extend(child.stderr)

        self._readers = [threading.Thread(target=work, daemon=True) for work in (read_answers, read_errors)]
        for reader in self._readers:
            reader.start()
        self._lines, self._errors = lines, errors
        self._child = child
        return child

    def send(self, request: dict[str, Any]) -> None:
        """Give the child something to do; it is started when it is not there."""
        child = self._child or self._start()
        assert child.stdin is not None
        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
        except BrokenPipeError:
            raise self._death("ended before the request") from None

    def answer(self) -> Any:
        """The next answer; raises `WorkerDied` with the end of the child's stderr when there is none."""
        try:
            line = self._lines.get(timeout=self.timeout)
        except queue.Empty:
            raise self._death(f"no answer in {self.timeout:g} s") from None
        if line is None:
            raise self._death("ended")
        return json.loads(line)

    def ask(self, request: dict[str, Any]) -> Any:
        """One request, one answer."""
        self.send(request)
        return self.answer()

    def _death(self, what: str) -> WorkerDied:
        code = self.close(kill=True)
        text = "".join(self._errors[-25:])
        how = f"killed by signal {-code}" if code < 0 and "no answer" not in what else f"exit code {code}"
        return WorkerDied(f"{what}, {how}\n{text}")

    def close(self, *, kill: bool = False) -> int:
        """End the child and release its pipes."""
        child, self._child = self._child, None
        if child is None:
            return 0
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        if kill and child.poll() is None:
            try:
                child.wait(0.5)
            except subprocess.TimeoutExpired:
                child.kill()
        try:
            child.stdin.close()
        except BrokenPipeError:
            pass
        try:
            code = child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            code = child.wait()
        for reader in self._readers:
            reader.join(5)
        child.stdout.close()
        child.stderr.close()
        return code
