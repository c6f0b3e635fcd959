"""Answers to calls in every shape: one that came is never one that was lost."""

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import mcp.types as types
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import MCPError
from mcp.server import Server

from callboard import ToolContext
from callboard.actors.protocol.errors import ToolInterrupted
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.profiles import ToolOrigin, ToolSpec
from callboard.errors import ToolError
from callboard.runtime.mcp.calls import Caller
from callboard.runtime.mcp.foreign_json import Answer, Sending
from callboard.runtime.tools.sources import Scope
from tests.effort import effort
from tests.runtime.mcp.fakes import Peer, Reply, came_to, line, over_http, over_sse, over_stdio
from tests.tables import table

OK = {"content": [{"type": "text", "text": "found"}]}
EFFECTS = ("read", "write")

scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats() | st.text(max_size=6)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
KINDS = ("text", "image", "audio", "resource", "resource_link", "json", "hologram")
FIELDS = ("type", "text", "data", "mimeType", "resource", "uri", "blob", "name", "json")
blocks = st.fixed_dictionaries(
    {}, optional={"type": st.sampled_from(KINDS) | anything, **dict.fromkeys(FIELDS[1:], anything)}
)
results = anything | st.fixed_dictionaries(
    {},
    optional={
        "content": st.lists(blocks | anything, max_size=3) | anything,
        "structuredContent": anything,
        "isError": anything,
        "toolResult": anything,
        "_meta": anything,
        "resultType": st.sampled_from(["complete", "task"]) | anything,
    },
)
errors = anything.filter(lambda error: error is not None) | st.fixed_dictionaries(
    {},
    optional={
        "code": st.sampled_from([-32000, -32001, -32603, -32700, "-32000", 0]) | anything,
        "message": st.sampled_from(["db down", "Connection closed"]) | anything,
        "data": anything,
    },
)
bodies = st.one_of(
    st.fixed_dictionaries({"result": results}, optional={"error": st.none()}),
    st.fixed_dictionaries({"error": errors}, optional={"result": results}),
    st.just({}),
)
jsonrpc = st.sampled_from(["2.0", "1.0", 2, None])


def written(body: dict[str, Any], request: object, version: object) -> bytes:
    """Return an answer as bytes. JSON of Python: NaN stays, and half characters are escaped."""
    return json.dumps({"jsonrpc": version, "id": request, **body}).encode()


def spoilt(data: bytes, how: str) -> bytes:
    """Return an answer that is not JSON any more, or none to the letter."""
    match how:
        case "mark":
            return b"\xef\xbb\xbf" + data
        case "control":
            return data.replace(b'"id"', b'"a\tb": 1, "id"')
        case "bytes":
            return data[:-1] + b', "x": "\xff\xfe"}'
        case "brace":
            return data + b"}"
        case "quote":
            return data[:-1] + b', "x": "it"s"}'
        case "batch":
            return b"[" + data + b"]"
        case _:
            return data


SPOILT = ("", "mark", "control", "bytes", "brace", "quote", "batch")


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(90, 5_000), deadline=None)
@given(bodies, jsonrpc, st.sampled_from([int, str, float]), st.sampled_from(SPOILT), st.sampled_from(EFFECTS))
def test_no_answer_of_a_process_makes_a_second_call_or_an_interrupted_one(
    body: dict[str, Any], version: object, form: type, how: str, effect: str
) -> None:
    peer = Peer(lambda request: spoilt(written(body, form(request), version), how) + b"\n")
    with over_stdio(peer) as server:
        status, text = came_to(server, effect)
    assert peer.calls == 1
    assert status in ("ok", "error")
    assert text
    assert "error" in body or "lost" not in text


def as_event(data: bytes) -> bytes:
    return b"event: message\nid: 7\ndata: " + data + b"\n\n"


def of_another_type(data: bytes) -> Reply:
    return Reply(data, "text/plain")


def event_of_another_type(data: bytes) -> Reply:
    return Reply(as_event(data), "application/json")


REPLIES: dict[str, Callable[[bytes], Reply]] = {
    "json": Reply,
    "events": lambda data: Reply(as_event(data), "text/event-stream"),
    "json as text": of_another_type,
    "json as events": lambda data: Reply(data, "text/event-stream; charset=utf-8"),
    "events as json": event_of_another_type,
    "accepted": lambda data: Reply(data, status=202),
    "in pieces": lambda data: Reply(as_event(data), "text/event-stream", piece=7),
    "events of errors": lambda data: Reply(b"event: error\ndata: " + data + b"\n\n", "text/event-stream"),
    "after a comment": lambda data: Reply(
        b": hello\n\nevent: ping\ndata: x\n\n" + as_event(data), "text/event-stream"
    ),
}


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(90, 5_000), deadline=None)
@given(
    bodies, jsonrpc, st.sampled_from([None, 1, "x", True]), st.sampled_from(list(REPLIES)),
    st.sampled_from(SPOILT), st.sampled_from(EFFECTS),
)  # fmt: skip
def test_no_answer_over_http_makes_a_second_call_or_an_interrupted_one(
    body: dict[str, Any], version: object, own_id: object, how: str, spoilt_how: str, effect: str
) -> None:
    peer = Peer(
        lambda request: spoilt(written(body, request if own_id is True else own_id, version), spoilt_how)
    )
    with over_http(peer, REPLIES[how]) as server:
        status, text = came_to(server, effect)
    assert peer.calls == 1
    assert status in ("ok", "error")
    assert text


