"""Mutants of the session: asks, budgets, the queue for model calls."""

from typing import Final

from tests.mutants.mutant import Mutant

ASKS: Final = (
    Mutant(
        "account-reset",
        "With each ask the host's account restarts at zero, so the session's budget applies to each ask.",
        "supervisor.asks",
        "    spent = host.spent if host else ZERO\n    timer",
        "    spent = ZERO\n    timer",
    ),
    Mutant(
        "ordinals-reset",
        "With each ask the numbers of the host's children restart at 1.",
        "supervisor.asks",
        "        next_ordinal=former.next_ordinal if former else 1,\n",
        "",
    ),
    Mutant(
        "ask-before-drained",
        "An ask begins before the agents of an earlier one have drained.",
        "supervisor.asks",
        "    if state.live:\n        return",
        "    if state.live > 1:\n        return",
    ),
    Mutant(
        "cancel-after-the-end",
        "A cancel that comes after the outcome is settled, while agents drain, changes the outcome.",
        "supervisor.asks",
        "    if ask is None or ask.outcome is not None:\n        return\n    stop_below",
        "    if ask is None:\n        return\n    stop_below",
    ),
    Mutant(
        "grace-never-ends",
        "When the grace is over, the outcome still waits for agents that have not drained.",
        "supervisor.timers",
        "asks.conclude(work, is_grace_over=True)",
        "asks.conclude(work)",
    ),
    Mutant(
        "grace-not-cancelled",
        "The timer of the grace is not cancelled when all agents have drained in time.",
        "supervisor.asks",
        "    work.cancel_timer(ask.grace_timer)\n    later",
        "    later",
    ),
)

BUDGETS: Final = (
    Mutant(
        "tokens-off-by-one",
        "A call that would use the last token of a budget is refused.",
        "supervisor.budgets",
        "        if total > budget.tokens:",
        "        if total >= budget.tokens:",
    ),
    Mutant(
        "tokens-overshoot-by-one",
        "A call may use one token more than the calls in flight leave.",
        "supervisor.budgets",
        '"later" if total + reserved.tokens > budget.tokens else verdict',
        '"later" if total + reserved.tokens > budget.tokens + 1 else verdict',
    ),
    Mutant(
        "closing-ignored",
        "A call of a child need not leave room for the closing turns of the agents above it.",
        "supervisor.budgets",
        " and record is not ancestry[-1]:",
        " and record is None:",
    ),
    Mutant(
        "closing-in-its-own-scope-only",
        "A closing turn is kept free in the scope of its own agent, but not in those above it.",
        "supervisor.budgets",
        "            kept = add(kept, record.kept.total)\n        verdict",
        "            kept = add(need, record.kept.total)\n        verdict",
    ),
    Mutant(
        "unknown-use-is-free",
        "A call with unknown usage is charged nothing.",
        "supervisor.budgets",
        "Usage(charged_tokens=need.tokens, micro_usd=need.micro_usd, calls=1, unknown_calls=1)",
        "Usage(calls=1, unknown_calls=1)",
    ),
    Mutant(
        "stopped-not-settled",
        "The grant of an agent that was stopped is never settled: its reservation leaks.",
        "supervisor.turns",
        "    if (need := record.grant) is None:\n",
        "    if (need := record.grant) is None or record.is_stopped:\n",
    ),
    Mutant(
        "slot-of-the-stopped-leaks",
        "The slot of an agent that was stopped during its call is not given back.",
        "supervisor.turns",
        "    work.in_flight -= 1\n    wake_along",
        "    work.in_flight -= not record.is_stopped\n    wake_along",
    ),
    Mutant(
        "spend-of-the-stopped-lost",
        "The usage of a stopped agent is not charged to the agents above it.",
        "supervisor.budgets",
        "        spent, reserved = plus(record.spent, used), subtract(record.reserved, need)",
        "        spent = record.spent if ancestry[-1].is_stopped else plus(record.spent, used)\n"
        "        reserved = subtract(record.reserved, need)",
    ),
    Mutant(
        "surrender-not-settled",
        "An agent that leaves without accounting for its call leaves the reservation behind.",
        "supervisor.decider",
        "_UNKNOWN = Settled()\n",
        "_UNKNOWN = None\n",
    ),
    Mutant(
        "own-budget-forgotten",
        "A child's own token budget does not bind it.",
        "supervisor.delegating",
        "        budget=Budget(own.tokens, micro(own.cost_usd)),",
        "        budget=Budget(None, micro(own.cost_usd)),",
    ),
)

LINE: Final = (
    Mutant(
        "overtaking",
        "A request that fits is granted though an earlier one waits for the same exhausted budget.",
        "supervisor.turns",
        "        or is_waited_for(ancestry)\n",
        "",
    ),
    Mutant(
        "slots-off-by-one",
        "One more model call is in flight than the limit says, if the queue is empty.",
        "supervisor.turns",
        "        or not has_slot(work)\n",
        "        or not (has_slot(work) or work.in_flight == (ancestry[0].limits.max_parallel_calls or 1))\n",
    ),
    Mutant(
        "one-served-a-message",
        "After each message at most one waiting request is looked at.",
        "supervisor.line",
        "            go_on.turn(work, ancestry, ancestry[-1].wanted)\n",
        "            go_on.turn(work, ancestry, ancestry[-1].wanted)\n            return\n",
    ),
    Mutant(
        "parked-at-the-wrong-scope",
        "A request is parked at the lowest exhausted scope, not at the topmost.",
        "supervisor.turns",
        '(where[-1] if where else "")',
        '(where[0] if where else "")',
    ),
    Mutant(
        "settlement-wakes-no-agent",
        "A settlement wakes no agent that waits for that budget, if its own agent goes on.",
        "supervisor.turns",
        "    work.in_flight -= 1\n    wake_along(work, ancestry)",
        "    work.in_flight -= 1\n    if record.wanted and record.wanted.scope:\n        wake_along(work, ancestry)",
    ),
    Mutant(
        "leaver-wakes-no-agent",
        "An agent that leaves the queue wakes no agent behind it.",
        "supervisor.line",
        "    wake_along(work, work.ancestry(address) or [])",
        "    return",
    ),
)
