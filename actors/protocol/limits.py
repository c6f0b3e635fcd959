"""What bounds a session, a profile and a single call. One struct; a child gets the narrower.

A field that is None says nothing: the value comes from above, in the end from `DEFAULTS`.
"""

from typing import Final

import msgspec

from callboard.actors.protocol.immutable import Part

_SECONDS = ("deadline_s", "model_timeout_s", "schema_timeout_s", "tool_timeout_s", "cancel_grace_s")


class Limits(Part, frozen=True):
    """Bounds on delegation, turns, spending and time. None means: not stated here.

    max_depth: how deep agents may nest; 0 is the host alone. Default 3.
    max_iterations: model turns of one agent (of the host: per ask). Default 30.
    max_children: delegations of one agent in one turn, racers counted singly. Default 32.
    max_agents: agents of one session, the host included. Default 1,000.
    max_parallel_calls: model calls in flight in one session. Default 64.
    max_report_attempts: reports an agent may have judged invalid. Default 5.
    max_model_attempts: attempts of one model call. Default 6.
    tokens: tokens that a subtree may use, input, output and cache together. No default.
    cost: US dollars that a subtree may cost; needs known prices. No default.
    deadline_s: seconds until the agent, or the ask, is ended. No default.
    model_timeout_s, schema_timeout_s, tool_timeout_s: seconds one call of a port may take.
        Defaults 600, 5 and 120.
    cancel_grace_s: seconds an outcome waits for what cannot be stopped at once. Default 10.
    max_tool_output_chars: characters of one tool result that reach the model. Default 50,000.

    Raises ValueError for a bound that is negative, zero where one is needed, or not a finite number.
    """

    max_depth: int | None = None
    max_iterations: int | None = None
    max_children: int | None = None
    max_agents: int | None = None
    max_parallel_calls: int | None = None
    max_report_attempts: int | None = None
    max_model_attempts: int | None = None
    tokens: int | None = None
    cost: float | None = None
    deadline_s: float | None = None
    model_timeout_s: float | None = None
    schema_timeout_s: float | None = None
    tool_timeout_s: float | None = None
    cancel_grace_s: float | None = None
    max_tool_output_chars: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is None:
                continue
            lowest = 0 if name in ("max_depth", "tokens", "cost", "cancel_grace_s", "max_children") else 1e-9
            if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value < 2**53:
                raise ValueError(f"Limits.{name} must be a finite number from {lowest:g} up, not {value!r}")
            if name in _SECONDS or name == "cost":
                msgspec.structs.force_setattr(self, name, float(value))
            elif not isinstance(value, int):
                raise ValueError(f"Limits.{name} must be a whole number, not {value!r}")
        super().__post_init__()


DEFAULTS: Final = Limits(
    max_depth=3,
    max_iterations=30,
    max_children=32,
    max_agents=1_000,
    max_parallel_calls=64,
    max_report_attempts=5,
    max_model_attempts=6,
    model_timeout_s=600.0,
    schema_timeout_s=5.0,
    tool_timeout_s=120.0,
    cancel_grace_s=10.0,
    max_tool_output_chars=50_000,
)
"""What holds where nothing is said. Depth 3 is Claude Code's choice since 2.1.219; the rest is ours."""


def fill(limits: Limits, defaults: Limits = DEFAULTS) -> Limits:
    """The limits with everything that is not stated taken from the defaults."""
    missing = {
        name: getattr(defaults, name) for name in limits.__struct_fields__ if getattr(limits, name) is None
    }
    return msgspec.structs.replace(limits, **missing)


def narrow(wide: Limits, own: Limits) -> Limits:
    """The narrower of both in every field."""
    if own == _UNSTATED:
        return wide
    both = {}
    for name in wide.__struct_fields__:
        mine, theirs = getattr(own, name), getattr(wide, name)
        both[name] = theirs if mine is None else mine if theirs is None else min(mine, theirs)
    return Limits(**both)


_UNSTATED: Final = Limits()


def micro(dollars: float | None) -> int | None:
    """Dollars as whole micro-dollars, the unit that deciders count in."""
    return None if dollars is None else round(dollars * 1_000_000)


def millis(seconds: float | None, default: int = 0) -> int:
    """Seconds as whole milliseconds."""
    return default if seconds is None else max(1, round(seconds * 1_000))
