"""The rule of programs that wait: the time without a process is left out of sleeps and timeouts.

Each program goes through `PHASES`; the waits are known as literals. The rule recomputes, from the
times of the recorded steps and from what each resume left out, when each wait is over and which deadline is
the next one. It shares no code with the event loop of programs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from callboard.actors.protocol.client_messages import Resumed
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Begin, Wake
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.replay.testing.sessions.monitors import SessionMonitor
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld

Kind: TypeAlias = Literal["sleep", "timeout", "until"]
Json: TypeAlias = dict[str, Any]

RULE: Final = "A wait of a program leaves out the time without a process; a time of day does not."


class Wait(NamedTuple):
    """A wait. ms: of a sleep or a timeout, its length; of a time of day, the time since the run began."""

    kind: Kind
    ms: int


PHASES: Final[Mapping[str, Sequence[Sequence[Wait]]]] = {
    "host": (
        (Wait("sleep", 2_000), Wait("until", 2_600), Wait("timeout", 1_500)),
        (Wait("until", 3_900), Wait("sleep", 700)),
        (Wait("timeout", 400), Wait("sleep", 900), Wait("until", 1_000)),
    ),
    "below": ((Wait("until", 900), Wait("sleep", 800)), (Wait("timeout", 1_100), Wait("until", 2_500))),
}
"""The waits of each program: those of a phase run side by side, and the phases one after the other."""


@dataclass(frozen=True)
class Downtime:
    """A session of programs that wait."""

    scenario: Scenario

    @property
    def rule(self) -> SessionMonitor:
        """Return the rule for one campaign."""
        return SessionMonitor("downtime", RULE, breach_of)


class _Step(NamedTuple):
    at: int
    left_out: int
    head: Json
    content: list[Json]


class _Set(NamedTuple):
    """A wait that has begun: with the step of its beginning, and that of its run."""

    wait: Wait
    since: _Step
    first: _Step

    def due(self, now: _Step) -> int:
        """Return when it is over by the clock, as far as a step can know."""
        if self.wait.kind == "until":
            return self.first.at + self.wait.ms
        return self.since.at + self.wait.ms + now.left_out - self.since.left_out


def breach_of(world: SessionWorld) -> str:
    """Return how the session of a world breaks the rule, or ''."""
    names = {
        event.recipient: msgspec.json.decode(event.body.profile)["name"]
        for event in world.log
        if isinstance(event.body, Begin)
    }
    for address, name in names.items():
        if name in PHASES and (found := _difference(PHASES[name], list(_steps(world.log, address)))):
            return f"{address}: {found}"
    return _unasked(world.log)


def _steps(log: Sequence[Event], address: str) -> Iterator[_Step]:
    """Yield the steps of an agent, with the time left out before each, up to a reply that is no step."""
    left_out = 0
    for event in log:
        body = event.body
        if isinstance(body, Resumed):
            left_out += body.left_out_ms
        elif isinstance(body, ModelReplied) and event.recipient == address and body.status == "ok":
            content = msgspec.json.decode(body.content)
            if not _is_step(content):
                return
            yield _Step(content[0]["at"], left_out, content[0], content)


def _is_step(content: object) -> bool:
    first = content[0] if isinstance(content, list) and content else {}
    return isinstance(first, dict) and first.get("type") == "program_step"


def _difference(phases: Sequence[Sequence[Wait]], steps: Sequence[_Step]) -> str:
    """Return how recorded steps differ from those that the phases and the times determine."""
    line, told = list(phases), list[int]()
    waits: list[_Set] = []
    for step in steps:
        first = steps[0]
        if step.head.get("left_out_ms", 0) != step.left_out:
            return f"a step tells of {step.head.get('left_out_ms', 0)} ms left out, not {step.left_out}"
        while True:
            over = [one for one in waits if one.due(step) <= step.at]
            waits = [one for one in waits if one not in over]
            told += [step.at - first.at for one in over]
            if waits or not line:
                break
            waits = [_Set(wait, step, first) for wait in line.pop(0)]
        wake = min((one.due(step) for one in waits), default=None)
        if step.head["wake"] != wake:
            return f"at {step.at - first.at} ms a step wakes at {step.head['wake']}, not {wake}"
        ended = [one["value"] for one in step.content if one["type"] == "program_result"]
        if ended and (waits or ended != [told]):
            return f"its waits were over at {ended}, and had to be at {told}, with {waits} left"
    return ""


def _unasked(log: Sequence[Event]) -> str:
    """Return a deadline that was set, and that no step named, or ''."""
    named = {
        (event.recipient, one.head["wake"]) for event in log for one in _steps((event,), event.recipient)
    }
    wakes = [event for event in log if isinstance(event.body, Wake)]
    wrong = [event for event in wakes if (event.sender, event.body.until) not in named]  # type: ignore[union-attr]  # filtered above
    return f"{wrong[0].sender} sets a deadline that no step has named" if wrong else ""
