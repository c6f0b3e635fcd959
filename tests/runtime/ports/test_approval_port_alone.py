"""The approvals port without a session: its timers, its races, and the errors that an answer by id raises."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.errors import Diverged, InvalidPrompt, SessionEnded, UnknownName
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import ApprovalGiven, RequestApproval
from callboard.actors.session.permissions import Permissions
from callboard.runtime.approvals import Approval, ApprovalAnswer, Approver
from callboard.runtime.log.protocol import Stored
from callboard.runtime.ports.approval_port import ApprovalPort, given_by
from callboard.runtime.secrets.registry import NO_SECRETS
from tests.tables import table

YES = ApprovalAnswer(True)


def asking(seq: int = 9, tool: str = "pay", **more: Any) -> Event:
    body = RequestApproval(1, 2, tool, "write", Json(b"{}"), profile="till", **more)
    return Event(seq, 1_000, "host", "approvals", seq - 1, body)


class Desk:
    """A port, the board and the log that it is given, and the record of what it does with them."""

    def __init__(self, *requests: Event, approver: Approver | None = None) -> None:
        self.open = {one.seq: one for one in requests}
        self.given: list[Any] = []
        self.shown: list[Approval] = []
        self.done: list[str] = []
        self.wanted = True
        self.reads_at_once = False
        self.permissions = Permissions()
        gate = SimpleNamespace(
            request=self.open.get,
            may_answer=self.open.__contains__,
            is_wanted=lambda seq: self.wanted,
            permissions=self.permissions,
            cancelled=lambda request: Post(request.sender, "cancelled"),  # type: ignore[arg-type]  # a stand-in
        )
        self.board: Any = SimpleNamespace(
            session_id="s", now_ms=1_000, waits=None, error=None, gate=gate, answer=self._answer,
            durable=self._durable, flush=self._flush, secrets=NO_SECRETS, deps=SimpleNamespace(current=None),
            end_with_loop=lambda: self.done.append("end with loop"),
            inputs=SimpleNamespace(take=lambda request, values, secrets: Json(b'"taken"')),
        )  # fmt: skip
        self._all = dict(self.open)
        self.port = ApprovalPort(self.board, self, {}, approver, self.shown.append)  # type: ignore[arg-type]  # a stand-in

    async def read(self, session_id: str, start: int, limit: int) -> list[Stored]:
        """Read as a log does, not at once if that is not wanted."""
        if not self.reads_at_once:
            await asyncio.sleep(0)
        found = [one for one in self._all.values() if one.seq >= start]
        rows = (Stored(e.seq, e.at, e.sender, e.recipient, e.cause, encode(e.body), b"d") for e in found)
        return [*rows][:limit]

    def _answer(self, request: Event, answer: Post) -> None:
        if self.open.pop(request.seq, None) is not None:
            self.given.append(answer.body)
            if isinstance(answer.body, ApprovalGiven) and answer.body.is_always:
                asked = request.body
                assert isinstance(asked, RequestApproval)
                self.permissions.give(asked, Event(20, 1_000, "approvals", "host", 9, answer.body))

    async def _durable(self) -> None:
        self.done.append("durable")

    def _flush(self) -> None:
        self.done.append("flush")

    async def ask(self, *requests: Event) -> None:
        """Start requests, and let their questions be shown."""
        for one in requests:
            self.port.start(one)
        await passes()


async def passes() -> None:
    """Let the work of a few passes of the loop be done."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(work: Callable[[], Awaitable[None]]) -> list[dict[str, Any]]:
    """Run a test. Return what the event loop complained of."""
    said: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
        async with asyncio.timeout(20):
            await work()

    asyncio.run(main())
    return said


# --- answers without a person -----------------------------------------------------


def test_a_question_whose_time_is_over_is_never_shown() -> None:
    async def work() -> None:
        request = asking(timeout_ms=50, is_repeat=True)
        desk = Desk(request)
        desk.board.now_ms = 1_050
        await desk.ask(request)
        (given,) = desk.given
        assert (given.note, given.is_repeat, desk.shown, desk.port._waiting) == ("expired", True, [], {})

    run(work)


def test_a_timer_that_fires_early_is_set_again() -> None:
    async def work() -> None:
        request = asking(timeout_ms=2)
        desk = Desk(request)
        await desk.ask(request)
        first = desk.port._waiting[9].timer
        await asyncio.sleep(0.006)
        second = desk.port._waiting[9].timer
        assert second is not None
        assert second is not first
        assert desk.given == []
        desk.board.now_ms = 1_002
        await asyncio.sleep(0.006)
        assert [one.note for one in desk.given] == ["expired"]
        assert desk.port._waiting == {}

    run(work)


