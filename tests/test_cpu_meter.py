"""The meter counts what a test uses itself, in its fixtures and in its processes."""

import pytest

from tests.cpu_meter import lines
from tests.pages import ALONE, ROOT

pytest_plugins = ("pytester",)

SPENDING = """
import pytest, subprocess, sys, time
BURN = "import time\\nwhile time.process_time() < {}: pass"

def burn(seconds):
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass

@pytest.fixture
def costly():
    burn(0.05)

def test_itself():
    burn(0.05)

def test_fixture(costly):
    pass

def test_process():
    subprocess.run([sys.executable, "-S", "-c", BURN.format(0.1)], check=True)

def test_sleeps():
    time.sleep(0.05)
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_test_is_charged_for_itself_its_fixtures_and_its_processes(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name, value in ALONE.items():
        monkeypatch.setenv(name, value)
    pytester.makepyfile(test_it=SPENDING)
    told = pytester.runpytest_subprocess("-p", "xdist.plugin", "-p", "tests.cpu_meter", "-n", workers)
    told.assert_outcomes(passed=4)
    rows = [line.split() for line in told.outlines if " s  test_it.py::" in line]
    used = {name.partition("::")[2]: float(seconds) for seconds, _, name in rows}
    assert used["test_itself"] >= 0.05
    assert used["test_fixture"] >= 0.05
    assert used["test_process"] >= 0.1
    assert used["test_sleeps"] < 0.05


def test_the_most_expensive_stand_first_and_folders_have_sums() -> None:
    used = {"tests/a/b/c/test_x.py::one": 1.5, "tests/a/b/test_y.py::two": 2.0}
    assert [line.split() for line in lines(used)] == [
        ["2.00", "s", "tests/a/b/test_y.py::two"],
        ["1.50", "s", "tests/a/b/c/test_x.py::one"],
        ["3.50", "s", "tests/a/b"],
    ]
