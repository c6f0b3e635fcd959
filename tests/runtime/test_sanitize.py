import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import math
import sys
import uuid
from collections import OrderedDict
from typing import NamedTuple

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import NULL, Json
from callboard.runtime.sanitize import check_json, clean_json, clean_text, encoded, to_json
from tests.tables import table

ANY_TEXT = st.text(st.characters(exclude_categories=()))
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
CLEAN_TEXT = st.text(
    st.characters(categories=("L", "M", "N", "P", "S", "Z", "Cc", "Cf", "Co", "Cn"), exclude_characters="\0")
)
CLEAN_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | CLEAN_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CLEAN_TEXT, inner, max_size=4),
    max_leaves=12,
)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(msgspec.Struct):
    x: float
    y: float = 0.0


@dataclasses.dataclass
class Box:
    corner: Point
    label: str = "a"


class Pair(NamedTuple):
    left: int
    right: int


class Text(str):
    pass


class Number(float):
    pass


class Whole(int):
    pass


# --- text -------------------------------------------------------------------------


def test_ordinary_text_stays_the_same_object() -> None:
    text = "naïve 😀 text\n"
    assert clean_text(text) is text


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    assert clean_text("a\ud800b\udfff") == "a\ufffdb\ufffd"


def test_two_surrogates_that_are_a_pair_become_their_character() -> None:
    assert clean_text("\ud83d\ude00") == "😀"


def test_nul_becomes_its_picture() -> None:
    assert clean_text("a\0b") == "a␀b"


@given(ANY_TEXT)
def test_clean_text_can_always_be_encoded_and_cleaning_again_changes_nothing(text: str) -> None:
    clean = clean_text(text)
    clean.encode()
    assert "\0" not in clean
    assert clean_text(clean) == clean


# --- Python values ----------------------------------------------------------------


def test_keys_keep_their_order() -> None:
    assert bytes(to_json({"b": 1, "a": 2})) == b'{"b":1,"a":2}'


def test_none_is_the_one_null() -> None:
    assert to_json(None) is NULL
    assert check_json(" null ") is NULL


def test_everyday_python_values_have_a_json() -> None:
    value = {
        "struct": Point(1, 2.5),
        "dataclass": Box(Point(0)),
        "tuple": Pair(1, 2),
        "enums": [Colour.RED, Level.HIGH],
        "date": datetime.date(2026, 1, 2),
        "id": uuid.UUID(int=0),
        "decimal": decimal.Decimal("1.10"),
        "subclasses": [Text("t"), Number(1.5), Whole(3), OrderedDict(a=1)],
        "json": Json(b'{"z": 1}'),
    }
    assert json.loads(bytes(to_json(value))) == {
        "struct": {"x": 1, "y": 2.5},
        "dataclass": {"corner": {"x": 0, "y": 0.0}, "label": "a"},
        "tuple": [1, 2],
        "enums": ["red", 3],
        "date": "2026-01-02",
        "id": "00000000-0000-0000-0000-000000000000",
        "decimal": "1.10",
        "subclasses": ["t", 1.5, 3, {"a": 1}],
        "json": {"z": 1},
    }


@table(
    ("value", "place", "advice"),
    [
        ({"a": [1, float("nan")]}, "$.a[1]", "pass None or text"),
        (Point(math.inf), "$.x", "pass None or text"),
        (Box(Point(1, -math.inf)), "$.corner.y", "pass None or text"),
        ({"a": {1: 2}}, "$.a", "write str(key)"),
        ({"a": b"raw"}, "$.a", "decode it"),
        ([{1, 2}], "$[0]", "sorted"),
        ({"a": object()}, "$.a", "a dataclass"),
        ({"a": range(3)}, "$.a", "a list"),
        ({"a": Point}, "$.a", "a dataclass"),
        ({"a": Json(b'{"x":1,"x":2}')}, "$.a", "keep one"),
    ],
)
def test_a_refusal_names_the_place_and_says_what_to_do(value: object, place: str, advice: str) -> None:
    with pytest.raises(InvalidPrompt) as caught:
        to_json(value, what="The answer")
    assert str(caught.value).startswith("The answer at ")
    assert f"`{place}`" in str(caught.value)
    assert advice in str(caught.value)


