"""A local HTTP server that speaks Bedrock's Converse, and ConverseStream in binary events with CRCs.

    with BedrockApi([Reply(("Hello.",))]) as api:
        model = BedrockModel("test-model", base_url=api.url, region="us-east-1", api_key="key")

It gives the replies of openai_api.py in the form of Converse. The seal of a `Thought` is its signature; a
`Thought` without text is redacted. Any signature of a request is accepted, and so is any key.
"""

import base64
import dataclasses
import json
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

from callboard.replay.testing.input_rules.bedrock import problem_of
from tests.messages_api import Canned, JsonObject, Seen, json_answer
from tests.openai_api import Answer, Call, ProviderApi, Reply, Responder, Thought, Wire, pieces

PATH = re.compile(r"/model/[^/]+/converse(-stream)?")
STREAM = "application/vnd.amazon.eventstream"
ENDS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}

PLAIN = Reply()


class BedrockApi(ProviderApi):
    """The server."""

    def __init__(self, answers: Iterable[Answer] | Responder = (), *, is_strict: bool = True) -> None:
        super().__init__(answers, is_strict=is_strict, wires=(CONVERSE,))


def refused(status: int, kind: str, message: str, **headers: str) -> Canned:
    """Answer with an error in the API's own form. Header names have `_` for `-`."""
    return json_answer({"message": message}, status, x_amzn_errortype=f"{kind}:http://a.org/", **headers)


def refusal(seen: Seen, is_strict: bool) -> Canned | None:
    """Return the answer to a request that the service refuses."""
    proof = seen.headers.get("authorization", "")
    if not re.match(r"Bearer .|AWS4-HMAC-SHA256 Credential=[^/]+/\d{8}/[^/]+/bedrock/aws4_request, ", proof):
        return refused(403, "MissingAuthenticationTokenException", "Missing Authentication Token")
    problem = problem_of(seen.body) if is_strict else ""
    return refused(400, "ValidationException", problem) if problem else None


def rendered(reply: Reply, seen: Seen) -> Canned:
    """Return a reply as the API would send it in answer to this request."""
    if not seen.path.endswith("-stream"):
        canned = json_answer(whole(reply))
        return dataclasses.replace(canned, delay_s=reply.delay_s, drip_bytes=reply.drip_bytes)
    return streamed([event(kind, value) for kind, value in events(reply)], reply)


CONVERSE = Wire(lambda path: bool(PATH.fullmatch(path)), refusal, rendered)


def streamed(frames: Sequence[bytes], reply: Reply = PLAIN) -> Canned:
    """Return frames as a stream, cut where the reply says so."""
    cut = None if reply.cut_after is None else sum(map(len, frames[: reply.cut_after]))
    headers = {"content-type": STREAM}
    return Canned(b"".join(frames), 200, headers, reply.delay_s, cut, reply.drip_bytes)


def event(kind: str, value: object) -> bytes:
    """Return an event as a frame."""
    headers = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(value).encode())


def exception(kind: str, message: str) -> bytes:
    """Return an error in a stream as a frame."""
    headers = {":exception-type": kind, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def frame(headers: Mapping[str, str], payload: bytes) -> bytes:
    """Return a message of the event stream: two lengths, their CRC, headers, payload, and the CRC of all."""
    head = b"".join(
        struct.pack("!B", len(name)) + name.encode() + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack("!II", len(head) + len(payload) + 16, len(head))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + head + payload
    return message + struct.pack("!I", zlib.crc32(message))


def events(reply: Reply) -> list[tuple[str, JsonObject]]:
    """Return the events by which the API would stream a reply."""
    found: list[tuple[str, JsonObject]] = [("messageStart", {"role": "assistant"})]
    for at, part in enumerate(reply.parts):
        if isinstance(part, Call):
            use = {"toolUseId": part.id or "", "name": part.name}
            found.append(("contentBlockStart", {"contentBlockIndex": at, "start": {"toolUse": use}}))
        found += [
            ("contentBlockDelta", {"contentBlockIndex": at, "delta": delta})
            for delta in _deltas(part, reply.piece_chars)
        ]
        found.append(("contentBlockStop", {"contentBlockIndex": at}))
    found.append(("messageStop", {"stopReason": _end(reply)}))
    if reply.usage is not None:
        metadata: JsonObject = {"usage": usage_of(reply.usage), "metrics": {"latencyMs": 7}}
        found.append(("metadata", metadata))
    return found


def _end(reply: Reply) -> str:
    return "guardrail_intervened" if reply.refusal else ENDS.get(reply.ending, reply.ending)


def _deltas(part: str | Call | Thought, size: int) -> list[JsonObject]:
    if isinstance(part, str):
        return [{"text": piece} for piece in pieces(part, size)]
    if isinstance(part, Call):
        return [{"toolUse": {"input": piece}} for piece in pieces(part.arguments, size)]
    if not part.text:
        return [{"reasoningContent": {"redactedContent": _sealed(part)}}]
    texts: list[JsonObject] = [{"reasoningContent": {"text": piece}} for piece in pieces(part.text, size)]
    return [*texts, {"reasoningContent": {"signature": part.sealed}}]


def _sealed(part: Thought) -> str:
    return base64.b64encode(part.sealed.encode()).decode()


def whole(reply: Reply) -> JsonObject:
    """Return a whole answer."""
    content = [_block(part) for part in reply.parts]
    body: JsonObject = {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": _end(reply),
        "metrics": {"latencyMs": 7},
    }
    return body if reply.usage is None else {**body, "usage": usage_of(reply.usage)}


def _block(part: str | Call | Thought) -> JsonObject:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Call):
        arguments = json.loads(part.arguments or "{}")
        return {"toolUse": {"toolUseId": part.id or "", "name": part.name, "input": arguments}}
    if not part.text:
        return {"reasoningContent": {"redactedContent": _sealed(part)}}
    return {"reasoningContent": {"reasoningText": {"text": part.text, "signature": part.sealed}}}


def usage_of(usage: Mapping[str, int]) -> JsonObject:
    """Return counts in the form of Converse, which leaves the cached part out of its input."""
    cached = usage.get("cached", 0)
    return {
        "inputTokens": usage["input"] - cached,
        "outputTokens": usage["output"],
        "totalTokens": usage["input"] + usage["output"],
        "cacheReadInputTokens": cached,
        "cacheWriteInputTokens": 0,
    }
