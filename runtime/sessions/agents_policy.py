"""The rule for a session that resumes with agents whose definition has changed since it was recorded."""

from collections.abc import Container, Iterable
from typing import Literal, TypeAlias

import msgspec

from callboard.actors.protocol.errors import AgentsChanged, MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ModelSpec, Profile

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
