"""The result of a replay with changed agents."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from callboard.actors.protocol.events import Event

DifferenceKind: TypeAlias = Literal["changed", "missing", "extra", "raised", "misfit", "program", "timer"]
"""How a decision differs.

changed, missing, extra: its posts. raised: the decider raises now. misfit: a recorded answer does not fit the
request of today. program: a program does not repeat its step. timer: it fires at another time.
"""


class RequestDifference(NamedTuple):
    """The first request of an agent that differs. seq: of its `TurnRequested`. lines: a unified diff."""

    agent: str
    seq: int
    turn: int
    attempt: int
    lines: tuple[str, ...]


class DecisionDifference(NamedTuple):
    """The first decision of an actor that differs.

    seq: of the recorded output, or of the event decided on if it has none. decision: of the event decided
    on. path: of the first value that differs. recorded, now: both sides, as JSON or in words.
    """

    actor: str
    seq: int
    decision: int
    kind: DifferenceKind
    path: str
    recorded: str
    now: str


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

    def lines(self) -> list[str]:
        """Return the result as lines of text."""
        lines = [f"session {self.session_id}: {self.events:,} events, {self.agents:,} agents"]
        lines += self.profiles
        for one in self.requests:
            lines.append(f"{one.agent}, turn {one.turn} (event {one.seq}): the request differs")
            lines += one.lines
        for place, found in enumerate(self.decisions):
            lines.append("first decision that differs:" if not place else "also:")
            lines += found_lines(found)
        if not self.decisions:
            lines.append("every decision is as recorded")
        return lines


def found_lines(one: DecisionDifference) -> list[str]:
    """Return a difference as lines of text."""
    place = f": {one.path}" if one.path else ""
    on = f", deciding on event {one.decision}" if one.decision != one.seq else ""
    return [
        f"  event {one.seq}, {one.actor}{on} ({one.kind}){place}",
        f"    recorded: {one.recorded or 'nothing'}",
        f"    now:      {one.now or 'nothing'}",
    ]
