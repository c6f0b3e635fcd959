"""Any list of tools becomes legal specs, and every call comes back as the call that it was."""

import asyncio
import json
import logging
import re
from typing import Any

import mcp.types as types
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.server import Server
from mcp_types import methods

from callboard import MCPServer, ToolContext
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.prompts import RESERVED
from callboard.errors import InvalidAgent
from callboard.runtime.mcp.live import LiveServer
from callboard.runtime.mcp.specs import ToolLists, again, legal_name, listed, same_schema, specs_of
from callboard.runtime.mcp.tool_schemas import usable
from callboard.runtime.tools.sources import Scope
from tests.effort import effort
from tests.runtime.mcp.fakes import TOOL, Peer, Reply, came_to, line, over_http, over_stdio
from tests.runtime.mcp.test_calls import OK, anything

# Without NUL, which no record holds: a test of its own says what becomes of one.
recordable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=70)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | recordable,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text("abc\u00e9$", max_size=4), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
subschemas: st.SearchStrategy[Any] = st.deferred(lambda: st.booleans() | schemas)
several = st.lists(subschemas, min_size=1, max_size=2)
named = st.dictionaries(st.text("ab\u00e9"), subschemas, max_size=2)
KEYWORDS: dict[str, st.SearchStrategy[Any]] = {
    "$anchor": st.just("here"), "$comment": st.text("ab"), "$ref": st.sampled_from(["#", "#here"]),
    "$dynamicRef": st.just("#here"), "$defs": named, "$dynamicAnchor": st.just("there"),
    "$id": st.just("https://example.com/tool"), "$vocabulary": st.just({"https://example.com/v": True}),
    "$schema": st.just("https://json-schema.org/draft/2020-12/schema"), "contentSchema": subschemas,
    "allOf": several, "anyOf": several,
    "oneOf": several, "not": subschemas, "if": subschemas,
    "then": subschemas, "else": subschemas, "dependentSchemas": named,
    "prefixItems": several, "items": subschemas, "contains": subschemas,
    "properties": named,
    "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), subschemas, max_size=2),
    "additionalProperties": subschemas, "propertyNames": subschemas, "unevaluatedItems": subschemas,
    "unevaluatedProperties": subschemas, "const": plain, "enum": st.lists(plain, max_size=2),
    "multipleOf": st.integers(1, 9), "maximum": st.integers(), "exclusiveMaximum": st.integers(),
    "minimum": st.floats(-9, 9), "exclusiveMinimum": st.integers(), "maxLength": st.integers(0, 9),
    "minLength": st.integers(0, 9), "pattern": st.sampled_from(["^a+$", "["]), "maxItems": st.integers(0, 9),
    "minItems": st.integers(0, 9), "uniqueItems": st.booleans(), "maxContains": st.integers(0, 9),
    "minContains": st.integers(0, 9), "maxProperties": st.integers(0, 9), "minProperties": st.integers(0, 9),
    "required": st.lists(st.text("ab"), max_size=2, unique=True),
    "dependentRequired": st.dictionaries(st.text("ab"), st.lists(st.text("ab"), max_size=2), max_size=2),
    "format": st.just("date"), "contentEncoding": st.just("base64"), "contentMediaType": st.just("text/html"),
    "title": recordable, "description": recordable, "default": plain, "deprecated": st.booleans(),
    "readOnly": st.booleans(), "writeOnly": st.booleans(), "examples": st.lists(plain, max_size=2),
    "x-mine": plain,
}  # fmt: skip
schemas: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from(list(KEYWORDS)), st.none(), max_size=4
).flatmap(lambda chosen: st.fixed_dictionaries({key: KEYWORDS[key] for key in chosen}))
hints = st.builds(
    types.ToolAnnotations,
    read_only_hint=st.none() | st.booleans(),
    idempotent_hint=st.none() | st.booleans(),
    destructive_hint=st.none() | st.booleans(),
)
names = st.one_of(st.text(), st.from_regex(r"[a-zA-Z0-9_./-]{0,80}", fullmatch=True))
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "execution")
tools_lists = anything | st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["find", "a/b", ""]) | anything, **dict.fromkeys(FIELDS, anything)}
)
# What a field of a page may be besides its list.
pages = st.fixed_dictionaries({}, optional={"_meta": anything, "ttlMs": anything, "cacheScope": anything})


