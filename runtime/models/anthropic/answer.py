"""Reading a Messages API message, whole or streamed, into a `ModelAnswer`.

Content blocks keep every key, known or not: the service wants them back unchanged (signatures, encrypted
parts, server tools). The parts that the runtime acts on must have their form: text is a string, a tool call
has an id, a name and an object as input. Any other form is garbage, and garbage is a failure.

A stream is joined from its events into the message that the service would send in one piece:

    message_start                                  the message, without content
      content_block_start                          the first part of a block
        content_block_delta*                       an addition to it
      content_block_stop                           its end; a block that max_tokens cuts has none
    message_delta                                  stop reason; usage, in totals that replace earlier ones (a
                                                   zero replaces none if the prompt would shrink by it)
    message_stop                                   the end

Blocks are named by their index. Where that is absent or the same for all, as behind some proxies, a piece
belongs to the last block. The arguments of a call are settled from the pieces and the input at its start
(`call_arguments`); a call that is not certain has them as a text, and the reason not to run it.

A stream that breaks off after the stop reason is complete, one that breaks off before it was cut. Events of
unknown types are ignored, as https://platform.claude.com/docs/en/build-with-claude/streaming asks. A delta of
an unknown type ends the call with a failure that is not retried, because its block would be sent back to the
service incomplete. The stream is read to its end first, so that its usage is known.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.usage import Usage
from callboard.actors.protocol.value_types import ModelFailure
from callboard.runtime.large_values import uncollected
from callboard.runtime.models.answer_bodies import TOKENS_MAX, is_error
from callboard.runtime.models.anthropic.errors import service_error
from callboard.runtime.models.call_arguments import CallBlock, Settled, is_object, once_each
from callboard.runtime.models.failures import CallFailed, broken_stream, garbage_answer, or_empty
from callboard.runtime.models.protocol import ModelAnswer

_PROMPT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
# Iterations whose tokens are billed but missing in the totals above them (SDK: BetaMessageDeltaUsage).
_UNCOUNTED: Final = frozenset({"compaction", "advisor_message"})

BLOCKS_MAX: Final = 10_000
# As the SDK's own accumulation does (anthropic 2.12, lib/streaming/_beta_messages.py).
_APPENDED: Final = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_REPLACED: Final = frozenset({"signature_delta", "compaction_delta"})


def parsed(text: str | bytes) -> object:
    """Decode a JSON text. Raises ValueError, also for numbers that JSON cannot hold."""
    # Not with the SDK's types, which fill in defaults, and not with msgspec, which refuses lone surrogates
    # before the boundary can clean them.
    try:
        with uncollected():
            return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _finite(text: str) -> float:
    """Read a number, or one of the words `NaN` and `Infinity`, which Python's json module takes for some."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text[:40]} is not a number that JSON can hold")
    return value


def encoded(value: object) -> Json:
    """Encode a parsed value as compact JSON, keys in their order. Lone surrogates stay, as escapes."""
    try:
        return Json(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())
    except UnicodeEncodeError:
        return Json(json.dumps(value, separators=(",", ":")).encode())


def answer_of_body(body: bytes) -> ModelAnswer:
    """Read the answer in the body of a 200 response. Raises CallFailed."""
    start = body[:80].decode("utf-8", "replace")
    try:
        message = parsed(body)
    except ValueError as error:
        raise garbage_answer(f"the answer is not JSON ({error}): {start!r}") from None
    if not isinstance(message, dict):
        raise garbage_answer(f"the answer is JSON, not an object: {start!r}")
    return answer_of(message)


def answer_of(message: dict[str, object]) -> ModelAnswer:
    """Read the answer from a whole message. Raises CallFailed."""
    if is_error(message):
        raise service_error(200, {}, message)
    usage = usage_of(message.get("usage"))
    content, stop_reason = message.get("content"), message.get("stop_reason")
    if not isinstance(content, list):
        raise garbage_answer("the answer has no list of content blocks", usage)
    content = _told_apart(content, message.get("id"))
    for problem in _problems(content):
        raise garbage_answer(problem, usage)
    if not isinstance(stop_reason, str):
        raise garbage_answer("the answer does not say why it stopped", usage)
    model = _model_of(message.get("model"), content)
    return ModelAnswer(encoded(content), stop_reason, usage, model=model, edits=_edits_in(message))


def _edits_in(message: dict[str, object]) -> Json:
    """Return what the service itself has taken out of the conversation, as it says it."""
    edits = or_empty(dict, message.get("context_management")).get("applied_edits")
    return encoded(edits) if edits else NULL


def _told_apart(content: list[object], message_id: object) -> list[object]:
    """Return blocks without calls that came twice, each other call with an id of its own."""
    kept: list[object] = []
    ids: dict[str, dict[str, object]] = {}
    for block in content:
        if isinstance(block, dict) and block.get("type") == "tool_use":
            call_id = or_empty(str, block.get("id"))
            same = ids.get(call_id)
            if call_id and same == block:
                continue
            start = call_id or or_empty(str, message_id)
            if start and (same is not None or not call_id):
                call_id = f"{start}_{len(ids)}"
                block = {**block, "id": call_id}
            ids[call_id] = block
        kept.append(block)
    return kept


