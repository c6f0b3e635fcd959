"""The table of port requests: complete, consistent with the messages, and enough for a new port."""

import subprocess
import sys
from typing import get_args

import pytest

from callboard.actors.protocol.addresses import PORTS
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event, Post
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.messages import AgentInput, AnyMessage, SupervisorInput, TurnRequested
from callboard.actors.protocol.port_messages import (
    ApprovalGiven,
    BudgetGiven,
    CallModel,
    CallTool,
    CapacityGiven,
    CheckSchema,
    ModelReplied,
    PortInput,
    RequestApproval,
    RequestBudget,
    RequestCapacity,
    ToolReturned,
    ToolStarted,
)
from callboard.actors.protocol.step_messages import RunStep
from callboard.actors.protocol.usage import ZERO, Need
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import INTERRUPTED, NEVER_STARTED, PORT_REQUESTS, requests_for
from tests.mutants.mutant import ROOT
from tests.tables import table

TIMERS = {"SetTimer", "ExtendTimer", "CancelTimer"}
ORDERS = {"CancelCall", "SettleBudget"}


def test_every_request_to_a_port_has_a_row_and_orders_are_the_gates() -> None:
    assert {kind.__name__ for kind in get_args(PortInput)} == {
        kind.__name__ for kind in PORT_REQUESTS
    } | TIMERS | ORDERS


@table("request_", PORT_REQUESTS, ids=lambda kind: kind.__name__)
def test_a_row_fits_its_messages(request_: type) -> None:
    row = PORT_REQUESTS[request_]
    assert row.port in PORTS
    assert row.answer in {*get_args(AgentInput), *get_args(SupervisorInput)}
    source = TurnRequested if row.through else request_
    for field in row.repeats:
        assert field in source.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct
        assert field in row.answer.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct
    assert not row.owner or row.owner in request_.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct


def test_each_kind_of_answer_belongs_to_one_kind_of_request_but_that_of_models_to_calls_and_steps() -> None:
    kinds = {row.answer: requests_for(row.answer) for row in PORT_REQUESTS.values()}
    assert kinds.pop(ModelReplied) == {CallModel, RunStep}
    assert all(len(requests) == 1 for requests in kinds.values())


def test_what_the_supervisor_asks_for_is_never_cancelled() -> None:
    gate = PortGate()
    check = Event(1, 0, "supervisor", "schema", 0, CheckSchema(1, "accept", NULL, NULL, 1))
    gate.on_events([check])
    with pytest.raises(TypeError, match="CheckSchema is never cancelled"):
        gate.cancelled(check)


NO_ARGUMENTS = Json(b"{}")
READ = CallTool(3, 5, "look", "read", NO_ARGUMENTS)
IDEMPOTENT = CallTool(3, 5, "put", "idempotent", NO_ARGUMENTS)
WRITE = CallTool(3, 5, "pay", "write", NO_ARGUMENTS)
NOT_STARTED = ToolReturned(3, 5, "cancelled", NEVER_STARTED)
CUT_OFF = ToolReturned(3, 5, "interrupted", INTERRUPTED)
ASKED = RequestApproval(3, 5, "pay", "write", NO_ARGUMENTS, True, round=7)
UNANSWERED = ApprovalGiven(3, 5, "cancelled", is_repeat=True, round=7)
NO_PLACE = CapacityGiven("host.2", 3, 5, "cancelled")
NO_BUDGET = BudgetGiven("host.2", 3, 5, "cancelled")


@table("has_started", [False, True])
@table(
    ("body", "repeated", "recipient", "answers"),
    [
        (
            CallModel("host.2", 9),
            (3, 5),
            "host.2",
            [
                ModelReplied(3, 5, "cancelled", usage=ZERO),
                ModelReplied(3, 5, "cancelled"),
                ModelReplied(3, 5, "lost"),
                ModelReplied(3, 5, "detached", usage=ZERO),
            ],
        ),
        (READ, (3, 5), "sender", [NOT_STARTED, (NOT_STARTED, CUT_OFF), None, None]),
        (IDEMPOTENT, (3, 5), "sender", [NOT_STARTED, CUT_OFF, None, None]),
        (WRITE, (3, 5), "sender", [NOT_STARTED, (NOT_STARTED, CUT_OFF), (None, CUT_OFF), None]),
        (ASKED, (3, 5, True, 7), "sender", [UNANSWERED, UNANSWERED, None, None]),
        (
            RequestCapacity("host.2", 3, 5, "m", Need(1)),
            ("host.2", 3, 5),
            "supervisor",
            [NO_PLACE, NO_PLACE, None, None],
        ),
        (
            RequestBudget("host.2", 3, 5, Need(1)),
            ("host.2", 3, 5),
            "supervisor",
            [NO_BUDGET, NO_BUDGET, None, None],
        ),
    ],
    ids=["model", "read", "idempotent", "write", "approval", "capacity", "budget"],
)
def test_the_answers_that_no_port_gives_are_these(
    body: AnyMessage,
    repeated: tuple[object, ...],
    recipient: str,
    answers: list[AnyMessage | tuple[AnyMessage | None, AnyMessage | None] | None],
    has_started: bool,
) -> None:
    """answers: cancelled, given up, after a crash, and detached; a pair for one that tells of the start."""
    row, request = PORT_REQUESTS[type(body)], Event(4, 0, "sender", "port", 0, body)
    assert row.cancelled is not None
    assert row.given_up is not None
    built = [
        row.cancelled(request, repeated),
        row.given_up(request, repeated, has_started),
        row.after_crash(request, repeated, has_started),
        row.detached(request, repeated) if row.detached is not None else None,
    ]
    expected = [one[has_started] if isinstance(one, tuple) else one for one in answers]
    assert built == [None if one is None else Post(recipient, one) for one in expected]


@pytest.mark.parametrize(
    ("body", "waits", "announced"),
    [
        (READ, False, None),
        (IDEMPOTENT, True, None),
        (WRITE, True, ToolStarted(3, 5)),
    ],
    ids=["read", "idempotent", "write"],
)
def test_a_tool_with_an_effect_waits_for_the_disk_and_a_write_says_that_it_starts(
    body: CallTool, waits: bool, announced: ToolStarted | None
) -> None:
    row = PORT_REQUESTS[CallTool]
    assert row.waits is not None
    assert row.announces is not None
    assert row.waits(body) is waits
    post = row.announces(Event(4, 0, "host.1", "tools", 0, body))
    assert post == (None if announced is None else Post("host.1", announced))


def test_a_grant_of_a_turn_that_was_not_requested_is_refused() -> None:
    gate = PortGate()
    gate.on_events([Event(1, 0, "host", "supervisor", 0, TurnRequested(1, 1, Need(5), "d"))])
    with pytest.raises(Diverged, match="event 3 grants a turn that its agent did not request"):
        gate.on_events([Event(3, 0, "supervisor", "model", 0, CallModel("host", 2))])


@pytest.mark.slow
def test_a_new_port_is_a_message_a_row_and_a_handler() -> None:
    """Run a process that adds a port to the sources, imports them, and drives the port in every way."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.actors.session.new_port"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["live", "verified", "resumed", "simulated"]
