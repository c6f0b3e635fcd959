"""A local HTTP server that speaks the Messages API: real sockets, the real SDK, no network.

    with MessagesApi([json_answer(message(text("Hello.")))]) as api:
        model = AnthropicModel("claude-test", base_url=api.url, api_key="key")
        ...                                       # sync or async: the server has threads of its own
    assert api.seen[0].body["messages"] == [...]  # every request, oldest first

What it answers
  - A list of `Canned` answers, given out in the order in which requests arrive; `api.add(...)` appends.
  - Or a function from the request (`Seen`) to its answer, for runs whose requests come in no fixed order.
  - When the list is used up: a 500 that must not be retried and says so.

Answers are made with `json_answer(message(...))`, `sse_answer(message(...))` (the same message, streamed),
`error_answer(429, "rate_limit_error", "...", retry_after="2")` and `recorded(record)` (a record of
the recordings that tests/realdata.py finds, in any form). Any of them can be made worse:

    dataclasses.replace(answer, delay_s=1)               silence before the status line
    dataclasses.replace(answer, cut_at=200)              the connection closes after 200 bytes of the body
    dataclasses.replace(answer, drip_bytes=10, drip_s=1) ten bytes a second

An episode of recorded traffic, end to end: serve `[recorded(r) for r in the episode's records]`, let the
tools return the recorded results, and compare `[seen.body["messages"] for seen in api.seen]` with the
recorded requests. Use AnthropicModel(..., cache=False, api_version="2023-06-01"): with caching on, text is
sent as a text block, and the recorded requests have parameters that the SDK's own version refuses.

With `is_strict` (the default) a request that breaks the API's own rules (messages_rules.py) gets the 400 that
the real service would send, and uses up no answer. Paths other than POST /v1/messages are 404, requests
without a key 401. `api.wait_for(n)` waits for the n-th request, `api.hung_up` is set when a client closes its
connection while an answer is still to be sent, `api.connections` counts connections.
"""

import contextlib
import dataclasses
import json
import select
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self, cast

from callboard.replay.testing.input_rules.messages import problem_of

JsonObject = dict[str, object]


@dataclasses.dataclass(frozen=True)
class Canned:
    """One answer, and what goes wrong on its way. cut_at: bytes of the body after which it breaks off."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    delay_s: float = 0.0
    cut_at: int | None = None
    drip_bytes: int = 0
    drip_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class Seen:
    """One request as it came. headers: names in small letters."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> JsonObject:
        """Return the decoded body."""
        return cast(JsonObject, json.loads(self.raw))


Responder = Callable[[Seen], Canned]


class MessagesApi:
    """The server. Starts on entering the context, is gone on leaving it."""

    def __init__(self, answers: Iterable[Canned] | Responder = (), *, is_strict: bool = True) -> None:
        self.seen: list[Seen] = []
        self.hung_up = threading.Event()
        self.errors: list[BaseException] = []
        self.connections = 0
        self.is_strict = is_strict
        self._responder = answers if callable(answers) else None
        self._answers = [] if callable(answers) else list(answers)
        self._lock = threading.Condition()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="messages-api")

    @property
    def url(self) -> str:
        """Return the address to pass as base_url."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def add(self, *answers: Canned) -> None:
        """Answer the next requests with these."""
        with self._lock:
            self._answers.extend(answers)

    def forget(self) -> None:
        """Forget requests seen and answers not yet given: for tests that share a server."""
        with self._lock:
            self.seen.clear()
            self._answers.clear()
            self.hung_up.clear()
            self.connections = 0

    def wait_for(self, count: int, timeout_s: float = 5.0) -> None:
        """Wait until so many requests have come; from async code by `asyncio.to_thread(api.wait_for, 1)`."""
        with self._lock:
            if not self._lock.wait_for(lambda: len(self.seen) >= count, timeout_s):
                raise TimeoutError(f"{len(self.seen)} of {count} requests came within {timeout_s} s")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.cut_connections()
        self._server.server_close()
        self._thread.join()
        if self.errors and error is None:
            raise self.errors[0]

    def answer(self, seen: Seen) -> Canned:
        """Note a request and choose its answer; called on the server's threads."""
        with self._lock:
            self.seen.append(seen)
            self._lock.notify_all()
            if refusal := self.refusal(seen):
                return refusal
            if self._responder is None:
                return self._answers.pop(0) if self._answers else self.none_left()
        return self._responder(seen)

    def none_left(self) -> Canned:
        """Return the answer of a server without one."""
        return error_answer(500, "api_error", "no canned answer is left", x_should_retry="false")

    def refusal(self, seen: Seen) -> Canned | None:
        """Return the answer to a request that the service refuses."""
        if seen.path.partition("?")[0] != "/v1/messages":
            return error_answer(404, "not_found_error", f"no {seen.path}")
        if not {"authorization", "x-api-key"} & seen.headers.keys():
            return error_answer(401, "authentication_error", "x-api-key header is required")
        version = seen.headers.get("anthropic-version", "")
        problem = problem_of(seen.body, version) if self.is_strict else ""
        return error_answer(400, "invalid_request_error", problem) if problem else None


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # so that server_close() waits for them, and none outlives its test
    request_queue_size = 256

    def __init__(self, api: MessagesApi) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.api = api
        self._open: set[socket.socket] = set()

    def keep(self, connection: socket.socket) -> None:
        self.api.connections += 1
        self._open.add(connection)

    def drop(self, connection: socket.socket) -> None:
        self._open.discard(connection)

    def cut_connections(self) -> None:
        for connection in list(self._open):
            _hang_up(connection)

    def handle_error(self, request: object, client_address: object) -> None:
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, ConnectionError):
            self.api.errors.append(error)


