"""Asks that ended, read from the events of a session."""

from callboard.actors.protocol.client_messages import Ask, AskEnded, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AnyMessage, Delegate, DelegationEnded
from callboard.actors.protocol.profiles import ModelSpec, Profile
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
    for seq, to, call in ((4, "host.1", 0), (5, "host", 1), (7, "host", 0)):
        found.add(event(seq, "supervisor", to, DelegationEnded(1, call, "answered", f"{to}.1")))
    first = found.taken(6)
    assert [(one.profile, one.is_typed, one.seq) for one in first] == [("c", True, 4), ("b", False, 5)]
    assert [one.profile for one in found.taken(9)] == ["a"]
    assert found.taken(9) == ()


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
