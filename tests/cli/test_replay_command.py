import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.cli.recordings import open_recording
from callboard.cli.stepper import Stepper
from tests.cli.conftest import Callboard


def test_off_a_terminal_one_event_is_printed_plainly(callboard: Callboard) -> None:
    text = callboard("replay", "20250101", "--at", "14").stdout
    for words in (
        "14 of 28  CallTool",
        "route     host.1 → tools",
        "decision  host.1 on event 13 ModelReplied; output 1 of 2",
        '"tool": "count_files"',
        "answered  16 ToolReturned → host.1",
    ):
        assert words in text


def test_an_event_comes_with_its_recipients_state_after_it(callboard: Callboard) -> None:
    text = callboard("replay", "20250101", "--at", "9").stdout
    assert "state     host.1: thinking, turn 1, 1 message" in text
    assert "posted    11 TurnRequested → supervisor" in text


def test_answers_of_ports_and_inputs_of_clients_name_their_source(callboard: Callboard) -> None:
    assert "answers   event 5 CallModel" in callboard("replay", "20250101", "--at", "6").stdout
    assert "input     from client" in callboard("replay", "20250101", "--at", "2").stdout


def test_off_a_terminal_all_events_are_printed_one_after_the_other(callboard: Callboard) -> None:
    text = callboard("replay", "20250101").stdout
    assert [f"{seq} of 28" in text for seq in range(1, 29)] == [True] * 28


def test_as_json_an_event_has_its_decision_its_outputs_and_the_whole_state(callboard: Callboard) -> None:
    found = json.loads(callboard("replay", "20250101", "--at", "6", "--json").stdout)
    assert (found["decision"], found["outputs"]) == ([], [7, 8])
    assert found["state"]["phase"] == "acting"
    lines = callboard("replay", "20250101", "--json").stdout.splitlines()
    assert [json.loads(line)["seq"] for line in lines] == list(range(1, 29))
    assert json.loads(lines[7])["decision"] == [7, 8]


def test_one_event_is_read_alone_and_all_of_them_are_checked(callboard: Callboard) -> None:
    one = callboard("replay", "20250101", "--at", "6")
    assert "chain not checked" in one.stderr
    assert json.loads(callboard("replay", "20250101", "--at", "6", "--json").stdout)["checked"] is False
    assert json.loads(callboard("replay", "20250101", "--at", "6", "--json", "--check").stdout)["checked"]
    whole = callboard("replay", "20250101", "--json").stdout.splitlines()
    assert all(json.loads(line)["checked"] for line in whole)
    assert "not checked" not in callboard("replay", "20250101").stderr


def test_an_event_that_is_not_there_is_refused(callboard: Callboard) -> None:
    done = callboard("replay", "20250101", "--at", "29")
    assert done.exit_code == 3
    assert "1 to 28" in done.stderr


@pytest.fixture
def stepper(recorded: Path) -> Stepper:
    recording, _ = open_recording(str(recorded), "20250101")
    return Stepper(recording)


def test_keys_step_forward_and_back_and_stop_at_both_ends(stepper: Stepper) -> None:
    for key in ("n", "\r", " ", "\x1b[B"):
        stepper.take(key)
    assert stepper.at == 5
    for key in ("p", "\x1b[A"):
        stepper.take(key)
    assert stepper.at == 3
    for key in "pppp":
        stepper.take(key)
    assert stepper.at == 1
    stepper.take("G")
    stepper.take("n")
    assert stepper.at == 28
    stepper.take("g")
    assert stepper.at == 1


def test_a_number_and_enter_jump(stepper: Stepper) -> None:
    for key in "12\r":
        stepper.take(key)
    assert stepper.at == 12
    for key in "999\r":
        stepper.take(key)
    assert stepper.at == 28
    for key in "3x":
        stepper.take(key)
    assert stepper.at == 28


def test_a_session_is_stepped_through_until_the_reader_leaves(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording, _ = open_recording(str(recorded), "20250101")
    keys: Iterator[str] = iter(["n", "b", "s", "?", "q", "n"])
    Stepper(recording, 8, read=lambda: next(keys)).run()
    printed = capsys.readouterr().out
    assert "8 of 28" in printed
    assert "9 of 28" in printed
    assert "10 of 28" not in printed
    assert '"phase": "thinking"' in printed
    assert "q  leave" in printed


def test_the_end_of_input_leaves_too(recorded: Path) -> None:
    recording, _ = open_recording(str(recorded), "20250101")

    def closed() -> str:
        raise EOFError

    stepper = Stepper(recording, read=closed)
    stepper.run()
    assert stepper.at == 1
