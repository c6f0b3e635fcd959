"""Mutants of calls that ask a person for input."""

from typing import Final

from tests.mutants.mutant import Mutant

INPUT: Final = (
    Mutant(
        "values-of-another-round",
        "A call goes on without the values that a person gave.",
        "agent.continued_calls",
        'return replace(use, given=replace(use.given, values=given.values), declined="")',
        "return use",
    ),
    Mutant(
        "declined-forms-not-told",
        "A tool is not told that a person gave it no input.",
        "agent.continued_calls",
        'return _without_input(use, given) if given.verdict == "denied" else None',
        "return None",
    ),
    Mutant(
        "declined-as-accepted",
        "A tool is told that a person has accepted an empty form.",
        "agent.continued_calls",
        "values=nothing, action=action)",
        "values=nothing)",
    ),
    Mutant(
        "rounds-without-end",
        "A call may ask for input for ever.",
        "agent.continued_calls",
        "if asked is None or rounds >= INPUT_ROUNDS_MAX:",
        "if asked is None:",
    ),
    Mutant(
        "state-of-the-tool-forgotten",
        "A later round does not get the tool's own note of the call.",
        "agent.continued_calls",
        "InputGiven(rounds + 1, NULL, asked.kept)",
        "InputGiven(rounds + 1, NULL)",
    ),
    Mutant(
        "state-of-the-first-round",
        "A later round gets the note of the round before.",
        "agent.continued_calls",
        "InputGiven(rounds + 1, NULL, asked.kept)",
        "InputGiven(rounds + 1, NULL, use.given.kept if use.given else asked.kept)",
    ),
    Mutant(
        "round-not-counted",
        "Each round is the first.",
        "agent.continued_calls",
        "    use, rounds = call.use, call.use.given.round if call.use.given else 0\n",
        "    use, rounds = call.use, 0\n",
    ),
    Mutant(
        "later-round-claims-it-never-started",
        "A later round that was not started is told as a call that was not.",
        "session.open_request",
        'return isinstance(call, CallTool) and call.effect != "read"',
        "return False",
    ),
    Mutant(
        "permission-for-input",
        "A permission covers a call that asks for input.",
        "session.permissions",
        "            if question.is_repeat or question.round\n",
        "            if question.is_repeat\n",
    ),
    Mutant(
        "input-gives-a-permission",
        "The answer to a form may be a permission for later calls.",
        "session.permissions",
        "and not (question.is_repeat or question.round):",
        "and not question.is_repeat:",
    ),
    Mutant(
        "waits-for-input-in-its-place",
        "A call that waits for input keeps the place of its tool.",
        "agent.answers",
        "        state, posts = _go_on(replace(state, calls=put(state.calls, asked[0])))\n",
        "        calls = put(state.calls, asked[0])\n"
        "        state, posts = _go_on(replace(state, calls=replace(calls, tools=calls.tools + 1)))\n",
    ),
    Mutant(
        "program-forgets-the-form",
        "A call of a program goes on as if it had not asked.",
        "agent.answers",
        "        state, posts = _go_on(replace(state, calls=put(state.calls, asked[0])))\n",
        "        on = asked[0] if state.program is None else replace(asked[0], use=call.use)\n"
        "        state, posts = _go_on(replace(state, calls=put(state.calls, on)))\n",
    ),
    Mutant(
        "stopped-and-asked",
        "The call of a stopped agent asks a person for input.",
        "agent.answers",
        "    asked = question_after(state, call, returned) if _is_wanted(state, call) else None\n",
        "    asked = question_after(state, call, returned)\n",
    ),
)
