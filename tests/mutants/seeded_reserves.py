"""Mutants of the rooms for results and of turns that are taken back."""

from typing import Final

from tests.mutants.mutant import Mutant

ROOMS: Final = (
    Mutant(
        "room-of-one-child",
        "The children of a reply leave room for the last result only.",
        "supervisor.reserving",
        "    kept = replace(ancestry[-1].kept, turn=request.closing)\n    if",
        "    kept = replace(ancestry[-1].kept, turn=request.closing, results=NOTHING)\n    if",
    ),
    Mutant(
        "no-room-for-results",
        "Children leave their parent's next turn, and no room for their results.",
        "supervisor.reserving",
        'return kept.plus("results", result), NOTHING',
        "return kept, NOTHING",
    ),
    Mutant(
        "room-of-all-that-is-left",
        "A result may take the whole budget that is left, not a quarter of it.",
        "supervisor.reserving",
        "PARTS: Final = 4",
        "PARTS: Final = 1",
    ),
    Mutant(
        "room-not-divided",
        "Each result of a reply may take a quarter of the budget that is left.",
        "supervisor.reserving",
        "left // (PARTS * request.delegations)",
        "left // PARTS",
    ),
    Mutant(
        "room-without-a-floor",
        "A room may be smaller than 500 bytes.",
        "supervisor.reserving",
        "max(RESULT_BYTES_MIN, left // ",
        "max(0, left // ",
    ),
    Mutant(
        "reserves-above-not-kept",
        "The room of a result counts what the agents above have reserved as left.",
        "supervisor.budgets",
        "            kept = add(kept, record.kept.total)\n        yield",
        "            kept = kept\n        yield",
    ),
    Mutant(
        "room-given-back-late",
        "The room for results is kept after the turn that it was left for.",
        "supervisor.reserve",
        '"results": "turn"',
        '"results": "given back"',
    ),
    Mutant(
        "result-not-cut",
        "A parent reads the whole of an answer that is longer than its room.",
        "protocol.prompts",
        "(cut_to(text, end.room) if end.room else text)",
        "text",
    ),
    Mutant(
        "cut-in-characters",
        "A result is cut to so many characters, which may take more bytes.",
        "protocol.folded_results",
        "key=lambda chars: json_bytes(text[:chars]))",
        "key=lambda chars: chars)",
    ),
    Mutant(
        "room-of-the-end-forgotten",
        "An end does not state the room that its parent has for it.",
        "supervisor.ending",
        "        room=delegation.room,\n        labels=labels,\n        problems=problems,\n    )",
        "        labels=labels,\n        problems=problems,\n    )",
    ),
)

TAKING_BACK: Final = (
    Mutant(
        "never-taken-back",
        "The message of a turn that was never granted stays in the conversation.",
        "agent.decider",
        "    if may_be_out and state.attempt == 1 and not is_model_out:\n",
        "    if False:\n",
    ),
    Mutant(
        "retries-taken-back",
        "A retry that was not granted takes back a message that the model has read.",
        "agent.decider",
        "    if may_be_out and state.attempt == 1 and not is_model_out:\n",
        "    if may_be_out and not is_model_out:\n",
    ),
    Mutant(
        "granted-turns-taken-back",
        "A stop takes back the message of a turn whose model call is in flight.",
        "agent.decider",
        "    if may_be_out and state.attempt == 1 and not is_model_out:\n",
        "    if may_be_out and state.attempt == 1:\n",
    ),
    Mutant(
        "results-not-carried",
        "The results of a turn that is taken back are forgotten.",
        "agent.turns",
        "        calls=replace(state.calls, answers=unsent.answers),\n",
        "",
    ),
    Mutant(
        "names-not-taken-back",
        "The events of a turn that is taken back are named in no later request.",
        "agent.turns",
        "        fresh=unsent.fresh,\n",
        "",
    ),
    Mutant(
        "prompt-named-again",
        "The next request names the prompt of a turn that was taken back.",
        "agent.turns",
        "    state = _thinking(state, history, digest, tokens, turn, unsent, fallback)\n",
        "    unsent = replace(unsent, fresh=unsent.fresh + (() if unsent.answers.size else names[-1:]))\n"
        "    state = _thinking(state, history, digest, tokens, turn, unsent, fallback)\n",
    ),
)
