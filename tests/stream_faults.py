"""Streams of calls in the ways in which servers are known to write them: keys left out, shared and changed.

    truth = true_calls(chance)                       # the calls that the model wrote
    events, is_faithful = chat_stream(chance, truth)

Each writer draws the faults of its dialect: ids absent, doubled or changing; indexes absent, shared or out of
order; arguments cut anywhere, repeated or cumulative; names in pieces or repeated; last events missing,
doubled, or contradicting the others. `is_faithful` tells that all calls must come out, since the faults drawn
leave no doubt. `chance` is a `random.Random`, so a seed names a stream.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

JsonObject = dict[str, Any]
TOOLS = ("look", "look_up", "write", "ping", "pi")


class TrueCall(NamedTuple):
    """A call as the model wrote it. text: its arguments."""

    name: str
    text: str
    id: str


def true_calls(chance: Random) -> list[TrueCall]:
    """Draw one to four calls."""
    calls: list[TrueCall] = []
    for at in range(chance.choice((1, 1, 2, 2, 3, 4))):
        if calls and chance.random() < 0.1:
            name, text = calls[-1].name, calls[-1].text
        else:
            name = chance.choice(TOOLS)
            text = json.dumps(_arguments(chance, 2), ensure_ascii=chance.random() < 0.5)
        calls.append(TrueCall(name, text, f"call_{chance.randrange(10**6)}_{at}"))
    return calls


def _arguments(chance: Random, depth: int) -> JsonObject:
    keys = chance.sample(("path", "a", "b", "q"), chance.choice((0, 1, 1, 2)))
    return {key: _value(chance, depth) for key in keys}


def _value(chance: Random, depth: int) -> object:
    if depth and chance.random() < 0.3:
        return _arguments(chance, depth - 1)
    return chance.choice(("A", "B", 1, 12, True, None, '{"a": 1}', "\U0001f600\n", "}{", [1, {"a": 2}], ""))


def cut(chance: Random, text: str) -> list[str]:
    """Cut a text anywhere; some pieces may be empty."""
    at = sorted(chance.randrange(len(text) + 1) for _ in range(chance.choice((0, 0, 1, 2, 4))))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


def other(text: str) -> str:
    """Return other arguments."""
    return json.dumps({**json.loads(text), "other": 1})


def woven(chance: Random, rows: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the items of all rows, those of each row in their order, else in any."""
    left = [list(row) for row in rows]
    found = []
    while any(left):
        row = chance.choice([row for row in left if row])
        found.append(row.pop(0))
    return found


