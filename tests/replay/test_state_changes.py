import msgspec
from hypothesis import given
from hypothesis import strategies as st

from callboard import SharedKey, ToolContext
from callboard.actors.protocol.addresses import is_decider
from callboard.actors.protocol.intmap import IntMap
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.actors.protocol.request import ModelRequest
from callboard.replay.recording import Recording
from callboard.replay.states import Change, changes, to_jsonable, value_at
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import Step, call, say
from callboard.runtime.tools.tool import tool
from tests.golden import golden, recorded
from tests.replay.logs import survey
from tests.replay.stories import record


class Part(msgspec.Struct, frozen=True):
    a: int = 0
    b: IntMap[int] = IntMap()


class Whole(msgspec.Struct, frozen=True):
    part: Part = Part()
    words: tuple[str, ...] = ()


def as_map(values: dict[int, int]) -> IntMap[int]:
    found: IntMap[int] = IntMap()
    for key, value in values.items():
        found = found.put(key, value)
    return found


def wholes() -> st.SearchStrategy[Whole]:
    maps = st.dictionaries(st.integers(0, 5), st.integers(0, 2), max_size=4).map(as_map)
    return st.builds(
        Whole, st.builds(Part, st.integers(0, 2), maps), st.lists(st.text(max_size=2)).map(tuple)
    )


@given(wholes(), wholes())
def test_the_changes_are_exactly_the_fields_that_differ(before: Whole, after: Whole) -> None:
    found = list(changes(before, after))
    assert bool(found) == (to_jsonable(before) != to_jsonable(after))
    for change in found:
        assert (value_at(before, change.path), value_at(after, change.path)) == change[1:]
        assert change.before != change.after


def test_each_event_of_a_session_changes_its_recipient_only_where_it_differs() -> None:
    recording = recorded(golden("everything"))
    for event in recording.events:
        if event.recipient.startswith("host"):
            found = {change.path: change for change in recording.changes(event.seq)}
            state = recording.state(event.seq, event.recipient)
            assert all(change.after == value_at(state, path) for path, change in found.items())


def test_the_last_change_is_the_newest_event_that_changed_the_field() -> None:
    recording = Recording.open(MemoryReader(survey()), "one")
    replies = [e.seq for e in recording.events if isinstance(e.body, ModelReplied) and e.recipient == "host"]
    seq = recording.last_change("host", "phase", replies[1])
    assert seq < replies[1]
    assert any(change.path == "phase" for change in recording.changes(seq))
    assert recording.last_change("host", "no.such.field", len(recording.events)) == 0


def test_an_event_for_a_port_shows_the_changes_of_the_decision_that_posted_it() -> None:
    recording = recorded(golden("everything"))
    for event in recording.events:
        at, actor = recording.decision(event.seq)
        is_received = is_decider(event.recipient)
        assert (at, actor) == ((event.seq, event.recipient) if is_received else (event.cause, event.sender))
        own = [one for one in recording.changes(event.seq) if not one.path.startswith("shared.")]
        assert own == [one for one in recording.changes(at) if not one.path.startswith("shared.")]


def test_every_kind_of_input_shows_what_it_changed() -> None:
    recording = recorded(golden("everything"))
    inputs = {"ApprovalGiven", "Ask", "SchemaChecked", "TimerFired", "ToolReturned", "ModelReplied"}
    seen = {event.kind: event.seq for event in recording.events if event.kind in inputs}
    assert inputs - seen.keys() <= {"ApprovalGiven", "TimerFired"}
    for kind, seq in seen.items():
        assert recording.changes(seq), kind


def test_a_first_event_is_compared_with_a_new_actor() -> None:
    recording = Recording.open(MemoryReader(survey()), "one")
    found = {one.path for one in recording.changes(1)}
    assert "phase" in found
    assert "" not in found


def test_the_shared_keys_that_a_tool_changed_are_among_the_changes() -> None:
    @tool(effect="read")
    def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.update_state("seen", 2)
        return "noted"

    def policy(request: ModelRequest) -> Step:
        return call("note") if request.turn == 1 else say("Done.")

    host = Agent("host", tools=[note], state={"seen": SharedKey("add", 1)})
    recording = record(policy, host, "Note.")
    (seq,) = [event.seq for event in recording.events if event.kind == "ToolReturned"]
    assert Change("shared.seen", 1, 3) in recording.changes(seq)
