"""Mutants of orders: a message that comes late, too early or first, and what is done about it.

They were written down from the core alone, before the tests were read. Of the thirty-two written
down, the others are mutants of other files already, or are found by unit tests only, since simulated ports
never answer in that order.
"""

from typing import Final

from tests.mutants.mutant import Mutant

CROSSING: Final = (
    Mutant(
        "parents-stopped-first",
        "An agent is stopped before those below it.",
        "supervisor.ending",
        "    return found[::-1]\n\n\ndef stop_one",
        "    return found\n\n\ndef stop_one",
    ),
    Mutant(
        "close-waits-for-no-ask",
        "A close that comes during an ask closes the session before the outcome.",
        "supervisor.asks",
        '        cancel_ask(work, "the session was closed")\n    else:\n        _close(work)\n',
        '        cancel_ask(work, "the session was closed")\n    _close(work)\n',
    ),
    Mutant(
        "last-agent-need-not-drain",
        "An ask ends while one agent has not drained.",
        "supervisor.asks",
        "    if work.state.live and not is_grace_over:\n",
        "    if work.state.live > 1 and not is_grace_over:\n",
    ),
    Mutant(
        "begins-one-answer-early",
        "A delegation that waits for several answers begins with the last but one.",
        "supervisor.contexts",
        "    if delegation.waits > 1:\n",
        "    if delegation.waits > 2:\n",
    ),
    Mutant(
        "stop-waits-for-an-ungranted-turn",
        "An agent whose request crosses its stop waits for an answer that no model gives.",
        "agent.decider",
        "    is_model_out = may_be_out and is_granted\n",
        "    is_model_out = may_be_out\n",
    ),
    Mutant(
        "change-of-the-stopped",
        "A change of tools counts although its maker was stopped before.",
        "supervisor.tool_changes",
        "    return sender == CLIENT or (maker is not None and maker.is_running)\n",
        "    return sender == CLIENT or maker is not None\n",
    ),
    Mutant(
        "newest-event-first",
        "A resume lets the events that a crash left be handled from the newest to the oldest.",
        "session.recovery",
        "            event = self.inbox.popleft()\n",
        "            event = self.inbox.pop()\n",
    ),
)
