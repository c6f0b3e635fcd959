"""Secret values that people give to calls: kept in memory for one call, and never in the log."""

from typing import Any

import msgspec
import pytest

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import CallTool, RequestApproval
from callboard.actors.protocol.value_types import InputAsked, InputGiven
from callboard.runtime.secrets.registry import Secrets
from callboard.runtime.sessions.secret_inputs import SecretInputs

FORM = Json(
    msgspec.json.encode(
        {
            "login": {
                "message": "Log in.",
                "schema": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string"},
                        "password": {"type": "string", "format": "password"},
                    },
                },
            }
        }
    )
)
VALUES = Json(b'{"login":{"name":"ann","password":"hunter2hunter2"}}')
HIDDEN = b'{"login":{"name":"ann","password":"[secret:password]"}}'


def request(agent: str = "host", turn: int = 1, call: int = 0, number: int = 1) -> Event:
    body = RequestApproval(turn, call, "login", "write", Json(b"{}"), round=number, form=FORM)
    return Event(5, 0, agent, "approvals", 0, body)


def call(turn: int = 1, number: int = 0, values: bytes = HIDDEN, *, round: int = 1) -> CallTool:
    return CallTool(turn, number, "login", "write", Json(b"{}"), given=InputGiven(round, Json(values)))


def values_of(given: InputGiven | None) -> Any:
    return None if given is None else msgspec.json.decode(given.values)


def test_a_secret_value_goes_to_its_call_once_and_a_placeholder_into_the_log() -> None:
    inputs, secrets = SecretInputs(), Secrets()
    assert bytes(inputs.take(request(), VALUES, secrets)) == HIDDEN
    assert inputs.has("host", call(), InputAsked(FORM))
    assert values_of(inputs.whole("host", call())) == msgspec.json.decode(VALUES)
    assert values_of(inputs.whole("host", call())) == msgspec.json.decode(HIDDEN)
    assert not inputs.has("host", call(), InputAsked(FORM))


def test_a_secret_value_is_learned_so_that_it_is_redacted_everywhere() -> None:
    inputs, secrets = SecretInputs(), Secrets()
    inputs.take(request(), VALUES, secrets)
    assert "hunter2" not in secrets.redactor.text("say hunter2hunter2")


def test_a_value_that_is_too_short_to_be_searched_for_is_still_kept() -> None:
    inputs = SecretInputs()
    short = Json(b'{"login":{"name":"ann","password":"x"}}')
    assert bytes(inputs.take(request(), short, Secrets())) == HIDDEN
    assert values_of(inputs.whole("host", call()))["login"]["password"] == "x"


@pytest.mark.parametrize(
    ("agent", "other"),
    [("host.1", call()), ("host", call(2)), ("host", call(1, 1)), ("host", call(round=2))],
)
def test_no_other_call_gets_it(agent: str, other: CallTool) -> None:
    inputs = SecretInputs()
    inputs.take(request(), VALUES, Secrets())
    assert not inputs.has(agent, other, InputAsked(FORM))
    assert values_of(inputs.whole(agent, other)) == msgspec.json.decode(HIDDEN)


def test_values_without_secrets_and_calls_without_input_are_left_alone() -> None:
    inputs = SecretInputs()
    plain = Json(b'{"login":{"name":"ann"}}')
    assert inputs.take(request(), plain, Secrets()) is plain
    assert inputs.take(request(), NULL, Secrets()) is NULL
    assert inputs.has("host", call(values=bytes(plain)), InputAsked(FORM))
    bare = CallTool(1, 0, "login", "write", Json(b"{}"))
    assert inputs.has("host", bare, InputAsked(FORM))
    assert inputs.whole("host", bare) is None
