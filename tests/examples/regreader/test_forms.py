"""The many ways to write a caption, a note, and the number of a heading."""

from pathlib import Path

import pytest
from regreader.numbering import references_in

from tests.examples.regreader.kit import notes, read

ROWS = "| Item | Max |\n|---|---|\n| {} | 1{} |\n| B | 2 |\n"


@pytest.mark.parametrize(
    "caption",
    [
        "Table 3-1 Limits", "Table 3-1: Limits", "Table 3-1. Limits", "Table 3-1 — Limits", "TABLE 3-1 Limits",
        "Tab. 3-1 Limits", "**Table 3-1** Limits", "*Table 3-1: Limits*", "#### Table 3-1 Limits",
        "Table 3-1\nLimits", "Table 3-1\n\nLimits", "**Table 3-1**\n\n*Limits*", "Table (3-1) Limits",
        "Table 3-1 (Limits)", "Table 3–1 Limits", "[Table 3-1] Limits", "Table no. 3-1 Limits",
        "Table 3-1 Limits, unit: mm", "<center>Table 3-1 Limits</center>", "> Table 3-1 Limits",
        "表3-1 Limits", "表 3-1　Limits", "表3-1：Limits", "表３－１ Limits（单位：mm）",
    ],
)  # fmt: skip
def test_a_caption_names_its_table(tmp_path: Path, caption: str) -> None:
    one = read(tmp_path, "x.md", f"## 3 X\n\nText.\n\n{caption}\n\n{ROWS.format('A', '')}\nMore.\n")
    assert [(table.number, table.title) for table in one.tables] == [("3-1", "Limits")]
    assert one.sections[0].words == "Text.\nMore."


@pytest.mark.parametrize(
    "caption",
    [
        "Table 3-1 (continued)", "Table 3-1 Limits (cont'd)", "Table 3-1, continued", "Table 3-1 (concluded)",
        "Continued Table 3-1", "Table 3-1 Limits", "(continued)", "续表3-1", "续表 3-1", "表3-1（续）",
        "表3-1 Limits（续）", "表3-1续", "（续表3-1）", "续表",
    ],
)  # fmt: skip
def test_a_caption_goes_on_with_its_table(tmp_path: Path, caption: str) -> None:
    parts = [f"Table 3-1 Limits\n\n{ROWS.format('A', '')}", f"{caption}\n\n{ROWS.format('C', '')}"]
    (table,) = read(tmp_path, "x.md", "\n<!-- page 2 -->\n\n".join(parts)).tables
    assert [row[0] for row in table.rows] == ["A", "B", "C", "B"]
    assert (table.number, table.title, table.page_end) == ("3-1", "Limits", 2)


@pytest.mark.parametrize(
    ("mark", "note", "label"),
    [
        ("*", "*Once.", "*"), ("<sup>1)</sup>", "<sup>1)</sup> Once.", "1"), (" [1]", "[1] Once.", "1"),
        ("[1]", "[1]: Once.", "1"), ("¹⁾", "¹⁾ Once.", "1"), ("¹", "1 Once.", "1"), ("††", "†† Once.", "††"),
        ("§", "§ Once.", "§"), ("a", "a Once.", "a"), ("<sup>a</sup>", "a: Once.", "a"), ("※", "※ Once.", "※"),
        (" (see Note 1)", "Note 1: Once.", "1"), ("[注1]", "[注1] Once.", "1"), ("①", "注：① Once.", "1"),
        ("", "Note: Once.", "note"), ("", "NOTE — Once.", "note"), ("", "**Note:** Once.", "note"),
        ("", "Notes:\n1. Once.", "1"), ("", "Notes:\n\n1) Once.", "1"), ("", "> Note 1: Once.", "1"),
        ("", "Note (1): Once.", "1"), ("", "NOTE 1—Once.", "1"), ("", "Remark 1: Once.", "1"),
        ("", "Footnote 1: Once.", "1"), ("", "<small>Note 1: Once.</small>", "1"), ("", "备注：Once.", "note"),
        ("", "说明：Once.", "note"), ("", "注１：Once.", "1"),
    ],
)  # fmt: skip
def test_a_note_has_its_label_and_leaves_its_mark(tmp_path: Path, mark: str, note: str, label: str) -> None:
    text = f"## 3 X\n\nTable 3-1 Limits\n\n{ROWS.format('A', mark)}\n{note}\n\nThe next text is no note.\n"
    one = read(tmp_path, "x.md", text)
    assert notes(one) == [(label, "Once.")]
    assert one.tables[0].rows[0] == ["A", "1"]
    assert one.tables[0].marks == ([(0, 1, label)] if mark else [])


HEADS = {
    "1": (("1 A", "2 B", "2.1 C", "2.1.1 D"), ["1", "2", "2.1", "2.1.1"]),
    "1.": (("1. A", "2. B", "2.1. C"), ["1", "2", "2.1"]),
    "§": (("§ 1 A", "§ 2 B", "§ 2.1 C"), ["1", "2", "2.1"]),
    "section": (("Section 1 A", "Section 2: B", "Section 2.1 - C"), ["1", "2", "2.1"]),
    "chapter": (("CHAPTER I. A", "Section 1.1 B", "CHAPTER II. C"), ["chapter 1", "1.1", "chapter 2"]),
    "part": (("Part A: B", "A.1 C", "Part B: D"), ["part A", "A.1", "part B"]),
    "article": (("Article 1 A", "Article 2. B", "Article 3 – C"), ["article 1", "article 2", "article 3"]),
    "annex": (("1 A", "Annex A (normative) F", "A.1 B"), ["1", "annex A", "A.1"]),
    "ordinal": (("1 A", "First Schedule B", "SECOND SCHEDULE C"), ["1", "schedule 1", "schedule 2"]),
    "章": (("第一章　甲", "第一节　乙", "第二章　丙"), ["chapter 1", "1.1", "chapter 2"]),
    "条": (("第一编 甲", "第一章 乙", "第一条 丙"), ["part 1", "chapter 1", "article 1"]),
    "全": (("１　甲", "２　乙", "２．１　丙"), ["1", "2", "2.1"]),
    "一": (("一、甲", "二、乙"), ["chapter 1", "chapter 2"]),
    "附": (("1 甲", "附录A（规范性附录）乙", "A.1 丙", "附表2 丁"), ["1", "annex A", "A.1", "schedule 2"]),
}


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize(
    ("form", "suffix"),
    [
        ("## {}", "md"), ("**{}**", "md"), ("{}\n---------", "md"), ("{}", "txt"), ("<h2>{}</h2>", "html"),
        ("<p><b>{}</b></p>", "html"),
    ],
)  # fmt: skip
def test_a_heading_is_read_in_every_form(tmp_path: Path, heads: str, form: str, suffix: str) -> None:
    texts, wanted = HEADS[heads]
    body = "\n\n".join(f"{form.format(one)}\n\nSome text of this place stands here." for one in texts)
    one = read(tmp_path, f"x.{suffix}", f"# Code\n\n{body}" if suffix == "md" else body)
    assert [section.id for section in one.sections] == wanted


