"""The types of a session, found by name and schema."""

import pytest

from callboard import Agent
from callboard.actors.protocol.immutable import NULL, Json
from callboard.errors import MissingType
from callboard.runtime.agent import roster
from callboard.runtime.schemas.output_types import NO_TYPE, OutputType, output_type
from callboard.runtime.sessions.session_types import SessionTypes, TypeName, schema_of_ask
from tests.runtime.reports import Finding, Span, Tree

HOST = Agent("host", agents=[Agent("finder", output_schema=Finding)], output_schema=Span)
OTHER_SCHEMA = Json(b'{"type":"object"}')


def types(*given: OutputType) -> SessionTypes:
    return SessionTypes(roster(HOST), "host", given)


def recorded(kind: object) -> TypeName:
    made = output_type(kind)
    return TypeName(made.name, made.schema)


def test_types_of_agents_and_given_ones_are_found_by_their_names() -> None:
    found = types(output_type(Tree))
    for kind in (Finding, Span, Tree):
        assert found.of(recorded(kind)) is output_type(kind)
    assert found.of_profile("finder") is output_type(Finding)
    assert found.of_profile("nobody") is NO_TYPE
    assert found.of(TypeName("", OTHER_SCHEMA)) == OutputType(OTHER_SCHEMA)


def test_a_type_that_is_not_there_is_missing_until_it_is_learned() -> None:
    found = types()
    with pytest.raises(MissingType, match=r"types=\[Tree\]") as caught:
        found.of(recorded(Tree))
    assert caught.value.names == ("tests.runtime.reports.Tree",)
    with pytest.raises(MissingType):
        found.refuse_missing([recorded(Tree)], accept_changes=True)
    found.learn(output_type(Tree))
    found.refuse_missing([recorded(Tree), recorded(Span), TypeName()], accept_changes=False)


def test_of_two_types_of_one_name_the_schema_decides_and_else_the_latest_counts() -> None:
    old, new = (OutputType(Json(text), "app.Report") for text in (b'{"a":1}', b'{"b":1}'))
    found = types(old, new)
    assert found.find("app.Report", old.schema) is old
    assert found.find("app.Report", new.schema) is new
    assert found.find("app.Report", OTHER_SCHEMA) is new
    found.refuse_missing([TypeName("app.Report", old.schema)], accept_changes=False)
    changed = [TypeName("app.Report", OTHER_SCHEMA)]
    with pytest.raises(MissingType, match=r"another app\.Report"):
        found.refuse_missing(changed, accept_changes=False)
    found.refuse_missing(changed, accept_changes=True)


def test_an_ask_has_the_given_type_or_its_hosts() -> None:
    found = types()
    assert found.of_ask(NO_TYPE) == recorded(Span)
    assert found.of_ask(output_type(Tree)) == recorded(Tree)
    assert schema_of_ask(HOST, None) == output_type(Span).schema
    assert schema_of_ask(HOST, Tree) == output_type(Tree).schema
    assert schema_of_ask("no agent", None) == NULL
