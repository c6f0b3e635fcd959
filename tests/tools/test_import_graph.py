"""The import graph knows modules by the names that users import."""

from pathlib import Path

from tools.import_graph import cycle, import_graph, module_name
from tools.sources import ROOT


def test_a_file_has_the_name_that_users_import() -> None:
    assert module_name(Path("actors/protocol/messages.py")) == "callboard.actors.protocol.messages"
    assert module_name(Path("actors/protocol/__init__.py")) == "callboard.actors.protocol"
    assert module_name(Path("callboard/cli/main.py")) == "callboard.cli.main"


def test_the_graph_holds_the_imports_between_the_given_files_only() -> None:
    files = [ROOT / "actors/protocol/messages.py", ROOT / "actors/protocol/usage.py"]
    graph = import_graph(files)
    assert graph["callboard.actors.protocol.messages"] == {"callboard.actors.protocol.usage"}


def test_a_cycle_is_named() -> None:
    graph = {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("a"), "d": frozenset("a")}
    found = cycle(graph)
    assert set(found) == {"a", "b", "c"}
    assert found[0] == found[-1]


def test_a_graph_without_a_cycle_has_no_cycle() -> None:
    assert cycle({"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset()}) == []