def sizes(whole: bytes, step: int) -> list[int]:
    """Return the places of a cut: each in the campaign, else some, and the end."""
    return sorted({*range(0, len(whole), effort(step, 1)), len(whole) - 1, len(whole)})


def cut_answer(size: int, request: int) -> bytes:
    return line({"id": request, "result": OK}).strip()[:size]


@pytest.mark.parametrize("effect", EFFECTS)
def test_an_answer_that_is_cut_at_any_byte_is_lost_and_a_whole_one_is_not(effect: str) -> None:
    whole = cut_answer(1_000, 4)
    for size in sizes(whole, 5):
        peer = Peer(partial(cut_answer, size), ends=True)
        with over_stdio(peer) as server:
            status, _ = came_to(server, effect)
        is_whole = size == len(whole)
        assert status == ("ok" if is_whole else "error" if effect == "read" else "interrupted"), size
        assert peer.calls == (2 if effect == "read" and not is_whole else 1), size


def cut_event(size: int, is_cut: bool, data: bytes) -> Reply:
    return Reply((b"data: " + data.strip())[:size], "text/event-stream", is_cut=is_cut)


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(40, 3_000), deadline=None)
@given(bodies, jsonrpc, st.sampled_from([int, str, float]), st.sampled_from(SPOILT), st.sampled_from(EFFECTS))
def test_no_answer_of_the_old_transport_makes_a_second_call_or_an_interrupted_one(
    body: dict[str, Any], version: object, form: type, how: str, effect: str
) -> None:
    peer = Peer(lambda request: spoilt(written(body, form(request), version), how))
    with over_sse(peer) as server:
        status, text = came_to(server, effect, transport="sse")
    assert peer.calls == 1
    assert status in ("ok", "error")
    assert text


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_stream_that_is_cut_at_any_byte_loses_the_answer_unless_it_is_whole(
    effect: str, is_cut: bool
) -> None:
    whole = cut_answer(1_000, 4)
    for size in sizes(whole, 9):
        peer = Peer(partial(cut_answer, size), ends=True)
        with over_sse(peer, is_cut=is_cut) as server:
            status, _ = came_to(server, effect, transport="sse")
        is_whole = size == len(whole)
        assert status == ("ok" if is_whole else "error" if effect == "read" else "interrupted"), size
        assert peer.calls == (2 if effect == "read" and not is_whole else 1), size


def test_a_request_that_the_old_transport_does_not_take_is_not_waited_for() -> None:
    for status, expected in ((404, ("error", 2)), (500, ("interrupted", 1))):
        peer = Peer(lambda request: b"")
        with over_sse(peer, status) as server:
            found, _ = came_to(server, transport="sse")
        assert (found, peer.calls) == expected


# By an error of the network, or by the end of the connection.
@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("effect", EFFECTS)
def test_an_event_that_is_cut_at_any_byte_is_lost_and_a_whole_one_is_not(effect: str, is_cut: bool) -> None:
    whole = b"data: " + cut_answer(1_000, 4)
    for size in sizes(whole, 7):
        peer = Peer(lambda request: line({"id": request, "result": OK}))
        with over_http(peer, partial(cut_event, size, is_cut)) as server:
            status, _ = came_to(server, effect)
        is_whole = size == len(whole)
        assert status == ("ok" if is_whole else "error" if effect == "read" else "interrupted"), size
        assert peer.calls == (2 if effect == "read" and not is_whole else 1), size


@pytest.mark.parametrize("rest", [0, 401, 404, 405, 409, 429, 500])
@pytest.mark.parametrize("is_cut", [True, False])
def test_a_write_is_sent_once_whatever_becomes_of_the_rest_of_its_stream(is_cut: bool, rest: int) -> None:
    peer = Peer(lambda request: b"id: 7\nretry: 1\ndata: \n\n")
    with over_http(peer, lambda data: Reply(data, "text/event-stream", is_cut=is_cut), rest) as server:
        status, text = came_to(server)
    assert (status, peer.calls) == ("interrupted", 1), text


def test_a_call_that_is_lost_says_what_came_instead_of_its_answer() -> None:
    for reply, words in (
        (Reply(b"Jwt issuer is not configured", "text/event-stream"), '"Jwt issuer is not configured"'),
        (Reply(b"upstream is down", "text/plain", status=502), 'HTTP status 502: "upstream is down"'),
        (Reply(b"", status=500), "HTTP status 500;"),
    ):
        with over_http(Peer(lambda request: b"x"), lambda data, reply=reply: reply) as server:  # type: ignore[misc]  # bound now
            assert words in came_to(server)[1]


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_body_that_is_cut_is_lost_and_a_page_of_a_proxy_is_no_answer(effect: str) -> None:
    replies: list[Callable[[bytes], Reply]] = [
        lambda data: Reply(data[:-9], is_cut=True),
        lambda data: Reply(b"<html>log in</html>", "text/html"),
        lambda data: Reply(b"", status=202),
        lambda data: Reply(b"busy", "text/plain", status=503),
    ]
    for reply in replies:
        peer = Peer(lambda request: line({"id": request, "result": OK}))
        with over_http(peer, reply) as server:
            status, text = came_to(server, effect)
        assert (status, peer.calls) == (("error", 2) if effect == "read" else ("interrupted", 1)), text


