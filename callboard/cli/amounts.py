"""Amounts of a command line: limits of a session, budgets above sessions, and the capacity of models."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.limits import TABLE, WHOLE, Limits
from callboard.actors.session.budget_limits import Budget, checked_patterns
from callboard.actors.session.capacity import Capacity
from callboard.cli.errors import misused, refuse_if

_FACTORS: Final = {"k": 1_000, "m": 1_000_000}
_AMOUNT: Final = re.compile(r"(?P<number>[\d_.]+[km]?)\s*(?P<unit>usd|tokens)(/(?P<per>day|month))?")


def parse_limits(pairs: Sequence[str]) -> Limits:
    """Parse `name=value` pairs; whole numbers may be written `200_000`, `200k` or `2m`."""
    stated: dict[str, float] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        name = name.strip()
        is_known = equals and name in TABLE
        refuse_if(not is_known, f"--limit {pair!r}: write NAME=VALUE; names: {', '.join(TABLE)}")
        stated[name] = _number(f"--limit {pair!r}", text.strip().lower(), is_whole=name in WHOLE)
    try:
        return msgspec.convert(stated, Limits)
    except (ValueError, msgspec.ValidationError) as error:
        raise misused(f"--limit: {error}") from None


def parse_budgets(pairs: Sequence[str]) -> dict[str, Budget] | None:
    """Parse `pattern=amount` pairs, such as `tenant:*=20usd/day`; None without any.

    A pattern may be stated once in each unit, for one kind of period.
    """
    stated: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        pattern, _, text = pair.rpartition("=")  # a tag may contain this sign, and an amount does not
        place, found = f"--budget {pair!r}", _AMOUNT.fullmatch(text.strip().lower())
        if not found or not pattern:
            raise misused(
                f"{place}: write PATTERN=AMOUNT, where the amount is in usd or tokens, for all time, /day or "
                "/month, such as '*=20usd/day'"
            )
        is_money = found["unit"] == "usd"
        name = "cost_usd" if is_money else "tokens"
        fields = stated.setdefault(pattern, {"per": found["per"]})
        refuse_if(name in fields, f"{place}: {pattern!r} has a budget in this unit already")
        is_other = fields["per"] != found["per"]
        refuse_if(is_other, f"{place}: the budgets of {pattern!r} have different periods; use one")
        fields[name] = _number(place, found["number"], is_whole=not is_money)
    try:
        return checked_patterns({one: Budget(**fields) for one, fields in stated.items()}) or None
    except MisuseError as error:
        raise misused(f"--budget: {error}") from None


def parse_capacity(pairs: Sequence[str], fair_by: str = "") -> dict[str, Capacity]:
    """Parse `model=calls` pairs, perhaps with tokens a minute: `claude=8`, `claude=8,400k`.

    fair_by: the pattern of the tags that have equal parts; empty for none.
    """
    stated: dict[str, Capacity] = {}
    try:
        pattern = Capacity(fair_by=fair_by or None).fair_by
    except MisuseError as error:
        raise misused(f"--fair-by {fair_by!r:.80}: {str(error).partition('; ')[2]}") from None
    for pair in pairs:
        model, _, text = pair.rpartition("=")
        place = f"--capacity {pair!r}"
        parts = [one.strip().lower() for one in text.split(",")]
        is_unclear = not model or len(parts) > 2 or not any(parts)
        refuse_if(is_unclear, f"{place}: write MODEL=CALLS or MODEL=CALLS,TOKENS_PER_MINUTE")
        refuse_if(model in stated, f"{place}: {model!r} has a capacity already")
        calls, tokens = [int(_number(place, one, is_whole=True)) if one else None for one in (*parts, "")[:2]]
        try:
            stated[model] = Capacity(calls, tokens, pattern)
        except MisuseError as error:
            raise misused(f"{place}: {error}") from None
    return stated


def _number(place: str, text: str, *, is_whole: bool) -> float:
    parse, kind = _WHOLE if is_whole else _FRACTION
    try:
        return parse(text)
    except ValueError:
        raise misused(f"{place}: the value must be {kind}") from None


def _whole(text: str) -> int:
    factor = _FACTORS.get(text[-1:], 1)
    return int(text[:-1] if factor > 1 else text) * factor


_WHOLE: Final = (_whole, "a whole number, such as 200000 or 200k")
_FRACTION: Final = (float, "a number")
