"""The context port: it calls the user's function for a delegation, bounded in time and size.

A function that raises, takes too long, or returns no context, or one that is too large, gives a `failed`
answer, which ends its delegation.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping

from callboard.actors.protocol import prompts
from callboard.actors.protocol.addresses import SUPERVISOR, child_of
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.histories import NO_HISTORY, HandedHistory
from callboard.actors.protocol.port_messages import ContextMade, MakeContext
from callboard.actors.session.contexts import ContextRequest, delegate_of, view_of
from callboard.actors.supervisor.state import SupervisorState
from callboard.runtime.agent import Agent
from callboard.runtime.contexts import ContextFunction, ReadableContext, made_context
from callboard.runtime.ports.tasks import Tasks
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.instances import Instances
from callboard.runtime.tools.output import describe
from callboard.runtime.tools.own_functions import OwnFunctions


class ContextPort:
    """The contexts of one session."""

    def __init__(self, board: Board, agents: Mapping[str, Agent], instances: Instances) -> None:
        self._board = board
        self._agents = agents
        self._instances = instances
        self._tasks = Tasks(self._lost)
        self._own = OwnFunctions("callboard-context")
        self._functions: set[asyncio.Task[object]] = set()

    def start(self, request: Event) -> None:
        """Make a new instance of the sub-agent, and call its context function with the parent's view."""
        wanted = request.body
        assert isinstance(wanted, MakeContext)
        agent = self._agents.get(wanted.profile)
        function = agent.context if agent else None
        states = self._board.core.states
        supervisor = states[SUPERVISOR]
        assert isinstance(supervisor, SupervisorState)
        delegate = delegate_of(supervisor, wanted)
        view = view_of(states.get(wanted.parent), delegate, wanted)
        if view is None or delegate is None:
            self._answer(request, wanted, prompts.CONTEXT_UNWANTED)
        elif function is None and (agent is None or agent.make is None):
            self._answer(request, wanted, "this program has no context function for it")
        else:
            ordinal = wanted.delegation + delegate.profiles.index(wanted.profile)
            readable = ReadableContext.of(view)
            work = self._prepared(child_of(wanted.parent, ordinal), function, readable)
            self._tasks.spawn(request.seq, self._wait(request, wanted, work), work)

    def abort(self, request: Event) -> bool:
        """Return True and let the function run."""
        return True  # the request is the supervisor's: no stop of an agent ends it

    def detach(self) -> None:
        """Leave every request open: a resume asks again."""

    @property
    def running(self) -> "set[asyncio.Task[object]]":
        """Return the tasks that wait for functions."""
        return self._tasks.running

    async def aclose(self) -> None:
        """Give up all functions."""
        await self._tasks.aclose()
        self._own.close()

    async def _prepared(
        self,
        address: str,
        function: ContextFunction | None,
        view: ContextRequest,
    ) -> object:
        """Make the instance for an address, then the context. Return that, or an exception as a value."""
        try:
            make = self._instances.factory(address, view.profile)
        except Exception as error:  # of a factory above it
            return error
        if make is not None:
            made = await self._made(_ignoring_view(make), view)
            if not isinstance(made, Agent):
                return made
            self._instances.keep(address, made)
            function = made.context if function is not None else None
        return None if function is None else await self._made(function, view)

    async def _made(self, function: Callable[[ContextRequest], object], view: ContextRequest) -> object:
        """Call the function and return its value, or its exception as a value."""
        try:
            return await self._own.value(function, view)
        except Exception as error:
            return error

    async def _wait(self, request: Event, wanted: MakeContext, work: Coroutine[object, None, object]) -> None:
        """Answer with the value of the function, or with the reason for its absence."""
        task = asyncio.get_running_loop().create_task(work)
        limit_s = wanted.timeout_ms / 1_000
        self._functions.add(task)  # the loop itself would forget one that is left behind
        task.add_done_callback(self._functions.discard)
        try:
            await asyncio.wait([task], timeout=limit_s)
        finally:
            task.cancel()
        if not task.done():
            self._answer(request, wanted, f"it took longer than {limit_s:g} s")
            return
        value = RuntimeError("it was cancelled") if task.cancelled() else task.result()
        try:
            if isinstance(value, Exception):
                raise value
            agent = self._agents[wanted.profile]
            self._answer(request, wanted, made=made_context(value, agent.context_in))
        except Exception as error:
            self._answer(request, wanted, describe(error, self._board.secrets.redactor))

    def _lost(self, seq: int, error: BaseException) -> None:
        request = self._board.gate.request(seq)
        if request is not None and isinstance(request.body, MakeContext):
            self._answer(request, request.body, f"it ended with {type(error).__name__}")

    def _answer(
        self, request: Event, wanted: MakeContext, why: str = "", made: HandedHistory = NO_HISTORY
    ) -> None:
        """Answer a request. why: the reason of a failure."""
        answer = ContextMade(
            parent=wanted.parent,
            delegation=wanted.delegation,
            profile=wanted.profile,
            status="failed" if why else "ok",
            content=made.note,
            detail=why,
            history=made.messages,
            makers=made.makers,
            repairs=made.repairs,
        )
        self._board.answer(request, Post(SUPERVISOR, answer))


def _ignoring_view(make: Callable[[], Agent]) -> Callable[[ContextRequest], object]:
    """Return the factory of an agent as a function that takes a view."""
    return lambda view: make()
