"""The tools: their results and refusals."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from regreader.index import Index
from regreader.tools import TOOL_NAMES, ToolFailure, Tools

from tests.examples.regreader.kit import read, tools_of

TEXT = """# Lamp Code

## Chapter 1 Lamps

### 1.1 Light

1.1.1 Oil lamps burn for nine hours.

1.1.2 Gas lamps burn for ten hours, see Table 1-1.

Table 1-1 Lamps

| Lamp | Hours |
|---|---|
| Oil | 9* |
| Gas | 10 |

\\* Less in wind.

<!-- page 2 -->

### 1.2 Care

Lamps are cleaned daily. 油灯每天清洁。
"""


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return tools_of(read(tmp_path, "lamps.md", TEXT))


def test_each_tool_has_a_description_for_models(tools: Tools) -> None:
    assert list(tools.by_name()) == list(TOOL_NAMES)
    assert all(function.__doc__ for function in tools.by_name().values())


def test_the_regulations_are_listed(tools: Tools) -> None:
    assert tools.list_regulations() == {
        "regulations": [{"reg_id": "lamps", "title": "Lamp Code", "source": "lamps.md", "last_page": 2}]
    }


def test_words_of_one_and_two_chinese_characters_are_found(tools: Tools) -> None:
    for query in ("油灯", "灯", "清洁"):
        assert tools.smart_search(query)["results"][0]["id"] == "1.2"


def test_search_ranks_the_place_that_holds_all_words_first(tools: Tools) -> None:
    assert tools.smart_search("gas lamps burning", "lamps", 1)["results"][0]["id"] == "1.1.2"
    assert tools.smart_search("zeppelin")["results"] == []
    assert tools.search_tables("hours of gas lamps")["results"][0]["id"] == "table 1-1"


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("get_toc", {"reg_id": "x"}, "not_found"),
        ("get_table_by_id", {"reg_id": "lamps", "table_id": "9-9"}, "not_found"),
        ("lookup_annotation", {"reg_id": "lamps", "annotation_id": "7", "table_id": "1-1"}, "not_found"),
        ("smart_search", {"query": "x", "limit": 0}, "bad_argument"),
        ("smart_search", {"query": "x", "reg_id": "x"}, "not_found"),
        ("resolve_reference", {"reg_id": "lamps", "reference_text": "the moon"}, "bad_argument"),
    ],
)
def test_a_call_without_a_result_says_why(
    tools: Tools, name: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(ToolFailure) as caught:
        tools.by_name()[name](**arguments)
    assert caught.value.code == code


def test_any_query_is_taken() -> None:
    tools = Tools(Index(":memory:"))

    @given(st.text(max_size=30))
    def ask(query: str) -> None:
        assert tools.smart_search(query)["results"] == []

    ask()
