"""Approvals, live: the questions that a person gets, their moment, and the effect of the answer."""

import asyncio
from pathlib import Path

import pytest

from callboard import Agent, Limits, Outcome, Runtime, ScriptedModel, call, say, tool
from callboard.actors.protocol.errors import InvalidAgent, MisuseError
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.runtime.approvals import Approval, Approver
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step

NAME = "one"


class Till:
    """A tool that pays, and a record of its payments."""

    def __init__(self, approval: str = "before") -> None:
        self.paid: list[int] = []

        @tool(approval=approval)  # type: ignore[call-overload, untyped-decorator]  # one of several kinds of values
        async def pay(euros: int) -> str:
            """Send money to a shop."""
            self.paid.append(euros)
            return f"paid {euros}"

        self.host = Agent("host", tools=[pay])


def policy(request: ModelRequest) -> Step:
    if request.turn == 1:
        return call("pay", euros=5)
    return say(str(request.conversation[-1]["content"]))


def events_of(log: MemoryLog) -> list[Event]:
    return list(Recording.open(MemoryReader(log), NAME).events)


def paying(till: Till, approve: Approver) -> tuple[Outcome, list[Event]]:
    log = MemoryLog()

    async def scene() -> Outcome:
        async with Runtime(log, model=ScriptedModel(policy), approve=approve) as runtime:
            return await runtime.run(till.host, "go", session_id=NAME)

    outcome = asyncio.run(scene())
    Recording.open(MemoryReader(log), NAME).verify().check()
    return outcome, events_of(log)


def test_an_approver_is_shown_the_call_and_its_yes_lets_it_run() -> None:
    till, seen = Till(), list[Approval]()

    async def approve(question: Approval) -> bool:
        seen.append(question)
        assert till.paid == []
        return True

    outcome, events = paying(till, approve)
    assert till.paid == [5]
    assert "paid 5" in outcome.text
    (question,) = seen
    assert (question.address, question.profile, question.tool, question.effect) == (
        "host",
        "host",
        "pay",
        "write",
    )
    assert (question.arguments, question.arguments_json) == ({"euros": 5}, '{"euros":5}')
    (request,) = [event for event in events if isinstance(event.body, RequestApproval)]
    assert question.seq == request.seq


def test_the_answer_names_the_digest_of_the_log_that_was_shown() -> None:
    shown: list[str] = []

    def approve(question: Approval) -> bool:
        shown.append(question.digest)
        return True

    _, events = paying(Till(), approve)
    (given,) = [event.body for event in events if isinstance(event.body, ApprovalGiven)]
    assert [given.digest] == shown
    assert len(given.digest) == 64


@pytest.mark.parametrize(
    ("answer", "read"), [(False, "not allowed to run."), ("too much", "to run: too much")], ids=str
)
def test_a_no_is_read_by_the_model_with_its_reason(answer: bool | str, read: str) -> None:
    till = Till()
    outcome, _ = paying(till, lambda question: answer)
    assert till.paid == []
    assert read in outcome.text


def test_an_approver_that_fails_allows_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def approve(question: Approval) -> bool:
        raise OSError("no terminal")

    till = Till()
    outcome, _ = paying(till, approve)
    assert till.paid == []
    assert "failed with OSError" in outcome.text
    assert "no terminal" in caplog.text


def test_an_approver_that_answers_nonsense_allows_nothing() -> None:
    till = Till()
    outcome, _ = paying(till, lambda question: 1)  # type: ignore[arg-type,return-value]  # a wrong value on purpose
    assert till.paid == []
    assert "TypeError" in outcome.text


def test_a_session_shows_its_questions_to_a_watcher() -> None:
    till = Till()

    async def scene() -> tuple[bool, bool, Outcome]:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(till.host)
            asking = asyncio.create_task(session.ask("go"))
            questions = session.approvals()
            question = await anext(questions)
            first, second = question.approve(), question.deny()
            outcome = await asking
            await session.close()
            assert [one async for one in session.approvals()] == []
            return first, second, outcome

    first, second, outcome = asyncio.run(scene())
    assert (first, second) == (True, False), "only the first answer counts"
    assert "paid 5" in outcome.text


