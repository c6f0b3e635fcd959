"""Values of any type as JSON: none is lost, none raises, and a note says what JSON has no form for."""

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import pathlib
import re
import sqlite3
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attrs
import msgspec
import pydantic
from hypothesis import given, settings
from hypothesis import strategies as st

from callboard import ToolContext
from callboard.outputs import ToolOutput
from callboard.runtime.foreign_values import Taken, note_of, taken
from callboard.runtime.outputs.outcomes import unified_outcome
from callboard.runtime.sanitize import MAX_BYTES, to_json
from callboard.runtime.tools.output import returned
from tests.effort import effort
from tests.runtime.library_values import Array, Frame, Moment, Scalar
from tests.steps import steps_of
from tests.tables import table


class Odd(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class Box:
    inner: object


@attrs.define
class Crate:
    inner: object


class Slip(msgspec.Struct, tag="slip", rename="camel"):
    my_inner: object


class Pair(NamedTuple):
    one: object
    two: object


class Plain:
    def __init__(self) -> None:
        self.inner = 1
        self._hidden = 2


class Slotted:
    __slots__ = ("_hidden", "inner", "unset")

    def __init__(self) -> None:
        self.inner, self._hidden = {1}, 2


class SlottedMore(Slotted):
    __slots__ = "more"  # a text is one name

    def __init__(self) -> None:
        super().__init__()
        self.more = 3


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    share: float
    thing: Any = None


class Late(datetime.datetime):
    """A time of another library, as pandas' Timestamp is one."""


class Missing(datetime.datetime):
    def isoformat(self, *_: object) -> str:  # as of pandas' NaT
        return "NaT"


class Loud:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


def breaking() -> Iterator[int]:
    yield 1
    raise ValueError


def knot() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


def row() -> object:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    found = connection.execute("SELECT 1 AS a, x'ff' AS b").fetchone()
    connection.close()
    return found


NAN = float("nan")


@table(
    ("value", "json", "note"),
    [
        (Scalar(3), "3", ""),
        (Moment("2026-01-01"), '"2026-01-01"', ""),
        (Moment("NaT"), "null", "values that are missing (NaN, NaT, NA) are null: $"),
        (Array([0.5, NAN]), "[0.5,null]", "numbers that are not finite are null: $[1]"),
        (Frame([{"a": 1, "b": NAN}]), '[{"a":1,"b":null}]', "numbers that are not finite are null: $[0].b"),
        (Frame([{"a": 1, "b": {2}}], is_counted=False), '{"index":[0],"data":[[1,[2]]]}', ""),
        (Late(2026, 1, 2), '"2026-01-02T00:00:00"', ""),
        ([Missing(2026, 1, 2)], "[null]", "values that are missing (NaN, NaT, NA) are null: $[0]"),
        (pathlib.PurePosixPath("a/b"), '"a/b"', ""),
        (fractions.Fraction(1, 3), '"1/3"', ""),
        (1 + 2j, '"(1+2j)"', ""),
        (collections.deque([1]), "[1]", ""),
        ({"a": 1}.values(), "[1]", ""),
        (range(2), "[0,1]", ""),
        (itertools.islice(itertools.count(), 2), "[0,1]", ""),
        (frozenset({"b", "a"}), '["a","b"]', ""),
        ({1, "a", None}, '["a",1,null]', ""),
        ({1: "a", None: 2, 1.5: 3, (1,): 4, Odd.PAIR: 5}, '{"1":"a","null":2,"1.5":3,"[1]":4,"[1,2]":5}', ""),
        ({(1, 2): 4, Odd.PAIR: 5}, '{"[1,2]":4,"[1,2]~2":5}',
         "keys that are equal as text are numbered: $"),
        ({1: "a", "1": "b"}, '{"1":"a","1~2":"b"}', "keys that are equal as text are numbered: $"),
        (dict(zip(["\ud800", "\ufffd"], [{1}, 2], strict=True)), '{"\ufffd":[1],"\ufffd~2":2}',
         "keys that are equal as text are numbered: $"),
        (collections.UserDict(a={1}), '{"a":[1]}', ""),
        (types.MappingProxyType({"a": {1}}), '{"a":[1]}', ""),
        (row(), '{"a":1,"b":"/w=="}', "bytes that are not UTF-8 are written as base64: $.b"),
        (Box({1}), '{"inner":[1]}', ""),
        (Crate({1}), '{"inner":[1]}', ""),
        (Slip({1}), '{"type":"slip","myInner":[1]}', ""),
        (Pair(1, {2}), "[1,[2]]", ""),
        (Model(share=NAN, thing=Plain()), '{"share":null,"thing":{"inner":1}}',
         "numbers that are not finite are null: $.share; "
         "values of Plain are written as their public attributes: $.thing"),
        (bytearray(b"hi"), '"hi"', ""),
        (memoryview(b"hi"), '"hi"', ""),
        (ValueError("boo"), '"ValueError: boo"', "values of ValueError are written as text: $"),
        (re.compile("a"), '"re.compile(\'a\')"', "values of Pattern are written as text: $"),
        ([Odd], '["<enum \'Odd\'>"]', "values of EnumType are written as text: $[0]"),
        (SlottedMore(), '{"inner":[1],"more":3}',
         "values of SlottedMore are written as their public attributes: $"),
        (object(), '"[object]"', "values of object are written as their public attributes: $"),
        (Loud(), '"[Loud]"', "values of Loud that raised RuntimeError are left out: $"),
        (breaking(), "[1]", "an iterator raised ValueError after 1 items: $"),
        (knot(), '["[contains itself]"]', "values that contain themselves are cut there: $[0]"),
        (msgspec.Raw(b"{"), '"{"', "JSON that cannot be read is written as text: $"),
        ([decimal.Decimal("1.10"), uuid.UUID(int=0), datetime.timedelta(days=1), {1}],
         '["1.10","00000000-0000-0000-0000-000000000000","P1D",[1]]', ""),
        ({"x" * 50: NAN}, "", "numbers that are not finite are null: $.[...]"),
    ],
)  # fmt: skip
def test_a_value_of_any_type_has_a_json(value: object, json: str, note: str) -> None:
    found = taken(value)
    assert not json or bytes(found.json).decode() == json
    assert "; ".join(found.notes) == note
    assert not found.is_cut


def test_a_whole_number_of_more_digits_than_python_writes_is_written_as_base_16() -> None:
    found = taken([10**5_000])
    assert bytes(found.json).startswith(b'["0x31e20801')
    assert found.notes == ("whole numbers of more than 4,000 digits are written as base 16: $[0]",)


def test_a_value_that_json_can_hold_is_encoded_as_at_the_border() -> None:
    for value in (
        {"b": 1, "a": [None, True]},
        "\ud800",
        Box(3),
        Pair(1, 2),
        Slip(1),
        datetime.date(2026, 1, 2),
    ):
        assert taken(value) == (to_json(value), (), False)


def test_the_address_of_an_object_is_no_part_of_its_text() -> None:
    assert bytes(taken([breaking]).json) == b'["<function breaking>"]'


def test_what_is_deeper_than_the_limit_is_left_out_with_a_note() -> None:
    deep: list[object] = []
    for _ in range(3_000):
        deep = [deep]
    found = taken(deep)
    assert b"[nested too deeply]" in bytes(found.json)
    assert found.notes[0].startswith("what is nested too deeply is left out: $[0][0]")
    assert to_json(found.json, max_depth=65) == found.json


@table(
    "make",
    [
        lambda: itertools.count(),
        lambda: [NAN, "x" * 100_000],
        lambda: {1: b"\xff" * 100_000},
        lambda: ["\u2603".encode() * 100_000],
        lambda: Array([], 10**12),
        lambda: Frame([{"a": n, "b": NAN} for n in range(3_000)]),
        lambda: dict.fromkeys(range(10000), NAN),
        lambda: [{1}, "\x01" * 15_000],
    ],
)
def test_a_value_that_is_too_large_is_cut_with_a_note(make: Callable[[], object]) -> None:
    found = taken(make(), max_bytes=20_000)
    assert len(found.json) <= 20_000
    assert found.is_cut
    assert any(note.startswith("too large, so that parts are left out") for note in found.notes)


def test_the_work_is_bounded_by_the_size_that_a_value_may_have() -> None:
    wide: list[object] = []
    for _ in range(40):
        wide = [wide, wide, {1}]  # 2 ** 40 parts
    found = list[Taken]()
    assert steps_of(lambda: found.append(taken(wide, max_bytes=50_000))) < 10 * 50_000
    assert found[0].is_cut


def test_notes_are_few_and_short() -> None:
    found = taken([[NAN] * 1_000, {1: b"\xff", "1": 2}, Plain(), Loud(), breaking(), knot(), len])
    assert found.notes[0] == "numbers that are not finite are null: $[0][0], $[0][1], $[0][2] and 997 more"
    assert len(found.notes) == 8
    assert note_of(found.notes).count(";") == 4
    assert note_of(()) == ""


LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.complex_numbers(),
    st.decimals(), st.datetimes(), st.timedeltas(), st.uuids(), st.fractions(),
    st.sampled_from([Odd.PAIR, Plain(), object(), len, Odd, ValueError("\ud800"), row()]), st.builds(Loud),
    st.builds(pathlib.Path, st.just("\udcff")), st.builds(pow, st.just(10), st.just(5_000)),
    st.builds(Scalar, st.floats()), st.builds(Moment, st.sampled_from(["NaT", "2026-01-01"])),
    st.builds(breaking), st.builds(knot), st.ip_addresses(),
    st.text(st.characters(codec=None, categories=["Cs"])),
)  # fmt: skip
HASHED = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    st.text(max_size=3),
    st.tuples(st.integers()),
    st.binary(max_size=3),
)
PYTHON_VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(HASHED, inner, max_size=3),
        st.sets(HASHED, max_size=3), st.builds(Box, inner), st.builds(Crate, inner), st.builds(Slip, inner),
        st.builds(Pair, inner, inner), st.builds(Array, st.lists(inner, max_size=3)),
        st.builds(iter, st.lists(inner)), st.builds(collections.deque, st.lists(inner)),
        st.builds(lambda thing: Model(share=0.5, thing=thing), inner),
    ),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=effort(150, 20_000))
@given(PYTHON_VALUES, st.booleans())
def test_no_result_of_a_tool_raises_or_is_lost_once_the_tool_has_run(value: Any, may_cut: bool) -> None:
    for outcome in (
        returned(value, 50_000, may_cut=may_cut),
        unified_outcome(
            ToolOutput(value, metadata={"m": value}), ToolContext(tool="t"), 50_000, may_cut=may_cut
        ),
    ):
        assert outcome.status == "ok"
        assert to_json(outcome.output) == outcome.output


@settings(max_examples=effort(50, 5_000))
@given(PYTHON_VALUES)
def test_a_value_is_taken_as_json_that_can_be_logged_and_sent_on(value: Any) -> None:
    found = taken(value)
    assert to_json(found.json, max_depth=65) == found.json
    assert len(found.json) <= MAX_BYTES
    assert msgspec.json.encode(msgspec.json.decode(found.json))
