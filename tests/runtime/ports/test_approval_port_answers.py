"""Answers to questions: of approvers of every kind, and those that a question does not take."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import Agent, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.errors import SessionDetached, SessionEnded
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.approvals import Approval, ApprovalAnswer, Approver
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.models.scripted import Step
from callboard.runtime.ports.approval_port import given_by
from callboard.runtime.secrets.registry import NO_SECRETS
from callboard.runtime.sessions.session import Session
from tests.tables import table


@tool(approval="always")
async def pay(euros: int) -> str:
    """Pay."""
    return f"paid {euros}"


def policy(request: ModelRequest) -> Step:
    return call("pay", euros=5) if request.turn == 1 else say("done")


async def nobody(session: Session) -> None:
    """Leave the answer to the approver."""


def given_in(
    approve: Approver | None, person: Callable[[Session], Awaitable[None]] = nobody, **settings: Any
) -> ApprovalGiven:
    """Run a call that needs approval, and return the answer to its question."""
    log = MemoryLog()

    async def main() -> None:
        async with (
            Runtime(log, model=ScriptedModel(policy), approve=approve, **settings) as runtime,
            asyncio.timeout(20),
            runtime.open(Agent("host", tools=[pay]), session_id="s") as session,
        ):
            asking = asyncio.create_task(session.ask("go"))
            await person(session)
            await asking

    asyncio.run(main())
    found = Recording.open(MemoryReader(log), "s")
    found.verify().check()
    (given,) = [event.body for event in found.events if isinstance(event.body, ApprovalGiven)]
    return given


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (True, ("approved", "", "", False)),
        (False, ("denied", "", "", False)),
        ("too much", ("denied", "too much", "", False)),
        (ApprovalAnswer(True, "fine", "ann", is_always=True), ("approved", "fine", "ann", True)),
        (ApprovalAnswer(False, "no", "bob", is_always=True), ("denied", "no", "bob", False)),
        (7, ("denied", "asking for it failed with TypeError", "", False)),
        (ValueError("x"), ("denied", "asking for it failed with ValueError", "", False)),
    ],
)
def test_what_an_approver_says_is_the_answer(
    said: Any, expected: object, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def at_once(question: Approval) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    async def later(question: Approval) -> Any:
        await asyncio.sleep(0)
        return at_once(question)

    with caplog.at_level(logging.ERROR):
        given = given_in(later if is_async else at_once)
    assert (given.verdict, given.note, given.by, given.is_always) == expected
    assert (given.turn, given.call, given.is_repeat, given.round) == (1, 0, False, 0)
    assert ("asking for approval of pay failed" in caplog.text) == ("failed with" in given.note)


@pytest.mark.parametrize("ends", ["cancelled", "raises"])
def test_an_approver_is_given_up_once_a_person_has_answered(ends: str) -> None:
    ended: list[str] = []

    async def waits(question: Approval) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(ends)
            if ends == "raises":
                raise ValueError("too late")
        return True

    async def person(session: Session) -> None:
        (question,) = [await anext(session.approvals())]
        assert await session.approve(question.seq, "mine")
        for _ in range(5):
            await asyncio.sleep(0)
        assert ended == [ends]

    given = given_in(waits, person)
    assert (given.verdict, given.note) == ("approved", "mine")


def test_a_question_has_all_that_its_call_has_and_a_late_answer_does_not_count() -> None:
    seen: list[Approval] = []

    async def person(session: Session) -> None:
        question = await anext(session.approvals())
        seen.append(question)
        assert question.is_open
        assert await session.approve(question.seq)
        assert not question.is_open
        await session.close()
        assert not await session.approve(question.seq)

    given = given_in(None, person, deps="object")
    (one,) = seen
    assert (one.session_id, one.address, one.profile, one.tool, one.effect) == (
        "s", "host", "host", "pay", "write"
    )  # fmt: skip
    assert (one.arguments, one.is_repeat, one.round, one.expires_at_ms) == ({"euros": 5}, False, 0, None)
    assert (one.deps, one.digest) == ("object", given.digest)


FORM = Json(b'{"input":{"message":"m","schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}')


def answered(answer: ApprovalAnswer, **more: Any) -> ApprovalGiven:
    body = RequestApproval(1, 0, "pay", "write", Json(b"{}"), **more)
    request = Event(9, 0, "host", "approvals", 8, body)
    return given_by(request, "digest", answer, NO_SECRETS.redactor)


@table(
    ("answer", "more", "why"),
    [
        (ApprovalAnswer(True, is_always=True), {"is_repeat": True}, "was interrupted: approve it alone"),
        (ApprovalAnswer(True, is_always=True), {"round": 1, "form": FORM}, "asks for input: approve it"),
        (ApprovalAnswer(True, arguments={}), {"round": 1, "form": FORM}, "has begun: give values="),
        (ApprovalAnswer(True, reuses=True), {}, "no recorded result to reuse"),
        (ApprovalAnswer(True, values={"n": 1}), {}, "asks for no input: it takes no values="),
    ],
)
def test_an_answer_that_a_question_does_not_take_is_refused(
    answer: ApprovalAnswer, more: Any, why: str
) -> None:
    with pytest.raises(Exception, match=f"call 9 of pay {why}|call 9 of pay has {why}"):
        answered(answer, **more)


def test_a_form_that_is_denied_needs_no_values_and_its_round_is_told() -> None:
    given = answered(ApprovalAnswer(False), round=2, form=FORM)
    assert (given.verdict, given.round, given.is_repeat) == ("denied", 2, False)
    assert answered(ApprovalAnswer(True), is_repeat=True).is_repeat
    assert len(answered(ApprovalAnswer(False, "x" * 9_000)).note) <= 2_000


def test_an_answer_to_a_session_that_was_left_says_that_a_resume_comes_first() -> None:
    async def main() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(Agent("host", tools=[pay]))
            await session.submit("go")
            question = await anext(session.approvals())
            await session.detach(0)
            for answer in (session.approve, session.deny):
                with pytest.raises(SessionEnded, match="resume it, then answer"):
                    await answer(question.seq)

    asyncio.run(main())


def test_a_question_that_the_end_of_the_loop_cancels_stays_open_for_the_next_process() -> None:
    log = MemoryLog()

    async def main() -> None:
        async with Runtime(log, model=ScriptedModel(policy)) as runtime, asyncio.timeout(20):
            session = await runtime.open(Agent("host", tools=[pay]), session_id="s")
            await session.submit("go")
            await anext(session.approvals())
            for task in session._approval_port._tasks.running:
                task.cancel()
            with pytest.raises(SessionDetached):
                await session.outcome

    asyncio.run(main())
    events = Recording.open(MemoryReader(log), "s").events
    assert not [event for event in events if isinstance(event.body, ApprovalGiven)]
