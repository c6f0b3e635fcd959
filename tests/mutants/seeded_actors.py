"""Mutants of the agent, of the gate that ports ask, and of what goes on from a log."""

from typing import Final

from tests.mutants.mutant import Mutant

AGENT: Final = (
    Mutant(
        "turns-off-by-one",
        "An agent has one turn more than its limit says.",
        "agent.state",
        "    return state.turns_used < (state.limits.max_iterations or 0)",
        "    return state.turns_used <= (state.limits.max_iterations or 0)",
    ),
    Mutant(
        "report-attempts-off-by-one",
        "An agent may have one invalid report more than its limit says.",
        "agent.decider",
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
        "agent.decider",
        '(judged.verdict == "invalid")',
        '(judged.verdict == "invalid") * (1 + (state.unanswered > 0))',
    ),
    Mutant(
        "results-in-arrival-order",
        "Results go back to the model in the order in which they came.",
        "agent.calls",
        "    for answer in state.answers.values():",
        "    for answer in sorted(state.answers.values(), key=lambda answer: answer.seq):",
    ),
    Mutant(
        "drains-before-the-tools",
        "A stopped agent says that it has drained while the last of its tools is out.",
        "agent.turns",
        "    if state.tools_out or state.questions.size or state.is_model_out:",
        "    if state.tools_out > 1 or state.questions.size or state.is_model_out:",
    ),
    Mutant(
        "results-of-the-stopped-lost",
        "What a stopped agent still owed its conversation is not in the next prompt.",
        "agent.turns",
        "    state = replace(state, carry=state.carry + _given_up(state), fresh=state.fresh + seqs)",
        "    state = replace(state, fresh=state.fresh + seqs)",
    ),
    Mutant(
        "late-result-goes-on",
        "The last result of an agent that is stopped lets it go on.",
        "agent.decider",
        '    if state.phase == "stopping":\n        return drain(state)\n    return _go_on(state)',
        '    if state.phase == "stopping" and (state.tools_out or state.unanswered):\n'
        "        return drain(state)\n"
        '    return _go_on(replace(state, phase="acting"))',
    ),
    Mutant(
        "report-before-the-rest",
        "Reports are posted as soon as tools have returned, though delegations are still out.",
        "agent.decider",
        "    return start_next_tool(state) if state.unanswered else all_answered(state)",
        "    waits = state.unanswered and (state.tools_out or state.questions.size or not state.reports)\n"
        "    return start_next_tool(state) if waits else all_answered(state)",
    ),
    Mutant(
        "retries-are-free",
        "What an attempt used that is tried again is told as nothing.",
        "agent.decider",
        "state.turn, state.attempt, need_of(state), state.digest, after_ms=after_ms, settled=settled\n",
        "state.turn, state.attempt, need_of(state), state.digest, after_ms=after_ms,\n"
        "        settled=replace(settled, usage=settled.usage and replace(settled.usage, "
        "input_tokens=0)),\n",
    ),
    Mutant(
        "failed-forgets-its-call",
        "An agent whose actor fails while its model call is out drains without waiting for the answer.",
        "agent.decider",
        'phase="failed", is_model_out=state.phase == "thinking")',
        'phase="failed")',
        "seed 1 misses it in 10,000 runs; the two others, the unit tests, POS and delays alone find it. An actor "
        "has to fail just while its call is out, and must then be told what that call used: too rare in these "
        "sessions to be sure of with every seed.",
    ),
)

DESK: Final = (
    Mutant(
        "second-answer-let-in",
        "A port may answer a request that has its answer.",
        "session.port_gate",
        "        return request in self.open",
        "        return True",
    ),
    Mutant(
        "write-starts-for-the-stopped",
        "A write tool call that is posted after its agent was stopped starts.",
        "session.port_gate",
        "        if owner in self._stopped:\n",
        '        if owner in self._stopped and getattr(event.body, "effect", "") != "write":\n',
    ),
    Mutant(
        "stop-without-abort",
        "What is under way for an agent that is stopped is not given up.",
        "session.port_gate",
        "        actions += [Abort(self.open[seq]) for seq in self._of.get(event.recipient, ())]\n",
        "",
    ),
    Mutant(
        "only-one-aborted",
        "Of all that is under way for an agent that is stopped, only the first call is given up.",
        "session.port_gate",
        "in self._of.get(event.recipient, ())]",
        "in self._of.get(event.recipient, ())[:1]]",
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
        "The host counts as stopped after it has drained, and in its next ask.",
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
        "An event that nobody had handled is taken as handled if it was the last for its actor.",
        "session.recovery",
        "            if event.seq > decided.get(event.recipient, 0):\n                self.inbox",
        "            if event.seq > decided.get(event.recipient, 0) and event.seq < "
        "len(self.events):\n"
        "                self.inbox",
    ),
    Mutant(
        "write-runs-again",
        "A write tool that had started is run again on resume.",
        "session.port_table",
        "def _tool_after_crash(request: Event, repeated: Repeated, has_started: bool) -> Post | None:\n    return interrupted(request, repeated) if has_started else None",
        "def _tool_after_crash(request: Event, repeated: Repeated, has_started: bool) -> Post | None:\n    return None",
    ),
    Mutant(
        "model-asked-again-for-free",
        "A model call that was cut off is made again under its old grant, and its first "
        "use is charged to nobody.",
        "session.port_table",
        "        after_crash=_model_lost,",
        "        after_crash=lambda request, has_started: None,",
    ),
    Mutant(
        "lost-call-is-free",
        "A model call that was cut off counts as one that used nothing.",
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
        "What a stopped agent had asked for is asked again on resume.",
        "session.recovery",
        "            if self.gate.is_stopped(owner_of(request)):",
        "            if self.gate.is_stopped(owner_of(request)) and isinstance(request.body, CallModel):",
    ),
    Mutant(
        "answered-started-again",
        "A request that was answered during recovery is given to its port all the same.",
        "session.recovery",
        "for seq in sorted(self.held) if self.gate.may_answer(seq))",
        "for seq in sorted(self.held))",
    ),
    Mutant(
        "timers-lost",
        "After a resume the timers that were set before do not fire.",
        "session.recovery",
        "starts, tuple(self.gate.timers.values()))",
        "starts, ())",
    ),
    Mutant(
        "failure-recorded-not-repeated",
        "A decision that a decider raised on is made anew on resume, as if it had not raised.",
        "session.core",
        'return first.error if isinstance(first, DeciderFailed) else ""',
        'return ""',
    ),
)
