"""Forks of sessions: the calls that are made again, the recorded answers, and the sums."""

import asyncio
import random
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import MisuseError, SessionExists, SessionNotFound, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.fork_plan import call_at, calls_of
from callboard.replay.diff import diff
from callboard.replay.forks import billing
from callboard.replay.recording import Recording
from callboard.runtime import clock
from callboard.runtime.agent import Agent
from callboard.runtime.forks.forks import Forks
from callboard.runtime.forks.starting import Forking
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.sqlite.reader import SQLiteReader
from callboard.runtime.models.scripted import Call, ScriptedModel, call, calls, say
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.tools.tool import Tool, tool
from tests.effort import effort
from tests.runtime.forks.kit import (
    CHILDREN,
    SENT,
    bodies,
    events_of,
    forked,
    host_of,
    is_quiet,
    measure,
    recorded,
    reporting,
    rows_of,
    said,
    send,
    survey,
)
from tests.runtime.log.kit import added
from tests.tables import table


def test_a_wish_to_fork_has_each_parameter_in_its_place() -> None:
    asked: list[Any] = []

    class Asking(Forks):
        def _started(self) -> Any:
            async def fork(*given: Any) -> None:
                asked.append(given)

            return SimpleNamespace(fork=fork)

    async def main() -> None:
        limits = Limits(max_iterations=3)
        deps, files, memory = cast("Any", ("deps", "files", "memory"))
        await Asking().fork(
            "s", cast("Any", "agent"), at=4, changes={("host", 1, 0): "x"}, limits=limits, effects="ask",
            fork_id="f", until=9, deps=deps, files=files, memory=memory,
        )  # fmt: skip
        await Asking().fork("s", cast("Any", "agent"))
        changes: dict[Any, Json] = {("host", 1, 0): Json(b'"x"')}
        assert asked == [
            ("s", "agent", Forking(4, changes, limits, "ask", "f", 9, deps, files, memory)),
            ("s", "agent", Forking()),
        ]

    asyncio.run(main())


def test_a_fork_without_a_change_repeats_its_origin_and_asks_nothing() -> None:
    log = MemoryLog()
    SENT.clear()
    whole = asyncio.run(recorded(log))
    origin = events_of(log, "origin")
    quiet = [base for base in range(1, len(origin)) if is_quiet(origin, base)]
    assert len(quiet) > 10
    for base in {1, 2, 3, 5, 20, 43, 77, 100, 131, *quiet[:: effort(8, 4)], len(origin) - 12}:
        outcome, asked = asyncio.run(forked(log, at=base, fork_id=f"f{base}"))
        assert asked == []
        assert (outcome.kind, outcome.text, outcome.usage) == (whole.kind, whole.text, whole.usage)
        fork = events_of(log, f"f{base}")
        assert diff(rows_of(log, "origin"), rows_of(log, f"f{base}")).is_same
        if is_quiet(origin, base):
            assert bodies(fork, base) == bodies(origin, base)
    assert SENT == ["report"]


def in_cone(asked: Sequence[tuple[str, int]]) -> set[str]:
    """Return the agents that were asked."""
    return {agent for agent, _ in asked}


def test_a_changed_tool_result_is_paid_for_by_its_child_and_the_parent_only() -> None:
    log = MemoryLog()
    SENT.clear()
    asyncio.run(recorded(log))
    change = {("host.7", 1, 0): "999 degrees"}
    outcome, asked = asyncio.run(forked(log, changes=change, fork_id="f"))
    assert sorted(asked) == [("host", 2), ("host", 3), ("host.7", 2), ("host.7", 3)]
    assert outcome.kind == "answered"  # the call of `send` is the same, so its recorded result holds
    assert "999 degrees" in outcome.text
    assert SENT == ["report"]
    fork = events_of(log, "f")
    begin = next(event.body for event in fork if isinstance(event.body, Forked))
    origin = events_of(log, "origin")
    (made,) = begin.changes
    assert (made.agent, made.turn, made.call) == ("host.7", 1, 0)
    assert isinstance(origin[made.replaces - 1].body, ToolReturned)
    assert begin.at == made.replaces - 1
    live = [
        one.body for one in fork[begin.at :] if isinstance(one.body, ModelReplied) and not one.body.reused
    ]
    assert len(live) == 4
    for one in fork[begin.at :]:
        if isinstance(one.body, ModelReplied) and one.body.reused:
            was = origin[one.body.reused - 1]
            assert isinstance(was.body, ModelReplied)
            assert (was.recipient, was.body.content) == (one.recipient, one.body.content)


