"""The order of the tests, and a garbage collector that passes over what pytest has collected."""

import gc

import pytest

LONGEST = "tests/testing/test_guide.py"
"""A test of 12 s. By its name it would be the last, with nothing left to do for the other process."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


def pytest_collection_finish() -> None:
    # 7,000 tests and their modules stay to the end: looking through them again and again took 6 % of the CPU.
    gc.collect()
    gc.freeze()
