"""A source lists its tools otherwise now: the changes that are posted, and those that are not."""

import logging
from typing import Any

import pytest

from callboard.actors.protocol.client_messages import ToolsChanged
from callboard.actors.protocol.errors import SessionEnded
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.profiles import Profile, ToolOrigin, ToolsChange, ToolSpec
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.sessions.listed_tools import ListedTools, changed_tools


def listed(name: str, description: str = "", source: str = "mail") -> ToolSpec:
    return ToolSpec(name, description, Json(b"{}"), origin=ToolOrigin(source, name))


def own(name: str) -> ToolSpec:
    return ToolSpec(name, "mine", Json(b"{}"))


A, B, C = listed("a"), listed("b"), listed("c")


def test_a_tool_that_is_listed_otherwise_changes_in_its_place() -> None:
    changed = listed("a", "new words")
    assert changed_tools((own("x"), A, B), "mail", {"a", "b"}, [changed, B]) == (own("x"), changed, B)


def test_a_tool_that_is_listed_no_more_goes() -> None:
    assert changed_tools((A, own("x"), B), "mail", {"a", "b"}, [B]) == (own("x"), B)


def test_a_new_tool_comes_last() -> None:
    assert changed_tools((A, own("x")), "mail", {"a"}, [C, A]) == (A, own("x"), C)


def test_a_tool_that_the_agent_was_given_up_does_not_come_back() -> None:
    """The source listed it before, and a client has set the agent's tools without it."""
    assert changed_tools((A,), "mail", {"a", "b"}, [A, B]) == (A,)


def test_tools_of_other_sources_and_of_the_program_stay(caplog: pytest.LogCaptureFixture) -> None:
    other = listed("b", source="files")
    with caplog.at_level(logging.WARNING):
        assert changed_tools((own("a"), other), "mail", set(), [A, B]) == (own("a"), other)
    assert "the tool a of 'mail' is left out: the agent has another one" in caplog.text
    assert "the tool b of 'mail' is left out" in caplog.text
    caplog.clear()
    assert changed_tools((own("x"),), "mail", set(), []) == (own("x"),)
    assert caplog.text == ""


class Source:
    label = "mail"


class Agent:
    def __init__(self, *sources: object) -> None:
        self.sources = sources


class World:
    """A session on a board, whose supervisor knows two profiles. changes: those that were posted."""

    def __init__(self, **tools: tuple[ToolSpec, ...]) -> None:
        self.source, self.changes, self.has_ended = Source(), list[ToolsChange](), False
        profiles = {
            name: (Profile(name, "", NULL, tools=specs), Json(b"{}")) for name, specs in tools.items()
        }
        self.core = self
        self.states: dict[str, object] = {"supervisor": SupervisorState(profiles=profiles)}
        self.agents = {"host": Agent(self.source), "kid": Agent(self.source), "plain": Agent()}

    def _check_open(self) -> None:
        if self.has_ended:
            raise SessionEnded("it has ended")

    def submit_for_client(self, body: ToolsChanged) -> None:
        self.changes.append(body.change)

    def tell(self, known: set[str], now: list[ToolSpec]) -> None:
        this: Any = self
        source: Any = self.source
        ListedTools(this, this, this).tell(source, known, now)


def test_each_agent_with_the_source_gets_its_change_and_no_other() -> None:
    world = World(host=(A,), kid=(own("x"), A), plain=(A,))
    world.tell({"a"}, [A, C])
    assert world.changes == [
        ToolsChange((A, C), profile="host"),
        ToolsChange((own("x"), A, C), profile="kid"),
    ]


def test_a_list_that_changes_nothing_posts_nothing() -> None:
    world = World(host=(A,), kid=(A, C))
    world.tell({"a"}, [A, C])
    assert [one.profile for one in world.changes] == ["host"]
    world.changes.clear()
    world.tell({"a", "c"}, [A])
    assert [one.profile for one in world.changes] == ["kid"]


def test_a_profile_that_the_session_does_not_know_gets_no_change() -> None:
    world = World(kid=(A,))
    world.tell({"a"}, [])
    assert [one.profile for one in world.changes] == ["kid"]
    world.states["supervisor"] = None
    world.tell({"a"}, [A])
    assert len(world.changes) == 1


def test_a_session_that_has_ended_is_told_nothing() -> None:
    world = World(host=(A,))
    world.has_ended = True
    world.tell({"a"}, [])
    assert world.changes == []
