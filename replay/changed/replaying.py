"""A recording, replayed with changed agents: what differs, as texts and lines of requests."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.wishes import wish_in
from callboard.actors.session.step import ActorState
from callboard.replay.changed.following import Following
from callboard.replay.changed.result import AgentsNow, ChangedReplay, RequestDifference
from callboard.replay.diff import profile_lines
from callboard.replay.json_values import value_lines


def against(
    session_id: str,
    events: Sequence[Event],
    state_of: Callable[[int, str], ActorState],
    now: AgentsNow | None,
) -> ChangedReplay:
    """Replay a session with changed agents.

    events: from seq 1. state_of: returns the state of an actor after an event, as the session was recorded.
    now: None for the recorded agents.
    """
    opened = events[0].body
    assert isinstance(opened, SessionOpened)
    now = now or AgentsNow.recorded(opened)
    following = Following(now)
    following.run(events)
    decisions = sorted(following.decisions.values(), key=lambda one: one.seq)
    return ChangedReplay(
        session_id,
        tuple(_diff(_lines(opened.profiles), _lines(now.profiles))),
        tuple(_requests(state_of, following)),
        tuple(decisions),
        len(events),
        len(following.agents),
        None if decisions else tuple(following.log),
    )


def _requests(
    state_of: Callable[[int, str], ActorState], following: Following
) -> Iterator[RequestDifference]:
    """Yield the first request that differs of each agent, in the order of the log."""
    for agent, (event, now) in sorted(following.requests.items(), key=lambda one: one[1][0].seq):
        body = wish_in(event.body)
        assert body is not None
        state = state_of(event.seq, agent)
        assert isinstance(state, AgentState)
        lines = _diff(request_lines(request_of(state, partial(state_of, event.seq))), request_lines(now))
        profile = following.profile_of(agent)
        yield RequestDifference(agent, event.seq, body.turn, body.attempt, tuple(lines), profile)


def _lines(profiles: tuple[Json, ...]) -> list[str]:
    return [line for one in profiles for line in profile_lines(one)]


def _diff(recorded: list[str], now: list[str]) -> Iterator[str]:
    return difflib.unified_diff(recorded, now, "recorded", "now", lineterm="", n=2)


def request_lines(request: ModelRequest) -> list[str]:
    """Return a request as lines: its model, its tools by name, its instructions, its messages."""
    body = msgspec.json.decode(request.body())
    tools = {tool.get("name", str(place)): tool for place, tool in enumerate(body.pop("tools"))}
    given = {name: value for name, value in body.items() if value is not None}
    return [*value_lines("", {"model": given.pop("model"), "tools": tools, **given})]
