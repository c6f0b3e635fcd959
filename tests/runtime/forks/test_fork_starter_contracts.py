"""Forks of sessions whose agents have contracts, presets, factories, contexts, or are unavailable."""

import asyncio
from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.client_messages import AskEnded, Forked, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.contexts import ContextRequest
from callboard.replay.diff import diff
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.agent import Agent
from callboard.runtime.files.files import Files
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import tool
from callboard.tools.files import FILE_TOOLS
from tests.effort import effort
from tests.runtime.forks.kit import bodies, events_of, forked, is_quiet, recorded, rows_of, said

PROBED: list[str] = []
"""What was made or run: factories, context functions and tools."""


class Lookup(msgspec.Struct):
    tenant: str
    query: str
    depth: int = 3

    def __post_init__(self) -> None:
        if self.query == "13":
            raise ValueError("13 brings bad luck")


@tool(effect="read")
def measure(place: str) -> str:
    """Measure a place."""
    PROBED.append("measure")
    return f"{place} is warm"


def counter() -> Agent:
    """Make an agent whose tool counts the calls of its own instance."""
    seen: list[str] = []
    PROBED.append("counter")

    @tool(effect="read")
    def count(word: str) -> int:
        """Count."""
        seen.append(word)
        PROBED.append("count")
        return len(seen)

    return Agent("counter", description="Counts.", tools=[count])


def raising() -> Agent:
    raise OSError("no disk")


def words(view: ContextRequest) -> str:
    PROBED.append("words")
    return f"{len(view.messages)} messages"


def host_of(*, is_broken: bool = True) -> Agent:
    """Make a host with an agent of each sort."""
    finder = Agent("finder", input=Lookup, tools=[measure], context=words).preset(tenant="acme")
    gone = Agent.made_by(raising, name="gone", on_broken="unavailable") if is_broken else Agent("gone")
    return Agent("host", agents=[finder, counter, gone])


def results(request: ModelRequest) -> list[str]:
    """Return the results of tools in the last message of a request."""
    blocks = msgspec.json.decode(request.messages[-1])["content"]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


def policy(request: ModelRequest) -> Any:
    """Let the host call all agents twice, with right and wrong inputs, and say what it was told."""
    if request.profile == "finder":
        return call("measure", place="here") if request.turn == 1 else say(results(request)[0])
    if request.profile == "counter":
        return call("count", word="w") if request.turn <= 2 else say(results(request)[0])
    if request.profile == "gone":
        return say("back again")
    if request.turn == 1:
        lookups = [call("finder", query=query) for query in ("q", "13", 5)]
        return calls(
            *lookups, call("task", agent="counter", prompt="a"), call("task", agent="gone", prompt="b")
        )
    if request.turn == 2:
        return calls(call("finder", query="r"), call("task", agent="counter", prompt="c"))
    return say("done: " + said(request))


@pytest.fixture(scope="module")
def log() -> MemoryLog:
    made = MemoryLog()
    asyncio.run(recorded(made, policy, host_of()))
    return made


def ends(events: list[Event]) -> list[tuple[str, str]]:
    return [(one.body.address, one.body.kind) for one in events if isinstance(one.body, DelegationEnded)]


def checked(log: MemoryLog, name: str) -> list[Event]:
    """Return the events of a fork that passes verification and breaks no rule."""
    events = events_of(log, name)
    assert check_log(events, is_at_rest=True) == []
    return events


def at(events: list[Event], kind: type, nth: int = 0) -> Event:
    return [one for one in events if isinstance(one.body, kind)][nth]