def test_a_changed_reply_of_a_model_is_an_input_too() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    outcome, asked = asyncio.run(forked(log, changes={("host.3", 3, -1): "It is cold."}, fork_id="f"))
    assert sorted(asked) == [("host", 2), ("host", 3)]
    assert "It is cold." in outcome.text


def test_other_instructions_of_a_child_are_taken_where_it_begins() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    _, asked = asyncio.run(forked(log, host=host_of("Be brief."), at=2, fork_id="f"))
    assert {f"host.{at}" for at in range(1, CHILDREN + 1)} <= in_cone(asked)
    assert ("host", 1) not in asked  # the host has no other instructions, and its first request is the same


def test_other_limits_hold_from_the_base_on() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    outcome, asked = asyncio.run(forked(log, at=3, limits=Limits(tokens=3_000), fork_id="f"))
    assert outcome.kind == "budget"
    assert asked == []


@table(
    ("wish", "error", "said"),
    [
        ({"at": 0}, MisuseError, "begins after one of them, not 0"),
        ({"at": 100_000}, MisuseError, "not 100000"),
        ({"changes": {("host.99", 1, 0): "x"}}, UnknownName, "no answer of host.99:1:0; there are: host:1"),
        ({"changes": {("host", 1, -1): "x"}, "at": 150}, MisuseError, "fork at .* or before"),
        ({"effects": "all"}, MisuseError, "use 'recorded', 'ask' or 'live'"),
        ({"session_id": "nobody"}, SessionNotFound, "'nobody'"),
        ({"fork_id": "origin"}, SessionExists, "'origin'"),
    ],
)
def test_a_fork_that_cannot_be_made_says_why(wish: dict[str, Any], error: type[Exception], said: str) -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    with pytest.raises(error, match=said):
        asyncio.run(forked(log, **wish))
    assert [row.session_id for row in MemoryReader(log).sessions()] == ["origin"]


def test_a_change_of_an_agents_own_message_names_the_input_to_change() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    events = events_of(log, "origin")
    made = next(event for event in events if isinstance(event.body, CallTool))
    with pytest.raises(
        MisuseError, match=rf"CallTool, was decided by host.1 .* event {made.cause}, ModelRep.*host.1:1"
    ):
        call_at("origin", events, made.seq)
    with pytest.raises(MisuseError, match="event 1, SessionOpened, cannot be changed"):
        call_at("origin", events, 1)
    with pytest.raises(UnknownName, match="there is no 0"):
        call_at("origin", events, 0)
    for found, seq in calls_of(events).items():
        assert call_at("origin", events, seq) == found


def test_forks_of_forks_verify_and_share_their_events() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    asyncio.run(forked(log, changes={("host.7", 1, 0): "999 degrees"}, fork_id="f"))
    asyncio.run(forked(log, session_id="f", changes={("host.2", 2, 0): "777 degrees"}, fork_id="g"))
    outcome, asked = asyncio.run(forked(log, session_id="g", at=30, fork_id="h"))
    assert asked == []
    assert "999 degrees" in outcome.text
    assert "777 degrees" in outcome.text
    reader = MemoryReader(log)
    assert [one.session_id for one in reader.segments("g")] == ["origin", "f", "g"]
    assert diff(rows_of(log, "g"), rows_of(log, "h")).is_same


# --- tools with an effect ----------------------------------------------------------


def test_a_fork_of_a_fork_begins_once_and_counts_its_own_calls() -> None:
    """The `Forked` of the origin is not input: a process that goes on would take it for the fork's own."""

    async def main() -> tuple[list[Event], list[tuple[str, int]]]:
        log = MemoryLog()
        await recorded(log)
        await forked(log, fork_id="middle", effects="live")  # it begins at the end of its origin
        returned = first_result(events_of(log, "middle"))
        _, asked = await forked(log, session_id="middle", fork_id="last", changes={returned.seq: "9 degrees"})
        return events_of(log, "last"), asked

    events, asked = asyncio.run(main())
    (begin,) = (event.body for event in events if isinstance(event.body, Forked))
    assert (begin.origin, begin.effects) == ("middle", "recorded")
    assert billing(events).called == len(asked) > 0
    assert [event.kind for event in events].count("Resumed") == 1  # which opened the closed session again