def said(error: object, effect: str = "write") -> str:
    with over_stdio(Peer(lambda request: line({"id": request, "error": error}))) as server:
        status, text = came_to(server, effect)
    assert status == "error"
    return text


@table(
    "error",
    [
        {"code": -32001, "message": "Request timed out"},
        {"code": -32001, "message": ""},
        {"code": -32603, "message": "upstream: context deadline exceeded"},
        {"code": -32000, "message": "fetch failed", "data": {"cause": "ETIMEDOUT"}},
        {"code": -32000, "message": "Connection closed"},
        {"code": 504, "message": "Gateway"},
    ],
)
def test_an_error_of_a_timeout_leaves_the_effect_of_a_write_unknown(error: object) -> None:
    assert "whether it had its effect is not known" in said(error)
    assert "not known" not in said(error, "read")


@table("code", [-32000, -32001, -32099, -32603, -32700, 7, "-32000"])
def test_an_error_with_any_code_is_that_error(code: object) -> None:
    text = said({"code": code, "message": "db down", "data": {"table": "t"}})
    assert text.endswith('answered with an error: db down ({"table": "t"})')


def test_an_error_without_words_says_its_code() -> None:
    assert said({"code": -7}).endswith("answered with an error: code -7, without a text")
    assert said("no such row").endswith("answered with an error: no such row")


def refused(status: int, body: bytes, effect: str = "write") -> tuple[str, str, int]:
    peer = Peer(lambda request: body.replace(b"ID", str(request).encode()))
    with over_http(peer, lambda data: Reply(data, status=status)) as server:
        found, text = came_to(server, effect)
    return found, text, peer.calls


def test_an_error_document_of_http_with_the_id_of_the_call_is_its_answer() -> None:
    body = b'{"jsonrpc": "2.0", "id": ID, "error": {"code": -32602, "message": "no such row"}}'
    for status in (400, 404, 500):
        found, text, calls = refused(status, body)
        assert (found, calls) == ("error", 1)
        assert "answered with an error: no such row" in text


def test_a_status_without_an_answer_says_whether_the_request_was_looked_at() -> None:
    body = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "no session"}}'
    assert [refused(status, body)[::2] for status in (400, 401, 429)] == [("error", 2)] * 3
    assert "no session" in refused(400, body)[1]
    assert [refused(status, b"")[::2] for status in (303, 408, 499, 500)] == [("interrupted", 1)] * 4
    assert refused(308, b"")[::2] == ("error", 2)


@table("effect", EFFECTS)
@table("code", [-32000, -32001, -32700])
def test_an_error_of_a_server_in_this_process_is_that_error(code: int, effect: str) -> None:
    calls: list[str] = []

    async def on_list(_: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="find", input_schema={"type": "object"})])

    async def on_call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        calls.append(params.name)
        raise MCPError(code=code, message="db down")

    server = Server("own", on_list_tools=on_list, on_call_tool=on_call)
    status, text = came_to(server, effect)
    assert (status, calls) == ("error", ["find"])
    assert text.endswith("answered with an error: db down")


class Ending:
    """A connection whose call is given up, with or without an answer that had come before."""

    label = "one"
    elicits = False

    def __init__(self, answer: Answer | None) -> None:
        self.answer = answer

    def place_of(self, scope: Scope, ctx: ToolContext) -> Any:
        return None, ""

    async def connection(self, place: Any, deps: object) -> Any:
        return self

    def answered(self, place: Any) -> None: ...
    def changed(self, place: Any) -> None: ...
    def failed(self, place: Any, connection: Any) -> None: ...

    async def current(self, name: str) -> types.Tool:
        return types.Tool(name=name, input_schema={"type": "object"})

    async def call(self, params: Any, ctx: ToolContext, sending: Sending) -> Answer:
        sending.has_left, sending.answer = True, self.answer
        raise asyncio.CancelledError


def ended_with(answer: Answer | None) -> object:
    spec = ToolSpec("find", "", Json(b'{"type":"object"}'), "write", origin=ToolOrigin("one", "find"))
    return asyncio.run(Caller(Ending(answer), spec, Scope()).call({}, ToolContext()))


def test_an_answer_that_came_with_the_end_of_the_time_is_the_answer() -> None:
    assert ended_with(Answer("result", OK)) == "found"
    with pytest.raises(ToolError, match="no such row"):
        ended_with(Answer("error", {"code": 1, "message": "no such row"}))
    with pytest.raises(ToolInterrupted, match="not known"):
        ended_with(None)