_STREAMS = ("text/event-stream", "application/vnd.amazon.eventstream")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def host(self) -> _Server:
        return cast(_Server, self.server)

    def setup(self) -> None:
        super().setup()
        self.host.keep(self.connection)
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def finish(self) -> None:
        self.host.drop(self.connection)
        super().finish()

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", "0")))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.host.api.answer(Seen(self.path, headers, raw))
        try:
            self._send(answer)
        except ConnectionError:
            self.host.api.hung_up.set()
            self.close_connection = True

    def _send(self, answer: Canned) -> None:
        self._pause(answer.delay_s)
        is_stream = answer.headers.get("content-type", "").startswith(_STREAMS)
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if is_stream:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        for piece in _pieces(answer):
            self._write(piece, is_stream)
            self._pause(answer.drip_s)
        if answer.cut_at is not None:
            self.close_connection = True
            _hang_up(self.connection)
        elif is_stream:
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, piece: bytes, is_stream: bool) -> None:
        self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if is_stream else piece)
        self.wfile.flush()

    def _pause(self, seconds: float) -> None:
        """Wait, but notice at once when the client is gone."""
        if seconds and select.select([self.connection], [], [], seconds)[0]:
            raise ConnectionResetError("the client hung up")

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return a fixed `Date`, so that a `retry-after` with a date can be tested without a clock."""
        return "Wed, 21 Oct 2026 07:28:00 GMT"

    def log_message(self, format: str, *args: object) -> None:
        pass


def _pieces(answer: Canned) -> list[bytes]:
    body = answer.body[: answer.cut_at]
    step = answer.drip_bytes or max(len(body), 1)
    return [body[at : at + step] for at in range(0, len(body), step)]


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


# --- what to answer -----------------------------------------------------------------


def text(value: str) -> JsonObject:
    """Make a text block."""
    return {"type": "text", "text": value}


def tool_use(name: str, arguments: Mapping[str, object], id: str = "toolu_1") -> JsonObject:
    """Make a tool call."""
    return {"type": "tool_use", "id": id, "name": name, "input": dict(arguments)}


def message(
    *blocks: Mapping[str, object], stop_reason: str = "", model: str = "claude-test", **usage: int
) -> JsonObject:
    """Make a whole message as the API returns it. stop_reason: by default the one that fits the blocks."""
    calls = any(block.get("type") == "tool_use" for block in blocks)
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(blocks),
        "stop_reason": stop_reason or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5, **usage},
    }


def json_answer(body: object, status: int = 200, **headers: str) -> Canned:
    """Answer with this value as JSON. Header names have `_` for `-`."""
    return Canned(json.dumps(body).encode(), status, _headers("application/json", headers))


def error_answer(status: int, kind: str, text: str, **headers: str) -> Canned:
    """Answer with an error in the API's own form. Header names have `_` for `-`."""
    return json_answer({"type": "error", "error": {"type": kind, "message": text}}, status, **headers)


def sse_answer(body: Mapping[str, object], **headers: str) -> Canned:
    """Answer with this message as a stream. Header names have `_` for `-`."""
    return stream_answer(events_of(body), **headers)


def stream_answer(events: Iterable[Mapping[str, object]], **headers: str) -> Canned:
    """Answer with these events as a stream. Header names have `_` for `-`."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return Canned("".join(lines).encode(), 200, _headers("text/event-stream; charset=utf-8", headers))


def recorded(record: Mapping[str, object]) -> Canned:
    """Answer with a record of real traffic, JSON or stream."""
    response = cast(JsonObject, record["response"])
    body = response["body"]
    data = body if isinstance(body, str) else json.dumps(body)
    headers = cast(dict[str, str], response["headers"])
    return Canned(data.encode(), cast(int, response["status"]), headers)


def _headers(content_type: str, headers: Mapping[str, str]) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return {"content-type": content_type, **named}


def events_of(body: Mapping[str, object], piece_chars: int = 7) -> list[JsonObject]:
    """Return the events by which the API would stream this message."""
    usage = cast(JsonObject, body["usage"])
    start = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[JsonObject] = [{"type": "message_start", "message": start}]
    for index, block in enumerate(cast(Sequence[Mapping[str, object]], body["content"])):
        first, deltas = _split(block, piece_chars)
        events.append({"type": "content_block_start", "index": index, "content_block": first})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    ending = {"stop_reason": body["stop_reason"], "stop_sequence": body.get("stop_sequence")}
    events.append({"type": "message_delta", "delta": ending, "usage": usage})
    return [*events, {"type": "message_stop"}]


def _split(block: Mapping[str, object], piece_chars: int) -> tuple[JsonObject, list[JsonObject]]:
    """Return the start of a block, and the deltas that complete it, as the API sends them."""

    def pieces(kind: str, key: str, value: object) -> list[JsonObject]:
        whole = str(value)
        return [{"type": kind, key: whole[at : at + piece_chars]} for at in range(0, len(whole), piece_chars)]

    if "input" in block:
        deltas = pieces("input_json_delta", "partial_json", json.dumps(block["input"]))
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": ""}, *deltas]
    if block["type"] == "thinking":
        deltas = pieces("thinking_delta", "thinking", block["thinking"])
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {**block, "thinking": "", "signature": ""}, deltas
    if block["type"] != "text":
        return dict(block), []
    deltas = pieces("text_delta", "text", block["text"])
    if not block.get("citations"):
        return {**block, "text": ""}, deltas
    cited = cast(Sequence[object], block["citations"])
    deltas += [{"type": "citations_delta", "citation": citation} for citation in cited]
    return {**block, "text": "", "citations": []}, deltas
