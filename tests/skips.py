"""Tests that do not run are told at the end of a run, in a line for each reason; in CI they fail.

A test may ask for more than a machine has: a browser, another Python, a package. Such a skip is a hole in
what a green run says. Not so a search that `CAMPAIGN=1` makes longer, a test of another system, one that
needs the large client of `callboard[claude]`, or one with a Ray cluster, which `make ray-tests` runs: these
are told, too, but fail nowhere.
"""

import os
from collections import Counter
from collections.abc import Generator, Iterable
from typing import Final

import pytest

IS_CI: Final = os.environ.get("CI", "").lower() not in ("", "0", "false")
ELSEWHERE: Final = ("CAMPAIGN=1", "this system", "callboard[claude]", "make ray-tests")
"""Words in the reason of a skip that no installation would change, or none of CI's size."""

_Report = pytest.TestReport | pytest.CollectReport


def reason_of(report: _Report) -> str:
    """Return the reason of a skip; empty for an expected failure, which has run."""
    if hasattr(report, "wasxfail") or not isinstance(report.longrepr, tuple):
        return ""
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def fail_in_ci(report: _Report) -> None:
    """Make a failure of a skip that an installation would change."""
    reason = reason_of(report) if report.skipped else ""
    if IS_CI and reason and not any(words in reason for words in ELSEWHERE):
        report.outcome = "failed"
        report.longrepr = f"not run, and CI is set: {reason}"


def lines(reports: Iterable[_Report]) -> list[str]:
    """Return one line for each reason, with the number of tests (or modules) and the file of the first."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for report in reports:
        if reason := reason_of(report):
            counts[reason] += 1
            first.setdefault(reason, report.nodeid.partition("::")[0])
    return [f"not run: {count}, first in {first[reason]}: {reason}" for reason, count in counts.items()]


class Skips:
    """The plugin."""

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Look at a test's report, in the process that runs it."""
        report = yield
        fail_in_ci(report)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Look at a module that skips itself as it is imported."""
        report = yield
        fail_in_ci(report)
        return report

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell which tests were not run."""
        for line in lines(terminalreporter.stats.get("skipped", ())):
            terminalreporter.write_line(line, yellow=True)
