"""The differences between a session's recorded agents and those of now, in words."""

from collections.abc import Iterator, Sequence

import msgspec

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Profile, ToolSpec

_TEXTS = {
    "description": "its description",
    "instructions": "its instructions",
    "schema": "its output schema",
    "server_tools": "its server tools",
}


def differences(
    before: Sequence[Json], now: Sequence[Json], was: ModelSpec, is_now: ModelSpec
) -> tuple[str, ...]:
    """List the differences, agent by agent. was, is_now: the models of agents that name none."""
    old, new = _by_name(before), _by_name(now)
    found = [f"agent {name} was removed" for name in old if name not in new]
    found += [f"agent {name} is new" for name in new if name not in old]
    for name, profile in old.items():
        if name in new:
            found += [f"{name}: {what}" for what in _between(profile, new[name])]
    found += _models("the model", was, is_now)
    return tuple(found)


def _by_name(raws: Sequence[Json]) -> dict[str, Profile]:
    profiles = [msgspec.json.decode(raw, type=Profile) for raw in raws]
    return {profile.name: profile for profile in profiles}


def _between(old: Profile, new: Profile) -> Iterator[str]:
    for name, words in _TEXTS.items():
        if getattr(old, name) != getattr(new, name):
            yield f"{words} changed"
    yield from _tools(old.tools, new.tools)
    yield from _names("may delegate to", old.agents, new.agents)
    for name in old.limits.__struct_fields__:
        one, other = getattr(old.limits, name), getattr(new.limits, name)
        if one != other:
            yield f"limit {name} was {one}, is {other}"
    if old.model is None or new.model is None:
        if old.model != new.model:
            yield f"its model was {_name(old.model)}, is {_name(new.model)}"
    else:
        yield from _models("its model", old.model, new.model)


def _tools(old: Sequence[ToolSpec], new: Sequence[ToolSpec]) -> Iterator[str]:
    before, now = {spec.name: spec for spec in old}, {spec.name: spec for spec in new}
    yield from _names("has tools", tuple(before), tuple(now))
    for name, spec in before.items():
        if name not in now:
            continue
        for field in spec.__struct_fields__:
            one, other = getattr(spec, field), getattr(now[name], field)
            if one != other:
                how = f"was {one}, is {other}" if field == "effect" else "changed"
                yield f"tool {name}: its {field} {how}"


def _names(what: str, old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    gone, more = [name for name in old if name not in new], [name for name in new if name not in old]
    if gone:
        yield f"{what} no more: {', '.join(gone)}"
    if more:
        yield f"{what} now: {', '.join(more)}"
    if not gone and not more and list(old) != list(new):
        yield f"{what} in another order: {', '.join(new)}"


def _models(what: str, old: ModelSpec, new: ModelSpec) -> Iterator[str]:
    for field in old.__struct_fields__:
        one, other = getattr(old, field), getattr(new, field)
        if one != other:
            yield f"{what}: {field} was {_shown(one)}, is {_shown(other)}"


def _name(model: ModelSpec | None) -> str:
    return model.name if model else "its parent's"


def _shown(value: object) -> str:
    return bytes(value).decode() if isinstance(value, Json) else str(value)
