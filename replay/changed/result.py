"""The agents of a replay with changed agents, and its result.

The result of a replay with changed agents.

The agents of a recording as they are now, for a replay of it with them.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Forked, Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json, JsonObject
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.shared_state import StateKey

DifferenceKind: TypeAlias = Literal["changed", "missing", "extra", "raised", "misfit", "program", "timer"]
"""How a decision differs.

changed, missing, extra: its posts. raised: the decider raises now. misfit: a recorded answer does not fit the
request of today. program: a program does not repeat its step. timer: it fires at another time.
"""

T = TypeVar("T")


class RequestDifference(NamedTuple):
    """The first request of an agent that differs. seq: of its `TurnRequested`. lines: a unified diff.

    profile: of the agent.
    """

    agent: str
    seq: int
    turn: int
    attempt: int
    lines: tuple[str, ...]
    profile: str = ""

    @property
    def changed_lines(self) -> tuple[str, ...]:
        """Return the lines of the diff that are only in one of the requests."""
        return tuple(line for line in self.lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


class DecisionDifference(NamedTuple):
    """The first decision of an actor that differs.

    seq: of the recorded output, or of the event decided on if it has none. decision: of the event decided
    on. path: of the first value that differs. recorded, now: both sides, as JSON or in words. profile: of
    the agent that decided; '' for the supervisor.
    """

    actor: str
    seq: int
    decision: int
    kind: DifferenceKind
    path: str
    recorded: str
    now: str
    profile: str = ""


@dataclass(frozen=True)
class ChangedReplay:
    """The result of a replay with changed agents.

    profiles: a unified diff of the agents' descriptions. requests, decisions: the first that differs of each
    actor, in the order of the log. events: the number of recorded events. agents: of agents that began.
    log: the events as these agents make them of the recorded answers; None if a decision differs.
    """

    session_id: str
    profiles: tuple[str, ...]
    requests: tuple[RequestDifference, ...]
    decisions: tuple[DecisionDifference, ...]
    events: int
    agents: int
    log: tuple[Event, ...] | None = None

    @property
    def is_same(self) -> bool:
        """Return whether every request and every decision is as recorded."""
        return not self.requests and not self.decisions

    @property
    def first_difference(self) -> str:
        """Return the first difference that an agent reads or makes, in one line; '' without any.

        A decision of the supervisor counts where it leads to another request or decision of an agent.
        """
        found = [(one.seq, f"the request of {one.agent}:{one.turn} differs") for one in self.requests]
        for one in self.decisions:
            if one.profile:
                now = one.now or "nothing"
                said = f"{one.actor} decides differently: recorded {one.recorded or 'nothing'}; now {now}"
                found.append((one.seq, said))
        return next((f"event {seq}: {said}" for seq, said in sorted(found)), "")

    def same_requests(self) -> "list[list[RequestDifference]]":
        """Return the requests that differ, those of one profile with the same changes together."""
        return _alike(self.requests, lambda one: (one.profile or one.agent, one.changed_lines))

    def same_decisions(self) -> "list[list[DecisionDifference]]":
        """Return the decisions that differ, those of one profile and of the same kind together."""
        return _alike(self.decisions, lambda one: (one.profile or one.actor, one.kind, one.path))

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        lines = [f"session {self.session_id}: {self.events:,} events, {self.agents:,} agents"]
        lines += [f"first difference: {self.first_difference}"] if self.first_difference else []
        lines += self.profiles
        for same in self.same_requests():
            one = same[0]
            lines.append(f"{who(one.agent, same)}, turn {one.turn} (event {one.seq}): the request differs")
            lines += one.lines
        for place, alike in enumerate(self.same_decisions()):
            lines.append(f"first decision that differs{more(alike)}:" if not place else f"also{more(alike)}:")
            lines += found_lines(alike[0])
        if not self.decisions:
            lines.append("every decision is as recorded")
        return lines


def _alike(found: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for one in found:
        groups.setdefault(key(one), []).append(one)
    return list(groups.values())


def who(agent: str, same: Sequence[RequestDifference]) -> str:
    """Return the agents of requests that differ alike: their number, their profile, and the first one."""
    return agent if len(same) == 1 else f"{len(same)} agents of {same[0].profile}, first {agent}"


def more(alike: Sequence[DecisionDifference]) -> str:
    """Return how many agents of the profile decide otherwise in the same way."""
    return f", of {len(alike)} agents of {alike[0].profile} alike" if len(alike) > 1 else ""


def found_lines(one: DecisionDifference) -> list[str]:
    """Return a difference as lines of text."""
    place = f": {one.path}" if one.path else ""
    on = f", deciding on event {one.decision}" if one.decision != one.seq else ""
    return [
        f"  event {one.seq}, {one.actor}{on} ({one.kind}){place}",
        f"    recorded: {one.recorded or 'nothing'}",
        f"    now:      {one.now or 'nothing'}",
    ]


Accepts: TypeAlias = Callable[[str, str, Json], str]
"""Returns why a tool of today refuses arguments, given profile, tool and arguments; '' if it takes them."""

Check: TypeAlias = Callable[[CheckSchema], SchemaChecked]
"""Checks a schema, or a value against one."""

_decode: Final = msgspec.json.Decoder(JsonObject).decode


def _accept_all(profile: str, tool: str, arguments: Json) -> str:
    """Return no objection to any call."""
    return ""


@dataclass(frozen=True)
class AgentsNow:
    """The agents as they are now.

    host, profiles: as in `SessionOpened`. model: of agents without one of their own; None for the recorded.
    state: the keys of the shared state. accepts: asked about each tool whose description has changed.
    check: asked about each schema that has changed; None if it cannot be checked.
    steps: the steps that a program does not repeat, by the seq of the recorded reply: both sides as a text.
    """

    host: str
    profiles: tuple[Json, ...]
    model: ModelSpec | None = None
    state: tuple[StateKey, ...] = ()
    accepts: Accepts = _accept_all
    check: Check | None = None
    steps: Mapping[int, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def recorded(cls, opened: SessionOpened) -> "AgentsNow":
        """Return the agents that a session was opened with."""
        return cls(opened.host, opened.profiles, state=opened.state)

    @cached_property
    def by_name(self) -> Mapping[str, Json]:
        """Return the profiles by their names."""
        return {_decode(one)["name"]: one for one in self.profiles}

    @cached_property
    def tools(self) -> Mapping[tuple[str, str], object]:
        """Return the descriptions of tools, by profile and name."""
        return tools_of(self.profiles)

    def put_into(self, body: AnyMessage) -> AnyMessage:
        """Return a client's message with these agents in place of the recorded ones."""
        if isinstance(body, Forked):
            return replace(body, resumed=self._resumed(body.resumed))
        if isinstance(body, Resumed):
            return self._resumed(body)
        return self._opened(body) if isinstance(body, SessionOpened) else body

    def _opened(self, body: SessionOpened) -> SessionOpened:
        known = {one.name for one in body.state}
        state = (*body.state, *(one for one in self.state if one.name not in known))
        mine = {"host": self.host, "profiles": self.profiles, "model": self.model or body.model}
        return replace(body, **mine, state=state)

    def _resumed(self, body: Resumed) -> Resumed:
        if not body.profiles:
            return body
        return replace(body, host=self.host, profiles=self.profiles, model=self.model or body.model)


def tools_of(profiles: tuple[Json, ...]) -> dict[tuple[str, str], object]:
    """Return the descriptions of the tools of profiles, by profile and name."""
    found = map(_decode, profiles)
    return {(one["name"], tool["name"]): tool for one in found for tool in one.get("tools", ())}
