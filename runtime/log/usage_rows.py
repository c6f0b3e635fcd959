"""The usage of sessions beside the events: a row for each session, day, model and profile."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import ZERO, Usage, plus
from callboard.actors.session.usage_books import Charge

Place: TypeAlias = tuple[str, str, str]
"""A day, a model and a profile."""


class UsageRow(PlainValues, frozen=True, gc=False):
    """The usage of a session on one UTC day, with one model, by the agents of one profile."""

    session_id: str
    day: str
    model: str
    profile: str
    usage: Usage


def summed(charges: Iterable[Charge]) -> dict[Place, Usage]:
    """Return the sum of charges by day, model and profile."""
    found: dict[Place, Usage] = {}
    for day, model, profile, usage in charges:
        had = found.get((day, model, profile))
        found[day, model, profile] = usage if had is None else plus(had, usage)
    return found


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    found = ZERO
    for usage in usages:
        found = plus(found, usage)
    return found


def figures(usage: Usage) -> tuple[int, ...]:
    """Return the numbers of a usage, in the order of its fields."""
    return msgspec.structs.astuple(usage)
