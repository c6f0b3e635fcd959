"""docs/states.md is what the tables in the code say."""

import pytest

from callboard.actors.agent.phases import AGENT
from tools.generate_docs import DOCS, PAGES, diagram, states
from tools.supervisor_phases import AGENT_MOVES, DELEGATION_MOVES, SESSION_MOVES


@pytest.mark.parametrize("name", PAGES)
def test_what_is_committed_is_what_the_code_says(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run: python -m tools.generate_docs"


def test_every_move_of_every_table_is_an_arrow() -> None:
    page = states()
    for moves in (SESSION_MOVES, AGENT_MOVES, DELEGATION_MOVES):
        for then, now in moves:
            assert f"    {then.replace(' ', '_')} --> {now.replace(' ', '_')}: " in page
    for phase, row in AGENT.items():
        for kind, targets in row.items():
            for then in targets:
                assert f"    {phase} --> {then}: " in page
                assert kind.__name__ in page


def test_names_of_two_words_get_an_identifier() -> None:
    assert diagram("a b", [("a b", "c", "x")], ends=("c",)) == [
        "```mermaid",
        "stateDiagram-v2",
        '    state "a b" as a_b',
        "    [*] --> a_b",
        "    a_b --> c: x",
        "    c --> [*]",
        "```",
    ]
