"""The messages of a server, as the SDK gets them."""

import json
from random import Random
from typing import Any

import mcp.types as types
import pytest

from callboard.runtime.mcp.foreign_json import CURRENT, Answer, Sending
from callboard.runtime.mcp.specs import ToolLists
from callboard.runtime.mcp.wire import NamelessErrors, Wire, error_of, same_id
from tests.effort import effort
from tests.tables import table


def waiting(method: str = "tools/call", request: int = 3) -> tuple[Wire, Sending]:
    """Return a wire with one request that waits for its answer."""
    wire, sending = Wire(ToolLists("one")), Sending()
    token = CURRENT.set(sending)
    wire.sent(types.JSONRPCRequest(jsonrpc="2.0", id=request, method=method))
    CURRENT.reset(token)
    return wire, sending


def came(message: object, method: str = "tools/call") -> tuple[list[types.JSONRPCMessage], Answer | None]:
    wire, sending = waiting(method)
    return wire.read(json.dumps(message).encode()), sending.answer


@pytest.mark.parametrize("form", [3, "3", 3.0])
def test_an_answer_to_a_call_is_noted_whole_and_the_sdk_gets_a_stand_in(form: object) -> None:
    (message,), answer = came({"id": form, "result": {"content": "odd"}})
    assert answer == Answer("result", {"content": "odd"})
    assert isinstance(message, types.JSONRPCResponse)
    assert (message.id, message.result["content"]) == (3, [])


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ({"id": 3, "result": {}, "error": None}, Answer("result", {})),
        ({"id": 3, "result": {}, "error": "no"}, Answer("error", "no")),
        ({"id": 3, "result": None}, Answer("result", None)),
        ({"id": 3}, Answer("unreadable", 'it has neither a result nor an error: {"id": 3}')),
    ],
)
def test_an_answer_is_what_it_has(message: object, answer: Answer) -> None:
    assert came(message)[1] == answer


@table("request_id", [4, "4", True, None, "three", [3], {"id": 3}, 3.5])
def test_an_answer_with_another_id_reaches_no_call(request_id: object) -> None:
    assert came({"jsonrpc": "2.0", "id": request_id, "result": {}}) == ([], None)


@pytest.mark.parametrize("message", [{"id": None}, {"id": ""}, {}])
def test_an_error_without_an_id_answers_the_only_call(message: dict[str, object]) -> None:
    assert came({"jsonrpc": "2.0", **message, "error": "odd"})[1] == Answer("error", "odd")


def test_an_error_without_an_id_answers_a_call_once_the_others_are_answered() -> None:
    wire, first = waiting()
    second = Sending()
    token = CURRENT.set(second)
    wire.sent(types.JSONRPCRequest(jsonrpc="2.0", id=4, method="tools/call"))
    CURRENT.reset(token)
    assert wire.read(b'{"id": null, "error": {"message": "odd"}}') == []
    assert len(wire.read(b'{"id": 3, "result": 1}')) == 2
    assert (first.answer, second.answer) == (Answer("result", 1), Answer("error", {"message": "odd"}))


def test_a_call_that_is_given_up_tells_of_an_error_that_may_have_been_its_answer() -> None:
    wire, first = waiting()
    wire.sent(types.JSONRPCNotification(jsonrpc="2.0", method="notifications/x"))
    assert wire.read(b'{"id": null, "error": {"message": "odd"}}') == []
    wire.forget(first)
    assert (first.answer, first.doubt) == (None, "meanwhile it sent an error that names no request: odd")


def test_a_second_answer_reaches_no_call() -> None:
    wire, sending = waiting()
    assert wire.read(b'{"id": 3, "result": 1}')
    assert wire.read(b'{"id": 3, "result": 2}') == []
    assert sending.answer == Answer("result", 1)


def test_an_answer_to_a_call_that_was_given_up_is_dropped() -> None:
    wire, sending = waiting()
    wire.forget(sending)
    assert wire.read(b'{"id": 3, "result": {}}') == []


def test_a_message_that_is_no_answer_is_passed_on() -> None:
    note, ping = {"method": "notifications/x", "params": {"a": "\ud83d"}}, {"id": 3, "method": "ping"}
    (first, second), answer = came([note, ping])
    assert isinstance(first, types.JSONRPCNotification)
    assert first.params == {"a": "\ufffd"}
    assert isinstance(second, types.JSONRPCRequest)
    assert answer is None


@table("data", [b"Server started", b"", b"5", b"{}", b'"a"', b"[" * 100_000, b'{"method": 5}'])
def test_data_that_is_no_message_is_refused(data: bytes) -> None:
    wire, _ = waiting()
    with pytest.raises(ValueError, match=r"."):
        wire.read(data)
    assert wire.broken(data, "odd") == []


@pytest.mark.parametrize(
    "data",
    [b'{"id": 3, "result": {x}}', b'{"result": {x}, "id" : "3"}', b' {"id":3,"result":"' + b"a" * 1_000],
)
def test_broken_data_with_the_id_of_a_call_is_its_answer(data: bytes) -> None:
    wire, sending = waiting()
    assert len(wire.broken(data, "it is odd")) == 1
    assert sending.answer is not None
    assert sending.answer.kind == "unreadable"
    assert str(sending.answer.value).startswith("it is odd: '{")


