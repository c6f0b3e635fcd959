"""A model request as lines of text, for a text diff: each value with its path, texts line by line."""

from collections.abc import Iterator
from typing import Any

import msgspec

from callboard.actors.protocol.request import ModelRequest


def request_lines(request: ModelRequest) -> list[str]:
    """Return a request as lines: its model, its tools by name, its instructions, its messages."""
    body = msgspec.json.decode(request.body())
    tools = {tool.get("name", str(place)): tool for place, tool in enumerate(body.pop("tools"))}
    return [*_lines("", {"model": body.pop("model"), "tools": tools, **body})]


def _lines(path: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for name, part in value.items():
            yield from _lines(f"{path}.{name}" if path else name, part)
    elif isinstance(value, list) and value:
        for place, part in enumerate(value):
            yield from _lines(f"{path}[{place}]", part)
    elif isinstance(value, str):
        yield from (f"{path}: {line}" for line in value.split("\n"))
    elif value not in ({}, [], None):
        yield f"{path}: {msgspec.json.encode(value).decode()}"
