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
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from callboard.actors.agent import eager, latched
from callboard.actors.agent.calls import call_tool, delegated, request_for, settled_in
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.continued_calls import after_answer, note_effect, question_after
from callboard.actors.agent.eager import Eager, End, OpenCall, Stage
from callboard.actors.agent.labels import labelled, labels_of_result
from callboard.actors.agent.program_step import ProgramStep
from callboard.actors.agent.rights import call_refusal
from callboard.actors.agent.state import AgentState, has_turns_left, prefix_of
from callboard.actors.agent.tool_changes import set_tools
from callboard.actors.agent.turns import Decision, NewMessage, ask_turn, drain, finish, finish_invalid
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import APPROVALS, SUPERVISOR, TOOLS
from callboard.actors.protocol.conversation import program_result, text_json, user_message
from callboard.actors.protocol.endings import STATUS, OutcomeKind
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    CancelTask,
    DelegationEnded,
    ReportBack,
    ReportJudged,
    Wake,
    Woken,
)
from callboard.actors.protocol.port_messages import ApprovalGiven, CancelCall, ToolReturned, ToolStarted
from callboard.actors.protocol.value_types import Settled

_STAGES: Final[Mapping[str, Stage]] = MappingProxyType(
    {TOOLS: "tool", APPROVALS: "question", SUPERVISOR: "task"}
)
"""The place of a call, by the recipient of its request."""

_STUCK: Final = "it waits, and nothing that it asked for is under way"


def _books(state: AgentState) -> Eager:
    assert state.eager is not None
    return state.eager


# --- a step -----------------------------------------------------------------------


def take_step(state: AgentState, step: ProgramStep, uses: tuple[ToolUse, ...], settled: Settled) -> Decision:
    """Do what a step says: end the asks that it gave up, start the new ones, and set its deadline."""
    if state.needs_effect:
        return end(state, "needs_effect", settled, state.needs_effect)
    if step.failure is not None:
        return end(state, step.failure.kind, settled, step.failure.text)
    if step.is_last or _books(state).is_latched:
        return end(state, "answered", settled, last=step)
    state = latched.with_questions(state, uses)
    if not has_turns_left(state):  # no step could hear the answers, so nothing is asked
        return _at_cap(state, settled)
    posts: list[Post] = []
    if step.cancels:
        wanted = set(step.cancels)
        state = _give_up(state, lambda call: call.use.id in wanted, posts)
    if _books(state).latch is not None:
        return _wind_up(replace(state, phase="acting"), uses, posts, settled)
    for index, use in enumerate(uses):
        state = _start(state, index, use, posts)
    books = _books(state)
    if step.wake != books.wake:
        posts.append(Post(SUPERVISOR, Wake(step.wake)))
        state = replace(state, eager=replace(books, wake=step.wake))
    return _after_step(replace(state, phase="acting"), posts, settled)


def _after_step(state: AgentState, posts: list[Post], settled: Settled) -> Decision:
    """Settle the step. Ask for the next one if an answer is there already."""
    if _books(state).is_idle:
        state, ended = end(state, "crashed", settled, _STUCK)
        return state, (*posts, *ended)
    if not _books(state).heard.size:
        return state, settled_in(state, posts, settled)
    state, asked = _next_step(state, settled)
    return state, (*posts, *asked)


def _start(state: AgentState, index: int, use: ToolUse, posts: list[Post]) -> AgentState:
    """Open one new ask, and post its request unless it stands in line."""
    books = _books(state)
    request = request_for(state, prefix_of(state), index, use)
    if isinstance(request, str):
        block = program_result(use.id, text_json(request), "error", is_error=True)
        return replace(state, eager=eager.hear(books, block))
    stage, tools_out, questions = _STAGES[request.recipient], state.tools_out, state.questions
    if stage == "question":
        questions = questions.put(books.next_ticket, True)
    elif stage == "tool":
        if tools_out >= (state.limits.max_parallel_tools or 1):
            stage = "line"
        else:
            tools_out += 1
    if stage != "line":
        posts.append(request)
    use = delegated(use) if stage == "task" else use
    call = OpenCall(state.turn, index, use, books.next_ticket, stage)
    return replace(state, eager=eager.put(books, call), tools_out=tools_out, questions=questions)


