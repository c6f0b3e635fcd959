"""The spans of whole sessions, of which the mutants' scenarios have every kind, with crashes and faults."""

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

import pytest
from msgspec.structs import replace

import tests.mutants
from callboard.actors.protocol.client_messages import Ask, AskEnded, Forked, Resumed, SessionOpened
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    Delegated,
    DelegationEnded,
    Finished,
    Stop,
    Stopped,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import CUT_OFF, CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.prompts import ASK_MODEL
from callboard.actors.protocol.usage import ZERO, Need, Usage, plus
from callboard.replay.testing.sessions.scenario import Scenario
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from callboard.runtime.log.telemetry.span_fold import SpanFold, spans_of
from callboard.runtime.log.telemetry.spans import Link, Span
from tests.mutants import scenarios_background
from tests.runtime.telemetry.sessions import events_of_host, spans_of_host


def scenarios() -> Iterator[Scenario]:
    """Yield the scenarios of the mutants that need no argument."""
    for info in pkgutil.iter_modules(tests.mutants.__path__):
        if not info.name.startswith("scenarios"):
            continue
        module = importlib.import_module(f"tests.mutants.{info.name}")
        for _, make in inspect.getmembers(module, inspect.isfunction):
            needs = [one for one in inspect.signature(make).parameters.values() if one.default is one.empty]
            if make.__module__ == module.__name__ and not needs:
                made = make()
                if isinstance(made, Scenario):
                    yield made


def logs() -> Iterator[list[Event]]:
    for number, scenario in enumerate(scenarios()):
        log = list(SessionWorld(scenario).run(in_random_order(number)).log)
        if log:  # else a fault ended the process before the first event
            yield log


def charged(spans: list[Span], trace: int) -> Usage:
    total = ZERO
    for one in spans:
        if one.trace == trace and one.operation == "chat":
            total = plus(total, one.charge)
    return total


@pytest.mark.slow
def test_under_every_fault_the_chats_of_an_ask_add_up_to_its_usage_and_every_span_has_its_parent() -> None:
    seen: Counter[str] = Counter()
    for events in logs():
        fold = SpanFold()
        spans = [*chain.from_iterable(map(fold.add, events)), *fold.unfinished(events[-1].at)]
        if fold._root is None:
            held = (fold._agents, fold._calls, fold._delegations, fold._begun, fold._background, fold._heard)
            assert not any(held)
        seqs = [one.seq for one in spans]
        assert len(seqs) == len(set(seqs))
        assert {one.parent for one in spans} - {0} <= set(seqs)
        roots = {one.seq: one for one in spans if one.operation == "invoke_workflow"}
        assert {one.trace for one in spans} <= roots.keys()
        for root in roots.values():
            assert root.parent == 0
            if root.ended is not None and isinstance(end := root.ended.body, AskEnded):
                assert charged(spans, root.seq) == end.usage
                seen["asks"] += 1
        seen.update(f"{one.operation} {one.status}" for one in spans)
        seen.update(link.kind for link in chain.from_iterable(one.links for one in spans))
    assert seen["asks"] > 120
    assert {"chat failed", "execute_tool failed", "invoke_agent cancelled", "resume", "background"} <= set(
        seen
    )


def test_a_session_has_one_trace_an_ask_and_the_tree_of_its_agents() -> None:
    spans = spans_of_host()
    by_seq = {one.seq: one for one in spans}

    def path(span: Span) -> str:
        above = f"{path(by_seq[span.parent])} > " if span.parent else ""
        return f"{above}{span.operation} {span.name}"

    host = "invoke_workflow host > invoke_agent host"
    assert sorted(Counter(map(path, spans)).items()) == [
        ("invoke_workflow host", 1),
        (host, 1),
        (f"{host} > chat scripted", 2),
        (f"{host} > invoke_agent asks", 1),
        (f"{host} > invoke_agent asks > chat scripted", 1),  # the question, without an agent of its own
        (f"{host} > invoke_agent kid", 1),
        (f"{host} > invoke_agent kid > chat scripted", 3),
        (f"{host} > invoke_agent kid > execute_tool add", 1),
        (f"{host} > invoke_agent kid > execute_tool boom", 1),
        (f"{host} > invoke_agent nobody", 1),  # it was refused
        (f"{host} > invoke_agent racer", 2),
        (f"{host} > invoke_agent racer > chat scripted", 2),
    ]
    assert len({one.trace for one in spans}) == 1


def test_children_come_before_their_parents_and_lie_within_their_times() -> None:
    done: set[int] = set()
    spans = spans_of_host()
    times = {one.seq: (one.begun.at, one.end_ms) for one in spans}
    for one in spans:
        assert one.parent not in done
        done.add(one.seq)
        if one.parent:
            assert times[one.parent][0] <= one.begun.at <= one.end_ms <= times[one.parent][1]


