"""Mutants of background tasks, of words for agents, and of agents that fail while they get either.

The naive rules that were tried first are among them.
"""

from typing import Final

from tests.mutants.mutant import Mutant

TASKS: Final = (
    Mutant(
        "wakes-at-every-end",
        "A parked agent takes a turn for each end, so speed decides how many turns it needs.",
        "agent.background",
        "    if state.background.tasks.size and not _can_hear_now(state):\n",
        "    if not state.background.words.size:\n",
    ),
    Mutant(
        "children-counted-anew",
        "A new turn forgets the background copies that run, so they pile up without bound.",
        "supervisor.reserving",
        "    return replace(record, turn_children=record.background, ended=ended, kept=kept)",
        "    return replace(record, turn_children=0, ended=ended, kept=kept)",
    ),
    Mutant(
        "reserve-dropped-at-the-next-turn",
        "The closing reserve ends with the parent's next turn, although its background tasks run on.",
        "supervisor.reserving",
        "    if record.background:\n        # The reply",
        "    if False:\n        # The reply",
    ),
    Mutant(
        "reserve-not-restated",
        "A parked agent does not restate the need of its next turn.",
        "agent.background",
        "TurnSettled(settled.usage, settled.text, closing_need(state, state.context_tokens))",
        "TurnSettled(settled.usage, settled.text)",
    ),
    Mutant(
        "budget-for-last-words",
        "Words while the last answer is in flight turn that answer into an end as `budget`.",
        "agent.background",
        'otherwise="" if is_unanswered(state) else "answered")',
        'otherwise="")',
    ),
    Mutant(
        "refused-words-stay",
        "A turn that is taken back keeps a client's words, although they are refused.",
        "agent.tasks",
        "            if not word.number:\n                kept = kept.append(word)",
        "            kept = kept.append(word)",
    ),
    Mutant(
        "end-of-an-earlier-turn-ignored",
        "The end of a task that an earlier turn started is not taken: `task_wait` never returns.",
        "agent.background",
        "    if background.tasks.get(ordinal) != Task(end.turn, end.call):",
        "    if end.turn != state.turn or not background.tasks.get(ordinal):",
    ),
    Mutant(
        "silence-is-the-end",
        "An agent that falls silent ends, although its tasks run.",
        "agent.background",
        'on_finish == "wait" and bool(background.tasks.size or background.has_ends)',
        'on_finish == "wait" and background.has_ends',
    ),
    Mutant(
        "unheard-ends-dropped",
        "An agent that falls silent ends, although it has not heard the ends of its tasks.",
        "agent.background",
        'on_finish == "wait" and bool(background.tasks.size or background.has_ends)',
        'on_finish == "wait" and bool(background.tasks.size)',
    ),
    Mutant(
        "parks-without-a-turn",
        "An agent without a turn left waits for its tasks.",
        "agent.background",
        "    if not has_turns_left(state):\n        return finish(state, ",
        "    if False:\n        return finish(state, ",
    ),
    Mutant(
        "cancel-at-the-end-ignored",
        'A profile with on_finish="cancel" waits for its tasks.',
        "agent.background",
        'return prefix_of(state).profile.on_finish == "wait" and bool',
        "return bool",
    ),
    Mutant(
        "any-waits-for-all",
        "`task_wait` with `any` waits for every task.",
        "agent.background",
        "        if wait.is_any or is_due(calls, wait):",
        "        if is_due(calls, wait):",
    ),
    Mutant(
        "all-waits-for-any",
        "`task_wait` returns at the first end.",
        "agent.background",
        "        if wait.is_any or is_due(calls, wait):",
        "        if wait or is_due(calls, wait):",
    ),
    Mutant(
        "wait-misses-its-own-reply",
        "`task_wait` returns at once although its own reply starts tasks.",
        "agent.waiting",
        "    return not wait.left.size and not (wait.is_every and _is_starting(calls))",
        "    return not wait.left.size",
    ),
    Mutant(
        "refused-start-awaited",
        "`task_wait` waits for a task that was denied.",
        "agent.answers",
        "        state = take_refusal(state)\n",
        "        pass\n",
    ),
    Mutant(
        "cancel-names-the-wrong-call",
        "`task_cancel` names the first call of the task's turn.",
        "agent.waiting",
        "CancelTask(task.turn, task.call)",
        "CancelTask(task.turn, 0)",
    ),
    Mutant(
        "cancels-one-racer",
        "A cancelled delegation stops its first agent only.",
        "supervisor.ending",
        '        stop_one(work, racer, "cancelled")\n\n\ndef record_racer_end',
        '        stop_one(work, racer, "cancelled")\n        break\n\n\ndef record_racer_end',
    ),
    Mutant(
        "cancel-ends-no-delegation",
        "A cancelled delegation stops its agents and does not end.",
        "supervisor.ending",
        '    end_delegation(work, parent, found, "cancelled", detail=detail)\n',
        "",
    ),
    Mutant(
        "cancel-ends-the-one-before",
        "A cancel of a delegation that has ended ends the one that was opened before it.",
        "supervisor.ending",
        "    if found is None or (found.turn, found.call) != (turn, call):\n",
        "    if found is None:\n",
    ),
    Mutant(
        "started-without-a-word",
        "A background delegation begins, and its call is not answered.",
        "supervisor.delegating",
        "        work.post(parent, Delegated(delegation.turn, delegation.call, address))",
        "        address = parent",
    ),
    Mutant(
        "ended-copies-still-counted",
        "A background delegation that has ended still counts against max_children.",
        "supervisor.ending",
        "len(delegation.racers) * delegation.is_background\n",
        "len(delegation.racers) * (delegation.is_background and delegation.is_checking)\n",
    ),
    Mutant(
        "words-in-two-requests",
        "Words that a request holds stay unheard, and are told again.",
        "agent.turns",
        "    state = replace(state, has_spoken=has_spoken, background=background)\n",
        "    seqs += ()\n",
    ),
)
WORDS: Final = (
    Mutant(
        "heard-when-wanted",
        "Words are told as heard when their request is made, not when it is granted.",
        "supervisor.telling",
        "    while (first := unheard.first()) is not None and first[0] <= granted.told:",
        "    while (first := unheard.first()) is not None:",
    ),
    Mutant(
        "last-word-not-heard",
        "The last words in a request are not told as heard.",
        "supervisor.telling",
        "    while (first := unheard.first()) is not None and first[0] <= granted.told:",
        "    while (first := unheard.first()) is not None and first[0] < granted.told:",
    ),
    Mutant(
        "words-left-open",
        "An agent that ends leaves words without an end.",
        "supervisor.ending",
        "    refuse_unheard(work, record)\n",
        "    work.seq += 0\n",
    ),
    Mutant(
        "words-for-the-dead",
        "Words for an agent that has ended are passed on.",
        "supervisor.telling",
        "    if record is not None and record.is_running:",
        "    if record is not None:",
    ),
    Mutant(
        "words-wait-for-tasks",
        "Words do not answer an open `task_wait`.",
        "agent.background",
        "    due = [call for call, wait in waits_of(state.calls) if not wait.is_cancel]",
        "    due = [call for call, wait in waits_of(state.calls) if wait.is_any]",
    ),
    Mutant(
        "words-take-the-last-turn",
        "Words wake a parked agent whose last turn the ends of its tasks need.",
        "agent.background",
        "    if state.background.tasks.size and not _can_hear_now(state):",
        "    if state.background.tasks.size and not state.background.has_tells:",
    ),
)

FAILING: Final = (
    Mutant(
        "failed-forgets-its-call",
        "An agent whose actor fails during its model call drains without waiting for the answer.",
        "agent.failing",
        'phase="failed", is_model_out=state.phase == "thinking")',
        'phase="failed")',
    ),
    Mutant(
        "forgotten-turn-starts",
        "A model call starts for an agent that has failed twice and forgotten its request.",
        "session.port_gate",
        "        if owner in self._stopped or owner in self._forgotten:\n",
        "        if owner in self._stopped:\n",
    ),
)
