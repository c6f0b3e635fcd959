"""The data of a page holds the session: its events, its agents' states, its figures."""

import json
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callboard.actors.agent.state import AgentState, initial_agent
from callboard.actors.protocol.addresses import is_agent
from callboard.replay.page import changes, lines
from callboard.replay.page.changes import Change
from callboard.replay.page.lines import Shared
from callboard.replay.page.packing import Cutting
from callboard.replay.recording import Recording
from callboard.runtime.log.memory import MemoryReader
from tests.golden import SESSIONS, golden, stored
from tests.replay.exports.kit import bodies, events_of, log_of
from tests.replay.logs import crashed, survey
from tests.replay.page.kit import PageData, page_of
from tests.replay.stories import asked_twice, endless_loop, ignored_report, poisoned_sum
from tests.tables import table

STORIES: dict[str, Callable[[], Recording]] = {
    "survey": lambda: Recording.open(MemoryReader(survey())),
    "crashed": lambda: Recording.open(MemoryReader(crashed())),
    "ignored": ignored_report,
    "poisoned": poisoned_sum,
    "loop": endless_loop,
}
GOLDEN = sorted(SESSIONS)


def flat(state: AgentState) -> dict[str, object]:
    """Return a state by paths, compared with a new agent's."""
    change = Change(0, {}, [])
    changes._compare_fields("", initial_agent(state.address), state, change)
    return {path: json.loads(value) for path, value in change.values.items()}


names = st.text(alphabet='~"a: ', max_size=70)


def check_state(recording: Recording, data: PageData, agent: str, seq: int) -> None:
    """Compare a state in a page with that of the recording."""
    state = recording.state(seq, agent)
    assert isinstance(state, AgentState)
    expected, found = flat(state), data.state(agent, seq)
    assert {path: found.get(path) for path in expected} == expected, (agent, seq)
    for path in found.keys() - expected.keys():  # as a new agent has it
        new = getattr(initial_agent(agent), path.partition(".")[0])
        assert "." in path or json.loads(msgspec.json.encode(changes._shown(new))) == found[path], path


def check_states(recording: Recording, seqs: list[int]) -> None:
    """Compare the states of the recipients of some events."""
    data = PageData(page_of(recording))
    agents = {seq: agent for seq in seqs if is_agent(agent := recording.event(seq).recipient)}
    assert agents
    for seq, agent in agents.items():
        check_state(recording, data, agent, seq)


@table("name", STORIES)
def test_events_can_be_read_from_a_page_as_they_are_in_the_log(name: str) -> None:
    recording = STORIES[name]()
    data = PageData(page_of(recording))
    rows = list(recording.rows)
    assert [body.encode() for body in data.bodies[1:]] == [row.body for row in rows]
    assert data.envelopes() == [(row.seq, row.at, row.sender, row.recipient, row.cause) for row in rows]
    assert data.summary["head"] == f"{recording.head.seq}:{recording.head.digest.hex()}"


@given(st.lists(bodies(), min_size=1, max_size=4))
def test_hostile_bodies_are_the_same_values_in_a_page(messages: list[object]) -> None:
    recording = Recording.open(MemoryReader(log_of(events_of(messages))))  # type: ignore[arg-type]  # drawn messages
    data = PageData(page_of(recording))
    assert [json.loads(body) for body in data.bodies[1:]] == [json.loads(row.body) for row in recording.rows]
    assert [one[:2] for one in data.envelopes()] == [(row.seq, row.at) for row in recording.rows]


@pytest.mark.parametrize("name", sorted(STORIES.keys() - {"crashed"}))
def test_the_state_of_every_agent_after_every_event_follows_from_the_changes(name: str) -> None:
    recording = STORIES[name]()
    last = len(recording.events)
    seqs = list(range(1, last + 1)) if last < 200 else [*range(1, last + 1, 7), last]
    check_states(recording, seqs)


