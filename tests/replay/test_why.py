import pytest

from callboard.actors.protocol.client_messages import Ask, AskEnded
from callboard.actors.protocol.errors import UnknownName
from callboard.actors.protocol.messages import (
    Begin,
    Delegate,
    DelegationEnded,
    ReportBack,
    ReportJudged,
    TurnRequested,
)
from callboard.actors.protocol.port_messages import CallModel, CallTool, ModelReplied, ToolReturned
from callboard.replay.recording import Recording
from callboard.replay.why import parts_of
from callboard.runtime.agent import Agent
from callboard.runtime.log.memory import MemoryReader
from callboard.runtime.models.scripted import call, say
from tests.golden import SESSIONS, golden, recorded
from tests.replay.diagnosis.planted import refused_report, stale
from tests.replay.diagnosis.user_stories import by_a_program, gave_up_a_task, price_of, told
from tests.replay.logs import survey
from tests.replay.stories import WRONG, fork_of_a_fork, poisoned_sum
from tests.tables import table

LOOK = call("price_of", order="A-1")


@pytest.fixture(scope="module")
def recording() -> Recording:
    return Recording.open(MemoryReader(survey()), "one")


def goldens() -> list[str]:
    return sorted(SESSIONS)


def first(recording: Recording, kind: type) -> int:
    return next(event.seq for event in recording.events if isinstance(event.body, kind))


def test_the_way_begins_with_the_clients_input_and_ends_with_the_event(recording: Recording) -> None:
    for event in recording.events:
        way = recording.why(event.seq).way
        assert way[-1] == event
        assert way[0].sender == "client"
        assert [one.seq for one in way] == sorted({one.seq for one in way})


def test_the_parts_of_a_request_are_those_that_its_turn_names(recording: Recording) -> None:
    for event in recording.events:
        if isinstance(event.body, TurnRequested):
            assert [one.seq for one in parts_of(recording, event)] == sorted(event.body.new)
        elif isinstance(event.body, CallModel):
            asked = recording.event(event.body.request).body
            assert isinstance(asked, TurnRequested)
            assert [one.seq for one in parts_of(recording, event)] == sorted(asked.new)


@table("name", goldens())
def test_the_parts_of_all_turns_so_far_are_the_content_of_a_request(name: str) -> None:
    recording = recorded(golden(name))
    grants = [event for event in recording.events if isinstance(event.body, CallModel)]
    assert grants
    for event in grants:
        assert isinstance(event.body, CallModel)
        parts = _parts_so_far(recording, event.body.agent, event.body.request)
        said = [bytes(message) for message in recording.request(event.seq).messages]
        replies = [bytes(part.content) for part in parts if isinstance(part, ModelReplied)]
        from_model = [one for one in said if one.startswith(b'{"role":"assistant"')]
        assert [f'{{"role":"assistant","content":{one.decode()}}}'.encode() for one in replies] == from_model
        given = b"".join(one for one in said if one not in from_model)
        assert all(text in given for text in map(_given, parts))
        assert given.count(b'"type":"tool_result"') >= sum(isinstance(part, ToolReturned) for part in parts)


def _parts_so_far(recording: Recording, agent: str, upto: int) -> list[object]:
    turns = [one.body for one in recording.events_of(agent, upto) if isinstance(one.body, TurnRequested)]
    return [recording.event(seq).body for turn in turns for seq in turn.new]


def _given(part: object) -> bytes:
    """Return the text that a part brings into what the model reads."""
    match part:
        case Begin(prompt=prompt):
            return bytes(prompt)
        case ToolReturned(output=output):
            return bytes(output)
        case _:
            return b""


def test_a_value_in_the_result_of_a_program_comes_from_the_step_that_read_it() -> None:
    recording = by_a_program()
    end = first(recording, AskEnded)
    calls = [event.seq for event in recording.events if isinstance(event.body, ToolReturned)]
    assert [recording.why(end, value).source[-1].seq for value in ("41900", "390534")] == calls


def test_a_call_is_made_of_the_reply_that_wants_it(recording: Recording) -> None:
    for kind in (CallTool, Delegate):
        (part,) = recording.why(first(recording, kind)).parts
        assert isinstance(part.body, ModelReplied)


