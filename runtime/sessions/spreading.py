"""The model calls that a resume makes again, spread over a moment: a service would refuse some of a burst."""

from typing import Final, NamedTuple

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.port_messages import CallModel
from callboard.actors.session.port_actions import Start
from callboard.actors.session.recovery import Recovered

AT_ONCE: Final = 8
APART_MS: Final = 25
WITHIN_MS: Final = 10_000


class Spread(NamedTuple):
    """The starts of a resume. later: those that wait, with their delays in milliseconds."""

    now: tuple[Start, ...]
    later: tuple[tuple[int, Start], ...]


def delay_ms(place: int, count: int) -> int:
    """Return how long one of so many model calls waits. place: its place among them, from 0 up."""
    waiting = max(1, count - AT_ONCE)
    return max(0, place + 1 - AT_ONCE) * min(APART_MS * waiting, WITHIN_MS) // waiting


def spread_starts(recovered: Recovered) -> Spread:
    """Delay model calls; steps of programs and all other requests start at once."""
    calls = [start for start in recovered.starts if _is_model_call(recovered, start)]
    delays = {start.request.seq: delay_ms(place, len(calls)) for place, start in enumerate(calls)}
    return Spread(
        tuple(start for start in recovered.starts if not delays.get(start.request.seq)),
        tuple((delay, start) for start in calls if (delay := delays[start.request.seq])),
    )


def _is_model_call(recovered: Recovered, start: Start) -> bool:
    grant = start.request.body
    if not isinstance(grant, CallModel):
        return False
    agent = recovered.states.get(grant.agent)
    return isinstance(agent, AgentState) and not agent.model.is_program