def _problems(content: list[object]) -> Iterator[str]:
    for index, block in enumerate(content):
        if why := _problem(block):
            yield f"content block {index} {why}"


def _problem(block: object) -> str:
    parts = or_empty(dict, block)
    kind = parts.get("type")
    if not isinstance(kind, str):
        return "is not an object with a type"
    if kind == "text" and not isinstance(parts.get("text"), str):
        return "is text without text"
    return _call_problem(parts) if kind == "tool_use" else ""


def _call_problem(call: dict[str, object]) -> str:
    if not all(or_empty(str, call.get(key)) for key in ("id", "name")):
        return "is a tool call without an id or a name"
    if isinstance(call.get("input"), dict | str):  # a text: the words of input that is not an object
        return ""
    return "is a tool call whose input is not an object"


def _model_of(model: object, content: list[object]) -> str:
    """Return the model that answered: the last fallback, if the service fell back to one."""
    for block in map(partial(or_empty, dict), reversed(content)):
        if block.get("type") == "fallback":
            return or_empty(str, or_empty(dict, block.get("to")).get("model", model))
    return or_empty(str, model)


def usage_of(usage: object) -> Usage | None:
    """Read the tokens in a `usage` object; None if it cannot be believed."""
    parts = map(partial(or_empty, dict), or_empty(list, or_empty(dict, usage).get("iterations")))
    extra = [part for part in parts if part.get("type") in _UNCOUNTED]
    counts = [_tokens(part) for part in (or_empty(dict, usage), *extra)]
    known = [each for each in counts if each is not None]
    return Usage(*map(sum, zip(*known, strict=True))) if len(known) == len(counts) else None


