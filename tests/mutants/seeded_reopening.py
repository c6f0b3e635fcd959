"""Mutants of going on: a session that is reopened, and a resume with other limits or more time."""

from typing import Final

from tests.mutants.mutant import Mutant

_RESUMING: Final = "supervisor.resuming"

REOPENING: Final = (
    Mutant(
        "reopened-still-closing",
        "A session that is reopened is still about to close.",
        _RESUMING,
        'phase="open", is_closing=False',
        'phase="open"',
    ),
    Mutant(
        "any-resume-reopens",
        "Every resume opens a closed session again.",
        _RESUMING,
        'work.state.phase == "closed" and resumed.reopens',
        'work.state.phase == "closed"',
    ),
    Mutant(
        "resume-forgets-a-close",
        "A resume forgets a close that waits for the outcome of the running ask.",
        _RESUMING,
        '    if work.state.phase == "closed" and resumed.reopens:\n',
        '    if work.state.phase == "asking":\n'
        "        work.update_session(is_closing=False)\n"
        '    if work.state.phase == "closed" and resumed.reopens:\n',
    ),
    Mutant(
        "ordinals-begin-again",
        "The host of a further ask gives its agents the addresses of the earlier ones.",
        "supervisor.asks",
        "next_ordinal=former.next_ordinal if former else 1",
        "next_ordinal=1",
    ),
    Mutant(
        "spending-begins-again",
        "The host of a further ask has spent nothing.",
        "supervisor.asks",
        "    spent = host.spent if host else ZERO\n    timer",
        "    spent = ZERO\n    timer",
    ),
    Mutant(
        "limits-only-for-the-running-ask",
        "The limits of a resume hold for no later ask.",
        _RESUMING,
        "    work.update_session(limits=limits)\n    ask, host",
        "    ask, host",
    ),
    Mutant(
        "limits-only-for-the-next-ask",
        "The limits of a resume do not hold for the running ask.",
        _RESUMING,
        "    if ask is None:\n        return\n",
        "    if ask is None or host is not None:\n        return\n",
    ),
    Mutant(
        "limits-beyond-the-ask",
        "The limits of a resume replace those of the running ask, even narrower ones.",
        _RESUMING,
        "host_budget(own, ask.own, ask.before)",
        "host_budget(own, Limits(), ask.before)",
    ),
    Mutant(
        "limits-beyond-the-profile",
        "The limits of a resume replace those of the host's profile, even narrower ones.",
        _RESUMING,
        "own = narrow(limits, _limits_of_host(work))",
        "own = limits",
    ),
    Mutant(
        "resumed-ask-counts-from-the-start",
        "After a resume with limits the limits of the running ask count the earlier asks too.",
        _RESUMING,
        "host_budget(own, ask.own, ask.before)",
        "host_budget(own, ask.own, ask.before.__class__())",
    ),
    Mutant(
        "reserve-dropped-by-limits",
        "A resume with limits drops the reserve for the next turn of the host.",
        _RESUMING,
        "budget=host_budget(own, ask.own, ask.before))",
        "budget=host_budget(own, ask.own, ask.before), kept=host.kept.__class__())",
    ),
    Mutant(
        "every-timer-extended",
        "A resume with more time extends back-offs and graces too.",
        _RESUMING,
        'if timer.purpose == "deadline":',
        "if timer.purpose:",
    ),
    Mutant(
        "one-deadline-extended",
        "A resume with more time extends only the deadline that was set first.",
        _RESUMING,
        "            work.post(CLOCK, ExtendTimer(number, by_ms))\n",
        "            work.post(CLOCK, ExtendTimer(number, by_ms))\n            break\n",
    ),
    Mutant(
        "extended-from-the-start",
        "A timer that is extended is due that much after it was set.",
        "session.port_gate",
        "after_ms=arm.after_ms + body.by_ms",
        "after_ms=body.by_ms",
    ),
)

LEAVING: Final = (
    Mutant(
        "detached-unmeasured",
        "A model call that had not started when its process left is charged its reservation.",
        "session.port_table",
        '"detached", usage=ZERO',
        '"detached"',
    ),
    Mutant(
        "detached-to-the-asker",
        "The answer of a call that a polite end cut off goes to the supervisor.",
        "session.port_table",
        'Post(owner_of(request), ModelReplied(turn, attempt, "detached"',
        'Post(request.sender, ModelReplied(turn, attempt, "detached"',
    ),
    Mutant(
        "detached-of-another-attempt",
        "The answer of a call that a polite end cut off names the next attempt.",
        "session.port_table",
        'ModelReplied(turn, attempt, "detached"',
        'ModelReplied(turn, attempt + 1, "detached"',
    ),
    Mutant(
        "detached-tool-is-cancelled",
        "A tool that runs when its process leaves is answered as one that never started.",
        "session.port_table",
        "        after_crash=_tool_after_crash,\n",
        "        after_crash=_tool_after_crash,\n        detached=_tool_cancelled,\n",
    ),
)
