"""A supervisor, a session and an agent begin with empty books."""

import msgspec

from callboard.actors.protocol.bundles import Allowed, Bundle
from callboard.actors.protocol.immutable import NULL
from callboard.actors.protocol.layers import Layer
from callboard.actors.protocol.limits import DEFAULTS, Limits
from callboard.actors.protocol.messages import Delegate
from callboard.actors.protocol.profiles import ModelSpec, Profile
from callboard.actors.protocol.usage import NOTHING, ZERO
from callboard.actors.supervisor.state import (
    AskState,
    Check,
    Delegation,
    Record,
    SchemaVerdict,
    SupervisorState,
    Timer,
)

PROFILE = Profile("kid")
RECORD = Record("host.1", 1, 4, PROFILE, ModelSpec("m"), Limits(), 1)


def stated(one: msgspec.Struct) -> dict[str, object]:
    """Return the fields with a default that is neither empty nor None, and those that are numbers."""
    fields = msgspec.structs.fields(type(one))
    values = {field.name: getattr(one, field.name) for field in fields if not field.required}
    return {name: value for name, value in values.items() if isinstance(value, int) and value}


def unset(one: msgspec.Struct) -> set[str]:
    """Return the numbers and flags that are 0 and False."""
    fields = msgspec.structs.fields(type(one))
    return {one_.name for one_ in fields if not one_.required and getattr(one, one_.name) in (0,)}


def test_numbers_of_a_session_count_from_one_and_its_rules_are_the_first() -> None:
    assert stated(SupervisorState()) == {"next_ticket": 1, "next_check": 1, "next_timer": 1, "rules": 1}
    assert unset(SupervisorState()) == {"in_flight", "is_closing", "agents", "live"}
    assert (SupervisorState().phase, SupervisorState().limits) == ("new", DEFAULTS)


def test_a_new_agent_runs_and_has_used_nothing() -> None:
    assert stated(RECORD) == {"next_ordinal": 1, "is_running": True}
    assert unset(RECORD) >= {"turn", "attempt", "turn_children", "background"}
    assert unset(RECORD) >= {"ends", "told", "deadline_timer", "turn_timer", "is_stopped", "is_drained"}
    assert not RECORD.is_leaving
    assert (RECORD.spent, RECORD.reserved, RECORD.grant, RECORD.held) == (ZERO, NOTHING, None, None)
    assert RECORD.granted == (0, 0)
    assert msgspec.structs.replace(RECORD, turn=3, attempt=2).granted == (3, 2)


def test_a_new_delegation_waits_for_nothing() -> None:
    delegation = Delegation(1, 2, 3, (1, 2), NULL, Delegate(2, 3, ("kid",), NULL))
    assert stated(delegation) == {}
    assert unset(delegation) == {"is_checking", "waits", "running", "reports", "room", "is_background"}
    ask = AskState("r1", delegation, NULL, Limits())
    assert (stated(ask), unset(ask)) == ({}, {"deadline_timer", "grace_timer"})
    assert (Check("accept", "host", 1).schema, Timer("turn").until) == (0, None)


def test_a_schema_is_good_once_no_check_of_it_runs() -> None:
    assert SchemaVerdict(b"d").is_good
    assert not SchemaVerdict(b"d", 1).is_good
    assert SchemaVerdict(b"d").timeout_ms == 0


def test_the_rights_of_an_agent_are_those_from_above_and_its_own() -> None:
    above, own = Layer("the session"), Bundle(Allowed(tools=("look",)))
    profile = msgspec.structs.replace(PROFILE, permissions=own)
    record = msgspec.structs.replace(RECORD, handed=(above,), profile=profile)
    assert record.permissions == (above, Layer("agent kid", own.own))
    assert RECORD.permissions == ()
