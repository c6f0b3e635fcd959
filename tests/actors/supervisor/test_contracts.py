"""Agents with a contract, or broken: what their callers are told."""

from msgspec.structs import replace

from callboard.actors.protocol.contracts import Callee
from callboard.actors.protocol.folded_results import FOLDED_BYTES_MIN, json_bytes
from callboard.actors.protocol.immutable import NULL, Json
from callboard.actors.protocol.limits import DEFAULTS
from callboard.actors.protocol.messages import Delegate, DelegationEnded
from callboard.actors.protocol.profiles import Profile
from callboard.actors.protocol.prompts import delegation_result
from callboard.actors.protocol.value_types import CallMetadata, SchemaProblem
from callboard.actors.supervisor.contracts import (
    ROOMS_HOLD_SINCE,
    callee_of,
    described_end,
    roster_of,
)
from callboard.actors.supervisor.state import SupervisorState

FIELDS = Json(b'{"type":"object"}')
HOST = Profile("host", agents=("tool", "plain", "made", "gone", "absent"))
PEOPLE = (
    HOST,
    Profile("tool", "the tool", input_schema=FIELDS, context="words"),
    Profile("plain", "the plain"),
    Profile("made", "the made", factory="make"),
    Profile("gone", "the gone", unavailable="it is broken"),
)
STATE = SupervisorState(profiles={one.name: (one, NULL) for one in PEOPLE})


def wish(name: str) -> Delegate:
    """Return a delegation to this agent."""
    return Delegate(1, 0, (name,), Json(b'"p"'))


def test_a_caller_is_told_of_contracts_below_the_depth_limit_only() -> None:
    roster, callees = roster_of(STATE, HOST, 0, DEFAULTS)
    assert roster[:2] == (("tool", "the tool"), ("plain", "the plain"))
    assert callees == (Callee("tool", FIELDS),)
    assert roster_of(STATE, HOST, 3, replace(DEFAULTS, max_depth=3)) == ((), ())


def test_the_end_of_each_delegation_has_metadata_and_a_question_has_none() -> None:
    end = DelegationEnded(1, 0, "denied", problems=(SchemaProblem("/q", "is missing"),))
    answer = DelegationEnded(1, 0, "answered")
    assert described_end(STATE, end, "host", "tool").metadata == CallMetadata(
        "tool", "host", "invalid_input", "words"
    )
    plain = described_end(STATE, end, "host", "plain"), described_end(STATE, answer, "host", "plain")
    assert [one.metadata and one.metadata.response for one in plain] == ["error", "ok"]
    assert described_end(STATE, end, "host", "").metadata is None
    names = [callee_of(STATE, wish(name)) for name in ("tool", "made", "gone", "plain", "absent")]
    assert names == ["tool", "made", "gone", "plain", ""]
    assert callee_of(STATE, replace(wish("plain"), implicit=Json(b"{}"))) == ""
    assert callee_of(STATE, replace(wish("tool"), profiles=("tool", "plain"))) == "tool"


def test_no_result_of_an_agent_tool_is_longer_than_its_room() -> None:
    wrong = tuple(SchemaProblem("/field", f"is wrong in its own way, number {at}") for at in range(9))
    state = replace(STATE, rules=ROOMS_HOLD_SINCE)
    for room in (1, FOLDED_BYTES_MIN - 1, FOLDED_BYTES_MIN, 300, 500):
        end = DelegationEnded(1, 0, "denied", detail="it does not match", room=room, problems=wrong)
        told = described_end(state, end, "host", "tool")
        assert json_bytes(delegation_result(told)[0]) <= room
        assert told.metadata is not None
        assert told.metadata.response == ("error" if room < FOLDED_BYTES_MIN else "invalid_input")
        assert described_end(STATE, end, "host", "tool").problems == wrong  # as its rules have it
