"""A local HTTP server that speaks OpenAI's Chat Completions and Responses: real sockets, the real client.

    with OpenAIApi([chat_answer("Hello.")]) as api:
        model = OpenAICompatibleModel("test-model", base_url=api.url + "/v1", api_key="key")
        ...
    assert api.seen[0].body["messages"] == [...]

It gives its answers as MessagesApi does, and makes them worse in the same ways (`cut_at`, `drip_bytes`,
`delay_s`). One list of answers serves both dialects and both ways of sending: a `Reply` becomes a JSON
document or a stream of the dialect that the request asks for.

With `is_strict` (the default) a request that breaks the rules of its API (openai_rules.py) gets a 400. A
request without a key gets a 401, and a path that the API does not have a 404.
"""

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, cast

from callboard.replay.testing.input_rules.openai import problem_of
from tests.messages_api import Canned, JsonObject, MessagesApi, Seen, json_answer

PATHS = {"/v1/chat/completions": "chat", "/v1/responses": "responses"}
USAGE: Mapping[str, int] = {"input": 10, "output": 5}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call in a reply. arguments: as written by the model."""

    name: str
    arguments: str
    id: str | None = "call_1"


@dataclasses.dataclass(frozen=True)
class Thought:
    """Reasoning in a reply. sealed: the encrypted content of Responses. field: its name in Chat."""

    text: str
    sealed: str = "c2VhbGVk"
    field: str = "reasoning_content"


@dataclasses.dataclass(frozen=True)
class Reply:
    """An answer of either dialect. parts: texts, thoughts and calls, in order. usage: None for none.

    finish: the word of Chat for its end, by default the one that fits the parts. cut_after: the number of
    events of the stream after which the connection breaks. number: of the request, for the ids of items.
    """

    parts: tuple[str | Call | Thought, ...] = ()
    usage: Mapping[str, int] | None = dataclasses.field(default_factory=lambda: USAGE)
    finish: str = ""
    cut_after: int | None = None
    piece_chars: int = 7
    drip_bytes: int = 0
    delay_s: float = 0.0
    refusal: str = ""
    number: int = 1

    @property
    def calls(self) -> list[Call]:
        """Return the calls of the reply."""
        return [part for part in self.parts if isinstance(part, Call)]

    @property
    def ending(self) -> str:
        """Return the word of Chat for its end."""
        return self.finish or ("tool_calls" if self.calls else "stop")


Answer = Canned | Reply
Responder = Callable[[Seen], Answer]


class Wire(NamedTuple):
    """The API of a service. speaks: tells if it has a path. refusal: of a request, given if it is strict."""

    speaks: Callable[[str], bool]
    refusal: Callable[[Seen, bool], Canned | None]
    rendered: Callable[[Reply, Seen], Canned]


class ProviderApi(MessagesApi):
    """The server. Starts on entering the context, is gone on leaving it. wires: the APIs that it speaks."""

    def __init__(
        self,
        answers: Iterable[Answer] | Responder = (),
        *,
        is_strict: bool = True,
        wires: Sequence[Wire] | None = None,
    ) -> None:
        canned: Iterable[object] | Callable[[Seen], object] = answers
        super().__init__(cast(Iterable[Canned], canned), is_strict=is_strict)
        self._wires = (OPENAI,) if wires is None else wires

    def reply(self, *answers: Answer) -> None:
        """Answer the next requests with these."""
        self.add(*cast(Sequence[Canned], answers))

    def answer(self, seen: Seen) -> Canned:
        """Choose the answer, in the dialect that the request asks for."""
        answer: Answer = super().answer(seen)
        if not isinstance(answer, Reply):
            return answer
        return self.rendered(dataclasses.replace(answer, number=len(self.seen)), seen)

    def rendered(self, reply: Reply, seen: Seen) -> Canned:
        """Return a reply as the API that was asked would send it."""
        return next(wire.rendered(reply, seen) for wire in self._wires if wire.speaks(seen.path))

    def none_left(self) -> Canned:
        """Return the answer of a server without one."""
        return failed(500, "no canned answer is left")

    def refusal(self, seen: Seen) -> Canned | None:
        """Return the answer to a request that the service refuses."""
        for wire in self._wires:
            if wire.speaks(seen.path):
                return wire.refusal(seen, self.is_strict)
        return failed(404, f"no {seen.path}")


def refusal(seen: Seen, is_strict: bool) -> Canned | None:
    """Return the answer to a request that OpenAI refuses."""
    if not seen.headers.get("authorization", "").startswith("Bearer "):
        return failed(401, "You didn't provide an API key.", code="invalid_api_key")
    problem = problem_of(PATHS[_path(seen)], seen.body) if is_strict else ""
    return failed(400, problem) if problem else None


def _path(seen: Seen) -> str:
    return seen.path.partition("?")[0]


def rendered(reply: Reply, seen: Seen) -> Canned:
    """Return a reply as the API would send it in answer to this request."""
    chat, body = PATHS[_path(seen)] == "chat", seen.body
    if not body.get("stream"):
        whole = chat_body(reply) if chat else responses_body(reply)
        return dataclasses.replace(json_answer(whole), delay_s=reply.delay_s, drip_bytes=reply.drip_bytes)
    options = body.get("stream_options")
    asked = isinstance(options, dict) and options.get("include_usage") is True
    events = chat_events(reply, with_usage=asked) if chat else responses_events(reply)
    return streamed(events, reply, ends_with_done=chat)


OPENAI = Wire(lambda path: path.partition("?")[0] in PATHS, refusal, rendered)


class OpenAIApi(ProviderApi):
    """The server of OpenAI's two APIs."""


