"""Mutants of forks: of the recorded answers, of their order, of recovery, and of tools with an effect."""

from typing import Final

from tests.mutants.mutant import Mutant

LOOK_UP: Final = (
    Mutant(
        "reused-by-turn-alone",
        "A recorded reply is given to another request of the same turn.",
        "session.request_keys",
        '        return ("model", agent, wish.turn, wish.attempt, wish.digest)\n',
        '        return ("model", agent, wish.turn, wish.attempt)\n',
    ),
    Mutant(
        "result-for-any-arguments",
        "A recorded result is given to a call with other arguments.",
        "session.request_keys",
        '        return ("tool", *place, call.tool, bytes(call.arguments), given)\n',
        '        return ("tool", *place, call.tool, given)\n',
    ),
    Mutant(
        "change-forgotten",
        "A changed result is not given in place of the recorded one.",
        "session.recorded_answers",
        '            return ToolReturned(body.turn, body.call, "ok", value, reused=event.seq, labels=body.labels)\n',
        "            return replace(body, reused=event.seq)\n",
    ),
    Mutant(
        "changed-result-without-labels",
        "A changed result loses the labels of the recorded one.",
        "session.recorded_answers",
        "value, reused=event.seq, labels=body.labels)",
        "value, reused=event.seq)",
    ),
    Mutant(
        "billed-again",
        "A reused reply counts as one that was paid for.",
        "session.recorded_answers",
        "            return replace(body, body=(), content=content, reused=event.seq)\n",
        "            return replace(body, body=(), content=content)\n",
    ),
    Mutant(
        "lost-in-a-fork",
        "Model calls under way at the base are lost and charged.",
        "session.recovery",
        "(request.seq in self.recorded or not self.has_run)",
        "(request.seq in self.recorded and not self.has_run)",
    ),
    Mutant(
        "needs-effect-is-an-error",
        "An agent goes on after a call that its fork does not run.",
        "agent.calls",
        "    if state.needs_effect:\n",
        "    if False and state.needs_effect:\n",
    ),
    Mutant(
        "ask-survives-an-effect",
        "The ask goes on although an agent below needs an effect.",
        "supervisor.decider",
        '        if finished.kind == "needs_effect":  #',
        '        if finished.kind == "crashed":  #',
    ),
    Mutant(
        "end-of-the-client-at-once",
        "The recorded end of a session comes while an ask of the fork still runs.",
        "session.recorded_answers",
        "            self.idle.add(event.seq)\n",
        "            pass\n",
    ),
    Mutant(
        "steps-are-looked-up",
        "A program's step gets a recorded reply.",
        "session.request_keys",
        '            return ("step", agent, wish.turn, wish.attempt)\n',
        '            return ("model", agent, wish.turn, wish.attempt, "")\n',
    ),
)

