"""Cases of layouts: page marks, tables, merged cells, notes, numbering."""

from pathlib import Path

import pytest

from tests.examples.regreader.kit import notes, read, sections, tools_of

TABLE = "| Item | Max |\n|---|---|\n| A | 1 |\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Page 1", "Page 2"),
        ("— 1 —", "— 2 —"),
        ("- 1 -", "- 2 -"),
        ("Page 1 of 2", "Page 2 of 2"),
        ("*Page 1*", "*Page 2*"),
        ("Code of X | Page 1", "Code of X | Page 2"),
        ("第1页", "第2页"),
        ("第 １ 页 共 2 页", "第 ２ 页 共 2 页"),
        ("1 / 2", "2 / 2"),
        ("[Page 1]", "[Page 2]"),
        ("<!-- page 1 -->", "<!-- page 2 -->"),
        ("_Page 1_", "_Page 2_"),
        ("Page | 1", "Page | 2"),
        ("1 | Page", "2 | Page"),
        ("(1)", "(2)"),
        ("1 of 2", "2 of 2"),
        ("Page No. 1.", "Page No. 2."),
        ("[[page 1]]", "[[page 2]]"),
        ("Code of X · 1", "Code of X · 2"),
        ("###### Page 1", "###### Page 2"),
        ("Seite 1", "Seite 2"),
        ('<a name="page1"></a>', '<a name="page2"></a>'),
    ],
)
def test_a_footer_ends_its_page(tmp_path: Path, first: str, second: str) -> None:
    one = read(tmp_path, "x.md", f"## 1 One\n\nalpha\n\n{first}\n\n## 2 Two\n\nbeta\n\n{second}\n")
    assert sections(one) == [("1", "One", 1), ("2", "Two", 2)]
    assert {page: text.split()[-1] for page, text in one.pages.items()} == {1: "alpha", 2: "beta"}


@pytest.mark.parametrize(
    "mark",
    [
        '<div class="page-break"></div>',
        '<hr class="pagebreak">',
        '<p style="page-break-after: always">&nbsp;</p>',
        '<span epub:type="pagebreak" title="2"></span>',
        '<div class="page-break">Page 2</div>',
        "<mbp:pagebreak/>",
        "<!-- page 2 -->",
        '<a id="page-2"></a>',
        '<div style="page-break-before: always"></div>',
    ],
)
def test_a_page_break_element_begins_a_page(tmp_path: Path, mark: str) -> None:
    one = read(tmp_path, "x.html", f"<h2>1 One</h2><p>alpha</p>{mark}<h2>2 Two</h2><p>beta</p>")
    assert sections(one) == [("1", "One", 1), ("2", "Two", 2)]


@pytest.mark.parametrize(
    ("head", "numbers"),
    [
        ("Rules of X      {}", [1, 2, 3]),
        ("{} · Rules of X", [1, 2, 3]),
        ("Rules of X, 2020", [1, 2, 3]),
        ("规程　　　第{}页", [1, 2, 3]),
    ],
)
def test_running_heads_of_form_feeds_are_no_text(tmp_path: Path, head: str, numbers: list[int]) -> None:
    pages = [f"{head.format(at)}\n\n{at} Title {at}\n\nText {at}." for at in numbers]
    one = read(tmp_path, "x.txt", "\f".join(pages))
    assert list(one.pages) == numbers
    assert one.pages[2] == "2 Title 2\nText 2."


def test_heads_that_change_with_the_chapter_are_known_by_their_page_numbers(tmp_path: Path) -> None:
    heads = ["Machines    7", "Machines    8", "Roofs    9", "Roofs    10"]
    text = "\f".join(f"{head}\n\n{at} Part {at}\n\nText {at}." for at, head in enumerate(heads, 1))
    assert sections(read(tmp_path, "x.txt", text)) == [(str(at), f"Part {at}", at + 6) for at in range(1, 5)]