def test_a_value_that_contains_itself_is_refused() -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(InvalidPrompt, match="contains itself"):
        to_json(cycle)


def test_a_small_value_that_would_unfold_to_terabytes_is_refused_at_once() -> None:
    value: object = "x" * 1_000
    for _ in range(40):
        value = [value, value]
    with pytest.raises(InvalidPrompt, match="too large"):
        to_json(value, max_bytes=100_000)


def test_depth_is_counted_in_containers() -> None:
    def nested(depth: int) -> object:
        value: object = datetime.date(2026, 1, 1)
        for _ in range(depth):
            value = {"a": value}
        return value

    to_json(nested(64))
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        to_json(nested(65))


BRACKETS = st.text('[]{}"\\,: a', max_size=8)
NESTED = st.recursive(
    BRACKETS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(BRACKETS, inner, max_size=4),
    max_leaves=20,
)


def depth_of(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth_of, inner), default=0)


@given(NESTED, st.booleans())
def test_the_depth_of_json_text_is_counted_in_containers_and_not_in_its_strings(
    value: object, is_spaced: bool
) -> None:
    text = json.dumps(value, separators=None if is_spaced else (",", ":"))
    check_json(text, max_depth=depth_of(value))
    if depth_of(value):
        with pytest.raises(InvalidPrompt, match="nested deeper"):
            check_json(text, max_depth=depth_of(value) - 1)


def test_escapes_count_in_the_size() -> None:
    assert to_json("\x01" * 10, max_bytes=62)
    with pytest.raises(InvalidPrompt, match="too large"):
        to_json("\x01" * 10, max_bytes=61)


def test_lone_surrogates_and_nul_are_cleaned_anywhere_in_a_value() -> None:
    value = {"k\0": ["\ud800", {"\udc00": "\\u0000"}], "n": (1, None)}
    assert json.loads(bytes(to_json(value))) == {"k␀": ["\ufffd", {"\ufffd": "\\u0000"}], "n": [1, None]}


def test_a_json_inside_of_a_value_is_cleaned_with_it() -> None:
    inner = Json(rb'["\u0000", "\udc00", 1.50]')
    assert bytes(to_json(["a", inner])) == '["a",["␀", "\ufffd", 1.50]]'.encode()
    assert bytes(to_json(["\ud800", inner])) == '["\ufffd",["␀", "\ufffd", 1.50]]'.encode()


def test_json_text_of_another_program_is_cleaned_and_keeps_all_its_other_bytes() -> None:
    kept = rb'{"a" : "\\ud800 \ud83d\ude00", "n": 1.50}'
    assert clean_json(kept) == kept
    assert clean_json(rb'["\ud800\u0000", "\ude00\ud83d"]') == '["\ufffd␀", "\ufffd\ufffd"]'.encode()
    assert clean_json(b'["\xff"]') == '["\ufffd"]'.encode()
    assert clean_json(b"no JSON \xc3") == "no JSON \ufffd".encode()


def test_a_parsed_value_is_encoded_without_a_bound_and_refused_where_json_has_no_form() -> None:
    deep: list[object] = []
    for _ in range(100):
        deep = [deep]
    assert bytes(encoded(deep)) == b"[" * 101 + b"]" * 101
    assert bytes(encoded([math.nan, "\ud800"])) == '[null,"\ufffd"]'.encode()
    for wrong in (dict.fromkeys(("a\ud800", "a\ufffd")), object()):
        with pytest.raises(InvalidPrompt, match="The reply"):
            encoded([wrong], what="The reply")


