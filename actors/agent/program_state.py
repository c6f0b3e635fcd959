"""The state of an agent with eager turns, a program, beside its open calls."""

from typing import Final

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.open_calls import OpenCalls
from callboard.actors.agent.program_step import ProgramStep
from callboard.actors.agent.whole_requests import Kept
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.profiles import Profile


class End(msgspec.Struct, frozen=True, gc=False):
    """The end of an agent whose calls still drain. last: the step in which a program returned, if it did."""

    kind: OutcomeKind
    detail: str = ""
    last: ProgramStep | None = None


class ProgramState(msgspec.Struct, frozen=True, gc=False):
    """The state of an agent with eager turns that no other agent has.

    wake: the deadline that the supervisor knows of, None for none.
    end: how the agent ends once its open calls have drained; None while it goes on.
    latch: the end that its code cannot avert, once a step has heard of it; None without one.
    questions: those put to models. questions_max: the most of a program, None for no limit.
    requests: those of its questions that carry a whole one.
    is_direct: True if the latest step was asked for without the supervisor, so that no grant tells of it.
    """

    wake: int | None = None
    end: End | None = None
    latch: End | None = None
    questions: int = 0
    questions_max: int | None = None
    requests: Kept = ()
    is_direct: bool = False

    def is_latched(self, calls: OpenCalls) -> bool:
        """Return True if the latest step has heard that its program ends, so that it is the last one."""
        # Answers without a step are those that bring the news.
        return self.latch is not None and not calls.answers.size

    def is_stuck(self, calls: OpenCalls) -> bool:
        """Return True if nothing can happen any more that the agent waits for."""
        return calls.open.size == calls.given_up and self.wake is None and not calls.answers.size


BEGUN: Final = ProgramState()


def program_of(begin: Begin, profile: Profile) -> ProgramState | None:
    """Return the state with which a program begins; None for an agent whose turns wait for all calls."""
    if not profile.is_eager:
        return None
    return replace(BEGUN, questions_max=begin.limits.max_iterations) if begin.bounds_questions else BEGUN
