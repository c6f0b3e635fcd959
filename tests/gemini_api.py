"""A local HTTP server that speaks the Gemini API: generateContent and streamGenerateContent.

    with GeminiApi([Reply(("Hello.",))]) as api:
        model = GeminiModel("gemini-test", base_url=api.url, api_key="key")

It gives the replies of openai_api.py in the form of Gemini. A `Thought` is a part of its own, and the part
after it has its seal as a signature. Arguments of a call that are no JSON object end the answer as
MALFORMED_FUNCTION_CALL, as the service does; a call whose id is None has none.
"""

import json
import re
from collections.abc import Iterable, Mapping

from callboard.replay.testing.input_rules.gemini import problem_of
from tests.messages_api import Canned, JsonObject, Seen, json_answer
from tests.openai_api import Answer, Call, ProviderApi, Reply, Responder, Thought, Wire, pieces, streamed

PATH = re.compile(r"/v1beta/models/[^/:]+:(streamGenerateContent\?alt=sse|generateContent)")
ENDS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}


class GeminiApi(ProviderApi):
    """The server."""

    def __init__(self, answers: Iterable[Answer] | Responder = (), *, is_strict: bool = True) -> None:
        super().__init__(answers, is_strict=is_strict, wires=(GEMINI,))


def refused(status: int, kind: str, message: str, *details: JsonObject, **headers: str) -> Canned:
    """Answer with an error in the API's own form. Header names have `_` for `-`."""
    error = {"code": status, "message": message, "status": kind, "details": list(details)}
    return json_answer({"error": error}, status, **headers)


def refusal(seen: Seen, is_strict: bool) -> Canned | None:
    """Return the answer to a request that the service refuses."""
    if not seen.headers.get("x-goog-api-key"):
        return refused(403, "PERMISSION_DENIED", "Method doesn't allow unregistered callers.")
    problem = problem_of(seen.body) if is_strict else ""
    return refused(400, "INVALID_ARGUMENT", problem) if problem else None


def rendered(reply: Reply, seen: Seen) -> Canned:
    """Return a reply as the API would send it in answer to this request."""
    if "streamGenerateContent" in seen.path:
        return streamed(events(reply), reply, ends_with_done=False)
    body = _document(reply, _parts(reply), is_last=True)
    canned = json_answer(body)
    return Canned(canned.body, headers=canned.headers, delay_s=reply.delay_s, drip_bytes=reply.drip_bytes)


GEMINI = Wire(lambda path: bool(PATH.fullmatch(path)), refusal, rendered)


def events(reply: Reply) -> list[JsonObject]:
    """Return the chunks by which the API would stream a reply."""
    found = []
    for part in _parts(reply):
        found += [_document(reply, [piece]) for piece in _split(part, reply.piece_chars)]
    if not found:
        return [_document(reply, [], is_last=True)]
    last = _document(reply, [], is_last=True)
    return [*found, last]


def _split(part: JsonObject, size: int) -> list[JsonObject]:
    """Return a part in pieces; its signature comes with the last one."""
    text = part.get("text")
    if not isinstance(text, str) or not text:
        return [part]
    thought = {"thought": True} if "thought" in part else {}
    found: list[JsonObject] = [{"text": piece, **thought} for piece in pieces(text, size)]
    return [*found[:-1], {**part, "text": pieces(text, size)[-1]}]


def _document(reply: Reply, parts: list[JsonObject], *, is_last: bool = False) -> JsonObject:
    candidate: JsonObject = {"index": 0}
    if parts or not is_last:
        candidate["content"] = {"role": "model", "parts": parts}
    if is_last:
        candidate["finishReason"] = _end(reply)
    body: JsonObject = {"candidates": [candidate], "modelVersion": "test-model-2026", "responseId": "resp_1"}
    if reply.refusal and is_last:
        body = {**body, "candidates": [], "promptFeedback": {"blockReason": "SAFETY"}}
    return body if reply.usage is None or not is_last else {**body, "usageMetadata": usage_of(reply.usage)}


def _end(reply: Reply) -> str:
    if any(_arguments(call) is None for call in reply.calls):
        return "MALFORMED_FUNCTION_CALL"
    return ENDS.get(reply.ending, reply.ending)


def usage_of(usage: Mapping[str, int]) -> JsonObject:
    """Return counts in the form of Gemini. Keys: input (all of it), output (all of it), cached, thought."""
    thought = usage.get("thought", 0)
    return {
        "promptTokenCount": usage["input"],
        "candidatesTokenCount": usage["output"] - thought,
        "thoughtsTokenCount": thought,
        "cachedContentTokenCount": usage.get("cached", 0),
        "totalTokenCount": usage["input"] + usage["output"],
    }


def _parts(reply: Reply) -> list[JsonObject]:
    found: list[JsonObject] = []
    seal = ""
    for part in reply.parts:
        made = _part(part)
        if made is None:
            continue
        signed = {"thoughtSignature": seal} if seal and not isinstance(part, Thought) else {}
        found.append({**made, **signed})
        seal = part.sealed if isinstance(part, Thought) else ""
    return found


def _part(part: str | Call | Thought) -> JsonObject | None:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Thought):
        return {"text": part.text, "thought": True}
    arguments = _arguments(part)
    if arguments is None:
        return None
    named = {} if part.id is None else {"id": part.id}
    return {"functionCall": {"name": part.name, "args": arguments, **named}}


def _arguments(call: Call) -> dict[str, object] | None:
    try:
        found = json.loads(call.arguments or "{}")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
