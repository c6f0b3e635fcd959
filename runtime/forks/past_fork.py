"""A fork whose process has ended: the next one goes on with its recorded answers, by what the log holds."""

from contextlib import suppress
from typing import NamedTuple

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import SessionNotFound
from callboard.actors.session.fork_plan import planned_again
from callboard.actors.session.playback import Playback
from callboard.actors.session.port_gate import PortGate
from callboard.runtime.log.protocol import EventLog
from callboard.runtime.sessions.resuming import RecordedSession, read_session


class PastFork(NamedTuple):
    """The playback of a fork. answered: the seqs of its open requests that have a recorded answer."""

    playback: Playback
    answered: frozenset[int]


async def past_fork(log: EventLog, recorded: RecordedSession) -> PastFork | None:
    """Return the playback of a recorded session; None if it is not a fork."""
    found = next((event for event in reversed(recorded.events) if isinstance(event.body, Forked)), None)
    if found is None:
        return None
    forked = found.body
    assert isinstance(forked, Forked)
    origin = recorded.events[: forked.at]
    with suppress(SessionNotFound):  # it was deleted, apart from the events that the fork shares
        origin = (await read_session(log, forked.origin)).events
    playback = Playback(planned_again(origin, forked), forked.effects)
    playback.note(recorded.events)
    playback.note_own(recorded.events[found.seq :])
    if recorded.is_closed:
        playback.inputs.clear()
    return PastFork(playback, _answered(recorded, playback))


def _answered(recorded: RecordedSession, playback: Playback) -> frozenset[int]:
    gate = PortGate()
    gate.on_events(recorded.events)
    return frozenset(seq for seq, one in gate.open.items() if playback.has_answer(one.event, gate))
