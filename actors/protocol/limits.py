"""The limits of a session, an agent and a call: one table, from which all else about limits follows.

A session, a profile and a call may each state limits. A limit of None is not stated: it comes from
above, in the end from `DEFAULTS`. The narrowest statement holds. A child inherits an agent's limit, and
draws on its parent's scope for the others (`Bound.reach`).

To add a limit:

1. Add its line to `Limits`. The checks, the defaults, narrowing, inheritance, `--limit NAME=VALUE` and the
   comparison of agents read that line.
2. Obey it where it binds: an agent's `Begin` states every limit, so a decider reads `state.limits`.
3. Add a rule to `replay/testing/rules` that finds from the log alone where the limit is broken.
4. Make the golden logs again (`python -m tests.golden`), since each `Begin` in them has a new field.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, get_args, get_type_hints

import msgspec

from callboard.actors.protocol.immutable import Part
from callboard.actors.protocol.near_names import NamedFields

Count: TypeAlias = int | None
Dollars: TypeAlias = float
Amount: TypeAlias = float | None

_TOO_LARGE: Final = 2**53
"""JSON readers that hold numbers as doubles confuse whole numbers from here on."""


class Bound(NamedTuple):
    """One row of the table of limits.

    text: the meaning, after the name. default: None for no limit. has_zero: zero is a sensible limit.
    reach: `agent` if a child inherits the limit, `scope` if a child draws on the rest of it.
    """

    text: str
    default: float | None = None
    has_zero: bool = False
    reach: Literal["agent", "scope"] = "agent"


class Limits(Part, frozen=True, metaclass=NamedFields):
    """Limits on delegation, turns, spending and time; `TABLE` has their meanings and defaults.

    Raises ValueError for a limit that is negative, zero where it would leave nothing to do, or not a finite
    number, and TypeError for an unknown name, with the nearest one.
    """

    max_depth: Annotated[Count, Bound("levels of agents below the host; 0 is the host alone", 3, True)] = None
    max_iterations: Annotated[Count, Bound("turns or questions of a program; of a host, per ask", 30)] = None
    max_children: Annotated[Count, Bound("copies in one turn; for a program, live copies", 32, True)] = None
    max_agents: Annotated[Count, Bound("agents of one session, including the host", 1_000)] = None
    max_parallel_calls: Annotated[Count, Bound("model calls in flight in one session", 64)] = None
    max_report_attempts: Annotated[Count, Bound("invalid reports of one agent", 5)] = None
    max_model_attempts: Annotated[Count, Bound("attempts of one model call", 6)] = None
    tokens: Annotated[Count, Bound("tokens of a subtree: input, output, cache", None, True, "scope")] = None
    cost_usd: Annotated[Amount, Bound("US dollars of a subtree; needs prices", None, True, "scope")] = None
    deadline_s: Annotated[Amount, Bound("seconds until the agent or ask is ended", reach="scope")] = None
    model_timeout_s: Annotated[Amount, Bound("seconds of one model call", 600.0)] = None
    schema_timeout_s: Annotated[Amount, Bound("seconds of one schema check", 5.0)] = None
    tool_timeout_s: Annotated[Amount, Bound("seconds of one tool call", 120.0)] = None
    approval_timeout_s: Annotated[Amount, Bound("seconds that a question waits for a person")] = None
    cancel_grace_s: Annotated[Amount, Bound("seconds an outcome waits for work to stop", 10.0, True)] = None
    max_tool_output_chars: Annotated[Count, Bound("characters of one result for the model", 50_000)] = None
    max_result_chars: Annotated[Count, Bound("bytes of a sub-agent's answer for its parent", 8_000)] = None
    max_tool_calls: Annotated[Count, Bound("calls of one reply; further ones are errors", 128)] = None
    max_parallel_tools: Annotated[Count, Bound("tools of one agent that run at a time", 32)] = None
    max_steps: Annotated[Count, Bound("steps of one program; for the host, per ask", 10_000)] = None

    def __post_init__(self) -> None:
        for name, lowest, is_whole in _CHECKS:
            value = getattr(self, name)
            if value is None:
                continue
            is_number = isinstance(value, int if is_whole else int | float) and not isinstance(value, bool)
            if not is_number or not lowest <= value < _TOO_LARGE:
                raise ValueError(f"Limits.{name} must be {_wanted(lowest, is_whole)}, not {value!r}")
            if not is_whole:
                msgspec.structs.force_setattr(self, name, float(value))
        super().__post_init__()


def _wanted(lowest: float, is_whole: bool) -> str:
    if is_whole:
        return f"a whole number from {lowest} to 2**53 - 1"
    return f"a number {'above' if lowest else 'from'} 0, below 2**53"


_HINTS: Final = get_type_hints(Limits, include_extras=True)

TABLE: Final[Mapping[str, Bound]] = MappingProxyType(
    {name: _HINTS[name].__metadata__[0] for name in Limits.__struct_fields__}
)
"""The row of each limit, by its name."""

WHOLE: Final = frozenset(name for name in TABLE if int in get_args(_HINTS[name].__origin__))
"""The limits that are counted, in whole numbers; seconds and dollars may have fractions."""

_CHECKS: Final = tuple(
    (name, 0 if row.has_zero else 1 if name in WHOLE else 1e-9, name in WHOLE) for name, row in TABLE.items()
)
"""The name of each limit, its lowest value, and whether it is whole."""

_SHARED: Final = {name: None for name, row in TABLE.items() if row.reach == "scope"}
_UNSTATED: Final = Limits()

# Depth 3 is Claude Code's choice since 2.1.219; the other defaults are callboard's own.
DEFAULTS: Final = msgspec.convert({name: row.default for name, row in TABLE.items()}, Limits)
"""The limits that hold where none are stated."""


def fill(limits: Limits, defaults: Limits = DEFAULTS) -> Limits:
    """Return the limits, with the defaults for those that are not stated."""
    missing = {name: getattr(defaults, name) for name in TABLE if getattr(limits, name) is None}
    return msgspec.structs.replace(limits, **missing)


def narrow(wide: Limits, own: Limits) -> Limits:
    """Return the lower of both limits for each name."""
    if own == _UNSTATED:
        return wide
    both = {}
    for name in TABLE:
        mine, theirs = getattr(own, name), getattr(wide, name)
        both[name] = theirs if mine is None else mine if theirs is None else min(mine, theirs)
    return Limits(**both)


def handed_down(limits: Limits) -> Limits:
    """Return an agent's limits without those that its children share with it through its scope."""
    if all(getattr(limits, name) is None for name in _SHARED):
        return limits
    return msgspec.structs.replace(limits, **_SHARED)


def micro_usd(dollars: Dollars) -> int:
    """Return US dollars in whole millionths, in which deciders count."""
    return round(dollars * 1_000_000)


def micro(dollars: Amount) -> int | None:
    """Return a limit of US dollars in whole millionths; None for no limit."""
    return None if dollars is None else micro_usd(dollars)


def millis(seconds: float | None, default: int = 0) -> int:
    """Return seconds as whole milliseconds, at least 1."""
    return default if seconds is None else max(1, round(seconds * 1_000))
