"""The messages of an AG-UI thread, as its events make them: what a client holds after the same events."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

AGUIEvent: TypeAlias = dict[str, Any]


class Messages:
    """The messages so far."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Any]] = {}
        self._owners: dict[str, str] = {}

    def all(self) -> list[dict[str, Any]]:
        """Return the messages in their order."""
        return [one for one in self._by_id.values() if one.get("content") or one.get("toolCalls")]

    def prompt(self, message_id: str, content: object) -> None:
        """Add the message of a person."""
        self._by_id[message_id] = {"id": message_id, "role": "user", "content": content}

    def drop(self, message_id: str) -> None:
        """Take a text back."""
        self._by_id.pop(message_id, None)

    def add(self, event: AGUIEvent) -> None:
        """Add an event."""
        if handler := _HANDLERS.get(event["type"]):
            handler(self, event)

    def _begin(self, event: AGUIEvent, role: str, content: str | None) -> dict[str, Any]:
        made = {"id": event["messageId"], "role": role}
        if content is not None:
            made["content"] = content
        if "subagentRunId" in event:
            made["subagentRunId"] = event["subagentRunId"]
        return self._by_id.setdefault(made["id"], made)

    def _text(self, event: AGUIEvent) -> None:
        self._begin(event, event["role"], "")

    def _append(self, event: AGUIEvent) -> None:
        one = self._by_id[event["messageId"]]
        one["content"] = one.get("content", "") + event["delta"]

    def _thinking(self, event: AGUIEvent) -> None:
        self._begin(event, "reasoning", "")

    def _call(self, event: AGUIEvent) -> None:
        parent = self._begin(event | {"messageId": event["parentMessageId"]}, "assistant", None)
        function = {"name": event["toolCallName"], "arguments": ""}
        call = {"id": event["toolCallId"], "type": "function", "function": function}
        parent.setdefault("toolCalls", []).append(call)
        self._owners[event["toolCallId"]] = parent["id"]

    def _arguments(self, event: AGUIEvent) -> None:
        calls = self._by_id[self._owners[event["toolCallId"]]]["toolCalls"]
        (call,) = [one for one in calls if one["id"] == event["toolCallId"]]
        call["function"]["arguments"] += event["delta"]

    def _result(self, event: AGUIEvent) -> None:
        made = {"id": event["messageId"], "role": "tool", "content": event["content"]}
        made["toolCallId"] = event["toolCallId"]
        for key in ("subagentRunId", "metadata"):
            if key in event:
                made[key] = event[key]
        self._by_id[event["messageId"]] = made


_HANDLERS: Final[dict[str, Callable[[Messages, AGUIEvent], None]]] = {
    "TEXT_MESSAGE_START": Messages._text,
    "TEXT_MESSAGE_CONTENT": Messages._append,
    "REASONING_MESSAGE_START": Messages._thinking,
    "REASONING_MESSAGE_CONTENT": Messages._append,
    "TOOL_CALL_START": Messages._call,
    "TOOL_CALL_ARGS": Messages._arguments,
    "TOOL_CALL_RESULT": Messages._result,
}
