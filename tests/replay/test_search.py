import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import MisuseError
from callboard.replay.divergence import FOREIGN, IDS
from callboard.replay.json_values import leaves, written
from callboard.replay.recording import Recording
from callboard.replay.search import Query, search
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.log.protocol import Stored
from tests.replay.logs import survey
from tests.replay.stories import WRONG, poisoned_sum
from tests.tables import table

TEXT = st.text(st.sampled_from('aAbß éK"\\/\n\x1f1.€\U0001f600'), min_size=1, max_size=3)


def row(output: object) -> Stored:
    body = b'{"type":"ToolReturned","turn":1,"call":0,"output":' + msgspec.json.encode(output) + b"}"
    return Stored(1, 0, "tools", "host", 0, body, b"")


@given(TEXT, st.lists(TEXT | st.integers(0, 200) | st.dictionaries(TEXT, TEXT, max_size=1), max_size=3))
def test_an_event_is_found_if_and_only_if_a_value_in_it_holds_the_text(text: str, output: list[Any]) -> None:
    query = Query(text=text, is_exact=True)
    values = [str(leaf) for _, leaf in leaves(output, "")] + [
        name for one in output if isinstance(one, dict) for name in one
    ]
    is_held = any(text in value for value in ["ToolReturned", "1", "0", *values])
    assert bool(list(search([[row(output)]], query))) == is_held


@given(TEXT, TEXT)
def test_a_text_without_capitals_is_found_in_either_case(text: str, around: str) -> None:
    query = Query(text=text.casefold())
    assert list(search([[row(around + text.upper() + around)]], query))


def test_a_capital_letter_must_match() -> None:
    assert list(search([[row("Refund")]], Query(text="refund")))
    assert list(search([[row("refund")]], Query(text="Refund"))) == []


def test_ids_and_digests_of_our_own_are_found_by_a_path_only() -> None:
    call = {"type": "tool_use", "id": "toolu_503", "name": "look", "input": {"id": "order 503"}}
    reply = {"type": "ModelReplied", "turn": 1, "content": [call], "sent": {"digest": "ab503c"}}
    stored = Stored(1, 0, "model", "host", 0, msgspec.json.encode(reply), b"")
    (found,) = search([[stored]], Query(text="503"))
    assert found.path == "body.content.0.input.id"
    assert list(search([[stored]], Query(text="toolu_503"))) == []
    (found,) = search([[stored]], Query(path="body.sent.digest", tests=(("eq", "ab503c"),)))
    assert found.value == "ab503c"


def test_other_escapes_of_the_same_text_are_found() -> None:
    body = b'{"type":"ToolReturned","turn":1,"call":0,"output":"a\\/b \\u00e9"}'
    stored = Stored(1, 0, "tools", "host", 0, body, b"")
    assert list(search([[stored]], Query(text="a/b é")))


@table(
    ("name", "value", "is_found"),
    [
        ("gt", 11, True),
        ("gt", 12, False),
        ("ge", 12.0, True),
        ("lt", 12, False),
        ("le", 12, True),
        ("eq", 12, True),
        ("eq", "12", False),
        ("ne", "12", True),
        ("ne", 12, False),
        ("gt", None, False),
    ],
)
def test_values_compare_with_values_of_their_type(name: str, value: object, is_found: bool) -> None:
    query = Query(path="body.output.cents", tests=((name, value),))
    assert bool(list(search([[row({"cents": 12})]], query))) == is_found


def test_a_message_without_a_field_of_the_path_is_not_decoded() -> None:
    query = Query(path="body.output.cents")
    assert not query.may_hold(row({"euros": 12}).body)
    assert query.may_hold(row({"cents": 12}).body)
    assert query.may_hold(row('{"cents": 12}').body)


@table("name", ["cents", "naïve", "a.b", 'a"b', "0", "*", "two words"])
@table("is_ascii", [True, False])
@table("is_text", [True, False])
def test_a_field_is_found_however_its_name_is_written(name: str, is_ascii: bool, is_text: bool) -> None:
    found: object = {name: 7, "other": [8]}
    output = json.dumps(found, ensure_ascii=is_ascii) if is_text else found
    query = Query(path=f"body.output.{written(name)}", tests=(("eq", 7),))
    assert [match.value for match in search([[row(output)]], query)] == [7]


def test_a_field_is_found_whose_name_is_escaped_letter_by_letter() -> None:
    (match,) = search([[row(r'{"\u0063ents": 7}')]], Query(path="body.output.cents"))
    assert match.value == 7


def test_null_and_lists_have_no_order() -> None:
    query = Query(path="body.output", tests=(("lt", None),))
    assert list(search([[row(None)]], query)) == []


def test_the_wrong_price_is_found_by_its_size() -> None:
    found = list(poisoned_sum().search(Query(path="body.output.cents", tests=(("gt", 41_900),))))
    assert [(match.row.recipient, match.value) for match in found] == [(f"host.{WRONG}", 4_190_000)]


def test_a_search_is_narrowed_to_an_agent_a_kind_and_a_tool() -> None:
    recording = Recording.open(MemoryReader(survey()), "one")
    by_tool = [match.kind for match in recording.search(Query(path="body.turn", tool="count_files"))]
    assert by_tool == ["CallTool", "ToolReturned"]
    of_agent = list(recording.search(Query(text="1", agent="host.1")))
    assert {"CallModel", "TurnRequested"} <= {match.kind for match in of_agent}
    assert all("host.1" in (one.row.sender, one.row.recipient) for one in of_agent if one.kind != "CallModel")
    kinds = recording.search(Query(text="files", kinds=frozenset({"Ask"})))
    assert [match.kind for match in kinds] == ["Ask"]


def test_a_search_for_nothing_and_a_path_that_no_message_has_are_refused() -> None:
    with pytest.raises(MisuseError, match="text or a path"):
        Query()
    with pytest.raises(MisuseError, match="path of a value"):
        Query(text="a", tests=(("gt", 1),))
    with pytest.raises(MisuseError, match=r"write body\.output"):
        Query(path="output")


_NAMES = st.sampled_from(["a", "id", "digest", "output", "x y", 'q"', "request_id", "value"])
_LEAVES = st.sampled_from(["ab", "AB b", "", 12, 1.5, None, True])
_BODIES = st.dictionaries(
    _NAMES,
    st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner)),
    max_size=4,
)


@given(_BODIES, st.sampled_from(["b", "AB", "1", "null", "zz"]))
def test_the_first_leaf_that_holds_a_text_is_found_and_no_id_of_our_own(
    body: dict[str, Any], text: str
) -> None:
    query = Query(text=text)

    def is_searched(path: str) -> bool:
        before, _, name = path.rpartition(".")
        return name not in IDS or not FOREIGN.isdisjoint(before.split("."))

    def holds(value: object) -> bool:
        said = value if isinstance(value, str) else json.dumps(value)
        return text in (said.casefold() if query.is_any_case else said)

    wanted = next((one for one in leaves(body, "body") if is_searched(one[0]) and holds(one[1])), None)
    assert query.found(body) == wanted
