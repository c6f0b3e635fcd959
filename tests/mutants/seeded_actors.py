"""Mutants of the agent, of the gate of the ports, and of recovery from a log."""

from typing import Final

from tests.mutants.mutant import Mutant

AGENT: Final = (
    Mutant(
        "turns-off-by-one",
        "An agent has one turn more than its limit says.",
        "agent.state",
        "    return turns_left(state) > 0",
        "    return turns_left(state) >= 0",
    ),
    Mutant(
        "report-attempts-off-by-one",
        "An agent may have one invalid report more than its limit says.",
        "agent.answers",
        "    if state.report_attempts >= (state.limits.max_report_attempts or 1):",
        "    if state.report_attempts > (state.limits.max_report_attempts or 1):",
    ),
    Mutant(
        "model-attempts-off-by-one",
        "A model call has one attempt more than the limit says.",
        "agent.retry",
        "attempt >= max_attempts:",
        "attempt > max_attempts:",
    ),
    Mutant(
        "invalid-counts-twice",
        "An invalid report counts twice while others of its turn wait for their judgement.",
        "agent.answers",
        '(judged.verdict == "invalid")',
        '(judged.verdict == "invalid") * (1 + (state.calls.open.size > 0))',
    ),
    Mutant(
        "results-in-arrival-order",
        "Results go back to the model in the order of their arrival.",
        "agent.open_calls",
        "    for one in answers.values():",
        "    for one in sorted(answers.values(), key=lambda one: one.seq):",
    ),
    Mutant(
        "drains-before-the-tools",
        "A stopped agent posts that it has drained while its last tool still runs.",
        "agent.turns",
        "    if calls.tools or calls.questions or state.is_model_out:",
        "    if calls.tools > 1 or calls.questions or state.is_model_out:",
    ),
    Mutant(
        "results-of-the-stopped-lost",
        "The results that a stopped agent still owed its conversation are missing in the next prompt.",
        "agent.turns",
        "        state = replace(state, calls=only_answers(_with_given_up(calls)))",
        "        state = replace(state, calls=NO_CALLS)",
    ),
    Mutant(
        "late-result-goes-on",
        "A stopped agent goes on after its last result.",
        "agent.answers",
        '    return drain(state) if state.phase == "stopping" else _go_on(state)\n',
        '    if state.phase == "stopping" and state.calls.open.size:\n'
        "        return drain(state)\n"
        '    return _go_on(replace(state, phase="acting"))\n',
    ),
    Mutant(
        "report-before-the-rest",
        "Reports are posted as soon as tools have returned, although delegations are still open.",
        "agent.answers",
        '    if state.phase != "acting" or not is_due:\n',
        "    calls = state.calls\n"
        "    if program is None and calls.reports and not (calls.tools or calls.questions):\n"
        "        is_due, state = True, replace(state, calls=replace(calls, open=type(calls.open)()))\n"
        '    if state.phase != "acting" or not is_due:\n',
    ),
    Mutant(
        "retries-are-free",
        "The usage of an attempt that is tried again is settled as zero.",
        "agent.failed_calls",
        "        settled=settled,\n    )\n    if state.repair",
        "        settled=replace(settled, usage=settled.usage and replace(settled.usage, input_tokens=0)),\n"
        "    )\n"
        "    if state.repair",
    ),
)

DESK: Final = (
    Mutant(
        "second-answer-let-in",
        "A port may answer a request that already has its answer.",
        "session.port_gate",
        "        if request is None or request.is_answered:\n            return None",
        "        if request is None:\n            return answer",
    ),
    Mutant(
        "write-starts-for-the-stopped",
        "A write tool call that is posted after its agent was stopped starts.",
        "session.port_gate",
        "        if owner in self._stopped or owner in self._forgotten:\n",
        '        is_write = getattr(event.body, "effect", "") == "write"\n'
        "        if owner in self._forgotten or (owner in self._stopped and not is_write):\n",
    ),
    Mutant(
        "stop-without-abort",
        "The calls under way for a stopped agent are not aborted.",
        "session.port_gate",
        "        actions += [Abort(request.event) for request in requests]\n",
        "",
    ),
    Mutant(
        "only-one-aborted",
        "Of the calls under way for a stopped agent, only the first is aborted.",
        "session.port_gate",
        "        actions += [Abort(request.event) for request in requests]\n",
        "        actions += [Abort(request.event) for request in requests[:1]]\n",
    ),
    Mutant(
        "write-not-announced",
        "A write tool runs without its start in the log.",
        "session.port_table",
        '    return Post(request.sender, ToolStarted(body.turn, body.call)) if body.effect == "write" else None',
        "    return None",
    ),
    Mutant(
        "stop-outlives-the-drained",
        "The host still counts as stopped after it has drained, in its next ask too.",
        "session.port_gate",
        "    def _begin(self, event: Event, actions: list[Action]) -> None:\n"
        "        self._stopped.discard(event.recipient)\n",
        "    def _begin(self, event: Event, actions: list[Action]) -> None:\n        return\n",
    ),
)

RECOVERY: Final = (
    Mutant(
        "torn-decision-not-completed",
        "The outputs that the end of the log cut off are never posted.",
        "session.recovery",
        "        if torn is not None:\n",
        "        if torn is not None and not torn:\n",
    ),
    Mutant(
        "unhandled-lost",
        "An unhandled event counts as handled if it was the last for its actor.",
        "session.recovery",
        "            if event.seq > decided.get(recipient, 0):\n                self.inbox",
        "            if event.seq > decided.get(recipient, 0) and event.seq < "
        "len(self.events):\n"
        "                self.inbox",
    ),
    Mutant(
        "write-runs-again",
        "A write tool that had started is run again on resume.",
        "session.port_table",
        "    return interrupted(request, repeated) if has_started and is_write else None",
        "    return None",
    ),
    Mutant(
        "model-asked-again-for-free",
        "A model call that was cut off is made again under its old grant, and its first usage is not "
        "charged.",
        "session.port_table",
        "    after_crash=_model_lost,",
        "    after_crash=lambda request, repeated, has_started: None,",
    ),
    Mutant(
        "lost-call-is-free",
        "A model call that was cut off is charged nothing.",
        "session.port_table",
        '    return Post(owner_of(request), ModelReplied(turn, attempt, "cancelled"))',
        "    return _model_cancelled(request, repeated)",
    ),
    Mutant(
        "cancelled-claimed-for-write",
        "A write tool of a stopped agent that had started is answered `cancelled`.",
        "session.port_table",
        "if is_idempotent or has_started else",
        "if is_idempotent else",
    ),
    Mutant(
        "stopped-asked-again",
        "The open requests of a stopped agent are started again on resume.",
        "session.recovery",
        "            if not self.gate.is_wanted(request.seq):",
        '            if not self.gate.is_wanted(request.seq) and request.kind == "CallModel":',
    ),
    Mutant(
        "answered-started-again",
        "A request that was answered during recovery is still given to its port.",
        "session.recovery",
        "for seq in sorted(self.held) if self.gate.may_answer(seq))",
        "for seq in sorted(self.held))",
    ),
    Mutant(
        "timers-lost",
        "After a resume, timers that were set before it do not fire.",
        "session.recovery",
        "starts, tuple(self.gate.timers.values()))",
        "starts, ())",
    ),
    Mutant(
        "failure-recorded-not-repeated",
        "A decision that raised in the decider is made again on resume, as if it had not raised.",
        "session.core",
        'return first.error if isinstance(first, DeciderFailed) else ""',
        'return ""',
    ),
)
