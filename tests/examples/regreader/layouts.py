"""Five small regulations, one in each layout that people keep regulations in, with the truth beside them.

    python -m tests.examples.regreader.layouts FOLDER

This shares no code with `corpus.py`: the texts and the truth are written out side by side.
"""

import json
import sys
import unicodedata
from pathlib import Path
from typing import Any, Final

Call = tuple[str, dict[str, Any], dict[str, Any]]
_WIDE: Final = str.maketrans("0123456789", "０１２３４５６７８９")


def harbour() -> tuple[str, str, list[Call]]:
    """Return a Markdown file: page comments, Roman chapters, articles, footnotes, a schedule."""
    text, calls = ["# Harbour Rules", ""], []
    reg, page = "harbour", 0
    for chapter, numeral in enumerate(["I", "II", "III"], 1):
        for half in (0, 1):
            page += 1
            text += [f"<!-- page: {page} -->", ""]
            if half == 0:
                text += [f"## Chapter {numeral} — Berths of class {numeral}", ""]
                calls.append(
                    _place(
                        reg,
                        f"Chapter {numeral}",
                        "chapter",
                        str(chapter),
                        page,
                        {"target.title": f"Berths of class {numeral}"},
                    )
                )
            for at in (1, 2):
                article = 4 * (chapter - 1) + 2 * half + at
                words = f"A vessel of size {article * 7} m keeps {article + 2} lines ashore."
                if article == 3:
                    words += " See Article 7."
                if article == 5:
                    words += " Fees are in Schedule 1, dues in Article 44."
                text += [f"**Article {article}** Mooring rule {article}", "", words, ""]
                calls.append(
                    _place(reg, f"Article {article}", "article", str(article), page, {"target.text": words})
                )
        text += [
            f"Table {chapter}.1: Fees of class {numeral}",
            "",
            "| Length | Fee[^f] | Deposit |",
            "|:--|--:|--:|",
        ]
        rows = [[f"{at}0 m", f"{at * chapter * 12}.50", f"{at * 100}"] for at in (1, 2, 3)]
        text += [
            f"| {a} | {b}{f'[^d{chapter}]' if at == 1 else ''} | {c} |" for at, (a, b, c) in enumerate(rows)
        ] + [""]
        calls.append(
            ("get_table_by_id", {"reg_id": reg, "table_id": f"{chapter}.1"}, {
                "rows": rows, "columns": ["Length", "Fee", "Deposit"], "page": page, "page_end": page,
                "caption": f"Fees of class {numeral}",
            })
        )  # fmt: skip
        calls.append(
            _note(reg, f"{chapter}.1", f"d{chapter}", f"Class {numeral} pays this twice on Sundays.", None)
        )
    page += 1
    text += [f"<!-- page: {page} -->", "", "## Schedule 1 Harbour dues", "", "Dues fall due at noon.", ""]
    calls.append(_place(reg, "Schedule 1", "schedule", "1", page, {"target.text": "Dues fall due at noon."}))
    calls.append(
        ("resolve_reference", {"reg_id": reg, "reference_text": "Article 44"}, {"status": "dangling"})
    )
    text += [f"[^d{at}]: Class {'I' * at} pays this twice on Sundays." for at in (1, 2, 3)] + [
        "[^f]: In florins."
    ]
    calls.append(
        ("read_page_range", {"reg_id": reg, "start_page": 2, "end_page": 3}, {"pages[page]": [[2], [3]]})
    )
    calls.append(
        (
            "smart_search",
            {"reg_id": reg, "query": "vessel of 42 m lines ashore"},
            {"results.0.id": "article 6", "results.0.page": 3},
        )
    )
    return "harbour.md", "\n".join(text), calls


