"""The decisions of an agent with eager turns: a program, whose replies are steps.

    1  The agent asks for a step, as any agent asks for a turn. The reply is the step: new asks, asks that it
       gives up, and its earliest deadline.
    2  The first answer, or the deadline, makes the agent ask for the next step. Answers that come while a
       step is out go with the next one.
    3  The last step says what the program returned. The agent gives up every open call, waits until these
       have drained, and posts its `ReportBack` or `Finished`.

Rules
  - A call that is given up is ended where it is: `CancelCall` to a port, `CancelTask` to the supervisor. One
    that stands in line is dropped. The answer is counted and not delivered.
  - A deadline is one `Wake`. A `Woken` of an earlier deadline changes nothing.
  - However it ends by itself, by a return, a failure or a limit, it first drains as in 3. A stopped one
    drains as any agent does.
  - A program that waits while nothing of it is under way would wait forever. It ends as `crashed`.
  - An end that latches (`latched.py`) has one more step, in which the code of the program hears of it.
  - A step reserves nothing, so no message settles it, from rules 2 on: a step that calls a tool posts the
    call alone. A step with a text settles it, which is the program's answer if it is stopped while it drains.
"""

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from callboard.actors.agent import latched
from callboard.actors.agent.calls import open_calls, settled_in
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import OpenCall, drop, in_order, put, without_answers
from callboard.actors.agent.program_state import End, ProgramState
from callboard.actors.agent.program_step import ProgramStep
from callboard.actors.agent.state import AgentState, has_turns_left, prefix_of
from callboard.actors.agent.turns import Decision, NewMessage, ask_turn, finish, finish_invalid
from callboard.actors.agent.whole_requests import with_requests
from callboard.actors.protocol.addresses import APPROVALS, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import user_message
from callboard.actors.protocol.endings import OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import CancelTask, ReportBack, ReportJudged, Wake, Woken
from callboard.actors.protocol.port_messages import CancelCall
from callboard.actors.protocol.value_types import Settled

UNSETTLED_SINCE: Final = 2
"""The rules from which on the step of a program without a text is not settled."""

_STUCK: Final = "it waits, and nothing that it asked for is under way"


def _program(state: AgentState) -> ProgramState:
    assert state.program is not None
    return state.program


# --- a step -----------------------------------------------------------------------


def take_step(state: AgentState, step: ProgramStep, uses: tuple[ToolUse, ...], stated: Settled) -> Decision:
    """Do what a step says: end the asks that it gave up, start the new ones, and set its deadline.

    stated: the end of its grant.
    """
    is_free = state.model.is_free and not stated.text and state.rules >= UNSETTLED_SINCE
    settled = None if is_free else stated
    if state.needs_effect:
        return end(state, "needs_effect", settled, state.needs_effect)
    if step.failure is not None:
        return end(state, step.failure.kind, settled, step.failure.text)
    if step.is_last or _program(state).is_latched(state.calls):
        return end(state, "answered", settled, last=step)
    state = latched.with_questions(state, uses)
    program = _program(state)
    requests = with_requests(program.requests, state.calls, state.turn, uses)
    if requests is not program.requests:
        state = replace(state, program=replace(program, requests=requests))
    if not has_turns_left(state):  # no step could hear the answers, so nothing is asked
        return end(state, "iteration_cap", settled, "max_steps" if state.model.is_program else "")
    posts: list[Post] = []
    if step.cancels:
        wanted = set(step.cancels)
        state = _give_up(state, lambda call: call.use.id in wanted, posts)
    if _program(state).latch is not None:
        return wind_up(replace(state, phase="acting"), uses, posts, settled)
    state, opened = open_calls(state, uses)
    posts += opened
    program = _program(state)
    if step.wake != program.wake:
        posts.append(Post(SUPERVISOR, Wake(step.wake)))
        state = replace(state, program=replace(program, wake=step.wake))
    return _after_step(state, posts, settled)


def _after_step(state: AgentState, posts: list[Post], settled: Settled | None) -> Decision:
    """Settle the step, if it has to be. Ask for the next one if an answer is there already."""
    if _program(state).is_stuck(state.calls):
        state, ended = end(state, "crashed", settled, _STUCK)
        return state, (*posts, *ended)
    if not state.calls.answers.size:
        return state, _with_settlement(state, posts, settled)
    state, asked = next_step(state, settled)
    return state, (*posts, *asked)


