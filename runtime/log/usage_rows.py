"""The usage of sessions beside the events: a row for each session, day, model and profile."""

from collections.abc import Iterable
from typing import TypeAlias

import msgspec

from callboard.actors.protocol.near_names import NamedFields
from callboard.actors.protocol.plain_values import PlainValues
from callboard.actors.protocol.usage import Usage, usage_of
from callboard.actors.session.usage_books import Charge

Place: TypeAlias = tuple[str, str, str]
"""A day, a model and a profile."""


class UsageRow(PlainValues, frozen=True, gc=False, metaclass=NamedFields):
    """The usage of a session on one UTC day, with one model, by the agents of one profile."""

    session_id: str
    day: str
    model: str
    profile: str
    usage: Usage


def summed(charges: Iterable[Charge]) -> dict[Place, Usage]:
    """Return the sum of charges by day, model and profile."""
    found: dict[Place, list[Usage]] = {}
    for one in charges:
        found.setdefault((one.day, one.model, one.profile), []).append(one.usage)
    return {place: total(usages) for place, usages in found.items()}


def total(usages: Iterable[Usage]) -> Usage:
    """Return the sum of usages."""
    return usage_of(*map(sum, zip(*map(figures, usages), strict=True)))  # half the steps of `plus`


def figures(usage: Usage) -> tuple[int, ...]:
    """Return the numbers of a usage, in the order of its fields."""
    return msgspec.structs.astuple(usage)
