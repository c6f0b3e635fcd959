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
        "profile, timeout_ms = prefix_of(state).profile.name, min(own or limit, limit or own)",
        'profile, timeout_ms = "", min(own or limit, limit or own)',
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
        "agent.decider",
        "start_next_tool(replace(with_use(state, call, use),",
        "start_next_tool(replace(with_use(state, 0, use),",
    ),
    Mutant(
        "changed-arguments-not-told",
        "The model does not read that other arguments ran.",
        "agent.decider",
        "    if state.changed.size and state.changed.get(call):\n",
        "    if False:\n",
    ),
    Mutant(
        "changed-arguments-stick",
        "The results of the next turn are told as those of other arguments, too.",
        "agent.calls",
        "        changed=NO_CALLS,\n",
        "",
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
