"""Mutants that are wrong in a single forgotten case: ends, delegations and asks."""

from typing import Final

from tests.mutants.mutant import Mutant

ENDS: Final = (
    Mutant(
        "pending-dropped-in-a-race",
        "When the last racer ends, a report that is being checked does not keep the delegation open.",
        "supervisor.ending",
        "delegation.running or delegation.pending.size or delegation.is_checking",
        "delegation.running or (delegation.pending.size and len(delegation.racers) < 2) or "
        "delegation.is_checking",
    ),
    Mutant(
        "loser-in-back-off-forgotten",
        "A racer that waits for its next attempt when another one wins is not stopped.",
        "supervisor.ending",
        "        if other != address:\n            stop_one",
        "        if other != address and not (record and record.turn_timer):\n            stop_one",
    ),
    Mutant(
        "loser-without-its-grant",
        "The Stop of a racer that has lost does not say that its model call is in flight.",
        "supervisor.ending",
        "Stop(kind, record.granted))\n    retire",
        'Stop(kind, record.granted if kind != "lost_race" else (0, 0)))\n    retire',
    ),
    Mutant(
        "late-without-its-grant",
        "The Stop of an agent at its deadline does not say that its model call is in flight.",
        "supervisor.ending",
        "Stop(kind, record.granted))\n    retire",
        'Stop(kind, record.granted if kind != "deadline" else (0, 0)))\n    retire',
    ),
    Mutant(
        "leaver-by-another-not-counted",
        "The usage of an agent that leaves the tree when the last agent below it has drained is forgotten.",
        "supervisor.ending",
        "        if delegation is not None:\n            work.put_delegation",
        "        if delegation is not None and leaf.address == address:\n            work.put_delegation",
    ),
    Mutant(
        "check-numbers-used-again",
        "A check is numbered by the number of open checks, so two can have one number.",
        "supervisor.delegating",
        "schema, timeout = work.state.next_check, ",
        "schema, timeout = work.state.checks.size + 1, ",
    ),
    Mutant(
        "cancel-while-checking",
        "A cancel does not reach an ask whose schema is being checked.",
        "supervisor.asks",
        "    if ask is None or ask.outcome is not None:\n        return\n    stop_below",
        "    if ask is None or ask.outcome is not None or ask.delegation.is_checking:\n"
        "        return\n"
        "    stop_below",
    ),
    Mutant(
        "close-in-the-grace-forgotten",
        "A close that comes while an ask drains is forgotten.",
        "supervisor.asks",
        '    if work.state.phase == "new":\n        return\n',
        '    if work.state.phase == "new":\n'
        "        return\n"
        "    if work.state.ask is not None and work.state.ask.outcome is not None:\n"
        "        return\n",
    ),
    Mutant(
        "last-invalid-of-a-race",
        "A race whose racers have all ended stays open when their last report is invalid.",
        "supervisor.reports",
        "        fail_if_over(work, parent, delegation.key)",
        "        if len(delegation.racers) < 2:\n            fail_if_over(work, parent, delegation.key)",
    ),
    Mutant(
        "children-with-a-schema-not-counted",
        "Children whose schema is checked first do not count for the turn.",
        "supervisor.delegating",
        "taken = record.turn_children + count",
        "taken = record.turn_children + (count if schema == NULL or work.has_accepted(schema) else 0)",
    ),
    Mutant(
        "below-the-late-goes-on",
        "The agents below an agent go on after its deadline.",
        "supervisor.ending",
        "    stop_below(work, address)\n    stop_one(work, address, kind)",
        '    if kind != "deadline":\n        stop_below(work, address)\n    stop_one(work, address, kind)',
    ),
    Mutant(
        "host-drained-is-enough",
        "After a cancel the outcome is given when the host has drained, even if other agents have not.",
        "supervisor.asks",
        "    if work.state.live and not is_grace_over:",
        "    host = work.record(HOST)\n"
        '    is_over = ask.outcome.kind == "cancelled" and host is not None and '
        "host.is_drained\n"
        "    if work.state.live and not is_grace_over and not is_over:",
    ),
    Mutant(
        "agents-reset",
        "With each ask the count of the agents of the session restarts.",
        "supervisor.asks",
        "agents=max(1, state.agents))",
        "agents=1)",
    ),
    Mutant(
        "judged-after-the-outcome",
        "A report to the client that is being checked when the ask is cancelled can still be accepted.",
        "supervisor.unit_of_work",
        "if ask is None or ask.outcome is not None or ask.delegation.key != key:",
        "if ask is None or ask.delegation.key != key:",
    ),
    Mutant(
        "check-of-another-ask",
        "The answer to a check of an earlier ask is taken for the running ask.",
        "supervisor.unit_of_work",
        "if ask is None or ask.outcome is not None or ask.delegation.key != key:",
        "if ask is None or ask.outcome is not None:",
    ),
    Mutant(
        "stop-skips-the-line",
        "Agents below a stopped agent that wait for a model call go on.",
        "supervisor.ending",
        "        if below != address:\n            stop_one",
        "        if below != address and not (record and record.wanted and record.wanted.ticket):\n            stop_one",
    ),
    Mutant(
        "stop-skips-the-back-off",
        "Agents below a stopped agent that wait for their next attempt go on.",
        "supervisor.ending",
        "        if below != address:\n            stop_one",
        "        if below != address and not (record and record.turn_timer):\n            stop_one",
    ),
    Mutant(
        "stop-skips-the-checking",
        "Agents below a stopped agent whose own delegation waits for its schema go on.",
        "supervisor.ending",
        "        if below != address:\n            stop_one",
        "        if below != address and not (record and any(d.is_checking for d in "
        "record.delegations.values())):\n"
        "            stop_one",
    ),
    Mutant(
        "failure-counts-twice",
        "A racer that fails by itself just when it is stopped counts as two ended racers.",
        "supervisor.decider",
        "    if not record.is_running:\n        return\n    if finished.kind",
        '    if not record.is_running and finished.kind == "answered":\n        return\n    if finished.kind',
    ),
    Mutant(
        "answer-of-the-stopped-wins",
        "A racer that answers just at its deadline still wins.",
        "supervisor.decider",
        "    if not record.is_running:\n        return\n    if finished.kind",
        '    if not record.is_running and finished.kind != "answered":\n        return\n    if finished.kind',
    ),
    Mutant(
        "grant-of-the-crashed-kept",
        "An agent that fails twice leaves its reservation behind.",
        "supervisor.decider",
        "    Stopped: Handler(_on_stopped, settles=True, unaccounted=_UNKNOWN)",
        "    Stopped: Handler(_on_stopped, settles=True)",
    ),
    Mutant(
        "drained-above-the-last-stays",
        "An agent that drained before the last one below it stays in the tree.",
        "supervisor.ending",
        "        leaf = work.record(parent)\n",
        "        leaf = None\n",
    ),
    Mutant(
        "down-to-a-narrower-budget",
        "An agent that moves from a budget to a narrower one wakes no agent behind it.",
        "supervisor.line",
        "    if wish.scope and depth_of(wish.scope) < place:\n        _wake_next(work, wish.scope)\n",
        "",
    ),
    Mutant(
        "behind-an-invalid-one-of-a-race",
        "The report of a racer is not judged if the one before it was invalid and came from another racer.",
        "supervisor.reports",
        "    if delegation.pending.size:\n        _judge_next",
        "    following = delegation.pending.first()\n"
        "    if following is not None and following[1].address == first.address:\n"
        "        _judge_next",
    ),
    Mutant(
        "cancelled-without-its-grant",
        "The Stop of an agent below an ending one does not say that its model call is in flight.",
        "supervisor.ending",
        "Stop(kind, record.granted))\n    retire",
        'Stop(kind, record.granted if kind != "cancelled" else (0, 0)))\n    retire',
    ),
    Mutant(
        "deadline-during-a-call-forgotten",
        "A deadline that comes during a model call is forgotten.",
        "supervisor.timers",
        '        end_agent(work, timer.address, "deadline")\n',
        "        record = work.record(timer.address)\n"
        "        if record is None or record.grant is None:\n"
        '            end_agent(work, timer.address, "deadline")\n',
    ),
    Mutant(
        "winner-that-fails-never-drains",
        "A winner that fails before it has finished is not told to drain.",
        "supervisor.ending",
        '        work.post(address, Stop("crashed", record.granted))\n'
        "        work.update_record(address, is_stopped=True)\n",
        "        return\n",
    ),
    Mutant(
        "cancel-in-back-off-forgotten",
        "A cancel does not reach an ask whose host waits for its next attempt.",
        "supervisor.asks",
        "    if ask is None or ask.outcome is not None:\n        return\n    stop_below",
        "    host = work.record(HOST)\n"
        "    if ask is None or ask.outcome is not None or (host is not None and host.turn_timer):\n"
        "        return\n"
        "    stop_below",
    ),
)
