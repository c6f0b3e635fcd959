"""Answers that come as a stream of events, read while their bytes go on to the program."""

from collections.abc import Iterator
from typing import Any

import msgspec

from callboard.actors.protocol.immutable import JsonObject
from callboard.runtime.gateway.dialects import Answered, Dialect, answered
from callboard.runtime.imports.pieces import REASONING
from callboard.runtime.models.anthropic.answer import StreamedMessage
from callboard.runtime.models.failures import broken_stream
from callboard.runtime.models.layered.chat_calls import Piece, joined, piece_of

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})


class StreamedAnswer:
    """The answer in a stream. Feed it the bytes as they come, then ask for it."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._rest = b""
        self._message = StreamedMessage()
        self._chat = _Chat()
        self._whole: Any = None

    def feed(self, data: bytes) -> None:
        """Take the next bytes. Raises CallFailed for an error in the stream."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            if line.startswith(b"data:"):
                self._take(line.removeprefix(b"data:").strip())

    def _take(self, data: bytes) -> None:
        try:
            event = msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return  # `[DONE]`, and what no client reads
        if self._dialect == "messages":
            self._message.take(event)
        elif not isinstance(event, dict):
            return
        elif self._dialect == "chat":
            self._chat.take(event)
        elif event.get("type") in _TERMINAL:
            self._whole = event.get("response")

    def answer(self) -> Answered:
        """Return the whole answer. Raises CallFailed for one that broke off."""
        if self._dialect == "messages":
            found = self._message.answer()
            content = msgspec.json.decode(bytes(found.content))
            return Answered(found, [{"role": "assistant", "content": content}])
        whole = self._chat.whole() if self._dialect == "chat" else self._whole
        if whole is None:
            raise broken_stream("the stream ended before the message did")
        return answered(self._dialect, whole)


class _Chat:
    """The message in the chunks of Chat Completions."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._thoughts: dict[str, list[str]] = {}
        self._pieces: list[Piece] = []
        self._about: JsonObject = {}
        self._reason = ""

    def take(self, chunk: JsonObject) -> None:
        """Take a chunk."""
        self._about |= {key: chunk[key] for key in ("id", "model", "usage") if chunk.get(key)}
        for choice in self._first(chunk):
            delta = choice.get("delta")
            delta = delta if isinstance(delta, dict) else {}
            if isinstance(delta.get("content"), str):
                self._texts.append(delta["content"])
            for key in REASONING:
                if isinstance(delta.get(key), str):
                    self._thoughts.setdefault(key, []).append(delta[key])
            told = delta.get("tool_calls")
            calls = told if isinstance(told, list) else []
            for place, call in enumerate(calls):
                if isinstance(call, dict):
                    self._pieces.append(piece_of(call, place if len(calls) > 1 else None))
            self._reason = choice.get("finish_reason") or self._reason

    @staticmethod
    def _first(chunk: JsonObject) -> Iterator[JsonObject]:
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and choice.get("index", 0) == 0:
                yield choice

    def whole(self) -> JsonObject | None:
        """Return the completion; None if it broke off."""
        if not self._reason:
            return None
        calls = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.name, "arguments": one.arguments.text},
            }
            for one in joined(self._pieces)
        ]
        message: JsonObject = {"role": "assistant", "content": "".join(self._texts) or None}
        message |= {key: "".join(texts) for key, texts in self._thoughts.items()}
        if calls:
            message["tool_calls"] = calls
        return {**self._about, "choices": [{"index": 0, "message": message, "finish_reason": self._reason}]}
