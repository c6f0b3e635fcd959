"""Mutants of delegations that wait while a resume changes the agents of their session."""

from typing import Final

from tests.mutants.mutant import Mutant

CHANGING: Final = (
    Mutant(
        "gone-not-looked-for",
        "A delegation whose agent is gone by the time it goes on fails its session.",
        "supervisor.resolving",
        "            if name not in state.profiles:\n                return",
        "            if not name:\n                return",
    ),
    Mutant(
        "gone-without-a-name",
        "The parent is not told which agent is gone.",
        "supervisor.resolving",
        "f\"agent '{name}' is gone: ",
        '"an agent is gone: ',
    ),
    Mutant(
        "changed-not-checked",
        "An agent that is broken by now, or takes another input, begins once its delegation has waited.",
        "supervisor.resolving",
        "CHECKS_OF_PROFILES if state.rules >= CHECKED_AGAIN_SINCE else ()",
        "()",
    ),
    Mutant(
        "changed-begins-without-context",
        "An agent that wants a context only since the resume begins without one.",
        "supervisor.contexts",
        "if profile.is_prepared and profile.name not in made:",
        "if False:",
    ),
    Mutant(
        "made-context-not-seen",
        "An agent whose context is made cannot begin.",
        "supervisor.contexts",
        "profile.is_prepared and profile.name not in made:",
        "profile.is_prepared:",
    ),
    Mutant(
        "gone-leaves-the-line-first",
        "A delegation in line whose agent is gone frees places that it never had.",
        "supervisor.delegating",
        "        end_delegation(work, parent, delegation, profiles.kind",
        "        out_of_line(work, parent, delegation)\n"
        "        end_delegation(work, parent, delegation, profiles.kind",
    ),
    Mutant(
        "gone-ends-the-line",
        "The line of a program stops behind a delegation whose agent is gone.",
        "supervisor.line",
        "            go_on.delegation(work, *first)\n",
        "            go_on.delegation(work, *first)\n"
        "            if work.delegation(address, first[1].key) is None:\n"
        "                break\n",
    ),
)
