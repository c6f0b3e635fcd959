"""Mutants of approvals: permissions, changed arguments, and the time of a question."""

from typing import Final

from tests.mutants.mutant import Mutant

APPROVALS: Final = (
    Mutant(
        "permission-of-another-profile",
        "A permission covers the tool of this name of every profile.",
        "session.permissions",
        "self._held.get((question.profile, question.tool))",
        "next((one for one in self._held.values() if one.tool == question.tool), None)",
    ),
    Mutant(
        "permission-for-the-interrupted",
        "A permission covers a call that was interrupted.",
        "session.permissions",
        "            if question.is_repeat or question.round\n",
        "            if question.round\n",
    ),
    Mutant(
        "permission-by-a-refusal",
        "A refusal gives a permission, too.",
        "session.permissions",
        'given.is_always and given.verdict == "approved" and not',
        "given.is_always and not",
    ),
    Mutant(
        "every-yes-is-a-permission",
        "Each approval permits later calls.",
        "session.permissions",
        'if given.is_always and given.verdict == "approved"',
        'if given.verdict == "approved"',
    ),
    Mutant(
        "profile-not-in-the-question",
        "A question does not say its profile, so a permission covers all.",
        "agent.calls",
        "        profile=prefix_of(state).profile.name,\n",
        '        profile="",\n',
    ),
    Mutant(
        "changed-arguments-lost",
        "A call runs with the arguments of the model, and not with those that were approved.",
        "agent.continued_calls",
        "replace(use, input=given.arguments)",
        "use",
    ),
    Mutant(
        "changed-arguments-for-the-next-call",
        "The changed arguments go to the first call of the reply.",
        "agent.answers",
        '        call = replace(call, use=use, stage="line", is_changed=is_changed)\n',
        "        first = find(state.calls, call.turn, 0) or call\n"
        "        state = replace(state, calls=put(state.calls, replace(first, use=use)))\n"
        '        call = replace(call, stage="line", is_changed=is_changed)\n',
    ),
    Mutant(
        "changed-arguments-not-told",
        "The model does not read that other arguments ran.",
        "agent.answers",
        "    if call.is_changed:\n",
        "    if False:\n",
    ),
    Mutant(
        "changed-arguments-stick",
        "The result of a call that runs as the model wanted is told as one of other arguments.",
        "agent.answers",
        "        is_changed = call.is_changed or given.arguments != NULL",
        "        is_changed = True",
    ),
    Mutant(
        "question-expires-at-once",
        "A question with a time limit is over at once.",
        "session.permissions",
        "    if due is None or now_ms < due:\n",
        "    if due is None:\n",
    ),
    Mutant(
        "time-of-a-question-in-seconds",
        "The time of a question is a thousandth of its limit.",
        "session.permissions",
        "return request.at + body.timeout_ms",
        "return request.at + body.timeout_ms // 1_000",
    ),
)
