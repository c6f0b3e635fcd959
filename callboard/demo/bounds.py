"""How much one tool says: bounds on answers, so that they reach a model whole."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from callboard.demo.facts import Skipped

T = TypeVar("T")

ANSWER_CHARS_MAX: Final = 45_000
"""Below the runtime's own default of 50,000 (`Limits.max_tool_output_chars`), so that answers stay whole."""

SKIPPED_MAX: Final = 10
_SKIPPED_CHARS_MAX: Final = 4_000


def fitting(items: Sequence[T], text: Callable[[T], str], room: int) -> tuple[T, ...]:
    """The first items, as many as have room by the length of their texts."""
    taken: list[T] = []
    for item in items:
        room -= len(text(item))
        if room < 0:
            break
        taken.append(item)
    return tuple(taken)


def some_skipped(skipped: Sequence[Skipped]) -> tuple[tuple[Skipped, ...], int]:
    """The first few, and how many more there are."""
    few = fitting(skipped[:SKIPPED_MAX], lambda skip: skip.path + skip.why, _SKIPPED_CHARS_MAX)
    return few, len(skipped) - len(few)
