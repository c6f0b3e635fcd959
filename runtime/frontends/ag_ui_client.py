"""The client's side of AG-UI: the input of a run, and the messages of a thread as its events make them.

Of the messages of an input only the newest counts, if it is a user's.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.session.place_names import is_number
from callboard.runtime.frontends.front_end import FrontEndRequest, GivenAnswer
from callboard.runtime.frontends.prompts import Medium, from_data_url, prompt_of


class _Tool(msgspec.Struct):
    name: str


class _Source(msgspec.Struct, rename="camel"):
    type: str
    value: str
    mime_type: str = ""


class _Part(msgspec.Struct):
    type: str
    text: str = ""
    source: _Source | None = None


class _Message(msgspec.Struct):
    id: str
    role: str
    content: str | list[_Part] | dict[str, object] | None = None


class _Answer(msgspec.Struct):
    approved: bool = True
    note: str = ""
    arguments: dict[str, object] | None = None
    values: dict[str, object] | None = None
    always: bool = False


class _Resumed(msgspec.Struct, rename="camel"):
    interrupt_id: str
    status: Literal["resolved", "cancelled"]
    payload: _Answer | None = None


class _Input(msgspec.Struct, rename="camel"):
    thread_id: str
    run_id: str
    messages: list[_Message]
    tools: list[_Tool] | None = None
    resume: list[_Resumed] | None = None


def read_run_input(body: bytes) -> FrontEndRequest:
    """Read a `RunAgentInput`. Raises MisuseError and InvalidPrompt, as `FrontEnd.read`."""
    try:
        given = msgspec.json.decode(body, type=_Input)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MisuseError(f"the body is not a RunAgentInput of AG-UI: {error}") from None
    if given.tools:
        names = ", ".join(repr(one.name)[:80] for one in given.tools[:10])
        raise MisuseError(
            f"the client offers tools of its own: {names}. Only those of the agents can be called; "
            "send `tools` empty"
        )
    answers = tuple(map(_given, given.resume or ()))
    newest = given.messages[-1] if given.messages else None
    if answers or newest is None or newest.role != "user":
        return FrontEndRequest(given.thread_id, given.run_id, answers=answers)
    prompt = prompt_of(_parts(newest.content))
    return FrontEndRequest(given.thread_id, given.run_id, newest.id, prompt)


def _given(answer: _Resumed) -> GivenAnswer:
    if not is_number(answer.interrupt_id):
        raise MisuseError(
            f"there is no interrupt {answer.interrupt_id!r:.80}; use the id of one with which a run ended"
        )
    said = answer.payload or _Answer()
    is_approved = answer.status == "resolved" and said.approved
    seq = int(answer.interrupt_id)
    return GivenAnswer(seq, is_approved, said.note, said.arguments, said.values, said.always)


def _parts(content: str | list[_Part] | dict[str, object] | None) -> list[str | Medium]:
    if isinstance(content, str):
        return [content]
    return [_part(one) for one in content] if isinstance(content, list) else []


def _part(part: _Part) -> str | Medium:
    if part.source is None:
        return part.text
    if part.source.type == "data":
        return Medium(part.source.mime_type, data=part.source.value)
    return from_data_url(part.source.value, part.source.mime_type or f"{part.type}/*")


AGUIEvent: TypeAlias = JsonObject


class Messages:
    """The messages so far."""

    def __init__(self) -> None:
        self._by_id: dict[str, JsonObject] = {}
        self._owners: dict[str, str] = {}

    def all(self) -> list[JsonObject]:
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

    def _begin(self, event: AGUIEvent, role: str, content: str | None) -> JsonObject:
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
