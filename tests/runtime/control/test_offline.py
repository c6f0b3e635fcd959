"""Answers that are appended to a log that no process runs."""

import asyncio
from pathlib import Path

import pytest

from callboard import Limits, Runtime, ScriptedModel
from callboard.actors.protocol.errors import MisuseError, UnknownName
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval, ToolStarted
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.approvals import ApprovalAnswer
from callboard.runtime.control.offline import append_answer, open_questions, shown
from callboard.runtime.log.protocol import Append
from callboard.runtime.log.sqlite.log import SQLiteLog
from tests.runtime.ports.test_approval_port import NAME, PAY, Till, cut_at, plan, recorded

YES = ApprovalAnswer(True, by="ann")
NO = ApprovalAnswer(False, "too much", "bob")


def left(path: Path, events: list[Event]) -> int:
    """Write the log of a session that a process has left; return the seq of its last question."""

    async def write() -> None:
        log = SQLiteLog(path)
        await log.open()
        await log.create(NAME, 0, "")
        await log.append([Append(NAME, 0, 1, events)])
        await log.close()

    asyncio.run(write())
    return max((event.seq for event in events if isinstance(event.body, RequestApproval)), default=0)


def asking(*steps: object, limits: Limits | None = None) -> list[Event]:
    """Return the log up to the decision that asks, with all its outputs: a commit never splits them."""
    events = recorded(*steps, limits=limits)
    asked = cut_at(events, RequestApproval)[-1]
    last = max(event.seq for event in events if (event.cause, event.sender) == (asked.cause, asked.sender))
    return events[:last]


def waiting(path: Path) -> int:
    return left(path, asking(PAY))


def answered(path: Path, seq: int, *answers: ApprovalAnswer) -> list[bool]:
    """Append answers, each by a process of its own."""

    async def append(answer: ApprovalAnswer) -> bool:
        log = SQLiteLog(path)
        await log.open()
        try:
            return await append_answer(log, NAME, seq, answer)
        finally:
            await log.close()

    return [asyncio.run(append(answer)) for answer in answers]


def resumed(path: Path) -> tuple[str, Till]:
    till = Till()

    async def scene() -> str:
        async with Runtime(path, model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.resume(NAME, till.host)
            return (await asyncio.wait_for(session.outcome, 5)).text

    text = asyncio.run(scene())
    recording = Recording.open(path, NAME)
    recording.verify().check()
    assert check_log(list(recording.events)) == []
    return text, till


def test_an_answer_is_delivered_by_the_next_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = waiting(path)
    assert answered(path, seq, YES) == [True]
    recording = Recording.open(path, NAME)
    *_, last = recording.events
    assert (last.sender, last.recipient, last.cause) == ("approvals", "host", seq)
    assert isinstance(last.body, ApprovalGiven)
    assert (last.body.by, last.body.digest) == ("ann", recording.rows[seq - 1].digest.hex())
    recording.verify().check()
    text, till = resumed(path)
    assert till.paid == [5]
    assert "paid 5" in text


def test_a_refusal_is_read_by_the_model(tmp_path: Path) -> None:
    seq = waiting(tmp_path / "a.db")
    assert answered(tmp_path / "a.db", seq, NO) == [True]
    text, till = resumed(tmp_path / "a.db")
    assert "not allowed to run: too much" in text
    assert till.paid == []


def test_only_the_first_of_two_answers_counts(tmp_path: Path) -> None:
    seq = waiting(tmp_path / "a.db")
    assert answered(tmp_path / "a.db", seq, NO, YES) == [True, False]
    assert resumed(tmp_path / "a.db")[1].paid == []


def test_a_permission_may_be_given_and_holds_after_the_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = left(path, asking(PAY, PAY))
    assert answered(path, seq, YES._replace(is_always=True)) == [True]
    till = Till()

    async def scene() -> None:
        async with Runtime(path, model=ScriptedModel(plan(PAY, PAY))) as runtime:
            session = await runtime.resume(NAME, till.host)
            await asyncio.wait_for(session.outcome, 5)

    asyncio.run(scene())
    assert till.paid == [5, 5]


def test_an_expired_question_cannot_be_answered_and_is_not_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    events = asking(PAY, limits=Limits(approval_timeout_s=60))
    old = [Event(e.seq, e.at - 60_000, e.sender, e.recipient, e.cause, e.body) for e in events]
    seq = left(path, old)
    assert answered(path, seq, YES) == [False]
    assert "expired" in resumed(path)[0]


@pytest.mark.parametrize("seq", [0, 1, 99])
def test_an_event_that_asks_nothing_cannot_be_answered(tmp_path: Path, seq: int) -> None:
    waiting(tmp_path / "a.db")
    with pytest.raises(UnknownName, match="asks for no approval"):
        answered(tmp_path / "a.db", seq, YES)


def test_a_log_that_ends_inside_a_decision_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    events = asking(PAY)
    assert [event.kind for event in events[-2:]] == ["RequestApproval", "TurnSettled"]
    seq = left(path, events[:-1])
    with pytest.raises(MisuseError, match="ends inside a decision"):
        answered(path, seq, YES)


def test_changed_arguments_need_the_process_that_runs_the_tools(tmp_path: Path) -> None:
    seq = waiting(tmp_path / "a.db")
    with pytest.raises(MisuseError, match="check changed arguments"):
        answered(tmp_path / "a.db", seq, YES._replace(arguments={"euros": 1}))


def test_a_secret_in_a_note_is_not_written(tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "x" * 95
    seq = waiting(tmp_path / "a.db")
    assert answered(tmp_path / "a.db", seq, NO._replace(note=f"not with {key}")) == [True]
    assert key.encode() not in (tmp_path / "a.db").read_bytes()


def test_the_open_questions_are_those_of_agents_that_still_want_them(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    seq = waiting(path)
    recording = Recording.open(path, NAME)
    (question,) = open_questions(NAME, recording.rows, 0)
    assert shown(NAME, question).id == f"{NAME}#{seq}"
    left(tmp_path / "b.db", cut_at(recorded(PAY), ToolStarted))
    assert open_questions(NAME, Recording.open(tmp_path / "b.db", NAME).rows, 0) == []
