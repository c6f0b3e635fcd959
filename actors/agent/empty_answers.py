"""Empty answers: a last word with nothing in it but thoughts is no success.

Rules
  - An agent has answered if it has said more than thoughts, a call included, since the last message to it
    that was not a tool result. A message that only delivers words asks for no further answer.
  - The last words before that are its answer, as where it gave them beside a call and then fell silent.
  - An empty last word is asked for once more: the same request to the same model, as the next attempt of the
    turn, which is charged and counted as any. It needs no further turn, and no other model is asked, since an
    empty answer has no kind of failure.
  - If that is empty too, or no attempt is left, the agent ends as `empty`.
  - An agent that owes a report is told to report instead, and one with tasks or unheard words goes on with
    those. The answer of a program is its returned value, also if that is an empty text.
"""

from msgspec.structs import replace

from callboard.actors.agent.content import is_paused
from callboard.actors.agent.failed_calls import ask_again, attempts_made
from callboard.actors.agent.state import AgentState, has_turns_left, prefix_of
from callboard.actors.agent.turns import Decision, finish
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.value_types import Settled

SINCE_RULES = 2
"""The first rules by which an empty last word is no answer. Before, it was one, as `(no summary)`."""


def is_unanswered(state: AgentState) -> bool:
    """Return True if an agent that falls silent, and has no tasks, has given no answer."""
    return not state.has_spoken and state.rules >= SINCE_RULES and not state.background.tasks.size


def may_ask_again_after(state: AgentState, reply: ModelReplied) -> bool:
    """Return True if this empty reply would be the agent's last word, and is to be asked for once more."""
    if not is_unanswered(state) or prefix_of(state).reports:
        return False
    if state.background.words.size and has_turns_left(state):
        return False
    if state.empty_turn == state.turn or is_paused(reply.stop_reason, state.rules):
        return False
    return attempts_made(state) < (state.limits.max_model_attempts or 1)


def ask_again_after_empty(state: AgentState, settled: Settled) -> Decision:
    """Ask for the same turn again, at once."""
    return ask_again(replace(state, empty_turn=state.turn), Settled(settled.usage), 0)


def finish_empty(state: AgentState, settled: Settled, detail: str) -> Decision:
    """End an agent that has given no answer, with its earlier text as partial work."""
    return finish(state if state.text.strip() else replace(state, text=""), "empty", settled, detail)
