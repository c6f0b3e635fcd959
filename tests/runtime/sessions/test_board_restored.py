"""A board that continues a recovered session: what it writes, who hears of it, and what stops before."""

import asyncio
from threading import Event as Flag
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.addresses import CLIENT, SUPERVISOR
from callboard.actors.protocol.client_messages import AskEnded, Cancel
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.port_messages import CallTool
from callboard.actors.protocol.value_types import InputAsked
from callboard.errors import SessionFailed
from callboard.runtime.log.protocol import Head
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.sessions.board import Board

TO_CLIENT = Event(4, 50, SUPERVISOR, CLIENT, 3, AskEnded("r", "answered"))
OTHER = Event(5, 77, CLIENT, SUPERVISOR, 0, Cancel(""))
END = Head(5, b"end")


CALL = CallTool(1, 0, "look", "read", NULL)


class Desk:
    """A board whose writer and whose recovered core only record."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.done: list[Any] = []
        self.fails = fails
        writer: Any = SimpleNamespace(
            on_durable=lambda name, durable, failed: self.done.append(("watched", name)),
            stage=lambda *staged: self.done.append(("staged", *staged)),
            forget=lambda *gone: self.done.append(("forgotten", *gone)),
        )
        self.board = Board("s", 3, writer)
        self.core = SimpleNamespace(seq=5, move_to=self._move_to, perform=self._perform, gate="gate")
        self.recovered: Any = SimpleNamespace(
            core=self.core, posted=[TO_CLIENT, OTHER], timers=["timer"], starts=["start"]
        )
        self.board.on_client = lambda event, head: self.done.append(("client", event, head))
        self.board.on_posted = lambda events: self.done.append("noted")
        self.board.time = lambda: 0
        self.board.on_published = lambda: self.done.append("published")
        self.board.watchers.append(lambda event: self.done.append(("seen", event.seq)))

    def _move_to(self, spawn: object, to_client: Any) -> None:
        self.done.append("moved")
        to_client(Event(3, 1, SUPERVISOR, CLIENT, 2, AskEnded("q", "answered")))

    def _perform(self, actions: tuple[object, ...], board: Board) -> None:
        assert board is self.board
        assert board.now_ms == 77, "the time of the last event"
        self.done.append(actions)
        if self.fails is not None:
            raise self.fails


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_recovered_session_is_written_unless_its_log_has_it_already(is_stored: bool) -> None:
    async def run() -> None:
        desk = Desk()
        board = desk.board
        old = SimpleNamespace(actor_stopped=Flag(), stop=lambda: desk.done.append("stopped"))
        gone = SimpleNamespace(actor_stopped=Flag(), stop=lambda: desk.done.append("stopped twice"))
        gone.actor_stopped.set()
        actors: Any = {"host": old, "other": gone}
        board.actors.update(actors)
        board.restore(desk.recovered, END if is_stored else None)
        assert board.core is desk.core  # type: ignore[comparison-overlap]  # one and the same
        staged: list[Any] = [] if is_stored else [("staged", "s", 3, [TO_CLIENT, OTHER])]
        assert desk.done == [
            ("watched", "s"), "stopped", "moved", "noted", *staged, ("timer", "start"), "published",
        ]  # fmt: skip
        assert board.actors == {}
        desk.done.clear()
        await asyncio.sleep(0)
        if not is_stored:
            assert desk.done == []
            board._on_durable(END)
        assert [one for one in desk.done if one[0] == "seen"] == [("seen", 4), ("seen", 5)]
        assert [one[1].seq for one in desk.done if one[0] == "client"] == [3, 4]
        assert desk.done[-2:] == [("client", TO_CLIENT, END), "published"]

    asyncio.run(run())


@pytest.mark.parametrize("fails", [ValueError("x"), KeyboardInterrupt()])
def test_a_start_that_raises_fails_the_session(fails: BaseException) -> None:
    async def run() -> None:
        desk = Desk(fails)
        if isinstance(fails, Exception):
            desk.board.restore(desk.recovered)
        else:
            with pytest.raises(KeyboardInterrupt):
                desk.board.restore(desk.recovered)
        assert isinstance(desk.board.error, SessionFailed)
        assert desk.board.error.__cause__ is fails

    asyncio.run(run())


def test_a_board_has_no_parts_of_a_session_before_it_is_connected() -> None:
    async def run() -> None:
        board = Desk().board
        board.on_failure(ValueError("x"))
        board.on_place_free("host", None)
        board.on_cut_off()
        assert (board.keeps(OTHER), board.on_diverged("host", "why")) == (False, False)
        assert (board.writing(), board.is_gated, board.waits, board.admits) == (set(), False, None, None)
        assert not board.is_held
        assert (board.is_still, board.is_cut_off, board.error, board.seq) == (False, False, None, 0)
        board.dismiss("host.9")
        assert board.inputs.has("host", CALL, InputAsked(NULL))
        assert (board.secrets is NO_SECRETS, board.deps.current) == (True, None)
        assert board.delegations.taken(9) == ()

    asyncio.run(run())
