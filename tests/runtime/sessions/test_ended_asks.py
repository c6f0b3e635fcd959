"""Asks that ended, read from the events of a session."""

import asyncio

import pytest

from callboard import Agent, Outcome, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, Resumed, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    AnyMessage,
    Begin,
    Delegate,
    DelegationEnded,
    Finished,
    Stopped,
)
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.ended_asks import AskReader, Delegations, ended_asks
from callboard.runtime.sessions.session_types import TypeName
from tests.golden import SESSIONS, golden

SCHEMA = Json(b'{"type":"object"}')
PROMPT = Json(b'"go"')


def event(seq: int, sender: str, recipient: str, body: AnyMessage) -> Event:
    return Event(seq, 0, sender, recipient, 0, body)


def test_every_recorded_delegation_belongs_to_the_ask_during_which_it_ended() -> None:
    for name in SESSIONS:
        events = golden(name)
        expected: list[list[int]] = [[]]
        for one in events:
            if isinstance(one.body, DelegationEnded):
                expected[-1].append(one.seq)
            elif isinstance(one.body, AskEnded):
                expected.append([])
        found = list(ended_asks(events))
        assert [[each.seq for each in ask.delegations] for ask in found] == expected[:-1], name
        for ask in found:
            assert isinstance(events[ask.seq - 1].body, AskEnded)
            assert all(each.profile for each in ask.delegations), name


def test_an_ends_delegation_is_found_by_its_sender_and_call_and_taken_once() -> None:
    found = Delegations()
    found.add(event(1, "host", "supervisor", Delegate(1, 0, ("a", "b"), PROMPT)))
    found.add(event(2, "host", "supervisor", Delegate(1, 1, ("b",), PROMPT, SCHEMA)))
    found.add(event(3, "host.1", "supervisor", Delegate(1, 0, ("c",), PROMPT)))
    for seq, to, place in ((4, "host.1", 0), (5, "host", 1), (7, "host", 0)):
        found.add(event(seq, "supervisor", to, DelegationEnded(1, place, "answered", f"{to}.1")))
    first = found.taken(6)
    assert [(one.profile, one.is_typed, one.seq) for one in first] == [("c", True, 4), ("b", False, 5)]
    assert [one.profile for one in found.taken(9)] == ["a"]
    assert found.taken(9) == ()


def test_an_end_whose_delegation_is_not_known_has_no_type() -> None:
    found = Delegations()
    found.add(event(4, "supervisor", "host", DelegationEnded(1, 0, "answered", "host.1")))
    assert [(one.profile, one.is_typed) for one in found.taken(5)] == [("", False)]


def test_an_ask_without_a_schema_has_the_type_of_its_host() -> None:
    typed = Json(encode(Profile("host", schema=SCHEMA, output_type="app.Report")))
    opened = SessionOpened(1, "host", (typed,), ModelSpec("m"))
    for ask, kind in (
        (Ask("r", PROMPT), TypeName("app.Report", SCHEMA)),
        (Ask("r", PROMPT, SCHEMA, output_type="app.Other"), TypeName("app.Other", SCHEMA)),
        (Ask("r", PROMPT, SCHEMA), TypeName("", SCHEMA)),
    ):
        reader = AskReader()
        assert reader.read(event(1, "client", "supervisor", opened)) is None
        assert reader.read(event(2, "client", "supervisor", ask)) is None
        assert reader.needed() == (kind,)
        ended = reader.read(event(3, "supervisor", "client", AskEnded("r", "answered")))
        assert ended is not None
        assert (ended.kind, ended.seq) == (kind, 3)


def test_before_the_first_ask_nothing_is_needed() -> None:
    assert AskReader().needed() == (TypeName("", NULL),)


def profile(name: str) -> Json:
    return Json(encode(Profile(name, schema=SCHEMA, output_type=f"app.{name}")))