LINES = ("Item        Min    Max", "Oil lamp    1      2", "Gas         3      4")
BARS = tuple(f"| {line[:8]} | {line[12:15]} | {line[19:]:3} |" for line in LINES)
EDGE = "+----------+-----+-----+"


@pytest.mark.parametrize(
    "rows",
    [
        "\n".join((BARS[0], "|---|---|---|", *BARS[1:])),
        "\n".join(BARS),
        "\n".join((BARS[0].strip("| "), "---|---|---", BARS[1].strip("| "), BARS[2].strip("| "))),
        "\n".join((EDGE, BARS[0], EDGE.replace("-", "="), BARS[1], EDGE, BARS[2], EDGE)),
        "\n".join((EDGE, BARS[0], EDGE, *BARS[1:], EDGE)),
        "\n".join((LINES[0], "-" * 22, *LINES[1:])),
        "\n".join(("-" * 22, LINES[0], "-" * 22, *LINES[1:], "-" * 22)),
        "\n".join((LINES[0], "-------- --- ---".replace(" ", "    ", 1), *LINES[1:])),
        "\n".join(
            (
                "  Item       Min   Max",
                "  ---------- ----- -----",
                "  Oil lamp   1     2",
                "  Gas        3     4",
            )
        ),
        "\n".join(LINES),
        "\n".join("\t".join(line.split("  ")[0:1] + line[8:].split()) for line in LINES),
        "\n".join(("```", LINES[0], "-" * 22, *LINES[1:], "```")),
        "\n\n".join((f"{LINES[0]}\n{'-' * 22}", *LINES[1:])),
        "<table><tr><td>Item<td>Min<td>Max<tr><td>Oil lamp<td>1<td>2<tr><td>Gas<td>3<td>4</table>",
    ],
)
@pytest.mark.parametrize("suffix", ["md", "txt"])
def test_a_table_is_read_in_every_form(tmp_path: Path, rows: str, suffix: str) -> None:
    one = read(
        tmp_path, f"x.{suffix}", f"See Table 3-1.\n\nTable 3-1 Limits\n\n{rows}\n\nThe text goes on here.\n"
    )
    assert [(table.number, table.columns, table.rows) for table in one.tables] == [
        ("3-1", ["Item", "Min", "Max"], [["Oil lamp", "1", "2"], ["Gas", "3", "4"]])
    ]
    assert one.sections[0].words == "See Table 3-1.\nThe text goes on here."


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("see Section 4.2", ["4.2"]),
        ("see 4.2", ["4.2"]),
        ("(see 4.2.1)", ["4.2.1"]),
        ("as defined in Section 4.2 and Table 3-1", ["4.2", "table 3-1"]),
        ("Sections 4.2, 4.3 and 5", ["4.2", "4.3", "5"]),
        ("Sections 4.2 to 4.5", ["4.2", "4.5"]),
        ("Articles 3 and 4", ["article 3", "article 4"]),
        ("Article 3(2)", ["article 3"]),
        ("paragraph 2 of Article 5", ["article 5"]),
        ("Chapter IV", ["chapter 4"]),
        ("chapter 4", ["chapter 4"]),
        ("Annex A", ["annex A"]),
        ("Annexes A and B", ["annex A", "annex B"]),
        ("Appendix 2", ["annex 2"]),
        ("Schedule 1", ["schedule 1"]),
        ("Part II", ["part 2"]),
        ("Table 6-2", ["table 6-2"]),
        ("Tables 6-2 and 6-3", ["table 6-2", "table 6-3"]),
        ("Table 6-2, note 1", ["table 6-2 note 1"]),
        ("note 1 to Table 6-2", ["table 6-2 note 1"]),
        ("Note 1 of Table 6-2", ["table 6-2 note 1"]),
        ("Table 6-2 (see note 1)", ["table 6-2 note 1"]),
        ("Table 6-2 Note a", ["table 6-2 note a"]),
        ("footnote b of Table 6-2", ["table 6-2 note b"]),
        ("clause 5.1(a)", ["5.1"]),
        ("subclause 5.1.2", ["5.1.2"]),
        ("§ 5.6.12", ["5.6.12"]),
        ("§§ 5.6 and 5.7", ["5.6", "5.7"]),
        ("in accordance with 5.3", ["5.3"]),
        ("the requirements of 5.3 apply", ["5.3"]),
        ("comply with A.1 and A.2", ["A.1", "A.2"]),
        ("as described in Annex B, B.2", ["annex B", "B.2"]),
        ("Table 3, notes 1 and 2", ["table 3 note 1", "table 3 note 2"]),
        ("notes 1 and 2 of Table 3", ["table 3 note 1"]),
        ("表4-2注②", ["table 4-2 note 2"]),
        ("表4-2注a的介质", ["table 4-2 note a"]),
        ("a flow of 5.3 m/s", []),
        ("10.5 kV", []),
        ("under 2.5 MW", []),
        ("Regulation 7", ["article 7"]),
        ("Rule 4", ["article 4"]),
        ("Section A.2", ["A.2"]),
        ("A.2.1", []),
        ("see A.2.1", ["A.2.1"]),
        ("Figure 3", []),
        ("见第4.2条", ["4.2"]),
        ("按4.2.1的规定", ["4.2.1"]),
        ("应符合表6-2的规定", ["table 6-2"]),
        ("表6-2注1", ["table 6-2 note 1"]),
        ("表6-2的注1", ["table 6-2 note 1"]),
        ("见表6-2（注1）", ["table 6-2 note 1"]),
        ("第三章", ["chapter 3"]),
        ("第十二条", ["article 12"]),
        ("第三章第二节", ["3.2"]),
        ("附录A", ["annex A"]),
        ("附表1", ["schedule 1"]),
        ("附件二", ["annex 2"]),
        ("第5.6.12条", ["5.6.12"]),
        ("本规程5.6.12条", ["5.6.12"]),
        ("第3.1、3.2条", ["3.1", "3.2"]),
        ("第三条和第四条", ["article 3", "article 4"]),
        ("第三条至第五条", ["article 3", "article 5"]),
        ("表6-2和表6-3", ["table 6-2", "table 6-3"]),
        ("表6-2、6-3", ["table 6-2", "table 6-3"]),
        ("参见附录B.2", ["B.2"]),
        ("依据本规程第二章", ["chapter 2"]),
        ("GB/T 12345—2020", []),
        ("ISO 9001", []),
        ("12.5 mm", []),
        ("in 2020", []),
    ],
)
def test_a_reference_is_read_in_every_form(text: str, targets: list[str]) -> None:
    assert [target.id for _, target in references_in(text)] == targets