@pytest.mark.parametrize(
    "caption",
    ["Table 1-1 (continued)", "Table 1-1 (cont.)", "续表1-1", "表1-1（续）", "Table 1-1 — continued"],
)
def test_a_table_goes_on_over_a_page(tmp_path: Path, caption: str) -> None:
    text = f"Table 1-1 Limits\n\n{TABLE}\n\\newpage\n\n{caption}\n\n{TABLE.replace('A', 'B')}\nNote 1: Old.\n"
    (table,) = read(tmp_path, "x.md", text).tables
    assert (table.rows, table.page, table.page_end, table.title) == (
        [["A", "1"], ["B", "1"]],
        1,
        2,
        "Limits",
    )


def test_a_table_without_a_second_caption_goes_on_at_the_top_of_a_page(tmp_path: Path) -> None:
    (table,) = read(
        tmp_path, "x.md", f"Table 1 Limits\n\n{TABLE}\n\\newpage\n\n{TABLE.replace('A', 'B')}"
    ).tables
    assert table.rows == [["A", "1"], ["B", "1"]]


def test_a_row_that_breaks_an_html_table_ends_the_page(tmp_path: Path) -> None:
    text = (
        "<p>Table 1-1 Limits</p><table><tr><th>Item</th><th>Max</th></tr><tr><td>A</td><td>1</td></tr>"
        "<tr class='page-break'><td colspan=2></td></tr><tr><td>B</td><td>2</td></tr></table>"
    )
    (table,) = read(tmp_path, "x.html", text).tables
    assert (table.rows, table.page, table.page_end) == ([["A", "1"], ["B", "2"]], 1, 2)