def test_the_end_of_a_log_leaves_unfinished_spans_with_the_ids_that_they_will_have() -> None:
    events = events_of_host()
    whole = {one.seq: one for one in spans_of(events)}
    for cut in range(len(events)):
        spans = list(spans_of(events[:cut]))
        assert {one.seq for one in spans} <= whole.keys()
        assert all(one.parent == whole[one.seq].parent for one in spans)
        assert {one.end_ms for one in spans if one.status == "unfinished"} <= {events[cut - 1].at}
    assert any(one.status == "unfinished" for one in spans_of(events[: len(events) // 2]))


def test_the_first_chat_that_hears_of_work_in_the_background_links_to_the_agent_that_did_it() -> None:
    spans = list(spans_of(SessionWorld(scenarios_background.two_tasks()).run().log))
    agents = {one.seq for one in spans if one.operation == "invoke_agent" and one.agent != "host"}
    links = [link for one in spans for link in one.links]
    assert {link.seq for link in links} == agents
    assert {link.kind for link in links} == {"background"}
    assert len(links) == len(agents)


def test_the_asks_of_a_fork_link_to_those_of_their_origin_and_shared_spans_are_left_out() -> None:
    text = Json(b'"x"')
    opened = Event(1, 10, "client", "supervisor", 0, SessionOpened(2, "host", (), ModelSpec("m")))
    first = Event(2, 20, "client", "supervisor", 0, Ask("a", text))
    ended = Event(3, 30, "supervisor", "client", 2, AskEnded("a", "answered"))
    forked = Event(4, 30, "client", "supervisor", 0, Forked("origin", 3, "", Resumed(2), host="host"))
    second = Event(5, 40, "client", "supervisor", 0, Ask("b", text))
    last = Event(6, 50, "supervisor", "client", 5, AskEnded("b", "answered"))
    (only,) = spans_of([opened, first, ended, forked, second, last], after=3)
    assert only.trace == 5
    assert only.links == (Link("fork", 2, 2, "origin"),)
    again = Event(7, 60, "client", "supervisor", 0, Forked("fork", 6, "", Resumed(2), host="host"))
    third = Event(8, 70, "client", "supervisor", 0, Ask("c", text))
    spans = list(spans_of([opened, first, ended, forked, second, last, again, third], after=6))
    assert [one.links for one in spans] == [(Link("fork", 5, 5, "fork"),)]
    soon = Event(5, 40, "client", "supervisor", 0, Forked("fork", 4, "", Resumed(2), host="host"))
    (only,) = spans_of([opened, first, ended, forked, soon, replace(third, seq=6)], after=5)
    assert only.links == (Link("fork", 2, 2, "origin"),)  # the one between them has asked nothing


def test_an_ask_beside_a_running_one_has_a_trace_of_its_own() -> None:
    text = Json(b'"x"')
    fold = SpanFold()
    fold.add(Event(1, 10, "client", "supervisor", 0, Ask("a", text)))
    fold.add(Event(2, 20, "client", "supervisor", 0, Ask("b", text)))
    (refused,) = fold.add(Event(3, 20, "supervisor", "client", 2, AskEnded("b", "denied")))
    assert (refused.trace, refused.status, refused.error) == (2, "failed", "denied")
    (left,) = fold.unfinished(30)
    assert (left.trace, left.status, left.end_ms) == (1, "unfinished", 30)


def test_a_fork_in_the_middle_of_an_ask_links_that_ask_and_no_later_one() -> None:
    text, fork = Json(b'"x"'), Forked("origin", 1, "", Resumed(2), host="host", is_running=True)
    spans = spans_of(
        [
            Event(1, 10, "client", "supervisor", 0, Ask("a", text)),
            Event(2, 20, "client", "supervisor", 0, fork),
            Event(3, 30, "supervisor", "client", 2, AskEnded("a", "answered")),
            Event(4, 40, "client", "supervisor", 0, Ask("b", text)),
            Event(5, 50, "supervisor", "client", 4, AskEnded("b", "answered")),
        ]
    )
    assert [one.links for one in spans] == [(Link("fork", 1, 1, "origin"),), ()]


def begun(*more: Event) -> list[Event]:
    """Return the events of an ask up to a model call, and more."""
    text = Json(b'"x"')
    begin = Begin(Json(b'{"name":"host"}'), text, ModelSpec("m"), Limits())
    return [
        Event(1, 10, "client", "supervisor", 0, Ask("a", text)),
        Event(2, 10, "supervisor", "host", 1, begin),
        Event(3, 20, "host", "supervisor", 2, TurnRequested(1, need=Need(1_000), after_ms=50)),
        Event(4, 100, "supervisor", "model", 3, CallModel("host", 3)),
        *more,
    ]


@pytest.mark.parametrize("end", [Finished("crashed"), Stopped()])
def test_a_call_that_its_agent_leaves_unsettled_is_charged_in_full(end: Finished | Stopped) -> None:
    chat, agent, *_ = spans_of(begun(Event(5, 110, "host", "supervisor", 4, end)))
    assert (chat.operation, chat.charge.charged_tokens) == ("chat", 1_000)
    assert agent.status == ("failed" if isinstance(end, Finished) else "cancelled")


def test_the_wait_for_a_call_is_counted_without_the_back_off_before_it() -> None:
    chat, *_ = spans_of(begun())
    assert (chat.wait_ms, chat.status) == (30, "unfinished")


def test_events_outside_of_an_ask_make_no_span() -> None:
    assert SpanFold().unfinished(5) == ()
    assert list(spans_of([event for event in events_of_host() if not isinstance(event.body, Ask)])) == []


def of_agent(seq: int, sender: str, address: str, name: str) -> Event:
    begin = Begin(Json(b'{"name":"%s"}' % name.encode()), Json(b'"x"'), ModelSpec("m"), Limits())
    return Event(seq, 10 * seq, sender, address, seq - 1, begin)


def seen(spans: Iterable[Span]) -> list[tuple[str, str, int, int, str, str, str]]:
    """Return what tells spans apart: operation, name, seq, parent, status, error and ending."""
    return [
        (one.operation, one.name, one.seq, one.parent, one.status, one.error, one.ending) for one in spans
    ]


def working() -> SpanFold:
    """Return the spans of an ask with a host and its child, both in a model call and the child in a tool."""
    fold = SpanFold()
    for event in (
        *begun(),
        of_agent(5, "supervisor", "host.1", "kid"),
        Event(6, 60, "host.1", "supervisor", 5, TurnRequested(1)),
        Event(7, 70, "supervisor", "model", 6, CallModel("host.1", 6)),
        Event(8, 80, "host.1", "tools", 7, CallTool(1, 0, "look", "read", Json(b"{}"))),
    ):
        assert fold.add(event) == ()
    return fold


def test_the_end_of_an_ask_ends_all_that_is_open_below_it_from_the_leaves_up() -> None:
    fold = working()
    assert seen(fold.unfinished(90)) == [
        ("execute_tool", "look", 8, 5, "unfinished", "", ""),
        ("chat", "m", 4, 2, "unfinished", "", ""),
        ("chat", "m", 7, 5, "unfinished", "", ""),
        ("invoke_agent", "kid", 5, 2, "unfinished", "", ""),
        ("invoke_agent", "host", 2, 1, "unfinished", "", ""),
        ("invoke_workflow", "", 1, 0, "unfinished", "", ""),
    ]
    fold = working()
    fold.add(wants("a"))
    end = Event(9, 90, "supervisor", "client", 1, AskEnded("a", "deadline"))
    spans = fold.add(end)
    assert seen(spans) == [
        ("execute_tool", "look", 8, 5, "failed", "deadline", ""),
        ("chat", "m", 4, 2, "unfinished", "", ""),
        ("chat", "m", 7, 5, "unfinished", "", ""),
        ("invoke_agent", "kid", 5, 2, "failed", "deadline", "deadline"),
        ("invoke_agent", "host", 2, 1, "failed", "deadline", "deadline"),
        ("invoke_workflow", "", 1, 0, "failed", "deadline", "deadline"),
    ]
    assert [one.ended for one in spans] == [None] * 5 + [end]
    assert {one.end_ms for one in spans} == {90}
    # Nothing of it is left for the next ask.
    late = Event(11, 110, "tools", "host.1", 8, ToolReturned(1, 0))
    assert fold.add(Event(10, 100, "client", "supervisor", 0, Ask("b", Json(b'"x"')))) == ()
    assert fold.add(late) == ()
    assert fold.add(ends("")) == ()
    assert seen(fold.unfinished(120)) == [("invoke_workflow", "", 10, 0, "unfinished", "", "")]


@pytest.mark.parametrize(
    ("reason", "status", "error"),
    [("deadline", "failed", "deadline"), ("lost_race", "cancelled", ""), ("", "cancelled", "")],
)
def test_an_agent_that_stops_has_the_reason_that_it_was_told(reason: str, status: str, error: str) -> None:
    fold = working()
    if reason:
        fold.add(Event(9, 90, "supervisor", "host.1", 1, Stop(reason)))  # type: ignore[arg-type]  # a Literal
    spans = fold.add(Event(10, 100, "host.1", "supervisor", 9, Stopped()))
    assert seen(spans)[1:] == [("invoke_agent", "kid", 5, 2, status, error, reason)]
    assert fold.add(Event(11, 110, "supervisor", "gone", 9, Stop("deadline"))) == ()
    assert fold.add(Event(12, 110, "gone", "supervisor", 9, Stopped())) == ()


def test_a_tool_call_ends_with_its_answer() -> None:
    spans = working().add(Event(9, 90, "tools", "host.1", 8, ToolReturned(1, 0, "interrupted")))
    assert seen(spans) == [("execute_tool", "look", 8, 5, "failed", "interrupted", "")]


@pytest.mark.parametrize(
    ("opened", "resumed", "forked", "host"),
    [
        ("first", "", ("", ""), "first"),
        ("first", "second", ("", ""), "second"),
        ("first", "", ("", "third"), "third"),
        ("first", "second", ("fourth", "third"), "fourth"),
    ],
)
def test_an_ask_is_named_by_the_host_that_the_session_has_then(
    opened: str, resumed: str, forked: tuple[str, str], host: str
) -> None:
    fold = SpanFold()
    fold.add(
        Event(1, 10, "client", "supervisor", 0, SessionOpened(2, opened, (), ModelSpec("m"), tags=("t",)))
    )
    fold.add(Event(2, 10, "client", "supervisor", 0, Resumed(2, host=resumed)))
    named, inner = forked
    fold.add(Event(3, 10, "client", "supervisor", 0, Forked("o", 2, "", Resumed(2, host=inner), host=named)))
    fold.add(Event(4, 10, "client", "supervisor", 0, Ask("a", Json(b'"x"'))))
    (root,) = fold.unfinished(20)
    assert (root.name, root.tags, root.links) == (host, ("t",), ())


def wants(*profiles: str) -> Event:
    return Event(9, 90, "host.1", "supervisor", 8, Delegate(1, 0, profiles, Json(b'"x"')))


def ends(address: str, seq: int = 12) -> Event:
    body = DelegationEnded(1, 0, "denied", address)
    return Event(seq, 10 * seq, "supervisor", "host.1", 9, body)


def test_a_delegation_has_a_span_of_its_own_only_if_it_never_began() -> None:
    fold = working()
    assert fold.add(ends("")) == ()  # nobody asked for it
    assert fold.add(wants("a", "b")) == ()
    assert seen(fold.add(ends(""))) == [("invoke_agent", "a", 9, 5, "failed", "denied", "denied")]
    assert fold.add(ends("")) == ()
    fold.add(wants("a", "b"))
    fold.add(of_agent(10, "supervisor", "host.1.2", "b"))  # the second racer began
    assert fold.add(ends("host.1.1")) == ()
    fold.add(wants(ASK_MODEL))
    assert fold.add(ends("")) == ()
    fold.add(wants("a"))
    fold.add(Event(11, 110, "host.1", "supervisor", 10, Stopped()))
    assert fold.add(ends("")) == ()  # its sender is gone


def test_the_end_of_a_background_task_is_linked_by_the_next_call_that_tells_of_it() -> None:
    fold = working()
    fold.add(wants("a", "b"))
    fold.add(of_agent(10, "supervisor", "host.1.1", "a"))
    fold.add(of_agent(11, "supervisor", "host.1.2", "b"))
    fold.add(Event(11, 110, "supervisor", "host.1", 9, Delegated(1, 0, "host.1.1")))
    assert fold.add(ends("host.1.1")) == ()
    assert fold._background == set()
    fold.add(Event(13, 130, "host.1", "supervisor", 12, TurnRequested(2, new=(3, 12), after_ms=500)))
    fold.add(Event(14, 140, "supervisor", "model", 13, CallModel("host.1", 13)))
    chat = fold._agents["host.1"].chat
    assert chat is not None
    assert (chat.links, chat.wait_ms) == ((Link("background", 1, 10),), 0)


@pytest.mark.parametrize("status", ["lost", "detached", "error"])
def test_a_call_that_the_end_of_a_process_cut_off_is_linked_by_the_next_one_alone(status: str) -> None:
    fold = working()
    fold.add(Event(9, 90, "model", "host.1", 99, ModelReplied(1, 1, status)))  # type: ignore[arg-type]  # of no call
    fold.add(Event(9, 90, "model", "host.1", 7, ModelReplied(1, 1, status)))  # type: ignore[arg-type]  # a Literal
    found = []
    for seq in (10, 12):
        fold.add(Event(seq, 10 * seq, "host.1", "supervisor", 9, TurnRequested(2)))
        fold.add(Event(seq + 1, 10 * seq + 10, "supervisor", "model", seq, CallModel("host.1", seq)))
        chat = fold._agents["host.1"].chat
        assert chat is not None
        found.append(chat.links)
    assert found == [(Link("resume", 1, 7),) if status in CUT_OFF else (), ()]
