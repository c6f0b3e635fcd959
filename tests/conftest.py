"""The garbage collector passes over what pytest has collected."""

import gc


def pytest_collection_finish() -> None:
    # 7,000 tests and their modules stay to the end: looking through them again and again took 6 % of the CPU.
    gc.collect()
    gc.freeze()