GRID = """
+------+-----+-----+
| Item | Min | Max |
+======+=====+=====+
| A    | 1   | 2   |
|      +-----+-----+
|      | 3   | 4   |
+------+-----+-----+
| B    | both 5    |
+------+-----+-----+
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.txt", f"Table 1 Limits\n{GRID}"),
        ("x.md", "Table 1 Limits\n\n|Item|Min|Max|\n|-|-|-|\n|A|1|2|\n|^^|3|4|\n|B|both 5|both 5|"),
        (
            "x.html",
            "<table><caption>Table 1 Limits</caption><tr><th>Item<th>Min<th>Max<tr><td rowspan=2>A<td>1<td>2"
            "<tr><td>3<td>4<tr><td>B<td colspan=2>both 5</table>",
        ),
    ],
)  # fmt: skip
def test_a_merged_cell_stands_in_each_place_that_it_covers(tmp_path: Path, name: str, text: str) -> None:
    (table,) = read(tmp_path, name, text).tables
    assert table.columns == ["Item", "Min", "Max"]
    assert table.rows == [["A", "1", "2"], ["A", "3", "4"], ["B", "both 5", "both 5"]]


@pytest.mark.parametrize(
    ("mark", "note", "label"),
    [
        ("*", "* Once.", "*"),
        ("\\*", "\\* Once.", "*"),
        (" †", "† Once.", "†"),
        ("‡", "‡ Once.", "‡"),
        (" 1)", "1) Once.", "1"),
        (" (1)", "(1) Once.", "1"),
        ("¹", "¹ Once.", "1"),
        ("①", "① Once.", "1"),
        ("<sup>a</sup>", "<sup>a</sup> Once.", "a"),
        ("^a^", "a) Once.", "a"),
        ("[^x]", "[^x]: Once.", "x"),
        (" (note 1)", "Note 1: Once.", "1"),
        ("（注1）", "注1：Once.", "1"),
        ("（注１）", "注：１．Once.", "1"),
    ],
)
def test_a_mark_leaves_the_cell_and_leads_to_its_note(
    tmp_path: Path, mark: str, note: str, label: str
) -> None:
    one = read(
        tmp_path, "x.md", f"Table 1 Limits\n\n| Item | Max |\n|---|---|\n| A | 12.5{mark} |\n\n{note}\n"
    )
    assert (one.tables[0].rows, one.tables[0].marks) == ([["A", "12.5"]], [(0, 1, label)])
    assert notes(one) == [(label, "Once.")]


def test_a_sign_without_a_note_stays_in_its_cell(tmp_path: Path) -> None:
    one = read(tmp_path, "x.md", "Table 1 Limits\n\n| Item | Max |\n|---|---|\n| A* | 12 m<sup>2</sup> |\n")
    assert (one.tables[0].rows, one.tables[0].marks) == ([["A*", "12 m2"]], [])


def test_items_of_a_list_under_a_table_are_no_notes(tmp_path: Path) -> None:
    one = read(
        tmp_path, "x.md", f"## 1 One\n\nTable 1 Limits\n\n{TABLE}\nThe owner\n\n1) pays;\n\n2) signs.\n"
    )
    assert notes(one) == []
    assert [text for _, text in one.sections[0].text] == ["The owner", "1) pays;", "2) signs."]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("第三章 机组\n\n第二节 水泵\n\n第十二条 水泵每天巡检。", ["chapter 3", "3.2", "article 12"]),
        ("CHAPTER IV\nPUMPS\n\nArticle 9 Pumps run.", ["chapter 4", "article 9"]),
        ("§ 5.6 Pumps\n\n§ 5.6.12 Pumps run daily.", ["5.6", "5.6.12"]),
        ("Annex A Forms\n\nA.1 Log\n\nA.1.1 The log is kept.", ["annex A", "A.1", "A.1.1"]),
        ("附录Ｂ 图例\n\n附表1 收费", ["annex B", "schedule 1"]),
        ("Schedule 2 Fees\n\nAppendix C Maps", ["schedule 2", "annex C"]),
        ("５．６．１２ 水泵每天巡检。", ["5.6.12"]),
        ("1 Scope\n\nSection 9 applies to pumps.\n\n2.5 MW is the limit", ["1"]),
    ],
)
def test_headings_are_known_by_their_numbering(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert [name for name, _, _ in sections(read(tmp_path, "x.txt", text))] == expected


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("see Table 6-2, note 1", "table 6-2 note 1"),
        ("见表6-2注1", "table 6-2 note 1"),
        ("表６－２注１", "table 6-2 note 1"),
        ("note 1 of Table 6-2", "table 6-2 note 1"),
        ("Table 6.2", "table 6-2"),
        ("第三章", "chapter 3"),
        ("Chapter III", "chapter 3"),
        ("§ 5.6.12", "5.6.12"),
        ("第5.6.12条", "5.6.12"),
        ("in accordance with 5.6.12", "5.6.12"),
        ("Appendix A", "annex A"),
        ("附录A", "annex A"),
    ],
)
def test_references_are_resolved_in_both_languages(tmp_path: Path, words: str, target: str) -> None:
    text = (
        "## 第三章 Pumps\n\n5.6.12 Pumps run.\n\nTable 6-2 Limits\n\n| Item | Max |\n|---|---|\n| A | 1 |\n\n"
        "Note 1: Once.\n\n## Annex A Forms\n\nx\n"
    )
    found = tools_of(read(tmp_path, "x.md", text)).resolve_reference("x", words)
    assert (found["status"], found["target"]["id"]) == ("resolved", target)


def test_underlined_lines_are_headings_and_items_beside_them_are_not(tmp_path: Path) -> None:
    text = (
        "1. Scope\n********\n\n1.1. Terms\n==========\n\n2. an item\n\n"
        "2. Duties\n*********\n\n2.1. Pay\n========\n"
    )
    assert sections(read(tmp_path, "x.txt", text)) == [
        ("1", "Scope", 1),
        ("1.1", "Terms", 1),
        ("2", "Duties", 1),
        ("2.1", "Pay", 1),
    ]


def test_the_navigation_of_a_page_is_no_text(tmp_path: Path) -> None:
    text = (
        "<div role='navigation'><div><h3>Menu</h3></div><p>x</p></div>"
        "<h1>Rules<a class='headerlink'>¶</a></h1><h2>1 A</h2>"
    )
    one = read(tmp_path, "x.html", text)
    assert (one.title, sections(one), one.pages) == ("Rules", [("1", "A", 1)], {1: "Rules\n1 A"})


def test_one_reference_word_serves_several_numbers(tmp_path: Path) -> None:
    text = "## 1 A\n\n1.1 x\n\n1.2 y\n\n1.3 See sections 1.1, 1.2 and 7.7.\n"
    links = tools_of(read(tmp_path, "x.md", text)).resolve_reference("x", "1.3")["references"]
    assert [link["target"] for link in links] == ["1.1", "1.2", None]


def test_a_title_may_stand_below_the_number_of_its_annex(tmp_path: Path) -> None:
    text = "附录B\n\n（资料性附录）\n\n图例\n\n本附录列出图例。\n\n附录Ｃ（规范性附录） 检查表\n"
    one = read(tmp_path, "x.txt", text)
    assert sections(one) == [("annex B", "图例", 1), ("annex C", "检查表", 1)]
    assert one.sections[0].text == [(1, "本附录列出图例。")]


def test_lines_of_one_paragraph_are_notes_of_their_own(tmp_path: Path) -> None:
    text = "<table><caption>Table 1 A</caption><tr><th>B<th>C<tr><td>x<td>2*</table><p>* Dry.<br>** Wet.</p>"
    assert notes(read(tmp_path, "x.html", text)) == [("*", "Dry."), ("**", "Wet.")]
    chinese = "表1 甲\n\n| 项 | 值 |\n|---|---|\n| 乙 | 8＊ |\n\n注１：一；注２：二。\n＊ 三。\n"
    assert notes(read(tmp_path, "x.md", chinese)) == [("1", "一"), ("2", "二。"), ("*", "三。")]


@pytest.mark.parametrize(
    ("name", "contents", "sign"),
    [
        ("x.txt", "1 Scope\n1.1 Purpose\n2 Duties\n2.1 Pay\nAnnex A Forms", ""),
        (
            "x.txt",
            "1  Scope ........ 1\n  1.1  Purpose ..... 1\n2  Duties ....... 2\n  2.1 Pay . . . . . 2",
            "",
        ),
        ("x.txt", "1 Scope        1\n1.1 Purpose    1\n2 Duties       2\n2.1 Pay        2", ""),
        (
            "x.md",
            "- [1 Scope](#scope)\n  - [1.1 Purpose](#purpose)\n- [2 Duties](#duties)\n  - [2.1 Pay](#pay)",
            "## ",
        ),
        ("x.html", "<ul><li>1 Scope<ul><li>1.1 Purpose</ul><li>2 Duties<ul><li>2.1 Pay</ul></ul>", "<h2>"),
    ],
)
def test_a_table_of_contents_makes_no_sections(tmp_path: Path, name: str, contents: str, sign: str) -> None:
    heads = [f"{sign}{head}" for head in ("1 Scope", "1.1 Purpose", "2 Duties", "2.1 Pay", "Annex A Forms")]
    end = "</p>" if name == "x.html" else ""
    body = "\n\n".join(f"{head}\n\n{'<p>' if end else ''}Text of it.{end}" for head in heads)
    one = read(tmp_path, name, f"Contents\n\n{contents}\n\n{body}\n")
    assert [name for name, _, _ in sections(one)] == ["1", "1.1", "2", "2.1", "annex A"]


def test_page_numbers_stand_between_full_width_dashes(tmp_path: Path) -> None:
    text = "".join(f"第{at}条　水泵每天巡检。\n\n　　－ {wide} －\n\n" for at, wide in ((1, "１"), (2, "２")))
    one = read(tmp_path, "x.txt", text)
    assert sections(one) == [("article 1", "", 1), ("article 2", "", 2)]
    assert one.pages == {1: "第1条 水泵每天巡检。", 2: "第2条 水泵每天巡检。"}


def test_a_preface_with_roman_page_numbers_belongs_to_page_one(tmp_path: Path) -> None:
    pages = [f"YARD RULES\n\n{text}\n\n   Page {number}" for number, text in zip("i123", "PABC", strict=True)]
    one = read(tmp_path, "x.txt", "\f".join(pages))
    assert one.pages == {1: "P\nA", 2: "B", 3: "C"}


@pytest.mark.parametrize("caption", ["Table 2 - Loads", ": Table 2 Loads", "**Table 2.** Loads"])
def test_a_caption_may_stand_below_its_table(tmp_path: Path, caption: str) -> None:
    one = read(tmp_path, "x.md", f"## 1 One\n\n{TABLE}\n{caption}\n\nNote 1: Old.\n\nText.\n")
    assert [(table.number, table.title) for table in one.tables] == [("2", "Loads")]
    assert one.places[-1].id == "table 2 note 1"
    assert one.sections[-1].words == "Text."


def test_a_part_of_a_table_may_leave_out_the_upper_header(tmp_path: Path) -> None:
    head = "<tr><th rowspan=2>Car<th colspan=2>Load<tr><th>min<th>max"
    text = (
        f"<p>Table 1 Loads</p><table>{head}<tr><td>A<td>1<td>2</table><div class='page-break'></div>"
        "<p>Table 1 Loads (concluded)</p><table><tr><th>Car<th>min<th>max<tr><td>B<td>3<td>4</table>"
    )
    (table,) = read(tmp_path, "x.html", text).tables
    assert table.columns == ["Car", "Load / min", "Load / max"]
    assert (table.rows, table.page_end) == ([["A", "1", "2"], ["B", "3", "4"]], 2)


def test_notes_may_follow_the_last_rule_of_an_aligned_table(tmp_path: Path) -> None:
    text = (
        "Table 1 Speeds\n\nTrack        Full      Empty\n"
        "-----------------------------\nLead         25        30\n"
        "Ladder       15 (1)    20\n-----------------------------\n(1) 10 in snow, and\n    in fog.\n"
    )
    one = read(tmp_path, "x.txt", text)
    assert one.tables[0].rows == [["Lead", "25", "30"], ["Ladder", "15", "20"]]
    assert notes(one) == [("1", "10 in snow, and in fog.")]


def test_a_schedule_stands_outside_of_the_parts_and_may_have_its_own(tmp_path: Path) -> None:
    text = "## Part 2 Water\n\nx\n\n## Schedule 1 Forms\n\n### Part A Daily\n\ny\n"
    one = read(tmp_path, "x.md", text)
    assert [(section.id, section.parent) for section in one.sections] == [
        ("part 2", ""), ("schedule 1", ""), ("part A", "schedule 1"),
    ]  # fmt: skip


def test_emphasis_is_no_text_and_signs_of_notes_are(tmp_path: Path) -> None:
    one = read(tmp_path, "x.md", "## 1 One\n\n*Oil* and _gas_, **not** 5* or \\*x\\*, a_b_c and 2 * 3 * 4.\n")
    assert one.sections[0].words == "Oil and gas, not 5* or *x*, a_b_c and 2 * 3 * 4."


ACT = """
PART 1
General