def streamed(events: Sequence[JsonObject], reply: Reply = Reply(), *, ends_with_done: bool = True) -> Canned:
    """Return events as a stream, cut where the reply says so."""
    lines = [_line(event) for event in events] + [b"data: [DONE]\n\n"] * ends_with_done
    cut = None if reply.cut_after is None else sum(map(len, lines[: reply.cut_after]))
    headers = {"content-type": "text/event-stream; charset=utf-8"}
    step = {"drip_bytes": reply.drip_bytes, "delay_s": reply.delay_s}
    return Canned(b"".join(lines), 200, headers, cut_at=cut, **step)  # type: ignore[arg-type]  # int and float


def _line(event: JsonObject) -> bytes:
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n".encode()


def failed(status: int, message: str, *, code: str | None = None, kind: str = "", **headers: str) -> Canned:
    """Answer with an error in the API's own form. Header names have `_` for `-`."""
    error = {"message": message, "type": kind or "invalid_request_error", "param": None, "code": code}
    return json_answer({"error": error}, status, **headers)


# --- Chat Completions ---------------------------------------------------------------


def chat_body(reply: Reply) -> JsonObject:
    """Return a whole completion."""
    texts = [part for part in reply.parts if isinstance(part, str)]
    message: JsonObject = {"role": "assistant", "content": "".join(texts) if texts else None}
    for part in reply.parts:
        if isinstance(part, Thought):
            message |= _chat_thought(part, part.text)
    if reply.calls:
        message["tool_calls"] = [_chat_call(call) for call in reply.calls]
    if reply.refusal:
        message["refusal"] = reply.refusal
    choice = {"index": 0, "message": message, "finish_reason": reply.ending, "logprobs": None}
    body = {**_chat_head("chat.completion"), "choices": [choice]}
    return body if reply.usage is None else {**body, "usage": chat_usage(reply.usage)}


def chat_events(reply: Reply, *, with_usage: bool = True) -> list[JsonObject]:
    """Return the chunks by which the API would stream a completion."""
    deltas: list[JsonObject] = [{"role": "assistant", "content": ""}]
    deltas += [delta for part in _numbered(reply) for delta in _chat_deltas(*part, reply.piece_chars)]
    if reply.refusal:
        deltas.append({"refusal": reply.refusal})
    chunks = [_chunk({"index": 0, "delta": delta, "finish_reason": None}) for delta in deltas]
    chunks.append(_chunk({"index": 0, "delta": {}, "finish_reason": reply.ending}))
    if reply.usage is not None and with_usage:
        last = {"choices": [], "usage": chat_usage(reply.usage)}
        chunks.append({**_chat_head("chat.completion.chunk"), **last})
    return chunks


def _numbered(reply: Reply) -> list[tuple[str | Call | Thought, int]]:
    """Return the parts, each with the number of calls before it."""
    return [
        (part, sum(isinstance(one, Call) for one in reply.parts[:at])) for at, part in enumerate(reply.parts)
    ]


def _chat_deltas(part: str | Call | Thought, index: int, size: int) -> list[JsonObject]:
    if isinstance(part, str):
        return [{"content": piece} for piece in pieces(part, size)]
    if isinstance(part, Thought):
        return [_chat_thought(part, piece) for piece in pieces(part.text, size)]
    whole = _chat_call(part)
    first = {**whole, "index": index, "function": {"name": part.name, "arguments": ""}}
    more = [{"index": index, "function": {"arguments": piece}} for piece in pieces(part.arguments, size)]
    return [{"tool_calls": [one]} for one in [first, *more]]


