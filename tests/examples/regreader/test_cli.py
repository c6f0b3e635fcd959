"""The command `regreader`."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from subprocess import PIPE

import pytest
from click.testing import CliRunner, Result
from regreader.cli import main

from tests.examples.regreader.test_tools import TEXT
from tests.processes import import_path

PACKAGE = Path(__file__).parents[3] / "examples" / "regreader"


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
    assert done.stdout == "lamps: Lamp Code (2 pages; 5 sections; 1 table; read as Markdown)\n"
    assert done.stderr == "skipped x.bin: not a Markdown, text or HTML file\n"


def test_a_folder_without_a_regulation_fails(folder: Path) -> None:
    (folder / "none").mkdir()
    done = run("import", "none")
    assert (done.exit_code, "none has no regulation" in done.stderr) == (3, True)


@pytest.mark.parametrize("flags", [(), ("-o",), ("-o", "--mode", "parallel"), ("--specialist", "table")])
def test_a_question_is_answered_with_its_source(folder: Path, flags: tuple[str, ...]) -> None:
    done = run("ask", "What does note * of Table 1-1 say?", "-r", "lamps", *flags)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[0] == "Less in wind."
    assert "  [lamps p.1 table 1-1 note *]" in done.stdout


def test_a_question_without_an_answer_is_refused(folder: Path) -> None:
    done = run("ask", "Who is the mayor?", "-o")
    assert (done.exit_code, done.stdout.startswith("I do not know: ")) == (1, True)


def test_a_file_of_questions_gives_a_line_each(folder: Path) -> None:
    lines = [
        {"id": 1, "question": "How many hours do gas lamps burn?", "reg_id": "lamps"},
        {"id": "b", "question": "Who is the mayor?"},
    ]
    (folder / "q.jsonl").write_text("\n".join(map(json.dumps, lines)))
    done = run("ask", "--file", "q.jsonl", "--json")
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert first.keys() == {"id", "success", "content", "sources"}
    assert second.keys() == first.keys() | {"error"}
    assert (done.exit_code, first["id"], first["success"], second["success"]) == (0, 1, True, False)
    assert (first["sources"], "Hours 10" in first["content"]) == (["lamps p.1 table 1-1"], True)


def test_a_tool_is_called_alone(folder: Path) -> None:
    done = run("tool", "smart_search", "query=cleaned", "limit=1", "--json")
    assert json.loads(done.stdout)["results"][0]["page"] == 2


@pytest.mark.parametrize(
    ("words", "code", "exit_code"),
    [
        (("get_toc", "reg_id=x"), "not_found", 3),
        (("get_toc",), "bad_argument", 2),
        (("get_toc", "moon=1"), "bad_argument", 2),
        (("smart_search", "query=x", "limit=x"), "bad_argument", 2),
        (("no_tool",), "not_found", 3),
    ],
)
def test_a_call_that_cannot_be_made_says_why(
    folder: Path, words: tuple[str, ...], code: str, exit_code: int
) -> None:
    done = run("tool", *words, "--json")
    assert (json.loads(done.stdout)["error"]["code"], done.exit_code) == (code, exit_code)


def test_a_chat_answers_until_an_empty_line(folder: Path) -> None:
    done = run("chat", "-r", "lamps", "-o", said="What does 1.1.1 say?\nWhat does section 1.2 say?\n\n")
    assert done.exit_code == 0, done.output
    assert "nine hours" in done.stdout
    assert "cleaned daily" in done.stdout
    assert done.stderr == ""  # no prompt in a pipe


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("ask", "x", "-r", "moon"), "no regulation 'moon'; there are: lamps"),
        (("chat", "-r", "moon"), "no regulation 'moon'; there are: lamps"),
        (("ask", "x", "--specialist", "moon"), "'moon' is not one of 'table', 'search', 'reference'"),
        (("ask", "x", "--framework", "moon"), "'moon' is not one of 'claude', 'pydantic', 'langgraph'"),
        (("ask", "x", "--mode", "both"), "'both' is not one of 'sequential', 'parallel'"),
        (("ask", "x", "--max-iterations", "0"), "0 is not in the range"),
        (("ask", "x", "--model", "moon"), "model 'moon' names no provider"),
        (("ask", ""), "a prompt is a text"),
        (("ask", "x", "--file", "regs/lamps.md"), "give a question, or --file"),
        (("ask",), "give a question, or --file"),
        (("tool", "x"), "no tool 'x'; tools are list_regulations"),
        (("tool", "get_toc", "x"), "write arguments as key=value"),
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


GOOD = '{"id": "good", "question": "What does section 1.1.1 say?\u2028"}'


@pytest.mark.parametrize(
    "line",
    [
        b"{", b"[]", b'{"id": 1}', b'{"id": 1, "question": 3}', b'{"id": 1, "question": ""}', b"[" * 200_000,
        b'{"id": 1, "question": "x", "reg_id": 7}', b"\xff", b'{"id": 1, "question": "\\ud800"}',
    ],
    ids=range(9),
)  # fmt: skip
def test_a_line_that_is_no_question_is_named_and_the_others_are_answered(folder: Path, line: bytes) -> None:
    (folder / "q.jsonl").write_bytes(b"\xef\xbb\xbf" + GOOD.encode() + b"\n\n" + line + b"\n" + GOOD.encode())
    done = run("ask", "--file", "q.jsonl", "--json")
    found = [json.loads(text) for text in done.stdout.splitlines()]
    assert [one["success"] for one in found] == [True, False, True]
    assert "q.jsonl:3" in found[1]["error"]
    assert (done.exit_code, "q.jsonl:3" in done.stderr) == (2, True)


def test_a_question_on_an_unknown_regulation_is_refused_and_the_others_are_answered(folder: Path) -> None:
    lines = [{"id": 1, "question": "1.1.1?", "reg_id": "moon"}, {"id": 2, "question": "What does 1.1.1 say?"}]
    done = CliRunner().invoke(main, ["ask", "--file", "-", "--json"], input="\n".join(map(json.dumps, lines)))
    first, second = [json.loads(line) for line in done.stdout.splitlines()]
    assert (first["success"], first["error"]) == (False, "no regulation 'moon'; there are: lamps")
    assert (second["success"], done.exit_code) == (True, 0)


def test_the_only_question_has_its_route_and_its_calls(folder: Path) -> None:
    done = json.loads(run("ask", "What does 1.1.1 say?", "-o", "-r", "lamps", "-r", "lamps", "--json").stdout)
    assert (done["success"], done["route"], done["sources"]) == (True, ["reference"], ["lamps p.1 1.1.1"])
    assert [call["tool"] for call in done["tool_calls"]] == ["resolve_reference"]
    assert done.keys() >= {"error", "confidence"}


def test_a_question_on_all_regulations_names_the_one_of_each_answer(folder: Path) -> None:
    (folder / "regs" / "more.md").write_text(TEXT.replace("Lamp Code", "More Lamps").replace("nine", "six"))
    run("import", "regs")
    for flags in ((), ("-o",), ("-o", "--mode", "parallel")):
        both = run("ask", "What does section 1.1.1 say?", *flags).stdout
        assert "lamps: 1.1.1 Oil lamps burn for nine hours." in both
        assert "more: 1.1.1 Oil lamps burn for six hours." in both
        one = run("ask", "What does section 1.1.1 of 《More Lamps》 say?", *flags).stdout
        assert one.startswith("1.1.1 Oil lamps burn for six hours.\n  [more p.1 1.1.1]")


def test_a_plain_number_is_a_value_of_a_table_before_it_is_a_section(folder: Path) -> None:
    table = "Table 2-1 Flow\n\n| Pressure | Flow |\n|---|---|\n| 1.2 bar | 30 |\n| 1.4 bar | 50 |\n"
    (folder / "regs" / "lamps.md").write_text(f"{TEXT}\n## 2 Gas\n\n{table}")
    run("import", "regs")
    assert "Flow 30" in run("ask", "Which flow at a pressure of 1.2 bar?").stdout
    assert "Lamps are cleaned daily." in run("ask", "What does 1.2 say?").stdout


def test_an_option_can_stand_in_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("ask", "What does section 1.1.1 say?", "--json")
    assert json.loads(run(*words).stdout)["route"] == ["reader"]
    monkeypatch.setenv("REGREADER_ASK_ORCHESTRATE", "1")
    assert json.loads(run(*words).stdout)["route"] == ["reference"]
    assert json.loads(run(*words, "--no-orchestrate").stdout)["route"] == ["reader"]


def test_a_word_that_is_no_text_is_told(folder: Path) -> None:
    done = run("tool", "get_toc", "reg_id=\udcff")
    assert (done.exit_code, "surrogates not allowed" in done.stderr) == (2, True)


@pytest.mark.parametrize("words", [("import", "regs"), ("ask", "x"), ("chat",), ("tool", "list_regulations")])
def test_an_index_of_another_program_is_named(folder: Path, words: tuple[str, ...]) -> None:
    with closing(sqlite3.connect("other.db")) as other:
        other.execute("CREATE TABLE regulations(x)")
    done = run("--index", "other.db", *words)
    assert (done.exit_code, "other.db is not an index that works: " in done.stderr) == (2, True)
    assert run("--index", "missing/x.db", *words).exit_code == 2


def test_a_chat_takes_bytes_that_are_no_text(folder: Path) -> None:
    done = CliRunner().invoke(main, ["chat"], input=b"\xff\nWhat does section 1.2 say?\n")
    assert (done.exit_code, "cleaned daily" in done.stdout) == (0, True)


@pytest.mark.slow
def test_ctrl_c_ends_a_chat_that_waits_for_a_question(folder: Path) -> None:
    command = [sys.executable, "-m", "regreader", "chat"]
    with subprocess.Popen(
        command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env={**os.environ, "PYTHONPATH": import_path(PACKAGE)}
    ) as chat:
        assert chat.stdin
        assert chat.stdout
        chat.stdin.write(b"What does section 1.2 say?\n")
        chat.stdin.flush()
        while b"[lamps p.2 1.2]" not in chat.stdout.readline():
            pass
        time.sleep(0.1)  # it reads its input then
        chat.send_signal(signal.SIGINT)
        assert chat.wait(20) == 1
