"""The agents and models of one session: found from its host, described in its first event."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from callboard.actors.protocol.client_messages import RULES, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.layers import Layers
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.upcasters import FORMAT
from callboard.actors.session.capacity import Capacity, limited_among
from callboard.runtime.agent import Agent, refuse_unpriced, roster
from callboard.runtime.models.fallback import ModelChoice, models_of
from callboard.runtime.models.protocol import Checkable, Model
from callboard.runtime.permissions import refuse_unknown
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.tools.shared_state import declared
from callboard.runtime.tools.sources import ToolSource
from callboard.runtime.tools.tool import Tool


class SessionAgents(NamedTuple):
    """The agents and models of a session, by name.

    opened: the first event of such a session. unpriced: a model without known prices, or empty.
    """

    agents: Mapping[str, Agent]
    models: Mapping[str, Model]
    opened: SessionOpened
    unpriced: str


def agents_of_session(
    host: Agent,
    default: ModelChoice | None,
    limits: Limits,
    secrets: Secrets,
    capacity: Mapping[str, Capacity],
    found: Mapping[str, Sequence[Tool]],
    permissions: Layers = (),
) -> SessionAgents:
    """Return the agents and models of a session with this host.

    default: the model of a host that names none. limits: of the session. capacity: the limits
        over all sessions, by model name. found: the tools of sources, by the names of their agents.
    permissions: of the session.

    Raises InvalidAgent, UnknownName for an unknown capability, and MisuseError where a model or its prices
    are missing.
    """
    agents = {
        name: one.with_tools(found[name]) if name in found else one for name, one in _roster(host).items()
    }
    model = _model_of(host, default)
    models = _by_name([*models_of(model), *(one for other in agents.values() for one in other.all_models)])
    unpriced = next((name for name, one in models.items() if one.spec.prices is None), "")
    refuse_unpriced(unpriced, limits, *(other.limits for other in agents.values()))
    for one in models.values():
        if isinstance(one, Checkable):
            one.check()
    secrets.learn_early([*models.values(), *(one for other in agents.values() for one in other.sources)])
    profiles = tuple(Json(encode(other.profile())) for other in agents.values())
    limited = limited_among(capacity, models)
    refuse_unknown(agents, permissions)
    state = declared({name: other.state for name, other in agents.items()})
    opened = secrets.admitted(
        SessionOpened(
            RULES,
            host.name,
            profiles,
            model.spec,
            limits,
            capacity=limited,
            state=state,
            permissions=permissions,
            format=FORMAT,
        )
    )
    assert isinstance(opened, SessionOpened)
    return SessionAgents(agents, models, opened, unpriced)


def sources_of(host: Agent) -> dict[str, Sequence[ToolSource]]:
    """Return the sources of tools of each agent that has some, by its name. Raises InvalidAgent."""
    return {name: agent.sources for name, agent in _roster(host).items() if agent.sources}


def refuse_unasked(host: Agent) -> None:
    """Refuse agents whose tools would wait forever for an approval. Raises InvalidAgent, MisuseError."""
    for other in _roster(host).values():
        for source in other.sources:
            if source.asks_first:
                raise _unasked(f"a tool of {source.label!r}", other)
        for tool in other.tools.values():
            if tool.spec().approval in ("before", "always"):
                raise _unasked(f"tool {tool.name!r}", other)


def _unasked(what: str, agent: Agent) -> MisuseError:
    return MisuseError(
        f"{what} of agent {agent.name!r} wants a person asked before it runs: "
        "pass Runtime(approve=...), or use `open` and `Session.approvals()`"
    )


def _roster(host: Agent) -> dict[str, Agent]:
    if not isinstance(host, Agent):
        raise MisuseError(f"{host!r} is no Agent")
    return roster(host)


def _model_of(host: Agent, default: ModelChoice | None) -> ModelChoice:
    """Return the model that sub-agents inherit. A program hands down the one it would inherit itself."""
    own = host.model
    model = (default or own) if own is not None and own.spec.is_program else (own or default)
    if model is None:
        raise MisuseError(
            f"no model for {host.name!r}: pass Runtime(model=...) or Agent(model=...), "
            "for example AnthropicModel(...) or, for tests, ScriptedModel(...)"
        )
    return model


def _by_name(models: Sequence[Model]) -> dict[str, Model]:
    found: dict[str, Model] = {}
    for model in models:
        name = model.spec.name
        if found.setdefault(name, model) is not model:
            raise InvalidAgent(
                f"two different models are named {name!r}; the log tells them apart by name, "
                "so give one of them another"
            )
    return found
