"""Asking on the terminal whether a call may run."""

from pathlib import Path

import pytest

from callboard.actors.protocol.errors import InvalidPrompt
from callboard.actors.protocol.immutable import Json
from callboard.cli.approving import lines, user_name, verdict
from callboard.runtime.approvals import Approval, ApprovalAnswer
from tests.cli.agents import SURVEY, Terminal, piped
from tests.cli.test_run_command import needs_terminals
from tests.tables import table

YES = ApprovalAnswer(True, by=user_name())
NO = ApprovalAnswer(False, by=user_name())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "survey.py").write_text(SURVEY)
    return tmp_path


def question(arguments: bytes = b'{"euros":5}', is_repeat: bool = False, forms: bytes = b"") -> Approval:
    return Approval(
        "s",
        "host.1",
        "clerk",
        "pay",
        "write",
        Json(arguments),
        is_repeat,
        7,
        "00",
        None,
        1 if forms else 0,
        Json(forms or b"null"),
        None,
        lambda answer: True,
        lambda: True,
    )


def test_a_question_says_who_wants_to_call_what_with_which_arguments() -> None:
    shown = lines(question())
    assert shown[0] == "host.1 (clerk) wants to call pay, effect write, with"
    assert shown[1].endswith('{"euros":5}')


def test_a_call_in_doubt_says_so() -> None:
    assert "interrupted before" in lines(question(is_repeat=True))[-1]


def test_arguments_cannot_forge_lines_or_control_the_terminal() -> None:
    shown = "\n".join(lines(question(b'{"a":"\x1b[2J\rLet it run? y"}')))
    assert "\x1b" not in shown
    assert "\r" not in shown


def test_endless_arguments_are_cut_and_the_cut_is_told() -> None:
    shown = "\n".join(lines(question(b'"' + b"x" * 10_000 + b'"')))
    assert len(shown) < 5_000
    assert "characters more" in shown


@table(
    ("typed", "meant"),
    [
        ("y\n", YES),
        ("YES\n", YES),
        ("a\n", YES._replace(is_always=True)),
        ('{"euros": 3}\n', YES._replace(arguments={"euros": 3})),
        ("\n", NO),
        ("n\n", NO),
        ("", NO),
        (" too much\n", NO._replace(note="too much")),
    ],
)
def test_only_a_clear_yes_lets_a_call_run(typed: str, meant: ApprovalAnswer) -> None:
    assert verdict(typed) == meant


def test_typed_arguments_that_are_no_json_are_refused() -> None:
    with pytest.raises(InvalidPrompt):
        verdict('{"euros": 3')


@pytest.mark.slow
def test_without_a_terminal_no_question_is_asked_and_nothing_runs(folder: Path) -> None:
    done = piped(folder, "run", "survey:paying", "Pay.")
    assert "not allowed to run: no person can be asked: stdin is not a terminal" in done.stdout


@pytest.mark.slow
def test_approve_all_and_none_ask_no_question(folder: Path) -> None:
    assert "paid 5" in piped(folder, "run", "survey:paying", "Pay.", "--approve", "all").stdout
    assert "(--approve none)" in piped(folder, "run", "survey:paying", "Pay.", "--approve", "none").stdout


@pytest.mark.slow
@needs_terminals
@pytest.mark.parametrize(
    ("typed", "read"),
    [("y\n", "paid 5"), ("too much\n", "to run: too much"), ('{"euros": 3}\n', "paid 3")],
    ids=["yes", "no", "other arguments"],
)
def test_on_a_terminal_a_person_is_asked(folder: Path, typed: str, read: str) -> None:
    with Terminal(folder, "run", "survey:paying", "Pay.") as terminal:
        terminal.until("wants to call pay")
        terminal.until("why not]")
        terminal.type(typed)
        terminal.until(read)
        assert terminal.end() == 0


@pytest.mark.slow
@needs_terminals
def test_ctrl_c_at_the_question_leaves_the_run(folder: Path) -> None:
    with Terminal(folder, "run", "survey:paying", "Pay.") as terminal:
        terminal.until("why not]")
        terminal.type("\x03")
        terminal.until("leaving; work in progress is recorded")
        assert terminal.end() == 130


@pytest.mark.slow
@needs_terminals
def test_in_a_chat_a_person_is_asked_too(folder: Path) -> None:
    with Terminal(folder, "chat", "survey:paying") as terminal:
        terminal.until("> ")
        terminal.type("Pay.\n")
        terminal.until("why not]")
        terminal.type("y\n")
        terminal.until("5'}]")  # the line is broken before it
        terminal.until("> ")
        terminal.type("/quit\n")
        assert terminal.end() == 0


FORMS = b'{"go":{"message":"Where to?","schema":{"properties":{"city":{"type":"string"}}}}}'


def test_a_question_with_a_form_shows_it_and_takes_its_values() -> None:
    shown = lines(question(forms=FORMS))
    assert shown[-2:] == ["It asks for input: Where to?", "  city (string)"]
    assert verdict('{"city": "Oslo"}', is_form=True).values == {"city": "Oslo"}
    assert verdict('{"city": "Oslo"}').values is None
    assert not verdict("not today", is_form=True).is_approved
