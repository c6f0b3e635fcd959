"""Mutants of the supervisor: reports, ends and stops, delegations."""

from typing import Final

from tests.mutants.mutant import Mutant

REPORTS: Final = (
    Mutant(
        "report-of-the-ended",
        "A report that is posted after its sender has ended is queued as if it were in time.",
        "supervisor.reports",
        "if record and record.is_running else None",
        "if record else None",
    ),
    Mutant(
        "all-judged-at-once",
        "A report is sent to be checked while an earlier one of its delegation is still being checked.",
        "supervisor.reports",
        "    if queue.size == 1:",
        "    if queue.size:",
    ),
    Mutant(
        "line-numbers-used-again",
        "A report is numbered by the number of waiting reports, so a report after a judgement overwrites "
        "one that waits.",
        "supervisor.reports",
        "parent_of(sender), delegation.reports",
        "parent_of(sender), delegation.pending.size",
    ),
    Mutant(
        "last-report-first",
        "Of several waiting reports, the last one is judged first.",
        "supervisor.reports",
        "    first = delegation.pending.first()\n",
        "    first = max(delegation.pending.items(), key=lambda item: item[0])\n",
    ),
    Mutant(
        "pending-dropped-at-the-end",
        "A delegation whose last agent has ended fails although a report of that agent is being checked.",
        "supervisor.ending",
        "delegation.running or delegation.pending.size or delegation.is_checking",
        "delegation.running or delegation.is_checking",
    ),
    Mutant(
        "only-the-first-late",
        "Of the reports that wait when their delegation ends, only the first is judged `late`.",
        "supervisor.ending",
        "        judge_late(work, pending)\n    if STATUS",
        "        judge_late(work, pending)\n        break\n    if STATUS",
    ),
    Mutant(
        "waiting-for-a-check-forgotten",
        "Of the delegations that wait for one check of their schema, only the first begins.",
        "supervisor.reports",
        "    for parent, key in check.others.values():\n",
        "    for parent, key in list(check.others.values())[:0]:\n",
    ),
    Mutant(
        "failed-check-tried-once",
        "When a check fails, no new check is requested for the delegations that waited for it.",
        "supervisor.reports",
        '        if checked.status == "failed":\n            ask_schema(work, parent, other, parent, "accept")\n'
        "        else:\n",
        '        if checked.status != "failed":\n',
    ),
    Mutant(
        "type-forgotten",
        "A report is checked without the type of its agent's profile.",
        "supervisor.delegating",
        "schema, output_type = profile.schema, profile.output_type",
        'schema, output_type = profile.schema, ""',
    ),
    Mutant(
        "refused-schema-remembered",
        "A schema that was refused once counts as accepted the next time.",
        "supervisor.reports",
        'is_good=checked.status == "ok")',
        "is_good=True)",
    ),
)

ENDINGS: Final = (
    Mutant(
        "racer-forgotten",
        "When a racer wins, the last of the racers is not stopped, unless it is the winner.",
        "supervisor.ending",
        "    for ordinal in delegation.racers:\n        other =",
        "    for ordinal in delegation.racers[:-1] or delegation.racers:\n        other =",
    ),
    Mutant(
        "inner-delegations-not-ended",
        "The delegations of those below a stopped agent are not ended.",
        "supervisor.ending",
        "for delegation in record.delegations.values() if record else ():",
        "for delegation in record.delegations.values() if record and below == address else ():",
    ),
    Mutant(
        "stop-without-grant",
        "A Stop never says that a model call is in flight, so its agent has drained before the answer comes.",
        "supervisor.ending",
        "Stop(kind, record.granted))\n    retire",
        "Stop(kind))\n    retire",
    ),
    Mutant(
        "deadline-not-cancelled",
        "The deadline of an agent that ends in its back-off is not cancelled.",
        "supervisor.ending",
        "        work.cancel_timer(record.deadline_timer)\n",
        "        if not record.turn_timer:\n            work.cancel_timer(record.deadline_timer)\n",
    ),
    Mutant(
        "parked-place-kept",
        "An agent that is stopped while it waits for a budget keeps its place there.",
        "supervisor.ending",
        "    if record.wanted is not None:\n        leave",
        "    if record.wanted is not None and not record.wanted.scope:\n        leave",
    ),
    Mutant(
        "loser-spend-lost",
        "The usage of a racer that has drained before its delegation ends is missing in the end's usage.",
        "supervisor.ending",
        "    used, unsettled = delegation.used, Need()",
        "    used, unsettled = Usage(), Need()",
    ),
    Mutant(
        "ended-twice",
        "A delegation stays in its parent's record after its end, unless a schema was asked for.",
        "supervisor.ending",
        "    if ancestry is not None:\n        _leave_parent",
        '    if ancestry is not None and (delegation.schema != NULL or STATUS[kind] == "ok"):\n'
        "        _leave_parent",
    ),
)