def _with_settlement(state: AgentState, posts: list[Post], settled: Settled | None) -> tuple[Post, ...]:
    return tuple(posts) if settled is None else settled_in(state, posts, settled)


def _give_up(state: AgentState, is_wanted: Callable[[OpenCall], bool], posts: list[Post]) -> AgentState:
    """End the calls that are wanted no more, where they are."""
    calls = state.calls
    for call in calls.open.values():
        if call.is_given_up or not is_wanted(call):
            continue
        if call.stage == "line":
            calls = drop(calls, call)
            continue
        calls = put(calls, replace(call, is_given_up=True))
        posts.append(_cancel(call))
    return replace(state, calls=calls)


def _cancel(call: OpenCall) -> Post:
    if call.stage == "task":
        return Post(SUPERVISOR, CancelTask(call.turn, call.call))
    return Post(TOOLS if call.stage == "tool" else APPROVALS, CancelCall(call.turn, call.call))


def wind_up(
    state: AgentState, uses: tuple[ToolUse, ...], posts: list[Post], settled: Settled | None = None
) -> Decision:
    """Give up all calls of a program that has to end, and ask for its last step unless one is out.

    uses: its new asks, which are not posted.
    """
    state = latched.with_answers(state, uses)
    state = _give_up(state, lambda call: True, posts)
    if state.phase == "thinking":
        return state, tuple(posts)
    state, asked = next_step(state, settled)
    return state, (*posts, *asked)


def next_step(state: AgentState, settled: Settled | None = None) -> Decision:
    """Ask for the next step, with the answers that are there."""
    if state.needs_effect:
        return end(state, "needs_effect", settled, state.needs_effect)
    blocks, seqs = in_order(state.calls.answers)
    if not blocks:
        return ask_turn(state, settled)
    # Not as `answers`: those would stand before the next prompt if the turn were taken back.
    return ask_turn(state, settled, NewMessage(user_message(blocks), sum(map(len, blocks)), names=seqs))


def on_woken(state: AgentState, seq: int, woken: Woken) -> Decision:
    """Ask for the next step of a program whose deadline has come."""
    program = state.program
    if program is None or program.wake != woken.until:
        return state, ()
    state = replace(state, program=replace(program, wake=None))
    # A step that is out sees by its own time that the deadline is over, or sets it again.
    return (state, ()) if state.phase == "thinking" else next_step(state)


# --- the end ----------------------------------------------------------------------


def end(
    state: AgentState,
    kind: OutcomeKind,
    settled: Settled | None = None,
    detail: str = "",
    last: ProgramStep | None = None,
) -> Decision:
    """End an agent, once the calls that it has open have drained.

    last: the step in which a program returned; None if it did not.
    """
    if state.program is None:
        return finish(state, kind, settled, detail)
    posts: list[Post] = []
    state = _give_up(state, lambda call: True, posts)
    coming, program = End(kind, detail, last), _program(state)
    if kind != "needs_effect" and program.is_latched(state.calls):
        coming = program.latch or coming
    state = replace(
        state,
        phase="acting",
        calls=without_answers(state.calls),
        program=replace(program, end=coming, wake=None),
    )
    if not state.calls.open.size:
        return conclude(state, coming, settled)
    return state, _with_settlement(state, posts, settled)


def conclude(state: AgentState, coming: End, settled: Settled | None = None) -> Decision:
    """Report what a program returned, if it owes a report, or finish."""
    last = coming.last
    if last is None or not prefix_of(state).reports:
        return finish(state, coming.kind, settled, coming.detail, last.value if last else NULL)
    report = Post(SUPERVISOR, ReportBack(turn=state.turn, call=0, value=last.report, settled=settled))
    return replace(state, phase="judging"), (report,)


def take_judgement(state: AgentState, judged: ReportJudged) -> Decision:
    """End a program with the judgement of its return value."""
    if state.phase != "judging" or judged.turn != state.turn or judged.verdict == "late":
        return state, ()  # after a late one its `Stop` is on the way
    if judged.verdict == "accepted":
        return finish(replace(state, is_accepted=True), "reported")
    return finish_invalid(replace(state, report_attempts=1, report_problems=judged.problems))