def read(*bodies: tuple[str, str, AnyMessage]) -> AskReader:
    """Read events with these senders, recipients and messages, from seq 1 on."""
    reader = AskReader()
    for seq, (sender, recipient, body) in enumerate(bodies, 1):
        reader.read(event(seq, sender, recipient, body))
    return reader


def begin(address: str, name: str) -> tuple[str, str, AnyMessage]:
    return "supervisor", address, Begin(profile(name), PROMPT, ModelSpec("m"), Limits())


def test_the_types_of_agents_are_needed_until_they_end_or_their_delegation_does() -> None:
    ask = ("client", "supervisor", Ask("r", PROMPT))
    began = (ask, begin("host", "host"), begin("host.1", "kid"))
    host, kid = TypeName("app.host", SCHEMA), TypeName("app.kid", SCHEMA)
    assert read(*began).needed() == (TypeName(), host, kid)
    ends: tuple[tuple[str, str, AnyMessage], ...] = (
        ("host.1", "supervisor", Finished("answered")),
        ("host.1", "supervisor", Stopped()),
    )
    for end in ends:
        assert read(*began, end).needed() == (TypeName(), host)
    delegation = ("host", "supervisor", Delegate(1, 0, ("kid",), PROMPT))
    ended = ("supervisor", "host", DelegationEnded(1, 0, "answered", "host.1"))
    reader = read(*began, delegation, ended)
    assert reader.needed() == (TypeName(), host)
    (one,) = reader.delegations.taken(99)
    assert (one.profile, one.is_typed, one.seq) == ("kid", True, 5)
    assert read(*began, ask).needed() == (TypeName(),), "the next ask needs nothing of the last one"


def test_the_host_is_that_of_the_latest_resume_or_fork_that_names_one() -> None:
    opened = ("client", "supervisor", SessionOpened(1, "host", (profile("host"),), ModelSpec("m")))
    other = Resumed(1, host="other", profiles=(profile("other"),))
    ask = ("client", "supervisor", Ask("r", PROMPT))
    host, changed = TypeName("app.host", SCHEMA), TypeName("app.other", SCHEMA)
    for body, kind in ((Resumed(1), host), (other, changed), (Forked("s", 1, "", other), changed)):
        assert read(opened, ("client", "supervisor", body), ask).needed() == (kind,)


@pytest.mark.parametrize("is_live", [True, False])
def test_an_outcome_has_the_delegations_of_its_ask_live_and_from_its_log(is_live: bool) -> None:
    def policy(request: ModelRequest) -> Step:
        if request.profile == "kid":
            return say("x")
        return call("task", agent="kid", prompt="p") if request.turn % 2 else say("done")

    async def main() -> list[list[str]]:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", agents=[Agent("kid")]), session_id="s")
            found: list[Outcome | None] = [await session.ask("go", request_id=name) for name in ("a", "b")]
            await session.close()
            if not is_live:
                found = [await runtime.outcome("s", name) for name in ("a", "b")]
            return [[one.address for one in each.delegations] for each in found if each is not None]

    assert asyncio.run(main()) == [["host.1"], ["host.2"]]


def test_of_delegations_only_begins_and_ends_count_and_those_behind_an_ask_stay() -> None:
    found = Delegations()
    posts: list[tuple[str, str, AnyMessage]] = [
        ("host", "supervisor", Delegate(1, 0, ("kid",), PROMPT)),
        ("host.1", "supervisor", Stopped()),
        ("supervisor", "host", DelegationEnded(1, 0, "answered")),
        ("supervisor", "client", AskEnded("r1", "answered")),
        ("supervisor", "host", DelegationEnded(2, 0, "denied")),
    ]
    for seq, (sender, to, body) in enumerate(posts, 1):
        found.add(event(seq, sender, to, body))
    first, second = found.taken(4), found.taken(9)
    assert [[(one.seq, one.end.kind) for one in these] for these in (first, second)] == [
        [(3, "answered")],
        [(5, "denied")],
    ]