def _tokens(usage: dict[str, object]) -> list[int] | None:
    """Read the counts of input, output, cache read and cache write. The last two may be missing or null."""
    counts = [usage.get("input_tokens"), usage.get("output_tokens")]
    counts += [usage.get(key) or 0 for key in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    known = [count for count in counts if type(count) is int and 0 <= count <= TOKENS_MAX]
    return known if len(known) == len(counts) else None


@dataclass(slots=True)
class _Block:
    """A block while it streams: its start, and the pieces to append. call: None for no call of ours."""

    start: dict[str, object]
    index: int | None
    call: CallBlock | None = None
    pieces: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.start.get("type") == "tool_use":
            told = self.start.get("input")
            whole = bytes(encoded(told)).decode() if told else ""
            call_id = or_empty(str, self.start.get("id"))
            self.call = CallBlock(self.index, call_id, self.start.get("name"), whole)

    def is_begun_again(self, start: dict[str, object]) -> bool:
        """Return True for the same start a second time, before any piece."""
        return self.start == start and self.call is not None and not self.call.has_begun

    def append(self, key: str, piece: str) -> None:
        """Append a piece to one of its fields."""
        if self.call is not None and key == "partial_json":
            self.call.add(piece)
        else:
            self.pieces.setdefault(key, []).append(piece)

    def whole(self) -> dict[str, object]:
        """Return the block as the service would send it in one piece."""
        block = dict(self.start)
        for key, pieces in self.pieces.items():
            if key == "partial_json":
                block["input"] = _input("".join(pieces), block.get("input", {}))
            else:
                block[key] = or_empty(str, block.get(key)) + "".join(pieces)
        return block if self.call is None else _with_arguments(block, self.call.settled())


def _with_arguments(block: dict[str, object], arguments: Settled) -> dict[str, object]:
    """Return a call with its arguments: an object, or a text with arguments that must not be run with."""
    if arguments.why:
        return {**block, "input": arguments.text, "refused": arguments.why}
    return {**block, "input": parsed(arguments.text) if is_object(arguments.text) else arguments.text}


def _input(text: str, start: object) -> object:
    if not text.strip():
        return start
    try:
        found = parsed(text)
    except ValueError:
        # The SDK reads unfinished input as far as it goes, which can turn a cut path into a shorter valid
        # one. The log has the model's own words; `actors/protocol/repairs.py` wraps them on their way back.
        return text
    return found if isinstance(found, dict) else text


def _index_of(event: dict[str, object]) -> int | None:
    """Return the index of a block, None if the event has none. Raises CallFailed for any other value."""
    index = event.get("index")
    if index is None or (type(index) is int and 0 <= index < BLOCKS_MAX):
        return index if isinstance(index, int) else None
    raise garbage_answer(f"the stream has the block {index!r:.40}")


class StreamedMessage:
    """A message under construction: `take` every event in order, then call `answer`."""

    def __init__(self) -> None:
        self.has_ended = False
        self._message: dict[str, object] = {}
        self._usage: dict[str, object] = {}
        self._blocks: list[_Block] = []
        self._by_index: dict[int | None, _Block] = {}
        self._unknown = ""

    @property
    def has_begun(self) -> bool:
        """Return whether the service has started to answer, so that tokens may have been used."""
        return bool(self._message)

    @property
    def is_complete(self) -> bool:
        """Return whether the whole message is here; the stream may not have ended yet."""
        return bool(self._message.get("stop_reason"))

    @property
    def usage(self) -> Usage | None:
        """Return the usage of the message; None before its stop reason, because counts grow until then."""
        return usage_of(self._usage) if self.is_complete else None

    @property
    def usage_so_far(self) -> Usage | None:
        """Return the usage that the service has told so far: its counts grow until the end."""
        return usage_of(self._usage)

    def take(self, event: object) -> str:
        """Take the next event and return the text that it adds. Raises CallFailed."""
        if not isinstance(event, dict):
            raise garbage_answer("an event of the stream is not a JSON object", self.usage)
        match event.get("type"):
            case "message_start":
                self._begin(event.get("message"))
            case "content_block_start":
                return self._start_block(_index_of(event), event.get("content_block"))
            case "content_block_delta":
                return self._extend(self._block(_index_of(event)), event.get("delta"))
            case "content_block_stop":
                self._stop(_index_of(event))
            case "message_delta":
                self._settle(event.get("delta"), event.get("usage"))
                if edits := event.get("context_management"):
                    self._message = {**self._message, "context_management": edits}
            case "message_stop":
                self.has_ended = True
            case "error":
                raise service_error(200, {}, event, has_begun=self.has_begun)
            case None if is_error(event):
                raise service_error(200, {}, event, has_begun=self.has_begun)
            case _:  # ping, and types that the service adds later
                pass
        return ""

    def answer(self) -> ModelAnswer:
        """Return the answer after the end of the stream. Raises CallFailed."""
        if not self.is_complete:
            raise broken_stream("the stream ended before the message did")
        if self._unknown:
            why = f"the model streams its blocks in a form that this version cannot join ({self._unknown})"
            advice = f"{why}; use AnthropicModel(..., stream=False)"
            raise CallFailed(ModelFailure("unsupported_stream", advice), self.usage)
        again = once_each([block.call for block in self._blocks if block.call is not None])
        content = [block.whole() for block in self._in_order() if block.call not in again]
        return answer_of({**self._message, "content": content, "usage": self._usage})

    def _begin(self, message: object) -> None:
        if self.has_begun or not isinstance(message, dict) or not message:
            raise garbage_answer("the stream starts twice or without a message", self.usage)
        self._message = message
        self._usage = dict(or_empty(dict, message.get("usage")))

    def _in_order(self) -> list[_Block]:
        """Return the blocks by their indexes, or as they came where those do not tell them apart."""
        indexes = {block.index for block in self._blocks}
        if None in indexes or len(indexes) < len(self._blocks):
            return self._blocks
        return sorted(self._blocks, key=lambda block: block.index or 0)

    def _start_block(self, index: int | None, start: object) -> str:
        if not isinstance(start, dict) or len(self._blocks) == BLOCKS_MAX:
            raise garbage_answer(f"the stream starts no block, or too many, at {index!r}", self.usage)
        before = self._by_index.get(index)
        if before is not None and before.is_begun_again(start):
            return ""
        block = _Block(start, index)
        if before is not None and before.call is not None and block.call is not None:
            block.call.follows(before.call)
        self._blocks.append(block)
        self._by_index[index] = block
        return or_empty(str, start.get("text")) if start.get("type") == "text" else ""

    def _stop(self, index: int | None) -> None:
        block = self._by_index.get(index)
        if block is not None and block.call is not None:
            block.call.is_stopped = True

    def _block(self, index: int | None) -> _Block:
        block = self._by_index.get(index)
        if block is None:
            raise garbage_answer(f"the stream adds to block {index!r}, which it never started", self.usage)
        return block

    def _extend(self, block: _Block, delta: object) -> str:
        added = dict(or_empty(dict, delta))
        kind = or_empty(str, added.pop("type", None))
        if not kind:
            raise garbage_answer("the stream adds something without a type", self.usage)
        if kind in _APPENDED:
            return self._append(block, kind, added.get(_APPENDED[kind]))
        if kind in _REPLACED:
            block.start.update(added)
        elif kind == "citations_delta":
            known = or_empty(list, block.start.get("citations"))
            block.start["citations"] = [*known, added.get("citation")]
        else:
            self._unknown = kind
        return ""

    def _append(self, block: _Block, kind: str, piece: object) -> str:
        if not isinstance(piece, str):
            raise garbage_answer(f"a {kind} of the stream has no text", self.usage)
        block.append(_APPENDED[kind], piece)
        return piece if kind == "text_delta" else ""

    def _settle(self, delta: object, usage: object) -> None:
        """Take the stop reason and the usage of a `message_delta`. A null count means "as before"."""
        self._message = {**self._message, **or_empty(dict, delta)}
        counts = or_empty(dict, usage).items()
        now = {**self._usage, **{key: value for key, value in counts if value is not None}}
        if _prompt(now) < _prompt(self._usage):  # gateways put 0 for the prompt that they do not know here
            now |= {key: self._usage[key] for key in _PROMPT if now.get(key) == 0 and key in self._usage}
        self._usage = now


def _prompt(usage: dict[str, object]) -> int:
    return sum(count for key in _PROMPT if type(count := usage.get(key)) is int)
