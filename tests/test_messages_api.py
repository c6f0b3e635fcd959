"""The server that the tests of models rely on, and the rules by which it refuses requests."""

import dataclasses
import http.client
import json
from typing import cast

import pytest

from callboard.replay.testing.input_rules.messages import problem_of
from tests.messages_api import (
    Canned,
    MessagesApi,
    Seen,
    error_answer,
    events_of,
    json_answer,
    message,
    sse_answer,
    text,
    tool_use,
)
from tests.realdata import record, records
from tests.tables import table

JsonObject = dict[str, object]

HELLO: JsonObject = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "Hi."}]}
CALL = tool_use("go", {}, "t1")
RESULT: JsonObject = {"type": "tool_result", "tool_use_id": "t1", "content": "ok"}


def post(
    api: MessagesApi, body: object = HELLO, path: str = "/v1/messages", **headers: str
) -> tuple[int, bytes]:
    host = api.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("POST", path, json.dumps(body), {"authorization": "Bearer key", **headers})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_answers_are_given_in_order_and_requests_are_kept() -> None:
    with MessagesApi([json_answer({"n": 1})]) as api:
        api.add(json_answer({"n": 2}, 201, retry_after="3"))
        assert post(api) == (200, b'{"n": 1}')
        assert post(api, {**HELLO, "model": "other"}) == (201, b'{"n": 2}')
        assert [seen.body["model"] for seen in api.seen] == ["m", "other"]
        assert api.seen[0].headers["authorization"] == "Bearer key"
        assert api.connections == 2


def test_a_server_without_an_answer_left_says_so() -> None:
    with MessagesApi() as api:
        status, body = post(api)
    assert status == 500
    assert b"no canned answer is left" in body


def test_a_function_may_choose_the_answer_by_the_request() -> None:
    def respond(seen: Seen) -> Canned:
        return json_answer({"to": seen.body["model"]})

    with MessagesApi(respond) as api:
        assert post(api, {**HELLO, "model": "you"}) == (200, b'{"to": "you"}')


def test_other_paths_and_requests_without_a_key_are_refused() -> None:
    with MessagesApi([json_answer({})]) as api:
        assert post(api, path="/v1/models")[0] == 404
        host = api.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(HELLO))
        assert connection.getresponse().status == 401
        connection.close()
        assert post(api)[0] == 200


def test_a_request_that_breaks_a_rule_is_refused_and_costs_no_answer() -> None:
    with MessagesApi([json_answer({})]) as api:
        assert post(api, {**HELLO, "messages": []})[0] == 400
        assert post(api)[0] == 200
    with MessagesApi([json_answer({})], is_strict=False) as api:
        assert post(api, {})[0] == 200


def test_a_cut_answer_breaks_off_after_the_given_bytes() -> None:
    answer = dataclasses.replace(json_answer({"a": "b"}), cut_at=5)
    with MessagesApi([answer]) as api, pytest.raises(http.client.IncompleteRead) as caught:
        post(api)
    assert caught.value.partial == b'{"a":'


def test_leaving_the_context_ends_answers_that_are_still_under_way() -> None:
    with MessagesApi([dataclasses.replace(json_answer({}), delay_s=60)]) as api:
        host = api.url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=5)
        connection.request("POST", "/v1/messages", json.dumps(HELLO), {"authorization": "Bearer key"})
        api.wait_for(1)
    connection.close()
    assert api.hung_up.is_set()


def test_a_mistake_in_a_responder_fails_the_test_that_made_it() -> None:
    def respond(seen: Seen) -> Canned:
        raise LookupError("no such answer")

    def run() -> None:
        with MessagesApi(respond) as api, pytest.raises(http.client.RemoteDisconnected):
            post(api)

    with pytest.raises(LookupError):
        run()


def test_a_message_is_streamed_as_the_service_streams_it() -> None:
    kinds = [event["type"] for event in events_of(message(text("0123456789"), CALL))]
    assert kinds == [
        "message_start",
        "content_block_start",
        *["content_block_delta"] * 2,
        "content_block_stop",
        "content_block_start",
        *["content_block_delta"] * 2,
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    assert sse_answer(message(text("x"))).body.startswith(b'event: message_start\ndata: {"type": ')


def test_an_error_has_the_services_own_form() -> None:
    answer = error_answer(429, "rate_limit_error", "slow", retry_after="2")
    assert json.loads(answer.body) == {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "slow"},
    }
    assert answer.headers["retry-after"] == "2"


# --- the rules -------------------------------------------------------------------------------