def sse(value: object) -> bytes:
    """Return an event."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


class _Chat:
    """The ways of a server of Chat."""

    def __init__(self, chance: Random) -> None:
        pick = chance.choice
        self.index = pick(("right", "right", "absent", "zero", "turned", "per piece"))
        self.id = pick(("right", "right", "absent", "empty", "same", "each piece", "changing", "late"))
        # A name with an index or an id of its own is a call of its own, whatever came before, unless one of
        # them is that of the call.
        is_plain = self.id == "changing" or (self.index == "per piece" and self.id != "each piece")
        self.name = pick(("first", "pieces") if is_plain else ("first", "first", "each", "pieces", "last"))
        self.text = pick(("cut", "cut", "whole", "cumulative", "flushed", "twice"))
        self.end = pick(("right", "right", "none", "twice", "length", "stop"))
        self.closing = pick(("", "", "", "right", "contradicting"))
        has_keys = self.index in ("right", "turned") or self.id == "each piece"
        self.is_woven = has_keys and chance.random() < 0.3
        tells = self.index in ("right", "turned") or self.id in ("right", "each piece")
        self.is_faithful = (
            tells
            and self.name in ("first", "each")
            and self.text in ("cut", "whole")
            and self.end in ("right", "twice", "stop")
            and self.closing != "contradicting"
            and self.index in ("right", "turned", "zero", "absent")
            and self.id in ("right", "each piece", "absent", "empty", "late", "same")
            and not (self.id == "same" and self.index not in ("right", "turned"))
        )


def chat_stream(chance: Random, truth: Sequence[TrueCall]) -> tuple[list[bytes], bool]:
    """Write a stream of Chat."""
    ways = _Chat(chance)
    rows = [_chat_pieces(chance, ways, call, at, len(truth)) for at, call in enumerate(truth)]
    pieces = woven(chance, rows) if ways.is_woven else [piece for row in rows for piece in row]
    if ways.index == "per piece":
        pieces = [{**piece, "index": at} for at, piece in enumerate(pieces)]
    if ways.end == "length":
        pieces = pieces[: -chance.randrange(1, 3)]
    events = [_chunk({"role": "assistant", "content": ""})]
    is_packed = ways.index in ("right", "turned") and chance.random() < 0.2
    groups = [pieces] if is_packed else [[piece] for piece in pieces]
    events += [_chunk({"tool_calls": group}) for group in groups if group]
    last = _chunk({}, {"length": "length", "stop": "stop"}.get(ways.end, "tool_calls"))
    if ways.closing:
        said = [_chat_whole(call, ways) for call in truth]
        # An answer that only the closing message tells of is that of the model.
        if ways.closing == "contradicting" and ways.end != "length" and truth[-1].text != "{}":
            said[-1]["function"]["arguments"] = other(truth[-1].text)
        last["choices"][0]["message"] = {"role": "assistant", "tool_calls": said}
    events += [last] * {"none": 0, "twice": 2}.get(ways.end, 1)
    done = [b"data: [DONE]\n\n"] * chance.choice((0, 1, 1, 2))
    is_keyed = ways.index in ("right", "turned") and ways.id != "same"
    has_doubles = len({call[:2] for call in truth}) < len(truth)
    is_faithful = (
        ways.is_faithful
        and (is_keyed or all(call.text != "{}" for call in truth))
        and not (has_doubles and (ways.id == "same" or (ways.name == "each" and not is_keyed)))
    )
    return [*map(sse, events), b": alive\n\n", *done], is_faithful


def _chunk(delta: JsonObject, finish: str | None = None) -> JsonObject:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def _chat_whole(call: TrueCall, ways: _Chat) -> JsonObject:
    has_id = ways.id in ("right", "each piece", "late")
    return {**({"id": call.id} if has_id else {}), "function": {"name": call.name, "arguments": call.text}}


def _texts(chance: Random, way: str, text: str) -> list[str]:
    pieces = [text] if way == "whole" else cut(chance, text)
    if way == "cumulative":
        return ["".join(pieces[: at + 1]) for at in range(len(pieces))]
    return pieces + {"flushed": [text], "twice": pieces}.get(way, [])


def _chat_pieces(chance: Random, ways: _Chat, call: TrueCall, at: int, count: int) -> list[JsonObject]:
    texts = _texts(chance, ways.text, call.text)
    if chance.random() < 0.5:
        texts.insert(0, "")
    if call.text == "{}" and chance.random() < 0.5:
        texts = [""]
    names: list[str | None] = [call.name if ways.name == "each" else None] * len(texts)
    names[0] = call.name
    if ways.name == "pieces" and len(call.name) > 2:
        names, texts = [call.name[:2], call.name[2:], *names[1:]], [texts[0], "", *texts[1:]]
        texts[0], texts[1] = "", texts[0]
    if ways.name == "last":
        names[-1] = call.name
    pieces = []
    for number, (name, text) in enumerate(zip(names, texts, strict=True)):
        piece: JsonObject = {"function": {**({"name": name} if name else {}), "arguments": text}}
        piece |= _chat_index(ways.index, at, count) | _chat_id(chance, ways.id, call, number, len(texts))
        pieces.append(piece)
    return pieces


def _chat_index(way: str, at: int, count: int) -> JsonObject:
    found = {"right": at, "zero": 0, "turned": count - 1 - at, "per piece": 0}
    return {"index": found[way]} if way in found else {}


def _chat_id(chance: Random, way: str, call: TrueCall, number: int, count: int) -> JsonObject:
    if way == "each piece" or (way == "right" and number == 0) or (way == "late" and number == count - 1):
        return {"id": call.id}
    if way == "empty":
        return {"id": ""}
    if way == "same":
        return {"id": "call"}
    return {"id": f"new_{chance.randrange(10**6)}"} if way == "changing" else {}


def responses_stream(chance: Random, truth: Sequence[TrueCall]) -> tuple[list[bytes], bool]:
    """Write a stream of Responses."""
    pick = chance.choice
    place, item_id = (
        pick(("right", "right", "absent", "zero")),
        pick(("right", "right", "absent", "same", "changing")),
    )
    call_id = pick(("right", "right", "right", "same", "last differs"))
    done, item_done = (
        pick(("right", "right", "none", "twice", "blank")),
        pick(("right", "right", "none", "twice", "blank")),
    )
    last = pick(("right", "right", "empty", "contradicting", "some", "none", "twice"))
    if last == "contradicting" or (done == "blank" and item_done == "blank"):
        item_done = "right"
    is_woven = place == "right" and item_id == "right" and chance.random() < 0.3
    rows = []

    def keys(at: int) -> JsonObject:
        found: JsonObject = {"output_index": {"right": at, "zero": 0}[place]} if place != "absent" else {}
        ids = {"right": f"fc_{at}", "same": "fc", "changing": f"fc_{chance.randrange(10**6)}"}
        return found | ({"item_id": ids[item_id]} if item_id != "absent" else {})

    def item(at: int, call: TrueCall, text: str, *, is_last: bool = False) -> JsonObject:
        known = keys(at)
        its = {"same": "c", "last differs": f"new_{at}" if is_last else call.id}.get(call_id, call.id)
        found = {"type": "function_call", "call_id": its, "name": call.name, "arguments": text}
        return {**found, "id": known["item_id"]} if "item_id" in known else found

    def at_place(at: int) -> JsonObject:
        return {key: value for key, value in keys(at).items() if key == "output_index"}

    kind = "response.function_call_arguments"
    for at, call in enumerate(truth):
        row: list[JsonObject] = [
            {"type": "response.output_item.added", **at_place(at), "item": item(at, call, "")}
        ]
        if chance.random() < 0.8:
            row += [{"type": f"{kind}.delta", **keys(at), "delta": piece} for piece in cut(chance, call.text)]
        texts = {"none": [], "twice": [call.text] * 2, "blank": [""]}
        row += [
            {"type": f"{kind}.done", **keys(at), "arguments": one} for one in texts.get(done, [call.text])
        ]
        row += [
            {"type": "response.output_item.done", **at_place(at), "item": item(at, call, one)}
            for one in texts.get(item_done, [call.text])
        ]
        rows.append(row)
    output = [item(at, call, call.text, is_last=True) for at, call in enumerate(truth)]
    if last == "contradicting":
        output[-1]["arguments"] = other(truth[-1].text)
    output = {"empty": [], "some": output[:-1]}.get(last, output)
    end = {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": output}}
    middle = woven(chance, rows) if is_woven else [event for row in rows for event in row]
    events = [{"type": "response.created", "response": {"id": "r", "status": "in_progress"}}, *middle]
    events += [end] * {"none": 0, "twice": 2}.get(last, 1)
    is_faithful = (
        call_id == "right" and last in ("right", "twice") and done != "blank" and item_done != "blank"
        and (place == "right" or item_id == "right" or item_done in ("right", "twice"))
    )  # fmt: skip
    return [*map(sse, events)], is_faithful


def gemini_stream(chance: Random, truth: Sequence[TrueCall]) -> tuple[list[bytes], bool]:
    """Write a stream of Gemini."""
    ids = chance.choice(("right", "absent", "same"))
    way = chance.choice(("apart", "together", "doubled", "last again", "in pieces", "growing"))
    calls = []
    for call in truth:
        said: JsonObject = {"name": call.name, "args": json.loads(call.text)}
        if not said["args"] and chance.random() < 0.5:
            del said["args"]
        if ids != "absent":
            said["id"] = call.id if ids == "right" else "same"
        calls.append({"functionCall": said})
    chunks = [calls] if way == "together" else [[call] for call in calls]
    if way == "doubled":
        chunks = [chunk for chunk in chunks for _ in range(2)]
    elif way == "last again":
        chunks.append(calls)
    elif way == "in pieces":
        chunks = [[part] for call in calls for part in _partial(call["functionCall"])]
    elif way == "growing" and ids == "right":
        chunks = [
            [part]
            for call in calls
            for part in ({"functionCall": {**call["functionCall"], "args": {}}}, call)
        ]
    events = [
        {"candidates": [{"content": {"role": "model", "parts": chunk}, "index": 0}]} for chunk in chunks
    ]
    events += [{"candidates": [{"finishReason": "STOP"}]}] * chance.choice((0, 1, 2))
    is_faithful = (ids != "same" and way == "together") or (
        ids == "right" and way in ("apart", "doubled", "last again")
    )
    return [*map(sse, events)], is_faithful


def _partial(call: JsonObject) -> Iterator[JsonObject]:
    yield {
        "functionCall": {key: value for key, value in call.items() if key != "args"} | {"willContinue": True}
    }
    yield {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "numberValue": 1}]}}
    yield {"functionCall": {}}


def converse_stream(
    chance: Random, truth: Sequence[TrueCall], event: Callable[[str, object], bytes]
) -> tuple[list[bytes], bool]:
    """Write a stream of Converse. event: writes a frame."""
    index, ids, stop, start = _block_ways(chance)
    rows = []
    for at, call in enumerate(truth):
        place = {"right": {"contentBlockIndex": at}, "zero": {"contentBlockIndex": 0}}.get(index, {})
        use: JsonObject = {"name": call.name}
        use |= {"toolUseId": {"right": call.id, "same": "same", "empty": ""}[ids]} if ids != "absent" else {}
        whole = {**use, "input": json.loads(call.text)} if start == "filled" else use
        row: list[tuple[str, JsonObject]] = [
            ("contentBlockStart", {**place, "start": {"toolUse": whole}})
        ] * (1 + (start == "twice"))
        pieces = [] if call.text == "{}" and chance.random() < 0.5 else cut(chance, call.text)
        pieces = [] if start == "filled" and chance.random() < 0.5 else pieces
        row += [("contentBlockDelta", {**place, "delta": {"toolUse": {"input": piece}}}) for piece in pieces]
        row += [("contentBlockStop", place)] * {"none": 0, "twice": 2}.get(stop, 1)
        rows.append(row * (2 if start == "doubled" else 1))
    found = (
        woven(chance, rows)
        if index == "right" and chance.random() < 0.3
        else [one for row in rows for one in row]
    )
    ends = [("messageStop", {"stopReason": "tool_use"})] * chance.choice((0, 1, 2))
    is_faithful = (index == "right" or ids == "right") and stop != "none" and start in ("right", "twice")
    return [event(*one) for one in (*found, *ends)], is_faithful and ids != "same"


def _block_ways(chance: Random) -> tuple[str, str, str, str]:
    pick = chance.choice
    return (
        pick(("right", "right", "absent", "zero")),
        pick(("right", "right", "absent", "same", "empty")),
        pick(("right", "right", "none", "twice")),
        pick(("right", "right", "twice", "filled", "doubled")),
    )


def messages_stream(chance: Random, truth: Sequence[TrueCall]) -> tuple[list[JsonObject], bool]:
    """Write a stream of Messages."""
    index, ids, stop, start = _block_ways(chance)
    rows = []
    for at, call in enumerate(truth):
        place = {"right": {"index": at}, "zero": {"index": 0}}.get(index, {})
        block: JsonObject = {"type": "tool_use", "name": call.name, "input": {}}
        block |= {"id": {"right": call.id, "same": "same", "empty": ""}[ids]} if ids != "absent" else {}
        if start == "filled":
            block["input"] = json.loads(call.text)
        row = [{"type": "content_block_start", **place, "content_block": block}] * (1 + (start == "twice"))
        pieces = [] if call.text == "{}" and chance.random() < 0.5 else cut(chance, call.text)
        pieces = [] if start == "filled" and chance.random() < 0.5 else pieces
        row += [
            {
                "type": "content_block_delta",
                **place,
                "delta": {"type": "input_json_delta", "partial_json": piece},
            }
            for piece in pieces
        ]
        row += [{"type": "content_block_stop", **place}] * {"none": 0, "twice": 2}.get(stop, 1)
        rows.append(row * (2 if start == "doubled" else 1))
    found = (
        woven(chance, rows)
        if index == "right" and chance.random() < 0.3
        else [one for row in rows for one in row]
    )
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [],
        "usage": usage,
    }
    delta = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": usage}
    ends = [delta] * chance.choice((0, 1, 1, 2)) + [{"type": "message_stop"}] * chance.choice((0, 1, 2))
    is_faithful = (index == "right" or ids == "right") and stop != "none" and start in ("right", "twice")
    return [{"type": "message_start", "message": message}, *found, *ends], is_faithful and ids != "same"