def test_an_end_and_a_judgement_are_made_of_the_report_and_not_of_its_check() -> None:
    for recording, end in ((recorded(golden("report")), AskEnded), (stale(), DelegationEnded)):
        for kind in (ReportJudged, end):
            (part,) = recording.why(first(recording, kind)).parts
            assert isinstance(part.body, ReportBack)


def test_a_check_that_found_something_wrong_is_named() -> None:
    recording = refused_report()
    (refused,) = (
        event for event in recording.events if isinstance(event.body, ReportJudged) and event.body.problems
    )
    assert [one.kind for one in recording.why(refused.seq).parts] == ["SchemaChecked"]


def test_an_agent_begins_with_its_profile_and_its_delegation(recording: Recording) -> None:
    begins = [event.seq for event in recording.events if isinstance(event.body, Begin)]
    host, child = (recording.why(seq).parts for seq in begins)
    assert [one.kind for one in host] == ["SessionOpened", "Ask"]
    assert [one.kind for one in child] == ["SessionOpened", "Delegate"]


def test_a_value_is_followed_to_the_tool_that_returned_it() -> None:
    recording = poisoned_sum()
    end = next(
        event
        for event in recording.events
        if isinstance(event.body, DelegationEnded) and b"4190000" in bytes(event.body.value)
    )
    source = recording.why(end.seq, "4190000").source
    assert [one.kind for one in source] == ["DelegationEnded", "ReportBack", "ModelReplied", "ToolReturned"]
    assert source[-1].recipient == f"host.{WRONG}"


def test_a_value_is_followed_to_the_model_that_made_it_up() -> None:
    recording = poisoned_sum()
    total = str(11 * 41_900 + 4_190_000)
    answer = recording.events[-3]
    source = recording.why(answer.seq, total).source
    assert isinstance(source[-1].body, ModelReplied)
    assert source[-1].recipient == "host"


@pytest.mark.parametrize(
    ("said", "value", "like"),
    [
        ("A-1 costs 49,100.", "49,100", "41900"),
        ("A-1 costs 83,800 in all.", "83,800", ""),
        ("It is order ORD-48231.", "ORD-48231", "ord-48213"),
        ("It is order ORD-48219.", "ORD-48219", ""),
    ],
)
def test_a_value_with_a_slip_names_the_input_that_is_nearly_the_same(
    said: str, value: str, like: str
) -> None:
    recording = told(Agent("host", tools=[price_of]), "And ord-48213?", {"host": [LOOK, say(said)]})
    (end,) = (one for one in recording.events if isinstance(one.body, AskEnded))
    found = recording.why(end.seq, value).like
    assert (found is not None and found[0]) == (like or False)
    assert found is None or found[1].kind == ("ToolReturned" if like == "41900" else "Begin")


def test_a_value_is_followed_to_the_prompt(recording: Recording) -> None:
    event = first(recording, TurnRequested)
    assert isinstance(recording.why(event - 1, "How many").source[-1].body, Ask)


def test_a_value_that_the_event_does_not_hold_is_refused(recording: Recording) -> None:
    with pytest.raises(UnknownName, match="does not contain 'gold'"):
        recording.why(first(recording, ToolReturned), "gold")
    with pytest.raises(UnknownName, match="there is no 99"):
        recording.why(99)


def test_a_text_that_waited_for_the_end_of_a_task_comes_from_the_reply_that_has_it() -> None:
    recording = gave_up_a_task()
    end = first(recording, AskEnded)
    source = recording.why(end, "objection").source[-1]
    assert isinstance(source.body, ModelReplied)
    assert (source.recipient, b"objection" in bytes(source.body.content)) == ("host", True)


def test_an_answer_that_a_fork_has_changed_comes_from_the_client() -> None:
    rainy = fork_of_a_fork({("host", 1, 0): "Rome: rain"})
    returned = first(rainy, ToolReturned)
    assert [one.kind for one in rainy.why(returned, "rain").source] == ["ToolReturned", "Forked"]
    assert {one.kind for one in rainy.why(returned).parts} == {"CallTool", "Forked"}
    told = fork_of_a_fork({("host", 2, -1): "Stay at home."})
    end = first(told, AskEnded)
    assert told.why(end, "home").source[-1].kind == "Forked"


def test_an_answer_that_a_fork_took_from_its_recording_comes_from_the_tool() -> None:
    again = fork_of_a_fork({("host", 2, -1): "Stay at home."})
    returned = first(again, ToolReturned)
    assert again.why(returned, "sun").source[-1].kind == "ToolReturned"