MARKS = [
    "<div class='page-break'></div>",
    "<hr style='page-break-after:always'>",
    "<div style='break-after: page'></div>",
    "<p class='MsoNormal' style='page-break-before:always'></p>",
    "<!-- Page {} -->",
    "<a name='page{}'></a>",
    "<a id='page{}'></a>",
    "<span class='pagenum'>[{}]</span>",
    "<span class='pagenum' id='p{}'>{}</span>",
    "<div class='pagebreak' id='page_{}'></div>",
    "<br clear='all' style='page-break-before:always'>",
    "<p><span style='page-break-before:always'></span></p>",
    "<pagebreak/>",
    "<div class='newpage'></div>",
    "<hr class='page'/>",
    "<div class='page_break'></div>",
    "<hr class='pb'>",
    "<div class='pageBreak'></div>",
    "<div class='PageBreak'></div>",
    "<div class='sheet-break'></div>",
    "<div class='page-separator'></div>",
    "<div class='page-end'></div>",
    "<div data-page='{}'></div>",
    "<div data-page-number='{}'></div>",
    "<div class='page-number'>{}</div>",
    "<div role='doc-pagebreak' aria-label='{}'></div>",
    "<span epub:type='pagebreak' title='{}'/>",
    "<div class='pagina'>{}</div>",
    "<p class='page'>{}</p>",
    "<p class='page-marker'>Page {}</p>",
    "<p>Page {}</p>",
    "<p align='center'>- {} -</p>",
    "<hr><p>Page {} of 3</p><hr>",
]
WRAPPERS = [
    "<section class='page'>{b}</section>",
    "<div class='page' data-page-number='{n}'>{b}</div>",
    "<div class='page' id='page-{n}'>{b}</div>",
    "<div id='pf{n}' class='pf w0' data-page-no='{n}'>{b}</div>",
    "<div class='Page'>{b}</div>",
    "<article class='page'>{b}</article>",
    "<div class='page'>{b}<p class='page-footer'>Page {n}</p></div>",
    "<div class='page'>{b}<footer>Page {n} of 3</footer></div>",
    "<div class='page'>{b}<div class='footer'>{n}</div></div>",
    "<div style='page-break-after:always'>{b}</div>",
    "<section style='break-before:page'>{b}</section>",
    "<div class='a4page'>{b}</div>",
    "<div class='page-container'>{b}</div>",
    "<section data-page='{n}'>{b}</section>",
    "<div class='page page-{n}'>{b}</div>",
    "<div class='sheet'><div class='head'>Code of X</div>{b}<div class='foot'>Page {n}</div></div>",
]


def pages_read(folder: Path, text: str) -> list[tuple[str, int, str]]:
    """Return the number, the page and the end of the page of each section."""
    one = read(folder, "x.html", f"<html><body>{text}</body></html>")
    return [(section.id, section.page, one.pages[section.page].split()[-1]) for section in one.sections]


def page_of(number: int) -> str:
    return f"<h2>{number} Title</h2><p>Text number {number} of this page is here.</p>"


@pytest.mark.parametrize("mark", MARKS)
def test_a_page_mark_of_html_is_read_before_behind_and_between_pages(tmp_path: Path, mark: str) -> None:
    marks = [mark.replace("{}", str(number)) for number in (1, 2, 3)]
    pages = [page_of(number) for number in (1, 2, 3)]
    between = pages[0] + "".join(f"{one}{page}" for one, page in zip(marks[1:], pages[1:], strict=True))
    texts = [between]
    if "{}" in mark:
        pairs = list(zip(marks, pages, strict=True))
        texts += [
            "".join(f"{one}{page}" for one, page in pairs),
            "".join(f"{page}{one}" for one, page in pairs),
        ]
    for text in texts:
        assert pages_read(tmp_path, text) == [(str(number), number, "here.") for number in (1, 2, 3)]


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_an_element_around_a_page_is_read(tmp_path: Path, wrapper: str) -> None:
    text = "".join(wrapper.replace("{b}", page_of(at)).replace("{n}", str(at)) for at in (1, 2, 3))
    assert pages_read(tmp_path, text) == [(str(number), number, "here.") for number in (1, 2, 3)]