def test_an_agent_whose_decider_failed_has_failed_in_the_page() -> None:
    recording = STORIES["crashed"]()
    data = PageData(page_of(recording))
    for agent in ("host", "host.1"):
        check_state(recording, data, agent, len(recording.events))
    (failed,) = [event for event in recording.events if event.kind == "DeciderFailed"]
    assert data.state("host.1", failed.cause)["phase"] == "failed"


@pytest.mark.slow
@pytest.mark.parametrize("name", GOLDEN)
def test_the_last_states_of_golden_sessions_follow_from_the_changes(name: str) -> None:
    recording = Recording.open(MemoryReader(stored(golden(name))))
    last = {event.recipient: event.seq for event in recording.events if is_agent(event.recipient)}
    check_states(recording, [*last.values()])
    assert PageData(page_of(recording)).summary["diverged"] == {}


@given(
    st.recursive(
        st.text(alphabet='~"\\p1.\n é:', max_size=90) | st.integers() | st.none(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner),
    ),
    st.lists(st.text(alphabet='~"\\ab:', max_size=90), min_size=1, max_size=3),
)
def test_a_value_is_the_same_after_its_shared_texts_are_put_back(value: object, texts: list[str]) -> None:
    body = msgspec.json.encode({"type": "Cancel", "reason": texts, "again": value})
    shared, data = Shared(Cutting()), PageData.__new__(PageData)
    shared.note(1, body)
    written = [*shared.lines_of(Change(7, {"a": msgspec.json.encode([value, texts])}, ["b"]))]
    data.bodies, data.shared = ["", body.decode()], [json.loads(one[1:]) for one in written[:-1]]
    seq, values, dropped = json.loads(written[-1])
    assert (seq, dropped) == (7, ["b"])
    assert data.meant(values["a"]) == json.loads(msgspec.json.encode([value, texts]))


def test_content_stands_in_a_page_once() -> None:
    recording = poisoned_sum()
    data = PageData(page_of(recording))
    held = sum(map(len, data.bodies))
    changed = sum(len(json.dumps(values)) for _, values, _ in data.changes)
    assert changed < 1.5 * held
    assert any("~" in json.dumps(values) for _, values, _ in data.changes)


def test_a_session_whose_code_has_changed_is_still_a_page_and_says_where(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = Recording.open(MemoryReader(survey()))

    def refuse(*_: object) -> None:
        raise ValueError("decides otherwise now")

    monkeypatch.setattr("callboard.actors.session.step.decide_agent", refuse)
    data = PageData(page_of(recording))
    assert len(data.bodies) == len(recording.events) + 1
    assert set(data.summary["diverged"]) >= {"host"}
    assert "callboard verify" in data.summary["diverged"]["host"]


def test_the_agents_the_spans_and_the_findings_are_those_of_the_recording() -> None:
    recording = endless_loop()
    summary = PageData(page_of(recording)).summary
    assert [one[0] for one in summary["agents"]] == [node.address for _, node in recording.tree().folded()]
    assert [one[1:3] for one in summary["spans"]] == [[s.first.seq, s.last.seq] for s in recording.spans()]
    assert [one[2] for one in summary["findings"]] == [one.seq for one in recording.diagnose()]
    assert summary["format"] == lines.FORMAT


def test_an_answered_question_is_a_turn_of_its_program() -> None:
    recording = asked_twice()
    summary = PageData(page_of(recording)).summary
    assert [(one[0], one[7]) for one in summary["agents"]] == [("host", 2)]
    assert [one[0] for one in summary["questions"]] == ["host.1", "host.2"]
    spans = [(one[0], one[3], one[4]) for one in summary["spans"] if one[0] != "ask"]
    assert spans.count(("turn", "host", "ask_model")) == 2
    assert {kind for kind, _, _ in spans} == {"turn"}
    assert {agent for _, agent, _ in spans} == {"host"}
