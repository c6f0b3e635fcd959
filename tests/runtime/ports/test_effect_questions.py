"""Questions of a fork about tools with an effect: when they are shown, and what an answer does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ToolReturned, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.runtime.agent import Agent
from callboard.runtime.approvals import Approval, ApprovalAnswer
from callboard.runtime.log.memory import MemoryLog
from callboard.runtime.models.scripted import ScriptedModel, call, calls, say
from callboard.runtime.ports.effect_questions import EffectQuestions
from callboard.runtime.runtime import Runtime
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.tool import tool
from tests.actors.session.hand_written import Log
from tests.runtime.forks.kit import events_of, said

RAN: list[str] = []
READ: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()
    READ.clear()


@tool(effect="read")
def look(place: str) -> str:
    """Look at a place."""
    READ.append(place)
    return f"saw {place}"


@tool(effect="write")
def send(text: str) -> str:
    """Send a text."""
    RAN.append(text)
    return f"sent {text}"


HOST = Agent("host", tools=[look, send])
X = call("send", text="x")


@asynccontextmanager
async def asking(
    log: MemoryLog, policy: Callable[[ModelRequest], Any], **settings: Any
) -> AsyncIterator[Session]:
    """Record a session, and fork it with another result of its first call."""
    async with Runtime(log, model=ScriptedModel(policy)) as runtime:
        await runtime.run(HOST, "Go.", session_id="origin")
    READ.clear()
    RAN.clear()
    async with Runtime(log, model=ScriptedModel(policy), **settings) as runtime, asyncio.timeout(20):
        session = await runtime.fork(
            "origin", HOST, changes={("host", 1, 0): "other"}, effects="ask", fork_id="f"
        )
        yield session


async def questions_of(session: Session, count: int) -> list[Approval]:
    """Wait until so many questions are open. Return them in the order of their calls."""
    found: list[Approval] = []
    async for one in session.approvals():
        found.append(one)
        if len(found) == count:
            return found
    raise AssertionError("the session has ended")


def nothing_asked(session: Session) -> bool:
    """Return True if nothing is kept of questions that have their answers."""
    questions = session._approval_port.also
    assert isinstance(questions, EffectQuestions)
    return not questions._asked


def results_of(log: MemoryLog) -> dict[tuple[int, int], ToolReturned]:
    """Return the answers of tools of the fork, by turn and call."""
    bodies = [one.body for one in events_of(log, "f")]
    return {(one.turn, one.call): one for one in bodies if isinstance(one, ToolReturned)}


def later(request: ModelRequest) -> Any:
    """Send x in the second turn as recorded; in three other places after a change."""
    if "other" not in said(request):
        return [call("look", place="a"), X, say("Done.")][request.turn - 1]
    plan = [None, call("look", place="b"), calls(X, X), X, say("Done.")]
    return plan[request.turn - 1]


def test_one_recorded_result_is_given_to_one_call() -> None:
    """Two calls of one turn are offered the same result; the second to want it is told that it is gone."""

    async def work() -> None:
        async with asking(log, later) as session:
            first, second = await questions_of(session, 2)
            assert first.same == second.same > 0
            assert await session._reuse(second.seq)
            with pytest.raises(MisuseError, match="has gone to another call"):
                first.reuse()
            assert first.is_open
            assert first.approve() is True
            (third,) = await questions_of(session, 1)
            assert third.same == 0
            with pytest.raises(MisuseError, match="no recorded result in another turn"):
                third.reuse()
            assert third.deny("enough")
            assert (await session.outcome).kind == "answered"

    log = MemoryLog()
    asyncio.run(work())
    found = results_of(log)
    assert RAN == ["x"]
    assert [bool(found[3, at].reused) for at in (0, 1)] == [False, True]
    assert found[4, 0].status == "error"


def early(request: ModelRequest) -> Any:
    """Send x in the third turn as recorded; in the second and third after a change."""
    if "other" not in said(request):
        return [call("look", place="a"), call("look", place="b"), X, say("Done.")][request.turn - 1]
    return [None, X, X, say("Done.")][request.turn - 1]


def test_a_result_that_was_chosen_is_not_given_at_its_own_place_as_well() -> None:
    async def work() -> None:
        async with asking(log, early) as session:
            (first,) = await questions_of(session, 1)
            assert await session._reuse(first.seq)
            (second,) = await questions_of(session, 1)
            assert second.same == 0
            second.approve()
            assert (await session.outcome).kind == "answered"

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == ["x"]
    assert [bool(results_of(log)[turn, 0].reused) for turn in (2, 3)] == [True, False]


def reading_on(request: ModelRequest) -> Any:
    """Send a text that depends on the first look, then look where the recording looked."""
    words = "two" if "other" in said(request) else "one"
    plan = [call("look", place="a"), call("send", text=words), call("look", place="b"), say("Done.")]
    return plan[request.turn - 1]


@pytest.mark.parametrize("yes", [True, False])
def test_a_yes_ends_the_reuse_of_reads_and_a_no_does_not(yes: bool) -> None:
    async def work() -> None:
        async with asking(log, reading_on) as session:
            (question,) = await questions_of(session, 1)
            question.approve() if yes else question.deny()
            await session.outcome

    log = MemoryLog()
    asyncio.run(work())
    assert ["two"] * yes == RAN
    assert ["b"] * yes == READ


@pytest.mark.parametrize("answer", [{"always": True}, {"arguments": {"text": "y"}}, {"values": {"a": 1}}])
def test_a_question_of_a_fork_takes_a_plain_yes_or_no(answer: dict[str, Any]) -> None:
    async def work() -> None:
        async with asking(log, reading_on) as session:
            (question,) = await questions_of(session, 1)
            with pytest.raises(MisuseError, match="approve it alone"):
                question.approve(**answer)
            assert question.is_open
            assert question.approve()
            await session.outcome

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == ["two"]


def test_a_refusal_has_the_words_of_the_person_without_secrets_and_cut() -> None:
    async def work() -> None:
        async with asking(log, reading_on, secrets={"KEY": "hunter2hunter2"}) as session:
            (question,) = await questions_of(session, 1)
            assert question.deny("hunter2hunter2 " + "w" * 3_000)
            await session.outcome

    log = MemoryLog()
    asyncio.run(work())
    told = bytes(results_of(log)[2, 0].output)
    assert told.startswith(b'"Not run: [')
    assert b"hunter2" not in told
    assert len(told) == 2_009  # the cut counts the secret, which was two characters longer than its name


def test_a_refusal_without_words_says_that_a_person_refused() -> None:
    async def work() -> None:
        async with asking(log, reading_on) as session:
            (question,) = await questions_of(session, 1)
            assert question.deny() is True
            assert question.deny() is False
            assert not question.is_open
            assert nothing_asked(session)
            await session.outcome

    log = MemoryLog()
    asyncio.run(work())
    assert bytes(results_of(log)[2, 0].output) == b'"Not run: a person refused this call"'


def test_an_approver_that_raises_refuses_the_call() -> None:
    def approver(question: Approval) -> bool:
        raise ValueError("no idea")

    async def work() -> None:
        async with asking(log, reading_on, approve=approver) as session:
            assert (await session.outcome).kind == "answered"

    log = MemoryLog()
    asyncio.run(work())
    found = results_of(log)[2, 0]
    assert (found.status, RAN) == ("error", [])
    assert b"asking for it failed with ValueError" in bytes(found.output)


def test_an_approver_may_take_the_recorded_result() -> None:
    async def work() -> None:
        async with asking(
            log, early, approve=lambda one: ApprovalAnswer(True, reuses=one.same > 0)
        ) as session:
            assert (await session.outcome).kind == "answered"

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == ["x"]


def test_a_refusal_gives_no_recorded_result_even_if_it_names_one() -> None:
    async def work() -> None:
        async with asking(log, early, approve=lambda one: ApprovalAnswer(False, reuses=True)) as session:
            assert (await session.outcome).kind == "answered"

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == []
    assert [results_of(log)[turn, 0].status for turn in (2, 3)] == ["error", "ok"]


def test_a_question_is_shown_when_its_call_is_durable_and_says_what_is_called() -> None:
    async def work() -> None:
        async with asking(log, reading_on, deps="object") as session:
            (question,) = await questions_of(session, 1)
            rows = await log.read("f", 1, 1_000)
            (row,) = [one for one in rows if one.seq == question.seq]
            assert question.digest == row.digest.hex()
            assert (question.address, question.profile, question.tool) == ("host", "host", "send")
            assert (question.effect, question.arguments, question.is_repeat) == (
                "write",
                {"text": "two"},
                False,
            )
            assert (question.session_id, question.round, question.forms) == ("f", 0, {})
            assert (question.is_fork, question.same, question.deps) == (True, 0, "object")
            assert question.expires_at_ms is None
            question.deny()
            await session.outcome

    log = MemoryLog()
    asyncio.run(work())


def test_a_question_about_a_durable_call_is_known_before_it_is_asked() -> None:
    class Noted(EffectQuestions):
        def start(self, request: Event) -> None:
            asked.append((request.seq, *self._asked))

    asked: list[tuple[int, ...]] = []
    request = Log().calls("send", 1)
    board: Any = SimpleNamespace(
        gate=SimpleNamespace(may_start=lambda request: True), when_durable=lambda seq, then: then()
    )
    questions = Noted(board, MemoryLog(), {}, None, lambda question: None)
    questions.ask(request, None, lambda same: None, lambda: None)
    assert asked == [(request.seq, request.seq)]


def test_an_ask_that_is_cancelled_right_after_a_yes_cancels_its_tool() -> None:
    async def work() -> None:
        async with asking(log, reading_on) as session:
            (question,) = await questions_of(session, 1)
            assert question.approve()
            await session.cancel("enough")
            assert (await session.outcome).kind == "cancelled"

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == []
    assert results_of(log)[2, 0].status == "cancelled"


def test_a_cancelled_ask_withdraws_its_question_and_the_tool_does_not_run() -> None:
    async def work() -> None:
        async with asking(log, reading_on) as session:
            (question,) = await questions_of(session, 1)
            await session.cancel("enough")
            assert (await session.outcome).kind == "cancelled"
            assert not question.is_open
            assert not question.approve()
            assert session.open_approvals == ()
            assert nothing_asked(session)

    log = MemoryLog()
    asyncio.run(work())
    assert RAN == []
    assert results_of(log)[2, 0].status == "cancelled"
    origin = sum(isinstance(one.body, ToolStarted) for one in events_of(log, "origin"))
    assert origin == 1
    assert not [one for one in events_of(log, "f") if isinstance(one.body, ToolStarted)]
