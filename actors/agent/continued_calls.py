"""Calls that are not over with the answer of their tool: a person is asked, and the call goes on.

An interrupted call may run again. A call that asks for input goes on with its next round, which has the
values that a person gave, or tells the tool that there are none. Both are questions like any other. A call
has at most INPUT_ROUNDS_MAX such rounds; what its tool says then is its result.
"""

import msgspec
from msgspec.structs import replace

from callboard.actors.agent.calls import question_about
from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import OpenCall, find
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import APPROVALS
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval, ToolReturned
from callboard.actors.protocol.value_types import INPUT_ROUNDS_MAX, InputAction, InputAsked, InputGiven


def question_after(state: AgentState, call: OpenCall, returned: ToolReturned) -> tuple[OpenCall, Post] | None:
    """Return the call as it goes on, and the question that its answer leads to; None if it leads to none."""
    if returned.status == "input_required":
        return _ask_for_input(state, call, returned.asked)
    question = _ask_to_repeat(state, call) if returned.status == "interrupted" else None
    return (replace(call, stage="question"), question) if question is not None else None


def _ask_for_input(
    state: AgentState, call: OpenCall, asked: InputAsked | None
) -> tuple[OpenCall, Post] | None:
    use, rounds = call.use, call.use.given.round if call.use.given else 0
    if asked is None or rounds >= INPUT_ROUNDS_MAX:
        return None
    use = replace(use, asked=asked, given=InputGiven(rounds + 1, NULL, asked.kept))
    call = replace(call, use=use, stage="question")
    question = question_about(state, call)
    assert isinstance(question.body, RequestApproval)
    return call, Post(APPROVALS, replace(question.body, round=rounds + 1, form=asked.forms))


def after_answer(use: ToolUse, given: ApprovalGiven) -> ToolUse | None:
    """Return a call as it goes on after the answer of a person; None if the answer ends it."""
    if given.verdict == "approved":
        use = use if given.arguments == NULL else replace(use, input=given.arguments)
        return _with_input(use, given)
    return _without_input(use, given) if given.verdict == "denied" else None


def _with_input(use: ToolUse, given: ApprovalGiven) -> ToolUse:
    if use.given is None or given.round != use.given.round:
        return use
    return replace(use, given=replace(use.given, values=given.values), declined="")


def _without_input(use: ToolUse, given: ApprovalGiven) -> ToolUse | None:
    """Return a call whose tool is told that a person did not fill in its forms; None for another question."""
    if use.asked is None or use.given is None or given.round != use.given.round:
        return None
    forms = msgspec.json.decode(use.asked.forms, type=dict[str, msgspec.Raw])
    nothing = Json(msgspec.json.encode(dict.fromkeys(forms)))
    action: InputAction = "decline" if given.digest else "cancel"  # without a digest no person saw it
    told = replace(use.given, values=nothing, action=action)
    return replace(use, given=told, declined=prompts.not_approved(given))


def _ask_to_repeat(state: AgentState, call: OpenCall) -> Post | None:
    """Return the question if an interrupted call may run again; None if its tool wants no such question."""
    if call.use.spec is None or call.use.spec.approval not in ("interrupted", "always"):
        return None
    return question_about(state, call, is_repeat=True)


def asked_of(state: AgentState, turn: int, call: int) -> InputAsked | None:
    """Return the input that an open call has asked for last; None for none."""
    found = find(state.calls, turn, call)
    return found.use.asked if found is not None else None


def note_effect(state: AgentState, returned: ToolReturned, tool: str) -> AgentState:
    """Note a call that a fork does not run: its agent ends with it."""
    if returned.status != "needs_effect" or state.needs_effect:
        return state
    place = f"call {returned.call} of turn {returned.turn}, {tool}, has an effect and no recorded result"
    same = f"; event {returned.same} of the recording is the result of the same call" if returned.same else ""
    return replace(state, needs_effect=place + same)