PLAYBACK: Final = (
    Mutant(
        "effects-run-silently",
        "A tool with an effect runs in a fork of recorded effects.",
        "session.playback",
        '        if not isinstance(body, CallTool) or body.effect == "read":\n            return Work(request)\n',
        "        if isinstance(body, CallTool):\n            return Work(request)\n",
    ),
    Mutant(
        "people-not-asked",
        "A tool with an effect runs in a fork that asks, and no person was asked.",
        "session.playback",
        "                return Asked(same)\n",
        "                return Work(request)\n",
    ),
    Mutant(
        "idempotent-is-read",
        "An idempotent tool runs in a fork as one without an effect.",
        "session.playback",
        '        if not isinstance(body, CallTool) or body.effect == "read":\n            return Work(request)\n',
        '        if not isinstance(body, CallTool) or body.effect != "write":\n            return Work(request)\n',
    ),
    Mutant(
        "old-reads-after-an-effect",
        "A recorded result of a read tool is given after a tool with an effect has run.",
        "session.playback",
        "                self.is_after_effect = True\n                return Work(request)\n",
        "                return Work(request)\n",
    ),
    Mutant(
        "effect-forgotten-at-the-restart",
        "A new process gives recorded results of read tools after a tool with an effect has run.",
        "session.playback",
        "                    self.is_after_effect |= status not in _UNRUN\n",
        "                    pass\n",
    ),
    Mutant(
        "inputs-at-once",
        "The client asks again while an ask runs.",
        "session.playback",
        "            may_post = given.seq not in self.recorded.idle or not is_asked\n",
        "            may_post = True\n",
    ),
    Mutant(
        "inputs-again-after-the-restart",
        "A new process posts the inputs of the client from the beginning.",
        "session.playback",
        "            if event.sender == CLIENT and self.inputs and is_same_input(event, self.inputs[-1]):\n",
        "            if event.sender == CLIENT and not self.inputs:\n",
    ),
    Mutant(
        "permission-of-the-origin",
        "An answer by permission names the event of the origin.",
        "session.playback",
        "    if found.is_permitted:\n        permission",
        "    if False:\n        permission",
    ),
    Mutant(
        "approval-without-a-result",
        "An approval is given again although its tool has no recorded result.",
        "session.playback",
        "        return self.recorded.has_result(request, given, self._reader)",
        "        return True",
    ),
    Mutant(
        "last-answer-first",
        "Recorded answers are given in the opposite order.",
        "session.playback",
        "        heapq.heappush(self.held, _Held(found.seq, request, found))\n",
        "        heapq.heappush(self.held, _Held(-found.seq, request, found))\n",
    ),
    Mutant(
        "cancellations-are-given",
        "A recorded cancellation is given to a request that is still wanted.",
        "session.playback",
        "    if found.is_cancelled and gate.is_wanted(request.seq):\n",
        "    if found.is_cancelled and not gate.is_wanted(request.seq):\n",
    ),
    Mutant(
        "state-not-compared",
        "A recorded result is given although its tool would read another shared state.",
        "session.recorded_answers",
        "        return all(_value(shared, key) == value for key, value in self.read.items())\n",
        "        return True\n",
    ),
    Mutant(
        "timers-fire-early",
        "A timer without a recorded firing fires two seconds before it is due.",
        "session.playback",
        "if one.recorded is None and one.due <= at\n        ]\n",
        "if one.recorded is None and one.due <= at + 2_000\n        ]\n",
    ),
    Mutant(
        "live-reads-unmarked",
        "The result of a read tool that ran in a fork looks like one of the origin.",
        "session.port_gate",
        "        self.is_fork |= isinstance(event.body, Forked)\n",
        "        self.is_fork |= False\n",
    ),
    Mutant(
        "open-answers-forgotten",
        "A request under way at the base of a fork does not get its recorded answer.",
        "session.recorded_answers",
        "            self.open_at_base[event.cause] = found\n",
        "            pass\n",
    ),
    Mutant(
        "steps-do-not-wait",
        "An answer is given before the program has made the step behind which it was recorded.",
        "session.playback",
        "            if not one.found.is_step:\n                yield one.seq, one.found.at",
        "            if True:\n                yield one.seq, one.found.at",
    ),
)

UNSIMULATED: Final = (
    Mutant(
        "need-of-an-effect-reused",
        "A call that an earlier fork did not run is not run in a fork of it either.",
        "session.recorded_answers",
        '    return isinstance(body, ToolReturned) and body.status == "needs_effect"\n',
        '    return isinstance(body, ToolReturned) and body.status == "needs nothing"\n',
    ),
    Mutant(
        "children-of-programs-by-ordinal",
        "A child of a program is known by its ordinal, which an ask before it shifts.",
        "session.call_places",
        "            if len(place) == 2:  # of a program\n",
        "            if False and len(place) == 2:  # of a program\n",
    ),
)
"""One needs a fork of a fork, which the simulator does not make; one only costs calls. Tests find both."""

FORKS: Final = (*LOOK_UP, *PLAYBACK, *UNSIMULATED)
