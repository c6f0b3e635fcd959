"""Mutants of budgets above sessions: of the policy, of the keys, and of the supervisor's hook."""

from typing import Final

from tests.mutants.mutant import Mutant

SCOPES: Final = (
    Mutant(
        "reservations-not-counted",
        "A call fits beside the amount spent, whatever is reserved.",
        "session.budget_scope",
        "spent.tokens + reserved.tokens + held.tokens + need.tokens > limit",
        "spent.tokens + held.tokens + need.tokens > limit",
    ),
    Mutant(
        "departed-not-counted",
        "A call fits whatever is reserved by sessions that no process runs.",
        "session.budget_scope",
        "spent.tokens + reserved.tokens + held.tokens + need.tokens > limit",
        "spent.tokens + reserved.tokens + need.tokens > limit",
    ),
    Mutant(
        "spending-not-counted",
        "A call fits beside the reservations, whatever is spent.",
        "session.budget_scope",
        "spent.tokens + reserved.tokens + held.tokens + need.tokens > limit",
        "reserved.tokens + held.tokens + need.tokens > limit",
    ),
    Mutant(
        "first-scope-only",
        "A call is reserved in the first scope of its session only.",
        "session.budgets",
        "        for scope in books:\n            scope.reserved.add(need)\n",
        "        for scope in books[:1]:\n            scope.reserved.add(need)\n",
    ),
    Mutant(
        "settled-without-charge",
        "A call that is settled is not charged.",
        "session.budgets",
        "                scope.spent.add(charge)\n",
        "",
    ),
    Mutant(
        "settled-and-reserved",
        "The reservation of a call that is settled stays.",
        "session.budgets",
        "                scope.release(one.key, one.need)\n                scope.spent",
        "                scope.spent",
    ),
    Mutant(
        "settlement-wakes-no-call",
        "The calls that wait for a settlement are not looked at after it.",
        "session.budgets",
        "                if scope.line:\n                    self._looked_at[name] = None\n",
        "",
    ),
    Mutant(
        "cancelled-stays-in-line",
        "A call that is given up stays in its lines.",
        "session.budgets",
        "        if ticket is not None:\n            self._leave_lines(self._waiting[ticket])\n",
        "",
    ),
    Mutant(
        "lost-is-free",
        "A reservation that a crash has lost is released, and not charged.",
        "session.budgets",
        "self._end(one, one.need if is_lost else NOTHING)",
        "self._end(one, NOTHING)",
    ),
    Mutant(
        "held-again-beside-itself",
        "What a session holds at its resume is reserved a second time.",
        "session.budgets",
        "            if one.key.epoch < epoch:",
        "            if one.key.epoch < epoch - 1:",
    ),
    Mutant(
        "leaver-drops-its-reservations",
        "The reservations of a session that leaves are released.",
        "session.budgets",
        "        for one in held:\n            self._reserve(one, is_running=False)\n",
        "",
    ),
    Mutant(
        "leaver-waits-on",
        "The calls of a session that leaves stay in their lines.",
        "session.budgets",
        "            self._leave_lines(waiting)\n        held",
        "            pass\n        held",
    ),
)
KEYS_OF_CALLS: Final = (
    Mutant(
        "unknown-usage-is-free",
        "A call whose usage is not known is charged nothing.",
        "session.budget_keys",
        "need if usage is None else",
        "NOTHING if usage is None else",
    ),
    Mutant(
        "settlement-unheard",
        "The settlement that says its charge ends no reservation.",
        "session.budget_keys",
        "    SettleBudget: BudgetKeys._settled,\n",
        "",
    ),
)
HOOK: Final = (
    Mutant(
        "reserved-for-the-stopped",
        "The reservation of an agent that was stopped is not given back.",
        "supervisor.turns",
        "    is_budgeted = agent.is_budgeted or (is_of_budgets and is_given)\n",
        "    is_budgeted = agent.is_budgeted or (is_of_budgets and is_given and wish is not None)\n",
    ),
    Mutant(
        "reserved-without-a-place",
        "An agent that is stopped in line for a place keeps its reservation in the budgets above.",
        "supervisor.turns",
        "    if is_budgeted and wish is None:\n",
        "    if is_budgeted and wish is None and is_of_budgets:\n",
    ),
    Mutant(
        "refused-waits-again",
        "An agent whose call is refused above the session asks again.",
        "supervisor.turns",
        'isinstance(given, BudgetGiven) and given.status == "refused":',
        'isinstance(given, BudgetGiven) and given.status == "never":',
    ),
    Mutant(
        "reserved-call-asks-twice",
        "A call that has its reservation asks for it once more.",
        "supervisor.turns",
        "go_on(work, agent, wish, agent.reserved, is_budgeted=is_budgeted)",
        "go_on(work, agent, wish, agent.reserved, is_budgeted=agent.is_budgeted)",
    ),
    Mutant(
        "not-made-is-settled",
        "An agent that is stopped before its call is made settles it.",
        "agent.turns",
        "calls, stopped = state.calls, Stopped(state.owed)",
        "calls, stopped = state.calls, Stopped(state.owed or Settled())",
    ),
    Mutant(
        "unstated-not-settled",
        "A reservation whose agent ends without stating its settlement stays.",
        "supervisor.turns",
        "    if record.is_budgeted and not is_stated:\n",
        "    if False:\n",
    ),
)
