"""A recording, replayed with changed agents: what differs, as texts."""

import difflib
from collections.abc import Callable, Iterator, Sequence

from callboard.actors.agent.state import AgentState, request_of
from callboard.actors.protocol.client_messages import SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.messages import TurnRequested
from callboard.actors.session.step import ActorState
from callboard.replay.changed.agents_now import AgentsNow
from callboard.replay.changed.following import Following
from callboard.replay.changed.request_lines import request_lines
from callboard.replay.changed.result import ChangedReplay, RequestDifference
from callboard.replay.diff import profile_lines


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
        body = event.body
        assert isinstance(body, TurnRequested)
        state = state_of(event.seq, agent)
        assert isinstance(state, AgentState)
        lines = _diff(request_lines(request_of(state)), request_lines(now))
        profile = following.profile_of(agent)
        yield RequestDifference(agent, event.seq, body.turn, body.attempt, tuple(lines), profile)


def _lines(profiles: tuple[Json, ...]) -> list[str]:
    return [line for one in profiles for line in profile_lines(one)]


def _diff(recorded: list[str], now: list[str]) -> Iterator[str]:
    return difflib.unified_diff(recorded, now, "recorded", "now", lineterm="", n=2)
