"""Conversations as a model has them, and each of them written in the shapes of three APIs."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from hypothesis import strategies as st

Draw: TypeAlias = Callable[[st.SearchStrategy[Any]], Any]
"""Draws a value, in a composite strategy or in a test."""


class Called(NamedTuple):
    """A call with its result. id: of it."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str


class Turn(NamedTuple):
    """Words of a user, and the reply with its calls."""

    heard: str
    said: str
    calls: tuple[Called, ...]


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
WORDS = TEXT.filter(lambda text: text.strip())
ARGUMENTS = st.dictionaries(TEXT, st.integers(0, 9) | TEXT, max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> list[Turn]:
    """Draw a whole conversation, whose calls have ids of their own."""
    turns, number = [], 0
    for _ in range(draw(st.integers(1, 4))):
        calls = []
        for _ in range(draw(st.integers(0, 3))):
            number += 1
            name = draw(st.sampled_from(["look", "read", "say"]))
            calls.append(Called(f"call_{number}", name, draw(ARGUMENTS), draw(TEXT)))
        turns.append(Turn(draw(WORDS), draw(WORDS), tuple(calls)))
    return turns


def as_messages(turns: list[Turn], draw: Draw) -> list[dict[str, Any]]:
    """Write a conversation in the shape of the Messages API."""
    items: list[dict[str, Any]] = []
    for turn in turns:
        items.append({"role": "user", "content": _content(turn.heard, "text", draw)})
        uses = [{"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in turn.calls]
        items.append({"role": "assistant", "content": [{"type": "text", "text": turn.said}, *uses]})
        results = [{"type": "tool_result", "tool_use_id": c.id, "content": c.result} for c in turn.calls]
        for part in _parted(draw(st.permutations(results)), draw):
            items.append({"role": "user", "content": part})
    return items


def as_chat(turns: list[Turn], draw: Draw) -> list[dict[str, Any]]:
    """Write a conversation in the shape of Chat Completions."""
    items: list[dict[str, Any]] = []
    for turn in turns:
        items.append({"role": "user", "content": _content(turn.heard, "text", draw)})
        reply: dict[str, Any] = {"role": "assistant", "content": turn.said, "refusal": None}
        calls = [
            {
                "id": c.id,
                "type": "function",
                "function": {"name": c.name, "arguments": json.dumps(c.arguments)},
            }
            for c in turn.calls
        ]
        items.append({**reply, "tool_calls": calls} if calls or draw(st.booleans()) else reply)
        results = [{"role": "tool", "tool_call_id": c.id, "content": c.result} for c in turn.calls]
        items += draw(st.permutations(results))
    return items


def as_responses(turns: list[Turn], draw: Draw) -> list[dict[str, Any]]:
    """Write a conversation in the shape of the Responses API."""
    items: list[dict[str, Any]] = []
    for turn in turns:
        item = {"role": "user", "content": _content(turn.heard, "input_text", draw)}
        items.append({"type": "message", **item} if draw(st.booleans()) else item)
        if draw(st.booleans()):
            items.append({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "x"})
        said = {"type": "output_text", "text": turn.said, "annotations": []}
        items.append({"type": "message", "role": "assistant", "id": "msg", "content": [said]})
        for c in turn.calls:
            call = {"type": "function_call", "call_id": c.id, "name": c.name}
            items.append({**call, "arguments": json.dumps(c.arguments), "id": "fc", "status": "completed"})
        for c in draw(st.permutations(turn.calls)):
            items.append({"type": "function_call_output", "call_id": c.id, "output": c.result})
    return items


SHAPES = (as_messages, as_chat, as_responses)


def _content(text: str, kind: str, draw: Draw) -> object:
    return text if draw(st.booleans()) else [{"type": kind, "text": text}]


def _parted(results: list[Any], draw: Draw) -> list[list[Any]]:
    """Return results in one message or in several."""
    if draw(st.booleans()):
        return [[one] for one in results]
    return [results] if results else []


def spelled(item: object, draw: Draw) -> object:
    """Return an item as it is, or as its JSON in another spelling."""
    way = draw(st.sampled_from(["plain", "spaces", "escapes", "bytes", "keys"]))
    if way == "plain":
        return item
    is_sorted = way == "keys"
    text = json.dumps(
        item, ensure_ascii=way == "escapes", indent=2 if way == "spaces" else None, sort_keys=is_sorted
    )
    return text.encode() if way == "bytes" else text
