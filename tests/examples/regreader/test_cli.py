"""The command `regreader`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from regreader.cli import main

from tests.examples.regreader.test_tools import TEXT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regs").mkdir()
    (tmp_path / "regs" / "lamps.md").write_text(TEXT)
    assert run("import", "regs").exit_code == 0
    return tmp_path


def run(*words: str, said: str = "") -> Result:
    return CliRunner().invoke(main, list(words), input=said)


def test_a_folder_is_imported_and_files_are_named_that_are_not(folder: Path) -> None:
    (folder / "regs" / "x.bin").write_text("x")
    done = run("import", "regs")
    assert done.stdout == "lamps: Lamp Code (pages 2, sections 5, tables 1)\n"
    assert done.stderr == "skipped x.bin: not a Markdown, text or HTML file\n"


def test_a_folder_without_a_regulation_fails(folder: Path) -> None:
    (folder / "none").mkdir()
    done = run("import", "none")
    assert (done.exit_code, "none has no regulation" in done.stderr) == (3, True)


@pytest.mark.parametrize("flags", [(), ("-o",), ("-o", "--mode", "parallel"), ("--agent", "table")])
def test_a_question_is_answered_with_its_source(folder: Path, flags: tuple[str, ...]) -> None:
    done = run("ask", "What does note * of Table 1-1 say?", "-r", "lamps", *flags)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "Less in wind."
    assert "  [lamps p.1 table 1-1 note *]" in done.stdout


def test_a_question_without_an_answer_is_refused(folder: Path) -> None:
    done = run("ask", "Who is the mayor?", "-o")
    assert (done.exit_code, done.stdout.startswith("I do not know: ")) == (1, True)


@pytest.mark.parametrize("flags", [(), ("-o",)])
def test_a_section_is_named_by_its_number_alone(folder: Path, flags: tuple[str, ...]) -> None:
    assert "  [lamps p.1 1.1.1]" in run("ask", "What does 1.1.1 say?", *flags).stdout


def test_a_question_for_a_regulation_that_is_not_there_ends_no_other(folder: Path) -> None:
    asked = {"id": 1, "question": "What does 1.1.1 say?"}
    (folder / "q.jsonl").write_text(f"{json.dumps({**asked, 'reg_id': 'moon'})}\n{json.dumps(asked)}\n")
    done = run("ask", "--file", "q.jsonl", "--json")
    assert [json.loads(line)["success"] for line in done.stdout.splitlines()] == [False, True]


def test_a_file_of_questions_gives_a_line_each(folder: Path) -> None:
    lines = [
        {"id": 1, "question": "How many hours do gas lamps burn?", "reg_id": "lamps"},
        {"id": "b", "question": "Who is the mayor?"},
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = run("ask", "--file", "q.jsonl", "--json")
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert first.keys() == second.keys() == {"id", "success", "content", "sources"}
    assert (done.exit_code, first["id"], first["success"], second["success"]) == (0, 1, True, False)
    assert (first["sources"], "Hours 10" in first["content"]) == (["lamps p.1 table 1-1"], True)


def test_a_tool_is_called_alone(folder: Path) -> None:
    done = run("tool", "read_page_range", "reg_id=lamps", "start_page=2", "--json")
    assert json.loads(done.stdout)["pages"][0]["page"] == 2


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("get_toc", "reg_id=x"), "not_found", 3),
        (("get_toc",), "bad_argument", 2),
        (("get_toc", "moon=1"), "bad_argument", 2),
        (("read_page_range", "reg_id=lamps", "start_page=x"), "bad_argument", 2),
        (("no_tool",), "not_found", 3),
    ],
)
def test_a_call_that_cannot_be_made_says_why(
    folder: Path, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    done = run("tool", *words, "--json")
    assert (json.loads(done.stdout)["error"]["code"], done.exit_code) == (code, exit_code)


def test_a_file_of_calls_gives_a_line_each(folder: Path) -> None:
    lines = [{"tool": "list_regulations"}, {"tool": "get_toc", "arguments": {"reg_id": "x"}}]
    (folder / "c.jsonl").write_text("\n".join(map(json.dumps, lines)))
    first, second = [
        json.loads(line) for line in run("tool", "--file", "c.jsonl", "--json").stdout.splitlines()
    ]
    assert first["result"]["regulations"][0]["reg_id"] == "lamps"
    assert (second["tool"], second["error"]["code"]) == ("get_toc", "not_found")


def test_a_chat_answers_until_an_empty_line(folder: Path) -> None:
    done = run("chat", "-r", "lamps", "-o", said="What does 1.1.1 say?\nWhat does section 1.2 say?\n\n")
    assert done.exit_code == 0, done.output
    assert "nine hours" in done.stdout
    assert "cleaned daily" in done.stdout
    assert done.stderr == ""  # no prompt in a pipe


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ask", "x", "-r", "moon"), "no regulation 'moon'; there are lamps"),
        (
            ("ask", "x", "--agent", "moon"),
            "no specialist 'moon'; there are table, search, reference, discovery",
        ),
        (("ask",), "give a question, or --file"),
        (("tool",), "give a tool or --file"),
        (("tool", "get_toc", "x"), "write arguments as key=value"),
        (("--config", "none.toml", "ask", "x"), "No such file"),
    ],
)
def test_wrong_usage_is_told(folder: Path, words: tuple[str, ...], told: str) -> None:
    done = run(*words)
    assert done.exit_code in (2, 3)
    assert told in done.stderr


def test_a_question_before_the_first_import_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "regreader import FOLDER" in run("ask", "x").stderr


@pytest.mark.parametrize("line", ["{", "[]", '{"id": 1}', '{"id": 1, "question": 5}'])
def test_a_line_that_is_no_question_is_named(folder: Path, line: str) -> None:
    (folder / "q.jsonl").write_text(line)
    done = run("ask", "--file", "q.jsonl")
    assert (done.exit_code, "q.jsonl:1" in done.stderr) == (2, True)