def test_a_fork_without_a_change_repeats_its_origin_and_makes_and_asks_nothing(log: MemoryLog) -> None:
    origin = events_of(log, "origin")
    quiet = [base for base in range(1, len(origin) - 2) if is_quiet(origin, base)]
    assert len(quiet) > 10
    for base in quiet[:: max(1, len(quiet) // effort(4, 30))]:
        host = host_of()
        PROBED.clear()
        outcome, asked = asyncio.run(forked(log, policy, host, at=base, fork_id=f"same{base}"))
        assert (asked, PROBED) == ([], []), base
        assert bodies(checked(log, f"same{base}"), base) == bodies(origin, base), base
        assert outcome.is_ok


def test_a_changed_result_below_a_contract_is_paid_for_alone(log: MemoryLog) -> None:
    host = host_of()
    PROBED.clear()
    change = {("host.1", 1, 0): "it is cold"}
    outcome, asked = asyncio.run(forked(log, policy, host, changes=change, fork_id="cold"))
    assert "it is cold" in (outcome.text or "")
    assert ("host.1", 2) in asked
    assert not [one for one in asked if one[0].startswith(("host.4", "host.2"))], asked
    checked(log, "cold")


@pytest.mark.parametrize(("query", "kind"), [("other", "answered"), (7, "denied"), ("13", "denied")])
def test_a_changed_reply_calls_by_another_input_which_is_checked(
    log: MemoryLog, query: object, kind: str
) -> None:
    name = f"reply-{query}"
    reply = [{"type": "tool_use", "id": "x1", "name": "finder", "input": {"query": query}}]
    PROBED.clear()
    asyncio.run(forked(log, policy, host_of(), changes={("host", 1, -1): reply}, fork_id=name))
    events = checked(log, name)
    base = at(events, Forked).seq
    delegate = at(events[base:], Delegate).body
    assert isinstance(delegate, Delegate)
    assert b"acme" in bytes(delegate.prompt), "the preset is there again"
    assert ends(events[base:])[0][1] == kind


def test_a_fork_at_any_event_ends_as_its_origin(log: MemoryLog) -> None:
    origin = events_of(log, "origin")
    asked_end = at(origin, AskEnded).seq
    for base in range(1, asked_end, effort(31, 5)):
        outcome, asked = asyncio.run(forked(log, policy, host_of(), at=base, fork_id=f"any{base}"))
        assert asked == [], base
        assert diff(rows_of(log, "origin"), rows_of(log, f"any{base}")).is_same, base
        assert ends(checked(log, f"any{base}")) == ends(origin), base
        assert outcome.is_ok


def test_an_agent_that_was_broken_answers_in_a_fork_in_which_it_is_not(log: MemoryLog) -> None:
    base = at(events_of(log, "origin"), SessionOpened).seq
    host = host_of(is_broken=False)
    outcome, asked = asyncio.run(forked(log, policy, host, at=base, fork_id="mended"))
    assert ("host.5", 1) in asked
    assert "back again" in (outcome.text or "")
    assert ("host.5", "answered") in ends(checked(log, "mended"))


def test_a_tool_with_a_state_runs_in_an_instance_of_the_fork(log: MemoryLog) -> None:
    host = host_of()
    PROBED.clear()
    reply = [{"type": "tool_use", "id": "x1", "name": "count", "input": {"word": "new"}}]
    asyncio.run(forked(log, policy, host, changes={("host.4", 1, -1): reply}, fork_id="counted"))
    events = checked(log, "counted")
    live = [one.body for one in events if isinstance(one.body, ToolReturned) and one.recipient == "host.4"]
    assert [bytes(one.output) for one in live][:1] == [b'"1"']
    assert PROBED.count("counter") == 1, "one instance, made for the call that ran"


def test_a_fork_with_another_contract_checks_inputs_by_it(log: MemoryLog) -> None:
    class Narrow(msgspec.Struct):
        query: Literal["r"]

    base = at(events_of(log, "origin"), SessionOpened).seq
    plain = Agent("finder", input=Narrow, tools=[measure])
    gone = Agent.made_by(raising, name="gone", on_broken="unavailable")
    host = Agent("host", agents=[plain, counter, gone])
    asyncio.run(forked(log, policy, host, at=base, fork_id="narrow"))
    events = checked(log, "narrow")
    assert dict(ends(events))["host.1"] == "denied"
    assert dict(ends(events))["host.6"] == "answered"


@pytest.mark.parametrize(
    ("write", "effects", "kind"),
    [(".", "recorded", "answered"), ("b", "recorded", "needs_effect"), ("b", "live", "answered")],
)
def test_a_fork_with_a_narrower_bundle_reuses_no_result_that_used_more(
    tmp_path: Path, write: str, effects: Any, kind: str
) -> None:
    def writing(request: ModelRequest) -> Any:
        if request.turn == 1:
            return call("write_file", path="a", content="1")
        return say(results(request)[0])

    def bounded(*prefixes: str) -> Agent:
        return Agent("host", tools=FILE_TOOLS, permissions=Bundle(do=Allowed(write=prefixes)))

    async def main() -> tuple[str, str, list[Event]]:
        log, files = MemoryLog(), Files(tmp_path, write=["."])
        async with Runtime(log, model=ScriptedModel(writing), files=files) as runtime:
            await runtime.run(bounded("."), "go", session_id="origin")
            fork = await runtime.fork("origin", bounded(write), at=1, fork_id="f", effects=effects)
            outcome = await fork.outcome
            await fork.close()
        return outcome.kind, outcome.text or "", checked(log, "f")

    found, text, events = asyncio.run(main())
    assert found == kind
    assert ("writing 'a' is denied by agent host" in text) == (effects == "live")
    reused = [one.body.reused for one in events if isinstance(one.body, ToolReturned) and one.body.uses]
    assert bool(reused) == (write == ".")
