"""The order of the tests, no limits of time, a garbage collector that passes over what pytest collected."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

LONGEST = "tests/testing/test_guide.py"
"""A test of 12 s. By its name it would be the last, with nothing left to do for the other process."""

# No test is timed, so that a busy machine fails none. Where CI is set, Hypothesis has such a profile itself.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
if "CI" not in os.environ:
    settings.load_profile("busy")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    # 7,000 tests and their modules stay to the end: looking through them again and again took 6 % of the CPU.
    gc.collect()
    gc.freeze()
