"""The processes that tests start search for garbage only at their end, and still report open resources."""

import subprocess
import sys

import pytest

LEFT = """
import gc

def searches():
    return sum(one["collections"] for one in gc.get_stats())

class Left:
    def __init__(self):
        self.itself, self.begun = self, searches()
    def __del__(self):
        print("found after", searches() - self.begun)

Left()
import asyncio, json, http.client, unittest
"""


@pytest.mark.parametrize("options", [[], ["-W", "error"]])
def test_what_a_process_leaves_is_found_at_its_end_and_not_before(options: list[str]) -> None:
    done = subprocess.run([sys.executable, *options, "-c", LEFT], capture_output=True, text=True, check=True)
    assert done.stdout == "found after 0\n"
