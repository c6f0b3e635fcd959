"""The tools: their results and refusals."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
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

Page 1

### 1.2 Care

Lamps are cleaned daily. 油灯每天清洁。

Page 2
"""


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    return tools_of(read(tmp_path, "lamps.md", TEXT))


def test_each_tool_has_a_description_for_models(tools: Tools) -> None:
    assert list(tools.by_name()) == list(TOOL_NAMES)
    assert all(function.__doc__ for function in tools.by_name().values())


def test_the_regulations_are_listed(tools: Tools) -> None:
    assert tools.list_regulations() == {
        "regulations": [
            {"reg_id": "lamps", "title": "Lamp Code", "source": "lamps.md", "first_page": 1, "last_page": 2}
        ]
    }


def test_pages_are_read_in_order(tools: Tools) -> None:
    found = tools.read_page_range("lamps", 1, 2)
    assert [one["page"] for one in found["pages"]] == [1, 2]
    assert found["pages"][1]["text"] == "1.2 Care\nLamps are cleaned daily. 油灯每天清洁。"


def test_words_of_one_and_two_chinese_characters_are_found(tools: Tools) -> None:
    for query in ("油灯", "灯", "清洁"):
        assert tools.smart_search(query)["results"][0]["id"] == "1.2"


def test_search_ranks_the_place_that_holds_all_words_first(tools: Tools) -> None:
    assert tools.smart_search("gas lamps burning", "lamps", 1)["results"][0]["id"] == "1.1.2"
    assert tools.smart_search("zeppelin")["results"] == []
    assert tools.search_tables("hours of gas lamps")["results"][0]["id"] == "table 1-1"


def test_similar_places_leave_out_the_section_itself(tools: Tools) -> None:
    found = tools.find_similar_content("lamps", "1.1.1")["results"]
    assert found[0]["id"] == "1.1.2"
    assert "1.1.1" not in [one["id"] for one in found]


def test_two_sections_are_compared_by_their_words(tools: Tools) -> None:
    found = tools.compare_sections("lamps", "1.1.1", "1.1.2")
    assert (found["only_a"], found["is_equal"]) == (["oil", "nine"], False)
    assert "lamp" in found["shared"]
    assert tools.compare_sections("lamps", "1.2", "lamps:1.2")["is_equal"]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("get_toc", {"reg_id": "x"}, "not_found"),
        ("get_table_by_id", {"reg_id": "lamps", "table_id": "9-9"}, "not_found"),
        ("lookup_annotation", {"reg_id": "lamps", "annotation_id": "7", "table_id": "1-1"}, "not_found"),
        ("read_page_range", {"reg_id": "lamps", "start_page": 2, "end_page": 1}, "bad_argument"),
        ("read_page_range", {"reg_id": "lamps", "start_page": 1, "end_page": 99}, "bad_argument"),
        ("read_page_range", {"reg_id": "lamps", "start_page": 7}, "not_found"),
        ("smart_search", {"query": "x", "limit": 0}, "bad_argument"),
        ("smart_search", {"query": "x", "reg_id": "x"}, "not_found"),
        ("find_similar_content", {"reg_id": "lamps", "query_text": "lamps", "limit": -10}, "bad_argument"),
        ("read_page_range", {"reg_id": "lamps", "start_page": 10**20}, "not_found"),
        ("resolve_reference", {"reg_id": "lamps", "reference_text": "the moon"}, "bad_argument"),
        ("compare_sections", {"reg_id": "lamps", "section_a": "1.1", "section_b": "8"}, "not_found"),
    ],
)
def test_a_call_without_a_result_says_why(
    tools: Tools, name: str, arguments: dict[str, Any], code: str
) -> None:
    with pytest.raises(ToolFailure) as caught:
        tools.by_name()[name](**arguments)
    assert caught.value.code == code


def test_a_circle_of_many_references_is_found(tmp_path: Path) -> None:
    ring = "".join(f"1.{at} See section 1.{at % 40 + 1}.\n\n" for at in range(1, 41))
    found = tools_of(read(tmp_path, "x.md", f"## 1 One\n\n{ring}")).resolve_reference("x", "1.5")
    assert (found["status"], len(found["chain"]), found["chain"][-2:]) == ("circular", 41, ["1.4", "1.5"])


def test_any_query_is_taken() -> None:
    tools = Tools(__import__("regreader.index", fromlist=["Index"]).Index(":memory:"))

    @given(st.text(max_size=30))
    def ask(query: str) -> None:
        assert tools.smart_search(query)["results"] == []

    ask()