def test_a_json_by_itself_is_checked_and_keeps_its_bytes() -> None:
    assert bytes(to_json(Json(b' {"b": 1.0, "a": 2}\n'))) == b'{"b": 1.0, "a": 2}'
    assert to_json(Json(b" null")) is NULL
    with pytest.raises(InvalidPrompt, match="The value is not valid JSON"):
        to_json(Json(b""))


def test_fields_that_are_not_set_are_left_out() -> None:
    class Partial(msgspec.Struct):
        a: int | msgspec.UnsetType = msgspec.UNSET
        b: int = 1

    assert bytes(to_json([Partial()])) == b'[{"b":1}]'


def test_a_stack_that_is_nearly_full_is_a_refusal() -> None:
    value: object = 1
    for _ in range(60):
        value = [value]

    def refused_at(left: int) -> None:
        if left:
            refused_at(left - 1)
        else:
            to_json(value)

    here = len(inspect.stack())
    with pytest.raises(InvalidPrompt, match="nested too deeply"):
        refused_at(sys.getrecursionlimit() - here - 60)


def test_the_size_of_json_text_is_counted_in_bytes() -> None:
    assert check_json('"éé"', max_bytes=6)
    for text in ('"éé"', "é" * 6, b'"ab"  '):
        with pytest.raises(InvalidPrompt, match="too large"):
            check_json(text, max_bytes=5)


def test_cleaned_text_has_the_same_bytes_as_clean_text() -> None:
    assert bytes(to_json("a\0\ud800")) == bytes(to_json("a␀\ufffd"))


@pytest.mark.parametrize("value", [dict.fromkeys(["\ud800", "\ud801"], 1), {"\0": 1, "␀": 2}])
def test_keys_that_cleaning_makes_equal_are_refused(value: object) -> None:
    with pytest.raises(InvalidPrompt, match="key"):
        to_json(value)


def test_a_whole_number_of_five_thousand_digits_is_refused() -> None:
    with pytest.raises(InvalidPrompt, match="4300 digits"):
        to_json({"n": 10**5_000})


def test_objects_that_raise_when_read_are_refused() -> None:
    class Hostile(dict[str, object]):
        def items(self) -> object:  # type: ignore[override]  # a mapping that breaks its contract, on purpose
            raise KeyboardError("no \ud800")

    class KeyboardError(Exception):
        pass

    with pytest.raises(InvalidPrompt, match="KeyboardError: no \ufffd"):
        to_json(Hostile(a=1))


@pytest.mark.slow
@given(VALUES)
@example("\ud83d\ude00")
@example({"a": "\\u0000", "b": "\0"})
def test_every_value_of_json_types_is_refused_or_reads_back_equal(value: object) -> None:
    try:
        encoded = bytes(to_json(value))
    except InvalidPrompt:
        return
    assert bytes(check_json(encoded)) == encoded
    msgspec.json.decode(encoded)


@pytest.mark.slow
@given(CLEAN_VALUES)
def test_clean_values_come_back_equal(value: object) -> None:
    assert json.loads(bytes(to_json(value))) == value


# --- JSON text --------------------------------------------------------------------


def test_foreign_json_keeps_its_bytes_and_key_order() -> None:
    text = '{\n  "b": 1.0,\n  "a": [1e5, "\\u00e9", -0, "\\/"]\n}'
    assert bytes(check_json(f"\n {text}\t")) == text.encode()


def test_escaped_lone_surrogates_and_nul_are_replaced_in_place() -> None:
    text = r'{"a": "\ud83d\ude00 \ud800 \udc00\ud800 \u0000 \\u0000 \\\u0000"}'
    cleaned = r'{"a": "\ud83d\ude00 � �� ␀ \\u0000 \\␀"}'
    assert bytes(check_json(text)) == cleaned.encode()


def test_raw_surrogates_and_nul_in_text_are_cleaned() -> None:
    assert json.loads(bytes(check_json('["\ud800", "\0"]'))) == ["\ufffd", "␀"]


