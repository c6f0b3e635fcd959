"""The board: deciders that raise, ports that answer twice or late, and publications."""

import asyncio
import contextvars
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callboard import Agent, Limits, Runtime, ScriptedModel, call, say, tool
from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.state import AgentState
from callboard.actors.agent.turns import Decision
from callboard.actors.protocol.addresses import CLIENT, MODEL, SUPERVISOR, TOOLS
from callboard.actors.protocol.client_messages import Ask, Cancel, SessionOpened
from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import (
    AgentInput,
    AnyMessage,
    DeciderFailed,
    Delegate,
    Stop,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.usage import Need
from callboard.actors.session import step as step_module
from callboard.actors.session.step import initial
from callboard.errors import SessionFailed
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.writer import GroupWriter
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.board import Board
from tests.poison import poison_supervisor


def policy(request: ModelRequest) -> Step:
    if request.profile == "host" and request.turn == 1:
        return call("task", agent="kid", prompt="x")
    return say(f"{request.profile} is done")


HOST = Agent("host", agents=[Agent("kid")])


@pytest.mark.parametrize("error", [ValueError("broken"), RecursionError("deep"), MemoryError()])
def test_an_agent_whose_decider_raises_ends_as_crashed_and_the_log_still_verifies(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poisoned(state: AgentState, seq: int, body: AgentInput) -> Decision:
        if state.address == "host.1" and type(body).__name__ == "ModelReplied":
            raise error
        return decide_agent(state, seq, body)

    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            with monkeypatch.context() as patch:
                patch.setattr(step_module, "decide_agent", poisoned)
                outcome = await runtime.run(HOST, "go", session_id="s")
            assert (outcome.kind, outcome.text) == ("answered", "host is done")
            assert outcome.usage.calls == 3

    asyncio.run(run())
    recording = Recording.open(MemoryReader(log), "s")
    (failed,) = [event for event in recording.events if isinstance(event.body, DeciderFailed)]
    assert failed.body == DeciderFailed(failed.cause, type(error).__name__)
    found = recording.verify()
    assert found.is_ok, "\n".join(found.lines())
    assert {node.address: node.kind for _, node in recording.tree().walk()}["host.1"] == "crashed"


def test_a_supervisor_that_raises_ends_the_session_and_leaves_its_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime:
            with monkeypatch.context() as patch:
                poison_supervisor(patch, Delegate, RuntimeError("broken"))
                with pytest.raises(SessionFailed, match="RuntimeError: broken"):
                    await runtime.run(HOST, "go", session_id="s")
            assert (await runtime.run(HOST, "go")).is_ok, "another session is not touched"

    asyncio.run(run())
    recording = Recording.open(MemoryReader(log), "s")
    assert recording.events[-1].kind in ("Delegate", "TurnSettled")
    assert recording.verify().is_ok


def test_a_second_answer_to_a_request_is_ignored() -> None:
    log = MemoryLog()

    async def run() -> None:
        async with Runtime(log, model=ScriptedModel([say("hi")])) as runtime:
            session = await runtime.open(Agent("host"), session_id="s")
            await session.ask("go")
            board = session._board
            (request,) = [e for e in Recording.open(MemoryReader(log), "s").events if e.kind == "CallModel"]
            before = board.seq
            board.answer(request, Post("host", ToolReturned(1, 0, "ok", text_json("again"))))
            assert board.seq == before
            await session.close()

    asyncio.run(run())


# --- events that are posted together --------------------------------------------------------


class World:
    """A port that keeps its requests, and answers at once if it is told to."""

    def __init__(self, board: Board, *, is_quick: bool = False) -> None:
        self.board = board
        self.is_quick = is_quick
        self.started: list[Event] = []

    def start(self, request: Event) -> None:
        self.started.append(request)
        if self.is_quick:
            self.board.answer(request, Post("host", ModelReplied(1, 1, "ok")))
            self.board.answer(request, Post("host", ModelReplied(1, 1, "error")))

    def abort(self, request: Event) -> bool:
        return request in self.started

    def detach(self) -> None: ...

    @property
    def running(self) -> set[asyncio.Task[Any]]:
        return set()

    async def aclose(self) -> None:
        for request in self.started:
            self.board.answer(request, Post("host", ModelReplied(1, 1, "cancelled")))


WISH = TurnRequested(1, 1, Need(1), "digest")
CALL_MODEL = CallModel("host", 1)


@asynccontextmanager
async def boards(log: MemoryLog, *, is_quick: bool = False) -> AsyncIterator[tuple[Board, World]]:
    """Make a board without agents, whose ports are one world."""
    await log.open()
    epoch = await log.create("s", 0, "")
    writer = GroupWriter(log)
    board = Board("s", epoch, writer)
    board.core.mailboxes.clear()  # no actor decides here
    world = World(board, is_quick=is_quick)
    board.ports = {MODEL: world, TOOLS: world}
    board.submit("host", 0, (Post(SUPERVISOR, WISH),))
    board.flush()
    yield board, world
    await board.aclose()
    await writer.aclose()


async def kinds_in(log: MemoryLog) -> list[str]:
    """Return the kinds of the events after the `TurnRequested` that every board begins with."""
    return [type(event.body).__name__ for event in Recording.open(MemoryReader(log), "s").events[1:]]


def test_submissions_of_one_pass_are_posted_at_its_end_in_their_order() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL), Post("host.1", Stop("cancelled"))))
            board.submit("host", 0, (Post(TOOLS, CallTool(1, 0, "look", "read", NULL)),))
            assert (board.seq, world.started) == (1, [])
            await asyncio.sleep(0)
            assert [(event.seq, event.recipient) for event in world.started] == [(2, MODEL), (4, TOOLS)]
            await board.durable()
            assert await kinds_in(log) == ["CallModel", "Stop", "CallTool"]

    asyncio.run(run())


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (CALL_MODEL, "ModelReplied"),
        (CallTool(1, 0, "look", "read", NULL), "ToolReturned"),
        (CallTool(1, 0, "send", "write", NULL), "ToolReturned"),
    ],
)
def test_a_request_that_is_posted_together_with_a_later_stop_does_not_start(
    request_: AnyMessage, answer: str
) -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, world):
            is_model = isinstance(request_, CallModel)
            board.submit(
                SUPERVISOR if is_model else "host", 0, (Post(MODEL if is_model else TOOLS, request_),)
            )
            board.submit(SUPERVISOR, 0, (Post("host", Stop("cancelled")),))
            await board.durable()
            await board.durable()
            assert world.started == []
            assert await kinds_in(log) == [type(request_).__name__, "Stop", answer], "and is not announced"
            (told,) = Recording.open(MemoryReader(log), "s").events[3:]
            assert isinstance(told.body, ModelReplied | ToolReturned)
            assert (told.cause, told.body.status) == (2, "cancelled")

    asyncio.run(run())


