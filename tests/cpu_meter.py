"""Measure the CPU of each test, with its fixtures and the processes that it waits for.

    python -m pytest -n 2 -p tests.cpu_meter [FOLDER]

CPU, not time: on a busy machine a test takes longer, but hardly more of a processor. A processor that is
shared by threads of the machine still costs up to half as much again, so compare runs under the same load.
"""

import resource
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from typing import Final

import pytest

PROPERTY: Final = "cpu_s"
SHOWN: Final = 40
FOLDER_PARTS: Final = 3
"""Parts of a path that name a folder in the sums, as in `tests/runtime/log`."""


def cpu_s() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


class CpuMeter:
    """Measures in each process that runs tests, and sums where the reports are collected."""

    def __init__(self) -> None:
        self.used: dict[str, float] = defaultdict(float)
        self._before = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._before = cpu_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note in the report of a phase what has been used since the phase before."""
        report = yield
        now = cpu_s()
        report.user_properties.append((PROPERTY, now - self._before))  # xdist passes these on
        self._before = now
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == PROPERTY and isinstance(value, float):
                self.used[report.nodeid] += value

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"{sum(self.used.values()):.1f} CPU seconds of tests")
        for line in lines(self.used):
            terminalreporter.write_line(line)


def lines(used: Mapping[str, float]) -> Iterator[str]:
    """Yield the tests that took most, and the sum of each folder."""
    folders: dict[str, float] = defaultdict(float)
    for name, seconds in used.items():
        folders["/".join(name.partition("::")[0].split("/")[:-1][:FOLDER_PARTS])] += seconds
    for name, seconds in (*_most_first(used)[:SHOWN], *_most_first(folders)):
        yield f"{seconds:8.2f} s  {name}"


def _most_first(used: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(used.items(), key=lambda one: -one[1])


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuMeter())
