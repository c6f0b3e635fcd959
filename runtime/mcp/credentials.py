"""The headers and variables of one connection: given with the server, or made of the deps of its session."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from callboard.actors.protocol.errors import InvalidAgent

Values: TypeAlias = Mapping[str, str]
ValuesOf: TypeAlias = Values | Callable[[Any], Values]
"""Values by name, or a function of `deps` that returns them."""

_SECRET_CHARS_MIN: Final = 8  # shorter values, such as "1" or "debug", stand in too many texts


class Credentials(NamedTuple):
    """The headers and environment variables of one connection."""

    headers: Values
    env: Values

    def secrets(self) -> dict[str, str]:
        """Return the values that are never written, by name."""
        values: dict[str, str] = {}
        for name, value in (*self.headers.items(), *self.env.items()):
            secret = value.split(" ", 1)[-1]  # of "Bearer ..." the token
            if len(secret) >= _SECRET_CHARS_MIN:
                values[name] = secret
        return values


def copied(what: str, given: ValuesOf | None) -> ValuesOf:
    """Return a copy of the given values, or their function. Raises InvalidAgent."""
    return given if callable(given) else _checked(what, given or {})


def values_of(what: str, given: ValuesOf, deps: object) -> Values:
    """Return the values for a session with these deps. Raises InvalidAgent, and what the function raises."""
    return _checked(what, given(deps)) if callable(given) else given


def fixed(given: ValuesOf) -> Values:
    """Return the values that need no deps."""
    return {} if callable(given) else given


def _checked(what: str, values: object) -> Values:
    if not isinstance(values, Mapping):
        raise InvalidAgent(f"MCP server: {what} is a dict of texts, or a function of deps that returns one")
    if bad := next((name for pair in values.items() for name in pair if not isinstance(name, str)), None):
        raise InvalidAgent(f"MCP server: {what} is a dict of texts, not of {type(bad).__name__}")
    return dict(values)