@pytest.mark.parametrize(("now_ms", "left_s"), [(1_000, 60.0), (1_000 + 60_000 - 1, 0.001)])
def test_a_timer_is_set_to_the_time_that_is_left_and_ends_with_its_question(
    now_ms: int, left_s: float
) -> None:
    async def work() -> None:
        request = asking(timeout_ms=60_000)
        desk = Desk(request)
        desk.board.now_ms = now_ms
        loop = asyncio.get_running_loop()
        before = loop.time()
        desk.port.start(request)
        timer = desk.port._waiting[9].timer
        assert timer is not None
        # All timers of a loop lie in one queue: its clock stands between two passes of this test.
        assert before + left_s <= timer.when() <= loop.time() + left_s
        await passes()
        if left_s > 1:
            assert desk.shown[0].approve() is True
        assert timer.cancelled() == (left_s > 1)

    run(work)


def test_a_question_that_is_answered_at_once_leaves_nothing() -> None:
    async def work() -> None:
        request = asking(timeout_ms=60_000)
        desk = Desk(request, approver=lambda question: True)
        desk.reads_at_once = True
        await desk.ask(request)
        assert ([one.verdict for one in desk.given], desk.port._waiting) == (["approved"], {})

    assert run(work) == []


def test_a_timer_that_fires_after_the_answer_does_nothing() -> None:
    async def work() -> None:
        request = asking(timeout_ms=60_000)
        desk = Desk(request)
        await desk.ask(request)
        assert desk.shown[0].approve() is True
        desk.port._expire(request)
        assert [one.verdict for one in desk.given] == ["approved"]

    run(work)


def test_a_permission_answers_the_open_questions_that_it_covers() -> None:
    async def work() -> None:
        first, second, third, other = asking(), asking(10), asking(11), asking(12, "wire")
        desk = Desk(first, second, third, other)
        await desk.ask(first, second, third, other)
        del desk.open[11]  # it has its answer, and its wait is about to end
        assert desk.shown[0].approve(always=True) is True
        assert [one.permission for one in desk.given] == [0, 20]
        assert desk.done == ["flush"]
        assert [one.seq for one in desk.port.questions] == [12]
        assert 10 not in desk.port._waiting, "at once, not with the next pass of the loop"

    run(work)


# --- withdrawn, and given up ------------------------------------------------------


def test_a_question_that_is_withdrawn_before_it_was_asked_leaves_nothing() -> None:
    async def work() -> None:
        request = asking(timeout_ms=60_000)
        desk = Desk(request)
        desk.port.start(request)
        timer = desk.port._waiting[9].timer
        assert timer is not None
        assert desk.port.abort(request) is False
        assert timer.cancelled()
        await passes()
        assert (desk.port._waiting, desk.shown, desk.given) == ({}, [], [])
        assert desk.port.abort(request) is False

    run(work)


def test_a_question_that_is_withdrawn_is_answered_as_cancelled() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        assert desk.port.abort(request) is True
        await passes()
        assert (desk.given, desk.port._waiting, desk.done) == (["cancelled"], {}, [])

    run(work)


@table("steps", [0, 1])
def test_a_question_that_is_answered_while_the_log_is_read_is_not_shown(steps: int) -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        desk.port.start(request)
        for _ in range(steps):  # before the read and amid it
            await asyncio.sleep(0)
        desk.port._close(9)
        await passes()
        assert desk.shown == []

    run(work)


def test_a_question_that_is_not_wanted_is_not_open() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        (question,) = desk.port.questions
        assert question.is_open is True
        desk.wanted = False
        assert (desk.port.questions, question.is_open, question.approve()) == ((), False, False)
        desk.wanted = True
        desk.port._close(9)
        assert question.is_open is False
        assert desk.given == []

    run(work)


def test_a_closed_port_has_ended_its_tasks_and_answers_nothing() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        await desk.port.aclose()
        assert desk.port._tasks.running == set()
        assert desk.given == []
        with pytest.raises(SessionEnded, match="session s has left this process; resume it"):
            await desk.port.answer(9, YES)
        assert desk.done == [], "nothing is left to be written"

    run(work)


def test_an_answer_by_id_that_is_looked_up_while_the_port_closes_is_told_so() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        answering = asyncio.ensure_future(desk.port.answer(9, YES))
        await asyncio.sleep(0)
        await desk.port.aclose()
        with pytest.raises(SessionEnded, match="resume it, then answer"):
            await answering
        assert desk.given == []

    run(work)


@pytest.mark.parametrize("ends", ["raises", "cancelled"])
def test_an_approver_that_is_no_longer_needed_is_looked_at(ends: str) -> None:
    async def waits(question: Approval) -> bool:
        try:
            await asyncio.Event().wait()
        finally:
            if ends == "raises":
                raise ValueError("too late")
        return True

    async def work() -> None:
        request = asking()
        desk = Desk(request, approver=waits)
        await desk.ask(request)
        assert desk.shown[0].approve() is True
        await passes()
        assert [one.verdict for one in desk.given] == ["approved"]
        gc.collect(1)  # an exception that nobody looked at is told when its task goes

    assert run(work) == []


