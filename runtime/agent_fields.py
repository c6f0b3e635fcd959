"""The checks of the fields of an agent, each with the correction in its error."""

import re
from collections.abc import Collection, Iterable, Mapping
from types import UnionType
from typing import Final, Literal, Protocol, TypeAlias, TypeVar, get_args

from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import SCHEMA_ARG, OnFinish
from callboard.runtime.contracts import Contract
from callboard.runtime.models.fallback import ModelChoice, model_or_name
from callboard.runtime.sanitize import to_json
from callboard.runtime.tools.sources import ToolSource, refuse_equal_labels
from callboard.runtime.tools.tool import Tool


class _Named(Protocol):
    name: str


T = TypeVar("T", bound=_Named)
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")

OnBroken: TypeAlias = Literal["refuse", "unavailable"]
"""The effect of a broken agent: its session is refused, or each call of the agent fails at once."""

TASK_FIELDS: Final = ("prompt", "agent", "agents", "copies", "background", "input")
"""Arguments of `task` that hold no schema."""


def parted(agent: str, tools: object) -> tuple[tuple[ToolSource, ...], object]:
    """Return the sources among the tools of an agent, and the rest. Raises InvalidAgent."""
    if not isinstance(tools, Iterable):
        return (), tools
    given = tuple(tools)
    sources = tuple(one for one in given if isinstance(one, ToolSource))
    refuse_equal_labels(agent, sources)
    return sources, [one for one in given if not isinstance(one, ToolSource)]


def check_name(name: object) -> None:
    """Refuse a name that models cannot call. Raises InvalidAgent."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidAgent(
            f"agent name {str(name)[:80]!r}: use 1 to 64 letters, digits, '_' and '-', "
            "because models call it by this name"
        )


def server_tools_json(agent: str, tools: Iterable[Mapping[str, object]]) -> tuple[Json, ...]:
    """Return the tools that a model's service runs, as JSON. Raises InvalidAgent."""
    for each in tools:
        check(agent, "a server tool", each, Mapping)
    return tuple(to_json(dict(each)) for each in tools)


def check_choices(
    agent: str, background: object, on_finish: object, lossy: object, on_broken: object
) -> None:
    """Refuse a choice that there is not. Raises InvalidAgent."""
    check(agent, "background", background, bool)
    check(agent, "lossy", lossy, bool)
    if on_finish not in get_args(OnFinish):
        raise InvalidAgent(f'agent {agent!r}: on_finish is "wait" or "cancel", not {on_finish!r:.40}')
    if on_broken not in get_args(OnBroken):
        raise InvalidAgent(f'agent {agent!r}: on_broken is "refuse" or "unavailable", not {on_broken!r:.40}')


def own_tools(agent: str, tools: object, later: object) -> tuple[dict[str, Tool], dict[str, Tool]]:
    """Return the tools of an agent, and those that it may be given later, by name. Raises InvalidAgent."""
    found = by_name(agent, "tool", tools, Tool, "decorate the function with @tool")
    more = by_name(agent, "later tool", later, Tool, "decorate the function with @tool")
    if both := found.keys() & more.keys():
        raise InvalidAgent(
            f"agent {agent!r}: {min(both)!r} is in tools and in later_tools; leave it out of one"
        )
    return found, more


def schema_argument(agent: str, given: object, contract: Contract | None) -> str:
    """Return the argument that holds the schema of a report, empty for none. Raises InvalidAgent."""
    if given is None:
        return ""
    if not isinstance(given, str) or not _NAME.fullmatch(given):
        raise InvalidAgent(
            f"agent {agent!r}: output_schema_arg is the name of an argument, not {given!r:.40}"
        )
    if contract is not None:
        return _field_argument(agent, given, contract.fields)
    if given in TASK_FIELDS:
        raise InvalidAgent(f"agent {agent!r}: output_schema_arg={given!r} is taken by another argument")
    return given


def _field_argument(agent: str, given: str, fields: Collection[str]) -> str:
    """Return the field of a contract with this name; empty for the usual name, which it may lack."""
    if given not in fields and given != SCHEMA_ARG:
        raise InvalidAgent(
            f"agent {agent!r}: output_schema_arg={given!r} is not a field of its contract; "
            f"there are: {', '.join(fields) or 'none'}"
        )
    return given if given in fields else ""


def check(agent: str, what: str, value: object, kind: type | UnionType) -> None:
    """Refuse a value of another type. Raises InvalidAgent."""
    if not isinstance(value, kind):
        raise InvalidAgent(f"agent {agent!r}: {what} cannot be {value!r}")


def model_of(agent: str, model: object) -> ModelChoice | None:
    """Return the model of an agent, None for its parent's. Raises InvalidAgent, MisuseError, UnknownName."""
    try:
        return model_or_name(model)
    except MisuseError as error:
        if isinstance(model, str):
            raise
        raise InvalidAgent(f"agent {agent!r}: {error}") from None


def by_name(agent: str, what: str, given: object, kind: type[T], advice: str) -> dict[str, T]:
    """Return the tools or agents of an agent by their names. Raises InvalidAgent."""
    if not isinstance(given, Iterable):
        raise InvalidAgent(f"agent {agent!r}: {what}s is a list of {what}s, not {given!r}")
    found: dict[str, T] = {}
    for one in given:
        if not isinstance(one, kind):
            raise InvalidAgent(f"agent {agent!r}: {one!r} is not of type {kind.__name__}; {advice}")
        if one.name in found:
            raise InvalidAgent(f"agent {agent!r} has two {what}s named {one.name!r}; rename one")
        found[one.name] = one
    return found
