"""Sources of tools: asked at the same time, and the first that fails ends the wait for the others."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ToolOrigin, ToolSpec
from callboard.errors import InvalidAgent
from callboard.runtime.tools.sources import (
    LiveSource,
    LiveSources,
    Scope,
    ToolSource,
    _specs,
    refuse_equal_labels,
)
from callboard.runtime.tools.tool import Tool
from tests.tables import table


class Meeting(ToolSource):
    """Sources that answer once so many of them are asked. A source without a name cannot be reached."""

    def __init__(self, label: str, barrier: asyncio.Barrier) -> None:
        self.label = label
        self.barrier = barrier

    def live(self) -> LiveSource:
        return LiveMeeting(self)

    def secrets(self) -> Mapping[str, str]:
        return {}


class LiveMeeting(LiveSource):
    def __init__(self, source: Meeting) -> None:
        self.source = source

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        if not self.source.label:
            raise InvalidAgent("it is not there")
        await self.source.barrier.wait()
        return self.recorded((), scope)

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        return [Tool(self.source.label, "", {"type": "object"}, lambda arguments: None)]

    def release(self, scope: Scope) -> None:
        return None

    async def aclose(self) -> None:
        return None


def test_sources_are_asked_at_the_same_time_and_answer_in_their_order() -> None:
    async def main() -> None:
        barrier = asyncio.Barrier(3)
        one, two, three = (Meeting(label, barrier) for label in ("one", "two", "three"))
        async with asyncio.timeout(5):
            found = await LiveSources().tools_of({"host": [two, one], "other": [three]}, Scope())
        assert {name: [tool.name for tool in tools] for name, tools in found.items()} == {
            "host": ["two", "one"],
            "other": ["three"],
        }

    asyncio.run(main())


def test_the_first_that_fails_ends_the_wait_for_the_others() -> None:
    async def main() -> None:
        barrier = asyncio.Barrier(2)
        sources = [Meeting("one", barrier), Meeting("", barrier)]
        async with asyncio.timeout(5):
            with pytest.raises(InvalidAgent, match="it is not there"):
                await LiveSources().tools_of({"host": sources}, Scope())
        assert barrier.n_waiting == 0

    asyncio.run(main())


def test_the_recorded_tools_of_a_source_are_those_of_its_agent_and_label() -> None:
    source: Any = Labelled("mail")
    mine, other = spec_of("mail"), spec_of("files")
    own = ToolSpec("own", "", Json(b"{}"))
    recorded = {"host": (mine, own, other), "kid": (spec_of("mail"),)}
    assert _specs("host", source, recorded) == [mine]
    assert _specs("nobody", source, recorded) == []
    assert _specs("host", source, None) is None


class Labelled:
    def __init__(self, label: str) -> None:
        self.label = label


def spec_of(source: str) -> ToolSpec:
    return ToolSpec("look", "", Json(b"{}"), origin=ToolOrigin(source, "look"))


def test_a_session_that_left_is_told_of_no_change() -> None:
    scope, sources = Scope(), LiveSources()
    scope.tell = lambda source, before, now: None
    source = Notes("mail")
    sources.tool(source, spec_of("mail"), scope)
    source.release = lambda scope: source.said.append(scope.tell)  # type: ignore[method-assign]  # on purpose
    sources.release(scope)
    assert scope.tell is source.said[-1] is None


class Notes(ToolSource, LiveSource):
    """A source that notes what it is asked for."""

    def __init__(self, label: str, is_optional: bool = False, error: Exception | None = None) -> None:
        self.label, self.is_optional, self.error = label, is_optional, error
        self.said: list[Any] = []

    def live(self) -> LiveSource:
        self.said.append("live")
        return self

    def secrets(self) -> Mapping[str, str]:
        return {}

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        self.said.append("listed")
        if self.error is not None:
            raise self.error
        return []

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        self.said.append([spec.name for spec in specs])
        return [Tool(spec.name, "", {"type": "object"}, lambda arguments: None) for spec in specs]

    def release(self, scope: Scope) -> None:
        self.said.append("released")

    async def aclose(self) -> None:
        self.said.append("closed")


@table(
    ("recorded", "is_optional", "takes_new", "asked"),
    [
        (None, True, False, ["live", "listed"]),
        ({"host": (spec_of("mail"),)}, True, True, ["live", ["look"]]),
        ({"host": (spec_of("mail"),)}, True, False, ["live", ["look"]]),
        ({"host": ()}, True, False, ["live"]),
        ({"host": ()}, True, True, ["live", "listed"]),
        ({"host": ()}, False, False, ["live", "listed"]),
    ],
)
def test_a_source_is_asked_unless_its_tools_are_recorded_or_it_was_left_out(
    recorded: Any, is_optional: bool, takes_new: bool, asked: list[Any]
) -> None:
    source = Notes("mail", is_optional)
    found = asyncio.run(LiveSources().tools_of({"host": [source]}, Scope(), recorded, takes_new=takes_new))
    assert source.said == asked
    assert [tool.name for tool in found["host"]] == (["look"] if ["look"] in asked else [])


def test_a_source_whose_own_code_fails_is_named() -> None:
    source = Notes("mail", error=ValueError("no password"))
    with pytest.raises(InvalidAgent, match="the tools of 'mail' could not be listed: ValueError: no passw"):
        asyncio.run(LiveSources().tools_of({"host": [source]}, Scope()))


def test_a_source_lives_once_until_all_are_closed_and_gives_single_tools() -> None:
    async def main() -> None:
        source, sources = Notes("mail"), LiveSources()
        found = sources.tool(source, spec_of("mail"), Scope())
        assert found is not None
        assert found.name == "look"
        sources.release(Scope())
        await sources.aclose()
        await sources.aclose()
        assert source.said == ["live", ["look"], "released", "closed"]
        source.recorded = lambda specs, scope: []  # type: ignore[method-assign]  # on purpose
        assert sources.tool(source, spec_of("mail"), Scope()) is None

    asyncio.run(main())


def test_two_sources_of_an_agent_have_two_labels() -> None:
    refuse_equal_labels("host", [Notes("mail"), Notes("files")])
    with pytest.raises(InvalidAgent, match=r"agent 'host' has two tool sources named 'mail'; give one a pre"):
        refuse_equal_labels("host", [Notes("mail"), Notes("files"), Notes("mail")])
