"""Mutants of forks: of the recorded answers, of recovery without a crash, of the end for an effect."""

from typing import Final

from tests.mutants.mutant import Mutant

FORKS: Final = (
    Mutant(
        "reused-by-turn-alone",
        "A recorded reply is given to another request of the same turn.",
        "session.recorded_answers",
        '        return ("model", grant.agent, wish.turn, wish.attempt, wish.digest)\n',
        '        return ("model", grant.agent, wish.turn, wish.attempt)\n',
    ),
    Mutant(
        "result-for-any-arguments",
        "A recorded result is given to a call with other arguments.",
        "session.recorded_answers",
        '        return ("tool", *place, call.tool, bytes(call.arguments), given)\n',
        '        return ("tool", *place, call.tool, given)\n',
    ),
    Mutant(
        "change-forgotten",
        "A changed result is not given in place of the recorded one.",
        "session.recorded_answers",
        '            return ToolReturned(body.turn, body.call, "ok", self._changes[call], reused=event.seq)\n',
        "            return replace(body, reused=event.seq)\n",
    ),
    Mutant(
        "billed-again",
        "A reused reply counts as one that was paid for.",
        "session.recorded_answers",
        '            if call not in self._changes or body.status != "ok":\n                return again\n',
        '            if call not in self._changes or body.status != "ok":\n                return body\n',
    ),
    Mutant(
        "lost-in-a-fork",
        "Model calls under way at the base are lost and charged.",
        "session.recovery",
        "        if self.recorded is not None and isinstance(request.body, CallModel):\n",
        "        if self.recorded is None and isinstance(request.body, CallModel):\n",
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
        "session.recorded_answers",
        '            return ("step", grant.agent, wish.turn, wish.attempt)\n',
        '            return ("model", grant.agent, wish.turn, wish.attempt, "")\n',
    ),
)