Citation

1.—(1) This Order may be cited as the Pools Order.

(2) It comes into force in May.

Interpretation

2. In this Order “pool” has the meaning of article 3.

Water

3. Water is clean, see articles 1 and 2.

SCHEDULE 1          Article 3

FEES

1. The fee is 20 pounds.
"""


@pytest.mark.parametrize("name", ["x.txt", "x.html"])
def test_articles_of_an_act_have_bare_numbers_and_titles_above(tmp_path: Path, name: str) -> None:
    text = ACT
    if name == "x.html":
        for head in ("Citation", "Interpretation", "Water", "FEES"):
            text = text.replace(f"\n{head}\n", f"\n<h3>{head}</h3>\n")
        text = "".join(one if one.startswith("<h3>") else f"<p>{one}</p>" for one in text.split("\n") if one)
    one = read(tmp_path, name, text)
    assert [(section.id, section.title) for section in one.sections] == [
        ("part 1", "General"), ("article 1", "Citation"), ("article 2", "Interpretation"),
        ("article 3", "Water"), ("schedule 1", "FEES"),
    ]  # fmt: skip
    assert one.sections[1].words.startswith("(1) This Order may be cited as the Pools Order.\n(2)")
    assert [target for _, _, target in one.sections[3].links] == ["article 1", "article 2"]
    assert one.sections[4].words == "Article 3\n1. The fee is 20 pounds."


def test_the_title_of_an_article_may_stand_below_its_number(tmp_path: Path) -> None:
    text = "CHAPTER I\nGENERAL\n\nArticle 1\n\nSubject\n\nLamps, see Annex I.\n\nANNEX I\n\nLamps\n\nANNEX II\n\nForms\n"
    assert sections(read(tmp_path, "x.txt", text)) == [
        ("chapter 1", "GENERAL", 1), ("article 1", "Subject", 1), ("annex 1", "Lamps", 1), ("annex 2", "Forms", 1),
    ]  # fmt: skip


def test_a_list_laid_out_as_a_table_is_text(tmp_path: Path) -> None:
    text = "<h2>1 Terms</h2><table><tr><td>(a)</td><td>lamp: a light;</td></tr><tr><td>(b)</td><td>oil.</td></tr></table>"
    one = read(tmp_path, "x.html", text)
    assert (one.tables, one.sections[0].words) == ([], "(a) lamp: a light;\n(b) oil.")


def test_words_that_a_list_completes_are_no_title_and_a_year_is_no_section(tmp_path: Path) -> None:
    one = read(
        tmp_path,
        "x.txt",
        "2022 No. 417\n\n1 Scope\n\n1.1 They do not apply to\n\n(a) kettles;\n\n1.2 Terms\n\n(a) x\n",
    )
    assert sections(one) == [("1", "Scope", 1), ("1.1", "", 1), ("1.2", "Terms", 1)]
    assert one.sections[2].words == "They do not apply to\n(a) kettles;"


CODE = """
CHAPTER 14. NOISE