def _give_up(state: AgentState, is_wanted: Callable[[OpenCall], bool], posts: list[Post]) -> AgentState:
    """End the calls that are wanted no more, where they are."""
    books = _books(state)
    for call in eager.open_calls(books):
        if call.is_given_up or not is_wanted(call):
            continue
        if call.stage == "line":
            books = eager.drop(books, call)
            continue
        books = eager.put(books, replace(call, is_given_up=True))
        posts.append(_cancel(call))
    return replace(state, eager=books)


def _cancel(call: OpenCall) -> Post:
    if call.stage == "task":
        return Post(SUPERVISOR, CancelTask(call.turn, call.call))
    return Post(TOOLS if call.stage == "tool" else APPROVALS, CancelCall(call.turn, call.call))


def _wind_up(
    state: AgentState, uses: tuple[ToolUse, ...], posts: list[Post], settled: Settled | None = None
) -> Decision:
    """Give up all calls of a program that has to end, and ask for its last step unless one is out.

    uses: its new asks, which are not posted.
    """
    state = latched.with_answers(state, uses)
    state = _give_up(state, lambda call: True, posts)
    if state.phase == "thinking":
        return state, tuple(posts)
    state, asked = _next_step(state, settled)
    return state, (*posts, *asked)


def _next_step(state: AgentState, settled: Settled | None = None) -> Decision:
    """Ask for the next step, with the answers that are there."""
    if state.needs_effect:
        return end(state, "needs_effect", settled, state.needs_effect)
    heard = tuple(_books(state).heard.values())
    state = replace(state, eager=replace(_books(state), heard=eager.EMPTY.heard))
    blocks = tuple(one.block for one in heard)
    if not blocks:
        return ask_turn(state, settled)
    # Not `results`: those would stand before the next prompt if the turn were taken back.
    seqs = tuple(one.seq for one in heard if one.seq)
    return ask_turn(state, settled, NewMessage(user_message(blocks), sum(map(len, blocks)), others=seqs))


def _at_cap(state: AgentState, settled: Settled) -> Decision:
    return end(state, "iteration_cap", settled, "max_steps" if state.model.is_program else "")


# --- answers ----------------------------------------------------------------------


def _on_tool(state: AgentState, seq: int, returned: ToolReturned) -> Decision:
    call = eager.find(_books(state), returned.turn, returned.call)
    if call is None or call.stage != "tool":
        return state, ()
    state = replace(state, tools_out=state.tools_out - 1)
    if _is_wanted(state, call):
        state = labelled(state, labels_of_result(call.use, returned))
    asked = question_after(state, returned, call.use, call.turn) if _is_wanted(state, call) else None
    if asked is not None:
        use, question = asked
        books = eager.put(_books(state), replace(call, use=use, stage="question"))
        state = replace(state, eager=books, questions=state.questions.put(call.ticket, True))
        state, posts = _go_on(state)
        return state, (question, *posts)
    state = note_effect(state, returned, call.use.name)
    status = "error" if returned.status == "input_required" else returned.status
    block = program_result(call.use.id, returned.output, status, is_error=status != "ok")
    change = returned.tools if status == "ok" else None
    state, told = set_tools(state, change) if change is not None and _is_wanted(state, call) else (state, ())
    state, posts = _deliver(state, call, block, seq)
    return state, told + posts


def _on_approval(state: AgentState, seq: int, given: ApprovalGiven) -> Decision:
    call = eager.find(_books(state), given.turn, given.call)
    if call is None or call.stage != "question":
        return state, ()
    state = replace(state, questions=state.questions.drop(call.ticket))
    if _is_wanted(state, call):
        state = labelled(state, given.labels)
    use = after_answer(call.use, given) if _is_wanted(state, call) else None
    if use is not None:
        books = eager.put(_books(state), replace(call, use=use, stage="line"))
        return _go_on(replace(state, eager=books))
    status = "denied" if given.verdict == "denied" else "cancelled"
    status = "interrupted" if given.is_repeat else status  # the effect of the first run stays unknown
    block = program_result(call.use.id, text_json(prompts.not_approved(given)), status, is_error=True)
    return _deliver(state, call, block, seq)


def _on_delegation(state: AgentState, seq: int, ended: DelegationEnded) -> Decision:
    call = eager.find(_books(state), ended.turn, ended.call)
    if call is None:
        return state, ()
    if _is_wanted(state, call):
        state = labelled(state, ended.labels)
    words, is_error = prompts.delegation_result(ended)
    status = ended.kind if is_error else "ok"
    text = ended.text if STATUS[ended.kind] != "ok" else ""
    coming = End("budget", ended.latch) if ended.latch and _is_wanted(state, call) else None
    block = program_result(
        call.use.id,
        text_json(words),
        status,
        is_error=is_error,
        value=ended.value,
        text=text,
        ends="" if coming is None else coming.kind,
    )
    if coming is not None:
        books = eager.hear(eager.drop(_books(state), call), block, seq)
        return _wind_up(replace(state, eager=replace(books, latch=coming)), (), [])
    return _deliver(state, call, block, seq)