def test_every_recorded_request_that_was_answered_keeps_the_rules() -> None:
    for name in ("messages_json", "messages_sse"):
        for found in records(name):
            body = cast(JsonObject, found["request"])["body"]
            assert problem_of(body) == "", found["id"]


def test_the_recorded_request_that_was_refused_breaks_a_rule() -> None:
    assert "unexpected `tool_use_id`" in problem_of(cast(JsonObject, record("sdk-0445")["request"])["body"])


def user(*blocks: JsonObject) -> JsonObject:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: JsonObject) -> JsonObject:
    return {"role": "assistant", "content": list(blocks)}


MARKED = {**text("x"), "cache_control": {"type": "ephemeral"}}
TOOL: JsonObject = {"name": "go", "input_schema": {"type": "object"}}
CALLED: list[JsonObject] = [user(text("x")), assistant(CALL)]


@table(
    ("change", "problem"),
    [
        ({"model": ""}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"messages": []}, "at least one message"),
        ({"messages": [assistant(text("x"))]}, "first message"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "unexpected roles"),
        ({"messages": [user()]}, "non-empty content"),
        ({"messages": [user(text(""))]}, "must be non-empty"),
        ({"messages": [user({})]}, "Field required"),
        ({"messages": [user(text("x")), assistant(CALL), user(text("y"))]}, "without `tool_result`"),
        ({"messages": [user(text("x")), assistant(CALL), user(RESULT, RESULT)]}, "must be unique"),
        ({"messages": [user(RESULT)]}, "unexpected `tool_use_id`"),
        ({"tools": [TOOL, TOOL]}, "must be unique"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "no"}}, "not found"),
        ({"tool_choice": {"type": "tool", "name": "go"}}, "while providing tools"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "any"}, "thinking": {"type": "adaptive"}},
            "Thinking may not",
        ),
        ({"max_tokens": 0}, "greater than or equal to 1"),
        ({"messages": [*CALLED, user(text("y"), RESULT)]}, "immediately after"),
        ({"messages": [*CALLED, user(text("y")), user(RESULT)]}, "immediately after"),
        ({"messages": [user(text(" \n"))]}, "non-whitespace"),
        ({"messages": [user(text("x")), assistant(text("y "))]}, "trailing whitespace"),
        ({"messages": [user(text("x")), {"role": "assistant", "content": "y\n"}]}, "trailing whitespace"),
        ({"messages": [user(text("x"), CALL)]}, "can only be in `assistant`"),
        ({"messages": [user(text("x")), assistant(RESULT)]}, "can only be in `user`"),
        ({"messages": [user(text("x")), assistant({**CALL, "input": "{}"})]}, "valid dictionary"),
        ({"messages": [user(text("x")), assistant({**CALL, "id": "a b"})]}, "should match pattern"),
        ({"messages": [user(text("x")), assistant({**CALL, "name": ""})]}, "should match pattern"),
        ({"messages": [*CALLED, user({**RESULT, "content": {"a": 1}})]}, "valid list"),
        ({"tools": [{"name": "go"}]}, "input_schema: Field required"),
        ({"tools": [{**TOOL, "input_schema": {"type": "array"}}]}, "should be 'object'"),
        ({"tools": [{**TOOL, "name": "a.b"}]}, "should match pattern"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_023}}, "equal to 1024"),
        ({"max_tokens": 1_024, "thinking": {"type": "enabled", "budget_tokens": 1_024}}, "must be greater"),
        ({"messages": [user(*[MARKED] * 5)]}, "maximum of 4"),
        (
            {
                "messages": [
                    user(text("x")),
                    assistant({"type": "thinking", "cache_control": {"type": "ephemeral"}}, text("y")),
                ]
            },
            "Extra inputs",
        ),
        (
            {"tools": [{**TOOL, "defer_loading": True, "cache_control": {"type": "ephemeral"}}]},
            "defer_loading",
        ),
    ],
)
def test_a_broken_rule_is_named(change: JsonObject, problem: str) -> None:
    assert problem in problem_of({**HELLO, **change})
    assert problem_of(HELLO) == ""


def test_messages_of_one_role_in_a_row_are_one_turn() -> None:
    messages = [user(text("x")), assistant(CALL), user(RESULT), user(text("y")), assistant(text("z"))]
    assert problem_of({**HELLO, "messages": messages}) == ""


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": 1},
        {"messages": [user({**text("x"), "citations": [{}]})]},
        {"messages": [user(text("x")), assistant({"type": "document"})]},
    ],
)
def test_the_newer_api_version_refuses_more(change: JsonObject) -> None:
    assert problem_of({**HELLO, **change}) == ""
    assert "permitted" in problem_of({**HELLO, **change}, "2026-10-21")
