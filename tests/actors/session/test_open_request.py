"""Requests without an answer: which of those that may go on have perhaps had an effect."""

from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AnyMessage
from callboard.actors.protocol.port_messages import CallModel, CallTool, ToolReturned, ToolStatus
from callboard.actors.session.open_request import OpenRequest, may_have_acted
from tests.tables import table


def opened(body: AnyMessage) -> OpenRequest:
    return OpenRequest(Event(1, 0, "host", "tools", 0, body), "host")


READS, WRITES = (opened(CallTool(1, 0, "t", effect, NULL)) for effect in ("read", "write"))
OTHER = opened(CallModel("host", 1))


@table(
    ("status", "request_", "may"),
    [
        ("interrupted", None, True),
        ("interrupted", READS, True),
        ("ok", WRITES, False),
        ("error", WRITES, False),
        ("cancelled", WRITES, False),
        ("input_required", WRITES, True),
        ("input_required", opened(CallTool(1, 0, "t", "idempotent", NULL)), True),
        ("input_required", READS, False),
        ("input_required", OTHER, False),
        ("input_required", None, False),
    ],
)
def test_an_interrupted_call_and_one_that_asks_for_input_may_have_acted(
    status: ToolStatus, request_: OpenRequest | None, may: bool
) -> None:
    assert may_have_acted(ToolReturned(1, 0, status, NULL), request_) is may


def test_a_new_request_is_neither_answered_nor_given_up() -> None:
    flags = (READS.is_answered, READS.is_repeated, READS.is_unwanted, READS.is_given_up)
    assert flags == (False, False, False, False)
    assert READS.wish is None
