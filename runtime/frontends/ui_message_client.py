"""The client's side of the AI SDK: the body that its chat transport posts, and a message built of its chunks.

Of the messages of a body only the newest counts.
"""

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from callboard.actors.protocol.errors import MisuseError
from callboard.actors.protocol.immutable import JsonObject
from callboard.actors.session.place_names import is_number
from callboard.runtime.frontends.front_end import FrontEndRequest, GivenAnswer
from callboard.runtime.frontends.prompts import Medium, from_data_url, prompt_of


class _Approval(msgspec.Struct):
    id: str
    approved: bool | None = None
    reason: str = ""


class _Part(msgspec.Struct, rename="camel"):
    type: str
    text: str = ""
    url: str = ""
    media_type: str = ""
    state: str = ""
    approval: _Approval | None = None


class _OfCallboard(msgspec.Struct):
    seq: int


class _Metadata(msgspec.Struct):
    callboard: _OfCallboard | None = None


class _Message(msgspec.Struct):
    id: str
    role: str
    parts: list[_Part]
    metadata: _Metadata | None = None


class _Tool(msgspec.Struct):
    name: str = ""


class _Body(msgspec.Struct):
    id: str
    messages: list[_Message]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    tools: dict[str, object] | list[_Tool] | None = None


def read_chat(body: bytes) -> FrontEndRequest:
    """Read the body of a request. Raises MisuseError and InvalidPrompt, as `FrontEnd.read`."""
    try:
        given = msgspec.json.decode(body, type=_Body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise MisuseError(f"the body is not one of the AI SDK's chat transport: {error}") from None
    if given.trigger == "regenerate-message":
        raise MisuseError(
            "a message cannot be regenerated, because the log keeps it. Ask again, or fork the session"
        )
    if given.tools:
        names = ", ".join(repr(one if isinstance(one, str) else one.name)[:80] for one in given.tools)
        raise MisuseError(
            f"the client offers tools of its own: {names}. Only those of the agents can be called"
        )
    if not given.messages:
        raise MisuseError("the body has no message; send at least the newest one")
    newest = given.messages[-1]
    if newest.role == "user":
        return FrontEndRequest(given.id, "", newest.id, prompt_of(_parts(newest)))
    answers = tuple(_answers(newest))
    seen = newest.metadata.callboard if newest.metadata else None
    if answers and seen is None:
        raise MisuseError(
            "the message with the answer has lost its metadata.callboard.seq; load the chat again"
        )
    return FrontEndRequest(given.id, answers=answers, after=seen.seq if seen else None)


def _parts(message: _Message) -> list[str | Medium]:
    found: list[str | Medium] = []
    for part in message.parts:
        if part.type == "text":
            found.append(part.text)
        elif part.type == "file":
            found.append(from_data_url(part.url, part.media_type))
    return found


def _answers(message: _Message) -> Iterator[GivenAnswer]:
    for part in message.parts:
        said = part.approval
        if part.state == "approval-responded" and said is not None and said.approved is not None:
            if not is_number(said.id):
                raise MisuseError(
                    f"there is no approval {said.id!r:.80}; use the id of the part that asks for it"
                )
            yield GivenAnswer(int(said.id), said.approved, said.reason)


Chunk: TypeAlias = JsonObject
Part: TypeAlias = JsonObject


def shown_parts(prompt: object) -> list[Part]:
    """Return a prompt as the parts of a message: texts and files."""
    if isinstance(prompt, str):
        return [{"type": "text", "text": prompt}]
    if not isinstance(prompt, list):
        return [{"type": "text", "text": msgspec.json.encode(prompt).decode()}]
    return [_shown(block) for block in prompt]


def _shown(block: JsonObject) -> Part:
    source = block.get("source") or {}
    match source.get("type"):
        case "base64":
            url = f"data:{source['media_type']};base64,{source['data']}"
            return {"type": "file", "mediaType": source["media_type"], "url": url}
        case "url":
            return {"type": "file", "mediaType": f"{block['type']}/*", "url": source["url"]}
        case _:
            pass
    text = block.get("text")
    return {"type": "text", "text": text if isinstance(text, str) else msgspec.json.encode(block).decode()}


class UIMessage:
    """One message. id: of it. role: user or assistant. parts: in their order."""

    def __init__(self, message_id: str, role: str, parts: list[Part] | None = None) -> None:
        self.id = message_id
        self.role = role
        self.parts = parts or []
        self._metadata: dict[str, object] = {}
        self._texts: dict[str, Part] = {}

    def to_dict(self) -> dict[str, object]:
        """Return the message as JSON values."""
        found: dict[str, object] = {"id": self.id, "role": self.role, "parts": self.parts}
        return found | ({"metadata": self._metadata} if self._metadata else {})

    def add(self, chunk: Chunk) -> None:
        """Add a chunk. One that does not change a message is passed over."""
        self._metadata |= chunk.get("messageMetadata", {})
        match chunk["type"]:
            case "text-start" | "reasoning-start":
                kind = chunk["type"].removesuffix("-start")
                part = self._texts[chunk["id"]] = {"type": kind, "text": "", "state": "streaming"}
                self.parts.append(part)
            case "text-delta" | "reasoning-delta":
                self._texts[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                self._texts[chunk["id"]]["state"] = "done"
            case "start-step":
                self.parts.append({"type": "step-start"})
            case "reset-step":
                self._drop_step()
            case "steering-message":
                self.parts.append(chunk)
            case "tool-input-available":
                self._call(chunk)
            case kind if kind.startswith(("tool-output-", "tool-approval-")):
                self._about_call(chunk)
            case kind if kind.startswith("data-"):
                self._data(chunk)
            case _:  # such as `finish-step`
                pass

    def _drop_step(self) -> None:
        while self.parts and self.parts[-1]["type"] != "step-start":
            self.parts.pop()

    def _call(self, chunk: Chunk) -> None:
        part = {"type": "dynamic-tool", "state": "input-available"}
        self.parts.append(part | {key: chunk[key] for key in _OF_CALL if key in chunk})

    def _about_call(self, chunk: Chunk) -> None:
        part = self._call_of(chunk)
        match chunk["type"]:
            case "tool-approval-request":
                part["state"] = "approval-requested"
                part["approval"] = {"id": chunk["approvalId"]}
                if "inputSchemaInput" in chunk:
                    part["approval"]["inputSchemaInput"] = chunk["inputSchemaInput"]
            case "tool-approval-response":
                part["state"] = "approval-responded"
                part["approval"]["approved"] = chunk["approved"]
                if "reason" in chunk:
                    part["approval"]["reason"] = chunk["reason"]
            case "tool-output-available":
                part |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error":
                part |= {"state": "output-error", "errorText": chunk["errorText"]}
            case _:
                part["state"] = "output-denied"

    def _call_of(self, chunk: Chunk) -> Part:
        calls = [part for part in self.parts if part["type"] == "dynamic-tool"]
        if "toolCallId" in chunk:
            return next(part for part in calls if part["toolCallId"] == chunk["toolCallId"])
        return next(part for part in calls if part.get("approval", {}).get("id") == chunk["approvalId"])

    def _data(self, chunk: Chunk) -> None:
        for part in self.parts:
            if (part["type"], part.get("id")) == (chunk["type"], chunk["id"]):
                part["data"] = chunk["data"]
                return
        self.parts.append(dict(chunk))


_OF_CALL = ("toolCallId", "toolName", "title", "input")
