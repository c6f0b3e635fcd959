"""The checks of schemas and reports: at once or later, with validators and without, and past the end."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from callboard.actors.protocol.addresses import SCHEMA, SUPERVISOR
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import CallTool, CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.ports.schema_port import SchemaPort
from callboard.runtime.schemas.checker import SchemaChecker
from callboard.runtime.sessions.board import Board
from callboard.runtime.sessions.session_types import SessionTypes
from tests.virtual_clock import run_virtually

OK, BAD = SchemaChecked(1, "ok"), SchemaChecked(1, "invalid", (SchemaProblem("/a", "no"),))
REPORT = CheckSchema(1, "report", Json(b"{}"), Json(b"1"), 5_000)
TYPED = CheckSchema(1, "report", Json(b"{}"), Json(b"1"), 5_000, "m.T")


class Gate:
    def __init__(self, board: "FakeBoard") -> None:
        self._board = board

    def request(self, seq: int) -> Event | None:
        return self._board.requests.get(seq)


class FakeBoard:
    def __init__(self) -> None:
        self.requests: dict[int, Event] = {}
        self.given: list[tuple[int, Post]] = []
        self.gate = Gate(self)
        self.secrets = self
        self.redactor = "redactor"

    def answer(self, request: Event, post: Post) -> None:
        self.given.append((request.seq, post))
        self.requests.pop(request.seq, None)


class Checker:
    """A checker that answers as it is told. It is its own validators and types."""

    def __init__(self, answer: Any, validated: SchemaChecked | Exception = OK) -> None:
        self.answer, self.result = answer, validated
        self.validators = self
        self.asked: list[tuple[object, ...]] = []

    def check(self, body: CheckSchema, *more: Any) -> Any:
        if not more:
            return self.answer() if callable(self.answer) else self.answer
        self.asked.append((body, *more))
        return self._validate()

    async def _validate(self) -> SchemaChecked:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def find(self, name: str, schema: Json) -> str:
        return f"type {name}"


def later(answer: SchemaChecked | Exception) -> Callable[[], Awaitable[SchemaChecked]]:
    async def work() -> SchemaChecked:
        await asyncio.sleep(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return lambda: work()


def checked(checker: Checker, body: CheckSchema = REPORT) -> FakeBoard:
    """Let the port make one check."""
    board = FakeBoard()

    async def work() -> None:
        port = port_of(board, checker)
        board.requests[7] = Event(7, 0, SUPERVISOR, SCHEMA, 0, body)
        port.start(board.requests[7])
        while port.running:
            await asyncio.wait(port.running)
        await port.aclose()

    asyncio.run(work())
    return board


def port_of(board: FakeBoard, checker: Checker) -> SchemaPort:
    return SchemaPort(cast("Board", board), cast("SchemaChecker", checker), cast("SessionTypes", checker))


@pytest.mark.parametrize("answer", [OK, BAD])
@pytest.mark.parametrize("is_later", [False, True])
def test_a_check_is_answered_with_its_verdict(answer: SchemaChecked, is_later: bool) -> None:
    checker = Checker(later(answer) if is_later else answer)
    assert checked(checker).given == [(7, Post(SUPERVISOR, answer))]
    assert checker.asked == []


def test_a_cheap_check_is_answered_at_once() -> None:
    board = FakeBoard()
    port = port_of(board, Checker(BAD))
    port.start(Event(7, 0, SUPERVISOR, SCHEMA, 0, REPORT))
    assert len(board.given) == 1


@pytest.mark.parametrize("is_later", [False, True])
@pytest.mark.parametrize("verdict", [OK, BAD])
def test_validators_have_the_last_word_on_a_typed_report_that_fits(
    is_later: bool, verdict: SchemaChecked
) -> None:
    checker = Checker(later(OK) if is_later else OK, verdict)
    assert checked(checker, TYPED).given == [(7, Post(SUPERVISOR, verdict))]
    ((body, kind, redactor, left_s),) = checker.asked
    assert (body, kind, redactor) == (TYPED, "type m.T", "redactor")
    assert isinstance(left_s, float)
    assert 4 < left_s <= 5


@pytest.mark.parametrize("is_later", [False, True])
def test_validators_do_not_see_a_report_that_does_not_fit(is_later: bool) -> None:
    checker = Checker(later(BAD) if is_later else BAD)
    assert checked(checker, TYPED).given == [(7, Post(SUPERVISOR, BAD))]
    assert checker.asked == []


@pytest.mark.parametrize(
    "checker", [Checker(later(ValueError("x"))), Checker(OK, ValueError("x"))], ids=["check", "validator"]
)
def test_a_check_that_ends_in_an_exception_has_failed(checker: Checker) -> None:
    problem = SchemaProblem("", "the check failed with ValueError")
    assert checked(checker, TYPED).given == [(7, Post(SUPERVISOR, SchemaChecked(1, "failed", (problem,))))]


def test_a_check_that_fails_after_the_end_of_its_request_answers_nothing() -> None:
    board = FakeBoard()

    async def work() -> None:
        port = port_of(board, Checker(later(ValueError("x"))))
        request = Event(7, 0, SUPERVISOR, SCHEMA, 0, REPORT)
        port.start(request)  # the board knows no such request any more
        while port.running:
            await asyncio.wait(port.running)

    asyncio.run(work())
    assert board.given == []


def test_a_request_that_is_no_check_is_a_fault_of_the_caller() -> None:
    request = Event(7, 0, "host", SCHEMA, 0, CallTool(1, 0, "look", "read", Json(b"{}")))
    with pytest.raises(AssertionError):
        port_of(FakeBoard(), Checker(OK)).start(request)


def test_a_stop_lets_the_check_run_and_a_close_ends_it_without_an_answer() -> None:
    board = FakeBoard()
    blocked: list[bool] = []

    async def never() -> SchemaChecked:
        try:
            await asyncio.Event().wait()
        finally:
            blocked.append(True)
        return OK

    async def work() -> None:
        port = port_of(board, Checker(lambda: never()))
        request = board.requests[7] = Event(7, 0, SUPERVISOR, SCHEMA, 0, REPORT)
        port.start(request)
        await asyncio.sleep(0)
        assert port.abort(request)
        port.detach()
        assert len(port.running) == 1
        await port.aclose()
        assert not port.running

    asyncio.run(work())
    assert blocked == [True]
    assert board.given == []


def test_the_validators_have_the_time_that_the_check_of_the_schema_has_left() -> None:
    async def slow() -> SchemaChecked:
        await asyncio.sleep(2)
        return OK

    checker, board = Checker(lambda: slow()), FakeBoard()

    async def work() -> None:
        port = port_of(board, checker)
        board.requests[7] = Event(7, 0, SUPERVISOR, SCHEMA, 0, TYPED)
        port.start(board.requests[7])
        await asyncio.sleep(3)
        await port.aclose()

    run_virtually(work())
    ((body, kind, redactor, left),) = checker.asked
    assert (body, kind, redactor) == (TYPED, "type m.T", "redactor")
    assert left == pytest.approx(3.0, abs=1e-6)


def test_a_check_that_is_lost_after_its_answer_is_not_answered_again() -> None:
    answered: list[object] = []
    gate = SimpleNamespace(request=lambda seq: None)
    board: Any = SimpleNamespace(gate=gate, answer=lambda *given: answered.append(given))
    port = SchemaPort.__new__(SchemaPort)
    port._board = board
    port._lost(9, ValueError("late"))
    assert answered == []
