import msgspec
import pytest

from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.profiles import Profile
from callboard.actors.session.step import ActorState, initial, step
from callboard.actors.supervisor.state import SupervisorState
from callboard.replay.digests import state_digest
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
        state_digest(AgentState("host", text=object()))  # type: ignore[arg-type]
