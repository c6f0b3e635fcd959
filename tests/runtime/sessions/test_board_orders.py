"""The order of what a board does: other parts of a session rely on each of these."""

import asyncio
from collections.abc import Awaitable, Callable
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

from callboard.actors.protocol.addresses import CLIENT, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import AskEnded, Cancel
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import Stop
from callboard.actors.protocol.port_messages import CallTool, ModelReplied
from callboard.actors.session.port_actions import Start
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.sessions.board import Board
from tests.runtime.sessions.test_board import CALL_MODEL, World, boards, kinds_in

SEND = CallTool(1, 0, "send", "write", NULL)


def on_board(work: Callable[[Board, World, list[str]], Awaitable[None]]) -> list[str]:
    """Let a test work with a board. Return what the board has done, and the kinds of its events."""

    async def run() -> list[str]:
        log, done = MemoryLog(), list[str]()
        async with boards(log) as (board, world):
            stage, start = board.stage, world.start

            def staged(*of: Any) -> None:
                done.append("staged")
                stage(*of)

            def started(request: Event) -> None:
                done.append("started")
                start(request)

            board.stage, world.start = staged, started  # type: ignore[method-assign]  # a stand-in
            board.on_posted = lambda events: done.append("noted")
            board.on_published = lambda: done.append("published")
            await work(board, world, done)
        return [*done, *await kinds_in(log)]

    return asyncio.run(run())


def test_events_are_noted_handed_to_the_writer_acted_on_and_then_told_as_published() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
        board.flush()
        assert done == ["noted", "staged", "started", "published"]
        done.clear()
        board.submit_for_client(Cancel(""))
        assert done == ["noted", "staged", "published"], "at once"

    on_board(work)


def test_durable_events_are_watched_go_to_the_client_and_let_ports_start() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        await board.durable()
        board.core.mailboxes[CLIENT] = board._outbox.append
        board.watchers.append(lambda event: done.append("seen"))
        board.observers.append(lambda event: done.append("observed"))
        board.on_client = lambda event, head: done.append("client")
        board.submit(SUPERVISOR, 0, (Post(CLIENT, AskEnded("r", "answered")),))
        board.flush()
        board.when_durable(board.seq, lambda: done.append("started"))
        done.clear()
        await board.durable()
        assert done[-5:] == ["observed", "seen", "client", "started", "published"]

    on_board(work)


def test_the_head_of_what_was_submitted_is_waited_for() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        await board.durable()
        board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
        assert (await board.durable()).seq == 2

    on_board(work)


def test_what_waits_for_a_durable_event_is_called_at_once() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        await board.durable()
        board.when_durable(board.seq, lambda: done.append("called"))
        assert done[-1] == "called"
        assert not board.is_gated

    on_board(work)


def test_a_board_stands_still_with_its_decisions_posted_its_clock_closed_and_its_actors_stopped() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        actor: Any = SimpleNamespace(actor_stopped=Flag(), stop=lambda: done.append("stopped"))
        board.actors["host"] = actor
        clock: Any = SimpleNamespace(close=lambda: done.append("clock"))
        board.clock = clock
        board.submit(SUPERVISOR, 0, (Post("host", Stop("cancelled")),))
        board.stand_still()
        assert done == ["noted", "staged", "published", "clock", "stopped"]

    on_board(work)


def test_a_port_that_detaches_answers_before_the_board_does() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
        board.flush()
        (request,) = world.started

        def detach() -> None:
            board.answer(request, Post("host", ModelReplied(1, 1, "ok")))

        world.detach = detach  # type: ignore[method-assign]  # a stand-in
        said: list[object] = []
        board.stage = lambda events: said.extend(getattr(one.body, "status", "") for one in events)
        board.cut_off()
        assert said == ["ok"]

    on_board(work)


def test_a_request_that_is_admitted_after_its_agents_stop_does_not_start() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        kept: list[Start] = []
        board.admits = kept.append
        board.submit("host", 0, (Post(TOOLS, SEND),))
        board.flush()
        board.submit(SUPERVISOR, 0, (Post("host", Stop("cancelled")),))
        board.start_admitted(kept[0])
        await board.durable()
        assert world.started == []

    assert "ToolStarted" not in on_board(work)


def test_a_start_that_was_kept_back_has_the_time_at_which_it_is_admitted() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        kept: list[Start] = []
        staged: list[Event] = []
        board.admits = kept.append
        board.submit("host", 0, (Post(TOOLS, SEND),))
        board.flush()
        board.stage = lambda events: staged.extend(events)
        later = board.now_ms + 5_000
        board.time = lambda: later
        board.start_admitted(kept[0])
        assert [one.at for one in staged] == [later]

    on_board(work)


def test_a_board_whose_loop_ends_hurries_the_writer_before_its_last_events_and_leaves_then() -> None:
    async def work(board: Board, world: World, done: list[str]) -> None:
        board._writer.hurry = lambda: done.append("hurried")  # type: ignore[method-assign]  # a stand-in
        board.on_cut_off = lambda: done.append("left")
        board.submit(SUPERVISOR, 0, (Post("host", Stop("cancelled")),))
        board.end_with_loop()
        assert (done[0], done[-1], done.count("staged")) == ("hurried", "left", 1)
        board.end_with_loop()
        assert (done.count("hurried"), done.count("left")) == (1, 1)

    on_board(work)
