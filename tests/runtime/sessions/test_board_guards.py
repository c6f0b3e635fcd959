"""The guards of a board: what waits for the disk or for room, and what comes after a failure or the end."""

import asyncio
from collections import deque
from functools import partial
from typing import Any

import pytest

from callboard import Agent, Capacity, Limits, Runtime, ScriptedModel, call, say
from callboard.actors.protocol.addresses import CLIENT, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Finished, Stop
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.session.port_actions import Start
from callboard.errors import SessionFailed
from callboard.replay import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import EMPTY
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.board import Board, _taken
from callboard.runtime.sessions.decider_actor import DeciderActor
from tests.runtime.log.kit import events
from tests.runtime.sessions.test_board import CALL_MODEL, World, boards, kinds_in
from tests.waiting import until

SEND = CallTool(1, 0, "send", "write", NULL)
LOOK = CallTool(1, 1, "look", "read", NULL)
PUT = CallTool(1, 2, "put", "idempotent", NULL)  # it announces no start, so no commit follows its admission


def call_model(board: Board) -> None:
    board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))


def call_tools(board: Board, *bodies: CallTool) -> None:
    board.submit("host", 0, tuple(Post(TOOLS, body) for body in bodies))


def started(world: World) -> list[type]:
    return [type(event.body) for event in world.started]


# --- starts ---------------------------------------------------------------------------


def test_a_write_starts_once_its_start_is_durable_and_a_read_at_once() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            call_tools(board, SEND, LOOK)
            board.flush()
            assert [event.body for event in world.started] == [LOOK]
            assert board.is_gated
            await board.durable()
            assert [event.body for event in world.started] == [LOOK, SEND]
            assert not board.is_gated
        assert "ToolStarted" in await kinds_in(log)

    asyncio.run(run())


@pytest.mark.parametrize("body", [SEND, LOOK, PUT])
def test_a_request_that_is_not_admitted_starts_when_it_is_and_only_if_it_is_open(body: CallTool) -> None:
    async def run() -> None:
        kept: list[Start] = []
        async with boards(MemoryLog()) as (board, world):
            board.admits = kept.append
            call_tools(board, body)
            call_model(board)
            await board.durable()
            assert started(world) == []
            one, other = kept
            board.start_admitted(one)
            assert board._unpublished == []
            await board.durable()
            assert started(world) == [CallTool]
            board.answer(other.request, Post("host", ModelReplied(1, 1, "ok")))
            board.start_admitted(other)
            await board.durable()
            assert started(world) == [CallTool], "it has its answer"

    asyncio.run(run())


def test_a_request_that_got_its_answer_while_it_waited_for_the_disk_does_not_start() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, world):
            call_tools(board, SEND)
            board.flush()
            (opened,) = board.gate.open.values()
            board.answer(opened.event, Post("host", ToolReturned(1, 0, "cancelled", NULL)))
            await board.durable()
            await board.durable()
            assert started(world) == []

    asyncio.run(run())


def test_requests_wait_while_too_much_waits_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, world):
            is_full, room = True, list[Any]()
            monkeypatch.setattr(GroupWriter, "is_full", property(lambda writer: is_full))
            monkeypatch.setattr(GroupWriter, "when_room", lambda writer, then: room.append(then))
            call_model(board)
            board.flush()
            assert started(world) == []
            is_full = False
            (then,) = room
            then()
            assert started(world) == [CallModel]

    asyncio.run(run())


def test_an_abort_answers_for_what_has_never_started() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            board.admits = lambda start: None
            call_model(board)
            board.flush()
            (opened,) = board.gate.open.values()
            board.abort(opened.event)
            board.abort(opened.event)
            await board.durable()
            assert started(world) == []
        assert await kinds_in(log) == ["CallModel", "ModelReplied"]

    asyncio.run(run())


# --- what others hear -----------------------------------------------------------------


