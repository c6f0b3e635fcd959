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
    """Yield the lines of a value. An empty object, an empty list and a null have none."""
    if isinstance(value, dict | list):
        for place, part in _parts(value):
            yield from _lines(f"{path}{place}".lstrip("."), part)
    elif isinstance(value, str):
        yield from (f"{path}: {line}" for line in value.split("\n"))
    elif value is not None:
        yield f"{path}: {msgspec.json.encode(value).decode()}"


def _parts(value: dict[str, Any] | list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, each with its place as it stands in a path."""
    if isinstance(value, dict):
        return ((f".{name}", part) for name, part in value.items())
    return ((f"[{place}]", part) for place, part in enumerate(value))
