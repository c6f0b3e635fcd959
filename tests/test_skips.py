"""Tests that do not run are told, and fail in CI."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pages import ALONE
from tests.processes import import_path
from tests.skips import fail_in_ci, lines

ROOT = Path(__file__).parent.parent
PLUGIN = """
from tests.skips import Skips

def pytest_configure(config):
    config.pluginmanager.register(Skips())
"""
SUITE = """
import sys
import pytest


@pytest.mark.skipif(True, reason="needs a browser")
def test_of_a_page():
    raise AssertionError


@pytest.mark.skipif(True, reason="a long search: CAMPAIGN=1")
def test_of_a_search():
    raise AssertionError


def test_of_a_package():
    pytest.importorskip("no_such_package")


@pytest.mark.xfail(reason="known")
def test_that_is_expected_to_fail():
    raise AssertionError


def test_that_runs():
    pass
"""


def run(folder: Path, ci: str, *options: str) -> list[str]:
    """Return the last lines of a run of the suite above, with the plugin."""
    (folder / "test_few.py").write_text(SUITE)
    (folder / "test_module.py").write_text("import pytest\npytest.importorskip('no_such_library')\n")
    (folder / "conftest.py").write_text(PLUGIN)
    plugins = ["-p", "no:cacheprovider", "-p", "xdist.plugin"]
    command = [sys.executable, "-m", "pytest", "-q", *plugins, *options, str(folder)]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": import_path(ROOT), "CI": ci, **ALONE}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-n", "1")])
def test_what_does_not_run_is_told_in_a_line_for_each_reason(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    *told, summary = run(tmp_path, "", *options)
    assert sorted(
        re.sub(", first in .*?: ", ": ", line) for line in told if line.startswith("not run: ")
    ) == [
        "not run: 1: a long search: CAMPAIGN=1",
        "not run: 1: could not import 'no_such_library': No module named 'no_such_library'",
        "not run: 1: could not import 'no_such_package': No module named 'no_such_package'",
        "not run: 1: needs a browser",
    ]
    assert "1 passed, 4 skipped, 1 xfailed" in summary


@pytest.mark.slow
def test_in_ci_a_skip_fails_unless_no_installation_would_change_it(tmp_path: Path) -> None:
    told = "\n".join(run(tmp_path, "true", "--continue-on-collection-errors"))
    assert "not run, and CI is set: needs a browser" in told
    assert "not run, and CI is set: could not import 'no_such_library'" in told
    assert "1 failed, 1 passed, 1 skipped, 1 xfailed, 2 errors" in told


def test_an_expected_failure_is_no_skip() -> None:
    report = pytest.TestReport("a.py::b", ("a.py", 1, "b"), {}, "skipped", ("a.py", 1, "Skipped: no"), "call")
    assert lines([report]) == ["not run: 1, first in a.py: no"]
    report.wasxfail = "known"
    fail_in_ci(report)
    assert report.skipped
    assert lines([report]) == []