RUNNING_HEADS = [
    "", "Code of X", "Code of X          Edition 2", "Code of X              Page {}", "{}             Code of X",
    "Code of X, 2021 edition", "GB/T 1234-2021", "Company Ltd.\nCode of X", "X-{}",
]  # fmt: skip
RUNNING_FEET = [
    "", "Page {}", "- {} -", "{}", "Page {} of 4", "Rev. 3               {}", "© 2021 Company",
    "Company              Page {}", "{}\nCompany", "1-{}", "第{}页",
]  # fmt: skip


@pytest.mark.parametrize("foot", RUNNING_FEET)
@pytest.mark.parametrize("head", RUNNING_HEADS)
def test_running_heads_and_feet_are_no_text_and_tell_the_pages(tmp_path: Path, head: str, foot: str) -> None:
    body = "{0} Title {0}\n\nRule number {0} about lamps stands here."
    first = 7 if "{}" in head + foot else 1
    for has_head_at_first in (True, False):
        pages = []
        for at in (1, 2, 3, 4):
            above = head.replace("{}", str(at + first - 1)) if at > 1 or has_head_at_first else ""
            below = foot.replace("{}", str(at + first - 1))
            pages.append("\n\n".join(part for part in (above, body.format(at), below) if part))
        one = read(tmp_path, "x.txt", "\f".join(pages))
        assert one.pages == {
            at + first - 1: f"{at} Title {at}\nRule number {at} about lamps stands here."
            for at in (1, 2, 3, 4)
        }


@pytest.mark.parametrize("rule", ["", "---", "* * *"])
@pytest.mark.parametrize("is_foot", [True, False])
@pytest.mark.parametrize(
    "mark",
    [
        "Page {}", "*Page {} of 9*", "**— {} —**", "*{}*", "*Code · Rev. 4 · Page {}*", "`Page {}`", "> Page {}",
        "<small>Page {}</small>", "<center>{}</center>", "Code, p. {}", "{} | Code", "Sheet {} of 9", "Rev. 2 – {}",
        "*Water Board* — {}", "| Code | Page {} |", "{} — Code of Practice", "页码：{}", "[pagebreak: {}]",
        "*第{}页*", "第 {} 页 共 9 页",
    ],
)  # fmt: skip
def test_a_page_mark_of_markdown_is_a_foot_or_a_head(
    tmp_path: Path, mark: str, is_foot: bool, rule: str
) -> None:
    pages = []
    for number, letter in enumerate("ABCD", 7):
        body = f"## {number - 6} Head {letter}\n\nText of part {letter} stands here."
        marks = "\n\n".join(part for part in (mark.replace("{}", str(number)), rule) if part)
        pages.append(f"{body}\n\n{marks}" if is_foot else f"{marks}\n\n{body}")
    one = read(tmp_path, "x.md", "# Code\n\n" + "\n\n".join(pages) + "\n")
    assert [section.page for section in one.sections] == [7, 8, 9, 10]
    assert [section.words for section in one.sections] == [
        f"Text of part {letter} stands here." for letter in "ABCD"
    ]


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("In fog, 2.2.2 applies too.", ["2.2.2"]), ("the numbers found by A.1 and A.2", ["A.1", "A.2"]),
        ("the limits in 4.2 are met", ["4.2"]), ("notwithstanding 4.2, it is", ["4.2"]), ("4.2 above", ["4.2"]),
        ("refused where 4.2 has been broken", ["4.2"]), ("tested to 4.2 and 4.2.", ["4.2", "4.2"]), ("与4.2相同", ["4.2"]), ("执行2.2.2", ["2.2.2"]), ("in 4.2 seconds", []), ("a slope of 4.2 is", []),
        ("in 4.3 below", []), ("version 12.2.2.2", []),
    ],
)  # fmt: skip
def test_a_number_alone_is_a_reference_if_there_is_such_a_place(text: str, targets: list[str]) -> None:
    assert [target.id for _, target in references_in(text, {"2.2.2", "4.2", "A.1", "A.2"})] == targets


PLAIN = ["Item", "Width", "Height"]
GROUPED = ["Item", "Limits (mm) / Min", "Limits (mm) / Max"]


@pytest.mark.parametrize(
    ("drawn", "columns", "rows"),
    [
        ("Item        Limits (mm)\n            Min     Max\n-----------------------\nA           1       2\nB  3  4\n",
         GROUPED, [["A", "1", "2"], ["B", "3", "4"]]),
        ("========================\nItem        Limits (mm)\n            ------------\n            Min     Max\n"
         "------------------------\nA           1       2\n========================\n", GROUPED, [["A", "1", "2"]]),
        ("Item        Width    Height\n            (mm)     (mm)\n---------------------------\nA           1        2\n",
         ["Item", "Width (mm)", "Height (mm)"], [["A", "1", "2"]]),
        ("Type of     Least    Greatest\nstair       width    rise\n-----------------------------\nA           1        2\n",
         ["Type of stair", "Least width", "Greatest rise"], [["A", "1", "2"]]),
        ("Item            Width    Height\n-------------------------------\nA with a        1        2\n  long name\n"
         "B               3        4\n", PLAIN, [["A with a long name", "1", "2"], ["B", "3", "4"]]),
        ("Item        Width    Height\n---------------------------\nIndoor\n  A         1        2\n",
         PLAIN, [["Indoor", "", ""], ["A", "1", "2"]]),
        ("Item          Width     Height\n------------------------------\nA               100          2\n"
         "B room        1,000         14\n", PLAIN, [["A", "100", "2"], ["B room", "1,000", "14"]]),
    ],
)  # fmt: skip
def test_aligned_columns_have_headers_of_one_or_two_rows(
    tmp_path: Path, drawn: str, columns: list[str], rows: list[list[str]]
) -> None:
    text = "".join(f"     {line}\n" for line in drawn.splitlines())
    one = read(tmp_path, "x.txt", f"1 A\n\n1.1 B\n\n     Table 1 - Limits\n\n{text}\n     After it.\n")
    assert [(table.columns, table.rows) for table in one.tables] == [(columns, rows)]
    assert one.sections[1].words == "After it."


