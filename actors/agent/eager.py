"""The calls of an agent with eager turns: they stay open over turns, each until it has its answer.

An agent whose profile says `turns="any"` asks for its next turn as soon as one call is answered. Answers that
come while a turn is out go with the next one, in the order in which they came. An agent whose turns wait for
all calls has no such books, and pays nothing for them.

Rules
  - A call has a ticket, in the order of the asks. Tools over `max_parallel_tools` stand in line by ticket.
  - A call that was given up is open until its answer comes. The answer is then counted and not delivered.
"""

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.program_step import ProgramStep
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Profile

Stage: TypeAlias = Literal["line", "tool", "question", "task"]
"""The place of a call: in line for a tool, at a tool, with a person, or with the supervisor."""


class OpenCall(msgspec.Struct, frozen=True, gc=False):
    """A call without an answer. ticket: its number among all asks of this life."""

    turn: int
    call: int
    use: ToolUse
    ticket: int
    stage: Stage
    is_given_up: bool = False


class End(msgspec.Struct, frozen=True, gc=False):
    """The end of an agent whose calls still drain. last: the step in which a program returned, if it did."""

    kind: OutcomeKind
    detail: str = ""
    last: ProgramStep | None = None


class Heard(msgspec.Struct, frozen=True, gc=False):
    """An answer that no request holds yet, and the seq of the event that brought it (0: none)."""

    block: Json
    seq: int = 0


class Eager(msgspec.Struct, frozen=True, gc=False):
    """The books of an agent with eager turns.

    open: its open calls, by turn and by call. size, given_up: the number of them, and of those given up.
    line: the places of the calls that wait for a tool, by ticket.
    heard: the answers that go with the next turn, in the order in which they came.
    wake: the deadline that the supervisor knows of, None for none.
    end: how the agent ends once its open calls have drained; None while it goes on.
    latch: the end that its code cannot avert, once a step has heard of it; None without one.
    questions: those put to models. questions_max: the most of a program, None for no limit.
    """

    open: IntMap[IntMap[OpenCall]] = IntMap()
    size: int = 0
    given_up: int = 0
    line: IntMap[OpenCall] = IntMap()
    next_ticket: int = 1
    heard: IntMap[Heard] = IntMap()
    wake: int | None = None
    end: End | None = None
    latch: End | None = None
    questions: int = 0
    questions_max: int | None = None

    @property
    def is_latched(self) -> bool:
        """Return True if the latest step has heard that its program ends, so that it is the last one."""
        # Answers without a step are those that bring the news.
        return self.latch is not None and not self.heard.size

    @property
    def is_idle(self) -> bool:
        """Return True if nothing can happen any more that the agent waits for."""
        return self.size == self.given_up and self.wake is None and not self.heard.size


EMPTY: Final = Eager()


def books_for(begin: Begin, profile: Profile) -> Eager | None:
    """Return the books with which an agent begins; None if its turns wait for all calls."""
    if not profile.is_eager:
        return None
    return replace(EMPTY, questions_max=begin.limits.max_iterations) if begin.bounds_questions else EMPTY


_NONE: Final[IntMap[OpenCall]] = IntMap()


def find(books: Eager, turn: int, call: int) -> OpenCall | None:
    """Return an open call; None if no call has this place, or its answer has come."""
    calls = books.open.get(turn)
    return calls.get(call) if calls is not None else None


def open_calls(books: Eager) -> Iterator[OpenCall]:
    """Yield the open calls, in the order of the asks."""
    for calls in books.open.values():
        yield from calls.values()


def put(books: Eager, call: OpenCall) -> Eager:
    """Keep a new call, or one that has changed."""
    before = find(books, call.turn, call.call)
    calls = books.open.get(call.turn) or _NONE
    was_given_up = before is not None and before.is_given_up
    return replace(
        books,
        open=books.open.put(call.turn, calls.put(call.call, call)),
        size=books.size + (before is None),
        given_up=books.given_up + call.is_given_up - was_given_up,
        line=_line_with(books.line, before, call),
        next_ticket=max(books.next_ticket, call.ticket + 1),
    )


def _line_with(line: IntMap[OpenCall], before: OpenCall | None, call: OpenCall) -> IntMap[OpenCall]:
    if call.stage == "line":
        return line.put(call.ticket, call)
    return line.drop(call.ticket) if before is not None and before.stage == "line" else line


def drop(books: Eager, call: OpenCall) -> Eager:
    """Forget a call that has its answer."""
    calls = (books.open.get(call.turn) or _NONE).drop(call.call)
    return replace(
        books,
        open=books.open.put(call.turn, calls) if calls.size else books.open.drop(call.turn),
        size=books.size - 1,
        given_up=books.given_up - call.is_given_up,
        line=books.line.drop(call.ticket) if call.stage == "line" else books.line,
    )


def hear(books: Eager, block: Json, seq: int = 0) -> Eager:
    """Keep an answer for the next turn."""
    return replace(books, heard=books.heard.append(Heard(block, seq)))
