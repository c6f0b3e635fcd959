"""Numbers far from the others of their column, by a robust spread.

The distance of a number from the median is measured in factors, and compared with the median of these
distances: one wrong number does not move that, and a column that varies widely, such as 3 to 950, has no odd
number. The spread counts as at least 4 %, so that a factor of 1.43 is the least, and as 12 %, a factor of 3,
in a short column; for counts also as half of a standard deviation of their noise: 4 is not far from 1.
"""

import math
from collections.abc import Sequence
from typing import Final, TypeAlias

Number: TypeAlias = int | float

_SPREADS: Final = 6
_LEAST: Final = 0.04
_LEAST_IN_SHORT: Final = 0.12
_SHORT: Final = 6  # a column of so many numbers, or fewer, is short: they may be close by chance
_SIGMA: Final = 1.4826  # times the median distance: the standard deviation, if the distances are normal
_PART_MAX: Final = 1 / 4  # of the column may be odd: more of them are a second group
_ZERO_COUNT: Final = 0.5
_ZERO: Final = 0.01  # of the median: the place of a zero among measures that have none
_DIGITS_MAX: Final = 300  # a longer integer does not fit a float


def odd_places(column: Sequence[Number]) -> list[int]:
    """Return the places of the numbers that are far from the others; none if the median is not positive.

    Numbers below zero are left alone.
    """
    if any(isinstance(one, int) and abs(one) >= 10**_DIGITS_MAX for one in column):
        return []
    middle = median(column)
    if not middle > 0:
        return []
    are_counts = all(isinstance(one, int) for one in column)
    zero = min(_ZERO_COUNT, middle / 2) if are_counts else middle * _ZERO
    distances = [abs(math.log((one or zero) / middle)) for one in column if one >= 0]
    least = _LEAST if len(column) > _SHORT else _LEAST_IN_SHORT
    least = max(least, 0.5 / math.sqrt(middle)) if are_counts else least
    bound = _SPREADS * _SIGMA * max(median(distances), least)
    odd = [
        place
        for place, one in enumerate(column)
        if one >= 0 and abs(math.log((one or zero) / middle)) > bound
    ]
    return odd if len(odd) <= _PART_MAX * len(column) else []


def median(values: Sequence[Number]) -> Number:
    """Return the median. The module `statistics` takes longer to import than a diagnosis."""
    ordered, half = sorted(values), len(values) // 2
    if len(values) % 2:
        return ordered[half]
    both = ordered[half - 1] + ordered[half]
    return both // 2 if both % 2 == 0 else both / 2