@pytest.mark.parametrize(
    ("notes_below", "labels"),
    [
        ("------------------------\nNOTES\na) Once.\nb) Twice.", "ab"), ("Note 1: Once.\nNote 2: Twice.", "12"),
        ("a) Once.\nb) Twice.", "ab"), ("注：1. 一次。\n    2. 二次。", "12"), ("* Once.\n† Twice.", "*†"),
        ("------------------------\n*  Once.\n†  Twice, in the\n   dry season.", "*†"),
    ],
)  # fmt: skip
def test_notes_stand_directly_below_aligned_columns(tmp_path: Path, notes_below: str, labels: str) -> None:
    drawn = f"Item      Width   Height\n------------------------\nA         1       2 b)\n{notes_below}"
    text = "".join(f"     {line}\n" for line in drawn.splitlines())
    one = read(tmp_path, "x.txt", f"1 A\n\n1.1 B\n\n     Table 1 - Limits\n\n{text}\n     After it.\n")
    assert [len(table.rows) for table in one.tables] == [1]
    assert [note.number for note in one.tables[0].notes] == [*labels]
    assert one.sections[1].words == "After it."


@pytest.mark.parametrize("gap", [" - ", ": ", " — ", ".  ", "　", ". ", ") "])
def test_a_sign_stands_between_the_number_of_a_section_and_its_title(tmp_path: Path, gap: str) -> None:
    names = ["GENERAL", "RULES", "RECORDS"]
    parts = [f"{at}{gap}{name}\n\n{at}.1{gap}Scope\n\n     It is so.\n" for at, name in enumerate(names, 1)]
    one = read(tmp_path, "x.txt", "\n".join(parts))
    titles = [title for name in names for title in (([] if gap == ") " else [name]) + ["Scope"])]
    assert [section.title for section in one.sections if section.kind == "section"] == titles


@pytest.mark.parametrize(
    "head",
    [
        "<h2><span>{n}</span>{t}</h2>", "<h2>{n} {t}</h2>", "<section><header><h2>{n} {t}</h2></header>",
        "<p><b>{n}</b> <b>{t}</b></p>", "<h2>{n}<br>{t}</h2>", "<h2><a href='#top'>{n} {t}</a></h2>",
        "<h2>Section {n} &mdash; {t}</h2>", "<dt>{n} {t}</dt><dd>", "<p><font size=4><b>{n} {t}</b></font></p>",
    ],
)  # fmt: skip
def test_a_heading_of_html_has_its_number_and_its_title(tmp_path: Path, head: str) -> None:
    names = [("1", "General"), ("1.1", "Scope"), ("2", "Rules")]
    body = "".join(
        head.replace("{n}", number).replace("{t}", title) + "<p>So.</p>" for number, title in names
    )
    one = read(tmp_path, "x.html", f"<h1>Code</h1>{body}")
    assert [(section.id, section.title, section.words) for section in one.sections] == [
        (number, title, "So.") for number, title in names
    ]


@pytest.mark.parametrize(
    "opening", ["第一条【目的】", "第一条（目的）　", "**第一条** 【目的】", "第一条〔目的〕 "]
)
def test_an_article_has_its_title_in_brackets(tmp_path: Path, opening: str) -> None:
    one = read(
        tmp_path, "x.md", f"# 办法\n\n第一章 总则\n\n{opening}为了安全，制定本办法。\n\n第二条 （一）甲。\n"
    )
    found = [(section.id, section.title, section.words) for section in one.sections[1:]]
    assert found == [("article 1", "目的", "为了安全，制定本办法。"), ("article 2", "", "（一）甲。")]


@pytest.mark.parametrize(
    ("below", "notes_there"),
    [
        ("注：1　甲为室内；\n　　2　乙为室外。", [("1", "甲为室内"), ("2", "乙为室外。")]),
        ("注1　甲为室内。\n注2　乙为室外。", [("1", "甲为室内。"), ("2", "乙为室外。")]),
        ("（注1）甲为室内。", [("1", "甲为室内。")]),
        ("注：① 甲为室内；② 乙为室外。", [("1", "甲为室内"), ("2", "乙为室外。")]),
        ("注：\n1. 甲为室内。\n2. 乙为室外。", [("1", "甲为室内。"), ("2", "乙为室外。")]),
    ],
)
def test_chinese_notes_are_numbered_in_many_ways(
    tmp_path: Path, below: str, notes_there: list[tuple[str, str]]
) -> None:
    rows = "| 项目 | 宽 |\n|---|---|\n| 甲 | 1 |\n| 乙 | 2 |\n"
    one = read(tmp_path, "x.md", f"# 规程\n\n## 3 要求\n\n表3-1　限值\n\n{rows}\n{below}\n\n文本。\n")
    assert notes(one) == notes_there
    assert one.sections[0].words == "文本。"


@pytest.mark.parametrize(
    ("sign", "below"), [("*", "\\* Oil only."), ("†", "† Oil only."), ("**", "** Oil only.")]
)
def test_a_footnote_of_a_text_is_a_note_of_its_section_and_no_text(
    tmp_path: Path, sign: str, below: str
) -> None:
    text = f"## 1 A\n\nLamps{sign} burn.\n\n## 2 B\n\nMore.\n\n---\n\n{below}\n\n## 3 C\n\n* An item.\n* Another.\n"
    one = read(tmp_path, "x.md", text)
    assert [(note.number, note.words, note.parent) for note in one.notes] == [(sign, "Oil only.", "1")]
    assert [section.words for section in one.sections] == [
        f"Lamps{sign} burn.",
        "More.",
        "* An item.\n* Another.",
    ]


