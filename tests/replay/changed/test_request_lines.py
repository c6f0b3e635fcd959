"""Requests as lines for a text diff."""

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import ModelSpec
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.changed.request_lines import request_lines


def test_each_value_is_a_line_with_its_path_and_texts_are_cut_at_their_lines() -> None:
    request = ModelRequest(
        address="host",
        profile="host",
        model=ModelSpec("m", 50),
        turn=1,
        attempt=1,
        system=Json(b'"You are.\\nBrief."'),
        tools=(Json(b'{"name":"t","input_schema":{"type":"object","properties":{}}}'),),
        history=IntMap[Json]().append(Json(b'{"role":"user","content":[{"type":"text","text":"go"}]}')),
    )
    assert request_lines(request) == [
        "model: m",
        "tools.t.name: t",
        "tools.t.input_schema.type: object",
        "max_tokens: 50",
        "system: You are.",
        "system: Brief.",
        "messages[0].role: user",
        "messages[0].content[0].type: text",
        "messages[0].content[0].text: go",
        "force_tool: ",
    ]
