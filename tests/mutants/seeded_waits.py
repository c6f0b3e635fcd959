"""Mutants of calls that wait for tasks by name, of tasks denied before they begin, and of words told one
after the other.
"""

from typing import Final

from tests.mutants.mutant import Mutant

NAMED: Final = (
    Mutant(
        "named-wait-is-for-all",
        "`task_wait` with names waits for every running task.",
        "agent.waiting",
        "    left, has_ended = _running(address, background, arguments.tasks)\n",
        "    left, has_ended = background.tasks, False\n",
    ),
    Mutant(
        "first-name-only",
        "`task_wait` waits for the first of the tasks that it names.",
        "agent.waiting",
        "    left, has_ended = _running(address, background, arguments.tasks)\n",
        "    left, has_ended = _running(address, background, arguments.tasks[:1])\n",
    ),
    Mutant(
        "last-name-only",
        "`task_wait` waits for the last of the tasks that it names.",
        "agent.waiting",
        "            left = left.put(ordinal, task)\n",
        "            left = IntMap[Task]().put(ordinal, task)\n",
    ),
    Mutant(
        "ended-name-does-not-count",
        "`task_wait` with `any` waits on although a task that it names has ended.",
        "agent.waiting",
        "    return Wait(IntMap() if is_any and has_ended else left, is_any=is_any)",
        "    return Wait(left, is_any=is_any)",
    ),
    Mutant(
        "ended-name-answers-for-all",
        "`task_wait` returns at once if one of the tasks that it names has ended.",
        "agent.waiting",
        "    return Wait(IntMap() if is_any and has_ended else left, is_any=is_any)",
        "    return Wait(IntMap() if has_ended else left, is_any=is_any)",
    ),
    Mutant(
        "any-forgotten-with-names",
        "`task_wait` with names and `any` waits for all of them.",
        "agent.waiting",
        "    return Wait(IntMap() if is_any and has_ended else left, is_any=is_any)",
        "    return Wait(IntMap() if is_any and has_ended else left)",
    ),
    Mutant(
        "all-forgotten-with-names",
        "`task_wait` with names returns at the first end.",
        "agent.waiting",
        "    return Wait(IntMap() if is_any and has_ended else left, is_any=is_any)",
        "    return Wait(IntMap() if is_any and has_ended else left, is_any=True)",
    ),
    Mutant(
        "named-wait-takes-new-tasks",
        "`task_wait` with names waits for the tasks of its own reply, too.",
        "agent.background",
        "        if wait.is_every:\n            calls",
        "        if not wait.is_cancel:\n            calls",
    ),
    Mutant(
        "named-wait-waits-for-starts",
        "`task_wait` with names does not return before the tasks of its own reply have begun.",
        "agent.waiting",
        "    return not wait.left.size and not (wait.is_every and _is_starting(calls))",
        "    return not wait.left.size and not _is_starting(calls)",
    ),
    Mutant(
        "any-end-answers-names",
        "The end of a task that a `task_wait` does not name answers it.",
        "agent.background",
        "        if wait.left.get(ordinal) is None:\n            continue\n",
        "        if not wait.left.size:\n            continue\n",
    ),
    Mutant(
        "second-wait-forgotten",
        "The end of a task answers the first call that waits for it, and no other.",
        "agent.background",
        "            due.append(call)\n",
        "            due.append(call)\n            break\n",
    ),
    Mutant(
        "words-answer-no-names",
        "Words of a client do not answer a `task_wait` with names.",
        "agent.background",
        "    due = [call for call, wait in waits_of(state.calls) if not wait.is_cancel]",
        "    due = [call for call, wait in waits_of(state.calls) if wait.is_every]",
    ),
    Mutant(
        "words-answer-cancels",
        "Words of a client answer a `task_cancel`, whose task runs on.",
        "agent.background",
        "    due = [call for call, wait in waits_of(state.calls) if not wait.is_cancel]",
        "    due = [call for call, _ in waits_of(state.calls)]",
    ),
    Mutant(
        "name-of-a-grandchild",
        "The address of another agent's task stands for a task with the same last number.",
        "agent.tasks",
        "    if not names_agent(address) or address == HOST or parent_of(address) != parent:",
        "    if not names_agent(address) or address == HOST:",
    ),
    Mutant(
        "wait-tells-no-tasks",
        "The answer to a `task_wait` says that no task runs.",
        "agent.waiting",
        "    for call in due:\n"
        "        state = _with_answer(state, call, prompts.waited(addresses(state.address, state.background)))\n",
        "    for call in due:\n        state = _with_answer(state, call, prompts.waited([]))\n",
    ),
)

