import msgspec
import pytest

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import Profile
from callboard.actors.session.step import ActorState, initial, step
from callboard.actors.supervisor.state import Check, SupervisorState, Timer
from callboard.replay.digests import state_digest, to_jsonable
from tests import golden


def test_equal_states_have_equal_digests_by_any_way_to_them() -> None:
    one = IntMap[str]().put(5, "e").put(1, "a")
    other = IntMap[str]().put(1, "a").put(9, "x").put(5, "e").drop(9)
    assert state_digest(SupervisorState(queue=one)) == state_digest(SupervisorState(queue=other))
    names = {name: (Profile(name), msgspec.Raw(b"{}")) for name in "ba"}
    turned = dict(reversed(names.items()))
    assert state_digest(SupervisorState(profiles=names)) == state_digest(SupervisorState(profiles=turned))


def test_states_that_differ_in_anything_have_other_digests() -> None:
    states: list[ActorState] = [
        AgentState("host"),
        AgentState("host.1"),
        AgentState("host", turn=1),
        AgentState("host", fresh=(1,)),
        AgentState("host", history=IntMap[msgspec.Raw]().put(0, msgspec.Raw(b"1"))),
        AgentState("host", history=IntMap[msgspec.Raw]().put(1, msgspec.Raw(b"1"))),
        SupervisorState(),
        SupervisorState(live=1),
    ]
    assert len({state_digest(state) for state in states}) == len(states)


@pytest.mark.parametrize("name", golden.SESSIONS)
def test_every_state_of_the_golden_logs_has_a_digest_which_changes_with_the_state(name: str) -> None:
    states: dict[str, ActorState] = {}
    for event in golden.golden(name):
        before = states.get(event.recipient) or initial(event.recipient)
        after, _ = step(before, event)
        assert (state_digest(before) == state_digest(after)) == (before == after)
        states[event.recipient] = after


def test_a_value_without_a_canonical_form_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="holds a object"):
        state_digest(AgentState("host", text=object()))  # type: ignore[arg-type]  # a wrong value on purpose


def json_of(state: ActorState) -> dict[str, object]:
    return msgspec.json.decode(msgspec.json.encode(to_jsonable(state)), type=dict[str, object])


def test_a_sequence_is_a_list_and_any_other_map_an_object() -> None:
    others = IntMap[tuple[str, int]]().append(("host.1", 3))
    state = SupervisorState(
        queue=IntMap[str]().put(0, "host").put(1, "host.1"),
        timers=IntMap[Timer]().put(7, Timer("deadline", "host")),
        checks=IntMap[Check]().put(2, Check("accept", "host", 1, others=others)),
    )
    found = json_of(state)
    assert found["queue"] == ["host", "host.1"]
    assert found["timers"] == {"7": {"purpose": "deadline", "address": "host", "until": None}}
    assert found["schemas"] == []
    check = {"task": "accept", "parent": "host", "delegation": 1, "schema": 0, "others": [["host.1", 3]]}
    assert found["checks"] == {"2": check}


@pytest.mark.parametrize("name", golden.SESSIONS)
def test_every_state_of_the_golden_logs_can_be_encoded_and_its_messages_stay_as_they_are(name: str) -> None:
    states: dict[str, ActorState] = {}
    for event in golden.golden(name):
        state, _ = step(states.get(event.recipient) or initial(event.recipient), event)
        states[event.recipient] = state
        assert set(json_of(state)) == set(state.__struct_fields__)
        assert to_jsonable(event.body) is event.body
    assert states