@pytest.mark.parametrize(
    "data",
    [
        b'{"id": 4, "result": {x}}',
        b'log: {"id": 3}',
        b'{"method": "x", "id": 3, y}',
        b'{"a": "\\"id\\": 3" x}',
    ],
)
def test_other_broken_data_is_no_answer(data: bytes) -> None:
    wire, sending = waiting()
    assert wire.broken(data, "it is odd") == []
    assert sending.answer is None


def test_the_transport_knows_which_request_a_body_answers() -> None:
    wire, sending = waiting()
    assert len(wire.read(b'{"id": 1, "result": {}}', 3)) == 1
    assert sending.answer == Answer("result", {})


def test_other_answers_are_cleaned_and_errors_mended_for_the_sdk() -> None:
    (message,), answer = came({"id": 3, "result": {"serverInfo": {"name": "a\ud83d"}}}, "initialize")
    assert isinstance(message, types.JSONRPCResponse)
    assert message.result == {"serverInfo": {"name": "a\ufffd"}}
    assert answer is None
    for odd in ({"error": "no"}, {"result": "no"}, {}):
        ((message,), _) = came({"id": 3, **odd}, "tools/list")
        assert isinstance(message, types.JSONRPCError)
        assert "no" in message.error.message


@table(
    ("given", "code", "message"),
    [
        ({"code": -32000, "message": "a"}, -32000, "a"),
        ({"code": "-32000", "message": ["a"]}, -32000, '["a"]'),
        ({"code": True}, 0, ""),
        ({"code": 1.5, "message": "\ud83d"}, 0, "\ufffd"),
        ("a", 0, "a"),
        ([1], 0, "[1]"),
    ],
)
def test_an_error_is_read_in_any_form(given: Any, code: int, message: str) -> None:
    error = error_of(given)
    assert (error.code, error.message) == (code, message)


def test_ids_are_one_in_three_forms() -> None:
    assert same_id(3, "3")
    assert same_id(3.0, 3)
    assert same_id("a", "a")
    assert not same_id(True, 1)
    assert not same_id(None, None)


def with_open(*requests: object) -> NamelessErrors:
    """Return the errors of a connection on which these requests are open."""
    errors = NamelessErrors()
    for request in requests:
        errors.sent(request)
    return errors


def test_an_error_answers_the_only_open_request() -> None:
    assert with_open(1).came("no") == [(1, "no")]


def test_an_error_without_an_open_request_is_dropped() -> None:
    errors = with_open(1)
    assert errors.answered(1) == []
    assert errors.came("no") == []
    errors.sent(2)
    assert errors.answered(2) == []


def test_an_error_waits_for_the_answers_to_the_other_requests() -> None:
    errors = with_open(1, 2, 3)
    assert errors.came("no") == []
    assert errors.answered(2) == []
    errors.sent(4)  # after the error, so it does not mean this one
    assert errors.answered(1) == [(3, "no")]
    assert errors.answered(4) == []


def test_as_many_errors_as_requests_answer_all_of_them() -> None:
    errors = with_open(1, 2)
    assert errors.came("a") == []
    assert errors.came("b") == [(1, "a"), (2, "b")]


def test_a_later_error_that_means_more_requests_leaves_the_earlier_one_decided() -> None:
    errors = with_open(1, 2)
    assert errors.came("a") == []
    errors.sent(3)
    assert errors.came("b") == []
    assert errors.answered(3) == [(1, "a"), (2, "b")]


def test_an_error_may_answer_a_notification_until_a_later_request_is_answered() -> None:
    errors = with_open(None, 1)
    assert errors.came("no such method") == []
    assert errors.answered(1) == []
    errors.sent(2)
    assert errors.came("no") == [(2, "no")]


def test_an_error_that_may_answer_a_request_given_up_is_told_with_it_and_answers_no_other() -> None:
    errors = with_open(1, 2)
    assert errors.came("no") == []
    assert errors.given_up(1) == "no"
    assert errors.answered(2) == []
    errors.sent(3)
    assert errors.came("later") == []  # 1 was given up after 2 was sent
    assert errors.answered(3) == []
    assert with_open(1).given_up(1) is None


def test_a_request_that_was_given_up_is_out_of_the_question_after_a_later_answer() -> None:
    errors = with_open(1)
    assert errors.given_up(1) is None
    errors.sent(2)
    assert errors.answered(2) == []
    errors.sent(3)
    assert errors.came("no") == [(3, "no")]


@pytest.mark.parametrize("notes", [0.0, 0.2])
def test_each_error_of_a_random_server_reaches_the_request_that_it_answers(notes: float) -> None:
    """The server answers requests in any order, and notifications before the requests after them."""
    for seed in range(effort(200, 5_000)):
        chance = Random(seed)
        errors = NamelessErrors()
        fails: dict[int, bool] = {}  # of each open request whether it will
        told: list[int] = []  # the notifications that are not yet answered
        found: dict[object, object] = {}
        failed = set()
        for number in range(60):
            if number < 30 and chance.random() < 0.6:
                is_note = chance.random() < notes
                errors.sent(None if is_note else number)
                told += [number] if is_note else []
                fails |= {} if is_note else {number: chance.random() < 0.5}
            elif fails:
                request = chance.choice(list(fails))
                for note in [one for one in told if one < request]:
                    told.remove(note)
                    found |= dict(errors.came(note)) if chance.random() < 0.5 else {}
                is_failed = fails.pop(request)
                failed |= {request} if is_failed else set()
                found |= dict(errors.came(request) if is_failed else errors.answered(request))
                assert found.keys() <= failed, seed
        assert notes or found.keys() == failed, seed