def _chat_thought(part: Thought, text: str) -> JsonObject:
    """Return reasoning under its name. `reasoning_details` is OpenRouter's form, with a signature."""
    if part.field != "reasoning_details":
        return {part.field: text}
    detail = {"type": "reasoning.text", "text": text, "index": 0, "format": "anthropic-claude-v1"}
    return {"reasoning": text, "reasoning_details": [{**detail, "id": None, "signature": part.sealed}]}


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of this size."""
    return [text[at : at + size] for at in range(0, len(text), size)]


def _chat_call(call: Call) -> JsonObject:
    function = {"name": call.name, "arguments": call.arguments}
    whole: JsonObject = {"id": call.id, "type": "function", "function": function}
    return whole if call.id is not None else {"type": "function", "function": function}


def _chat_head(kind: str) -> JsonObject:
    # OpenRouter also names the provider that it led to.
    return {
        "provider": "Test",
        "id": "chatcmpl-test",
        "object": kind,
        "created": 1_760_000_000,
        "model": "test-model-2026",
    }


def _chunk(choice: JsonObject) -> JsonObject:
    return {**_chat_head("chat.completion.chunk"), "choices": [choice], "usage": None}


def chat_usage(usage: Mapping[str, int]) -> JsonObject:
    """Return counts in the form of Chat. Keys: input (all of it), output (all of it), cached, thought."""
    return {
        "prompt_tokens": usage["input"],
        "completion_tokens": usage["output"],
        "total_tokens": usage["input"] + usage["output"],
        "prompt_tokens_details": {"cached_tokens": usage.get("cached", 0), "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": usage.get("thought", 0), "audio_tokens": 0},
    }


# --- Responses ----------------------------------------------------------------------


def responses_body(reply: Reply, *, status: str = "") -> JsonObject:
    """Return a whole response."""
    cut = {"length": "max_output_tokens", "content_filter": "content_filter"}.get(reply.ending)
    return {
        "id": "resp_test",
        "object": "response",
        "created_at": 1_760_000_000,
        "status": status or ("incomplete" if cut else "completed"),
        "error": None,
        "incomplete_details": {"reason": cut} if cut else None,
        "instructions": None,
        "model": "test-model-2026",
        "output": [_item(part, at, reply) for at, part in enumerate(reply.parts)],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if reply.usage is None else responses_usage(reply.usage),
    }


def responses_usage(usage: Mapping[str, int]) -> JsonObject:
    """Return counts in the form of Responses, with the keys of `chat_usage`."""
    return {
        "input_tokens": usage["input"],
        "input_tokens_details": {"cached_tokens": usage.get("cached", 0)},
        "output_tokens": usage["output"],
        "output_tokens_details": {"reasoning_tokens": usage.get("thought", 0)},
        "total_tokens": usage["input"] + usage["output"],
    }


def _item(part: str | Call | Thought, at: int, reply: Reply) -> JsonObject:
    place = f"{reply.number}_{at}"
    if isinstance(part, Call):
        head: JsonObject = {"id": f"fc_{place}", "type": "function_call", "status": "completed"}
        return {**head, "call_id": part.id or "", "name": part.name, "arguments": part.arguments}
    if isinstance(part, Thought):
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        return {
            "id": f"rs_{place}",
            "type": "reasoning",
            "summary": summary,
            "encrypted_content": part.sealed,
        }
    text: JsonObject = {"type": "output_text", "text": part, "annotations": [], "logprobs": []}
    content = {"type": "refusal", "refusal": reply.refusal} if reply.refusal else text
    head = {"id": f"msg_{place}", "type": "message", "status": "completed", "role": "assistant"}
    return {**head, "content": [content]}


def responses_events(reply: Reply) -> list[JsonObject]:
    """Return the events by which the API would stream a response."""
    started = {**responses_body(dataclasses.replace(reply, parts=(), usage=None), status="in_progress")}
    events: list[JsonObject] = [
        {"type": "response.created", "response": started},
        {"type": "response.in_progress", "response": started},
    ]
    for at, part in enumerate(reply.parts):
        events += _item_events(part, at, reply)
    done = responses_body(reply)
    events.append({"type": f"response.{done['status']}", "response": done})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def _item_events(part: str | Call | Thought, at: int, reply: Reply) -> list[JsonObject]:
    whole = _item(part, at, reply)
    place: JsonObject = {"output_index": at, "item_id": whole["id"]}
    added = {"type": "response.output_item.added", "output_index": at, "item": _emptied(whole)}
    done = {"type": "response.output_item.done", "output_index": at, "item": whole}
    if isinstance(part, Call):
        kind = "response.function_call_arguments"
        end = {"type": f"{kind}.done", **place, "arguments": part.arguments, "name": part.name}
        deltas = _deltas(kind, place, part.arguments, reply.piece_chars)
        return [added, *deltas, end, done]
    if isinstance(part, Thought):
        spot = {**place, "summary_index": 0}
        empty = {"type": "summary_text", "text": ""}
        first: JsonObject = {"type": "response.reasoning_summary_part.added", **spot, "part": empty}
        deltas = _deltas("response.reasoning_summary_text", spot, part.text, reply.piece_chars)
        return [added, first, *deltas, done] if part.text else [added, done]
    spot = {**place, "content_index": 0}
    nothing: JsonObject = {"type": "output_text", "text": "", "annotations": []}
    first = {"type": "response.content_part.added", **spot, "part": nothing}
    deltas = _deltas("response.output_text", {**spot, "logprobs": []}, part, reply.piece_chars)
    end = {"type": "response.output_text.done", **spot, "text": part, "logprobs": []}
    return [added, first, *deltas, end, done]


def _deltas(kind: str, place: JsonObject, text: str, size: int) -> list[JsonObject]:
    return [{"type": f"{kind}.delta", **place, "delta": piece} for piece in pieces(text, size)]


def _emptied(item: JsonObject) -> JsonObject:
    empty: JsonObject = {"content": [], "arguments": "", "status": "in_progress"}
    return {key: empty.get(key, value) for key, value in item.items()}