def test_agents_of_the_origin_do_not_come_back_in_a_fork() -> None:
    model = ScriptedModel(lambda request: say("Yes."))

    async def main() -> list[Event]:
        log = MemoryLog()
        await recorded(log, lambda request: say("Yes."), Agent("host", instructions="First."))
        async with Runtime(log, model=model, on_agents_changed="accept") as runtime, asyncio.timeout(20):
            session = await runtime.reopen("origin", Agent("host", instructions="Later."))
            await session.ask("And now?")
            await session.close()
            fork = await runtime.fork("origin", Agent("host", instructions="Today."), fork_id="last", at=1)
            while fork._has_asks:
                await fork.outcome
        return events_of(log, "last")

    begins = [bytes(event.body.profile) for event in asyncio.run(main()) if isinstance(event.body, Begin)]
    assert [b"Today." in one for one in begins] == [True, True]


def first_result(events: Sequence[Event]) -> Event:
    """Return the first result of a tool."""
    return next(event for event in events if isinstance(event.body, ToolReturned))


def test_an_effect_without_a_recorded_result_ends_the_ask_and_names_the_call() -> None:
    log = MemoryLog()
    SENT.clear()
    asyncio.run(recorded(log, reporting))
    change = {("host.1", 1, 0): "999 degrees"}
    outcome, asked = asyncio.run(forked(log, reporting, changes=change, fork_id="f"))
    assert (outcome.status, outcome.kind) == ("failed", "needs_effect")
    assert "call 0 of turn 2, send, has an effect" in outcome.detail
    assert len(SENT) == 1
    assert ("host", 3) not in asked
    outcome, _ = asyncio.run(forked(log, reporting, changes=change, fork_id="g", effects="live"))
    assert outcome.kind == "answered"
    assert len(SENT) == 2
    assert "999 degrees" in SENT[-1]
    for name in "fg":
        events_of(log, name)


def below(request: ModelRequest) -> Any:
    """Let a child at depth 2 send its measurements, beside a sibling."""
    depth = request.address.count(".")
    if depth == 2:
        steps = [call("measure", place=1), call("send", text=said(request)[-60:]), say("Sent.")]
        return steps[request.turn - 1] if request.address.endswith(".1") else say("Nothing.")
    if request.turn == 1:
        name = "child" if depth else "lead"
        return calls(*(call("task", agent=name, prompt=f"Do {at}.") for at in range(2)))
    return say("Done.")


def test_an_effect_in_a_nested_delegation_ends_the_whole_ask() -> None:
    log = MemoryLog()
    SENT.clear()
    child = Agent("child", description="Does.", tools=[measure, send])
    host = Agent("host", agents=[Agent("lead", description="Delegates.", agents=[child])])
    asyncio.run(recorded(log, below, host))
    assert len(SENT) == 2
    change = {("host.1.1", 1, 0): "999 degrees"}
    outcome, asked = asyncio.run(forked(log, below, host, changes=change, fork_id="f"))
    assert outcome.kind == "needs_effect"
    assert asked == [("host.1.1", 2)]
    assert len(SENT) == 2
    events_of(log, "f")


# --- at any event -------------------------------------------------------------------

DONE: list[str] = []


@tool(effect="idempotent")
def charge(amount: int) -> str:
    """Charge an amount."""
    DONE.append(f"charge {amount}")
    return f"charged {amount}"


@tool(effect="write")
def mail(text: str) -> str:
    """Mail a text."""
    DONE.append(f"mail {text}")
    return "mailed"


def scripts(draw_seed: int) -> Callable[[ModelRequest], Any]:
    """Return a model whose calls follow from a seed and from what its agent was told."""

    def answer(request: ModelRequest) -> Any:
        told = zlib.crc32(said(request).encode()) + draw_seed
        chance = random.Random(told)
        if request.turn > 4:
            return say(f"{request.address} ends with {told % 97}.")
        depth = request.address.count(".")
        made: list[Call] = []
        for _ in range(chance.randrange(3)):
            made.append(
                chance.choice(
                    [
                        call("measure", place=chance.randrange(4)),
                        call("charge", amount=chance.randrange(3)),
                        call("mail", text=str(chance.randrange(3))),
                        *([call("task", agent="child", prompt=f"Do {told % 7}.")] if depth == 0 else []),
                    ]
                )
            )
        return calls(*made) if made else say(f"{request.address} says {told % 97}.")

    return answer


