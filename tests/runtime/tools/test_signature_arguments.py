import dataclasses
from typing import Annotated, Literal

import msgspec
import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.runtime.sanitize import check_json
from callboard.runtime.tools.context import ToolContext
from callboard.runtime.tools.signature import DictSignature
from callboard.runtime.tools.tool import Tool, tool
from tests.tables import table

CTX = ToolContext(address="host.1")


class Picky(msgspec.Struct):
    even: int

    def __post_init__(self) -> None:
        if self.even % 2:
            raise KeyError("odd")


@dataclasses.dataclass
class Span:
    start: int
    end: int


@tool
def search(
    pattern: str,
    limit: Annotated[int, msgspec.Meta(ge=1)] = 10,
    mode: Literal["fast", "slow"] = "fast",
    span: Span | None = None,
    picky: Picky | None = None,
    *,
    ctx: ToolContext,
) -> str:
    return f"{pattern} {limit} {mode} {span} {picky and picky.even} {ctx.address}"


def call(made: Tool, arguments: str) -> object:
    return made.bind(check_json(arguments), CTX)()


def refusal(made: Tool, arguments: str) -> str:
    with pytest.raises(InvalidPrompt) as caught:
        call(made, arguments)
    return str(caught.value)


def test_arguments_are_converted_to_their_annotations() -> None:
    text = call(search, '{"span": {"start": 1, "end": 2}, "pattern": "x", "picky": {"even": 4}}')
    assert text == "x 10 fast Span(start=1, end=2) 4 host.1"


@table(
    ("arguments", "problem"),
    [
        ("{}", "Missing argument `pattern`"),
        ('{"pattern": 1}', "Expected `str`, got `int` - at `$.pattern`"),
        ('{"pattern": "x", "limit": "5"}', "Expected `int`, got `str` - at `$.limit`"),
        ('{"pattern": "x", "limit": 0}', "Expected `int` >= 1 - at `$.limit`"),
        ('{"pattern": "x", "mode": "odd"}', "Invalid enum value 'odd' - at `$.mode`"),
        ('{"pattern": "x", "span": {"start": 1}}', "Missing argument `end` - at `$.span`"),
        ('{"pattern": "x", "admin": true}', "Unknown argument `admin`"),
        ('{"pattern": "x", "ctx": {}}', "Unknown argument `ctx`"),
        ('{"pattern": "x", "picky": {"even": 3}}', "odd"),
        ("[]", "Expected `object`, got `array`"),
        ("null", "Expected `object`, got `null`"),
    ],
)
def test_a_refusal_says_which_argument_and_what_the_tool_takes(arguments: str, problem: str) -> None:
    text = refusal(search, arguments)
    assert text.startswith("Invalid arguments for search: ")
    assert problem in text
    assert "pattern (string), limit (integer, optional)" in text
    assert "mode (one of 'fast', 'slow', optional)" in text
    assert "span (object or null, optional)" in text
    assert text.endswith("Correct them and call it again.")


def test_a_tool_without_arguments_says_so() -> None:
    @tool
    def now() -> str:
        return "12:00"

    assert call(now, "{}") == "12:00"
    assert "takes no arguments: send {}" in refusal(now, '{"zone": "UTC"}')


def test_every_call_has_values_of_its_own() -> None:
    @tool
    def grow(items: list[int]) -> list[int]:
        items.append(1)
        return items

    assert call(grow, '{"items": []}') == [1]
    assert call(grow, '{"items": []}') == [1]


# --- one dict ---------------------------------------------------------------------

SCHEMA: dict[str, object] = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "depth": {}, "how": {"anyOf": [{"type": "null"}, True]}},
    "required": ["path"],
    "additionalProperties": False,
}


def raw(arguments: dict[str, object], ctx: ToolContext) -> object:
    return arguments, ctx.address


def test_a_ready_schema_gets_one_dict_and_the_context() -> None:
    made = Tool("raw", "", SCHEMA, raw)
    assert call(made, '{"depth": "any", "path": "a"}') == ({"depth": "any", "path": "a"}, "host.1")


def test_a_ready_schema_is_checked_for_missing_and_unknown_names_only() -> None:
    made = Tool("raw", "", SCHEMA, raw)
    assert "Missing argument `path`" in refusal(made, "{}")
    text = refusal(made, '{"path": "a", "admin": 1}')
    assert "Unknown argument `admin`" in text
    assert "It takes path (string), depth (any, optional), how (null or any, optional)." in text
    assert "Expected `object`, got `str`" in refusal(made, '"a"')


def test_an_open_schema_lets_unknown_names_through() -> None:
    made = Tool("raw", "", {"type": "object"}, lambda arguments: arguments)
    assert call(made, '{"anything": [1]}') == {"anything": [1]}


def test_a_strange_schema_is_not_looked_into() -> None:
    signature = DictSignature(
        "odd", {"required": [[], "a"], "properties": 3, "additionalProperties": False}, ""
    )
    with pytest.raises(InvalidPrompt, match="Missing argument `a`"):
        signature.bind(len, check_json("{}"), CTX)
