"""A check of programs: requests that one gave up at a timeout of its own, and never made again.

The program goes on without the answer, which may even have come by then: nothing else in the log fails.

Rules
  - A step says what it gives up. It does so at a timeout if the program's deadline, and not an answer, has
    led to it. The loser of a race is given up at an answer.
  - A request is made good by a later one that ends well: of nearly the same words, to any agent, or the same
    call. A call that was answered before is a poll, and is not looked at.
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar, NamedTuple

from callboard.actors.agent.content import read
from callboard.actors.agent.program_step import is_step, read_step
from callboard.actors.protocol.endings import STATUS
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    DelegationEnded,
    TurnRequested,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.step_messages import RunStep
from callboard.replay.diagnosis.finding import Finding
from callboard.replay.diagnosis.models import is_one_task, words_of
from callboard.replay.formats import duration

_Place = tuple[str, int, int]
"""The agent, the turn and the call of a request."""


class _Request(NamedTuple):
    """A request. tool, arguments: of a call; empty for a delegation. words: of the task."""

    event: Event
    what: str
    tool: str = ""
    arguments: bytes = b""
    words: frozenset[str] = frozenset()

    def is_like(self, other: "_Request") -> bool:
        """Return whether another request asks for the same."""
        is_same = (self.tool, self.arguments) == (other.tool, other.arguments)
        return is_same and (bool(self.tool) or is_one_task(self.words, other.words))


class GivenUp:
    """Requests that a program gave up at a timeout, and that nothing made good."""

    kinds: ClassVar = frozenset(
        {
            *("Begin", "Wake", "Woken", "RunStep", "TurnRequested", "ModelReplied"),
            *("Delegate", "CallTool", "DelegationEnded", "ToolReturned"),
        }
    )

    def __init__(self) -> None:
        self._deadlines: dict[str, int | None] = {}  # of programs; another agent has no entry
        self._woken: dict[str, int] = {}
        self._is_timed: dict[str, bool] = {}
        self._places: dict[str, _Place] = {}
        self._open: dict[_Place, _Request] = {}
        self._ends: dict[_Place, Event] = {}
        self._unread: dict[int, _Place] = {}
        self._polled: set[tuple[str, str, bytes]] = set()
        self._given_up: dict[_Place, tuple[_Request, Event]] = {}

    def take(self, event: Event) -> None:
        """Take in the start of a program, its messages, and its answers."""
        body = event.body
        if type(body) is Begin:
            if body.model.is_program:
                self._deadlines[event.recipient] = None
        elif event.sender in self._deadlines:
            self._post(event.sender, event)
        elif event.recipient in self._deadlines:
            self._hear(event.recipient, event)

    def _post(self, agent: str, event: Event) -> None:
        body = event.body
        if isinstance(body, Wake):
            self._deadlines[agent] = body.until
        elif isinstance(body, RunStep | TurnRequested):
            self._ask(agent, event, body.new)
        elif isinstance(body, Delegate):
            to = ", ".join(dict.fromkeys(body.profiles))
            what = "its question to a model" if to == ASK_MODEL else f"its delegation to {to}"
            self._open[agent, body.turn, body.call] = _Request(event, what, words=words_of(body))
        elif isinstance(body, CallTool):
            request = _Request(event, f"its call of {body.tool}", body.tool, bytes(body.arguments))
            self._open[agent, body.turn, body.call] = request

    def _ask(self, agent: str, event: Event, new: Iterable[int]) -> None:
        until = self._deadlines[agent]
        is_woken = event.cause == self._woken.get(agent)
        self._is_timed[agent] = is_woken or (until is not None and event.at >= until)
        for place in [self._unread.pop(seq) for seq in new if seq in self._unread]:
            request = self._open.pop(place)
            del self._ends[place]
            if request.tool:
                self._polled.add((agent, request.tool, request.arguments))

    def _hear(self, agent: str, event: Event) -> None:
        body = event.body
        if isinstance(body, Woken):
            self._woken[agent] = event.seq
        elif isinstance(body, ModelReplied) and is_step(body.content):
            self._step(agent, body, event)
        elif isinstance(body, DelegationEnded | ToolReturned):
            self._end((agent, body.turn, body.call), event, is_ok=_is_ok(body))

    def _end(self, place: _Place, event: Event, *, is_ok: bool) -> None:
        if place in self._open:
            self._ends[place], self._unread[event.seq] = event, place
            if is_ok:
                self._make_good(place[0], self._open[place])

    def _step(self, agent: str, body: ModelReplied, event: Event) -> None:
        step, said = read_step(body.content), read(body.content)
        for call, use in enumerate(said.uses if said is not None else ()):
            self._places[use.id] = agent, body.turn, call
        cancels = step.cancels if step is not None and self._is_timed.get(agent) else ()
        for place in [self._places[one] for one in cancels if one in self._places]:
            request = self._open.get(place)
            if request is not None and (agent, request.tool, request.arguments) not in self._polled:
                self._given_up[place] = request, event

    def _make_good(self, agent: str, request: _Request) -> None:
        """Forget the requests of an agent that this one repeats, which has ended well."""
        self._given_up = {
            place: (one, step)
            for place, (one, step) in self._given_up.items()
            if place[0] != agent or request.event.seq < step.seq or not one.is_like(request)
        }

    def findings(self) -> Iterator[Finding]:
        """Yield them in the order of the log."""
        for place, (request, step) in self._given_up.items():
            yield _finding(place[0], request, step, self._ends.get(place))


def _is_ok(body: AnyMessage) -> bool:
    if isinstance(body, DelegationEnded):
        return STATUS[body.kind] == "ok"
    return isinstance(body, ToolReturned) and body.status == "ok"


def _ends(agent: str, body: AnyMessage) -> tuple[str, ...]:
    if isinstance(body, DelegationEnded):
        return (body.address,)
    is_in_doubt = isinstance(body, ToolReturned) and body.status == "interrupted"
    return (agent,) * is_in_doubt  # the call in doubt tells of it


def _finding(agent: str, request: _Request, step: Event, end: Event | None) -> Finding:
    asked, late = request.event, ""
    if end is not None and _is_ok(end.body):
        late = f"; its answer came ({end.seq}), and was not read"
    says = (
        f"{agent} gave up {request.what} ({asked.seq}) at a timeout of its program after "
        f"{duration(step.at - asked.at)}, and went on without the answer{late}"
    )
    ends = _ends(agent, end.body) if end is not None else ()
    last = max(step.seq, end.seq if end is not None else 0)
    command = f"events {{session}} --from {asked.seq} --to {last}"
    return Finding("given_up", step.seq, agent, says, command, ends)
