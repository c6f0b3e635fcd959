import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from callboard.cli.recordings import open_recording
from callboard.cli.stepper import KEYS, Stepper
from tests.cli.conftest import Callboard


@pytest.fixture
def said() -> list[str]:
    """Return the lines that the reader will type, in order."""
    return []


@pytest.fixture
def stepper(recorded: Path, said: list[str]) -> Iterator[Stepper]:
    recording, _ = open_recording(str(recorded), "20250101")
    yield Stepper(recording, ask=lambda label: said.pop(0))
    recording.close()


def after(stepper: Stepper, keys: str) -> int:
    for key in keys:
        stepper.take(key)
    return stepper.at


def test_the_next_and_the_last_event_of_an_actor(stepper: Stepper) -> None:
    stepper.at = 9
    assert after(stepper, "a") == 11
    stepper.at = 13
    assert [after(stepper, "a"), after(stepper, "a")] == [14, 15]
    stepper.at = 13
    assert after(stepper, "A") == 11


def test_the_next_and_the_last_delegation(stepper: Stepper) -> None:
    assert [after(stepper, "d") for _ in range(4)] == [7, 8, 10, 21]
    assert [after(stepper, "D") for _ in range(2)] == [10, 8]


def test_the_next_and_the_last_failure(stepper: Stepper, capsys: pytest.CaptureFixture[str]) -> None:
    assert after(stepper, "f") == 10
    assert after(stepper, "f") == 10
    assert "there is no later failure" in capsys.readouterr().out
    stepper.at = 28
    assert after(stepper, "F") == 10


def test_a_search_goes_to_the_next_event_and_is_repeated_by_nothing(
    stepper: Stepper, said: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    said += ["3 FILES".lower(), "", "gold"]
    assert after(stepper, "/") == 16
    assert after(stepper, "/") == 19
    assert after(stepper, "/") == 19
    assert "no later event with 'gold'" in capsys.readouterr().out


def test_the_last_change_of_a_field(stepper: Stepper, said: list[str]) -> None:
    said += ["phase", "nothing.like.it", ""]
    stepper.at = 16
    assert after(stepper, "v") == 13
    assert after(stepper, "v") == 13
    assert after(stepper, "v") == 13


def test_the_changes_of_an_event_are_shown(stepper: Stepper, capsys: pytest.CaptureFixture[str]) -> None:
    stepper.at = 13
    after(stepper, "c")
    shown = capsys.readouterr().out
    assert "phase" in shown
    assert '- "thinking"' in shown
    assert '+ "acting"' in shown
    stepper.at = 14
    after(stepper, "c")
    assert "the decision of host.1 on event 13 changed:" in capsys.readouterr().out


def test_the_request_and_the_reason_are_shown(stepper: Stepper, capsys: pytest.CaptureFixture[str]) -> None:
    stepper.at = 24
    after(stepper, "r")
    shown = capsys.readouterr().out
    assert "asked for" in shown
    assert "1 user" in shown
    after(stepper, "w")
    assert "made of" in capsys.readouterr().out
    stepper.at = 2
    after(stepper, "r")
    assert "belongs to no model call" in capsys.readouterr().out


def test_an_unknown_key_shows_all_keys(stepper: Stepper, capsys: pytest.CaptureFixture[str]) -> None:
    after(stepper, "x")
    assert capsys.readouterr().out.split() == KEYS.split()
    assert all(len(line) <= 80 for line in KEYS.splitlines())


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
