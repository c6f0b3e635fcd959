import json

from click.testing import Result

from tests.cli.conftest import Callboard


def step(callboard: Callboard, seq: int, *options: str) -> Result:
    """Print one step."""
    return callboard("events", "20250101", "--step", "--from", f"{seq}", "--to", f"{seq}", *options)


def test_off_a_terminal_one_event_is_printed_plainly(callboard: Callboard) -> None:
    text = step(callboard, 14).stdout
    for words in (
        "14 of 28  CallTool",
        "route     host.1 → tools",
        "decision  host.1 on event 13 ModelReplied; output 1 of 2",
        '"tool": "count_files"',
        "answered  16 ToolReturned → host.1",
    ):
        assert words in text


def test_an_event_comes_with_its_recipients_state_after_it(callboard: Callboard) -> None:
    text = step(callboard, 9).stdout
    assert "state     host.1: thinking, turn 1, 1 message" in text
    assert "posted    11 TurnRequested → supervisor" in text


def test_answers_of_ports_and_inputs_of_clients_name_their_source(callboard: Callboard) -> None:
    assert "answers   event 5 CallModel" in step(callboard, 6).stdout
    assert "input     from client" in step(callboard, 2).stdout


def test_off_a_terminal_all_events_are_printed_one_after_the_other(callboard: Callboard) -> None:
    text = callboard("events", "20250101", "--step").stdout
    assert [f"{seq} of 28" in text for seq in range(1, 29)] == [True] * 28


def test_as_json_an_event_has_its_decision_its_outputs_and_the_whole_state(callboard: Callboard) -> None:
    found = json.loads(step(callboard, 6, "--json").stdout)
    assert (found["decision"], found["outputs"]) == ([], [7, 8])
    assert found["state"]["phase"] == "acting"
    lines = callboard("events", "20250101", "--step", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 29))
    assert json.loads(lines[7])["decision"] == [7, 8]


def test_one_event_is_read_alone_and_all_of_them_are_checked(callboard: Callboard) -> None:
    one = step(callboard, 6)
    assert "chain not checked" in one.stderr
    assert json.loads(step(callboard, 6, "--json").stdout)["checked"] is False
    assert json.loads(step(callboard, 6, "--json", "--check").stdout)["checked"]
    whole = callboard("events", "20250101", "--step", "--json").stdout.splitlines()
    assert all(json.loads(line)["checked"] for line in whole)
    assert "not checked" not in callboard("events", "20250101", "--step").stderr


def test_an_event_that_is_not_there_is_refused(callboard: Callboard) -> None:
    done = step(callboard, 29)
    assert done.exit_code == 3
    assert "1 to 28" in done.stderr
