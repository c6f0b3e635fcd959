"""Messages cannot change: neither by assignment nor through a part that they hold."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Optional, get_args, get_type_hints

import msgspec
import pytest

from callboard.actors.protocol.codec import encode
from callboard.actors.protocol.immutable import (
    NULL,
    Json,
    Message,
    Part,
    RichMessage,
    Value,
    _defaults,
    check_immutable,
    keep_default,
)
from callboard.actors.protocol.profiles import Profile
from tests.strategies import MESSAGES
from tests.tables import table


class Solid(msgspec.Struct, frozen=True):
    n: int


class Soft(msgspec.Struct):
    n: int


class Hollow(msgspec.Struct, frozen=True):
    inner: tuple[Soft, ...]


def class_with(hint: Any, base: type[msgspec.Struct] = Message) -> type[msgspec.Struct]:
    return msgspec.defstruct("Made", [("field", hint)], bases=(base,), module=__name__)


@table(
    "hint",
    [
        int,
        str,
        bool,
        float,
        bytes,
        None,
        Json,
        Solid,
        int | None,
        Optional[str],  # noqa: UP045  # the older spelling must work too
        Literal["a", "b"],
        tuple[int, ...],
        tuple[Solid, str],
        tuple[tuple[Json, ...], ...],
        ClassVar[list[int]],
    ],
    ids=str,
)
def test_scalars_tuples_frozen_structs_and_json_are_let_in(hint: Any) -> None:
    assert class_with(hint).__struct_config__.frozen


@table(
    ("hint", "why"),
    [
        (list[int], "list can change"),
        (dict[str, int], "dict can change"),
        (set[int], "set can change"),
        (frozenset[int], "frozenset can change"),
        (bytearray, "bytearray can change"),
        (Sequence[int], "Sequence can change"),
        (Any, "Any can change"),
        (object, "object can change"),
        (tuple, "tuple can change"),
        (Soft, "Soft is not frozen"),
        (list[int] | None, "list can change"),
        (tuple[list[int], ...], "list can change"),
        (tuple[Solid, Soft], "Soft is not frozen"),
        (Hollow, r"Hollow\.inner: Soft is not frozen"),
        (Hollow | None, r"Hollow\.inner: Soft is not frozen"),
    ],
    ids=str,
)
@table("base", [Message, Value])
def test_a_class_with_a_mutable_part_at_any_depth_is_refused(
    base: type[msgspec.Struct], hint: Any, why: str
) -> None:
    with pytest.raises(TypeError, match=rf"Made\.field: .*{why}"):
        class_with(hint, base)


def test_a_class_that_gives_up_being_frozen_gets_no_instance() -> None:
    thawed = msgspec.defstruct("Thawed", [("n", int)], bases=(RichMessage,), frozen=False)
    with pytest.raises(TypeError, match="Thawed is not frozen"):
        thawed(1)


@table("kind", MESSAGES, ids=lambda kind: kind.__name__)
def test_every_message_class_is_frozen_all_the_way_down(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.tag == kind.__name__
    check_immutable(kind)


def test_assigning_to_a_message_raises_and_changes_nothing() -> None:
    class Note(Message, frozen=True):
        text: str = ""

    note = Note("a")
    with pytest.raises(AttributeError):
        note.text = "b"  # type: ignore[misc]  # the subject of this test
    assert note.text == "a"


def test_a_field_that_equals_its_default_is_left_out_even_if_it_is_another_object() -> None:
    class Bounds(Part, frozen=True):
        most: int = 100_000

    class Note(RichMessage, frozen=True):
        bounds: Bounds = Bounds()
        place: tuple[int, int] = (0, 1)
        mood: str = "calm"
        value: Json = NULL
        count: int = 70_000

    spelled = Note(Bounds(int("100000")), (int("0"), 1), "".join(["ca", "lm"]), Json(b"null"), int("70000"))
    assert spelled == Note()
    assert encode(spelled) == encode(Note()) == b'{"type":"Note"}'
    assert encode(Note(Bounds(1), mood="sad")) == b'{"type":"Note","bounds":{"most":1},"mood":"sad"}'

    class Letter(Message, frozen=True):
        bounds: Bounds

    assert encode(Letter(Bounds(int("100000")))) == b'{"type":"Letter","bounds":{}}'


def test_a_value_that_equals_its_default_becomes_that_object_and_no_other_value_does() -> None:
    class Note(Message, frozen=True):
        value: Json = NULL

    equal, other = Note(Json(b"null")), Note(Json(b"1"))
    assert equal.value is not NULL
    for note in (equal, other):
        keep_default(note, "value", NULL)
    assert equal.value is NULL
    assert other.value == Json(b"1")


def test_only_defaults_that_another_object_can_equal_are_compared_for_each_message() -> None:
    class Note(RichMessage, frozen=True, kw_only=True):
        flag: bool = False
        required: int
        nothing: str | None = None
        text: str = ""
        empty: tuple[int, ...] = ()
        zero: int = 0
        largest: int = 256
        larger: int = 257
        below: int = -1
        part: float = 1.0
        word: str = "calm"

    assert _defaults(Note) == (("larger", 257), ("below", -1), ("part", 1.0), ("word", "calm"))


def parts(kind: type[msgspec.Struct]) -> set[type[msgspec.Struct]]:
    """Return the struct classes that a message class holds, at any depth."""
    found: set[type[msgspec.Struct]] = set()
    rest: list[Any] = list(get_type_hints(kind).values())
    while rest:
        hint = rest.pop()
        rest += get_args(hint)
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in found:
            found.add(hint)
            rest += get_type_hints(hint).values()
    return found


def test_plain_messages_and_parts_have_only_singletons_as_defaults() -> None:
    # Other defaults need the slower base; otherwise equal messages would have different bytes.
    for part in set(MESSAGES).union(*[parts(kind) for kind in MESSAGES]) | parts(Profile):
        assert part.__struct_config__.frozen
        if not issubclass(part, Part | RichMessage):
            defaults = [field.default for field in msgspec.structs.fields(part)]
            assert all(one in (None, 0, "", (), False, msgspec.NODEFAULT) for one in defaults), part


def test_json_is_compared_by_its_bytes() -> None:
    assert Json(b'{"a":1}') == Json(b'{"a":1}')
    assert Json(b'{"a":1}') != Json(b'{"a": 1}')
    assert Json(b"null") == NULL