def mines() -> tuple[str, str, list[Call]]:
    """Return a plain text: form feeds, running heads and feet, aligned columns, daggers, a table over two pages."""
    reg, calls, pages = "mines", [], []
    for chapter in (1, 2, 3, 4):
        first, second = 2 * chapter - 1, 2 * chapter
        head = [f"{chapter} SHAFTS OF GROUP {chapter}", ""]
        calls.append(
            _place(
                reg,
                str(chapter),
                "section",
                str(chapter),
                first,
                {"target.title": f"SHAFTS OF GROUP {chapter}"},
            )
        )
        body = []
        for at in (1, 2):
            number, title = f"{chapter}.{at}", f"Lamps in gallery {chapter}{at}"
            clause = f"Each lamp burns for {chapter * 10 + at} hours and is then\ncarried to the lamp room of gallery {chapter}{at}."
            body += [f"{number} {title}", "", clause, ""]
            joined = clause.replace("\n", " ")
            calls.append(
                _place(
                    reg,
                    f"section {number}",
                    "section",
                    number,
                    first,
                    {"target.title": title, "target.text~": joined},
                )
            )
            deep = f"{number}.1 The hewer of gallery {chapter}{at} signs the book{', see ' + f'{chapter}.1.1' if at == 2 else ''}."
            body += [deep, ""]
            calls.append(
                _place(
                    reg,
                    f"{number}.1",
                    "section",
                    f"{number}.1",
                    first,
                    {"target.text": deep.partition(" ")[2]},
                )
            )
        rows = [
            [f"Lamp {chapter}{letter}", f"{chapter * at} lx", f"{at + 5} h"]
            for at, letter in enumerate("ABCD", 1)
        ]
        marked = [list(row) for row in rows]
        marked[1][1] += "†"
        marked[3][2] += "‡"
        columns = ["Lamp", "Light", "Service life"]
        body += [f"Table {chapter}-1. Lamps of group {chapter}", "", *_aligned(columns, marked[:2]), ""]
        further = [
            f"Table {chapter}-1. Lamps of group {chapter} (continued)",
            "",
            *_aligned(columns, marked[2:]),
            "",
            f"† Only in dry galleries of group {chapter}.",
            "‡ Counted from the first lighting.",
            "",
        ]
        further += [f"{chapter}.3 Air", "", f"Air doors of group {chapter} stay shut.", ""]
        calls.append(
            _place(
                reg,
                f"{chapter}.3",
                "section",
                f"{chapter}.3",
                second,
                {"target.text": f"Air doors of group {chapter} stay shut."},
            )
        )
        calls.append(("get_table_by_id", {"reg_id": reg, "table_id": f"{chapter}-1"}, {
            "rows": rows, "columns": columns, "page": first, "page_end": second, "caption": f"Lamps of group {chapter}",
            "marks[row,column,label]": [[1, "Light", "†"], [3, "Service life", "‡"]],
        }))  # fmt: skip
        calls.append(_note(reg, f"{chapter}-1", "†", f"Only in dry galleries of group {chapter}.", second))
        pages += [head + body, further]
    shown = [
        "\n".join([f"MINING BYE-LAWS{' ' * 40}1911", "", *lines, "", f"{' ' * 30}{at}"])
        for at, lines in enumerate(pages, 1)
    ]
    calls.append(
        (
            "read_page_range",
            {"reg_id": reg, "start_page": 8, "end_page": 8},
            {"pages.0.text~": "Air doors of group 4"},
        )
    )
    calls.append(
        (
            "smart_search",
            {"reg_id": reg, "query": "hewer gallery 32 signs book"},
            {"results.0.id": "3.2.1", "results.0.page": 5},
        )
    )
    return "mines.txt", "\f\n".join(shown), calls


def _aligned(columns: list[str], rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in [columns, *rows]) + 3 for at in range(len(columns))]
    lines = [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [columns, *rows]
    ]
    return [lines[0], "  ".join("-" * (width - 2) for width in widths), *lines[1:]]


