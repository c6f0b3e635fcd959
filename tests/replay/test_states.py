from collections.abc import Callable

import msgspec
import pytest

from callboard.actors.agent.decider import decide_agent
from callboard.actors.agent.state import AgentState
from callboard.actors.protocol.addresses import SUPERVISOR
from callboard.actors.protocol.errors import Diverged
from callboard.actors.protocol.events import Event
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.messages import DeciderFailed
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.actors.protocol.profiles import Profile
from callboard.actors.session import step as step_module
from callboard.actors.session.step import ActorState, initial, step
from callboard.actors.supervisor.state import Check, SupervisorState, Timer
from callboard.replay import states as states_module
from callboard.replay.recording import Recording
from callboard.replay.states import States, state_digest, to_jsonable
from callboard.runtime.log.memory import MemoryLog, MemoryReader
from tests import golden
from tests.determinism import world
from tests.replay.logs import crashed, history_in, states_after, survey
from tests.tables import table

LOGS: dict[str, Callable[[], list[Event]]] = {
    **{name: lambda name=name: golden.golden(name) for name in golden.SESSIONS},  # type: ignore[misc]  # mypy infers no type of a lambda with a default
    **{f"simulated {seed}": lambda seed=seed: world(seed).log for seed in range(3)},  # type: ignore[misc]  # mypy infers no type of a lambda with a default
    "crashed": lambda: events_in(crashed()),
}


def events_in(log: MemoryLog) -> list[Event]:
    return list(Recording.open(MemoryReader(log)).events)


@table("name", LOGS)
def test_a_state_by_inbox_is_the_state_by_the_whole_log(name: str) -> None:
    events = LOGS[name]()
    recording = golden.recorded(events)
    states = States(history_in(events), len(events))
    for at in range(1, len(events) + 1, 1 + len(events) // 40):
        whole = states_after(events[:at])
        assert recording.states(at) == whole
        for actor, state in whole.items():
            assert recording.state(at, actor) == state
            assert states.state(at, actor) == state


def test_going_back_finds_the_states_of_going_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states_module, "SNAPSHOT_EVENTS", 3)
    events = golden.golden("everything")
    states = States(history_in(events), len(events))
    forward = [states.state(at, SUPERVISOR) for at in range(1, len(events) + 1)]
    kept = [seq for seq, _ in states._kept[SUPERVISOR]]
    assert len(kept) > 3
    assert [states.state(at, SUPERVISOR) for at in range(len(events), 0, -1)] == forward[::-1]
    assert [seq for seq, _ in states._kept[SUPERVISOR]] == kept


def test_a_step_back_reads_no_more_than_the_events_since_the_last_snapshot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(states_module, "SNAPSHOT_EVENTS", 3)
    events = golden.golden("everything")
    history = history_in(events)
    asked: list[tuple[int, int]] = []

    def watched(actor: str, first: int, last: int) -> object:
        asked.append((first, last))
        return history(actor, first, last)

    states = States(watched, len(events))  # type: ignore[arg-type]  # it returns what a history returns
    states.state(len(events), SUPERVISOR)
    states.state(len(events) - 1, SUPERVISOR)
    inbox = [event.seq for event in events if event.recipient == SUPERVISOR]
    first, _ = asked[-1]
    assert len([seq for seq in inbox if seq >= first]) <= 3


def test_an_actor_that_nothing_has_reached_has_no_state() -> None:
    events = golden.golden("everything")
    states = States(history_in(events), len(events))
    assert states.state(1, "host") is None
    assert states.state(len(events), "host.99") is None


def test_a_decision_that_raises_is_the_failure_that_the_log_has_further_on() -> None:
    events = events_in(crashed())
    failure = next(event for event in events if isinstance(event.body, DeciderFailed))
    states = States(history_in(events), len(events))
    with pytest.MonkeyPatch.context() as patch:
        raise_on_tools(patch)
        state = states.state(failure.cause, "host.1")
    assert isinstance(state, AgentState)
    assert state == states.state(failure.seq, "host.1")


def test_a_decision_that_raises_only_now_is_a_divergence_that_names_its_event() -> None:
    recording = Recording.open(MemoryReader(survey()))
    seq = next(event.seq for event in recording.events if isinstance(event.body, ToolReturned))
    with pytest.MonkeyPatch.context() as patch:
        raise_on_tools(patch)
        with pytest.raises(Diverged, match=f"host.1 raises ValueError on event {seq}"):
            recording.state(seq, "host.1")
        assert recording.state(seq - 1, "host.1") is not None
        patch.setattr(step_module, "decide_supervisor", _raising)
        patch.setattr(step_module, "decide_together", _raising)
        with pytest.raises(Diverged, match="supervisor raises ValueError on event 1,"):
            recording.state(seq, SUPERVISOR)


def raise_on_tools(patch: pytest.MonkeyPatch) -> None:

    def raising(state: AgentState, seq: int, body: msgspec.Struct) -> object:
        if type(body) is ToolReturned:
            raise ValueError
        return decide_agent(state, seq, body)  # type: ignore[arg-type]  # the state of an agent

    patch.setattr(step_module, "decide_agent", raising)


def _raising(*arguments: object) -> object:
    raise ValueError


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


@table("name", golden.SESSIONS)
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


@table("name", golden.SESSIONS)
def test_every_state_of_the_golden_logs_can_be_encoded_and_its_messages_stay_as_they_are(name: str) -> None:
    states: dict[str, ActorState] = {}
    for event in golden.golden(name):
        state, _ = step(states.get(event.recipient) or initial(event.recipient), event)
        states[event.recipient] = state
        assert set(json_of(state)) == set(state.__struct_fields__)
        assert to_jsonable(event.body) is event.body
    assert states
