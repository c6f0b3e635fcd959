"""Mutants of ends: empty last words, refusals that latch, bounded questions.

The sessions of `scenarios_endings` find them.
"""

from typing import Final

from tests.mutants.mutant import Mutant

SILENCE: Final = (
    Mutant(
        "empty-is-an-answer",
        "An agent that has said nothing ends as answered.",
        "agent.empty_answers",
        "    return not state.has_spoken and state.rules >= SINCE_RULES",
        "    return False and state.rules >= SINCE_RULES",
    ),
    Mutant(
        "empty-without-another-attempt",
        "The first empty answer ends the agent.",
        "agent.empty_answers",
        "    if state.empty_turn == state.turn or is_paused(reply.stop_reason, state.rules):\n",
        "    if state.turn:\n",
    ),
    Mutant(
        "empty-asked-for-again-and-again",
        "An empty answer is asked for until no attempt is left.",
        "agent.empty_answers",
        "    if state.empty_turn == state.turn or is_paused(reply.stop_reason, state.rules):\n",
        "    if is_paused(reply.stop_reason, state.rules):\n",
    ),
    Mutant(
        "work-is-no-answer",
        "An agent that has worked and says nothing ends as empty.",
        "agent.decider",
        "        has_spoken=state.has_spoken or not said.is_empty,\n",
        "        has_spoken=bool(said.text),\n",
    ),
    Mutant(
        "thoughts-are-an-answer",
        "An answer of thoughts alone is an answer.",
        "agent.content",
        "            is_thought_only = is_thought_only and kind in THOUGHTS\n",
        "            is_thought_only = False\n",
    ),
    Mutant(
        "words-ask-for-an-answer",
        "An agent that has answered ends as empty if it says nothing to words that reach it.",
        "agent.turns",
        "    has_spoken = state.has_spoken and not results\n",
        "    has_spoken = False\n",
    ),
)

LATCHES: Final = (
    Mutant(
        "refusal-does-not-latch",
        "The code of a program makes an answer of a refusal.",
        "supervisor.latching",
        "    if work.state.rules < SINCE_RULES:\n",
        "    if work.state.rules:\n",
    ),
    Mutant(
        "refusal-latches-while-a-model-fits",
        "A program ends by a refusal although a smaller model fits.",
        "supervisor.latching",
        '        if fits(ancestry, need)[0] != "never":\n',
        "        if not need:\n",
    ),
    Mutant(
        "latched-goes-on",
        "A program that has to end goes on with its asks.",
        "agent.program",
        "    if step.is_last or _program(state).is_latched(state.calls):\n",
        "    if step.is_last:\n",
    ),
    Mutant(
        "latched-asks-are-posted",
        "A step that was out when a refusal latched has its asks posted.",
        "agent.program",
        "    if _program(state).latch is not None:\n        return wind_up",
        "    if _program(state).latch is not None and not uses:\n        return wind_up",
    ),
    Mutant(
        "latched-ends-as-its-code-says",
        "A program that was refused a budget ends as its code says.",
        "agent.program",
        '    if kind != "needs_effect" and program.is_latched(state.calls):\n',
        "    if False:\n",
    ),
    Mutant(
        "questions-not-counted",
        "The questions of a program are not bounded.",
        "agent.latched",
        "    count, most = program.questions + new, program.questions_max\n",
        "    count, most = program.questions, program.questions_max\n",
    ),
    Mutant(
        "questions-one-too-many",
        "A program puts one question more than it may.",
        "agent.latched",
        "count > most and state.model.is_program:\n",
        "count > most + 1 and state.model.is_program:\n",
    ),
    Mutant(
        "questions-bound-from-above",
        "The limit of the session bounds the questions of a program.",
        "supervisor.latching",
        "    return profile.limits.max_iterations is not None or asked.max_iterations is not None\n",
        "    return True\n",
    ),
    Mutant(
        "brain-questions-are-free",
        "The questions of a brain do not count as its turns do.",
        "agent.state",
        "    return (state.limits.max_iterations or 0) - state.turns_used - asked\n",
        "    return (state.limits.max_iterations or 0) - state.turns_used\n",
    ),
)

CANCELS: Final = (
    Mutant(
        "cancel-of-the-ask-instead",
        "A cancel of one agent cancels the ask.",
        "supervisor.asks",
        '    if cancel.address in ("", HOST):\n',
        "    if True:\n",
    ),
    Mutant(
        "cancel-leaves-what-is-below",
        "A cancelled agent ends, and those below it go on.",
        "supervisor.asks",
        '        end_agent(work, cancel.address, "cancelled", cancel.reason)\n',
        '        stop_one(work, cancel.address, "cancelled")\n',
    ),
    Mutant(
        "cancel-spares-the-agent",
        "A cancel of one agent ends those below it, and the agent goes on.",
        "supervisor.asks",
        '        end_agent(work, cancel.address, "cancelled", cancel.reason)\n',
        "        stop_below(work, cancel.address)\n",
    ),
    Mutant(
        "cancel-of-the-first-levels",
        "An agent below a sub-agent is not cancelled.",
        "supervisor.asks",
        "    elif names_agent(cancel.address):\n",
        '    elif names_agent(cancel.address) and cancel.address.count(".") < 2:\n',
    ),
)
