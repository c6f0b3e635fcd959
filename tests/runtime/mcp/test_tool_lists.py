"""Lists of tools with odd ones among them."""

import logging
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_types import methods

from callboard.runtime.mcp.tool_lists import ToolLists
from tests.effort import effort
from tests.runtime.mcp.fakes import TOOL, Peer, Reply, came_to, line, over_http, over_stdio
from tests.runtime.mcp.test_calls import OK, anything

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations", "icons", "_meta", "execution")
tools = anything | st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["find", "a/b", ""]) | anything, **dict.fromkeys(FIELDS, anything)}
)
# What a field of a page may be besides its list.
pages = st.fixed_dictionaries({}, optional={"_meta": anything, "ttlMs": anything, "cacheScope": anything})


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(50, 5_000), deadline=None)
@given(st.lists(tools, max_size=4), st.integers(0, 4), pages)
def test_a_tool_beside_any_others_is_listed(others: list[Any], place: int, more: dict[str, Any]) -> None:
    own = {**TOOL, "name": "own"}
    page = ToolLists("one").readable({**more, "tools": [*others[:place], own, *others[place:]]})
    assert "own" in [tool["name"] for tool in page["tools"]]
    for version in VERSIONS:
        methods.validate_server_result("tools/list", version, page)


@pytest.mark.timeout(900)  # in the campaign
@settings(max_examples=effort(20, 3_000), deadline=None)
@given(st.lists(tools, max_size=4))
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
