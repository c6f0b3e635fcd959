"""The table of port requests: complete, consistent with the messages, and enough for a new port."""

import subprocess
import sys
from typing import get_args

import pytest

from callboard.actors.protocol.addresses import PORTS
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.messages import AgentInput, SupervisorInput, TurnRequested
from callboard.actors.protocol.port_messages import CallModel, CheckSchema, PortInput
from callboard.actors.protocol.usage import Need
from callboard.actors.session.port_gate import PortGate
from callboard.actors.session.port_table import PORT_REQUESTS
from tests.mutants.mutant import ROOT

TIMERS = {"SetTimer", "ExtendTimer", "CancelTimer"}
ORDERS = {"CancelCall"}


def test_every_request_to_a_port_has_a_row_and_orders_are_the_gates() -> None:
    assert {kind.__name__ for kind in get_args(PortInput)} == {
        kind.__name__ for kind in PORT_REQUESTS
    } | TIMERS | ORDERS


@pytest.mark.parametrize("request_", PORT_REQUESTS, ids=lambda kind: kind.__name__)
def test_a_row_fits_its_messages(request_: type) -> None:
    row = PORT_REQUESTS[request_]
    assert row.port in PORTS
    assert row.answer in {*get_args(AgentInput), *get_args(SupervisorInput)}
    source = TurnRequested if row.through else request_
    for field in row.repeats:
        assert field in source.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct
        assert field in row.answer.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct
    assert not row.owner or row.owner in request_.__struct_fields__  # type: ignore[attr-defined]  # a message is a struct


def test_each_kind_of_answer_belongs_to_one_kind_of_request() -> None:
    answers = [row.answer for row in PORT_REQUESTS.values()]
    assert len(set(answers)) == len(answers)


def test_what_the_supervisor_asks_for_is_never_cancelled() -> None:
    gate = PortGate()
    check = Event(1, 0, "supervisor", "schema", 0, CheckSchema(1, "accept", NULL, NULL, 1))
    gate.on_events([check])
    with pytest.raises(TypeError, match="CheckSchema is never cancelled"):
        gate.cancelled(check)


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
