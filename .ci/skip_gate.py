"""pytest plugin of the CI: a test that is skipped (or expected to fail) without a listed reason fails the run.

The list is ``tests/skips.txt``. A line is ``node id | reason``; a node id that ends in ``*`` stands for all that
begin so. Empty lines and lines that begin with ``#`` say nothing.

The file that ``SKIPPED`` names gets a line for each test that was skipped, like those of the list: `skipped_before`
runs them where what they need is installed.
"""

import os
from pathlib import Path

import pytest

LIST = Path("tests") / "skips.txt"


def listed(text: str) -> dict[str, str]:
    """Return the node ids of a list and why each is skipped; every one must have a reason."""
    names = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = (part.strip() for part in line.partition(" | "))
        if not name or not reason:
            raise pytest.UsageError(f"{LIST}:{number}: expected 'node id | reason', found {line!r}")
        names[name] = reason
    return names


def reason_of(nodeid: str, names: dict[str, str]) -> str:
    """Why a test may be skipped, by all lines that name it; empty where none does."""
    return "; ".join(
        reason
        for name, reason in names.items()
        if nodeid == name or (name.endswith("*") and nodeid.startswith(name[:-1]))
    )


class SkipGate:
    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self.listed: dict[str, str] = {}
        self.unlisted: dict[str, str] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if not report.skipped:
            return
        reason = reason_of(report.nodeid, self._names)
        if reason:
            self.listed[report.nodeid] = reason
        else:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.unlisted[report.nodeid] = getattr(report, "wasxfail", reason)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if "SKIPPED" in os.environ and not hasattr(session.config, "workerinput"):  # all reports come together here
            with Path(os.environ["SKIPPED"]).open("a", encoding="utf-8") as file:
                file.writelines(f"{name} | {reason}\n" for name, reason in self.listed.items())

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unlisted:
            terminalreporter.section(f"skips that {LIST} does not list", red=True)
            for nodeid, reason in self.unlisted.items():
                terminalreporter.write_line(f"{nodeid}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    path = config.rootpath / LIST
    names = listed(path.read_text(encoding="utf-8")) if path.exists() else {}
    config.pluginmanager.register(SkipGate(names), "skip-gate")
