"""Approvals in a log that no process runs: the open questions, and one answer appended as an input.

Nothing is decided here. The next process that resumes the session delivers the answer to its agent. A call of
a fork is answered by the tools port, so only the process that runs the fork takes its answer.
"""

from collections.abc import Sequence
from typing import NamedTuple

from callboard.actors.protocol.addresses import APPROVALS
from callboard.actors.protocol.client_messages import RULES, Forked, Resumed
from callboard.actors.protocol.errors import Diverged, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolStarted
from callboard.actors.session.permissions import without_person
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.recovery import recover
from callboard.runtime.approvals import ApprovalAnswer, approval_id
from callboard.runtime.clock import now_ms
from callboard.runtime.control.wire import ShownApproval
from callboard.runtime.log.protocol import Append, EventLog, Stored
from callboard.runtime.ports.approval_port import given_by, no_question
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.resuming import recorded_of
from callboard.runtime.sessions.session_pages import checked_rows
from callboard.runtime.tools.input_forms import forms_of


class OpenQuestion(NamedTuple):
    """A question that waits for a person. digest: of its event."""

    request: Event
    digest: str


def open_questions(session_id: str, rows: Sequence[Stored], now: int) -> list[OpenQuestion]:
    """Return the questions of a session that wait for a person. rows: all of its log.

    now: the time, in milliseconds since 1970 UTC. Raises CorruptLog.
    """
    events = recorded_of(session_id, rows).events
    gate = PortGate()
    gate.on_events(events)
    asks = asks_about_effects(events)
    started = {event.cause for event in events if isinstance(event.body, ToolStarted)}  # without a question
    return [
        OpenQuestion(one.event, rows[one.event.seq - 1].digest.hex())
        for _, one in sorted(gate.open.items())
        if one.event.seq not in started
        and gate.may_start(one.event)
        and _needs_person(one.event, now, gate, asks_about_effects=asks)
    ]


def asks_about_effects(events: Sequence[Event]) -> bool:
    """Return True for a fork that lets a person decide about tools with an effect."""
    forked = next((one.body for one in reversed(events) if isinstance(one.body, Forked)), None)
    return forked is not None and forked.effects == "ask"


def _needs_person(request: Event, now: int, gate: PortGate, *, asks_about_effects: bool) -> bool:
    body = request.body
    if isinstance(body, CallTool):
        return asks_about_effects and body.effect != "read"
    return isinstance(body, RequestApproval) and without_person(request, now, gate.permissions) is None


def shown(session_id: str, question: OpenQuestion) -> ShownApproval:
    """Return an open question as commands show it."""
    request, body = question.request, question.request.body
    if isinstance(body, CallTool):
        return _shown_call(session_id, question, body)
    assert isinstance(body, RequestApproval)
    return ShownApproval(
        approval_id(session_id, request.seq),
        session_id,
        request.seq,
        request.sender,
        body.profile,
        body.tool,
        body.effect,
        body.arguments,
        body.is_repeat,
        question.digest,
        request.at + body.timeout_ms if body.timeout_ms else None,
        body.form,
    )


def _shown_call(session_id: str, question: OpenQuestion, call: CallTool) -> ShownApproval:
    """Return an open call of a fork as commands show it."""
    request = question.request
    place = (approval_id(session_id, request.seq), session_id, request.seq, request.sender, "")
    about = (call.tool, call.effect, call.arguments, False, question.digest)
    return ShownApproval(*place, *about, is_fork=True)


async def append_answer(log: EventLog, session_id: str, seq: int, answer: ApprovalAnswer) -> bool:
    """Append a person's answer to an open log. Return False if the question is closed.

    Raises UnknownName if this event asks no question, Diverged if this code cannot go on with the session,
    MisuseError for an answer that cannot be given.
    """
    rows = await checked_rows(log, session_id)
    events = recorded_of(session_id, rows).events
    kind = next((type(event.body) for event in events[max(0, seq - 1) : seq]), None)
    if kind is CallTool and asks_about_effects(events):
        raise MisuseError(
            f"call {seq} is one of the fork {session_id}: only the process that runs the fork can answer it; "
            f"`callboard resume {session_id} MODULE:AGENT` asks again"
        )
    if kind is not RequestApproval:
        raise no_question(session_id, seq)
    now = max(now_ms(), events[-1].at)
    question = next((one for one in open_questions(session_id, rows, now) if one.request.seq == seq), None)
    if question is None:
        return False
    given = _given(question, answer)
    _refuse_torn(session_id, events, now)
    await _append(log, session_id, now, question.request, given)
    return True


async def _append(log: EventLog, session_id: str, now: int, request: Event, given: ApprovalGiven) -> None:
    epoch, head = await log.take_over(session_id)
    event = Event(head.seq + 1, now, APPROVALS, request.sender, request.seq, given)
    (end,) = await log.append([Append(session_id, head.seq, epoch, [event])])
    if isinstance(end, Exception):
        raise end


def _given(question: OpenQuestion, answer: ApprovalAnswer) -> ApprovalGiven:
    body, secrets = question.request.body, Secrets()
    assert isinstance(body, RequestApproval)
    if answer.arguments is not None:
        raise MisuseError("only the process that runs the session can check changed arguments")
    if answer.is_approved and any(form.secrets for form in forms_of(body.form)):
        raise MisuseError("the form has a secret value: only the process that runs the session can take that")
    given = secrets.admitted(given_by(question.request, question.digest, answer, secrets.redactor))
    assert isinstance(given, ApprovalGiven)
    return given


def _refuse_torn(session_id: str, events: Sequence[Event], now: int) -> None:
    """Refuse a log that ends between the outputs of one decision. Raises Diverged, MisuseError."""
    # Nothing may stand between the outputs of a decision, so a resume has to post the rest first.
    try:
        recovered = recover(events, Resumed(RULES), now)
    except Diverged:
        raise
    except Exception as error:
        raise MisuseError(f"session {session_id} cannot continue: {type(error).__name__}: {error}") from error
    if not isinstance(recovered.posted[0].body, Resumed):
        raise MisuseError(
            f"session {session_id} ends inside a decision; resume it, and answer in the process that runs it"
        )
