"""Mutants of what requests name as new, of settlements before decisions, and of crash after crash."""

from typing import Final

from tests.mutants.mutant import Mutant

NEW: Final = (
    Mutant(
        "last-result-not-named",
        "A request does not name the event that brought the last result of several.",
        "agent.open_calls",
        "    return tuple(blocks), tuple(seqs)",
        "    return tuple(blocks), tuple(seqs[:-1] if len(seqs) > 1 else seqs)",
    ),
    Mutant(
        "delegation-end-not-named",
        "A request does not name the end of a delegation.",
        "agent.answers",
        "_block_of_end(state, call, ended), seq)\n",
        "_block_of_end(state, call, ended), 0)\n",
    ),
    Mutant(
        "reply-not-named",
        "A request does not name the reply that it follows.",
        "agent.decider",
        "fresh=() if said.is_blank else (seq,),",
        "fresh=(),",
    ),
    Mutant(
        "results-of-the-stopped-not-named",
        "The next prompt of a host that was stopped does not name the results that it carries along.",
        "agent.turns",
        "    answers = calls.answers\n",
        "    answers = calls.answers\n"
        "    for at, answer in answers.items():\n"
        "        answers = answers.put(at, Unheard(answer.block))\n",
    ),
    Mutant(
        "named-twice",
        "A request that follows results names again what the request before has named.",
        "agent.turns",
        "        fresh=(),",
        "        fresh=state.fresh if len(state.fresh) > 2 else (),",
    ),
    Mutant(
        "retry-names-again",
        "A model call that is tried again names an event once more.",
        "agent.failed_calls",
        "        after_ms=after_ms,\n        settled=settled,\n    )\n    if state.repair",
        "        new=(1,),\n        after_ms=after_ms,\n        settled=settled,\n    )\n    if state.repair",
    ),
)

SECOND: Final = (
    Mutant(
        "delegation-before-its-settlement",
        "A delegation is decided on before the call that made it is charged.",
        "supervisor.decider",
        "    if row.settles:\n"
        "        stated = body.settled  # read once: a `TurnSettled` makes it of its fields\n"
        "        settled = stated or row.unaccounted\n"
        "        if settled is not None:\n"
        "            settle(work, sender, settled, is_stated=stated is not None)\n"
        '    if work.state.phase == "closed" and type(body) not in _AFTER_THE_END:\n'
        "        return work.take_posts()\n"
        "    row.handle(work, sender, body)\n",
        '    is_late = type(body).__name__ == "Delegate"\n'
        "    if row.settles and not is_late:\n"
        "        stated = body.settled  # read once: a `TurnSettled` makes it of its fields\n"
        "        settled = stated or row.unaccounted\n"
        "        if settled is not None:\n"
        "            settle(work, sender, settled, is_stated=stated is not None)\n"
        '    if work.state.phase == "closed" and type(body) not in _AFTER_THE_END:\n'
        "        return work.take_posts()\n"
        "    row.handle(work, sender, body)\n"
        "    if is_late and body.settled is not None:\n"
        "        settle(work, sender, body.settled, is_stated=True)\n",
    ),
    Mutant(
        "delegation-without-a-closing-turn",
        "A delegation need not leave tokens for the next turn of its parent.",
        "supervisor.resolving",
        "spent.tokens + need.tokens >= budget.tokens",
        "spent.tokens >= budget.tokens",
    ),
    Mutant(
        "refused-then-interrupted",
        "A call that was refused when a crash came is answered as one that may have started.",
        "session.recovery",
        "        if request.seq in self.refused:\n            return self.refused[request.seq]\n",
        "",
    ),
    Mutant(
        "start-before-a-resume-forgotten",
        "A second recovery forgets the starts that came before the first one.",
        "session.recovery",
        "                self.started.add(event.cause)\n",
        "                self.started.add(event.cause)\n"
        '            if type(event.body).__name__ == "Resumed":\n'
        "                self.started.clear()\n",
    ),
    Mutant(
        "interruption-before-a-resume-forgotten",
        "A second recovery takes a call for one that was never interrupted if the first one said that it was.",
        "session.open_request",
        'return returned.status == "interrupted"\n',
        'return returned.status == "interrupted" and request is None\n',
    ),
)