def without_nulls(value: Any) -> Any:
    """Return a value without nulls in objects: the SDK's server leaves them out of its lists."""
    if isinstance(value, dict):
        return {key: without_nulls(one) for key, one in value.items() if one is not None}
    return [without_nulls(one) for one in value] if isinstance(value, list) else value


# What is mended at the top of a schema; tests/runtime/mcp/test_tool_schemas.py says how.
MENDED = ("anyOf", "oneOf", "allOf", "not", "if", "then", "else", "enum", "const")
# Without what the bind at the top of the schema would refuse: those calls are never sent.
lenient = schemas.map(
    lambda schema: {
        k: without_nulls(v)
        for k, v in schema.items()
        if v is not None and k not in ("required", "additionalProperties", *MENDED)
    }
)


def listed_tool(
    name: str, description: str | None, schema: dict[str, Any], annotations: types.ToolAnnotations | None
) -> types.Tool:
    schema = {**schema, "type": "object"}
    return types.Tool(name=name, description=description, input_schema=schema, annotations=annotations)


tools = st.builds(
    listed_tool,
    name=recordable | st.from_regex(r"[a-z./]{1,9}", fullmatch=True),
    description=st.none() | st.text(),
    schema=lenient,
    annotations=st.none() | hints,
)
lists = st.lists(tools, min_size=1, max_size=5, unique_by=lambda tool: tool.name)
arguments = st.dictionaries(st.text("ab\u00e9 ", max_size=3), plain, max_size=4)