Sec. 14-1. Purpose.

Nights are quiet, except as section 14-2 says, see Table 14-A and Table IV.

Sec. 14-2. Limits.

TABLE 14-A
MAXIMUM LEVELS

  Zone          |   Day    |  Night
  --------------+----------+---------
  Residential   |   55     |   45 *
  Industrial    |   75     |   70

  *  40 on Sundays.

Table IV to section 14-2 — Hours

| Day | From |
|---|---|
| Monday | 7 |
"""


def test_sections_and_tables_have_numbers_with_dashes_letters_and_roman_numerals(tmp_path: Path) -> None:
    one = read(tmp_path, "x.txt", CODE)
    assert sections(one) == [("chapter 14", "NOISE", 1), ("14-1", "Purpose", 1), ("14-2", "Limits", 1)]
    assert [target for _, _, target in one.sections[1].links] == ["14-2", "table 14-A", "table 4"]
    assert [(table.number, table.title) for table in one.tables] == [
        ("14-A", "MAXIMUM LEVELS"),
        ("4", "Hours"),
    ]
    assert one.tables[0].rows == [["Residential", "55", "45"], ["Industrial", "75", "70"]]
    assert tools_of(one).get_table_by_id("x", "Table IV")["table_id"] == "4"


def test_a_paragraph_of_a_section_is_no_section(tmp_path: Path) -> None:
    one = read(
        tmp_path, "x.md", "## 1 A\n\nx\n\n## 2 B\n\nSee § 1 para. 2 and paragraph 1, or para. 1.1.\n\n1.1 y\n"
    )
    assert [words for words, _, _ in one.sections[1].links] == ["§ 1", "para. 1.1"]


def test_rules_that_count_through_the_whole_file_are_articles(tmp_path: Path) -> None:
    text = "PART ONE - CONDUCT\n\n1. Be quiet.\n\n2. See Rule 3.\n\nPART TWO - ROOMS\n\n3. Return keys.\n"
    one = read(tmp_path, "x.txt", text)
    assert [name for name, _, _ in sections(one)] == [
        "part 1",
        "article 1",
        "article 2",
        "part 2",
        "article 3",
    ]
    assert one.sections[2].links[0][2] == "article 3"
    listed = read(tmp_path, "y.txt", f"1 Scope\n\nOwners\n\n{text}")
    assert [name for name, _, _ in sections(listed)] == ["1", "part 1", "part 2"]


def test_headings_may_be_spaced_and_terms_stand_below_their_numbers(tmp_path: Path) -> None:
    text = "１　总　则\n\n１．１\n起重机　crane\n以间歇、重复的工作方式来提升和搬运各种重物的一类机械。\n\n　附　录　Ａ\n（规范性附录）\n试验载荷\n\nＡ．１　总则\n"
    one = read(tmp_path, "x.txt", text)
    assert sections(one) == [
        ("1", "总则", 1),
        ("1.1", "起重机 crane", 1),
        ("annex A", "试验载荷", 1),
        ("A.1", "总则", 1),
    ]
    assert one.sections[1].words.startswith("以间歇")


def test_a_letter_behind_a_digit_is_a_mark_if_a_note_has_it(tmp_path: Path) -> None:
    text = "表1 系数\n\n工况    动载\n------------\n满载    1.1a\n超载    1.2b\n------------\na　有风时。\nb　仅限试验。\n"
    one = read(tmp_path, "x.txt", text)
    assert one.tables[0].rows == [["满载", "1.1"], ["超载", "1.2"]]
    assert notes(one) == [("a", "有风时。"), ("b", "仅限试验。")]


@pytest.mark.parametrize(
    ("words", "target"),
    [
        ("as specified in 1.1", "1.1"),
        ("under 1.1", "1.1"),
        ("按1.1", "1.1"),
        ("参照1.1", "1.1"),
        ("as required by 1.1", "1.1"),
        ("Table 1-1, footnote *", "table 1-1 note *"),
    ],
)
def test_a_place_is_named_in_many_ways(tmp_path: Path, words: str, target: str) -> None:
    text = f"## 1 A\n\n1.1 x\n\n1.2 Limits {words} hold, under 1.1 kV too.\n\nTable 1-1 L\n\n{TABLE.replace('1 |', '1* |')}\n\\* Once.\n"
    one = read(tmp_path, "x.md", text)
    assert [link[2] for link in one.sections[2].links if "required" not in words] in ([target], [])
    found = tools_of(one).resolve_reference("x", words)
    assert found["target"]["id"] == target


def test_a_running_head_is_the_title_of_a_file_without_another(tmp_path: Path) -> None:
    pages = [f"WARD CODE                Rev. 3\n\n{at}. PART {at}\n\nText.\n\n    - {at} -" for at in (1, 2)]
    assert read(tmp_path, "x.txt", "\f".join(pages)).title == "WARD CODE"
    assert read(tmp_path, "y.txt", "1. SCOPE\n\nText.").title == "y"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "x.md",
            "**2.1 Frequency.** Rooms are cleaned.\n\n**2.2 Records** Records are kept.\n\n**Article 3** Duties\n",
        ),
        (
            "x.html",
            "<p><b>2.1 Frequency.</b> Rooms are cleaned.</p><p><strong>2.2 Records</strong>. Records are kept.</p><p><b>Article 3</b> Duties</p>",
        ),
    ],
)
def test_a_bold_title_may_run_into_its_text(tmp_path: Path, name: str, text: str) -> None:
    one = read(tmp_path, name, text)
    assert [(section.id, section.title, section.words) for section in one.sections] == [
        ("2.1", "Frequency", "Rooms are cleaned."), ("2.2", "Records", "Records are kept."), ("article 3", "Duties", ""),
    ]  # fmt: skip


def test_sections_may_be_numbered_with_a_letter_in_marked_headings(tmp_path: Path) -> None:
    one = read(
        tmp_path,
        "x.md",
        "## Part A – Basics\n\n### A1 Coats\n\nSee A2.\n\n### A2 Food\n\nA4 paper is white.\n",
    )
    assert [(section.id, section.parent) for section in one.sections] == [
        ("part A", ""), ("A1", "part A"), ("A2", "part A"),
    ]  # fmt: skip
    assert [target for _, _, target in one.sections[1].links] == ["A2"]
    assert tools_of(one).resolve_reference("x", "A2")["target"]["title"] == "Food"