def test_watchers_and_the_client_see_durable_events_and_others_all_that_are_posted() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            board.core.mailboxes[CLIENT] = board._outbox.append
            watched, clients, posted, ends, published = (list[Any]() for _ in range(5))
            board.watchers.append(lambda event: watched.append(event.seq))
            board.on_client = lambda event, head: clients.append((event.seq, head.seq))
            board.on_posted = lambda events: posted.extend(event.seq for event in events)
            board.on_agent_end.append(ends.append)
            board.on_published = lambda: published.append(board.seq)
            board.submit("host", 0, (Post(SUPERVISOR, Finished("answered")),))
            board.submit(SUPERVISOR, 0, (Post("host.1", Stop("cancelled")),))
            board.submit(SUPERVISOR, 0, (Post(CLIENT, AskEnded("r", "answered")),))
            board.flush()
            assert (watched, clients) == ([], [])
            assert (posted, ends) == ([2, 3, 4], ["host", "host.1"])
            assert published == [4]
            await board.durable()
            assert (watched, clients) == ([2, 3, 4], [(4, 4)])
            assert len(published) > 1

    asyncio.run(run())


def test_a_head_tells_of_the_events_up_to_it() -> None:
    left = deque(events(1, 3))
    assert [event.seq for event in _taken(left, 2)] == [1, 2]
    assert [event.seq for event in left] == [3]


def test_what_waits_for_the_disk_is_called_in_the_order_of_the_log() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            call_model(board)
            board.flush()
            seen: list[str] = []
            for seq, name in ((2, "second"), (1, "first"), (2, "third"), (9, "later")):
                board.when_durable(seq, partial(seen.append, name))
            await board.durable()
            assert seen == ["first", "second", "third"]
            assert board.is_gated

    asyncio.run(run())


# --- detaching ------------------------------------------------------------------------


def test_a_board_that_stands_still_takes_answers_and_one_that_is_cut_off_takes_none() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            heard: list[str] = []
            board.on_cut_off = lambda: heard.append("cut off")
            board.keeps = lambda request: isinstance(request.body, CallTool)
            world.detach = lambda: heard.append("port")  # type: ignore[method-assign]  # on purpose
            call_model(board)
            call_tools(board, LOOK)
            board.flush()
            assert len(world.started) == 2
            board.stand_still()
            assert board.is_still
            board.stand_still()
            call_tools(board, CallTool(2, 0, "look", "read", NULL))
            board.flush()
            assert len(world.started) == 2, "no port starts any more"
            board.end_with_loop()
            assert heard == ["port", "port", "cut off"]
            assert board.is_cut_off
            assert board._writer._is_hurried
            board.end_with_loop()
            board.cut_off()
            assert heard == ["port", "port", "cut off"]
            end = board.seq
            call_model(board)
            board.flush()
            assert board.seq == end
        assert await kinds_in(log) == ["CallModel", "CallTool", "CallTool", "ModelReplied"]

    asyncio.run(run())


def test_what_was_decided_before_a_board_stands_still_is_posted_and_nothing_after_a_failure() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            closed: list[str] = []
            board.clock.close = lambda: closed.append("clock")  # type: ignore[method-assign]  # on purpose
            before, at = board.seq, board._at
            board.time = lambda: 10**13
            board.flush()
            assert (board.seq, board._at) == (before, at), "nothing was submitted"
            call_model(board)
            assert board.seq == before
            board.stand_still()
            assert (board.seq, closed) == (before + 1, ["clock"])
            call_model(board)
            board.fail(ValueError("x"))
            board.flush()
            assert board.seq == before + 1
            closed.clear()
            await board.aclose()
            assert closed == ["clock"]

    asyncio.run(run())


# --- failure and end ------------------------------------------------------------------


def test_the_first_failure_counts_and_names_the_session() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, world):
            heard: list[BaseException] = []
            board.on_failure = heard.append
            call_tools(board, SEND)
            board.flush()
            board.fail(ValueError("first"))
            board.fail(ValueError("second"))
            (error,) = heard
            assert error is board.error
            assert isinstance(error, SessionFailed)
            for words in ("session s can go no further", "first", "`callboard resume s`"):
                assert words in str(error)
            assert await board.durable() == EMPTY
            await asyncio.sleep(0.01)
            assert started(world) == [], "its start became durable after the failure"
            board.stand_still()
            board.cut_off()
            assert (board.is_still, board.is_cut_off) == (False, False)

    asyncio.run(run())