def test_sections_are_counted_on_through_chapters_or_anew_in_each(tmp_path: Path) -> None:
    parts = ["Chapter 1\nTerms\n\n1.  Lamps\n\n2.  Scope\n", "Chapter 2\nOil\n\n3.  Oil\n\n4.  Wick\n"]
    one = read(tmp_path, "x.txt", "\n".join(parts))
    assert [section.id for section in one.sections] == ["chapter 1", "1", "2", "chapter 2", "3", "4"]


BOXES = {
    "+": "+------+-------+\n| Item | Width |\n+------+-------+\n| A    | 1     |\n+------+-------+\n| B    | 2     |\n+------+-------+",
    "no rules between rows": "+------+-------+\n| Item | Width |\n+------+-------+\n| A    | 1     |\n| B    | 2     |\n+------+-------+",
    "light": "┌──────┬───────┐\n│ Item │ Width │\n├──────┼───────┤\n│ A    │ 1     │\n│ B    │ 2     │\n└──────┴───────┘",
    "double": "╔══════╦═══════╗\n║ Item ║ Width ║\n╠══════╬═══════╣\n║ A    ║ 1     ║\n║ B    ║ 2     ║\n╚══════╩═══════╝",
    "mixed": "╒══════╤═══════╕\n│ Item │ Width │\n╞══════╪═══════╡\n│ A    │ 1     │\n├──────┼───────┤\n│ B    │ 2     │\n╘══════╧═══════╛",
    "dashes": "----------------\n| Item | Width |\n----------------\n| A    | 1     |\n| B    | 2     |\n----------------",
    "bars": "| Item | Width |\n|------+-------|\n| A    | 1     |\n| B    | 2     |",
    "no edge": " Item | Width\n------|-------\n A    | 1\n B    | 2",
}


@pytest.mark.parametrize("drawn", BOXES.values(), ids=BOXES)
def test_a_table_is_drawn_in_many_ways(tmp_path: Path, drawn: str) -> None:
    text = "".join(f"     {line}\n" for line in drawn.splitlines())
    one = read(tmp_path, "x.txt", f"1 A\n\n1.1 B\n\n     Table 1 - Limits\n\n{text}\n     After it.\n")
    assert [(table.columns, table.rows) for table in one.tables] == [
        (["Item", "Width"], [["A", "1"], ["B", "2"]])
    ]
    assert one.sections[1].words == "After it."


@pytest.mark.parametrize(
    "drawn",
    [
        "+------+-------------+\n| Item | Limits      |\n|      +------+------+\n|      | Min  | Max  |\n+------+------+------+\n| A    | 1    | 2    |\n+------+------+------+",
        "+------+-------------+\n|      | Limits      |\n| Item +------+------+\n|      | Min  | Max  |\n+------+------+------+\n| A    | 1    | 2    |\n+------+------+------+",
        "+------+-------------+\n|      | Limits      |\n+------+------+------+\n| Item | Min  | Max  |\n+======+======+======+\n| A    | 1    | 2    |\n+------+------+------+",
    ],
    ids=range(3),
)  # fmt: skip
def test_a_box_has_a_name_above_several_columns(tmp_path: Path, drawn: str) -> None:
    one = read(tmp_path, "x.txt", f"1 A\n\nTable 1 - Limits\n\n{drawn}\n\nAfter it.\n")
    assert one.tables[0].columns == ["Item", "Limits / Min", "Limits / Max"]
    assert one.tables[0].rows == [["A", "1", "2"]]


@pytest.mark.parametrize("gap", ["\f", "\n\n\n\n", "\n" + "-" * 40 + "\n"])
@pytest.mark.parametrize(
    "head", ["", "TRAMWAY RULES          Issue 7", "Tramway Rules\nIssue 7", "Tramway Rules          {}"]
)
@pytest.mark.parametrize(
    "foot", ["Page {}", "Issue 7          {}", "Board          Page {}", "TR/7-{}", "Board\nPage {} of 9"]
)
def test_a_text_has_running_lines_with_and_without_form_feeds(
    tmp_path: Path, head: str, foot: str, gap: str
) -> None:
    pages = []
    for number, letter in enumerate("ABCD", 3):
        at = number - 2
        body = f"{at}  TITLE {letter}\n\n{at}.1  Scope\n\n     It is so, and it goes on for\n     a line in part {letter} too."
        parts = (head.replace("{}", str(number)), body, foot.replace("{}", str(number)))
        pages.append("\n\n".join(part for part in parts if part))
    one = read(tmp_path, "x.txt", gap.join(pages) + "\n")
    found = [(section.page, section.words) for section in one.sections if "." in section.id]
    assert found == [
        (at, f"It is so, and it goes on for a line in part {letter} too.")
        for at, letter in enumerate("ABCD", 3)
    ]


def test_a_label_stands_beside_the_rule_between_the_rows_that_it_covers(tmp_path: Path) -> None:
    drawn = "\n".join([
        "+------+---+---+", "| Item | A | B |", "+------+---+---+", "|      | 1 | 2 |", "| Low  +---+---+",
        "|      | 3 | 4 |", "+------+---+---+", "|      | 5 | 6 |", "|      +---+---+", "| High | 7 | 8 |",
        "+------+---+---+",
    ])  # fmt: skip
    one = read(tmp_path, "x.txt", f"1 A\n\nTable 1 - Limits\n\n{drawn}\n")
    assert one.tables[0].rows == [
        ["Low", "1", "2"],
        ["Low", "3", "4"],
        ["High", "5", "6"],
        ["High", "7", "8"],
    ]


