import json

from callboard.actors.protocol.client_messages import AskEnded
from callboard.actors.protocol.port_messages import ToolReturned
from callboard.cli.why_command import _first_words
from tests.cli.conftest import Callboard
from tests.replay.diagnosis.user_stories import by_a_program
from tests.replay.stories import fork_of_a_fork


def test_the_way_the_parts_and_the_source_are_shown(callboard: Callboard) -> None:
    done = callboard("why", "20250101-survey#26", "--value", "3 files", "--full")
    assert done.exit_code == 0
    way, parts, source = (part.splitlines() for part in done.stdout.strip().split("\n\n")[:3])
    assert way[0] == "the way to it"
    assert [line.split()[0] for line in (way[1], way[-1])] == ["2", "26"]
    assert parts[0] == "made of"
    assert source[0] == "the source of '3 files'"
    assert done.stdout.splitlines()[-1] == "event 16, host.1:1:0: a tool returned it to host.1"
    assert "chain not checked" in done.stderr


def test_a_long_way_is_cut_in_the_middle(callboard: Callboard) -> None:
    assert "more events; --full shows them" in callboard("why", "20250101#26").stdout


def test_an_event_is_named_in_three_ways(callboard: Callboard) -> None:
    named = [callboard("why", *words, "--json").stdout for words in (["20250101#9"], ["20250101", "9"])]
    assert named[0] == named[1]
    newest = json.loads(callboard("why", "3", "--json").stdout)
    assert newest["session"] == "20250103-failed"


def test_as_json_the_lists_have_seqs(callboard: Callboard) -> None:
    found = json.loads(callboard("why", "20250101#23", "--json", "--check").stdout)
    assert found["checked"]
    assert [one["seq"] for one in found["parts"]] == [6, 10, 21]
    assert found["way"][0]["kind"] == "Ask"
    assert found["source"] == []


def test_the_words_for_each_source(callboard: Callboard) -> None:
    made_up = callboard("why", "20250101#26", "--value", "That is all").stdout
    assert "event 24, host:2: the model of host wrote it; nothing that it was asked holds it" in made_up
    asked = callboard("why", "20250101#3", "--value", "are there").stdout
    assert "event 2: the client wrote it" in asked
    described = callboard("why", "20250101#3", "--value", "Answers.").stdout
    assert "event 1: it stands in the description of an agent" in described


def test_what_a_program_made_itself_is_not_ascribed_to_a_model() -> None:
    recording = by_a_program()
    end = next(event.seq for event in recording.events if isinstance(event.body, AskEnded))
    said = _first_words(recording.why(end, "41900 and"))
    assert said.endswith("the program host made it; nothing that it was given holds it")


def test_a_change_of_a_fork_is_not_ascribed_to_a_tool() -> None:
    recording = fork_of_a_fork({("host", 1, 0): "Rome: rain"})
    returned = next(event.seq for event in recording.events if isinstance(event.body, ToolReturned))
    assert _first_words(recording.why(returned, "rain")).endswith(
        ": the client wrote it, as a change of this fork"
    )


def test_what_a_model_made_itself_is_shown_with_its_inputs(callboard: Callboard) -> None:
    shown = callboard("why", "20250101#26", "--value", "That is all").stdout
    assert "that reply was made of" in shown
    found = json.loads(callboard("why", "20250101#26", "--value", "That is all", "--json").stdout)
    assert [one["kind"] for one in found["made_of"]] == ["DelegationEnded"] * 2
    assert (found["also_in"], found["odd"]) == ([], None)


def test_no_place_looks_like_the_only_one_that_holds_a_value(callboard: Callboard) -> None:
    shown = callboard("why", "20250101#26", "--value", "files").stdout
    found = json.loads(callboard("why", "20250101#26", "--value", "files", "--json").stdout)
    assert found["also_in"]
    assert f"one of {len(found['also_in']) + 1} places that hold it: " in shown


def test_a_reply_leads_on_to_its_request(callboard: Callboard) -> None:
    assert "callboard request 20250101-survey#24" in callboard("why", "20250101#24").stderr


def test_an_input_has_no_parts(callboard: Callboard) -> None:
    assert "nothing: it is an input" in callboard("why", "20250101#2").stdout


def test_what_is_not_there_is_refused(callboard: Callboard) -> None:
    assert callboard("why", "20250101#99").exit_code == 3
    wrong = callboard("why", "20250101#16", "--value", "gold")
    assert wrong.exit_code == 3
    assert "does not contain 'gold'" in wrong.stderr
    assert callboard("why", "20250101").exit_code in (2, 3)
    assert "SESSION#SEQ" in callboard("why", "first").stderr
