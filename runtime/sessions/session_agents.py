"""The agents and models of one session: found from its host, described in its first event.

A runtime also knows the agents that it has run sessions with: those that a fork on command may use.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

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
from callboard.runtime.sessions.probing import Probed, without_model
from callboard.runtime.tools.shared_state import declared


class SessionAgents(NamedTuple):
    """The agents and models of a session, by name.

    opened: the first event of such a session. unpriced: a model without known prices, or empty. given: the
    host, as it was given.
    """

    agents: Mapping[str, Agent]
    models: Mapping[str, Model]
    opened: SessionOpened
    unpriced: str
    given: Agent


def agents_of_session(
    host: Agent,
    default: ModelChoice | None,
    limits: Limits,
    secrets: Secrets,
    capacity: Mapping[str, Capacity],
    found: Probed,
    permissions: Layers = (),
) -> SessionAgents:
    """Return the agents and models of a session with this host.

    default: the model of a host that names none. limits: of the session. capacity: the limits
        over all sessions, by model name. found: by the probe of the agents.
    permissions: of the session.

    Raises InvalidAgent, UnknownName for an unknown capability, and MisuseError where a model or its prices
    are missing.
    """
    model = _model_of(host, default)
    broken = {**found.broken, **_without_model(host, default)}
    agents = {name: _as_found(one, found, broken) for name, one in roster(host).items()}
    if agents[host.name].broken:
        raise InvalidAgent(f"agent {host.name!r} cannot be the host: {agents[host.name].broken}")
    models = _checked_models(model, agents)
    unpriced = next((name for name, one in models.items() if one.spec.prices is None), "")
    refuse_unpriced(unpriced, limits, *(other.limits for other in agents.values()))
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
    return SessionAgents(agents, models, opened, unpriced, host)


def check_models(host: Agent, default: ModelChoice | None) -> None:
    """Check the models of a host and of the agents below it, before any of its sessions.

    default: the model of a host that names none.

    Raises InvalidAgent for two models of one name, MisuseError where a model is missing, and what the check
    of a model raises, such as for a key or a package that is missing.
    """
    _without_model(host, default)
    _checked_models(_model_of(host, default), roster(host))


def _checked_models(model: ModelChoice, agents: Mapping[str, Agent]) -> dict[str, Model]:
    models = _by_name([*models_of(model), *(one for other in agents.values() for one in other.all_models)])
    for one in models.values():
        if isinstance(one, Checkable):
            one.check()
    return models


def _as_found(agent: Agent, found: Probed, broken: Mapping[str, str]) -> Agent:
    """Return an agent with the tools of its sources, or marked as broken."""
    if why := broken.get(agent.name, ""):
        return agent.marked(why)
    return agent.with_tools(found.tools[agent.name]) if agent.name in found.tools else agent


def _without_model(host: Agent, default: ModelChoice | None) -> dict[str, str]:
    """Return the agents without a model that may be broken. Raises MisuseError for another one."""
    has_default, agents = default is not None, roster(host)
    names = without_model(host, has_default=has_default)
    for name in names:
        if agents[name].on_broken == "refuse":
            raise MisuseError(
                f"no model for {name!r}, which inherits none: pass Runtime(model=...) (--model), "
                "or Agent(model=...) for it or for an agent above it"
            )
    return dict.fromkeys(names, "it has no model, and inherits none")


def refuse_unasked(host: Agent) -> None:
    """Refuse agents whose tools would wait forever for an approval. Raises InvalidAgent, MisuseError."""
    for other in roster(host).values():
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


def _model_of(host: Agent, default: ModelChoice | None) -> ModelChoice:
    """Return the model of agents without one. A program without one, and without a runtime's, needs none."""
    model = host.model_below or default or host.model
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
        if found.setdefault(name, model) != model:
            raise InvalidAgent(
                f"two different models are named {name!r}; the log tells them apart by name, "
                "so give one of them another"
            )
    return found


_KEPT_MAX: Final = 256
"""Hosts that are remembered of each kind: a service may make an agent for every session."""


class KnownHosts:
    """The latest hosts of a runtime, by session and by name.

    default: the host of `callboard ui --with`, for every session; None in other programs.
    """

    def __init__(self) -> None:
        self.default: Agent | None = None
        self._of_sessions: dict[str, Agent] = {}
        self._by_name: dict[str, Agent] = {}

    def note(self, session_id: str, host: Agent) -> None:
        """Remember the host of a session that runs here."""
        for known, key in ((self._of_sessions, session_id), (self._by_name, host.name)):
            known.pop(key, None)  # to the end: the oldest goes first
            known[key] = host
            if len(known) > _KEPT_MAX:
                del known[next(iter(known))]

    def find(self, session_id: str, name: str, *, is_imported: bool) -> Agent | None:
        """Return the host of a session, or else the latest one with its name; None for neither.

        is_imported: no agent of an imported session has run here, and one of the same name is another.
        """
        if self.default is not None or is_imported:
            return self.default
        return self._of_sessions.get(session_id) or self._by_name.get(name)