def echoing(listed: list[types.Tool], page: int = 2) -> Server[Any]:
    """Return a server that lists these tools in pages and answers each call with its name and arguments."""

    async def on_list(_: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        start = int((params and params.cursor) or 0)
        more = str(start + page) if start + page < len(listed) else None
        return types.ListToolsResult(tools=listed[start : start + page], next_cursor=more)

    async def on_call(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        said = json.dumps([params.name, params.arguments])
        return types.CallToolResult(content=[types.TextContent(type="text", text=said)])

    return Server("echo", on_list_tools=on_list, on_call_tool=on_call)


@settings(max_examples=effort(25, 500))
@given(lists, st.data())
def test_any_list_becomes_legal_tools_and_each_call_comes_back_as_it_was(
    listed: list[types.Tool], data: st.DataObject
) -> None:
    async def main() -> None:
        live, scope = LiveServer(MCPServer(echoing(listed))), Scope()
        found = await live.listed(scope)
        origins = [tool.spec().origin for tool in found]
        assert [origin and origin.name for origin in origins] == [tool.name for tool in listed]
        assert len({tool.name for tool in found}) == len(found)
        for tool, given_tool in zip(found, listed, strict=True):
            assert msgspec.json.decode(tool.input_schema) == usable(given_tool.input_schema)[0]
            sent = data.draw(arguments)
            bound = tool.bind(Json(msgspec.json.encode(sent)), ToolContext())
            assert json.loads(await bound()) == [given_tool.name, sent]  # type: ignore[misc]  # a bound call of a server's tool is a coroutine
        specs = [tool.spec() for tool in found]
        assert list(again(live.server, specs)) == specs
        await live.aclose()

    asyncio.run(main())


def test_a_nul_in_a_schema_becomes_its_symbol() -> None:
    found = listed(listed_tool("add", None, {"title": "a\x00b"}, None))
    assert found is not None
    assert msgspec.json.decode(found.schema) == {"title": "a\u2400b", "type": "object"}


def of(name: str = "one", **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=more.pop("schema", {"type": "object"}), **more)


def test_a_schema_without_a_type_gets_one_and_a_wider_one_is_narrowed_to_objects() -> None:
    listed = [of("a", schema={}), of("b", schema={"type": ["object", "null"]})]
    specs = specs_of(MCPServer(echoing(listed)), listed)
    assert [bytes(spec.input_schema) for spec in specs] == [b'{"type":"object"}'] * 2


@pytest.mark.parametrize("schema", [{"type": "array"}, {"type": ["string"]}, {"anyOf": [{"type": "array"}]}])
def test_a_tool_that_takes_no_object_is_left_out(
    schema: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    listed = [of("bad", schema=schema), of("good")]
    assert [spec.name for spec in specs_of(MCPServer(echoing(listed)), listed)] == ["good"]
    assert "'bad' of an MCP server is left out" in caplog.text


def test_a_reference_into_the_network_is_never_followed() -> None:
    outside = {"type": "object", "$ref": "http://127.0.0.1:9/schema.json"}
    (spec,) = specs_of(MCPServer(echoing([])), [of(schema=outside)])
    assert msgspec.json.decode(spec.input_schema) == outside  # sent to the model as it is, and no more


def test_control_characters_leave_the_name_and_stay_in_what_the_server_is_called_with() -> None:
    (spec,) = specs_of(MCPServer(echoing([])), [of("rm\x1b[2J\u202e", description="a\x00b")])
    assert spec.name.startswith("rm__2J__")
    assert spec.origin is not None
    assert spec.origin.name == "rm\x1b[2J\u202e"
    assert "\x00" not in spec.description


def test_the_same_tool_twice_is_one_and_two_of_one_name_are_refused() -> None:
    server = MCPServer(echoing([]))
    assert len(specs_of(server, [of("a"), of("a")])) == 1
    with pytest.raises(InvalidAgent, match="two different tools named 'a'"):
        specs_of(server, [of("a"), of("a", description="other")])
    without = MCPServer(echoing([]), tools=["b"])
    assert [spec.name for spec in specs_of(without, [of("a"), of("a", description="x"), of("b")])] == ["b"]


def test_an_exact_choice_comes_before_a_glob() -> None:
    server = MCPServer(
        echoing([]), effects={"read_*": "read", "read_all": "idempotent"}, approval={"*": "always"}
    )
    listed = [of("read_all"), of("read_one"), of("drop")]
    specs = specs_of(server, listed)
    assert [spec.effect for spec in specs] == ["idempotent", "read", "write"]
    assert {spec.approval for spec in specs} == {"always"}


def test_a_name_that_the_list_does_not_have_is_refused_unless_it_only_frees_from_a_question() -> None:
    known = [of("search")]
    assert specs_of(MCPServer(echoing([]), approval={"*": "before", "serch": "never"}), known)
    for options in ({"approval": {"serch": "before"}}, {"exclude": ["serch"]}):
        with pytest.raises(InvalidAgent, match="names 'serch', and it lists search"):
            specs_of(MCPServer(echoing([]), **options), known)


def test_a_schema_that_was_recorded_before_it_was_mended_is_the_same() -> None:
    before = Json(b'{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}')
    now = listed(of(schema={"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"}))
    assert now is not None
    assert bytes(now.schema) != bytes(before)
    assert same_schema(now.schema, before)
    assert not same_schema(now.schema, Json(b'{"type":"object"}'))


def test_capabilities_and_the_label_of_results_stand_in_the_spec() -> None:
    server = MCPServer(echoing([]), capabilities={"get_*": ["network", "files"], "*": ()})
    one, other = specs_of(server, [of("get_page"), of("add")])
    assert one.capabilities == ("files", "network")
    assert other.capabilities == ()
    assert one.labels == other.labels == ("untrusted",)
    (own,) = specs_of(MCPServer(echoing([]), capabilities={"shell"}, untrusted=False), [of("add")])
    assert (own.capabilities, own.labels) == (("shell",), ())
    with pytest.raises(InvalidAgent, match="capabilities= names 'gett_"):
        specs_of(MCPServer(echoing([]), capabilities={"gett_*": ["network"]}), [of("add")])


def test_schemas_are_compared_as_values() -> None:
    one, other = Json(b'{"a":1,"b":[true]}'), Json(b'{"b":[true],"a":1}')
    assert same_schema(one, other)
    assert not same_schema(one, Json(b'{"b":[1],"a":1}'))


def test_the_sdks_own_client_lists_the_same_names() -> None:
    listed = [of(f"tool{n}") for n in range(5)]

    async def main() -> None:
        async with Client(echoing(listed)) as client:
            first = await client.session.list_tools()
            assert first.next_cursor == "2"
        live = LiveServer(MCPServer(echoing(listed)))
        assert [tool.name for tool in await live.listed(Scope())] == [tool.name for tool in listed]
        await live.aclose()

    asyncio.run(main())


@given(st.sampled_from(["", "fs_", "x" * 32]), st.lists(names, unique=True))
@example("", ["a.b", legal_name("", "a.b"), "a/b", "a\x00b", "a\u202eb", "", "task", "report_back", "\ud800"])
def test_any_names_become_legal_ones_of_their_own(prefix: str, given_names: list[str]) -> None:
    found = [legal_name(prefix, name) for name in given_names]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found)
    assert len(set(found)) == len(found)
    assert not RESERVED & set(found)


def test_a_legal_name_stays() -> None:
    assert legal_name("", "read_file") == "read_file"
    assert legal_name("fs_", "read-File2") == "fs_read-File2"


def test_an_encoded_name_is_encoded_again_and_so_cannot_be_forged() -> None:
    encoded = legal_name("", "notes/read.all")
    assert encoded.startswith("notes_read_all_")
    assert legal_name("", encoded) != encoded


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(50, 5_000), deadline=None)
@given(st.lists(tools_lists, max_size=4), st.integers(0, 4), pages)
def test_a_tool_beside_any_others_is_listed(others: list[Any], place: int, more: dict[str, Any]) -> None:
    own = {**TOOL, "name": "own"}
    page = ToolLists("one").readable({**more, "tools": [*others[:place], own, *others[place:]]})
    assert "own" in [tool["name"] for tool in page["tools"]]
    for version in VERSIONS:
        methods.validate_server_result("tools/list", version, page)


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(20, 3_000), deadline=None)
@given(st.lists(tools_lists, max_size=4))
def test_a_call_goes_through_beside_any_tools(others: list[Any]) -> None:
    named = [
        {**one, "name": f"{n}{one['name']}"} if isinstance(one, dict) and "name" in one else one
        for n, one in enumerate(others)
    ]
    peer = Peer(lambda request: line({"id": request, "result": OK}), page={"tools": [*named, TOOL]})
    with over_stdio(peer) as server:
        assert came_to(server, tools=["find"]) == ("ok", "found")
    with over_http(peer, Reply) as server:
        assert came_to(server, tools=["find"]) == ("ok", "found")
    assert peer.calls == 2


