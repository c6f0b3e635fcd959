"""The input of an agent with a contract is checked before the agent begins, and its schema with it."""

import pytest
from msgspec.structs import replace

from callboard.actors.protocol.conversation import text_json
from callboard.actors.protocol.events import Post
from callboard.actors.protocol.folded_results import WRONG_INPUT
from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.limits import Limits
from callboard.actors.protocol.messages import Begin, Delegate, DelegationEnded
from callboard.actors.protocol.port_messages import CheckSchema, SchemaChecked
from callboard.actors.protocol.value_types import SchemaProblem
from callboard.replay.testing.sessions.scenario import profile
from tests.actors.harness import SCHEMA, SessionHarness, raw

FIELDS, GIVEN = Json(b'{"type":"object"}'), Json(b'{"q":1}')
FINDER = replace(profile("finder"), input_schema=FIELDS, input_type="app.Query")
WRONG = SchemaProblem("/q", "is wrong")


def asked(schema: object = None) -> tuple[SessionHarness, list[Post]]:
    """Return a session after a call of the finder, and the posts for it."""
    head = SessionHarness(profile("host", ["finder"]), FINDER, limits=Limits(schema_timeout_s=3)).opens()
    head.asks()
    wish = Delegate(2, 1, ("finder",), text_json("find"), raw(schema), input=GIVEN)
    return head, head.hears("host", wish)


def test_the_schema_port_is_asked_with_the_fields_and_the_type_of_the_contract() -> None:
    head, posts = asked()
    assert [(post.recipient, post.body) for post in posts] == [
        ("schema", CheckSchema(1, "input", FIELDS, GIVEN, 3_000, "app.Query"))
    ]
    assert head.state.next_check == 2
    assert head.state.checks.size == 1


@pytest.mark.parametrize(
    ("status", "told", "kind", "detail", "problems"),
    [
        ("invalid", (WRONG,), "denied", WRONG_INPUT, (WRONG,)),
        ("invalid", (), "denied", WRONG_INPUT, (SchemaProblem("", "it could not be checked"),)),
        ("failed", (WRONG,), "unavailable", "its input could not be checked: /q: is wrong", ()),
        ("failed", (), "unavailable", "its input could not be checked: no reason was given", ()),
    ],
)
def test_a_wrong_input_is_denied_and_a_failed_check_is_said(
    status: str, told: tuple[SchemaProblem, ...], kind: str, detail: str, problems: tuple[SchemaProblem, ...]
) -> None:
    head, _ = asked()
    (post,) = head.hears("schema", SchemaChecked(1, status, told))  # type: ignore[arg-type]  # a status
    end = post.body
    assert isinstance(end, DelegationEnded)
    assert (end.turn, end.call, end.kind, end.detail, end.problems) == (2, 1, kind, detail, problems)
    assert head.state.checks.size == 0


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_an_agent_begins_once_its_input_and_its_schema_are_good(order: tuple[int, int]) -> None:
    head, posts = asked(SCHEMA)
    checks = [post.body for post in posts if isinstance(post.body, CheckSchema)]
    assert [check.task for check in checks] == ["input", "accept"]
    first, last = order
    assert head.accepts(first) == []
    assert head.accepts(first) == []
    assert [type(post.body) for post in head.accepts(last)] == [Begin]


def test_an_answer_for_a_call_that_was_cancelled_begins_nothing() -> None:
    head, _ = asked()
    head.ends("host")
    assert head.accepts() == []
    assert head.record("host.1") is None
