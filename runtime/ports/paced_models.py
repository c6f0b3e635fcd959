"""The model port of a session that is resumed in the middle of an ask: its calls begin bit by bit.

A process that ended cut many calls off at once, and their back-offs end meanwhile. A service refuses some of
such a burst, and some services limit how fast the number of calls grows. So the first calls after a resume
begin together, and from then on their number doubles every second at most.

Rules
  - The pace is of this process. The log holds nothing of it, and a replay does not wait.
  - A call that waits is not under way: a stopped one is `cancelled`, and that of a process that detaches is
    made by the next resume.
  - Steps of programs do not wait: they are not calls of a service.
"""

import asyncio
import math
from typing import Final

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.events import Event
from callboard.actors.session.port_table import owner_of
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.port_protocol import Port

AT_ONCE: Final = 8
DOUBLES_S: Final = 1.0


def earliest_s(place: int) -> float:
    """Return how long after a resume a call may begin. place: its place among the calls, from 1 up."""
    return DOUBLES_S * math.log2(max(1.0, place / AT_ONCE))


class PacedModelPort:
    """A model port whose calls begin at the pace of a resume, which is made now."""

    def __init__(self, board: Board, models: Port) -> None:
        self._board = board
        self._models = models
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._calls = 0
        self._waiting: dict[int, asyncio.TimerHandle] = {}

    def start(self, request: Event) -> None:
        """Call the model, at its moment."""
        if self._is_free(request):
            self._models.start(request)
            return
        self._calls += 1
        moment = self._began + earliest_s(self._calls)
        if moment <= self._loop.time():
            self._models.start(request)
        else:
            self._waiting[request.seq] = self._loop.call_at(moment, self._start_later, request)

    def abort(self, request: Event) -> bool:
        """Drop a call that waits, or cancel it. Return False if it is not under way."""
        waiting = self._waiting.pop(request.seq, None)
        if waiting is None:
            return self._models.abort(request)
        waiting.cancel()
        return False

    def detach(self) -> None:
        """Answer the calls under way as detached. The board answers those that wait."""
        self._drop()
        self._models.detach()

    @property
    def running(self) -> set[asyncio.Task[object]]:
        """Return the tasks of calls."""
        return self._models.running

    async def aclose(self) -> None:
        """Cancel all calls."""
        self._drop()
        await self._models.aclose()

    def _is_free(self, request: Event) -> bool:
        agent = self._board.core.states[owner_of(request)]
        assert isinstance(agent, AgentState)
        return agent.model.is_free

    def _start_later(self, request: Event) -> None:
        del self._waiting[request.seq]
        if self._board.gate.may_start(request):
            self._models.start(request)

    def _drop(self) -> None:
        for waiting in self._waiting.values():
            waiting.cancel()
        self._waiting.clear()