def test_a_late_watcher_sees_the_questions_that_wait_already() -> None:
    till = Till()

    async def scene() -> Outcome:
        async with Runtime(":memory:", model=ScriptedModel(policy), approve=lambda question: None) as runtime:
            session = await runtime.open(till.host)
            asking = asyncio.create_task(session.ask("go"))
            async for event in session.events():
                if isinstance(event.body, RequestApproval):
                    break
            async for question in session.approvals():
                assert question.deny("no money")
                break
            return await asking

    assert "no money" in asyncio.run(scene()).text
    assert till.paid == []


def test_a_cancel_withdraws_the_question() -> None:
    till = Till()

    async def scene() -> tuple[Outcome | None, bool]:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(till.host)
            asking = asyncio.create_task(session.ask("go"))
            question = await anext(session.approvals())
            outcome = await session.cancel()
            await asking
            return outcome, question.is_open or question.approve()

    outcome, is_open = asyncio.run(scene())
    assert outcome is not None
    assert outcome.kind == "cancelled"
    assert not is_open
    assert till.paid == []


def test_a_deadline_ends_the_waiting() -> None:
    till = Till()

    async def scene() -> Outcome:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            session = await runtime.open(till.host)
            return await session.ask("go", limits=Limits(deadline_s=0.01))

    assert asyncio.run(scene()).kind == "deadline"


def test_a_run_without_an_approver_is_refused_if_it_needs_one() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=ScriptedModel(policy)) as runtime:
            with pytest.raises(MisuseError, match="approve="):
                await runtime.run(Agent("boss", agents=[Till().host]), "go")

    asyncio.run(scene())


def test_an_unknown_kind_of_approval_is_refused() -> None:
    with pytest.raises(InvalidAgent, match="approval is never"):
        Till("sometimes")


# --- after a crash ----------------------------------------------------------------


async def log_of(events: list[Event]) -> MemoryLog:
    log = MemoryLog()
    await log.open()
    await log.create(NAME, 0, "")
    (answer,) = await log.append([Append(NAME, 0, 1, events)])
    assert not isinstance(answer, Exception)
    await log.close()
    return log


@pytest.mark.parametrize(("answer", "paid"), [(True, [5, 5]), (False, [5])], ids=["again", "not again"])
def test_a_person_decides_on_a_call_that_a_crash_interrupted(answer: bool, paid: list[int]) -> None:
    till = Till("interrupted")
    _, events = paying(till, lambda question: True)
    assert till.paid == [5]
    cut = next(event.seq for event in events if isinstance(event.body, ToolStarted))
    repeats: list[bool] = []

    def approve(question: Approval) -> bool:
        repeats.append(question.is_repeat)
        return answer

    async def scene() -> Outcome:
        log = await log_of(events[:cut])
        async with Runtime(log, model=ScriptedModel(policy), approve=approve) as runtime:
            session = await runtime.resume(NAME, till.host)
            return await session.outcome

    outcome = asyncio.run(scene())
    assert repeats == [True]
    assert till.paid == paid
    assert ("paid 5" if answer else "is not known") in outcome.text


def test_a_question_that_a_crash_cut_off_is_asked_again(tmp_path: Path) -> None:
    till = Till()
    _, events = paying(till, lambda question: True)
    till.paid.clear()
    cut = next(event.seq for event in events if isinstance(event.body, RequestApproval))

    async def scene() -> Outcome:
        log = await log_of(events[:cut])
        async with Runtime(log, model=ScriptedModel(policy), approve=lambda question: True) as runtime:
            session = await runtime.resume(NAME, till.host)
            return await session.outcome

    assert "paid 5" in asyncio.run(scene()).text
    assert till.paid == [5]


def test_the_object_of_the_program_is_not_among_the_values() -> None:
    shown = Approval(
        "s", "host", "clerk", "pay", "write", Json(b"{}"), False, 7, "00", None, 0, NULL, "secret object",
        lambda answer: True, lambda: True,
    )  # fmt: skip
    assert shown.deps == "secret object"
    assert "secret object" not in repr(shown) + shown.to_json()
