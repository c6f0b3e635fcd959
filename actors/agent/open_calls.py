"""The open calls of an agent, of all kinds: each from the reply that makes it to its answer.

    line       it waits for a free place among the tools (max_parallel_tools)
    tool       a tool is at work on it
    question   a person is asked about it
    task       the supervisor works on its delegation; `start` for one that is to run in the background
    wait       the agent keeps it open itself, until tasks have ended (`task_wait`, `task_cancel`)
    report     the supervisor judges its report

An agent whose turns wait for all calls asks again when none is open, with the answers in call order. One with
eager turns (`turns="any"`, a program) asks again as soon as there is an answer, with the answers in the order
in which they came, and its calls stay open over turns.

Rules
  - A call has a ticket, in the order of the replies and of the calls in them. The line is served by ticket.
  - `report_back`s stand apart until no other call is open: they are posted then.
  - A call that was given up is open until its answer comes. That answer is then counted and not delivered.
"""

from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.tasks import NOTHING_UNHEARD, Unheard, Wait
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap

Stage: TypeAlias = Literal["line", "tool", "question", "task", "start", "wait", "report"]


class OpenCall(msgspec.Struct, frozen=True, gc=False):
    """A call without an answer. is_changed: a person has changed its arguments. wait: of the stage `wait`."""

    ticket: int
    turn: int
    call: int
    use: ToolUse
    stage: Stage
    is_given_up: bool = False
    is_changed: bool = False
    wait: Wait | None = None


class OpenCalls(msgspec.Struct, frozen=True, gc=False):
    """The open calls of an agent, and the answers that no request holds yet.

    open: by ticket. line: those that wait for a tool, by ticket. answers: by call, of an agent with eager
    turns in the order in which they came. reports: the report_back calls that are not posted yet.
    tools, questions, given_up: the numbers of open calls at these stages, and of those given up.
    next_ticket: of the next reply, while calls of an earlier one are open.
    """

    open: IntMap[OpenCall] = IntMap()
    answers: IntMap[Unheard] = NOTHING_UNHEARD
    line: IntMap[OpenCall] = IntMap()
    reports: tuple[OpenCall, ...] = ()
    tools: int = 0
    questions: int = 0
    given_up: int = 0
    next_ticket: int = 0


NO_CALLS: Final = OpenCalls()


def find(calls: OpenCalls, turn: int, call: int) -> OpenCall | None:
    """Return an open call; None if no call has this place, or its answer has come."""
    found = calls.open.get(call)  # the tickets of a reply begin at 0 if no earlier call is open
    if found is not None and found.turn == turn and found.call == call:
        return found
    if not calls.open.size:
        return None
    found = calls.open.last_until(lambda one: (one.turn, one.call) > (turn, call))
    return found if found is not None and (found.turn, found.call) == (turn, call) else None


def put(calls: OpenCalls, call: OpenCall) -> OpenCalls:
    """Keep a new call, or one that has changed."""
    before = calls.open.get(call.ticket)
    if before is not None:
        calls = drop(calls, before)
    stage = call.stage
    return OpenCalls(
        calls.open.put(call.ticket, call),
        calls.answers,
        calls.line.put(call.ticket, call) if stage == "line" else calls.line,
        calls.reports,
        calls.tools + (stage == "tool"),
        calls.questions + (stage == "question"),
        calls.given_up + call.is_given_up,
        calls.next_ticket,
    )


def drop(calls: OpenCalls, call: OpenCall, answers: IntMap[Unheard] | None = None) -> OpenCalls:
    """Forget a call that has its answer. answers: with that one, None if it is not heard."""
    stage = call.stage
    return OpenCalls(
        calls.open.drop(call.ticket),
        calls.answers if answers is None else answers,
        calls.line.drop(call.ticket) if stage == "line" else calls.line,
        calls.reports,
        calls.tools - (stage == "tool"),
        calls.questions - (stage == "question"),
        calls.given_up - call.is_given_up,
        calls.next_ticket,
    )


def hear(calls: OpenCalls, block: Json, seq: int = 0) -> OpenCalls:
    """Keep an answer behind those that have come before."""
    return replace(calls, answers=calls.answers.append(Unheard(block, seq)))


def without_answers(calls: OpenCalls) -> OpenCalls:
    """Return the book of an agent whose answers are in a request, or are not heard any more."""
    return replace(calls, answers=NOTHING_UNHEARD) if calls.open.size else NO_CALLS


def only_answers(answers: IntMap[Unheard]) -> OpenCalls:
    """Return the book of an agent that has no open calls."""
    return OpenCalls(answers=answers) if answers.size else NO_CALLS


def in_order(answers: IntMap[Unheard]) -> tuple[tuple[Json, ...], tuple[int, ...]]:
    """Return the blocks of answers in their order, and the seqs of the events that brought them."""
    blocks: list[Json] = []
    seqs: list[int] = []
    for one in answers.values():
        blocks.append(one.block)
        if one.seq:
            seqs.append(one.seq)
    return tuple(blocks), tuple(seqs)
