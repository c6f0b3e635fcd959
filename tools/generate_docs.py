"""Write the generated parts of docs/ from the code: `python -m tools.generate_docs`.

A test compares what is committed with what this makes. To add a page, add it to PAGES.
"""

import inspect
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Final

from callboard.actors.agent import phases as agent_phases
from callboard.actors.agent.phases import AGENT
from tools import supervisor_phases
from tools.cli_docs import cli_page
from tools.rules_docs import rules_page
from tools.supervisor_phases import (
    AGENT_MOVES,
    DELEGATION_MOVES,
    ENDING,
    SESSION_MOVES,
    SETTLING,
    Moves,
)

DOCS: Final = Path(__file__).parent.parent / "docs"
NOTICE: Final = "<!-- Generated from the code by `python -m tools.generate_docs`; do not edit. -->"

Edge = tuple[str, str, str]


def states() -> str:
    """The page with every state there is, and which message leads where."""
    return "\n".join(
        [
            NOTICE,
            "",
            "# States",
            "",
            "Drawn from tables in the code: `actors/agent/phases.py`, which the agents' decider obeys, and",
            "`tools/supervisor_phases.py`, which tests compare with what the supervisor does in thousands",
            "of sessions. A message that is on no arrow out of a state does not change that state.",
            "",
            "## The session",
            "",
            *diagram("new", _edges(SESSION_MOVES), ends=("closed",)),
            "",
            "## An agent, as it sees itself",
            "",
            *diagram("new", _agent_edges()),
            "",
            "A decider that raises leads from any phase to `failed`; one that raises again while it is",
            "`failed` or `stopping` goes to `idle` at once.",
            "",
            "## An agent, as the supervisor sees it",
            "",
            *diagram("gone", _edges(AGENT_MOVES)),
            "",
            "## A delegation",
            "",
            *diagram("new", _edges(DELEGATION_MOVES), ends=("ended",)),
            "",
            "## Words",
            "",
            f"*an end*: {_listed(ENDING)}. {_said_of(supervisor_phases, 'ENDING')}",
            "",
            f"*room*: any of these, most often a settlement ({_listed(SETTLING)}).",
            _said_of(supervisor_phases, "SETTLING"),
            "",
            "```",
            *_table(supervisor_phases.__doc__),
            "```",
            "",
            "The phases of an agent, as it sees itself:",
            "",
            "```",
            *_table(agent_phases.__doc__),
            "```",
            "",
        ]
    )


PAGES: Final = MappingProxyType[str, Callable[[], str]](
    {"cli.md": cli_page, "rules.md": lambda: rules_page(NOTICE), "states.md": states}
)
"""File in docs/ -> what is in it."""


def diagram(start: str, edges: Iterable[Edge], ends: tuple[str, ...] = ()) -> list[str]:
    """A state diagram in Mermaid, fenced."""
    edges = list(edges)
    names = sorted({name for then, now, _ in edges for name in (then, now)})
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f'    state "{name}" as {_id(name)}' for name in names if _id(name) != name]
    lines.append(f"    [*] --> {_id(start)}")
    lines += [f"    {_id(then)} --> {_id(now)}: {label}" for then, now, label in edges]
    lines += [f"    {_id(end)} --> [*]" for end in ends]
    return [*lines, "```"]


def _id(name: str) -> str:
    return name.replace(" ", "_")


def _edges(moves: Moves) -> Iterable[Edge]:
    for (then, now), kinds in moves.items():
        is_end = now in ("draining", "ended", "ending")
        yield then, now, ("an end" if is_end else "room") if kinds == ENDING else _listed(kinds)


def _agent_edges() -> Iterable[Edge]:
    for phase, row in AGENT.items():
        targets: dict[str, set[type]] = {}
        for kind, nexts in row.items():
            for then in nexts:
                targets.setdefault(then, set()).add(kind)
        yield from ((phase, then, _listed(found)) for then, found in targets.items())


def _listed(kinds: Iterable[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def _table(doc: str | None) -> list[str]:
    """The indented lines of a docstring."""
    lines = inspect.cleandoc(doc or "").splitlines()
    return [line.removeprefix("    ") for line in lines if line.startswith("    ")]


def _said_of(module: ModuleType, name: str) -> str:
    """The string below a constant in its module."""
    source = inspect.getsource(module)
    after = source.split(f"\n{name}: Final", 1)[1]
    return after.split('"""', 2)[1]


def main() -> None:
    """Write every page."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
