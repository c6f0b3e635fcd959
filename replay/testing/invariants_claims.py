"""What only a simulated world can show: calls given up, claims of ports, what a resume makes of open calls.

given up    whoever is stopped has what is under way for it given up
claims      no call is answered `cancelled` that had its effect
resumed     a model call that a crash cut off is charged, and a write tool that had started not run again
"""

from typing import Final

from callboard.actors.events import Event
from callboard.actors.messages import CallModel, CallTool, ModelReplied, ToolReturned, ToolStarted
from callboard.replay.testing.session_world import SessionWorld
from callboard.replay.testing.world import Violation

GIVEN_UP: Final = "When an agent is stopped, every call that is under way for it is given up."
CLAIMS: Final = "No call is answered `cancelled` that had its effect."
RESUMED: Final = "What a crash cut off is charged and interrupted, and never what had not started."


class _Watches:
    """A monitor that looks at a session after each step, or at rest."""

    def begin(self, steps: int) -> None:
        """Nothing to forget."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Nothing to see."""
        return None

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Nothing to see."""
        return None


class GivenUp(_Watches):
    """Aborts."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """The calls of those who were told to stop."""
        for request in world.requests.values():
            event, body = request.event, request.event.body
            owner = body.agent if isinstance(body, CallModel) else event.sender
            if event.seq not in world.aborted and world.desk.is_stopped(owner):
                return Violation(GIVEN_UP, at)
        return None


class Claims(_Watches):
    """Answers against effects."""

    def at_rest(self, world: SessionWorld, at: int) -> Violation | None:
        """Every answer that claims that nothing happened."""
        acted = {(one.address, one.turn, one.call) for one in world.effects if one.effect != "read"}
        for event in world.log:
            body = event.body
            if not isinstance(body, ToolReturned) or body.status != "cancelled":
                continue
            if (event.recipient, body.turn, body.call) in acted:
                return Violation(CLAIMS, at)
        return None


class Resumed(_Watches):
    """What was open in the log that a new process found."""

    def after(self, world: SessionWorld, at: int, fair_steps: int) -> Violation | None:
        """Look once, right after a resume."""
        made = world.made[-1] if world.made else None
        if made is None or made.move.chain != "resume" or world.is_closed:
            return None
        found, added = world.log[: made.start], world.log[made.start :]
        answers = {
            event.cause: event for event in added if isinstance(event.body, ModelReplied | ToolReturned)
        }
        started = {event.cause for event in found if isinstance(event.body, ToolStarted)}
        for request in _open_in(found):
            if not _is_settled(request, answers.get(request.seq), request.seq in started):
                return Violation(RESUMED, at)
        for request in added:  # these are new: nobody can have started them
            answer = answers.get(request.seq)
            if answer is None or not isinstance(request.body, CallModel | CallTool):
                continue
            if getattr(answer.body, "status", "") != "cancelled":
                return Violation(RESUMED, at)
        return None


def _open_in(log: list[Event]) -> list[Event]:
    """The calls without an answer."""
    answered = {event.cause for event in log if isinstance(event.body, ModelReplied | ToolReturned)}
    calls = [event for event in log if isinstance(event.body, CallModel | CallTool)]
    return [event for event in calls if event.seq not in answered]


def _is_settled(request: Event, answer: Event | None, has_started: bool) -> bool:
    """Whether an old call has the answer that a crash leaves."""
    if isinstance(request.body, CallModel):
        reply = answer.body if answer is not None else None
        return (
            isinstance(reply, ModelReplied) and reply.usage is None and reply.status in ("lost", "cancelled")
        )
    status = answer.body.status if answer is not None and isinstance(answer.body, ToolReturned) else ""
    if has_started:
        return status == "interrupted"
    is_write = isinstance(request.body, CallTool) and request.body.effect == "write"
    return not (is_write and status == "interrupted")


def world_rules() -> list[_Watches]:
    """All of them."""
    return [GivenUp(), Claims(), Resumed()]
