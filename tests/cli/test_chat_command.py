import json
from pathlib import Path

import pytest
from click.testing import Result
from rich.cells import cell_len

from callboard.cli.chat_command import ChatView, Transcript
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


DESK = """
from callboard.orchestrator import Orchestrator, Specialist, SpecialistResult


async def policy(ctx, context):
    known = [f"{one.question} -> {one.answer}" for one in context.earlier or ()]
    if "nothing" in context.query:
        return SpecialistResult(False, error="nothing found")
    return SpecialistResult(True, f"Asked: {context.query}. Known: {known}.", confidence=0.9)


desk = Orchestrator([Specialist("facts", policy=policy)], name="desk")
"""


def test_an_orchestrator_says_its_content_and_knows_the_last_question(chat: Callboard, folder: Path) -> None:
    (folder / "own_desk.py").write_text(DESK)
    done = chat("own_desk:desk", text="How high?\nFind nothing.\nAnd how wide?\n")
    first = "Asked: How high?. Known: []."
    lines = done.stdout.splitlines()
    assert lines[0] == first
    assert lines[1].startswith("no specialist has an answer: facts (nothing found)")
    assert lines[2].startswith(f"Asked: And how wide?. Known: ['How high? -> {first}', 'Find nothing. -> no ")
    document = json.loads(chat("own_desk:desk", "--json", text="How high?\n").stdout)
    assert document["structured_output"]["content"] == first


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
@pytest.mark.parametrize("columns", [50, 80])
def test_a_long_answer_breaks_at_words_and_between_wide_characters(folder: Path, columns: int) -> None:
    with Terminal(folder, "chat", "survey:wordy", columns=columns) as terminal:
        terminal.until("> ")
        terminal.type("Go.\n")
        shown = terminal.until("tokens (")
        answer = shown[shown.index("callboard pins") : shown.rindex("\n[")].split("\n")
        assert max(map(cell_len, answer)) <= columns
        assert " ".join(answer).replace("\r", "").split()[:60] == ("callboard pins up " * 20).split()
        assert min(map(cell_len, answer[:-1])) >= columns - len("callboard")
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0


@pytest.mark.slow
@needs_terminals
def test_ctrl_c_in_an_ask_leaves_the_chat_to_be_resumed(folder: Path) -> None:
    with Terminal(folder, "chat", "survey:waiting") as terminal:
        terminal.until("> ")
        terminal.type("Wait.\n")
        terminal.until("it waits now")
        terminal.type("\x03")
        terminal.until("MODULE:AGENT continues it")
        assert terminal.end() == 130


@pytest.mark.slow
@needs_terminals
@pytest.mark.parametrize("columns", [80, 160])
def test_lines_typed_while_a_program_works_are_the_next_prompts_and_quit_leaves(
    folder: Path, columns: int
) -> None:
    with Terminal(folder, "chat", "survey:errand", columns=columns) as terminal:
        terminal.until("> ")
        terminal.type("Go.\n")
        terminal.until("it waits now")
        terminal.type("And more.\n")
        terminal.until("kept as the next prompt")
        terminal.type("/quit\n")
        shown = terminal.until("Done: And more.")
        assert shown.index("Done: Go.") < shown.index("> And more.")
        assert terminal.end() == 0
        assert "callboard show" in terminal.shown
        assert "Done: /quit" not in terminal.shown


@pytest.mark.slow
@needs_terminals
@pytest.mark.parametrize("columns", [80, 160])
def test_lines_typed_while_a_host_works_are_told_to_it(folder: Path, columns: int) -> None:
    with Terminal(folder, "chat", "survey:slow", columns=columns) as terminal:
        terminal.until("> ")
        terminal.type("Go.\n")
        terminal.until("it waits now")
        terminal.type("Hurry.\n")
        terminal.until("the host reads it in turn 2")
        terminal.until("Slowly done.")
        terminal.until("> ")
        terminal.type("\x04")
        assert terminal.end() == 0


@pytest.mark.slow
def test_lines_piped_to_a_program_are_asks_one_after_the_other(folder: Path) -> None:
    done = piped(folder, "chat", "survey:errand", text="Go.\nAnd more.")
    assert (done.returncode, done.stdout) == (0, "Done: Go.\nDone: And more.\n")


@pytest.mark.slow
@needs_terminals
def test_ctrl_c_at_the_prompt_says_how_to_leave(folder: Path) -> None:
    with Terminal(folder, "chat", "survey:waiting") as terminal:
        terminal.until("> ")
        terminal.type_until("\x03", "to leave, press Ctrl-D or type /quit")
        terminal.until("> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0
    assert piped(folder, "verify").returncode == 0


def test_text_is_given_once_as_it_comes() -> None:
    transcript = Transcript()
    transcript.add("one ", 0)
    transcript.add("two", 4)
    assert transcript.take() == "one two"
    transcript.add(" three", 7)
    assert transcript.take() == " three"
    assert transcript.take() == ""


def test_each_reply_ends_its_line() -> None:
    transcript = Transcript()
    transcript.add("Let me see.", 0)
    transcript.end_reply()
    transcript.add("Done.", 0)
    transcript.end_reply()
    assert transcript.take() == "Let me see.\nDone.\n"


def test_a_reply_that_ends_with_a_line_break_gets_no_second() -> None:
    transcript = Transcript()
    transcript.add("Done.\n", 0)
    transcript.end_reply()
    assert transcript.take() == "Done.\n"


def test_a_reply_that_failed_before_it_was_shown_leaves_nothing() -> None:
    transcript = Transcript()
    transcript.add("Let me see.", 0)
    transcript.end_reply()
    transcript.add("Wrong start", 0)
    assert not transcript.reset()
    transcript.add("Right answer", 0)
    assert transcript.take() == "Let me see.\nRight answer"
    assert transcript.text == "Let me see.Right answer"


def test_a_reply_that_failed_after_a_part_was_shown_begins_again() -> None:
    transcript = Transcript()
    transcript.add("Wrong ", 0)
    assert transcript.take() == "Wrong "
    transcript.add("start", 6)
    assert transcript.reset()
    assert not transcript.reset()
    transcript.add("Right answer", 0)
    assert transcript.take() == "Right answer"


def test_text_so_far_after_a_reconnection_is_not_shown_twice() -> None:
    transcript = Transcript()
    transcript.add("one ", 0)
    assert transcript.take() == "one "
    transcript.add("one two", 0)
    assert transcript.take() == "two"


def test_a_reply_without_text_breaks_nothing() -> None:
    transcript = Transcript()
    transcript.end_reply()
    transcript.add("Text.", 0)
    assert transcript.take() == "Text."


def test_text_can_be_held_back_from_a_position_on() -> None:
    transcript = Transcript()
    transcript.add("Let me see.", 0)
    transcript.end_reply()
    transcript.add("Done.", 0)
    assert transcript.take(transcript.ended) == "Let me see.\n"
    assert transcript.take() == "Done."


def test_a_word_that_stops_in_its_middle_is_shown_after_half_a_second(
    capsys: pytest.CaptureFixture[str],
) -> None:
    view = ChatView(is_streaming=True)
    view.transcript.add("I will look at the fi", 0)
    view.draw()
    assert capsys.readouterr().out == "I will look at the"
    for _ in range(12):
        view.draw()
    assert capsys.readouterr().out == " fi"
    view.transcript.add("les.", 21)
    view.close()
    assert capsys.readouterr().out == "les.\n"
