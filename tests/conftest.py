"""The order of the tests, their folders in memory, limits of time, skips, garbage collection."""

import gc
import importlib
import inspect
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.browser import end_browser
from tests.effort import effort
from tests.postgres_server import SharedServer
from tests.processes import import_path
from tests.skips import Skips

LONGEST = ("tests/replay/testing/agents/test_guide.py", "tests/test_wheel.py")
"""Tests of many seconds. By name they would be the last, with nothing left to do for the other process."""

ROOT = Path(__file__).parent.parent
RAM = Path("/dev/shm")
RAM_FREE_MIN = 2 << 30
"""The suite writes up to 300 MB at a time, most of which pytest removes after each test."""

# No test is timed, so that a busy machine fails none. Where CI is set, these profiles build on the one that
# Hypothesis has for it, which makes the same examples each time. `hunt` is for tests that look for mutants.
settings.register_profile(
    "suite", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=effort(30, 400)
)
settings.register_profile("hunt", settings.get_profile("suite"), max_examples=100)
settings.load_profile("suite")


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a runtime that closes wait no second for answers under way: for tests in which none comes."""
    from callboard.runtime.runtime import Runtime  # here, for tests of imports want none before them

    defaults = inspect.unwrap(Runtime.aclose).__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "grace_s", 0.02)


def pytest_configure(config: pytest.Config) -> None:
    # The modules and tests that are made until the end of the collection stay to the end, so looking through
    # them for garbage finds none: it took a third of the CPU of collecting, and 6 % of that of the tests.
    gc.disable()
    config.pluginmanager.register(Skips(), "skips")
    config.pluginmanager.register(SharedServer(), "postgres server")
    # Thousands of small logs wait for a disk, which is slow. No test needs one: power loss is simulated, and
    # a process that is killed leaves its files in memory too.
    if _is_ram_usable():
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))


def pytest_unconfigure() -> None:
    gc.enable()  # where the collection failed
    end_browser()


def _is_ram_usable() -> bool:
    """Return True for a file system in memory with room, on which programs may be started."""
    if not RAM.is_dir() or not os.access(RAM, os.W_OK):
        return False
    return shutil.disk_usage(RAM).free >= RAM_FREE_MIN and not os.statvfs(RAM).f_flag & os.ST_NOEXEC


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    # Two processes collect the whole suite at once, and a fresh checkout has no bytecode: they begin at its
    # two ends, so that each compiles one half, and not all of it.
    is_whole = session.config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_whole and os.environ.get("PYTEST_XDIST_WORKER") == "gw1":
        for path in sorted(Path(__file__).parent.rglob("test_*.py"), reverse=True):
            with suppress(Exception, pytest.skip.Exception):  # the collection reports it
                importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()
    # Here, for the processes that tests start: those that run the tests have started.
    os.environ["PYTHONPATH"] = import_path(*filter(None, [os.environ.get("PYTHONPATH")]))