def bakery() -> tuple[str, str, list[Call]]:
    """Return an HTML page: page-break elements, row and column spans, linked notes, an annex."""
    reg, calls = "bakery", []
    text = ["<html><head><title>Bakery Order</title><style>p{}</style></head><body><h1>Bakery Order</h1>"]
    page = 1
    for chapter in (1, 2, 3):
        text.append(f"<h2>{chapter}. Ovens of kind {chapter}</h2>")
        calls.append(
            _place(
                reg,
                f"chapter {chapter}",
                "chapter",
                str(chapter),
                page,
                {"target.title": f"Ovens of kind {chapter}"},
                kind_of="section",
            )
        )
        for at in (1, 2):
            words = f"Dough of kind {chapter}{at} rests for {chapter * 9 + at} minutes."
            words += f" See <a href='#t{chapter}'>Table {chapter}-1</a>." if at == 2 else ""
            text.append(f"<h3>{chapter}.{at} Dough {chapter}{at}</h3><p>{words}</p>")
            plain = words.replace(f"<a href='#t{chapter}'>", "").replace("</a>", "")
            calls.append(
                _place(reg, f"§ {chapter}.{at}", "section", f"{chapter}.{at}", page, {"target.text": plain})
            )
        text.append(
            f"<table id='t{chapter}'><caption>Table {chapter}-1 Heat of ovens {chapter}</caption><thead>"
            "<tr><th rowspan='2'>Oven</th><th colspan='2'>Heat</th></tr><tr><th>low</th><th>high</th></tr></thead><tbody>"
            f"<tr><td rowspan='2'>Stone {chapter}</td><td>{chapter}80 °C</td><td>{chapter}90 °C<sup><a href='#n{chapter}a'>a</a></sup></td></tr>"
            f"<tr><td colspan='2'>by hand {chapter}</td></tr>"
            f"<tr><td>Steel {chapter}</td><td>{chapter}10 °C<a href='#n{chapter}b'><sup>b</sup></a></td><td>{chapter}20 °C</td></tr></tbody></table>"
            f"<p id='n{chapter}a'><sup>a</sup> Never at night in oven {chapter}.</p><p id='n{chapter}b'><a href='#t{chapter}'>b</a> With steam.</p>"
        )
        rows = [
            [f"Stone {chapter}", f"{chapter}80 °C", f"{chapter}90 °C"],
            [f"Stone {chapter}", f"by hand {chapter}", f"by hand {chapter}"],
            [f"Steel {chapter}", f"{chapter}10 °C", f"{chapter}20 °C"],
        ]
        calls.append(("get_table_by_id", {"reg_id": reg, "table_id": f"{chapter}-1"}, {
            "rows": rows, "columns": ["Oven", "Heat / low", "Heat / high"], "page": page, "page_end": page,
            "marks[row,label]": [[0, "a"], [2, "b"]],
        }))  # fmt: skip
        calls.append(_note(reg, f"{chapter}-1", "a", f"Never at night in oven {chapter}.", page))
        calls.append(_note(reg, f"{chapter}-1", "b", "With steam.", page))
        page += 1
        text.append(f"<div class='page-break' data-page='{page}'></div>")
    text.append("<h2>Annex A Forms of bread</h2><p>Round, long or plaited.</p></body></html>")
    calls.append(_place(reg, "Annex A", "annex", "A", page, {"target.text": "Round, long or plaited."}))
    calls.append(
        (
            "list_regulations",
            {},
            {
                "regulations{reg_id=bakery}.title": "Bakery Order",
                "regulations{reg_id=bakery}.last_page": page,
            },
        )
    )
    calls.append(
        (
            "search_tables",
            {"reg_id": reg, "query": "heat of ovens 2"},
            {"results.0.id": "table 2-1", "results.0.page": 2},
        )
    )
    return "bakery.html", "\n".join(text), calls


def tea() -> tuple[str, str, list[Call]]:
    """Return a Chinese Markdown file: footers, chapters and articles in Chinese numerals, full-width digits."""
    reg, calls, text = "chaye", [], ["# 茶叶加工规程", ""]
    numerals = "一二三四五六七八九十"
    article = 0
    for chapter in (1, 2, 3):
        page = chapter
        title = ("采摘", "萎凋", "烘干")[chapter - 1]
        text += [f"## 第{numerals[chapter - 1]}章 {title}", ""]
        calls.append(
            _place(
                reg, f"第{numerals[chapter - 1]}章", "chapter", str(chapter), page, {"target.title": title}
            )
        )
        for at in (1, 2, 3):
            article += 1
            words = f"{title}工序{at}的时间为{article * 11}分钟，温度为{article + 40}度。"
            words += "例外见第九条。" if article == 2 else "参见第十五条。" if article == 4 else ""
            text += [f"第{numerals[article - 1]}条 {words}".translate(_WIDE), ""]
            calls.append(
                _place(
                    reg, f"第{numerals[article - 1]}条", "article", str(article), page, {"target.text": words}
                )
            )
        text += [
            f"表{chapter}－1　{title}指标".translate(_WIDE),
            "",
            "| 等级 | 水分 | 时间 |",
            "| --- | --- | --- |",
        ]
        rows = [
            [level, f"{chapter}{at}.5%", f"{at * 8}小时"]
            for at, level in enumerate(("特级", "一级", "二级"), 1)
        ]
        text += [
            f"| {a} | {b.translate(_WIDE)}{'（注1）' if a == '一级' else ''} | {c.translate(_WIDE)} |"
            for a, b, c in rows
        ]
        text += ["", f"注１：第{chapter}批除外。", "注２：以干茶计。", "", f"— {page} —", ""]
        calls.append(("get_table_by_id", {"reg_id": reg, "table_id": f"表{chapter}-1"}, {
            "rows": rows, "columns": ["等级", "水分", "时间"], "page": page, "caption": f"{title}指标",
            "marks[row,column,label]": [[1, "水分", "1"]],
        }))  # fmt: skip
        calls.append(_note(reg, f"{chapter}-1", "1", f"第{chapter}批除外。", page))
        calls.append(
            (
                "resolve_reference",
                {"reg_id": reg, "reference_text": f"表{chapter}-1注2"},
                {"target.text": "以干茶计。", "target.page": page},
            )
        )
    calls.append(("resolve_reference", {"reg_id": reg, "reference_text": "第十五条"}, {"status": "dangling"}))
    calls.append(("smart_search", {"reg_id": reg, "query": "烘干 55分钟"}, {"results.0.kind": "section"}))
    return "chaye.md", "\n".join(text), calls


