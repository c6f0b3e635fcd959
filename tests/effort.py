"""How far the suite searches for faults. `make campaign` runs it with longer searches."""

import os
from typing import Final

import pytest

IS_CAMPAIGN: Final = "CAMPAIGN" in os.environ

timed = pytest.mark.skipif(
    not IS_CAMPAIGN, reason="measures time, which a busy machine stretches: CAMPAIGN=1"
)
"""Marks a test that measures time: no run of the suite fails since another program needs the processor."""


long_search = pytest.mark.skipif(
    not IS_CAMPAIGN, reason="a long search, of which the suite has shorter ones: CAMPAIGN=1"
)
"""Marks a search that takes seconds, beside others of its kind in the suite."""


def effort(suite: int, campaign: int) -> int:
    """Return the number of runs or examples of a search."""
    return campaign if IS_CAMPAIGN else suite
