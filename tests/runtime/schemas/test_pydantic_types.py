"""Types of pydantic: words of refusals, and values without the validators of users."""

import datetime
import ipaddress
import pathlib
from typing import Annotated, Any, Literal

import pydantic
import pytest

from callboard import tool
from callboard.actors.protocol.errors import MissingExtra
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.runtime.schemas.output_types import output_type
from callboard.runtime.schemas.pydantic_types import PydanticForm
from tests.runtime.reports import Finding, Located, Page, Shouted, Sized, Span, Tree
from tests.tables import table


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


class Rich(pydantic.BaseModel):
    url: pydantic.HttpUrl
    address: ipaddress.IPv4Address
    pet: Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]
    pets: dict[str, Cat | Dog] = {}
    _note: str = pydantic.PrivateAttr(default="own")


@table(
    ("kind", "report", "problems"),
    [
        (Finding, b'{"filePath":"a","lines":1}', ()),
        (Finding, b'{"filePath":"a","lines":0}', [("/lines", "Value error, a file has at least one line")]),
        (Finding, b'{"path":"a","lines":1}', [("/filePath", "Field required")]),
        (
            Page[Finding],
            b'{"items":[{"filePath":"a","lines":1},{"filePath":"b","lines":0}]}',
            [("/items/1/lines", "Value error, a file has at least one line")],
        ),
        (
            Tree,
            b'{"name":"a","below":[{"name":"b","below":[{"name":"c"},{"name":"c"}]}]}',
            [("/below/0", "Value error, b has two children of one name")],
        ),
        (Sized, b'{"size":10}', [("/size", "Input should be less than 10")]),
        (
            Located,
            b'{"finding":{"filePath":"a","lines":0}}',
            [("/finding/lines", "Value error, a file has at least one line")],
        ),
        (
            Located,
            b'{"finding":{"filePath":"a","lines":1},"spans":[{"first":2,"last":1}]}',
            [("/spans/0", "Value error, last is before first")],
        ),
    ],
)
def test_a_refusal_has_the_words_of_the_validator_and_the_place(
    kind: Any, report: bytes, problems: list[tuple[str, str]]
) -> None:
    assert PydanticForm(kind).problems(report) == tuple(SchemaProblem(*one) for one in problems)


def test_a_value_is_built_deep_without_the_validators_of_users() -> None:
    report = b'{"items":[{"filePath":"a","lines":-5,"seen":"2026-01-02","folder":"/b"}]}'
    (found,) = PydanticForm(Page[Finding]).build(report).items  # type: ignore[attr-defined]  # the form builds a Page
    assert type(found) is Finding
    assert (found.path, found.lines) == ("a", -5)
    assert (found.seen, found.folder) == (datetime.date(2026, 1, 2), pathlib.Path("/b"))
    tree = PydanticForm(Tree).build(b'{"name":"a","below":[{"name":"b"},{"name":"b"}]}')
    assert isinstance(tree, Tree)
    assert [type(one) for one in tree.below] == [Tree, Tree]
    assert PydanticForm(Shouted).build(b'{"text":"soft","never":3}') == Shouted.model_construct(
        text="soft", never=3
    )
    located = PydanticForm(Located).build(b'{"finding":{"filePath":"a","lines":0},"spans":[]}')
    assert isinstance(located, Located)
    assert located.finding.lines == 0


def test_the_steps_of_pydantic_itself_are_kept() -> None:
    report = (
        b'{"url":"http://a.example/","address":"10.0.0.1","pet":{"kind":"cat","lives":9},'
        b'"pets":{"b":{"kind":"dog"}}}'
    )
    rich = PydanticForm(Rich).build(report)
    assert isinstance(rich, Rich)
    assert rich.url == pydantic.HttpUrl("http://a.example/")
    assert rich.address == ipaddress.IPv4Address("10.0.0.1")
    assert (rich.pet, rich.pets) == (Cat(kind="cat", lives=9), {"b": Dog(kind="dog")})
    assert rich._note == "own"


def test_a_value_without_validators_equals_one_with_them() -> None:
    report = b'{"finding":{"filePath":"a","lines":1},"spans":[{"first":1,"last":2}]}'
    form = PydanticForm(Located)
    assert form.problems(report) == ()
    assert form.build(report) == Located(Finding(filePath="a", lines=1), [Span(1, 2)])


def test_a_pydantic_that_is_too_old_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pydantic, "VERSION", "2.12.5")
    with pytest.raises(MissingExtra, match=r"pydantic 2\.12\.5 is too old .*callboard\[pydantic\]"):
        output_type(list[Cat])
    with pytest.raises(MissingExtra, match="too old"):
        tool(description="Keep.")(keep)


def keep(cat: Cat) -> None:
    """Keep a cat."""
