"""The made corpus: an English and a Chinese regulation, each of more than 60 pages, with their truth.

    python -m tests.examples.regreader.corpus FOLDER

writes FOLDER/corpus (the regulations), FOLDER/calls.jsonl (tool calls and what they must return) and
FOLDER/questions.jsonl. The truth comes from the model that the text is written from; equal seeds give equal
files.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

SEED: Final = 17
CHAPTERS: Final = 10
SECTIONS: Final = 3
CLAUSES: Final = 6


@dataclass
class Clause:
    """A numbered clause. subject, quality, value: its fact. cites: the words of its reference."""

    number: str
    subject: str
    quality: str
    value: str
    page: int = 0
    cites: str = ""


@dataclass
class Part:
    """A section: a heading with clauses."""

    number: str
    title: str
    clauses: list[Clause]
    page: int = 0


@dataclass
class Sheet:
    """A table. marks: (row, column, label). split: the rows on its first page."""

    number: str
    caption: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[tuple[str, str]]
    marks: list[tuple[int, int, str]]
    split: int
    page: int = 0
    page_end: int = 0


@dataclass
class Model:
    """A regulation before it is written. pages: the lines of each."""

    reg_id: str
    words: "Language"
    chapters: list[tuple[str, list[Part]]] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)
    chapter_pages: list[int] = field(default_factory=list)
    annex_pages: list[int] = field(default_factory=list)
    pages: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Language:
    """The words of one regulation, and the forms in which its parts are written."""

    title: str
    subjects: tuple[str, ...]
    qualities: tuple[tuple[str, str], ...]
    chapter_titles: tuple[str, ...]
    clause: str
    cite_section: str
    cite_note: str
    cite_table: str
    table_caption: str
    columns: tuple[str, ...]
    notes: tuple[str, ...]
    annexes: tuple[str, ...]
    annex_text: str


ENGLISH: Final = Language(
    "Operating Code for Power Plants",
    ("hydro generator", "steam turbine", "oil transformer", "dry transformer", "feed pump", "cooling tower",
     "gas turbine", "condenser", "boiler drum", "coal mill", "air preheater", "battery bank", "diesel set",
     "surge arrester", "circuit breaker", "busbar", "cable duct", "relay cabinet", "fire pump", "ash conveyor"),
    (("bearing temperature", "°C"), ("inspection interval", "days"), ("insulation resistance", "MΩ"),
     ("vibration amplitude", "µm"), ("start delay", "seconds"), ("oil pressure", "kPa"), ("noise level", "dB"),
     ("load factor", "percent"), ("leakage rate", "litres per hour"), ("clearance distance", "mm")),
    ("Duties", "Machines", "Cooling", "Fuel", "Protection", "Earthing", "Storage", "Measurement", "Emergencies", "Records"),
    "The {quality} of the {subject} shall not exceed {value}.",
    "See section {0}.", "Exceptions are in Table {0}, note 1.", "Values for tests are in Table {0}.",
    "Test values of the {0}", ("Equipment", "Stage", "Voltage in kV", "Duration in minutes"),
    ("Measured at the terminals of unit {0}.", "Only after repair number {0}.", "In winter series {0} applies."),
    ("Forms for reports", "Maps of the plant"), "The forms of this annex are filled in by the shift leader.",
)  # fmt: skip
CHINESE: Final = Language(
    "电厂运行规程",
    ("水轮发电机", "汽轮机", "油浸变压器", "干式变压器", "给水泵", "冷却塔", "燃气轮机", "凝汽器", "锅炉汽包", "磨煤机",
     "空气预热器", "蓄电池组", "柴油机组", "避雷器", "断路器", "母线", "电缆沟", "继电保护柜", "消防泵", "输灰机"),
    (("轴承温度", "℃"), ("巡检周期", "天"), ("绝缘电阻", "兆欧"), ("振动幅值", "微米"), ("启动延时", "秒"),
     ("润滑油压", "千帕"), ("噪声水平", "分贝"), ("负载系数", "百分数"), ("泄漏速率", "升每小时"), ("安全净距", "毫米")),
    ("职责", "机组", "冷却", "燃料", "保护", "接地", "储存", "计量", "事故处理", "记录"),
    "{subject}的{quality}不得超过{value}。",
    "见第{0}条。", "例外情况见表{0}注1。", "试验数值见表{0}。",
    "{0}试验数值", ("设备", "阶段", "电压（千伏）", "持续时间（分钟）"),
    ("在第{0}号机组端子处测量。", "仅在第{0}次检修后适用。", "冬季按第{0}系列执行。"),
    ("报告格式", "厂区图"), "本附录的格式由值长填写。",
)  # fmt: skip


def built(reg_id: str, words: Language, seed: int) -> Model:
    """Make the model of a regulation, without pages."""
    order = Random(seed)
    pairs = list(product(words.subjects, words.qualities))
    order.shuffle(pairs)
    made = Model(reg_id, words)
    for chapter in range(1, CHAPTERS + 1):
        parts = []
        for place in range(1, SECTIONS + 1):
            number = f"{chapter}.{place}"
            taken = [pairs.pop() for _ in range(CLAUSES)]
            clauses = [
                Clause(f"{number}.{at}", subject, quality, f"{order.randrange(11, 990)} {unit}")
                for at, (subject, (quality, unit)) in enumerate(taken, 1)
            ]
            parts.append(Part(number, f"{_titled(taken[0][0])}", clauses))
        made.chapters.append((words.chapter_titles[chapter - 1], parts))
        made.sheets += [_sheet(f"{chapter}-{at}", chapter, at, words, order) for at in (1, 2)]
    _cite(made)
    return made


def _titled(subject: str) -> str:
    return subject[0].upper() + subject[1:]


def _sheet(number: str, chapter: int, at: int, words: Language, order: Random) -> Sheet:
    names = order.sample(words.subjects, 4)
    stages = ("I", "II")
    rows = [
        [name, stage, str(order.randrange(3, 500)), str(order.randrange(1, 90))]
        for name in names
        for stage in stages
    ]
    notes = [
        (label, text.format(chapter * 10 + at))
        for label, text in zip(("1", "2", "*"), words.notes, strict=True)
    ]
    marks = [(0, 2, "1"), (3, 3, "2"), (6, 2, "*")]
    return Sheet(
        number,
        words.table_caption.format(names[0]),
        list(words.columns),
        rows,
        notes,
        marks,
        8 if at == 1 else 5,
    )


def _cite(made: Model) -> None:
    """Add references: to the next section, to notes, to tables, dangling ones, and a circle."""
    words = made.words
    parts = [part for _, parts in made.chapters for part in parts]
    for at, part in enumerate(parts):
        following = parts[(at + 1) % len(parts)].clauses
        part.clauses[1].cites = words.cite_section.format(following[2].number)
        part.clauses[2].cites = words.cite_note.format(f"{part.number.split('.')[0]}-1")
        part.clauses[3].cites = words.cite_table.format(f"{part.number.split('.')[0]}-2")
    parts[0].clauses[4].cites = words.cite_section.format("99.9.9")
    parts[4].clauses[4].cites = words.cite_section.format(parts[5].clauses[4].number)
    parts[5].clauses[4].cites = words.cite_section.format(parts[4].clauses[4].number)


def clause_text(made: Model, one: Clause) -> str:
    """Return the sentences of a clause."""
    said = made.words.clause.format(subject=one.subject, quality=one.quality, value=one.value)
    return f"{said}{' ' if made.words is ENGLISH else ''}{one.cites}".strip()


# --- pages ------------------------------------------------------------------------------


def lay_out(made: Model) -> None:
    """Write the pages: two for each section, tables in the second one, one of them over two pages."""
    is_english = made.words is ENGLISH
    for number, (title, parts) in enumerate(made.chapters, 1):
        for place, part in enumerate(parts, 1):
            page = _new_page(made)
            if place == 1:
                made.chapter_pages.append(len(made.pages))
                page += _heading(made, f"Chapter {number}" if is_english else f"第{_han(number)}章", title, 2)
            part.page = len(made.pages)
            page += _heading(made, part.number, part.title, 3)
            for clause in part.clauses[:3]:
                _write(made, clause)
            _new_page(made)
            for clause in part.clauses[3:]:
                _write(made, clause)
            if place <= 2:
                _write_sheet(made, made.sheets[2 * (number - 1) + place - 1])
    for letter, title in zip("AB", made.words.annexes, strict=True):
        page = _new_page(made)
        made.annex_pages.append(len(made.pages))
        page += _heading(made, f"Annex {letter}" if is_english else f"附录{letter}", title, 2)
        page += [made.words.annex_text, ""]


def _han(number: int) -> str:
    return "一二三四五六七八九十"[number - 1]


def _new_page(made: Model) -> list[str]:
    made.pages.append([])
    return made.pages[-1]


def _heading(made: Model, number: str, title: str, level: int) -> list[str]:
    return [f"{'#' * level} {number} {title}", ""]


def _write(made: Model, clause: Clause) -> None:
    clause.page = len(made.pages)
    text = f"{clause.number} {clause_text(made, clause)}"
    made.pages[-1] += [text if made.words is ENGLISH else _wide(text), ""]


def _wide(text: str) -> str:
    """Write the digits of a value full-width, as Chinese texts often do, but not those of the number."""
    number, _, rest = text.partition(" ")
    return f"{number} {rest.translate({ord(char): ord(char) + 0xFEE0 for char in '0123456789'})}"


def _write_sheet(made: Model, sheet: Sheet) -> None:
    is_english = made.words is ENGLISH
    sheet.page = len(made.pages)
    name = f"Table {sheet.number} {sheet.caption}" if is_english else f"表{sheet.number} {sheet.caption}"
    cells = [_marked(sheet, at) for at in range(len(sheet.rows))]
    made.pages[-1] += [name, "", *_table(sheet.columns, cells[: sheet.split]), ""]
    if sheet.split < len(cells):
        page = _new_page(made)
        page += [f"Table {sheet.number} (continued)" if is_english else f"续表{sheet.number}", ""]
        page += [*_table(sheet.columns, cells[sheet.split :]), ""]
    sheet.page_end = len(made.pages)
    for label, text in sheet.notes:
        sign = "\\*"
        lead = f"{sign} " if label == "*" else (f"Note {label}: " if is_english else f"注{label}：")
        made.pages[-1] += [lead + text, ""]


def _marked(sheet: Sheet, at: int) -> list[str]:
    """Return a row with its marks, and with a mark for the cell that is merged with the one above."""
    row = list(sheet.rows[at])
    for row_at, column, label in sheet.marks:
        if row_at == at:
            row[column] += "*" if label == "*" else f" {label})"
    if at not in (0, sheet.split) and sheet.rows[at - 1][0] == row[0]:
        row[0] = "^^"
    return row


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *rows]]


def text_of(made: Model) -> str:
    """Return the file: Markdown whose page marks are comments, or form feeds."""
    title = f"# {made.words.title}\n\n"
    if made.words is ENGLISH:
        return title + "\n".join(
            "\n".join([f"<!-- page {at} -->", "", *lines]) for at, lines in enumerate(made.pages, 1)
        )
    return title + "\f".join("\n".join(lines) for lines in made.pages)


# --- truth ------------------------------------------------------------------------------


def calls_of(made: Model) -> Iterator[dict[str, Any]]:
    """Return tool calls, each with the values that its result must have, by their paths."""
    reg = made.reg_id
    entries: list[list[Any]] = []
    for number, (_, parts) in enumerate(made.chapters, 1):
        entries.append([f"chapter {number}", made.chapter_pages[number - 1]])
        for part in parts:
            entries += [[part.number, part.page], *([one.number, one.page] for one in part.clauses)]
    entries += [[f"annex {letter}", page] for letter, page in zip("AB", made.annex_pages, strict=True)]
    yield _call("get_toc", {"entries[id,page]": entries}, reg_id=reg)
    last = len(made.pages)
    yield _call("list_regulations", {f"regulations{{reg_id={reg}}}.last_page": last})
    for sheet in made.sheets:
        yield from _sheet_calls(made, sheet)
    for number, (title, parts) in enumerate(made.chapters, 1):
        words = f"chapter {number}" if made.words is ENGLISH else f"第{_han(number)}章"
        yield _resolved(
            reg, words, "chapter", str(number), made.chapter_pages[number - 1], {"target.title": title}
        )
        for part in parts:
            yield _resolved(reg, part.number, "section", part.number, part.page, {"target.title": part.title})
            yield from _clause_calls(made, part)
    yield _call(
        "resolve_reference", {"status": "dangling", "target": None}, reg_id=reg, reference_text="§ 99.9.9"
    )


def _clause_calls(made: Model, part: Part) -> Iterator[dict[str, Any]]:
    reg = made.reg_id
    for clause in part.clauses:
        text = clause_text(made, clause)
        words = f"section {clause.number}" if made.words is ENGLISH else f"第{clause.number}条"
        yield _resolved(reg, words, "section", clause.number, clause.page, {"target.text": text})
        first = {"results.0.id": clause.number, "results.0.page": clause.page}
        yield _call("smart_search", first, reg_id=reg, query=f"{clause.subject} {clause.quality}")


def _sheet_calls(made: Model, sheet: Sheet) -> Iterator[dict[str, Any]]:
    reg, number = made.reg_id, sheet.number
    whole = {
        "page": sheet.page, "page_end": sheet.page_end, "caption": sheet.caption, "columns": sheet.columns,
        "rows": sheet.rows, "notes[label,text]": [[label, text] for label, text in sheet.notes],
        "marks[row,column,label]": [[row, sheet.columns[column], label] for row, column, label in sheet.marks],
    }  # fmt: skip
    yield _call("get_table_by_id", whole, reg_id=reg, table_id=number)
    for label, text in sheet.notes:
        note = {"text": text, "page": sheet.page_end, "table_id": number}
        yield _call("lookup_annotation", note, reg_id=reg, annotation_id=label, table_id=number)
        joined = f"Table {number}, note {label}" if made.words is ENGLISH else f"表{number}注{label}"
        yield _call(
            "resolve_reference",
            {"target.text": text, "status": "resolved"},
            reg_id=reg,
            reference_text=joined,
        )
    yield _call(
        "search_tables", {"results.0.id": f"table {number}"}, reg_id=reg, query=f"{number} {sheet.caption}"
    )


def _call(tool: str, expect: dict[str, Any], **arguments: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": arguments, "expect": expect}


def _resolved(
    reg: str, words: str, kind: str, number: str, page: int, more: dict[str, Any]
) -> dict[str, Any]:
    expect = {"status": "resolved", "target.kind": kind, "target.number": number, "target.page": page, **more}
    return _call("resolve_reference", expect, reg_id=reg, reference_text=words)


def questions_of(made: Model) -> Iterator[dict[str, Any]]:
    """Return questions with the texts that an answer must hold, None for none, and the page of its source."""
    is_english = made.words is ENGLISH
    parts = [part for _, parts in made.chapters for part in parts]
    asked: list[tuple[str, list[str] | None, int]] = []
    plain = (
        ("How high may the {1} of a {0} get?", "What {1} is allowed for the {0}?")
        if is_english
        else ("{0}的{1}最高允许到多少？", "请问{0}允许的{1}是多少？")
    )
    for at, part in enumerate(parts[:26]):
        clause = part.clauses[at % 6]
        asked.append((plain[at % 2].format(clause.subject, clause.quality), [clause.value], clause.page))
    for sheet in made.sheets[:12]:
        label, text = sheet.notes[0]
        words = (
            f"What does note {label} of Table {sheet.number} say?"
            if is_english
            else f"表{sheet.number}注{label}是什么内容？"
        )
        asked.append((words, [text], sheet.page_end))
        row = sheet.rows[5]
        words = (
            f"Which voltage in kV has the {row[0]} at stage {row[1]} in Table {sheet.number}?" if is_english
            else f"表{sheet.number}中{row[0]}阶段{row[1]}的电压是多少？"
        )  # fmt: skip
        asked.append((words, [row[2]], sheet.page))
    for part in parts[:8]:
        following = parts[(parts.index(part) + 1) % len(parts)].clauses[2]
        words = (
            f"What does the place say that section {part.clauses[1].number} refers to?"
            if is_english
            else f"第{part.clauses[1].number}条引用的条文怎么规定？"
        )
        asked.append((words, [following.value], following.page))
        note = made.sheets[2 * (int(part.number.split(".")[0]) - 1)]
        words = (
            f"What does section {part.clauses[2].number} refer to?"
            if is_english
            else f"第{part.clauses[2].number}条引用了什么？"
        )
        asked.append((words, [note.notes[0][1]], note.page_end))
    for part in parts[8:13]:
        a, b = part.clauses[0], part.clauses[5]
        words = (
            f"Compare section {a.number} and section {b.number}."
            if is_english
            else f"比较第{a.number}条和第{b.number}条。"
        )
        asked.append((words, [a.value, b.value], a.page))
    for number, (_, parts_of) in enumerate(made.chapters[:5], 1):
        words = f"List the sections of chapter {number}." if is_english else f"第{_han(number)}章有哪些节？"
        asked.append((words, [part.title for part in parts_of], made.chapter_pages[number - 1]))
    for words in _UNANSWERED[is_english]:
        asked.append((words, None, 0))
    for at, (words, answer, page) in enumerate(asked, 1):
        yield {
            "id": f"{made.reg_id}-{at}",
            "question": words,
            "reg_id": made.reg_id,
            "answer": answer,
            "page": page,
        }


_UNANSWERED: Final = {
    True: ("What does section 77.7 say?", "What does note 9 of Table 1-1 say?", "How tall must a lighthouse be?",
           "Who elects the mayor of the town?", "What does Annex Q say?", "Which colour has the hydrogen tank lid?"),
    False: ("第77.7条怎么规定？", "表1-1注9是什么内容？", "灯塔必须有多高？", "谁选举镇长？", "附录Q写了什么？", "氢气罐盖是什么颜色？"),
}  # fmt: skip


def models() -> list[Model]:
    """Return both regulations, with their pages."""
    made = [built("operating-code", ENGLISH, SEED), built("yunxing-guicheng", CHINESE, SEED + 1)]
    for one in made:
        lay_out(one)
    return made


def write(folder: Path) -> None:
    """Write the corpus and its truth."""
    (folder / "corpus").mkdir(parents=True, exist_ok=True)
    made = models()
    for one in made:
        (folder / "corpus" / f"{one.reg_id}.md").write_text(text_of(one), encoding="utf-8")
    for name, lines in (("calls", calls_of), ("questions", questions_of)):
        found = [json.dumps(line, ensure_ascii=False) for one in made for line in lines(one)]
        (folder / f"{name}.jsonl").write_text("\n".join(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
