import json
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from callboard.actors.protocol.immutable import Json
from callboard.actors.protocol.port_messages import ModelReplied
from callboard.cli.chat_command import Transcript, text_length
from tests.cli.agents import Terminal, lines_with, piped
from tests.cli.conftest import Callboard
from tests.cli.test_run_command import needs_terminals


@pytest.fixture
def chat(folder: Path, callboard: Callboard) -> Callboard:
    """Run `callboard chat` in this process, with a log of its own."""

    def ran(*arguments: str, text: str | None = None) -> Result:
        return callboard("chat", *arguments, "--log", str(folder / "own.db"), text=text)

    return ran


def test_through_a_pipe_each_line_is_an_ask_and_each_result_a_line(chat: Callboard) -> None:
    done = chat("survey:host", text="How many files?\n\nThank you.")
    assert done.exit_code == 0
    assert done.stdout == "There are 3 files.\nYou are welcome.\n"
    assert "denied host.2 nobody" in done.stderr


def test_all_asks_are_one_session(chat: Callboard, folder: Path, callboard: Callboard) -> None:
    chat("survey:host", text="How many files?\nThank you.\n")
    shown = json.loads(callboard("show", "--json", "--log", str(folder / "own.db")).stdout)
    assert [ask["prompt"] for ask in shown["asks"]] == ["How many files?", "Thank you."]
    assert shown["is_closed"]


def test_quit_leaves_and_what_follows_is_not_asked(chat: Callboard) -> None:
    assert chat("survey:host", text="How many files?\n/quit\nThank you.\n").stdout == "There are 3 files.\n"


def test_own_words_are_not_asks_and_all_other_lines_are(chat: Callboard) -> None:
    done = chat("survey:host", text="/etc/hosts is what?\n/tree\n/help\n")
    assert "There are 3 files." in done.stdout
    assert "✗ host.2 nobody" in done.stdout
    assert "/quit" in done.stderr


def test_as_json_each_result_is_a_document_on_a_line(chat: Callboard) -> None:
    done = chat("survey:host", "--json", text="How many files?\nThank you.\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["text"] for one in found] == ["There are 3 files.", "You are welcome."]


def test_an_ask_without_a_result_makes_the_exit_code_1(chat: Callboard) -> None:
    done = chat("survey:failing", text="Try.\n")
    assert done.exit_code == 1
    assert done.stdout == ""
    assert "failed (model_error)" in done.stderr


def test_what_cannot_work_is_refused_before_anything_is_recorded(chat: Callboard, folder: Path) -> None:
    assert chat("survey:modelless", text="x\n").exit_code == 2
    assert not (folder / "own.db").exists()


@pytest.mark.slow
def test_through_real_pipes_it_is_the_same(folder: Path) -> None:
    done = piped(folder, "chat", "survey:host", text="How many files?\nThank you.\n")
    assert (done.returncode, done.stdout) == (0, "There are 3 files.\nYou are welcome.\n")


@pytest.mark.slow
@needs_terminals
def test_on_a_terminal_text_streams_and_delegations_show_the_tree(folder: Path) -> None:
    with Terminal(folder, "chat", "survey:host") as terminal:
        terminal.until("> ")
        terminal.type("How many files?\n")
        shown = terminal.until("tokens (")
        assert (
            shown.index("Let me see.\n") < shown.index("host.1 counter") < shown.index("There are 3 files.\n")
        )
        assert len(lines_with(shown, "There are 3 files.")) == 1
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0
        assert "callboard show" in terminal.shown


@pytest.mark.slow
@needs_terminals
def test_ctrl_c_cancels_the_ask_and_the_chat_goes_on(folder: Path) -> None:
    with Terminal(folder, "chat", "survey:waiting") as terminal:
        terminal.until("> ")
        terminal.type("Wait.\n")
        terminal.until("it waits now")
        terminal.type("\x03")
        terminal.until("cancelled: interrupted")
        terminal.until("> ")
        terminal.type_until("\x03", "to leave, press Ctrl-D or type /quit")
        terminal.until("> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0
    assert piped(folder, "verify").returncode == 0


def reply(text: str) -> ModelReplied:
    return ModelReplied(1, 1, "ok", Json(msgspec.json.encode([{"type": "text", "text": text}])))


def test_text_is_given_once_as_it_comes() -> None:
    transcript = Transcript()
    transcript.add("one ")
    transcript.add("two")
    assert transcript.take() == "one two"
    transcript.add(" three")
    assert transcript.take() == " three"
    assert transcript.take() == ""


def test_each_reply_ends_its_line() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.end_reply(reply("Let me see."))
    transcript.add("Done.")
    transcript.end_reply(reply("Done."))
    assert transcript.take() == "Let me see.\nDone.\n"


def test_the_break_is_in_the_right_place_when_the_event_comes_late() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.add("Done.")
    transcript.end_reply(reply("Let me see."))
    assert transcript.take() == "Let me see.\nDone."


def test_a_reply_that_ends_with_a_line_break_gets_no_second() -> None:
    transcript = Transcript()
    transcript.add("Done.\n")
    transcript.end_reply(reply("Done.\n"))
    assert transcript.take() == "Done.\n"


def test_a_reply_that_failed_ends_where_it_broke_off() -> None:
    transcript = Transcript()
    transcript.add("Half an ans")
    transcript.end_reply(ModelReplied(1, 1, "error"))
    transcript.add("A whole answer.")
    assert transcript.take() == "Half an ans\nA whole answer."


def test_a_reply_without_text_breaks_nothing() -> None:
    transcript = Transcript()
    transcript.end_reply(reply(""))
    transcript.add("Text.")
    assert transcript.take() == "Text."


def test_text_can_be_held_back_from_a_position_on() -> None:
    transcript = Transcript()
    transcript.add("Let me see.")
    transcript.end_reply(reply("Let me see."))
    transcript.add("Done.")
    assert transcript.take(transcript.ended) == "Let me see.\n"
    assert transcript.take() == "Done."


def test_the_length_of_unreadable_content_is_not_known() -> None:
    assert text_length(Json(b"3")) is None
    assert text_length(Json(b'[{"type":"text","text":7},{"type":"text","text":"ab"}]')) == 2
