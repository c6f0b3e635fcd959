"""Mutants of the capacity that sessions share: of the policy, and of the places of a session."""

from typing import Final

from tests.mutants.mutant import Mutant

POLICY: Final = (
    Mutant(
        "one-call-too-many",
        "One call more than the limit is in flight.",
        "session.capacity",
        "len(self._held) >= self.limits.calls",
        "len(self._held) > self.limits.calls",
    ),
    Mutant(
        "session-stays-in-front",
        "A session that was given a place stays at the front as long as it waits.",
        "session.capacity",
        "self._ring.move_to_end(session)",
        "self._ring.move_to_end(session, last=False)",
    ),
    Mutant(
        "newest-session-first",
        "The session that joined the line last is next.",
        "session.capacity",
        "next(iter(self._ring.items()))",
        "next(reversed(self._ring.items()))",
    ),
    Mutant(
        "newest-request-first",
        "Of the requests of a session the last one is next.",
        "session.capacity",
        "*next(iter(requests.items()))",
        "*next(reversed(requests.items()))",
    ),
    Mutant(
        "smallest-need-first",
        "The session whose request needs least passes the others.",
        "session.capacity",
        "session, requests = next(iter(self._ring.items()))",
        "session, requests = min(self._ring.items(), key=lambda item: next(iter(item[1].values())))",
    ),
    Mutant(
        "one-place-at-a-time",
        "Of several requests that fit, only the first is given its place.",
        "session.capacity",
        "        while self._ring and not self._want():",
        "        if self._ring and not self._want():",
    ),
    Mutant(
        "bucket-not-charged",
        "A place takes nothing out of the bucket.",
        "session.capacity",
        "            self._level -= tokens * MINUTE_MS\n",
        "",
    ),
    Mutant(
        "above-the-bucket-never",
        "A need above the bucket waits for tokens that the bucket cannot hold.",
        "session.capacity",
        "min(self._head()[2] * MINUTE_MS, self._full)",
        "self._head()[2] * MINUTE_MS",
    ),
    Mutant(
        "above-the-bucket-at-once",
        "A need above the bucket is given before the bucket is full.",
        "session.capacity",
        "min(self._head()[2] * MINUTE_MS, self._full)",
        "self._head()[2] * MINUTE_MS if self._head()[2] * MINUTE_MS <= self._full else 0",
    ),
    Mutant(
        "no-debt",
        "A need above the bucket leaves it empty, not below zero.",
        "session.capacity",
        "            self._level -= tokens * MINUTE_MS\n",
        "            self._level = max(0, self._level - tokens * MINUTE_MS)\n",
    ),
    Mutant(
        "unused-tokens-lost",
        "Tokens that a call did not use do not return to the bucket.",
        "session.capacity",
        "self._level + (tokens - used) * MINUTE_MS",
        "self._level",
    ),
    Mutant(
        "unknown-use-returns",
        "The need of a call whose usage is not known returns to the bucket.",
        "session.capacity",
        "        elif used is not None:\n",
        "        else:\n            used = used or 0\n",
    ),
    Mutant(
        "overfilled-by-a-return",
        "Tokens that return fill the bucket beyond its size.",
        "session.capacity",
        "min(self._full, self._level + (tokens - used) * MINUTE_MS)",
        "self._level + (tokens - used) * MINUTE_MS",
    ),
    Mutant(
        "time-counts-twice",
        "The time since the first look at a bucket fills it again at each look.",
        "session.capacity",
        "            self._at = now\n\n",
        "\n",
    ),
    Mutant(
        "withdrawn-stays-in-line",
        "A request that was given up stays in the line.",
        "session.capacity",
        "        if tokens is None:\n            self._remove(session, agent)\n",
        "        if tokens is None:\n            pass\n",
    ),
    Mutant(
        "place-of-an-answered-call",
        "A place is not free when its call has its answer.",
        "session.capacity",
        "tokens = self._held.pop((session, agent), None)",
        "tokens = self._held.get((session, agent), None)",
    ),
    Mutant(
        "leaves-with-one-place",
        "A session that leaves gives back only one of its requests and places.",
        "session.capacity",
        "list(self._models.get(session, ()))",
        "list(self._models.get(session, ()))[:1]",
    ),
)