def _is_wanted(state: AgentState, call: OpenCall) -> bool:
    """Return True if a call may go on: its agent runs and has not given it up."""
    return state.phase in ("thinking", "acting") and not call.is_given_up


def _deliver(state: AgentState, call: OpenCall, block: Json, seq: int) -> Decision:
    """Take the answer to a call, keep it for the next step unless the call was given up, and go on."""
    books = eager.drop(_books(state), call)
    if _is_wanted(state, call):
        books = eager.hear(books, block, seq)
    state = replace(state, eager=books)
    if state.phase == "stopping":
        return drain(state)
    if state.phase == "failed":
        return state, ()
    if books.end is not None:
        return (state, ()) if books.size else _conclude(state, books.end)
    return _go_on(state)


def _go_on(state: AgentState) -> Decision:
    """Start the next tool in line, and ask for the next step if there is an answer for it."""
    state, started = _start_from_line(state)
    if state.phase != "acting" or not _books(state).heard.size:
        return state, started
    state, asked = _next_step(state)
    return state, (*started, *asked)


def _start_from_line(state: AgentState) -> Decision:
    """Post the first call in line that is permitted, if a tool has a free place."""
    places = state.limits.max_parallel_tools or 1
    while (first := _books(state).line.first()) is not None and state.tools_out < places:
        call = first[1]
        if refusal := call_refusal(state, call.use):
            block = program_result(call.use.id, text_json(refusal), "error", is_error=True)
            state = replace(state, eager=eager.hear(eager.drop(_books(state), call), block))
            continue
        books = eager.put(_books(state), replace(call, stage="tool"))
        state = replace(state, eager=books, tools_out=state.tools_out + 1)
        return state, (call_tool(state, call.call, call.use, call.turn),)
    return state, ()


def _on_woken(state: AgentState, seq: int, woken: Woken) -> Decision:
    books = _books(state)
    if books.wake != woken.until:
        return state, ()
    state = replace(state, eager=replace(books, wake=None))
    # A step that is out sees by its own time that the deadline is over, or sets it again.
    return (state, ()) if state.phase == "thinking" else _next_step(state)


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
    if state.eager is None:
        return finish(state, kind, settled, detail)
    posts: list[Post] = []
    state = _give_up(state, lambda call: True, posts)
    coming = End(kind, detail, last)
    if kind != "needs_effect" and _books(state).is_latched:
        coming = _books(state).latch or coming
    books = replace(_books(state), end=coming, heard=eager.EMPTY.heard, wake=None)
    state = replace(state, phase="acting", eager=books)
    if not books.size:
        return _conclude(state, coming, settled)
    return state, tuple(posts) if settled is None else settled_in(state, posts, settled)


def _conclude(state: AgentState, coming: End, settled: Settled | None = None) -> Decision:
    """Report what a program returned, if it owes a report, or finish."""
    last = coming.last
    if last is None or not prefix_of(state).reports:
        return finish(state, coming.kind, settled, coming.detail, last.value if last else NULL)
    report = Post(SUPERVISOR, ReportBack(state.turn, 0, last.report, settled))
    return replace(state, phase="judging"), (report,)


def _on_judged(state: AgentState, seq: int, judged: ReportJudged) -> Decision:
    if judged.turn != state.turn or judged.verdict == "late":  # then its `Stop` is on the way
        return state, ()
    if judged.verdict == "accepted":
        return finish(replace(state, is_accepted=True), "reported")
    return finish_invalid(replace(state, report_attempts=1, report_problems=judged.problems))


OF_PROGRAMS: Final[Mapping[type, Callable[[AgentState, int, Any], Decision]]] = MappingProxyType(
    {
        ToolStarted: lambda state, seq, started: (state, ()),
        ToolReturned: _on_tool,
        ApprovalGiven: _on_approval,
        DelegationEnded: _on_delegation,
        ReportJudged: _on_judged,
        Woken: _on_woken,
    }
)
"""The handling of each kind of message that an agent with eager turns handles in its own way."""