def random_host() -> Agent:
    tools: list[Tool] = [measure, charge, mail]
    return Agent("host", tools=tools, agents=[Agent("child", description="Does.", tools=tools)])


@pytest.mark.slow
@settings(max_examples=effort(8, 1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 40), st.integers(1, 400), st.lists(st.integers(0, 999), max_size=2))
def test_no_tool_with_an_effect_runs_in_a_fork_of_recorded_effects(
    seed: int, at: int, picks: list[int]
) -> None:
    log = MemoryLog()
    answer = scripts(seed)
    asyncio.run(recorded(log, answer, random_host()))
    events = events_of(log, "origin")
    known = sorted(one for one in calls_of(events) if calls_of(events)[one] > 1)
    base = 1 + at % (len(events) - 2)  # before the client closes it
    later = [one for one in known if calls_of(events)[one] > base]
    # Not drawn from `later`, which differs from run to run with the order of the children.
    changed = {later[pick % len(later)] for pick in picks} if later else set()
    DONE.clear()
    changes = {one: f"other {number}" for number, one in enumerate(changed)}
    outcome, asked = asyncio.run(forked(log, answer, random_host(), at=base, changes=changes, fork_id="f"))
    assert DONE == []
    if not changed:
        assert asked == []
        assert diff(rows_of(log, "origin"), rows_of(log, "f")).is_same
    fork = events_of(log, "f")
    paid = [one for one in fork[base:] if isinstance(one.body, ModelReplied) and not one.body.reused]
    assert len(paid) == len(asked)
    assert not [one for one in fork[base:] if getattr(one.body, "status", "") == "lost"]
    assert outcome.kind in ("answered", "needs_effect")


# --- calls in flight, deadlines, files, programs -------------------------------------------


MANY = 24


def many(request: ModelRequest) -> Any:
    """Let the host ask 24 children at once, which answer all together."""
    if request.address != "host":
        return asyncio.sleep(0.002, say(f"{request.address} is warm."))
    tasks = (call("task", agent="child", prompt=f"Place {at}.") for at in range(MANY))
    return calls(*tasks) if request.turn == 1 else say("Warm.")


def many_host() -> Agent:
    return Agent("host", agents=[Agent("child", description="Measures.")])


def widest_of(events: Sequence[Event]) -> int:
    """Return the first event at which all 24 model calls are in flight."""
    open_calls: set[int] = set()
    for event in events:
        if isinstance(event.body, CallModel):
            open_calls.add(event.seq)
        open_calls.discard(event.cause if isinstance(event.body, ModelReplied) else 0)
        if len(open_calls) == MANY:
            return event.seq
    raise AssertionError("so many calls were never in flight")


def lost_behind(log: MemoryLog, session_id: str, base: int) -> list[Event]:
    replies = [one for one in events_of(log, session_id)[base:] if isinstance(one.body, ModelReplied)]
    return [one for one in replies if getattr(one.body, "status", "") != "ok"]


def test_calls_in_flight_at_the_base_are_neither_lost_nor_charged() -> None:
    log = MemoryLog()
    outcome = asyncio.run(recorded(log, many, many_host()))
    widest = widest_of(events_of(log, "origin"))
    whole, asked = asyncio.run(forked(log, many, many_host(), at=widest, fork_id="f"))
    assert asked == []
    assert (whole.kind, whole.usage) == ("answered", outcome.usage)
    assert lost_behind(log, "f", widest) == []


def test_calls_in_flight_where_a_recording_ends_are_made_again_and_paid_once() -> None:
    log, cut = MemoryLog(), MemoryLog()
    outcome = asyncio.run(recorded(log, many, many_host()))
    origin = events_of(log, "origin")
    widest = widest_of(origin)

    async def copy() -> None:
        await cut.open()
        await cut.create("origin", 1, "")
        await added(cut, "origin", 1, origin[:widest])
        await cut.close()

    asyncio.run(copy())
    whole, asked = asyncio.run(forked(cut, many, many_host(), at=widest, fork_id="f"))
    assert sorted(asked) == sorted([("host", 2), *((f"host.{at}", 1) for at in range(1, MANY + 1))])
    assert (whole.kind, whole.usage) == ("answered", outcome.usage)
    assert lost_behind(cut, "f", widest) == []


def hanging(request: ModelRequest) -> Any:
    """Let the child's second turn take longer than the deadline."""
    if request.address == "host":
        return call("task", agent="child", prompt="Place 1.") if request.turn == 1 else say("Done.")
    return call("measure", place=1) if request.turn == 1 else asyncio.sleep(30, say("Late."))


