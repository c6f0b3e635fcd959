"""The names of places in a session, which every view prints and every command takes, and its checkpoints.

    SESSION#SEQ                  an event
    SESSION#AGENT:TURN:CALL      the answer of a call, such as 2026#host.8:3:0
    SESSION#AGENT:TURN           the reply of a model
    SESSION@CHECKPOINT           the place at which a tool that named the checkpoint has returned

A call without an answer is known by its request. A turn that occurs again, in a later ask, is the latest one.
"""

from collections.abc import Iterable
from typing import Final

from callboard.actors.protocol.addresses import is_agent, names_agent
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import DelegationEnded, ReportJudged
from callboard.actors.protocol.port_messages import ModelReplied, ToolReturned
from callboard.actors.session.recorded_answers import OF_MODEL, Call

_NAMED: Final = 12
_DIGITS_MAX: Final = 18


def named(call: Call) -> str:
    """Return a call as AGENT:TURN:CALL, the reply of a model as AGENT:TURN."""
    agent, turn, index = call
    return f"{agent}:{turn}" if index == OF_MODEL else f"{agent}:{turn}:{index}"


def call_named(text: str) -> Call | None:
    """Return the call of this name; None for another text."""
    agent, *numbers = text.split(":")
    if not names_agent(agent) or len(numbers) not in (1, 2) or not all(map(is_number, numbers)):
        return None
    return agent, int(numbers[0]), int(numbers[1]) if len(numbers) == 2 else OF_MODEL


def is_number(text: str) -> bool:
    """Return whether a text is a whole number, such as a seq."""
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX


def call_of(event: Event) -> Call | None:
    """Return the call, or the turn, that an event belongs to; None for an event of neither."""
    turn = getattr(event.body, "turn", 0)
    agent = next((one for one in (event.recipient, event.sender) if is_agent(one)), "")
    if not agent or not turn:
        return None
    return agent, turn, getattr(event.body, "call", OF_MODEL)


def call_name(event: Event) -> str:
    """Return the name of the call, or of the turn, that an event belongs to; '' for an event of neither."""
    call = call_of(event)
    return "" if call is None else named(call)


def moment_name(event: Event) -> str:
    """Return the name of an event in the life of an agent, the same in any order: `CallTool host.1:2:0`."""
    agent = event.recipient if is_agent(event.recipient) else event.sender
    return f"{event.kind} {call_name(event) or agent}"


def seq_of(events: Iterable[Event], call: Call) -> int:
    """Return the seq of the answer of a call, else of its latest event; 0 for none.

    events: of its agent, in order.
    """
    found = answered = 0
    for event in events:
        if call_of(event) == call:
            found = event.seq
            answered = event.seq if _is_answer(event) else answered
    return answered or found


def few_named(calls: Iterable[Call], agent: str = "") -> str:
    """Return the first of these calls, those of an agent before others."""
    ordered = [named(call) for call in sorted(calls, key=lambda call: (call[0] != agent, call))]
    return ", ".join(ordered[:_NAMED]) + (", ..." if len(ordered) > _NAMED else "") if ordered else "none"


def _is_answer(event: Event) -> bool:
    body = event.body
    if isinstance(body, ModelReplied):
        return body.status == "ok"
    return isinstance(body, ToolReturned | DelegationEnded | ReportJudged)


def checkpoints_of(events: Iterable[Event]) -> dict[str, int]:
    """Return the seq of each checkpoint by its name, the last one of each name."""
    found: dict[str, int] = {}
    for event in events:
        if isinstance(event.body, ToolReturned) and event.body.status == "ok":
            found.update(dict.fromkeys(event.body.checkpoints, event.seq))
    return found


def checkpoint_named(session_id: str, events: Iterable[Event], name: str) -> int:
    """Return the seq of a checkpoint. Raises UnknownName, which names those that there are."""
    found = checkpoints_of(events)
    if name not in found:
        known = ", ".join(sorted(found)) or "none; a tool makes one by ctx.checkpoint(name)"
        raise UnknownName(f"session {session_id} has no checkpoint {name!r:.80}; there are: {known}")
    return found[name]