@pytest.mark.parametrize("page", [{}, {"tools": None}, {"tools": {}}, {"tools": [], "nextCursor": {"a": 1}}])
def test_a_page_that_is_no_list_is_refused(page: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"tools|cursor"):
        ToolLists("one").readable(page)


def test_a_cursor_that_is_a_number_is_sent_back_as_text() -> None:
    lists = ToolLists("one")
    assert lists.readable({"tools": [], "nextCursor": 2})["nextCursor"] == "2"
    assert "nextCursor" not in lists.readable({"tools": [], "nextCursor": ""})


def test_a_warning_names_server_tool_and_fault_and_is_written_once(caplog: pytest.LogCaptureFixture) -> None:
    lists = ToolLists("one")
    bad = {"name": "bad", "inputSchema": {"type": "string"}}
    wide = {"name": "wide", "inputSchema": {"anyOf": [{}]}}
    listed = {"tools": [bad, wide, {"inputSchema": {}}, TOOL]}
    with caplog.at_level(logging.WARNING):
        lists.readable(listed)
        page = lists.readable(listed)
    assert [tool["name"] for tool in page["tools"]] == ["wide", "find"]
    assert [record.message for record in caplog.records] == [
        "MCP server 'one': the tool 'bad' is left out: its schema is not that of an object",
        "MCP server 'one': the tool 'wide' is taken without anyOf at its top",
        "MCP server 'one': tool 3 is left out: it has no name: {\"inputSchema\": {}}",
    ]


def test_hints_in_words_are_no_hints() -> None:
    annotations = {"readOnlyHint": "true", "idempotentHint": True, "title": 5}
    (tool,) = ToolLists("one").readable({"tools": [{**TOOL, "annotations": annotations}]})["tools"]
    assert tool["annotations"] == {"idempotentHint": True}
