"""Work in the background, and words: an agent's part of both.

Rules
  - An agent that falls silent while its tasks run is parked: it holds no slot, no reservation and no request.
    The end of the last task wakes it for one turn with all words, so that the result does not depend on which
    task was faster. An agent that wants the first end calls `task_wait` with `any`.
  - Silence with unheard ends and no running task takes a turn for them.
  - Without a turn left, nothing is waited for. With `on_finish="cancel"` silence is the end.
  - Words of a client wake a parked agent only if two turns are left: one for them, one for the ends. As the
    last words of an agent that owes no report, they take a turn if one is left. If the budget refuses it, the
    agent ends with the answer that it had.
"""

from typing import TypeAlias

from msgspec.structs import replace

from callboard.actors.agent import tasks
from callboard.actors.agent.calls import answered
from callboard.actors.agent.empty_answers import is_unanswered
from callboard.actors.agent.open_calls import OpenCall, put
from callboard.actors.agent.rights import labelled
from callboard.actors.agent.state import AgentState, closing_need, has_turns_left, prefix_of, turns_left
from callboard.actors.agent.tasks import Task, Unheard
from callboard.actors.agent.turns import Decision, ask_new_turn, finish
from callboard.actors.agent.waiting import answer_waits, is_due, waits_of
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.conversation import text_block, text_json, tool_result
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.messages import Delegated, DelegationEnded, Told, TurnSettled
from callboard.actors.protocol.value_types import Settled

MaybeDecision: TypeAlias = Decision | None


def take_start(state: AgentState, call: OpenCall, seq: int, start: Delegated) -> AgentState:
    """Record the start of a task, which answers its call. Calls that wait for every task wait for it, too."""
    ordinal, task = tasks.ordinal_of(state.address, start.address), Task(start.turn, start.call)
    block = tool_result(call.use.id, text_json(prompts.started(start.address)), is_error=False)
    state = answered(state, call, block, seq)
    calls, background = state.calls, state.background
    for one, wait in waits_of(calls):
        if wait.is_every:
            calls = put(calls, replace(one, wait=replace(wait, left=wait.left.put(ordinal, task))))
    background = replace(background, tasks=background.tasks.put(ordinal, task))
    return replace(state, calls=calls, background=background)


def take_refusal(state: AgentState) -> AgentState:
    """Answer the calls that have waited for the start of a task, which was refused."""
    return answer_waits(state, [call for call, wait in waits_of(state.calls) if is_due(state.calls, wait)])


def take_end(state: AgentState, seq: int, end: DelegationEnded) -> AgentState:
    """Let the end of a task become words. An end of another delegation changes nothing."""
    ordinal, background = tasks.ordinal_of(state.address, end.address), state.background
    if background.tasks.get(ordinal) != Task(end.turn, end.call):
        return state
    calls, due = state.calls, []
    for call, wait in waits_of(calls):
        if wait.left.get(ordinal) is None:
            continue
        wait = replace(wait, left=wait.left.drop(ordinal))
        calls = put(calls, replace(call, wait=wait))
        if wait.is_any or is_due(calls, wait):
            due.append(call)
    background = replace(background, tasks=background.tasks.drop(ordinal))
    word = Unheard(text_block(prompts.task_ended(end)), seq)
    state = replace(labelled(state, end.labels), calls=calls, background=tasks.with_word(background, word))
    return answer_waits(state, due)


def take_told(state: AgentState, seq: int, told: Told) -> AgentState:
    """Keep a client's words for the next new request, and answer every open `task_wait`."""
    word = Unheard(text_block(prompts.told(told.text)), seq, told.number)
    due = [call for call, wait in waits_of(state.calls) if not wait.is_cancel]
    background = tasks.with_word(state.background, word)
    return answer_waits(replace(labelled(state, told.labels), background=background), due)


def wake_if_due(state: AgentState) -> Decision:
    """Ask for a turn of a parked agent if its words wake it."""
    if state.background.tasks.size and not _can_hear_now(state):
        return state, ()
    return ask_new_turn(state)


def _can_hear_now(state: AgentState) -> bool:
    """Return True if words of a client need not wait for the ends of tasks, which have another turn."""
    return state.background.has_tells and turns_left(state) > 1


def after_silence(state: AgentState, settled: Settled) -> MaybeDecision:
    """Wait for tasks, or take a turn for words, after a reply without calls. None: the silence is the end."""
    background = state.background
    if _has_tasks(state):
        return _wait(state, settled)
    if prefix_of(state).reports or not background.words.size or not has_turns_left(state):
        return None
    if not background.has_tells:
        return None
    return ask_new_turn(state, settled, otherwise="" if is_unanswered(state) else "answered")


def _has_tasks(state: AgentState) -> bool:
    """Return True if tasks run, or have ended unheard, and the agent's last word waits for them."""
    background = state.background
    return prefix_of(state).profile.on_finish == "wait" and bool(background.tasks.size or background.has_ends)


def _wait(state: AgentState, settled: Settled) -> Decision:
    if not has_turns_left(state):
        return finish(state, "no_report" if prefix_of(state).reports else "iteration_cap", settled)
    if not state.background.tasks.size or _can_hear_now(state):
        return ask_new_turn(state, settled)
    end = TurnSettled(settled.usage, settled.text, closing_need(state, state.context_tokens))
    return replace(state, phase="parked"), (Post(SUPERVISOR, end),)
