"""The rule for a session that resumes with agents whose definition has changed since it was recorded.

The differences between a session's recorded agents and those of now, in words.
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from callboard.actors.protocol.errors import AgentsChanged, MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec

AgentsPolicy: TypeAlias = Literal["refuse", "next_ask", "accept"]
"""When changed agents apply. `refuse`: never. `next_ask`: after the running ask. `accept`: at once."""


def checked_policy(policy: object) -> AgentsPolicy:
    """Return the policy. Raises MisuseError for another value."""
    if policy == "refuse" or policy == "next_ask" or policy == "accept":
        return policy
    raise MisuseError(f'on_agents_changed={policy!r}: use "refuse", "next_ask" or "accept"')


def refuse_changes(session_id: str, found: tuple[str, ...]) -> AgentsChanged:
    """Return the error for other agents than the recorded ones. found: the differences."""
    return AgentsChanged(
        f"session {session_id} was recorded with other agents: {'; '.join(found)}. Resume it with those, "
        'set Runtime(on_agents_changed="next_ask") to end the running ask with those first, or pass '
        "accept_changes=True (--accept-changes) to continue with these, which is recorded",
        found,
    )


def check_models(
    session_id: str, profiles: Iterable[Json], defaults: Iterable[ModelSpec], models: Container[str]
) -> None:
    """Refuse to end an ask with recorded agents whose models are missing. Raises AgentsChanged."""
    read = [msgspec.json.decode(raw, type=Profile) for raw in profiles]
    own = (spec for profile in read for spec in (profile.model, profile.default_model) if spec)
    first = [*defaults, *own]
    specs = [spec for one in first for spec in one.all_specs]
    gone = [name for name in dict.fromkeys(spec.name for spec in specs) if name not in models]
    missing = tuple(f"there is no model {name!r} any more" for name in gone)
    if missing:
        raise AgentsChanged(
            f"session {session_id} has an ask that began with other agents, and cannot end with those: "
            f"{'; '.join(missing)}. Give that model to one of the agents, or pass accept_changes=True",
            missing,
        )


_TEXTS = {
    "description": "its description",
    "instructions": "its instructions",
    "schema": "its output schema",
    "output_type": "its output type",
    "server_tools": "its server tools",
    "context": "its context function",
    "context_in": "the place of its context",
    "permissions": "its permissions",
    "input_schema": "its contract",
    "input_type": "the type of its contract",
    "presets": "its presets",
    "schema_arg": "its argument for a schema",
    "factory": "its factory",
    "unavailable": "the reason why it is unavailable",
    "model_reason": "the reason for its model",
    "lossy": "its rule for blocks that a model cannot take",
}
_MODELS = {"model": "its model", "default_model": "its default model"}


def differences(
    before: Sequence[Json], now: Sequence[Json], was: ModelSpec, is_now: ModelSpec
) -> tuple[str, ...]:
    """List the differences, agent by agent. was, is_now: the models of agents that name none."""
    old, new = _by_name(before), _by_name(now)
    found = [f"agent {name} was removed" for name in old if name not in new]
    found += [f"agent {name} is new" for name in new if name not in old]
    kept = [name for name in old if name in new]
    found += [f"{name}: {what}" for name in kept for what in _between(old[name], new[name])]
    return (*found, *_models("the model", was, is_now))


def _by_name(raws: Sequence[Json]) -> dict[str, Profile]:
    profiles = [msgspec.json.decode(raw, type=Profile) for raw in raws]
    return {profile.name: profile for profile in profiles}


def _between(old: Profile, new: Profile) -> Iterator[str]:
    changed = {name for name, _, _ in _changes(old, new)}
    yield from (f"{words} changed" for name, words in _TEXTS.items() if name in changed)
    yield from _tools(old.tools, new.tools)
    yield from _names("may delegate to", old.agents, new.agents)
    yield from (
        f"limit {name} was {one}, is {other}" for name, one, other in _changes(old.limits, new.limits)
    )
    for field, what in _MODELS.items():
        one, other = getattr(old, field), getattr(new, field)
        if one and other:
            yield from _models(what, one, other)
        elif field in changed:
            yield f"{what} was {_name(one)}, is {_name(other)}"


def _tools(old: Sequence[ToolSpec], new: Sequence[ToolSpec]) -> Iterator[str]:
    before, now = {spec.name: spec for spec in old}, {spec.name: spec for spec in new}
    yield from _names("has tools", tuple(before), tuple(now))
    for name, spec in before.items():
        for field, one, other in _changes(spec, now.get(name, spec)):
            how = f"was {one}, is {other}" if field == "effect" else "changed"
            yield f"tool {name}: its {field} {how}"


def _names(what: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    if gone := [name for name in old if name not in new]:
        yield f"{what} no more: {', '.join(gone)}"
    if more := [name for name in new if name not in old]:
        yield f"{what} now: {', '.join(more)}"
    if sorted(old) == sorted(new) and list(old) != list(new):
        yield f"{what} in another order: {', '.join(new)}"


def _models(what: str, old: ModelSpec, new: ModelSpec) -> Iterator[str]:
    for field, one, other in _changes(old, new):
        if field == "fallback":
            yield from _fallbacks(what, old, new)
        # A window that was not known then, and is now, is no change of the agent.
        elif field != "context_tokens" or one:
            yield f"{what}: {field} was {_shown(one)}, is {_shown(other)}"


def _fallbacks(what: str, old: ModelSpec, new: ModelSpec) -> Iterator[str]:
    before, now = _fallback_names(old), _fallback_names(new)
    if before != now:
        yield f"{what}: it fell back to {before}, falls back to {now}"
        return
    for one, other in zip(old.fallback, new.fallback, strict=True):
        yield from _models(f"{what}, its fallback {one.name}", one, other)


def _fallback_names(spec: ModelSpec) -> str:
    return ", ".join(one.name for one in spec.fallback) or "none"


def _changes(old: msgspec.Struct, new: msgspec.Struct) -> Iterator[tuple[str, object, object]]:
    """Yield the name and both values of each field that differs."""
    for field in old.__struct_fields__:
        one, other = getattr(old, field), getattr(new, field)
        if one != other:
            yield field, one, other


def _name(model: ModelSpec | None) -> str:
    return model.name if model else "its parent's"


def _shown(value: object) -> str:
    return bytes(value).decode() if isinstance(value, Json) else str(value)