def test_a_deadline_of_long_ago_ends_a_fork_as_it_ended_its_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    log = MemoryLog()
    host = Agent("host", agents=host_of().agents, limits=Limits(deadline_s=0.3))
    yesterday = clock.now_ms() - 86_400_000
    begun = clock.now_ms()
    with monkeypatch.context() as patched:
        patched.setattr("callboard.runtime.sessions.board.now_ms", lambda: yesterday + clock.now_ms() - begun)
        whole = asyncio.run(recorded(log, hanging, host))
    assert whole.kind == "deadline"
    origin = events_of(log, "origin")
    assert origin[-1].at < clock.now_ms() - 80_000_000
    for base in (2, 8, 14, len(origin) - 8):
        outcome, asked = asyncio.run(forked(log, hanging, host, at=base, fork_id=f"f{base}"))
        assert (outcome.kind, outcome.text, outcome.usage) == (whole.kind, whole.text, whole.usage)
        assert asked == []
        assert diff(rows_of(log, "origin"), rows_of(log, f"f{base}")).is_same


def test_a_fork_in_a_file_adds_its_own_events_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    asyncio.run(recorded(path))
    with SQLiteReader(path) as reader:
        base = reader.head("origin").seq - 12
    before = path.stat().st_size
    outcome, asked = asyncio.run(forked(path, at=base, fork_id="f"))
    assert (outcome.kind, asked) == ("answered", [])
    with SQLiteReader(path) as reader:
        own = reader.events("f", base + 1)
    size = sum(len(row.body) + 120 for row in own)  # an envelope takes at most so much
    assert path.stat().st_size <= before + size + 2 * 8_192
    Recording.open(path, "f").verify().check()
    with SQLiteReader(path) as reader:
        assert [one.session_id for one in reader.segments("f")] == ["origin", "f"]


def test_two_forks_of_one_seed_are_equal() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    change = {("host.7", 1, 0): "999 degrees"}
    for name in "fg":
        asyncio.run(forked(log, changes=change, fork_id=name))
    base = MemoryReader(log).segments("f")[-1].before.seq
    assert bodies(events_of(log, "f"), base) == bodies(events_of(log, "g"), base)


CHILD = host_of().agents[0]


@program(agents=[CHILD], tools=[send])
async def lead(ctx: ProgramContext, prompt: str) -> str:
    """Ask four children at once, wait, and send their answers."""
    found = await asyncio.gather(*(ctx.delegate(CHILD, f"Place {at}.") for at in range(1, 5)))
    await ctx.sleep(0.05)
    said_so = ", ".join(str(one) for one in found)
    await ctx.call("send", text=said_so[:20])
    return said_so


def test_under_a_program_a_change_is_paid_for_by_its_child_only() -> None:
    log = MemoryLog()
    SENT.clear()
    whole = asyncio.run(recorded(log, survey, lead))
    assert (whole.kind, len(SENT)) == ("answered", 1), whole.detail
    origin = events_of(log, "origin")
    for base in (2, 10, len(origin) // 2, len(origin) - 12):
        outcome, asked = asyncio.run(forked(log, survey, lead, at=base, fork_id=f"f{base}"))
        assert (outcome.kind, outcome.text, asked) == ("answered", whole.text, [])
    outcome, asked = asyncio.run(
        forked(log, survey, lead, changes={("host.3", 2, 0): "999 degrees"}, fork_id="f")
    )
    assert asked == [("host.3", 3)]
    assert outcome.kind == "answered"
    assert "999 degrees" in outcome.text
    assert len(SENT) == 1
    events_of(log, "f")


def test_a_session_that_runs_can_be_forked_and_both_end() -> None:
    async def scene() -> None:
        asked, go_on = asyncio.Event(), asyncio.Event()

        async def waits(request: ModelRequest) -> Call | str:
            asked.set()
            await go_on.wait()
            return "done"

        async with Runtime(":memory:", model=ScriptedModel(waits)) as runtime:
            session = await runtime.open(Agent("host"), session_id="origin")
            asking = asyncio.ensure_future(session.ask("go"))
            await asked.wait()
            fork = await runtime.fork("origin", Agent("host"), fork_id="fork")
            go_on.set()
            assert (await asking).text == (await fork.outcome).text == "done"

    asyncio.run(scene())
