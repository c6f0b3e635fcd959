"""Folders and regulations that are not as they should be."""

import asyncio
import contextlib
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from regreader.cli import main
from regreader.importing import FILE_BYTES_MAX, decoded, files_of, read_files
from regreader.index import Index
from regreader.reader import Reader, Settings
from regreader.regulation import Regulation
from regreader.tools import ToolFailure

from tests.examples.regreader.kit import read, tools_of

PACKAGE = Path(__file__).parents[3] / "examples" / "regreader"


def reasons(folder: Path) -> dict[str, str]:
    told = [one.split(": ", 1) for one in read_files(folder, files_of(folder)) if isinstance(one, str)]
    return dict(told)


def ids(folder: Path) -> list[str]:
    return [one.id for one in read_files(folder, files_of(folder)) if isinstance(one, Regulation)]


def test_binary_empty_and_unknown_files_are_skipped_with_their_reasons(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\x89PNG\x00\x01\x02")
    (tmp_path / "b.txt").write_text(" \n")
    (tmp_path / "c.pdf").write_bytes(b"%PDF")
    (tmp_path / "d.txt").write_bytes(bytes(range(1, 32)) * 40)
    (tmp_path / ".hidden.md").write_text("# x")
    found = reasons(tmp_path)
    assert found.keys() == {"a.md", "b.txt", "c.pdf", "d.txt"}
    assert found["a.md"].startswith("binary")
    assert found["b.txt"] == "empty"
    assert found["c.pdf"] == "not a Markdown, text or HTML file"
    assert found["d.txt"].startswith("binary")


def test_100_mb_of_text_are_left_out_and_the_rest_is_imported(tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.truncate(100_000_000)
    (tmp_path / "small.md").write_text("## 1 One\n\nText.\n")
    assert reasons(tmp_path) == {
        "huge.txt": f"too large: files have at most {FILE_BYTES_MAX:,} bytes, folders 200,000,000"
    }
    assert ids(tmp_path) == ["small"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030", "gbk"])
def test_chinese_encodings_are_read(encoding: str) -> None:
    text = "第一条 为了保障安全，制定本规程。\n" * 3
    assert decoded(text.encode(encoding)) == text


def test_two_files_of_one_name_get_ids_of_their_own(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x y.md").write_text("## 1 One\n")
    assert ids(tmp_path) == [
        "x-y",
        "x-y-2",
    ]


@pytest.mark.parametrize("text", ["x", "#", "|-|", "Table 1", "注1：", "<table>", "\f\f", "<!--", "§"])
@pytest.mark.parametrize("suffix", ["md", "txt", "html"])
def test_scraps_are_imported_without_an_error(tmp_path: Path, text: str, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    path.write_text(text)
    assert len(list(read_files(tmp_path, files_of(tmp_path)))) == 1


@pytest.mark.parametrize("text", ["9" * 5_000, f"Chapter {'9' * 5_000} x", f"第{'一' * 5_000}章 x"])
def test_a_number_of_thousands_of_digits_is_no_number(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.txt").write_text(text)
    assert reasons(tmp_path) == {"x.txt": "no regulation: it has more than 1,000 digits or signs in a row"}
    tools = tools_of(read(tmp_path, "y.md", CIRCLE))
    with contextlib.suppress(ToolFailure):  # 9999... alone names nothing
        assert tools.resolve_reference("y", text)["status"] == "dangling"


CIRCLE = """
## 1 One

1.1 See 1.2.

1.2 See 1.3 and section 9.9.

1.3 See section 1.1.
"""


def test_references_in_a_circle_are_linked_and_a_dangling_one_is_not(tmp_path: Path) -> None:
    tools = tools_of(read(tmp_path, "x.md", CIRCLE))
    found = tools.resolve_reference("x", "1.2")
    assert [link["target"] for link in found["references"]] == ["1.3", None]
    assert tools.resolve_reference("x", "9.9")["status"] == "dangling"


def test_a_table_without_notes_and_a_note_without_a_table(tmp_path: Path) -> None:
    text = "## 1 One\n\nNote 1: Alone.\n\nTable 1-1 Plain\n\n| A | B |\n|---|---|\n| x | 1 |\n\nText.\n"
    one = read(tmp_path, "x.md", text)
    tools = tools_of(one)
    assert tools.get_table_by_id("x", "1-1")["notes"] == []
    assert one.sections[0].words == "Note 1: Alone.\nText."
    with pytest.raises(ToolFailure, match="table 1-1 has no note '1'"):
        tools.lookup_annotation("x", "1", "1-1")


def test_a_table_without_a_caption_has_a_name(tmp_path: Path) -> None:
    tools = tools_of(read(tmp_path, "x.md", "## 1 One\n\n| A | B |\n|---|---|\n| x | 1 |\n"))
    assert tools.get_table_by_id("x", "unnumbered-1")["rows"] == [["x", "1"]]


def test_a_folder_beyond_its_bound_is_imported_up_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regreader.importing.FOLDER_BYTES_MAX", 30)
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.md").write_text("## 1 One\n\nText.\n")
    assert ids(tmp_path) == ["a"]
    assert list(reasons(tmp_path)) == ["b.md", "c.md"]


@pytest.mark.parametrize("text", ["<div>" * 3_000, "<em>" * 1_000])
def test_elements_that_are_nested_too_deeply_are_skipped(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.html").write_text(text)
    assert "nested" in reasons(tmp_path)["x.html"]


@pytest.mark.parametrize(
    "line",
    [
        "-----\n",
        "1.1 x\n",
        "Article 9 x\n",
        "Note 1: x\n",
        "See 1.1.\n",
        "a\n\n| x | 1 |\n| y | 2 |\n\n",
    ],
)
def test_the_time_of_an_import_grows_with_its_lines(tmp_path: Path, line: str) -> None:
    counts = []
    for size in (200, 800):
        (tmp_path / "x.txt").write_text(line * size)
        calls = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            ids(tmp_path)
        finally:
            sys.setprofile(None)
        counts.append(calls)
    assert counts[1] <= 4.5 * counts[0]


@pytest.mark.parametrize("orchestrated", [False, True])
def test_a_question_in_another_language_is_refused_or_answered_from_a_number(
    tmp_path: Path, orchestrated: bool
) -> None:
    index = Index(tmp_path / "x.db")
    index.put(read(tmp_path, "x.md", "## 1 Oil\n\n1.1 Lamps burn oil.\n\n1.2 油灯每天清洁。\n"))
    index.close()

    async def asked(question: str) -> tuple[bool, str]:
        async with Reader(Settings(index=str(tmp_path / "x.db"), orchestrate=orchestrated)) as reader:
            result = await reader.ask(question)
            return result.success, result.content

    for question in ("Wie oft werden Lampen gereinigt?", "كم مرة تنظف المصابيح؟", "¿Quién es el alcalde?"):
        assert asyncio.run(asked(question)) == (False, "")
    assert asyncio.run(asked("Was steht in § 1.1?")) == (True, "1.1 Lamps burn oil.")


def test_a_file_that_is_no_index_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, but a text that is long enough to be taken for one " * 9)
    done = CliRunner().invoke(main, ["--index", str(tmp_path / "x.db"), "tool", "list_regulations"])
    assert (done.exit_code, "x.db is not an index" in done.stderr) == (2, True)


@pytest.mark.slow
def test_progress_is_shown_on_a_terminal_only(tmp_path: Path) -> None:
    (tmp_path / "regs").mkdir()
    for name in ("a", "b"):
        (tmp_path / "regs" / f"{name}.md").write_text("## 1 One\n")
    words = ["--index", str(tmp_path / "x.db"), "import", str(tmp_path / "regs")]
    piped = CliRunner().invoke(main, words)
    assert (piped.exit_code, piped.stderr, len(piped.stdout.splitlines())) == (0, "", 2)
    near, far = pty.openpty()
    with os.fdopen(near, "rb", buffering=0) as terminal:
        with os.fdopen(far, "wb", buffering=0) as end:
            command = [sys.executable, "-m", "regreader", *words]
            done = subprocess.run(
                command, cwd=PACKAGE, stderr=end, stdout=subprocess.PIPE, timeout=60, check=True
            )
        told = terminal.read(65_536)
    assert b"100%" in told
    assert done.stdout == piped.stdout.encode()


def test_a_table_without_columns_names_none_in_its_marks(tmp_path: Path) -> None:
    text = "<p>Table 1 X</p><table><tr><td>5*</td></tr></table><p>* Once.</p>"
    found = tools_of(read(tmp_path, "x.html", text)).get_table_by_id("x", "1")
    assert (found["rows"], found["marks"]) == ([["5"]], [{"row": 0, "column": "", "label": "*"}])


def test_merged_cells_of_tables_in_tables_do_not_multiply(tmp_path: Path) -> None:
    text = "<table><caption>Table 1 X</caption><tr><td rowspan=9999 colspan=9999>a" * 5 + "</table>" * 5
    (table,) = read(tmp_path, "x.html", text).tables
    assert len(str(table)) < 20_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.html", "<table>" + "<tr><td rowspan=100 colspan=100>a</td></tr>" * 400 + "</table>"),
        ("x.html", "<table><tr>" + "<td>a</td>" * 3_000 + "</tr>" + "<tr><td>a</td></tr>" * 400 + "</table>"),
    ],
)
def test_a_table_of_more_than_a_million_cells_is_refused_before_it_fills_the_memory(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(f"{text}\n")
    assert reasons(tmp_path) == {name: "it has a table of more than 1,000,000 cells"}


@pytest.mark.parametrize("sign", ["[", "§", "1.", "("])
def test_signs_in_a_row_are_no_regulation_and_take_no_time(tmp_path: Path, sign: str) -> None:
    (tmp_path / "x.md").write_text(f"1 One\n\n{sign * 100_000}\n")
    assert reasons(tmp_path) == {"x.md": "no regulation: it has more than 1,000 digits or signs in a row"}
