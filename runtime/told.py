"""The parts of a conversation as text: words, calls of tools, and their results."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal, NamedTuple

import msgspec

from callboard.actors.protocol.immutable import Json

_PATHS: Final = ("path", "paths", "file", "files")
_MEMORY_TOOLS: Final = ("remember", "recall")
_MEMORY_ID: Final = re.compile(r"(?:^\[|remembered as )([0-9a-f]{16})\b", re.MULTILINE)
_ARGUMENTS_MAX: Final = 2_000  # characters of a call's arguments that are told


class Told(NamedTuple):
    """One part of a conversation.

    by: `user`, or the address of the agent. name, arguments: of the tool that is called, or whose result it
    is. paths: of files among the arguments. memories: the ids in the result of a memory tool.
    """

    kind: Literal["said", "call", "result"]
    by: str
    text: str = ""
    name: str = ""
    arguments: str = ""
    paths: tuple[str, ...] = ()
    memories: tuple[str, ...] = ()


class _Message(msgspec.Struct):
    role: str = ""
    content: Any = None


_decode: Final = msgspec.json.Decoder(_Message).decode


def told_in(messages: Iterable[Json], agent: str) -> Iterator[Told]:
    """Yield the parts of messages, in order. agent: the address of the one whose conversation it is.

    Thoughts and other blocks that only their own service reads are passed over.
    """
    calls: dict[str, Told] = {}
    for raw in messages:
        message = _decode(raw)
        if message.role == "system":  # about the conversation itself, such as a change of tools
            continue
        by = agent if message.role == "assistant" else "user"
        for block in _blocks(message.content):
            part = _part(block, by, calls)
            if part is not None:
                yield part


def _blocks(content: object) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [one for one in content if isinstance(one, dict)] if isinstance(content, list) else []


def _part(block: dict[str, Any], by: str, calls: dict[str, Told]) -> Told | None:
    """Return a block as a part; None for one that is not text, call or result."""
    match block:
        case {"type": "text", "text": str(text)}:
            return Told("said", by, text)
        case {"type": "tool_use", "name": str(name), "input": given}:
            arguments = msgspec.json.encode(given).decode()[:_ARGUMENTS_MAX]
            call = Told("call", by, "", name, arguments, tuple(_paths_in(given)))
            calls[str(block.get("id"))] = call
            return call
        case {"type": "tool_result", "content": content}:
            call = calls.get(str(block.get("tool_use_id")), Told("call", by))
            return _result(call, content)
        case {"type": "image" | "document" as kind}:
            return Told("said", by, f"[{kind}]")
        case _:
            return None


def _result(call: Told, content: object) -> Told:
    texts = [str(block["text"]) for block in _blocks(content) if block.get("type") == "text"]
    text = "\n".join(texts) if isinstance(content, str | list) else msgspec.json.encode(content).decode()
    memories = tuple(_MEMORY_ID.findall(text)) if call.name in _MEMORY_TOOLS else ()
    return call._replace(kind="result", text=text, memories=memories)


def _paths_in(given: object) -> Iterator[str]:
    """Yield the paths among the arguments of a call, by the names that tools give them."""
    if not isinstance(given, dict):
        return
    for value in (given.get(name) for name in _PATHS):
        yield from (one for one in (value if isinstance(value, list) else [value]) if isinstance(one, str))