DENIED: Final = (
    Mutant(
        "denied-task-keeps-its-room",
        "The room of a background task that is denied before it begins stays reserved.",
        "supervisor.reserving",
        '        kept = kept.less("ends", for_end)',
        '        kept.less("ends", for_end)',
    ),
    Mutant(
        "denied-task-keeps-its-frame",
        "The words around the end of a background task that never begins stay reserved.",
        "supervisor.reserving",
        '        kept = kept.less("ends", for_end)',
        '        kept = kept.less("ends", need_of(ancestry, delegation.room))',
    ),
    Mutant(
        "denied-task-still-counted",
        "A background task that is denied before it begins still counts against max_children.",
        "supervisor.ending",
        "len(delegation.racers) * delegation.is_background\n",
        "len(delegation.racers) * (delegation.is_background and not delegation.is_checking)\n",
    ),
    Mutant(
        "denied-racers-counted-once",
        "A background race that is denied before it begins gives back the place of one racer.",
        "supervisor.ending",
        "len(delegation.racers) * delegation.is_background\n",
        "(1 if delegation.is_checking else len(delegation.racers)) * delegation.is_background\n",
    ),
    Mutant(
        "denied-task-ends-like-a-task",
        "The room of a background task that is denied before it begins is kept until a request has its end.",
        "supervisor.reserving",
        "    if delegation.is_background and not delegation.is_checking:\n",
        "    if delegation.is_background:\n",
    ),
    Mutant(
        "denied-takes-two-rooms",
        "A background task that is denied before it begins gives back the room of another one, too.",
        "supervisor.reserving",
        '        kept = kept.less("ends", for_end)',
        '        kept = kept.less("ends", add(for_end, for_end))',
    ),
    Mutant(
        "task-without-its-frame",
        "A background task reserves no room for the words around its end.",
        "supervisor.reserving",
        "    end = need_of(ancestry, size + _frame(address))\n",
        "    end = need_of(ancestry, size)\n",
    ),
)

ONE_BY_ONE: Final = (
    Mutant(
        "numbers-of-the-unheard",
        "Words are numbered among those that are unheard, so words after a grant have an old number.",
        "supervisor.telling",
        "    number = record.told + 1\n",
        "    number = record.unheard.size + 1\n",
    ),
    Mutant(
        "one-heard-a-grant",
        "A grant tells one `Tell` only as heard.",
        "supervisor.telling",
        "    while (first := unheard.first()) is not None and first[0] <= granted.told:\n",
        "    if (first := unheard.first()) is not None and first[0] <= granted.told:\n",
    ),
    Mutant(
        "two-heard-a-grant",
        "A grant tells at most two `Tell`s as heard.",
        "supervisor.telling",
        "    while (first := unheard.first()) is not None and first[0] <= granted.told:\n",
        "    for _ in range(2):\n"
        "        if (first := unheard.first()) is None or first[0] > granted.told:\n"
        "            break\n",
    ),
    Mutant(
        "heard-by-its-place",
        "The words in a request are told to the supervisor by their count, and not by their number.",
        "agent.turns",
        "    told, ends = max(word.number for word in heard), sum(not word.number for word in heard)\n",
        "    told, ends = sum(word.number > 0 for word in heard), sum(not word.number for word in heard)\n",
    ),
    Mutant(
        "heard-by-the-first",
        "The words in a request are told to the supervisor by the number of the first.",
        "agent.turns",
        "    told, ends = max(word.number for word in heard), sum(not word.number for word in heard)\n",
        "    told = next((word.number for word in heard if word.number), 0)\n"
        "    ends = sum(not word.number for word in heard)\n",
    ),
    Mutant(
        "words-with-ends-unheard",
        "Words in a request that has the end of a task, too, are not told as heard.",
        "agent.turns",
        "    told, ends = max(word.number for word in heard), sum(not word.number for word in heard)\n",
        "    ends = sum(not word.number for word in heard)\n"
        "    told = 0 if ends else max(word.number for word in heard)\n",
    ),
    Mutant(
        "tells-still-counted",
        "Words that were heard still count as unheard, so a parked agent is woken for none.",
        "agent.turns",
        "    background = replace(state.background, words=NOTHING_UNHEARD, tells=0)\n",
        "    background = replace(state.background, words=NOTHING_UNHEARD)\n",
    ),
    Mutant(
        "heard-words-come-back",
        "A grant keeps the words that it has told as heard if others are unheard.",
        "supervisor.telling",
        "    return agent if unheard is agent.unheard else replace(agent, unheard=unheard)",
        "    return agent if unheard.size else replace(agent, unheard=unheard)",
    ),
)