def test_a_close_leaves_work_behind_that_does_not_end() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, world):
            assert board.running() == set()
            gate = asyncio.Event()

            async def stubborn() -> None:
                await gate.wait()

            world.aclose = stubborn  # type: ignore[method-assign]  # on purpose
            await asyncio.wait_for(board.aclose(0.01), 10)
            with pytest.raises(Exception, match="not written here"):
                await board.durable()
            gate.set()

    asyncio.run(run())


def test_events_have_the_time_of_the_boards_clock_which_never_goes_back() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            seen: list[Event] = []
            board.watchers.append(seen.append)
            for at in (10**13, 10**12):
                board.time = partial(int, at)
                board.submit(SUPERVISOR, 0, (Post("host.1", Stop("cancelled")),))
                board.flush()
            await board.durable()
            assert [event.at for event in seen] == [10**13] * 2

    asyncio.run(run())


# --- whole sessions -------------------------------------------------------------------


async def never(request: ModelRequest) -> Step:
    await asyncio.Event().wait()
    return say("never")


def test_a_restored_session_has_its_starts_its_timers_and_its_places() -> None:
    async def left(log: MemoryLog, **limits: Any) -> None:
        async with Runtime(log, model=ScriptedModel(never)) as runtime:
            session = await runtime.open(Agent("host"), session_id="s", limits=Limits(**limits))
            await session.submit("go")
            await until(lambda: "model" in [*session._open_requests()])
            assert session._board.running()
            await session.detach(0)

    async def main() -> None:
        log, model = MemoryLog(), ScriptedModel(lambda request: say("hi"))
        await left(log)
        async with Runtime(log, model=model, capacity={"scripted": Capacity(calls=1)}) as runtime:
            session = await runtime.resume("s", Agent("host"))
            assert (await session.outcome).text == "hi"
            assert (await session.ask("again")).text == "hi"
            assert runtime.capacity().lines[0].in_flight == 0
            await session.close()
        Recording.open(MemoryReader(log), "s").verify().check()
        log = MemoryLog()
        await left(log, deadline_s=0.2)
        async with Runtime(log, model=ScriptedModel(never)) as runtime:
            session = await runtime.resume("s", Agent("host"))
            assert (await session.outcome).kind == "deadline"
            await session.close()
        Recording.open(MemoryReader(log), "s").verify().check()

    asyncio.run(main())


def test_actors_stop_with_their_agents_and_no_secret_of_a_port_is_posted() -> None:
    actors: dict[str, DeciderActor] = {}
    secret = "hunter2hunter2"

    async def main() -> None:
        log = MemoryLog()

        async def policy(request: ModelRequest) -> Step:
            actors.update(session._board.actors)
            if request.profile == "kid":
                return say(f"the key is {secret}")
            return call("task", agent="kid", prompt="p") if request.turn == 1 else say("done")

        host = Agent("host", agents=[Agent("kid")])
        async with Runtime(log, model=ScriptedModel(policy), secrets={"KEY": secret}) as runtime:
            session = await runtime.open(host, session_id="s")
            outcome = await session.ask("go")
            assert [one.address for one in outcome.delegations] == ["host.1"]
            assert "host.1" not in session._board.actors
            assert actors["host.1"].actor_stopped.is_set()
            await session.close()
            assert all(actor.actor_stopped.is_set() for actor in actors.values())
        events = [*Recording.open(MemoryReader(log), "s").events]
        assert "the key is" in str(events)
        assert secret not in str(events)

    asyncio.run(main())
    assert {"host", "host.1"} <= set(actors)


def test_tasks_of_all_ports_are_running() -> None:
    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            waiting = asyncio.ensure_future(asyncio.sleep(0))

            class Busy(World):
                @property
                def running(self) -> set[asyncio.Task[Any]]:
                    return {waiting}

            board.ports[MODEL] = Busy(board)
            assert board.running() == {waiting}
            await waiting

    asyncio.run(run())


def test_a_decision_that_is_not_posted_yet_starts_no_port_of_a_board_that_stands_still() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            call_tools(board, LOOK)
            board.stand_still()
            assert world.started == []
        assert await kinds_in(log) == ["CallTool"]

    asyncio.run(run())
