"""Reading a Messages API message into a `ModelAnswer`.

Rules
  - Content blocks keep every key, known or not: the service wants them back unchanged (signatures, encrypted
    parts, server tools).
  - The parts that the runtime acts on must have their form: text is a string, a tool call has an id, a name
    and an object as input. Any other form is garbage, and garbage is a failure.
"""

import json
import math
from typing import Final, NoReturn

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.usage import Usage
from callboard.runtime.models.anthropic.errors import garbage_answer, service_error
from callboard.runtime.models.protocol import ModelAnswer

TOKENS_MAX: Final = 2**53  # the largest count of tokens that is believed

# Iterations whose tokens are billed but missing in the totals above them (SDK: BetaMessageDeltaUsage).
_UNCOUNTED: Final = frozenset({"compaction", "advisor_message"})


def parsed(text: str | bytes) -> object:
    """Decode a JSON text. Raises ValueError, also for numbers that JSON cannot hold."""
    # Not with the SDK's types, which fill in defaults, and not with msgspec, which refuses lone surrogates
    # before the boundary can clean them.
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is beyond the range of numbers")
    return value


def encoded(value: object) -> Json:
    """Encode a parsed value as compact JSON, keys in their order. Lone surrogates stay, as escapes."""
    try:
        return Json(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    except UnicodeEncodeError:
        return Json(json.dumps(value, separators=(",", ":")).encode())


def answer_of_body(body: bytes) -> ModelAnswer:
    """Read the answer in the body of a 200 response. Raises CallFailed."""
    try:
        message = parsed(body)
    except ValueError as error:
        start = body[:80].decode("utf-8", "replace")
        raise garbage_answer(f"the answer is not JSON ({error}): {start!r}") from None
    if not isinstance(message, dict):
        raise garbage_answer(f"the answer is JSON, not an object: {body[:80].decode('utf-8', 'replace')!r}")
    return answer_of(message)


def answer_of(message: dict[str, object]) -> ModelAnswer:
    """Read the answer from a whole message. Raises CallFailed."""
    if message.get("type") == "error":
        raise service_error(200, {}, message)
    usage = usage_of(message.get("usage"))
    content, stop_reason = message.get("content"), message.get("stop_reason")
    if not isinstance(content, list):
        raise garbage_answer("the answer has no list of content blocks", usage)
    for index, block in enumerate(content):
        if problem := _problem(block):
            raise garbage_answer(f"content block {index} {problem}", usage)
    if not isinstance(stop_reason, str):
        raise garbage_answer("the answer does not say why it stopped", usage)
    model = _model_of(message.get("model"), content)
    return ModelAnswer(encoded(content), stop_reason, usage, model=model)


def _problem(block: object) -> str:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return "is not an object with a type"
    if block["type"] == "text" and not isinstance(block.get("text"), str):
        return "is text without text"
    if block["type"] != "tool_use":
        return ""
    if not all(isinstance(block.get(key), str) and block[key] for key in ("id", "name")):
        return "is a tool call without an id or a name"
    return "" if isinstance(block.get("input"), dict) else "is a tool call whose input is not an object"


def _model_of(model: object, content: list[object]) -> str:
    for block in reversed(content):
        if isinstance(block, dict) and block.get("type") == "fallback":
            to = block.get("to")
            model = to.get("model", model) if isinstance(to, dict) else model
            break
    return model if isinstance(model, str) else ""


def usage_of(usage: object) -> Usage | None:
    """Read the tokens in a `usage` object; None if it cannot be believed."""
    total = _tokens(usage)
    if total is None or not isinstance(usage, dict):
        return None
    iterations = usage.get("iterations")
    for part in iterations if isinstance(iterations, list) else []:
        if isinstance(part, dict) and part.get("type") in _UNCOUNTED:
            extra = _tokens(part)
            if extra is None:
                return None
            total = [one + more for one, more in zip(total, extra, strict=True)]
    return Usage(*total)


def _tokens(usage: object) -> list[int] | None:
    """Read the counts of input, output, cache read and cache write. The last two may be missing or null."""
    if not isinstance(usage, dict):
        return None
    counts = [usage.get("input_tokens"), usage.get("output_tokens")]
    counts += [usage.get(key) or 0 for key in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    if any(type(count) is not int or not 0 <= count <= TOKENS_MAX for count in counts):
        return None
    return [count for count in counts if isinstance(count, int)]
