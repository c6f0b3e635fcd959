"""Forks are begun and connected: the shared events, the first own ones, and what is refused before them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.client_messages import Forked
from callboard.actors.protocol.errors import (
    CallboardError,
    MissingProgram,
    SessionBusy,
    SessionExists,
    SessionFailed,
    SessionNotFound,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Finished, Stopped
from callboard.actors.protocol.port_messages import CallModel, ModelReplied, ToolReturned, ToolStarted
from callboard.actors.protocol.profiles import ModelSpec, ToolSpec
from callboard.actors.protocol.usage import Usage
from callboard.actors.session.budget_limits import Budget
from callboard.actors.session.recovery import Recovered
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.agent import Agent
from callboard.runtime.forks.fork_starter import is_closing, refuse_missing_programs
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import ScriptedModel, say
from callboard.runtime.ports.model_port import ModelPort
from callboard.runtime.programs.context import ProgramContext
from callboard.runtime.programs.program import program
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.live_sessions import LiveSessions
from callboard.runtime.tools.sources import LiveSource, Scope, ToolSource
from callboard.runtime.tools.tool import Tool, tool
from tests.runtime.forks.kit import SENT, Counted, events_of, forked, host_of, recorded, reporting, rows_of
from tests.runtime.log.kit import added


def begin(seq: int, address: str, model: str) -> Event:
    spec = ModelSpec(model, 50, kind="program" if model.startswith("program:") else "service")
    return Event(seq, 0, "supervisor", address, 0, Begin(NULL, NULL, spec, Limits()))


def ended(seq: int, address: str, body: Any) -> Event:
    return Event(seq, 0, address, "supervisor", 0, body)


def test_programs_at_work_must_be_there() -> None:
    shared = [
        begin(1, "host", "program:lead"),
        begin(2, "host.1", "program:kid"),
        begin(3, "host.2", "program:aid"),
        begin(4, "host.3", "plain"),
    ]
    refuse_missing_programs("s", shared, {"program:lead", "program:kid", "program:aid"})
    with pytest.raises(MissingProgram, match="in these programs: aid, lead; pass a host"):
        refuse_missing_programs("s", shared, {"program:kid"})


@pytest.mark.parametrize("end", [Finished("answered"), Stopped()])
def test_a_program_that_has_ended_may_be_gone(end: Any) -> None:
    shared = [begin(1, "host", "program:lead"), ended(2, "host", end)]
    refuse_missing_programs("s", shared, set())
    again = [*shared, begin(3, "host", "program:lead")]
    with pytest.raises(MissingProgram):
        refuse_missing_programs("s", again, set())


def test_a_session_that_its_client_closes_is_closing() -> None:
    class Found:
        def __init__(self, state: object) -> None:
            self.states = {"supervisor": state}

    for is_closed in (True, False):
        state = SupervisorState(is_closing=is_closed)
        assert is_closing(cast("Recovered", Found(state))) is is_closed
    assert not is_closing(cast("Recovered", Found(None)))


async def fork(log: MemoryLog, **wish: Any) -> None:
    async with Runtime(log, model=Counted(reporting)) as runtime, asyncio.timeout(20):
        session = await runtime.fork("origin", host_of(), fork_id="f", **wish)
        await session.detach(0)


def test_a_fork_is_in_the_log_with_its_first_event_and_the_title_of_its_origin() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(fork(log, at=5, effects="live", until=9))
    events, origin = events_of(log, "f"), events_of(log, "origin")
    assert events[:5] == origin[:5]
    first = next(one for one in events if isinstance(one.body, Forked))
    assert isinstance(first.body, Forked)
    assert (first.body.origin, first.body.at, first.body.effects, first.body.until) == (
        "origin",
        5,
        "live",
        9,
    )
    assert first.body.digest == rows_of(log, "origin")[4].digest.hex()
    assert (first.body.resumed.profiles, first.body.is_running) == ((), True)
    rows = MemoryReader(log).sessions()
    titles = {one.session_id: one.title for one in rows}
    assert titles["f"] == titles["origin"] != ""


@pytest.mark.parametrize("title", ["a name of its own", ""])
def test_a_fork_has_the_title_of_its_origin_or_the_words_of_the_first_ask(title: str) -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))

    async def another() -> None:
        await log.open()
        await log.create("newer", 2**40, "of another session")

    asyncio.run(another())
    origin = log._sessions["origin"]
    words, origin.row = origin.row.title, replace(origin.row, title=title)
    asyncio.run(fork(log, at=5))
    titles = {one.session_id: one.title for one in MemoryReader(log).sessions()}
    assert titles["f"] == (title or words) != ""


@pytest.mark.parametrize("at", [5, 43, 77])
def test_a_fork_in_the_middle_asks_nothing_again(at: int) -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    outcome, asked = asyncio.run(forked(log, at=at, fork_id="f"))
    assert (asked, outcome.kind) == ([], "answered")


def test_a_fork_amid_a_call_that_has_begun_takes_its_recorded_result() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log))
    (begun,) = (one.seq for one in events_of(log, "origin") if isinstance(one.body, ToolStarted))
    sent = len(SENT)
    outcome, asked = asyncio.run(forked(log, at=begun, fork_id="f"))
    assert (asked, outcome.kind, len(SENT)) == ([], "answered", sent)


def test_nothing_of_a_fork_that_another_process_runs_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async def hold(live: LiveSessions, session_id: str, host: str, *, steal: bool = False) -> None:
        raise SessionBusy(f"session {session_id} is run by another process")

    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    monkeypatch.setattr(LiveSessions, "hold", hold)
    with pytest.raises(SessionBusy):
        asyncio.run(fork(log))
    assert [one.session_id for one in MemoryReader(log).sessions()] == ["origin"]


@pytest.mark.parametrize("limits", [None, Limits(max_iterations=7)])
def test_a_fork_has_its_own_limits_if_it_is_given_some(limits: Limits | None) -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(fork(log, at=5, limits=limits))
    (first,) = (one.body for one in events_of(log, "f") if isinstance(one.body, Forked))
    assert first.resumed.limits == limits


def test_a_fork_whose_id_has_a_secret_in_it_is_refused() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))

    async def work() -> None:
        secrets = {"KEY": "hunter2hunter2"}
        async with Runtime(log, model=Counted(reporting), secrets=secrets) as runtime:
            await runtime.fork("origin", host_of(), fork_id="of-hunter2hunter2")

    with pytest.raises(CallboardError, match="session_id"):
        asyncio.run(work())


def test_a_fork_into_a_program_at_work_needs_that_program() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "seen"

    @program(name="host", tools=[look])
    async def host(ctx: ProgramContext, prompt: str) -> str:
        return await ctx.call(look)

    log = MemoryLog()

    async def work() -> None:
        async with Runtime(log, model=Counted(reporting)) as runtime:
            await runtime.run(host, "Go.", session_id="origin")
            events = events_of(log, "origin")
            (started,) = (one.seq for one in events if isinstance(one.body, ToolReturned))
            await runtime.fork("origin", Agent("host", tools=[look]), at=started, fork_id="f")

    with pytest.raises(MissingProgram, match="in these programs: host"):
        asyncio.run(work())


def test_a_fork_that_exists_or_of_nothing_is_refused() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    asyncio.run(fork(log))
    with pytest.raises(SessionExists):
        asyncio.run(fork(log))

    async def of_nothing() -> None:
        async with Runtime(log, model=Counted(reporting)) as runtime:
            await runtime.fork("nothing", host_of())

    with pytest.raises(SessionNotFound):
        asyncio.run(of_nothing())


def test_a_fork_of_a_closed_session_at_its_end_has_nothing_left_to_ask() -> None:
    log = MemoryLog()
    asyncio.run(recorded(log, reporting))
    last = len(rows_of(log, "origin"))

    async def work() -> None:
        async with Runtime(log, model=(model := Counted(reporting))) as runtime, asyncio.timeout(20):
            session = await runtime.fork("origin", host_of(), at=last - 1, fork_id="f")
            await session.close()
            assert model.asked == []

    asyncio.run(work())
    assert [one.kind for one in events_of(log, "f")[last - 1 :]][:1] == ["Forked"]


class Shop(ToolSource, LiveSource):
    """A source without tools, which keeps the scope of each session that it is asked for."""

    label = "shop"

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.asked: list[str] = []

    def live(self) -> LiveSource:
        return self

    def secrets(self) -> Mapping[str, str]:
        return {}

    async def listed(self, scope: Scope) -> Sequence[Tool]:
        self.asked.append("listed")
        self.scopes.append(scope)
        return []

    def recorded(self, specs: Sequence[ToolSpec], scope: Scope) -> Sequence[Tool]:
        self.asked.append("recorded")
        self.scopes.append(scope)
        return []

    def release(self, scope: Scope) -> None:
        """Hold nothing."""

    async def aclose(self) -> None:
        """Close nothing."""


def test_the_tools_of_a_source_get_the_object_of_the_fork_or_of_its_latest_ask() -> None:
    log, shop = MemoryLog(), Shop()
    shop.is_optional = True
    host = Agent("host", tools=[shop])

    async def work() -> None:
        async with Runtime(log, model=Counted(lambda request: "Done.")) as runtime, asyncio.timeout(20):
            await runtime.run(host, "Go.", session_id="origin", deps="first")
            session = await runtime.fork("origin", host, fork_id="f", deps="second")
            assert [scope.deps() for scope in shop.scopes] == ["first", "second"]
            assert shop.asked == ["listed", "listed"], "a fork may have the tools of today"
            await session.ask("Go on.", deps="third")
            assert [scope.deps() for scope in shop.scopes] == ["first", "third"]
            await session.detach(0)

    asyncio.run(work())


async def killed_in_its_call(host: Agent) -> tuple[MemoryLog, int]:
    """Return the log of a process that was killed in the call of a model, and the seq of that call."""
    log, killed = MemoryLog(), MemoryLog()
    async with Runtime(log, model=Counted(lambda request: "Done.")) as runtime:
        await runtime.run(host, "Go.", session_id="origin")
    events = events_of(log, "origin")
    (grant,) = (one.seq for one in events if isinstance(one.body, CallModel))
    await killed.open()
    await killed.create("origin", 1, "")
    await added(killed, "origin", 1, events[:grant])
    return killed, grant


def test_a_fork_that_fails_while_it_begins_tells_those_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(port: ModelPort, request: Event) -> None:
        raise OSError("no port")

    async def work() -> None:
        killed, grant = await killed_in_its_call(host := Agent("host"))
        monkeypatch.setattr(ModelPort, "start", start)
        async with Runtime(killed, model=Counted(lambda request: "Later.")) as runtime, asyncio.timeout(20):
            fork = await runtime.fork("origin", host, at=grant, fork_id="f")
            with pytest.raises(SessionFailed, match="no port"):
                await fork.outcome

    asyncio.run(work())


def test_a_fork_spends_the_budgets_that_bind_it() -> None:
    log, usage = MemoryLog(), Usage(output_tokens=100)
    model = ScriptedModel(lambda request: say("Done."), usage=usage)

    async def work() -> None:
        async with Runtime(log, model=model, budgets={"*": Budget(tokens=10_000)}) as runtime:
            origin = await runtime.open(Agent("host"), session_id="origin")
            await origin.ask("Go.")
            fork = await runtime.fork("origin", Agent("host"), fork_id="f")
            await fork.ask("Go on.")
            for session in (origin, fork):
                await session.close()
            (scope,) = (await runtime.budgets()).scopes
            assert scope.spent_tokens == 200

    asyncio.run(work())


def test_a_model_call_of_a_killed_origin_is_made_in_its_fork_and_not_lost() -> None:
    killed = MemoryLog()

    async def work() -> None:
        nonlocal killed
        killed, grant = await killed_in_its_call(host := Agent("host"))
        async with Runtime(killed, model=Counted(lambda request: "Later.")) as runtime, asyncio.timeout(20):
            fork = await runtime.fork("origin", host, at=grant, fork_id="f")
            outcome = await fork.outcome
            assert (outcome.text, outcome.usage.unknown_calls) == ("Later.", 0)
            await fork.close()

    asyncio.run(work())
    replies = [one.body for one in events_of(killed, "f") if isinstance(one.body, ModelReplied)]
    assert [reply.status for reply in replies] == ["ok"]