@table(
    "text",
    [
        '{"a":1,"a":2}',
        '{ "a" : 1, "b": {}, "a": 1}',
        '[{"x":{"k":1,"k":1}}]',
        r'{"a":1,"\u0061":2}',
        r'{"\ud800":1,"\udfff":2}',
        '{"":1,"":1}',
        '{"a": "b, c", "a": "b,c"}',
    ],
)
def test_duplicate_keys_are_refused(text: str) -> None:
    with pytest.raises(InvalidPrompt, match="twice"):
        check_json(text)


def test_equal_keys_of_different_objects_are_not_duplicates() -> None:
    assert check_json('{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}], "c": "\\"a\\": 1"}')


def test_something_that_is_not_text_is_refused() -> None:
    with pytest.raises(InvalidPrompt, match="to_json"):
        check_json({"a": 1})  # type: ignore[arg-type]  # a wrong value on purpose


def test_brackets_in_strings_do_not_count_as_depth() -> None:
    assert check_json(json.dumps({"a": "[{" * 500, "b": '"[' * 100, "c": [[]] * 200}))


@pytest.mark.slow
@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_of_the_standard_library_is_accepted(
    value: object, indent: int | None, ascii_only: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    try:
        checked = bytes(check_json(text))
    except InvalidPrompt as error:
        if "twice" not in str(error):  # keys that cleaning made equal
            raise
        return
    assert bytes(check_json(checked)) == checked
    if clean_text(text) == text and "\\u0000" not in text and not ascii_only:
        assert json.loads(checked) == value


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from('ab" ,:\\'), st.integers(0, 9)), max_size=4), st.booleans())
def test_duplicate_keys_are_found_with_any_spacing(pairs: list[tuple[str, int]], spaced: bool) -> None:
    colon, comma = (": ", ", ") if spaced else (":", ",")
    text = "{" + comma.join(f"{json.dumps(key)}{colon}{number}" for key, number in pairs) + "}"
    is_unique = len({key for key, _ in pairs}) == len(pairs)
    try:
        check_json(text)
        assert is_unique
    except InvalidPrompt:
        assert not is_unique


@given(st.binary(max_size=40) | st.text(alphabet='[]{}",:\\u0dD8 1eE-+.ntf\0', max_size=40))
def test_any_bytes_are_accepted_as_readable_json_or_refused(text: str | bytes) -> None:
    try:
        checked = bytes(check_json(text))
    except InvalidPrompt:
        return
    msgspec.json.decode(checked)
    assert bytes(check_json(checked)) == checked


LONG = 3_000
"""Items that make a list long: it is read item by item."""


def _long(last: str) -> str:
    return "[" + '{"a": 1, "b": [true, null]}, ' * LONG + last + "]"


@table("last", ['{"a": 1}', "[]", "null", "1e3", '"{"', '{"é": {"a": {}}}'])
def test_a_long_list_keeps_its_bytes(last: str) -> None:
    assert bytes(check_json(_long(last))) == _long(last).encode()


@table(
    ("last", "why"),
    [
        ('{"a": 1, "a": 2}', "twice"),
        ('[[{"a": {}, "a": {}}]]', "twice"),
        ("1e999", "out of range"),
        ("{", "brackets do not match"),
        ('{"a": 1},', "valid JSON"),
        ("[" * 65 + "]" * 65, "deeper"),
    ],
)
def test_a_fault_in_a_long_list_is_refused(last: str, why: str) -> None:
    with pytest.raises(InvalidPrompt, match=why):
        check_json(_long(last))
    with pytest.raises(InvalidPrompt):
        check_json(_long("\\x").replace("\\x", '"\ud800"').encode("utf-8", "surrogatepass"))


@given(st.lists(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=8)))
def test_a_long_list_is_read_as_its_end_alone(end: list[object]) -> None:
    # Also as many programs write it: with white space in lists, and escapes.
    text = _long("0")[:-1] + ", " + json.dumps(end, indent=1) + "]"
    assert json.loads(bytes(check_json(text)))[-1] == json.loads(bytes(check_json(json.dumps(end))))
