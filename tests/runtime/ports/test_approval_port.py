"""Approvals in a service: answered by id, once, in time, with other arguments, or for all later calls."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from callboard import Agent, Limits, Outcome, Runtime, ScriptedModel, ToolContext, call, calls, say, tool
from callboard.actors.protocol.client_messages import RevokePermission
from callboard.actors.protocol.errors import (
    InvalidAgent,
    InvalidPrompt,
    MisuseError,
    SessionEnded,
    UnknownName,
)
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ApprovalGiven, CallTool, RequestApproval, ToolStarted
from callboard.actors.protocol.request import ModelRequest
from callboard.actors.protocol.value_types import InputAsked
from callboard.actors.session.port_actions import Start
from callboard.replay.recording import Recording
from callboard.replay.testing.rules.invariants import check_log
from callboard.runtime.approvals import Approval, ApprovalAnswer, Approver
from callboard.runtime.clock import now_ms
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from callboard.runtime.log.protocol import Append
from callboard.runtime.models.scripted import Step
from callboard.runtime.sessions.session import Session
from callboard.runtime.tools.input_forms import InputNeeded
from callboard.runtime.tools.tool import Tool
from tests.tables import table

NAME = "one"


class Till:
    """Tools that pay, one from a signature and one with a ready schema, and a record of the payments."""

    def __init__(self) -> None:
        self.paid: list[object] = []

        @tool(approval="always")
        async def pay(euros: int) -> str:
            """Send money to a shop."""
            self.paid.append(euros)
            return f"paid {euros}"

        async def wire(arguments: dict[str, object]) -> str:
            self.paid.append(arguments["euros"])
            return "wired"

        schema = {"type": "object", "properties": {"euros": {"type": "integer", "maximum": 9}}}
        self.host = Agent("host", tools=[pay, Tool("wire", "", schema, wire, approval="before")])


def plan(*steps: object) -> Callable[[ModelRequest], Step]:
    """Return a policy that makes these calls one turn after the other, and then repeats the last result."""

    def policy(request: ModelRequest) -> Step:
        if request.turn <= len(steps):
            return steps[request.turn - 1]  # type: ignore[return-value]  # a step of any kind
        return say(str(request.conversation[-1]["content"]))

    return policy


PAY = call("pay", euros=5)

Talk = Callable[[Session, Callable[[], Awaitable[Approval]]], Awaitable[None]]


class Scene:
    """One ask in a session, a person who talks with it, and the log that they leave."""

    def __init__(self, *steps: object, limits: Limits | None = None, approve: Approver | None = None) -> None:
        self.till, self.log = Till(), MemoryLog()
        self._model = ScriptedModel(plan(*steps))
        self._limits, self._approve = limits, approve

    def play(self, talk: Talk) -> Outcome:
        """Ask, talk, wait for the outcome, and check the log."""
        outcome = asyncio.run(self._play(talk))
        recording = Recording.open(MemoryReader(self.log), NAME)
        recording.verify().check()
        assert check_log(self.events) == []
        return outcome

    async def _play(self, talk: Talk) -> Outcome:
        runtime = Runtime(self.log, model=self._model, limits=self._limits, approve=self._approve)
        async with runtime, await runtime.open(self.till.host, session_id=NAME) as session:
            asking = asyncio.create_task(session.ask("go"))
            questions = session.approvals()
            await talk(session, lambda: anext(questions))
            return await asking

    @property
    def events(self) -> list[Event]:
        return list(Recording.open(MemoryReader(self.log), NAME).events)

    @property
    def given(self) -> list[ApprovalGiven]:
        return [event.body for event in self.events if isinstance(event.body, ApprovalGiven)]


async def says_nothing(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
    pass


def test_an_answer_by_id_counts_once_and_the_second_person_is_told() -> None:
    scene = Scene(PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        assert list(session.open_approvals) == [question]
        assert question.id == f"{NAME}#{question.seq}"
        both = [session.approve(question.seq, by="ann"), session.deny(question.seq, by="bob")]
        assert await asyncio.gather(*both) == [True, False]
        assert not question.is_open
        assert not question.approve(by="carl")
        assert not session.open_approvals

    scene.play(talk)
    (given,) = scene.given
    assert (given.verdict, given.by, len(given.digest)) == ("approved", "ann", 64)
    assert scene.till.paid == [5]


def test_an_answer_by_id_that_is_told_as_counted_is_durable() -> None:
    scene = Scene(PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        assert await session.deny(question.seq, "no", by="ann")
        rows = await scene.log.read(NAME)
        assert any(b'"by":"ann"' in row.body for row in rows)

    scene.play(talk)


@pytest.mark.parametrize("seq", [1, 99, 0, -1])
def test_an_event_that_asks_nothing_cannot_be_answered(seq: int) -> None:
    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        with pytest.raises(UnknownName, match="asks for no approval"):
            await session.approve(seq)
        (await asked()).deny()

    Scene(PAY).play(talk)


def test_an_answer_by_id_ends_the_wait_of_an_approver() -> None:
    cancelled: list[bool] = []

    async def approve(question: Approval) -> bool:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return False

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        assert await session.approve((await asked()).seq)

    scene = Scene(PAY, approve=approve)
    scene.play(talk)
    assert (cancelled, scene.till.paid) == ([True], [5])


def test_a_cancel_withdraws_a_question_at_once() -> None:
    scene = Scene(PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        await session.cancel()
        assert not question.is_open
        assert question.approve() is False

    assert scene.play(talk).in_doubt == ()
    assert [one.verdict for one in scene.given] == ["cancelled"]


# --- other arguments --------------------------------------------------------------


def test_a_call_runs_with_the_arguments_that_were_approved_and_the_model_is_told() -> None:
    scene = Scene(PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        assert (await asked()).approve(arguments={"euros": 3})

    outcome = scene.play(talk)
    assert scene.till.paid == [3]
    assert "approved with other arguments" in outcome.text
    assert bytes(scene.given[0].arguments) == b'{"euros":3}'


@table("arguments", [{"euros": "much"}, {}, {"euros": 3, "to": "me"}, {"euros": {1, 2}}])
@table("step", [PAY, call("wire", euros=5)], ids=["typed", "ready schema"])
def test_arguments_that_do_not_fit_are_refused_and_the_question_stays_open(
    step: object, arguments: dict[str, object]
) -> None:
    scene = Scene(step)
    is_ready = step != PAY

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        if is_ready and arguments in ({}, {"euros": 3, "to": "me"}):  # its schema allows these
            assert question.deny()
            return
        with pytest.raises(InvalidPrompt):
            question.approve(arguments=arguments)
        with pytest.raises(InvalidPrompt):
            await session.approve(question.seq, arguments=arguments)
        assert question.is_open
        assert question.deny("then not")

    assert "not allowed to run" in scene.play(talk).text
    assert scene.till.paid == []


def test_a_ready_schema_is_checked_in_full() -> None:
    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        with pytest.raises(InvalidPrompt, match="/euros"):
            question.approve(arguments={"euros": 10})
        assert question.approve(arguments={"euros": 9})

    scene = Scene(call("wire", euros=5))
    scene.play(talk)
    assert scene.till.paid == [9]


def test_a_tool_that_is_not_in_this_process_takes_no_other_arguments() -> None:
    scene = Scene(PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        del scene.till.host.tools["pay"]  # as in a program that lacks the tool
        with pytest.raises(InvalidPrompt, match="there is no tool 'pay' in this program"):
            question.approve(arguments={"euros": 4})
        assert question.deny()

    scene.play(talk)
    assert scene.till.paid == []


@pytest.mark.parametrize("by_id", [False, True], ids=["question", "id"])
def test_the_values_of_a_form_go_to_the_call_and_into_the_log(by_id: bool) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    forms = Json(msgspec.json.encode({"where": {"message": "Where to?", "schema": schema}}))
    scene, got = Scene(call("book")), list[object]()

    @tool(effect="read")
    def book(ctx: ToolContext) -> str:
        """Book a journey."""
        if ctx.given is None:
            raise InputNeeded("it asks", InputAsked(forms))
        got.append((ctx.given.action, msgspec.json.decode(ctx.given.values)))
        return "booked"

    scene.till.host = Agent("host", tools=[book])

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        assert question.forms == {"where": {"message": "Where to?", "schema": schema}}
        if by_id:
            assert await session.approve(question.seq, by="ann", values={"city": "Oslo"})
        else:
            assert question.approve(by="ann", values={"city": "Oslo"})
        assert session.open_approvals == ()

    scene.play(talk)
    assert got == [("accept", {"where": {"city": "Oslo"}})]
    (given,) = scene.given
    assert (given.by, msgspec.json.decode(given.values)) == ("ann", {"where": {"city": "Oslo"}})


def test_an_approver_may_return_a_whole_answer() -> None:
    scene = Scene(PAY, approve=lambda question: ApprovalAnswer(True, by="ann", arguments={"euros": 4}))

    scene.play(says_nothing)
    assert (scene.till.paid, scene.given[0].by) == ([4], "ann")


# --- for all later calls ----------------------------------------------------------


def test_always_answers_later_calls_and_those_that_wait_already() -> None:
    scene = Scene(calls(PAY, PAY), PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        first, second = await asked(), await asked()
        assert first.approve(by="ann", always=True)
        assert not second.is_open
        assert not second.deny()
        (permission,) = session.permissions()
        assert (permission.profile, permission.tool, permission.by) == ("host", "pay", "ann")

    scene.play(talk)
    assert scene.till.paid == [5, 5, 5]
    always = next(event.seq for event in scene.events if isinstance(event.body, ApprovalGiven))
    assert [one.permission for one in scene.given] == [0, always, always]


def test_a_revoked_permission_is_asked_about_again_and_can_be_revoked_once() -> None:
    scene = Scene(PAY, say("one"), PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        (await asked()).approve(always=True)
        await session.outcome
        (permission,) = session.permissions()
        assert await session.revoke(permission.seq, by="ann")
        assert not await session.revoke(permission.seq)
        assert session.permissions() == ()
        again = asyncio.create_task(session.ask("again"))
        assert (await asked()).deny("not this time")
        await again

    scene.play(talk)
    assert [one.verdict for one in scene.given] == ["approved", "denied"]
    assert [event.body.by for event in scene.events if isinstance(event.body, RevokePermission)] == ["ann"]


def test_a_permission_that_is_revoked_while_a_covered_call_waits_for_the_disk_does_not_cover_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(PAY, PAY)

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        board = session._board
        (await asked()).approve(always=True)
        (permission,) = session.permissions()
        requests: asyncio.Queue[Event] = asyncio.Queue()
        start = board.start

        def started(one: Start) -> None:
            if isinstance(one.request.body, RequestApproval):
                requests.put_nowait(one.request)
            start(one)

        monkeypatch.setattr(board, "start", started)
        await requests.get()  # posted, and not durable yet
        assert await session.revoke(permission.seq)
        question = await asked()
        assert question.deny("no more")

    scene.play(talk)
    assert scene.till.paid == [5]


def test_a_closed_session_revokes_nothing() -> None:
    async def scene() -> None:
        async with Runtime(":memory:", model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.open(Till().host)
            asking = asyncio.create_task(session.ask("go"))
            question = await anext(session.approvals())
            question.approve(always=True)
            await asking
            await session.close()
            with pytest.raises(SessionEnded):
                await session.revoke(session.permissions()[0].seq)

    asyncio.run(scene())


# --- time -------------------------------------------------------------------------


def test_a_question_expires_and_the_late_answer_is_told() -> None:
    scene = Scene(PAY, limits=Limits(approval_timeout_s=0.05))

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        assert question.expires_at_ms is not None
        await session.outcome
        assert not question.is_open
        assert not await session.approve(question.seq, by="ann")

    assert "not allowed to run: expired" in scene.play(talk).text
    assert scene.till.paid == []


def test_an_answer_after_the_time_and_before_the_timer_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, late_ms = Scene(PAY, limits=Limits(approval_timeout_s=60)), [0]
    monkeypatch.setattr("callboard.runtime.sessions.board.now_ms", lambda: now_ms() + late_ms[0])

    async def talk(session: Session, asked: Callable[[], Awaitable[Approval]]) -> None:
        question = await asked()
        late_ms[0] = 60_000
        assert question.approve(arguments={"euros": "much"}) is False
        assert question.approve() is False

    assert "expired" in scene.play(talk).text
    assert scene.till.paid == []


# --- after a restart --------------------------------------------------------------


def cut_at(events: list[Event], kind: type, nth: int = 0) -> list[Event]:
    return events[: [event.seq for event in events if isinstance(event.body, kind)][nth]]


def resumed(
    events: list[Event], talk: Callable[[Session], Awaitable[None]], *steps: object
) -> tuple[Outcome, Till]:
    """Resume a session from these events, and talk with it."""
    till, log = Till(), MemoryLog()

    async def scene() -> Outcome:
        await log.open()
        await log.create(NAME, 0, "")
        await log.append([Append(NAME, 0, 1, events)])
        await log.close()
        async with Runtime(log, model=ScriptedModel(plan(*steps))) as runtime:
            session = await runtime.resume(NAME, till.host)
            await talk(session)
            return await session.outcome

    outcome = asyncio.run(scene())
    Recording.open(MemoryReader(log), NAME).verify().check()
    return outcome, till


def recorded(*steps: object, limits: Limits | None = None, always: bool = False) -> list[Event]:
    scene = Scene(
        *steps, limits=limits, approve=lambda question: ApprovalAnswer(True, by="ann", is_always=always)
    )

    scene.play(says_nothing)
    return scene.events


def test_an_answer_that_an_earlier_process_took_is_not_taken_again() -> None:
    events = recorded(PAY)
    asked = next(event.seq for event in events if isinstance(event.body, RequestApproval))

    async def talk(session: Session) -> None:
        assert not await session.deny(asked, by="bob")

    _, till = resumed(cut_at(events, ApprovalGiven), talk, PAY)
    assert till.paid == [5]


def test_an_open_question_is_answered_by_its_id_right_after_a_resume() -> None:
    events = recorded(PAY)
    asked = next(event.seq for event in events if isinstance(event.body, RequestApproval))

    async def talk(session: Session) -> None:
        assert await session.approve(asked, by="bob")

    _, till = resumed(cut_at(events, RequestApproval), talk, PAY)
    assert till.paid == [5]


def test_a_question_whose_time_was_over_while_no_process_ran_is_denied_and_not_shown() -> None:
    events = cut_at(recorded(PAY, limits=Limits(approval_timeout_s=60)), RequestApproval)
    long_ago = [Event(e.seq, e.at - 60_001, e.sender, e.recipient, e.cause, e.body) for e in events]

    async def talk(session: Session) -> None:
        await session.outcome
        assert session.open_approvals == ()

    outcome, till = resumed(long_ago, talk, PAY)
    assert "expired" in outcome.text
    assert till.paid == []


def test_a_permission_holds_after_a_restart_and_an_interrupted_call_is_asked_about_all_the_same() -> None:
    events = recorded(PAY, PAY, always=True)

    async def talk(session: Session) -> None:
        question = await anext(session.approvals())
        assert question.is_repeat
        (permission,) = session.permissions()
        with pytest.raises(MisuseError, match="interrupted"):
            question.approve(always=True)
        assert question.approve()
        assert [permission] == list(session.permissions())

    _, till = resumed(cut_at(events, ToolStarted), talk, PAY, PAY)
    assert till.paid == [5, 5], "the call in doubt, and the covered one after it"


def test_the_next_process_asks_the_questions_of_one_that_has_left(tmp_path: Path) -> None:
    till = Till()

    async def leave() -> int:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.open(till.host, session_id=NAME)
            asking = asyncio.ensure_future(session.ask("go"))
            question = await anext(session.approvals())
            await session._approval_port.aclose()
            assert not question.is_open
            assert not question.approve()
            with pytest.raises(SessionEnded, match="resume it, then answer"):
                await session.approve(question.seq)
            await asyncio.sleep(0)
            session._board.fail(RuntimeError("the process ends"))
            await asyncio.wait([asking])
            asking.exception()
            return question.seq

    async def come_back(seq: int) -> Outcome:
        async with Runtime(tmp_path / "a.db", model=ScriptedModel(plan(PAY))) as runtime:
            session = await runtime.resume(NAME, till.host)
            assert await session.approve(seq)
            return await session.outcome

    seq = asyncio.run(leave())
    assert "paid 5" in asyncio.run(come_back(seq)).text
    kinds = [e.kind for e in Recording.open(tmp_path / "a.db", NAME).events if isinstance(e.body, CallTool)]
    assert kinds == ["CallTool"]


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_time_for_approval_that_is_none_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidAgent, match="approval_timeout_s is a positive number"):
        tool(name="rest", approval="before", approval_timeout_s=seconds)(lambda: None)


def test_a_tool_states_its_own_time_for_approval() -> None:
    @tool(approval="before", approval_timeout_s=0.5)
    async def send(text: str) -> str:
        """Send a text."""
        return text

    assert send.spec().approval_timeout_ms == 500
