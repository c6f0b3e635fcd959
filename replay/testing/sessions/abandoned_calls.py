"""Rules for calls whose agent is stopped, and for calls that a crash leaves open.

given up    every call in progress for a stopped agent is given up
resumes     a model call that a crash cut off is charged, and a write tool that had started not run again
"""

from typing import Final

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import CallModel, CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.replay.testing.sessions.session_monitor import SessionMonitor
from callboard.replay.testing.sessions.world import SessionWorld
from callboard.replay.testing.world import Violation

GIVEN_UP: Final = "When an agent is stopped, every call in progress for it is given up."
RESUMED: Final = (
    "After a crash, cut-off model calls are charged, and write tools are `interrupted` if they had started."
)


class GivenUp(SessionMonitor):
    """Aborts."""

    name = "given-up"
    rule = GIVEN_UP

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Check that every call of a stopped agent is given up."""
        for request in world.requests.values():
            event, body = request.event, request.event.body
            owner = body.agent if isinstance(body, CallModel) else event.sender
            if event.seq not in world.aborted and world.gate.is_stopped(owner):
                return Violation(self.rule, at)
        return None


class Resumes(SessionMonitor):
    """Calls that were open in the log when a new process resumed it."""

    name = "resumes"
    rule = RESUMED

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Look once, right after a resume."""
        made = world.made[-1] if world.made else None
        if made is None or made.move.strand != "resume" or world.is_closed:
            return None
        found, added = world.log[: made.start], world.log[made.start :]
        answers = {
            event.cause: event for event in added if isinstance(event.body, ModelReplied | ToolReturned)
        }
        started = {event.cause for event in found if isinstance(event.body, ToolStarted)}
        cut = {_call_of(event) for event in found if getattr(event.body, "status", "") == "interrupted"}
        for request in _open_in(found):
            has_started, was_cut = request.seq in started, _call_of(request) in cut
            if not _is_settled(request, answers.get(request.seq), has_started, was_cut):
                return Violation(self.rule, at)
        for request in added:  # these are new and cannot have started
            answer = answers.get(request.seq)
            if answer is None or not isinstance(request.body, CallModel | CallTool):
                continue
            if getattr(answer.body, "status", "") != (
                "interrupted" if _call_of(request) in cut else "cancelled"
            ):
                return Violation(self.rule, at)
        return None


def _call_of(event: Event) -> tuple[str, int, int] | None:
    """Return the tool call that this event requests or answers; an interrupted call has several events."""
    body = event.body
    if isinstance(body, CallTool):
        return event.sender, body.turn, body.call
    return (event.recipient, body.turn, body.call) if isinstance(body, ToolReturned) else None


def _open_in(log: list[Event]) -> list[Event]:
    """Return the calls without an answer."""
    answered = {event.cause for event in log if isinstance(event.body, ModelReplied | ToolReturned)}
    calls = [event for event in log if isinstance(event.body, CallModel | CallTool)]
    return [event for event in calls if event.seq not in answered]


def _is_settled(request: Event, answer: Event | None, has_started: bool, was_cut: bool) -> bool:
    """Return whether an old call has the answer that a crash leaves.
    was_cut: the call was interrupted once before.
    """
    if isinstance(request.body, CallModel):
        reply = answer.body if answer is not None else None
        return (
            isinstance(reply, ModelReplied) and reply.usage is None and reply.status in ("lost", "cancelled")
        )
    status = answer.body.status if answer is not None and isinstance(answer.body, ToolReturned) else ""
    if has_started or (was_cut and status):
        return status == "interrupted"
    is_write = isinstance(request.body, CallTool) and request.body.effect == "write"
    return not (is_write and status == "interrupted")
