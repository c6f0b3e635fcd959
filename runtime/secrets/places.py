"""The places of secrets in a text, and the placeholders that are put there."""

from collections.abc import Iterable
from typing import NamedTuple


class Found(NamedTuple):
    """The place of a secret. is_rest: it stands for all of the text from there on, which was not searched."""

    start: int
    end: int
    name: str
    is_rest: bool = False


def placeholder(name: str) -> str:
    """Return the text that replaces a secret."""
    return f"[secret:{name}]"


def merged(places: Iterable[Found]) -> list[Found]:
    """Return places in order. Those that overlap are one, named after the first."""
    found: list[Found] = []
    for each in sorted(places, key=lambda each: (each.start, -each.end)):
        if found and each.start < found[-1].end:
            last = found[-1]
            found[-1] = last._replace(end=max(last.end, each.end), is_rest=last.is_rest or each.is_rest)
        else:
            found.append(each)
    return found


def with_placeholders(data: bytes, end: int, places: Iterable[Found]) -> bytes:
    """Return the data up to an end, with placeholders. A secret at the end is replaced whole."""
    parts, at = [], 0
    for found in places:
        if found.start < end:
            parts += [data[at : found.start], placeholder(found.name).encode()]
            at = found.end
    return b"".join([*parts, data[at:end]])
