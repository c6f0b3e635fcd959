"""Ends that latch: how a program hears of an end that its code cannot avert.

A refusal for want of budget latches as the supervisor says (`DelegationEnded.latch`), and so does the first
question over `max_iterations`.

Rules
  - All open calls are given up, as at a return. Each has an answer in the last step of the program, so that a
    gather over them ends, and `except` and `finally` run.
  - Its answers say so (`ends`). Asks of that step are not posted. A text that it returns is kept as partial
    text.
  - A step that was out when the news came is not the last one, unless the program returned in it: a return
    that knew nothing of the news stands.
  - One question is one, with all its attempts. The turns of a brain and its questions count together.
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from callboard.actors.agent.content import ToolUse
from callboard.actors.agent.open_calls import hear
from callboard.actors.agent.program_state import End
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol import prompts
from callboard.actors.protocol.conversation import program_result, text_json
from callboard.actors.protocol.immutable import Json

SINCE_RULES: Final = 2
"""The first rules by which questions count."""

_DELEGATES: Final = frozenset({prompts.TASK, prompts.ASK_MODEL})


def with_questions(state: AgentState, uses: Iterable[ToolUse]) -> AgentState:
    """Count the questions of a step. One too many latches, and none of that step is asked."""
    program = state.program
    assert program is not None
    new = sum(use.spec is None and use.name == prompts.ASK_MODEL for use in uses)
    if not new or state.rules < SINCE_RULES or program.latch is not None:
        return state
    count, most = program.questions + new, program.questions_max
    program = replace(program, questions=count)
    if most is not None and count > most and state.model.is_program:
        program = replace(program, latch=End("iteration_cap", "max_iterations"))
    return replace(state, program=program)


def with_answers(state: AgentState, uses: Iterable[ToolUse]) -> AgentState:
    """Answer every open call of a program that has to end, and its new asks, which are not posted."""
    calls, program = state.calls, state.program
    assert program is not None
    coming = program.latch
    assert coming is not None
    for call in calls.open.values():
        if not call.is_given_up:
            is_unknown = call.stage == "tool" and call.use.spec is not None and call.use.spec.effect != "read"
            calls = hear(calls, _answer(call.use, coming, is_unknown=is_unknown))
    over = program.questions_max if coming.kind == "iteration_cap" else None
    for use in uses:
        calls = hear(calls, _answer(use, coming, over if use.name == prompts.ASK_MODEL else None))
    return replace(state, calls=calls)


def _answer(use: ToolUse, coming: End, most: int | None = None, *, is_unknown: bool = False) -> Json:
    """Build the answer to an ask.

    most: the most questions that may be put, if that is why it is not posted. is_unknown: it may take effect.
    """
    text = prompts.GIVEN_UP if most is None else prompts.no_questions_left(most)
    status = "interrupted" if is_unknown else given_up_status(use.name, coming.kind)
    return program_result(use.id, text_json(text), status, is_error=True, ends=coming.kind)


def given_up_status(name: str, kind: str) -> str:
    """Return the status of an answer to an ask that is not posted. name: of the tool. kind: of the end."""
    return kind if name in _DELEGATES else "cancelled"
