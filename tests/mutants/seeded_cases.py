"""Mutants that are wrong in a single forgotten case: calls, agents, ports, recovery."""

from typing import Final

from tests.mutants.mutant import Mutant

CALLS: Final = (
    Mutant(
        "settlement-of-the-stopped-wakes-no-agent",
        "The budget that a stopped agent gives back wakes no agent that waits for it.",
        "supervisor.turns",
        "    work.in_flight -= 1\n    wake_along(work, ancestry)",
        "    work.in_flight -= 1\n    if record.is_running:\n        wake_along(work, ancestry)",
    ),
    Mutant(
        "answered-one-forgets-all",
        "With the first answer of an agent's calls, the gate forgets its other calls under way.",
        "session.port_gate",
        "            if len(seqs) == 1:\n                del self._of[request.owner]",
        "            if True:\n                del self._of[request.owner]",
    ),
    Mutant(
        "repeated-call-not-remembered",
        "The gate forgets that an earlier process may have started a repeated call.",
        "session.port_gate",
        "            self.open[request.seq].is_repeated = True\n",
        "            pass\n",
    ),
    Mutant(
        "interrupted-call-not-remembered",
        "The gate forgets that a repeated call was interrupted once.",
        "session.port_gate",
        "            opened.is_repeated = (owner, body.turn, body.call) in self._interrupted\n",
        "            pass\n",
    ),
    Mutant(
        "torn-agent-decision-lost",
        "A decision that the end of the log cut off is completed only if it is the supervisor's.",
        "session.recovery",
        "        if torn is not None:\n",
        "        if torn is not None and torn[0].recipient == SUPERVISOR:\n",
    ),
    Mutant(
        "torn-supervisor-decision-lost",
        "A decision that the end of the log cut off is completed only if it is an agent's.",
        "session.recovery",
        "        if torn is not None:\n",
        "        if torn is not None and torn[0].recipient != SUPERVISOR:\n",
    ),
    Mutant(
        "timers-of-the-recovery-lost",
        "Timers that the recovery itself sets do not fire.",
        "session.recovery",
        "starts, tuple(self.gate.timers.values()))",
        "starts, tuple(t for t in self.gate.timers.values() if t.request <= len(self.events)))",
    ),
    Mutant(
        "retry-waits-for-the-last-attempt",
        "A stopped agent in back-off waits for the answer of its previous attempt.",
        "agent.decider",
        "is_model_out = may_be_out and is_granted",
        "is_model_out = may_be_out and (is_granted or state.attempt > 2)",
    ),
    Mutant(
        "finished-answers-a-stop",
        "An agent that has finished posts that it has drained when a late Stop comes.",
        "agent.phases",
        '        "idle": {\n            Begin: ("thinking", "compacting"),\n',
        '        "idle": {\n            Begin: ("thinking", "compacting"),\n            Stop: ("idle",),\n',
    ),
    Mutant(
        "settled-twice-by-retries",
        "The settlement of an attempt that is tried again is charged again at the end of the turn.",
        "supervisor.turns",
        "    spent, reserved = budgets.settle(ancestry, need, used)\n",
        "    spent, reserved = budgets.settle(ancestry, need, used)\n"
        "    if record.granted[1] > 1:\n"
        "        spent = budgets.plus(spent, settled.usage or budgets.Usage())\n",
    ),
    Mutant(
        "lost-twice-is-a-failure",
        "A model call that was lost to a crash a second time ends its agent.",
        "agent.failed_calls",
        "    if reply.status in CUT_OFF:",
        "    if reply.status in CUT_OFF and state.attempt == 1:",
    ),
    Mutant(
        "last-request-of-the-log-is-fresh",
        "The very last request of a log is treated as one that has not started.",
        "session.recovery",
        "        if request.seq > len(self.events) or build is None or",
        "        if request.seq >= len(self.events) or build is None or",
    ),
    Mutant(
        "fresh-calls-lost",
        "Model calls that the recovery itself grants are answered as lost.",
        "session.recovery",
        "            if request.seq in self.held:\n                continue\n",
        '            if request.seq in self.held and request.kind != "CallModel":\n'
        "                continue\n",
    ),
    Mutant(
        "unstarted-write-interrupted",
        "A write tool that had not started is answered as `interrupted` instead of being run.",
        "session.port_table",
        "    return interrupted(request, repeated) if has_started and is_write else None",
        "    return interrupted(request, repeated) if is_write else None",
    ),
    Mutant(
        "cost-overrides-tokens",
        "Where both are limited, a call whose cost fits passes although its tokens do not.",
        "supervisor.budgets",
        "reserved.micro_usd > budget.micro_usd else verdict",
        'reserved.micro_usd > budget.micro_usd else "now"',
    ),
    Mutant(
        "slot-of-a-stopped-retry",
        "The slot of a later attempt is not given back if its agent was stopped.",
        "supervisor.turns",
        "    work.in_flight -= 1\n    wake_along",
        "    work.in_flight -= record.is_running or record.granted[1] == 1\n    wake_along",
    ),
    Mutant(
        "unknown-use-of-a-retry-is-free",
        "A later attempt with unknown usage is charged nothing.",
        "supervisor.turns",
        "budgets.charge_of(need, settled.usage)",
        "budgets.charge_of(need, settled.usage or (budgets.Usage() if ancestry[-1].granted[1] > 1 else None))",
    ),
    Mutant(
        "second-crash-forgets-the-turn",
        "A host that fails while it drains counts its turns from 1 again in the next ask.",
        "agent.failing",
        "        turn=state.turn,\n",
        "",
    ),
    Mutant(
        "owed-by-a-retry-not-known",
        "The usage of a stopped agent's second attempt is reported as unknown.",
        "agent.decider",
        "    state = replace(state, is_model_out=False, owed=settled)\n",
        "    state = replace(state, is_model_out=False, owed=Settled() if state.attempt > 1 else settled)\n",
    ),
    Mutant(
        "stop-forgets-the-call-of-the-failed",
        "An agent that has failed and is then stopped does not wait for its model call.",
        "agent.decider",
        '    may_be_out = state.phase == "thinking" or state.is_model_out\n',
        '    may_be_out = state.phase == "thinking"\n',
    ),
)