def rails() -> tuple[str, str, list[Call]]:
    """Return a Chinese text: form feeds, page numbers at the foot, drawn boxes, continued tables, annexes."""
    reg, calls, pages = "tielu", [], []
    for chapter in (1, 2, 3):
        first, second = 2 * chapter - 1, 2 * chapter
        body = [f"{chapter} 线路{chapter}", ""]
        for at in (1, 2):
            words = (
                f"线路{chapter}{at}的限速为每小时{chapter * 20 + at}公里"
                + ("，按1.1.1执行" if chapter == 3 and at == 2 else "")
                + "。"
            )
            body += [f"{chapter}.{at} 道岔{chapter}{at}", "", f"{chapter}.{at}.1 {words}", ""]
            calls.append(
                _place(
                    reg,
                    f"第{chapter}.{at}条",
                    "section",
                    f"{chapter}.{at}",
                    first,
                    {"target.title": f"道岔{chapter}{at}"},
                )
            )
            calls.append(
                _place(
                    reg, f"{chapter}.{at}.1", "section", f"{chapter}.{at}.1", first, {"target.text": words}
                )
            )
        rows = [[f"轨型{chapter}{at}", f"{chapter * at * 5}千克", f"{at}年"] for at in (1, 2, 3)]
        columns = ["轨型", "单重", "寿命"]
        marked = [list(row) for row in rows]
        marked[2][1] += "*"
        body += [f"表{chapter}-1 钢轨{chapter}", "", *_boxed(columns, marked[:1])]
        further = [
            f"表{chapter}-1（续）",
            "",
            *_boxed(columns, marked[1:]),
            "注：1. 新轨；2. 旧轨减半。",
            f"* 第{chapter}线不用。",
            "",
        ]
        calls.append(("get_table_by_id", {"reg_id": reg, "table_id": f"{chapter}-1"}, {
            "rows": rows, "columns": columns, "page": first, "page_end": second, "caption": f"钢轨{chapter}",
            "marks[row,column,label]": [[2, "单重", "*"]],
            "notes[label,text]": [["1", "新轨"], ["2", "旧轨减半。"], ["*", f"第{chapter}线不用。"]],
        }))  # fmt: skip
        pages += [body, further]
    pages.append(["附录A 图例", "", "本附录列出图例。", ""])
    calls.append(
        _place(reg, "附录A", "annex", "A", 7, {"target.title": "图例", "target.text": "本附录列出图例。"})
    )
    calls.append(_note(reg, "2-1", "*", "第2线不用。", 4))
    calls.append(("read_page_range", {"reg_id": reg, "start_page": 6}, {"pages.0.text~": "第3线不用"}))
    text = "\f".join(
        "\n".join(["铁路线路维护规则", "", *lines, f"        第 {at} 页 共 7 页"])
        for at, lines in enumerate(pages, 1)
    )
    return "tielu.txt", text, calls


def _boxed(columns: list[str], rows: list[list[str]]) -> list[str]:
    def width(text: str) -> int:
        return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)

    wide = [max(width(row[at]) for row in [columns, *rows]) for at in range(len(columns))]

    def rule(left: str, middle: str, right: str) -> str:
        return left + middle.join("─" * one for one in wide) + right

    lines = [rule("┌", "┬", "┐")]
    for at, row in enumerate([columns, *rows]):
        lines += [rule("├", "┼", "┤")] if at else []
        lines.append(
            "│"
            + "│".join(cell + " " * (one - width(cell)) for cell, one in zip(row, wide, strict=True))
            + "│"
        )
    return [*lines, rule("└", "┴", "┘"), ""]


def _place(
    reg: str, words: str, kind: str, number: str, page: int, more: dict[str, Any], kind_of: str = ""
) -> Call:
    expect = {
        "target.kind": kind_of or kind,
        "target.number": number,
        "target.page": page,
        "status": "resolved",
        **more,
    }
    return ("resolve_reference", {"reg_id": reg, "reference_text": words}, expect)


def _note(reg: str, table: str, label: str, text: str, page: int | None) -> Call:
    expect = {"text": text, "table_id": table, **({} if page is None else {"page": page})}
    return ("lookup_annotation", {"reg_id": reg, "annotation_id": label, "table_id": table}, expect)


LAYOUTS: Final = (harbour, mines, bakery, tea, rails)


def write(folder: Path) -> None:
    """Write the five files and the calls."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    lines = []
    for layout in LAYOUTS:
        name, text, calls = layout()
        (folder / "corpus" / name).write_text(text, encoding="utf-8")
        lines += [
            json.dumps({"tool": tool, "arguments": given, "expect": expect}, ensure_ascii=False)
            for tool, given, expect in calls
        ]
    (folder / "calls.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