def test_a_caption_in_two_languages_has_both_titles_and_a_unit_is_no_mark(tmp_path: Path) -> None:
    rows = "| Item | kN/m² |\n|---|---|\n| A | 1² |\n\nNote 2: Once.\n"
    (table,) = read(tmp_path, "x.md", f"# C\n\n## 1 A\n\n表1 限值\n\nTable 1 Limits\n\n{rows}").tables
    assert (table.title, table.columns, table.rows) == ("限值 Limits", ["Item", "kN/m²"], [["A", "1"]])


def test_a_table_of_word_without_th_has_a_header_of_two_rows(tmp_path: Path) -> None:
    head = "<tr><td rowspan=2>Item</td><td colspan=2>Limits</td></tr><tr><td>Min</td><td>Max</td></tr>"
    body = f"<p>Table 1 Limits</p><table>{head}<tr><td>A</td><td>1</td><td>2</td></tr></table>"
    foot = '<p>It is so.<a href="#_ftn1" name="_ftnref1"><sup>[1]</sup></a></p><div id=ftn1><p><a href="#_ftnref1" name="_ftn1"><sup>[1]</sup></a> Once.</p></div>'
    one = read(tmp_path, "x.html", f"<h1>C</h1><h2>1 A</h2>{body}{foot}")
    assert one.tables[0].columns == ["Item", "Limits / Min", "Limits / Max"]
    assert [(note.number, note.words) for note in one.notes] == [("1", "Once.")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.md", "# Code\n\n## 1 General\n\n1.1 The owner keeps\na log as in\n2.1 of this code.\n\n1.2 It is shown.\n"),
        ("x.txt", "1  GENERAL\n\n1.1  The owner keeps a log as in\n2.1 of this code.\n\n1.2  It is shown.\n"),
        ("x.md", "# Code\n\n## 1\\. General\n\n1\\.1 The owner keeps a log as in 2\\.1 of this code\\.\n\n1\\.2 It is shown.\n"),
        ("x.html", "<h1>Code</h1><h2>1 General</h2><dl><dt>1.1</dt><dd>The owner keeps a log as in 2.1 of this code.</dd>"
         "<dt>1.2</dt><dd>It is shown.</dd></dl>"),
        ("x.html", "<h1>Code</h1><h2>1 General</h2><table><tr><td>1.1</td><td>The owner keeps a log as in 2.1 of this "
         "code.</td></tr><tr><td>1.2</td><td>It is shown.</td></tr></table>"),
    ],
)  # fmt: skip
def test_clauses_stand_in_lines_lists_and_tables(tmp_path: Path, name: str, text: str) -> None:
    one = read(tmp_path, name, text)
    assert [(section.id, section.words) for section in one.sections] == [
        ("1", ""), ("1.1", "The owner keeps a log as in 2.1 of this code."), ("1.2", "It is shown."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("above", "below"),
    [
        ("**Table 1**\n\n**Limits**\n\n*Unit: mm*", "Note 1: One."), ("Table 1 Limits\n\n(all dimensions in mm)", "Note 1: One."),
        ("表1　Limits\n\n单位：mm", "注1：One."), ("Table 1 Limits", "> **Note 1** — One.\n>"),
        ("Table 1 Limits", "Notes to Table 1:\n\n- Note 1: One."), ("Table 1 Limits", "*(continued on page 2)*\n\nNote 1: One."),
    ],
)  # fmt: skip
def test_lines_around_a_table_are_no_text(tmp_path: Path, above: str, below: str) -> None:
    rows = "| Item | Max |\n|---|---|\n| A | 1 |\n"
    one = read(tmp_path, "x.md", f"# C\n\n## 1 A\n\n{above}\n\n{rows}\n{below}\n\nText.\n")
    assert (one.tables[0].title, notes(one), one.sections[0].words) == ("Limits", [("1", "One.")], "Text.")


def test_a_term_has_its_title_below_the_heading_of_its_number(tmp_path: Path) -> None:
    text = "## 3 Terms\n\n### 3.1\n\n**lamp**\n\nthing that burns\n\n### 3.2\n\n**oil**\n\nliquid\n\n## 4 Use\n\nA lamp (3.1) burns.\n"
    one = read(tmp_path, "x.md", text)
    assert [(section.id, section.title, section.words) for section in one.sections[1:3]] == [
        ("3.1", "lamp", "thing that burns"), ("3.2", "oil", "liquid"),
    ]  # fmt: skip
    assert one.sections[3].links == [("3.1", 1, "3.1")]


def test_chinese_paragraphs_begin_with_two_wide_blanks(tmp_path: Path) -> None:
    one = read(
        tmp_path,
        "x.txt",
        "第一章　总则\n\n　　第一条　路灯归市政局。\n　　前款所称路灯，包括\n附属设施。\n　　第二条　无。\n",
    )
    assert [section.words for section in one.sections[1:]] == [
        "路灯归市政局。\n前款所称路灯，包括附属设施。",
        "无。",
    ]


def test_a_list_of_contents_has_entries_with_fewer_words_than_their_headings(tmp_path: Path) -> None:
    entries = "".join(
        f"<p><a href='#x'>{name}</a> <span>{page}</span></p>"
        for name, page in [("§ 1 Scope", 1), ("§ 2 Gas", 2), ("Annex A", 3)]
    )
    body = "<h2>Chapter I<br>General</h2><h3>§ 1 Scope</h3><p>So.</p><h3>§ 2 Gas</h3><p>So.</p><h2>Annex A<br>Forms</h2><p>So.</p>"
    one = read(tmp_path, "x.html", f"<h1>Code</h1>{entries}{body}")
    found = [(section.id, section.title) for section in one.sections if section.kind != "front"]
    assert found == [("chapter 1", "General"), ("1", "Scope"), ("2", "Gas"), ("annex A", "Forms")]


def test_a_clause_that_a_page_breaks_has_no_title(tmp_path: Path) -> None:
    text = "1  MOVES\n\n1.1  Leave\n\n     1.1.1  Leave lasts for an hour. A vessel that has not moved\n\f     by then asks again.\n"
    one = read(tmp_path, "x.txt", text)
    assert one.sections[2].title == ""
    assert (
        one.sections[2].words == "Leave lasts for an hour. A vessel that has not moved\nby then asks again."
    )


def test_a_row_of_aligned_columns_goes_on_in_several_cells(tmp_path: Path) -> None:
    drawn = "----------------------------------\n          Speed\n        ---------------\nReach   Flood     Ebb      Lookout\n----------------------------------\nOuter   fast in   6        at the\n        spring             bow\nInner   4         4        no\n----------------------------------"
    text = "".join(f"     {line}\n" for line in drawn.splitlines())
    (table,) = read(tmp_path, "x.txt", f"1 A\n\n     Table 1.  Speeds\n\n{text}\n     After it.\n").tables
    assert table.columns == ["Reach", "Speed / Flood", "Speed / Ebb", "Lookout"]
    assert table.rows == [["Outer", "fast in spring", "6", "at the bow"], ["Inner", "4", "4", "no"]]


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("CHAPTER 1\nGENERAL\n\n1.1  Scope\n\n     It covers:\n\n     1. Lamps\n     2. Oil\n\n1.2  Terms\n\n     None.\n\nCHAPTER 2\n"
         "LAMPS\n\n2.1  Parts\n\n     1. Wicks\n     2. Glass\n\n2.2  Use\n\n     Daily.\n",
         ["chapter 1", "1.1", "1.2", "chapter 2", "2.1", "2.2"]),
        ("1  GENERAL\n\n1.1  Scope\n\n     It covers:\n\n     1. Lamps\n     2. Oil\n     3. Glass\n\n1.2  Terms\n\n     None.\n\n"
         "2  LAMPS\n\n2.1  Parts\n\n     1. Wicks\n     2. Glass\n\n2.2  Use\n\n     Daily.\n\n3  FEES\n\n     Ten.\n",
         ["1", "1.1", "1.2", "2", "2.1", "2.2", "3"]),
        ("1  GENERAL\n\n     1 Lamps\n     2 Oil\n     3 Glass\n\n2  LAMPS\n\n     1 Wicks\n     2 Glass\n\n3  FEES\n\n     Ten.\n",
         ["1", "2", "3"]),
        ("1  GENERAL\n\n1.1  Size\n\n     Values:\n\n     1.1 kW    5 A\n     2.2 kW    9 A\n     4.0 kW   15 A\n\n1.2  Terms\n\n"
         "     None.\n\n2  LAMPS\n\n     Ten.\n", ["1", "1.1", "1.2", "2"]),
        ("第一章　总则\n\n第一条　为了安全。\n\n第二条　单位应当：\n1. 编制计划\n2. 报备案\n3. 检查\n\n第三条　附则。\n",
         ["chapter 1", "article 1", "article 2", "article 3"]),
        ("Section 1.  Extent\n\n     They cover:\n\n     1. Lamps\n     2. Oil\n\nSection 2.  Duties\n\n     1. Wicks\n", ["1", "2"]),
    ],
    ids=range(6),
)  # fmt: skip
def test_items_of_lists_and_values_are_no_sections(tmp_path: Path, text: str, ids: list[str]) -> None:
    assert [section.id for section in read(tmp_path, "x.txt", text).sections] == ids