PLACES: Final = (
    Mutant(
        "call-without-a-place",
        "A limited model is called without a place.",
        "supervisor.turns",
        "    if model not in work.state.capacity:",
        "    if model not in work.state.capacity[1:]:",
    ),
    Mutant(
        "waiting-takes-no-slot",
        "The slot of a request that is given up is not free.",
        "supervisor.turns",
        "held=None)\n    work.put_records(ancestry)\n    work.in_flight -= 1\n",
        "held=None)\n    work.put_records(ancestry)\n",
    ),
    Mutant(
        "waiting-is-charged",
        "An agent that is stopped while it waits is charged its reservation.",
        "supervisor.turns",
        "budgets.settle(ancestry, need, ZERO)",
        "budgets.settle(ancestry, need, budgets.charge_of(need, None))",
    ),
    Mutant(
        "stopped-agent-is-called",
        "A place that comes after the Stop makes a call.",
        "supervisor.turns",
        '    if wanted is not None and given.status == "given":',
        '    if given.status == "given":',
    ),
    Mutant(
        "drains-before-the-answer",
        "An agent that has stopped leaves the tree while its request waits for a place.",
        "supervisor.ending",
        "    if record.held is not None:  #",
        "    if record.held is None and not record.address:  #",
    ),
    Mutant(
        "leaver-forgotten",
        "An agent that had stopped does not drain with the answer.",
        "supervisor.turns",
        "    if agent.is_leaving:\n        leave_tree(work, given.agent)\n\n\ndef on_budget_given",
        "    if agent.is_leaving and agent.is_drained:\n"
        "        leave_tree(work, given.agent)\n"
        "\n"
        "\n"
        "def on_budget_given",
    ),
    Mutant(
        "release-wakes-no-agent",
        "The budget of a request that is given up wakes no agent that waits for it.",
        "supervisor.turns",
        "    wake_along(work, ancestry)\n"
        "    if agent.is_leaving:\n"
        "        leave_tree(work, given.agent)\n"
        "\n"
        "\n"
        "def on_budget_given",
        "    if agent.is_leaving:\n        leave_tree(work, given.agent)\n\n\ndef on_budget_given",
    ),
    Mutant(
        "reserved-while-waiting-kept",
        "The reservation of a request that is given up stays in its agent's scope.",
        "supervisor.turns",
        "replace(agent, reserved=reserved, held=None)",
        "replace(agent, held=None)",
    ),
    Mutant(
        "answer-gives-nothing-back",
        "The answer of a call does not give its place back.",
        "session.port_gate",
        "            actions.append(GiveBack(event.recipient, body.usage))\n",
        "            pass\n",
    ),
    Mutant(
        "usage-not-told",
        "A place is given back as if its call had used nothing.",
        "session.port_gate",
        "GiveBack(event.recipient, body.usage)",
        "GiveBack(event.recipient, ZERO)",
    ),
    Mutant(
        "stop-gives-nothing-back",
        "The Stop of an agent between its place and its call does not give the place back.",
        "session.port_gate",
        "            actions.append(GiveBack(who, ZERO))\n",
        "",
    ),
    Mutant(
        "stop-frees-a-call-in-flight",
        "The Stop of an agent gives back the place of its call that is still in flight.",
        "session.port_gate",
        "if who in self.places and not requests:",
        "if who in self.places:",
    ),
    Mutant(
        "late-place-kept",
        "A place whose agent was stopped while it waited counts as that agent's.",
        "session.port_gate",
        " and request is not None and not request.is_unwanted:",
        " and request is not None:",
    ),
    Mutant(
        "drained-agent-gets-a-place",
        "After a resume the port is asked again for a place of an agent that was stopped and has drained.",
        "session.port_gate",
        "opened is None or not (opened.is_given_up or opened.is_unwanted)",
        "opened is None or not (opened.is_given_up or opened.owner in self._stopped)",
    ),
    Mutant(
        "places-outlive-their-process",
        "A resumed call starts with the place of an earlier process.",
        "session.recovery",
        "        self.gate.places.clear()",
        "        self.gate.places.copy()",
    ),
)
