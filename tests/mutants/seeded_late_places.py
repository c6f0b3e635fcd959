"""Mutants of places that are given up late: on their way to an agent that has been stopped meanwhile."""

from typing import Final

from tests.mutants.mutant import Mutant

LATE: Final = (
    Mutant(
        "late-place-of-a-new-life",
        "A place counts for an agent that has begun again since it was stopped.",
        "session.port_gate",
        "request is not None and not request.is_unwanted:\n",
        "request is not None and request.owner not in self._stopped:\n",
    ),
    Mutant(
        "place-of-the-first-only",
        "Only one agent of a session has a place at a time.",
        "session.port_gate",
        "            self.places.add(body.agent)\n",
        "            self.places = {body.agent}\n",
    ),
    Mutant(
        "late-cancel-keeps-the-reserve",
        "A cancelled request for a place keeps its reservation in the scopes above its agent.",
        "supervisor.turns",
        "    ancestry[-1] = replace(agent, reserved=reserved, held=None)\n    work.put_records(ancestry)\n",
        "    ancestry[-1] = replace(agent, reserved=reserved, held=None)\n    work.put_record(ancestry[-1])\n",
    ),
    Mutant(
        "lost-request-not-repeated",
        "A request for a place that the port has lost is not made again.",
        "supervisor.turns",
        "    elif wish is not None:\n        join",
        "    elif wish is not None and not isinstance(given, CapacityGiven):\n        join",
    ),
    Mutant(
        "ended-agent-leaves-at-once",
        "An agent that waited for a place leaves the tree with the answer although it has not drained.",
        "supervisor.turns",
        "    if agent.is_leaving:\n",
        "    if not agent.is_running:\n",
    ),
    Mutant(
        "gives-back-the-wrong-place",
        "The answer of a call gives back the place of any agent of the session.",
        "session.port_gate",
        "            self.places.remove(event.recipient)\n",
        "            self.places.remove(min(self.places))\n",
    ),
)
