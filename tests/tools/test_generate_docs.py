"""The generated pages and pictures agree with the code."""

import inspect
import re
from types import ModuleType

import pytest

from callboard.actors.agent.phases import AGENT
from callboard.actors.protocol.limits import Limits
from tests.tables import table
from tests.test_architecture import MAY_IMPORT
from tools.architecture_docs import VERBS, architecture_picture, direct, floor_of
from tools.generate_docs import DOCS, PAGES
from tools.lane_chart import lane_chart, lanes, wrapped
from tools.names_docs import api_page, reference_page
from tools.public_names import public_modules
from tools.reference_docs import limits_page
from tools.states_docs import agent_moves, supervisor_moves
from tools.supervisor_phases import AGENT_MOVES, DELEGATION_MOVES, SESSION_MOVES


@pytest.mark.parametrize("name", PAGES)
def test_the_committed_page_agrees_with_the_code(name: str) -> None:
    assert (DOCS / name).read_text() == PAGES[name](), "run: make docs"


def test_every_move_of_every_table_is_an_arrow() -> None:
    for moves in (SESSION_MOVES, AGENT_MOVES, DELEGATION_MOVES):
        assert {(before, after) for before, after, _ in supervisor_moves(moves)} == moves.keys()
    arrows = {(before, kind, after) for before, after, kinds in agent_moves() for kind in kinds.split(", ")}
    for phase, row in AGENT.items():
        for kind, targets in row.items():
            for after in targets:
                assert (phase, kind.__name__, after) in arrows


def test_a_lane_chart_has_a_lane_for_each_state_and_a_label_for_each_move() -> None:
    moves = [("a b", "c", "Begin"), ("c", "c", "Stop & go"), ("c", "a b", "Ask")]
    drawn = lane_chart("States", moves)
    assert lanes(moves, "") == ["a b", "c"]
    assert lanes(moves, "c") == ["c", "a b"]
    assert drawn.count('class="box"') == 2
    assert drawn.count("marker-end") == 3
    assert ">Stop &amp; go<" in drawn


def test_long_labels_are_wrapped_and_lose_no_message() -> None:
    names = [f"MessageNumber{n}" for n in range(12)]
    lines = wrapped(", ".join(names))
    assert len(lines) > 1
    assert " ".join(lines).replace(",", "").split() == names


def test_the_picture_of_the_imports_has_every_part_and_only_direct_arrows() -> None:
    graph = direct(MAY_IMPORT)
    assert MAY_IMPORT.keys() <= graph.keys()
    assert graph["replay"] == {"runtime/log"}
    assert graph["actors/session"] == {"actors/supervisor"}
    assert graph["actors/supervisor"] == {"actors/agent"}
    assert floor_of("actors/protocol", graph) == 0
    drawn = architecture_picture()
    assert drawn.count('class="box"') == len(graph)
    assert drawn.count("marker-end") == sum(map(len, graph.values()))


def test_every_part_of_the_picture_has_a_description() -> None:
    assert VERBS.keys() == direct(MAY_IMPORT).keys()


def test_every_limit_is_described() -> None:
    page = limits_page("")
    for name in Limits.__struct_fields__:
        assert f"| `{name}` |" in page


def test_every_public_name_is_in_the_reference() -> None:
    page = api_page("")
    assert page.count("::: ") == sum(len(module.__all__) for module in public_modules())
    assert "::: callboard.Agent" in page
    for module in public_modules():
        listed = re.findall(r"^## (\w+)$", reference_page("", module.__name__), re.MULTILINE)
        assert sorted(listed) == sorted(module.__all__)


def test_the_reference_has_the_signature_and_one_line_of_a_name() -> None:
    page = reference_page("", "callboard.log")
    entry = page[page.index("## SQLiteLog") :]
    assert "class SQLiteLog(\n    path: str | Path,\n" in entry
    assert "- `await close()`: " in entry
    assert "SessionStatus = Literal[" in page


@table("module", list(public_modules()), ids=lambda module: module.__name__)
def test_every_method_of_a_public_class_has_a_docstring(module: ModuleType) -> None:
    """The site leaves out a method without a docstring, its own or an inherited one."""
    classes = {name: value for name in module.__all__ if inspect.isclass(value := getattr(module, name))}
    bare = [
        f"{name}.{member}"
        for name, kind in classes.items()
        for member, value in inspect.getmembers(kind, inspect.isfunction)
        if value.__module__.startswith("callboard.") and not member.startswith(("_", "test_"))
        if not inspect.getdoc(value)
    ]
    assert not bare
