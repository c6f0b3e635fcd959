"""The end of a validator at the first rule that a request breaks."""

from collections.abc import Callable


class Broken(Exception):
    """The sentence about a rule that a request breaks."""


def need(is_kept: bool, rule: str) -> None:
    """Raise Broken unless a rule is kept."""
    if not is_kept:
        raise Broken(rule)


def first_broken(check: Callable[[], object]) -> str:
    """Return the rule at which a check stops, or "" for none."""
    try:
        check()
    except Broken as broken:
        return str(broken)
    return ""