def test_a_second_answer_before_the_first_is_posted_is_ignored_too() -> None:
    async def run() -> None:
        log = MemoryLog()
        async with boards(log, is_quick=True) as (board, _):
            board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
            await board.durable()
            await board.durable()
            assert await kinds_in(log) == ["CallModel", "ModelReplied"]

    asyncio.run(run())


def test_answers_of_ports_during_their_close_are_still_posted() -> None:
    log = MemoryLog()

    async def run() -> None:
        async with boards(log) as (board, _):
            board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
            await board.durable()
        assert await kinds_in(log) == ["CallModel", "ModelReplied"]

    asyncio.run(run())


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_a_port_that_raises_in_its_start_ends_the_session(error: BaseException) -> None:
    class Broken(World):
        def start(self, request: Event) -> None:
            raise error

    async def run() -> None:
        async with boards(MemoryLog()) as (board, _):
            board.ports[MODEL] = Broken(board)
            board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
            if isinstance(error, Exception):
                board.flush()
            else:
                with pytest.raises(KeyboardInterrupt):
                    board.flush()
            assert isinstance(board.error, SessionFailed)
            assert board.error.__cause__ is error
            board.submit(SUPERVISOR, 0, (Post(MODEL, CALL_MODEL),))
            board.flush()
            assert board.seq == 2, "an event was posted after the failure"

    asyncio.run(run())


def test_decisions_of_the_supervisor_before_its_failure_are_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    # It has several messages at once: the decisions before the failing one must not get lost.
    async def run() -> None:
        log = MemoryLog()
        async with boards(log) as (board, _):
            poison_supervisor(monkeypatch, Cancel, RuntimeError("broken"))
            board.core.open(SUPERVISOR)
            host = Json(encode(Profile("host")))
            opened = SessionOpened(1, "host", (host,), ModelSpec("none"))
            for body in (opened, Ask("r", text_json("go")), Cancel(), Ask("again", text_json("go"))):
                board.submit(CLIENT, 0, (Post(SUPERVISOR, body),))
            board.flush()
            assert board.core.states[SUPERVISOR] == initial(SUPERVISOR), "it has handled none of them yet"
            await asyncio.sleep(0)
            assert isinstance(board.error, SessionFailed)
            assert board.core.states[SUPERVISOR].phase == "asking"
        assert await kinds_in(log) == ["SessionOpened", "Ask", "Cancel", "Ask", "Begin"]

    asyncio.run(run())


WHOSE: contextvars.ContextVar[str] = contextvars.ContextVar("whose", default="nobody's")


def test_models_and_tools_see_the_context_in_which_the_session_was_opened() -> None:
    seen: list[str] = []

    def says(request: ModelRequest) -> Step:
        seen.append(WHOSE.get())
        return call("look") if request.turn == 1 else say("done")

    @tool(effect="read")
    async def look() -> None:
        """Look whose context it is."""
        seen.append(WHOSE.get())

    async def run() -> None:
        async with Runtime(":memory:", model=ScriptedModel(says)) as runtime:
            WHOSE.set("the opener's")
            session = await runtime.open(Agent("host", tools=[look]))
            WHOSE.set("the asker's")
            await session.ask("go")
            await session.close()

    asyncio.run(run())
    assert seen == ["the opener's"] * 3


def test_a_port_answer_and_the_decisions_after_it_are_published_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With one tool, a turn has two publications: after the answer of the model and after that of the tool.
    turns, published = 40, list[int]()
    real = GroupWriter.stage

    def stage(writer: GroupWriter, session_id: str, epoch: int, events: Sequence[Event], *more: Any) -> None:
        published.append(len(events))
        real(writer, session_id, epoch, events, *more)

    @tool(effect="read")
    async def look(page: int) -> str:
        """Look at a page."""
        return f"page {page}"

    def says(request: ModelRequest) -> Step:
        return call("look", page=request.turn) if request.turn < turns else say("done")

    async def run() -> None:
        async with Runtime(":memory:", model=ScriptedModel(says)) as runtime:
            outcome = await runtime.run(
                Agent("host", tools=[look]), "go", limits=Limits(max_iterations=turns)
            )
            assert outcome.text == "done"

    monkeypatch.setattr(GroupWriter, "stage", stage)
    asyncio.run(run())
    assert len(published) <= 2 * turns + 4
    assert sum(published) >= 6 * (turns - 1)
