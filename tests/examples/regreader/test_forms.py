"""The forms that a file declares: headings, tables, notes, page marks; and no invented ones."""

import asyncio
from pathlib import Path

import pytest
from regreader.index import Index
from regreader.reader import Reader, Settings

from tests.examples.regreader.kit import read, sections, tools_of


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("x.md", "# Code\n\n## Chapter III Fees\n\n### 3.1 Amounts\n\n3.1.1 Ten euros.\n", ["chapter 3", "3.1", "3.1.1"]),
        ("x.html", "<h1>Act</h1><h2>Article 9</h2><p>x</p><h2>§ 15a Notice</h2><p>y</p>", ["article 9", "15a"]),
        ("x.md", "## Section 16 One\n\n## Section 16A Two\n\n## Annex B More\n", ["16", "16A", "annex B"]),
        ("x.md", "## 第三章 费用\n\n第十二条 每年十元。\n\n## 附录A 表\n", ["chapter 3", "article 12", "annex A"]),
        ("x.html", "<p>Title</p><pre>1. Scope\n\nText.\n\n2. Terms\n\nMore.</pre>", []),
        ("x.txt", "Code\n\n1. Scope\n\n   1. an item;\n   2. another.\n\n2. Terms\n\n  2.1. Words\n\nx\n", ["1", "2", "2.1"]),
        ("x.txt", "Code\n****\n\n1. Scope\n========\n\n1. an item\n\n2. another\n\n2. Terms\n========\n", ["1", "2"]),
        ("x.txt", "Some prose.\n\n3 of them came.\n\nSection 5 applies to all.\n\n1990 was a year.\n", []),
    ],
)  # fmt: skip
def test_declared_headings_are_the_sections(
    tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    assert [number for number, _, _ in sections(read(tmp_path, name, text))] == expected


@pytest.mark.parametrize(
    ("name", "text", "pages"),
    [
        ("x.md", "<!-- page 4 -->\n\n## 1 One\n\n<!-- page 5 -->\n\n## 2 Two\n", [4, 5]),
        ("x.md", "## 1 One\n\n\f\n\n## 2 Two\n", [1, 2]),
        ("x.txt", "1. One\n\nx\n\f2. Two\n\ny\n", [1, 2]),
        (
            "x.html",
            '<h2>1 One</h2><span role="doc-pagebreak" aria-label="12"></span><h2>2 Two</h2>',
            [11, 12],
        ),
        ("x.txt", "1. One\n\nx\n\nPage 3\n\n2. Two\n\n- 4 -\n\ny\n", [0, 0]),
    ],
)
def test_pages_come_from_marks_and_from_nothing_else(
    tmp_path: Path, name: str, text: str, pages: list[int]
) -> None:
    assert [page for _, _, page in sections(read(tmp_path, name, text))] == pages


def test_a_table_has_its_notes_and_the_cells_that_they_mark(tmp_path: Path) -> None:
    rows = "<tr><th>Lamp</th><th>Hours</th></tr><tr><td>Oil</td><td>9<sup>1</sup></td></tr>"
    text = f"<table><caption>Table 1-1 Lamps</caption>{rows}</table><p>Note 1: Less in wind.</p><p>More.</p>"
    found = tools_of(read(tmp_path, "x.html", text)).get_table_by_id("x", "1-1")
    assert (found["columns"], found["rows"]) == (["Lamp", "Hours"], [["Oil", "9"]])
    assert found["notes"] == [{"label": "1", "text": "Less in wind.", "page": 0}]
    assert found["marks"] == [{"row": 0, "column": "Hours", "label": "1"}]


TWICE = """# Code

## Chapter 1 Towns

Article 1 Towns pay ten euros.

## Chapter 2 Villages

Article 1 Villages pay two euros.

Article 2 Limits are set out in Article 3.

Article 3 No village pays more than ninety euros a year.

Article 4 See Article 77.

Table 2-1 Rates

| Place | Rate | Cap |
|---|---|---|
| Hamlet | — | 7 |
"""


def asked(folder: Path, *questions: str) -> list[tuple[bool, str, tuple[str, ...]]]:
    index = Index(folder / "x.db")
    index.put(read(folder, "code.md", TWICE))
    index.close()

    async def body() -> list[tuple[bool, str, tuple[str, ...]]]:
        async with Reader(Settings(str(folder / "x.db"), orchestrate=True)) as reader:
            found = [await reader.chat(one) for one in questions]
            return [(one.success, one.content or one.error, one.sources) for one in found]

    return asyncio.run(body())


def test_two_places_of_one_name_are_told_apart_or_refused(tmp_path: Path) -> None:
    plain, within, missing = asked(
        tmp_path,
        "What does Article 1 say?",
        "What does Article 1 of Chapter 2 say?",
        "What does Article 1a say?",
    )
    assert not plain[0]
    assert "Article 1 is ambiguous: article 1, article 1 (chapter 2)" in plain[1]
    assert within[1].startswith("1 Villages pay two euros.") or "Villages pay two euros." in within[1]
    assert within[2] == ("code article 1 (chapter 2)",)
    assert not missing[0]


def test_a_text_that_only_points_elsewhere_is_followed_or_refused(tmp_path: Path) -> None:
    followed, dangling = asked(tmp_path, "What does Article 2 say?", "What does Article 4 say?")
    assert "ninety euros" in followed[1]
    assert followed[2] == ("code article 2", "code article 3")
    assert not dangling[0]
    assert "Article 4 only points to what does not exist" in dangling[1]


def test_a_dash_is_not_a_value(tmp_path: Path) -> None:
    empty, full = asked(
        tmp_path, "What is the rate of a hamlet in Table 2-1?", "What is the cap of a hamlet in Table 2-1?"
    )
    assert not empty[0]
    assert "Cap 7" in full[1]


def test_a_chat_remembers_the_last_place(tmp_path: Path) -> None:
    questions = ("What does Article 2 say?", "And what does it refer to?", "What is note 4 of it?")
    _, further, note = asked(tmp_path, *questions)
    assert "ninety euros" in further[1]
    assert not note[0]  # an article has no note 4

    _, note = asked(tmp_path, "What is the cap of a hamlet in Table 2-1?", "And its note 4?")
    assert "table (the table or its note does not exist)" in note[1]
