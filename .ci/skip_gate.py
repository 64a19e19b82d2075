"""pytest plugin of the CI: a test that is skipped (or expected to fail) without a listed reason fails the run.

The list is ``tests/skips.txt``. A line is ``node id | reason``; a node id that ends in ``*`` stands for all that
begin so. Empty lines and lines that begin with ``#`` say nothing.
"""

from pathlib import Path

import pytest

LIST = Path("tests") / "skips.txt"


def listed(text: str) -> list[str]:
    """Return the node ids of a list; every one must have a reason."""
    names = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, _, reason = (part.strip() for part in line.partition(" | "))
        if not name or not reason:
            raise pytest.UsageError(f"{LIST}:{number}: expected 'node id | reason', found {line!r}")
        names.append(name)
    return names


def is_listed(nodeid: str, names: list[str]) -> bool:
    return any(nodeid == name or (name.endswith("*") and nodeid.startswith(name[:-1])) for name in names)


class SkipGate:
    def __init__(self, names: list[str]) -> None:
        self._names = names
        self.unlisted: dict[str, str] = {}

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not is_listed(report.nodeid, self._names):
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self.unlisted[report.nodeid] = getattr(report, "wasxfail", reason)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unlisted and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unlisted:
            terminalreporter.section(f"skips that {LIST} does not list", red=True)
            for nodeid, reason in self.unlisted.items():
                terminalreporter.write_line(f"{nodeid}: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    path = config.rootpath / LIST
    names = listed(path.read_text(encoding="utf-8")) if path.exists() else []
    config.pluginmanager.register(SkipGate(names), "skip-gate")
