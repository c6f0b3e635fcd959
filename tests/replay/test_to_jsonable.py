import msgspec
import pytest

from callboard.actors.protocol.intmap import IntMap
from callboard.actors.session.step import ActorState, initial, step
from callboard.actors.supervisor.state import Check, SupervisorState, Timer
from callboard.replay.to_jsonable import to_jsonable
from tests import golden


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
    assert found["timers"] == {"7": {"purpose": "deadline", "address": "host"}}
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
