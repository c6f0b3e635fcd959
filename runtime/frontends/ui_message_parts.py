"""A message of the AI SDK, as its chunks build it: what a client holds after the same chunks."""

from typing import Any, TypeAlias

import msgspec

Chunk: TypeAlias = dict[str, Any]
Part: TypeAlias = dict[str, Any]


def shown_parts(prompt: object) -> list[Part]:
    """Return a prompt as the parts of a message: texts and files."""
    if isinstance(prompt, str):
        return [{"type": "text", "text": prompt}]
    if not isinstance(prompt, list):
        return [{"type": "text", "text": msgspec.json.encode(prompt).decode()}]
    return [_shown(block) for block in prompt]


def _shown(block: dict[str, Any]) -> Part:
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
