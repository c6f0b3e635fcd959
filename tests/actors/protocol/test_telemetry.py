"""Telemetry in the log, and nowhere else: no decision depends on it."""

import msgspec
import pytest
from msgspec.structs import replace

from callboard.actors.protocol.codec import decode, encode
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.telemetry import Metric, Telemetry
from callboard.actors.session.step import initial, step
from callboard.replay.testing.sessions.world import SessionWorld, in_random_order
from tests.mutants.scenarios_cache import CACHED

FULL = Telemetry(
    "look",
    "2",
    "s#1",
    1,
    2,
    3,
    4,
    5,
    "miss",
    "k",
    6,
    False,
    "code",
    "message",
    (Metric("rows", 7),),
    Json(b'{"a":1}'),
)


def test_telemetry_comes_back_from_the_log_with_the_same_bytes() -> None:
    for told in (FULL, Telemetry(), Telemetry(metadata=Json(b"null"))):
        body = ToolReturned(1, 0, telemetry=told)
        assert decode(encode(body)) == body
        assert encode(decode(encode(body))) == encode(body)


def test_equal_metrics_have_equal_bytes() -> None:
    assert msgspec.json.encode(Metric("a", 3)) == msgspec.json.encode(Metric("a", 3.0))
    assert Telemetry().metadata is NULL
    with pytest.raises(ValueError, match="finite"):
        Metric("a", float("nan"))


@pytest.mark.parametrize("name", CACHED)
def test_no_decision_depends_on_telemetry(name: str) -> None:
    log = SessionWorld(CACHED[name]).run(in_random_order(1)).log
    for address in {event.recipient for event in log if event.recipient.startswith(("host", "supervisor"))}:
        plain = told = initial(address)
        for event in (one for one in log if one.recipient == address):
            body = event.body
            if isinstance(body, ToolReturned):
                body = replace(body, telemetry=FULL)
            plain, first = step(plain, event)
            told, second = step(told, replace(event, body=body))
            assert (told, second) == (plain, first)