def test_a_failed_approver_denies_the_same_round_of_the_same_call() -> None:
    def approver(question: Approval) -> bool:
        raise ValueError("x")

    async def work() -> None:
        request = asking(is_repeat=True, round=3)
        desk = Desk(request, approver=approver)
        await desk.ask(request)
        (given,) = desk.given
        assert (given.turn, given.call, given.verdict, given.is_repeat, given.round) == (
            1, 2, "denied", True, 3,
        )  # fmt: skip
        assert given.note == "asking for it failed with ValueError"

    run(work)


# --- by id ------------------------------------------------------------------------


def test_an_answer_by_id_raises_what_stops_its_session() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        desk.board.waits = Diverged("its code is another")
        with pytest.raises(Diverged):
            await desk.port.answer(9, YES)
        with pytest.raises(Diverged):
            desk.shown[0].approve()
        desk.board.waits = None
        assert desk.given == []

        async def breaks() -> None:
            desk.done.append("durable")
            if len(desk.done) == 2:
                desk.board.error = OSError("disk full")

        desk.board.durable = breaks
        with pytest.raises(OSError, match="disk full"):
            await desk.port.answer(9, YES)
        assert desk.done == ["durable", "durable"], "before it is looked up, and after it is given"

    run(work)


@table("seq", [0, -1, 1, 8, 10])
def test_an_event_that_asks_nothing_is_unknown(seq: int) -> None:
    async def work() -> None:
        desk = Desk(asking())
        read = desk.read
        desk.port._log.read = lambda *args: read(*args) if seq > 0 else pytest.fail("read")  # type: ignore[method-assign]  # replaced on purpose
        desk._all = {9: asking(), 10: Event(10, 1_000, "approvals", "host", 9, ApprovalGiven(1, 2, "denied"))}
        if seq in (1, 8):
            desk._all = {}
        with pytest.raises(UnknownName, match=f"event {seq} of session s asks for no approval"):
            await desk.port.answer(seq, YES)
        assert await desk.port.is_about(seq) is False

    run(work)


def test_the_first_event_of_a_log_may_be_asked_about() -> None:
    async def work() -> None:
        desk = Desk(asking(1), asking(2))
        assert await desk.port._stored(1) == (await desk.read("s", 1, 1))[0]

    run(work)


def test_questions_of_another_kind_are_answered_by_their_own_port() -> None:
    async def work() -> None:
        request = asking()
        desk, more = Desk(request), Desk(asking(10))
        desk.port.also = more.port
        await desk.ask(request)
        await more.ask(more.open[10])

        async def read(session_id: str, start: int, limit: int) -> list[Stored]:
            assert "durable" in desk.done, "a question is durable before it is looked up"
            return await Desk.read(more, session_id, start, limit)

        more.read = read  # type: ignore[method-assign]  # replaced on purpose
        assert [one.seq for one in desk.port.questions] == [9, 10]
        assert await desk.port.is_about(9) is True
        assert await desk.port.answer(10, YES) is True
        assert [one.verdict for one in more.given] == ["approved"]
        assert desk.given == []
        more._all = {}
        assert await desk.port.answer(9, YES) is True
        assert [one.verdict for one in desk.given] == ["approved"]

    run(work)


# --- what an answer has -----------------------------------------------------------

FORM = Json(b'{"input":{"message":"m","schema":{"type":"object","properties":{"n":{"type":"integer"}}}}}')


def test_the_values_of_a_form_go_through_the_store_of_inputs() -> None:
    async def work() -> None:
        request = asking(round=1, form=FORM)
        desk = Desk(request)
        await desk.ask(request)
        assert desk.shown[0].approve(values={"n": 1}) is True
        assert [bytes(one.values) for one in desk.given] == [b'"taken"']

    run(work)


def test_a_form_with_fields_that_are_needed_may_be_denied_without_them() -> None:
    needs = Json(
        b'{"input":{"message":"m","schema":{"type":"object","properties":{"n":{"type":"integer"}},'
        b'"required":["n"]}}}'
    )
    asked = asking(round=1, form=needs)
    assert given_by(asked, "d", ApprovalAnswer(False), NO_SECRETS.redactor).values == NULL
    with pytest.raises(InvalidPrompt):
        given_by(asked, "d", YES, NO_SECRETS.redactor)


def test_other_arguments_need_the_tool_of_this_process() -> None:
    async def work() -> None:
        request = asking()
        desk = Desk(request)
        await desk.ask(request)
        with pytest.raises(InvalidPrompt, match="no tool 'pay' in this program"):
            desk.shown[0].approve(arguments={})
        assert desk.shown[0].is_open
        assert desk.shown[0].deny() is True

    run(work)


def test_a_note_may_have_2_000_characters_and_a_name_200() -> None:
    for chars in (2_000, 2_001):
        given = given_by(
            asking(), "d", ApprovalAnswer(True, "n" * chars, "b" * (chars - 1_800)), NO_SECRETS.redactor
        )
        assert (given.note == "n" * chars) == (chars == 2_000)
        assert (given.by == "b" * (chars - 1_800)) == (chars == 2_000)
        assert (len(given.note), len(given.by)) == (2_000, 200)
