"""Mutants of the polite end of a process."""

from typing import Final

from tests.mutants.mutant import Mutant

DETACHING: Final = (
    Mutant(
        "detached-is-an-attempt",
        "A model call that a polite end cut off counts as an attempt.",
        "agent.failed_calls",
        "    if reply.status in CUT_OFF:",
        '    if reply.status == "detached":\n'
        "        return ask_again(state, settled, 0)\n"
        "    if reply.status in CUT_OFF:",
    ),
    Mutant(
        "detached-is-charged-in-full",
        "A model call that a polite end cut off is charged its reservation.",
        "agent.decider",
        '    settled = Settled(usage, said.text if said else "")\n',
        '    settled = Settled(None if reply.status == "detached" else usage, said.text if said else "")\n',
    ),
    Mutant(
        "detached-decides-on",
        "An actor still decides on the answers that come after its process began to detach.",
        "session.core",
        "        self.mailboxes = {CLIENT: self.mailboxes.get(CLIENT, _drop)}\n",
        "        pass\n",
    ),
    Mutant(
        "detached-stays-open",
        "A polite end leaves model calls without an answer.",
        "session.port_table",
        "    detached=_model_detached,\n",
        "",
    ),
)