def test_a_footnote_belongs_to_the_section_that_links_to_it(tmp_path: Path) -> None:
    one = read(tmp_path, "x.md", "# C\n\n## 1 A\n\nLamps[^1] burn.\n\n## 2 B\n\nMore.\n\n[^1]: Oil lamps.\n")
    assert [(note.id, note.words) for note in one.notes] == [("1 note 1", "Oil lamps.")]


@pytest.mark.parametrize("chapters", [3, 6])
@pytest.mark.parametrize("head", ["Chapter {}  LAMPS {t}", "{}  LAMPS {t}", "第{}章　标题{t}"])
def test_the_heading_of_a_chapter_runs_over_its_pages(tmp_path: Path, head: str, chapters: int) -> None:
    pages: list[str] = []
    for chapter in range(1, chapters + 1):
        name = head.replace("{}", str(chapter)).replace("{t}", "ABCDEF"[chapter - 1])
        for part in (1, 2):
            text = f"It is {'uvwxyz'[chapter - 1]} in part {part} of this chapter."
            pages.append(f"{name}\n\n{chapter}.{part}  Scope\n\n     {text}\n\n{7 + len(pages)}")
    one = read(tmp_path, "x.txt", "\f".join(pages) + "\n")
    tops = [(section.number, section.page) for section in one.sections if "." not in section.number]
    assert tops == [(str(at + 1), 7 + 2 * at) for at in range(chapters)]
    assert all(
        section.words.endswith("of this chapter.") for section in one.sections if "." in section.number
    )


def test_repeated_names_stand_below_their_own_groups(tmp_path: Path) -> None:
    drawn = "          Indoor         Outdoor\n        -----------   ------------\nItem    Min     Max   Min      Max\n"
    rule = "-" * 36
    lines = f"{rule}\n{drawn}{rule}\nA       1       2     3        4\n{rule}".splitlines()
    text = "".join(f"     {line}\n" for line in lines)
    (table,) = read(tmp_path, "x.txt", f"1 A\n\n     Table 1.  Speeds\n\n{text}\n     After it.\n").tables
    assert table.columns == ["Item", "Indoor / Min", "Indoor / Max", "Outdoor / Min", "Outdoor / Max"]
    assert table.rows == [["A", "1", "2", "3", "4"]]


def test_the_title_of_a_page_wins_over_its_first_paragraph(tmp_path: Path) -> None:
    one = read(
        tmp_path,
        "x.html",
        "<title>Pipe Code</title><p>Q/HX 2087</p><p>Pipe Code</p><h2>1 Scope</h2><p>So.</p>",
    )
    assert one.title == "Pipe Code"