DELEGATING: Final = (
    Mutant(
        "depth-off-by-one",
        "Agents may nest one level deeper than the limit says.",
        "supervisor.resolving",
        "if parent.depth >= (limits.max_depth or 0):",
        "if parent.depth > (limits.max_depth or 0):",
    ),
    Mutant(
        "children-off-by-one",
        "One more child in a turn than the limit says.",
        "supervisor.resolving",
        "len(wanted.request.profiles) <= (parent.limits.max_children or 0):",
        "len(wanted.request.profiles) <= (parent.limits.max_children or 0) + 1:",
    ),
    Mutant(
        "agents-off-by-one",
        "One more agent in a session than the limit says.",
        "supervisor.resolving",
        "state.agents + len(request.profiles) <= most:",
        "state.agents + len(request.profiles) <= most + 1:",
    ),
    Mutant(
        "delegate-of-the-stopped",
        "A delegation that is posted before its sender is stopped, and handled after, begins.",
        "supervisor.delegating",
        "    if ancestry is None or not ancestry[-1].is_running:\n        detail",
        "    if ancestry is None or ancestry[-1].is_drained:\n        detail",
    ),
    Mutant(
        "delegate-of-the-stopped-unanswered",
        "A delegation that is posted before its sender is stopped, and handled after, never ends.",
        "supervisor.delegating",
        '        end = DelegationEnded(request.turn, request.call, "cancelled", '
        "detail=detail, by=work.seq)\n"
        "        work.post(sender, end)\n",
        "",
    ),
    Mutant(
        "ordinal-taken-late",
        "A delegation that is refused takes no ordinal.",
        "supervisor.delegating",
        "    work.update_record(parent.address, next_ordinal=first + len(request.profiles), kept=kept)\n    work.post",
        "    work.update_record(parent.address, next_ordinal=first, kept=kept)\n    work.post",
    ),
    Mutant(
        "begins-under-the-stopped",
        "A delegation whose schema is being checked when its parent is stopped still begins.",
        "supervisor.ending",
        "        for delegation in record.delegations.values() if record else ():\n",
        "        for delegation in record.delegations.values() if record else ():\n"
        "            if delegation.is_checking and below != HOST:\n"
        "                continue\n",
    ),
    Mutant(
        "denied-race-begins-partly",
        "A race that names an unknown agent begins with the others.",
        "supervisor.resolving",
        "        for name in request.profiles:\n            if name not in parent.profile.agents",
        "        for name in request.profiles[:1]:\n            if name not in parent.profile.agents",
    ),
    Mutant(
        "wider-limits",
        "A child has the limits of its own profile and call where those are wider than its parent's.",
        "supervisor.delegating",
        "        limits=narrow(above, own),\n",
        "        limits=fill(own, above),\n",
    ),
    Mutant(
        "parents-words-in-the-prompt",
        "A child gets its parent's last words in its prompt.",
        "supervisor.delegating",
        "            prompt=request.prompt,",
        "            prompt=Json(b'\"' + record.text.encode() + b'\"') if record.text.isascii() and record.text else request.prompt,",
    ),
)
