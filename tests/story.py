"""A log read once: who lived when, who worked for whom, what became of each report.

Computed from the log alone, in other words than the deciders use, so that rules can be checked against it.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from callboard.actors.addresses import CLIENT, HOST, child_of
from callboard.actors.base import Json
from callboard.actors.events import Event
from callboard.actors.messages import (
    Ask,
    AskEnded,
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    ReportBack,
    ReportJudged,
    Stop,
)

Call: TypeAlias = tuple[str, int, int]
"""Who called, in which turn, which call of it; an ask is (client, its number, 0)."""


class Report(NamedTuple):
    """A report, whether it came before its sender's end, and how it was judged."""

    seq: int
    value: Json
    is_eligible: bool
    verdict: str


class End(NamedTuple):
    """How a delegation or an ask ended."""

    seq: int
    kind: str
    value: Json


@dataclass
class Story:
    """Built event by event. ends, reports: of each delegation and ask."""

    ends: dict[Call, End] = field(default_factory=dict)
    reports: dict[Call, list[Report]] = field(default_factory=lambda: defaultdict(list))
    _asks: dict[str, Call] = field(default_factory=dict)
    _next_ordinal: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: 1))
    _works_on: dict[str, Call] = field(default_factory=dict)
    _ended_by: dict[str, int] = field(default_factory=dict)


def read_story(log: list[Event]) -> Story:
    """The story of a log."""
    story = Story()
    ends = [(e, e.body) for e in log if isinstance(e.body, DelegationEnded)]
    refused = {(event.recipient, end.turn, end.call) for event, end in ends if not end.address}
    judged = [(e, e.body) for e in log if isinstance(e.body, ReportJudged)]
    verdicts: dict[Call, str] = {(e.recipient, b.turn, b.call): b.verdict for e, b in judged}
    ended_by = _ended_by(log)
    for event in log:
        _tell(story, event, refused, verdicts, ended_by)
    return story


def _ended_by(log: list[Event]) -> dict[tuple[str, int], int]:
    """For each life (address, seq of its Begin), the seq of the event whose handling ended it."""
    life: dict[str, int] = {}
    found: dict[tuple[str, int], int] = {}
    for event in log:
        body = event.body
        if isinstance(body, Begin):
            life[event.recipient] = event.seq
        elif isinstance(body, Finished) and event.sender in life:
            found.setdefault((event.sender, life[event.sender]), event.seq)
        elif isinstance(body, Stop) or (isinstance(body, ReportJudged) and body.verdict == "accepted"):
            found.setdefault((event.recipient, life.get(event.recipient, 0)), event.cause)
    return found


def _tell(
    story: Story,
    event: Event,
    refused: set[Call],
    verdicts: dict[Call, str],
    ended_by: dict[tuple[str, int], int],
) -> None:
    match event.body:
        case Ask(request_id):
            story._asks[request_id] = (CLIENT, event.seq, 0)
        case Delegate(turn, call, profiles):
            if (event.sender, turn, call) not in refused:
                first = story._next_ordinal[event.sender]
                story._next_ordinal[event.sender] += len(profiles)
                for ordinal in range(first, first + len(profiles)):
                    story._works_on[child_of(event.sender, ordinal)] = (event.sender, turn, call)
        case Begin():
            if event.recipient == HOST:
                story._works_on[HOST] = next(iter(story._asks.values()))
            story._ended_by[event.recipient] = ended_by.get((event.recipient, event.seq), 1 << 60)
        case ReportBack(turn, call, value):
            is_eligible = event.seq < story._ended_by[event.sender]
            report = Report(event.seq, value, is_eligible, verdicts[event.sender, turn, call])
            story.reports[story._works_on[event.sender]].append(report)
        case DelegationEnded(turn, call, kind, value=value):
            story.ends[event.recipient, turn, call] = End(event.seq, kind, value)
        case AskEnded(request_id, kind, value):
            story.ends[story._asks.pop(request_id)] = End(event.seq, kind, value)
        case _:
            pass
