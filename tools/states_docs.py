"""docs/states.md and its pictures: every state of the core, and which messages lead where."""

import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Final

from callboard.actors.agent import phases as agent_phases
from callboard.actors.agent.phases import AGENT
from tools import supervisor_phases
from tools.lane_chart import Move, lane_chart
from tools.supervisor_phases import AGENT_MOVES, DELEGATION_MOVES, ENDING, SESSION_MOVES, SETTLING, Moves

ENDS: Final = ("draining", "ended", "ending")
"""States that an end leads to."""

PAGE: Final = """\
# States

The session, its agents and its delegations are each in one of a few states.
A message changes the state of its recipient only if an arrow below has its name.

An agent follows the table in `actors/agent/phases.py`.
The supervisor is compared with the tables in `tools/supervisor_phases.py` in thousands of simulated sessions.

## The session

![The states of a session](img/states-session.svg)

## A delegation

![The states of a delegation](img/states-delegation.svg)

## An agent, as the supervisor sees it

![The states of an agent, as the supervisor sees it](img/states-supervised-agent.svg)

```
{supervised}
```

*An end* is one of {ends}.
{end}

*Room* is made by the same messages, most often by {settlements}.
{settlement}

## An agent, as it sees itself

![The states of an agent, as it sees itself](img/states-agent.svg)

```
{phases}
```

A decider that raises leads from any phase to `failed`.
If it raises again while it is `failed` or `stopping`, the agent goes to `idle` at once.
"""


def states_page(notice: str) -> str:
    """Write docs/states.md."""
    return f"{notice}\n\n" + PAGE.format(
        supervised="\n".join(_indented(supervisor_phases.__doc__)),
        ends=_listed(ENDING),
        end=_note_below(supervisor_phases, "ENDING"),
        settlements=_listed(SETTLING),
        settlement=_note_below(supervisor_phases, "SETTLING"),
        phases="\n".join(_indented(agent_phases.__doc__)),
    )


def session_picture() -> str:
    """Draw the states of a session."""
    return lane_chart("The states of a session", supervisor_moves(SESSION_MOVES))


def delegation_picture() -> str:
    """Draw the states of a delegation."""
    return lane_chart("The states of a delegation", supervisor_moves(DELEGATION_MOVES))


def supervised_agent_picture() -> str:
    """Draw the states of an agent, as the supervisor sees it."""
    return lane_chart("The states of an agent, as the supervisor sees it", supervisor_moves(AGENT_MOVES))


def agent_picture() -> str:
    """Draw the states of an agent, as it sees itself."""
    return lane_chart("The states of an agent, as it sees itself", agent_moves())


def supervisor_moves(moves: Moves) -> Iterator[Move]:
    """Yield the moves of a table of the supervisor; long lists of messages get one word."""
    for (before, after), kinds in moves.items():
        word = "an end" if after in ENDS else "room"
        yield before, after, word if kinds == ENDING else _listed(kinds)


def agent_moves() -> Iterator[Move]:
    """Yield the moves of the agent's table."""
    for phase, row in AGENT.items():
        targets: dict[str, set[type]] = {}
        for kind, nexts in row.items():
            for after in nexts:
                targets.setdefault(after, set()).add(kind)
        yield from ((phase, after, _listed(kinds)) for after, kinds in targets.items())


def _listed(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def _indented(docstring: str | None) -> list[str]:
    """Return the indented lines of a docstring: its table."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    return [line.removeprefix("    ") for line in lines if line.startswith("    ")]


def _note_below(module: ModuleType, name: str) -> str:
    """Return the string below a constant in its module."""
    after = inspect.getsource(module).split(f"\n{name}: Final", 1)[1]
    return after.split('"""', 2)[1]
