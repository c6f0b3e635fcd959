"""Offline policies: programs that drive the specialists without a model.

They answer only from what tools return, and refuse if that does not cover the question. No rule knows a
particular question.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from callboard import CallFailed, ProgramContext, SpecialistContext, SpecialistResult, ToolUse
from regreader.numbering import references_in
from regreader.words import half_width, query_terms, terms

Found = dict[str, Any]
_FOLLOW: Final = (
    "refer",
    "refers to",
    "points to",
    "leads to",
    "cites",
    "引用",
    "指向",
    "所引",
    "参见的",
    "依据的",
)
_LISTS: Final = ("list", "sections of", "sections in", "contents", "哪些", "列出", "目录")
_COVERED: Final = 0.6  # the part of a question's words that an answer must hold
_TABLES_MAX: Final = 3
_HITS: Final = 8


class _Trail:
    """The tool calls of a specialist, and the sources that they found."""

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        self.ctx, self.context = ctx, context
        self.query = half_width(context.query)
        self.calls: list[ToolUse] = []

    async def call(self, tool: str, **arguments: object) -> Found | None:
        """Call a tool. Return None if it has no result."""
        self.calls.append(ToolUse(tool, dict(arguments)))
        try:
            found = await self.ctx.call(tool, **arguments)
        except CallFailed:
            return None
        return found if isinstance(found, dict) else None

    async def regulations(self) -> list[str]:
        """Return the ids of the regulations in scope."""
        if self.context.scope:
            return list(self.context.scope)
        found = await self.call("list_regulations")
        return [one["reg_id"] for one in (found or {}).get("regulations", ())]

    def answer(
        self, content: str, sources: Sequence[str], confidence: float, data: Found | None = None
    ) -> SpecialistResult:
        return SpecialistResult(
            True, content, tuple(dict.fromkeys(sources)), tuple(self.calls), data or {}, confidence=confidence
        )

    def refuse(self, why: str) -> SpecialistResult:
        return SpecialistResult(False, tool_calls=tuple(self.calls), error=why)


def place(reg: str, page: object, name: str) -> str:
    """Return a source: the regulation, the page, and the number there."""
    return f"{reg} p.{page} {name}"


def has_any(text: str, words: Sequence[str]) -> bool:
    """Return True if a text holds one of some words."""
    return any(word in text.casefold() for word in words)


# --- tables -----------------------------------------------------------------------------


async def read_tables(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer from a cell of a table, or from one of its notes."""
    trail = _Trail(ctx, context)
    named = [target for _, target in references_in(trail.query) if target.kind == "table"]
    notes = context.hints.get("note", [])
    for reg in await trail.regulations():
        for target in named:
            if label := target.note or (notes[0] if notes else ""):
                note = await trail.call(
                    "lookup_annotation", reg_id=reg, annotation_id=label, table_id=target.number
                )
                if note:
                    source = place(reg, note["page"], f"table {note['table_id']} note {label}")
                    return trail.answer(note["text"], [source], 0.95)
    if named and notes:
        return trail.refuse("the table or its note does not exist")
    best: tuple[float, SpecialistResult] | None = None
    for reg in await trail.regulations() if not named else context.scope or await trail.regulations():
        found = await _table_answer(trail, reg, [target.number for target in named])
        if found and (best is None or found[0] > best[0]):
            best = found
    return best[1] if best else trail.refuse("no table has a row and a column for this")


async def _table_answer(trail: _Trail, reg: str, numbers: list[str]) -> tuple[float, SpecialistResult] | None:
    is_named = bool(numbers)
    if not is_named:
        found = await trail.call("search_tables", query=trail.query, reg_id=reg, limit=_TABLES_MAX)
        numbers = [hit["id"] for hit in (found or {}).get("results", ())]
    best: tuple[float, SpecialistResult] | None = None
    for number in numbers:
        table = await trail.call("get_table_by_id", reg_id=reg, table_id=number)
        if table is None:
            continue
        answer = _cell_answer(trail, reg, table, is_named)
        if answer and (best is None or answer[0] > best[0]):
            best = answer
    return best


def _cell_answer(
    trail: _Trail, reg: str, table: Found, is_named: bool
) -> tuple[float, SpecialistResult] | None:
    words = set(query_terms(trail.query))
    rows: list[list[str]] = table["rows"]
    columns: list[str] = table["columns"]
    at = _row_of(rows, words)
    if at is None or len(columns) < 2:
        return None
    labels = _label_columns(rows)
    label = " ".join(dict.fromkeys(rows[at][:labels]))
    column = _column_of(columns, labels, words - set(terms(label)))
    known = set(terms(" ".join([table["caption"], label, *columns, table["table_id"]]))) | set(
        terms("table note 表 注")
    )
    covered = len(words & known) / max(len(words), 1)
    if not is_named and covered < _COVERED:
        return None
    places = range(labels, len(columns)) if column is None else [column]
    said = ", ".join(f"{columns[one]} {rows[at][one]}" for one in places)
    marks = {
        mark["label"]
        for mark in table["marks"]
        if mark["row"] == at and mark["column"] in [columns[one] for one in places]
    }
    notes = [f"Note {note['label']}: {note['text']}" for note in table["notes"] if note["label"] in marks]
    name = f"table {table['table_id']}"
    content = " ".join([f"{name} {table['caption']}, {label}: {said}.", *notes])
    cells = [
        {"table": f"{reg} {table['table_id']}", "row": label, "column": columns[one], "value": rows[at][one]}
        for one in places
    ]
    sure = 0.9 if column is not None else 0.6
    return covered + (column is not None), trail.answer(
        content, [place(reg, table["page"], name)], sure, {"cells": cells}
    )


def _label_columns(rows: list[list[str]]) -> int:
    """Return how many columns name a row: more than one if the first has equal cells."""
    width = max(map(len, rows), default=0)
    for count in range(1, min(width, 3)):
        if len({tuple(row[:count]) for row in rows}) == len(rows):
            return count
    return 1


def _row_of(rows: list[list[str]], words: set[str]) -> int | None:
    """Return the one row whose label the words hold as a whole; None if no row, or more than one, has it."""
    count = _label_columns(rows)
    labels = [set(terms(" ".join(row[:count]))) for row in rows]
    full = [at for at, label in enumerate(labels) if label and label <= words]
    longest = max((len(labels[at]) for at in full), default=0)
    best = [at for at in full if len(labels[at]) == longest]
    return best[0] if len(best) == 1 else None


def _column_of(columns: list[str], first: int, words: set[str]) -> int | None:
    """Return the one column that shares the most with the words; the only one, if there is but one."""
    if len(columns) == first + 1:
        return first
    shared = {
        at: len(words & set(terms(columns[at]))) / max(len(set(terms(columns[at]))), 1)
        for at in range(first, len(columns))
    }
    best = max(shared.values(), default=0)
    found = [at for at, count in shared.items() if count == best]
    return found[0] if best and len(found) == 1 else None


# --- references -------------------------------------------------------------------------


async def read_references(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer from the places that a question names, or from those that they refer to."""
    trail = _Trail(ctx, context)
    named = list(dict.fromkeys(words for words, _ in references_in(trail.query))) or context.hints.get(
        "section", []
    )
    said: list[str] = []
    sources: list[str] = []
    for reg in await trail.regulations():
        for words in named:
            found = await trail.call("resolve_reference", reg_id=reg, reference_text=words)
            if found and found["target"]:
                text, places = await _told(trail, reg, found)
                said += [text] if text else []
                sources += places
    if not said:
        return trail.refuse("it names no place" if not named else f"{', '.join(named)} does not exist")
    return trail.answer("\n".join(said), sources, 0.9)


async def _told(trail: _Trail, reg: str, found: Found) -> tuple[str, list[str]]:
    target = found["target"]
    source = place(reg, target["page"], target["id"])
    if has_any(trail.query, _FOLLOW):
        return await _followed(trail, reg, found, source)
    listed = has_any(trail.query, _LISTS) or not target["text"]
    if target["kind"] in ("chapter", "annex", "schedule", "section") and listed:
        toc = await trail.call("get_toc", reg_id=reg)
        below = [
            f"{one['number']} {one['title']}".strip()
            for one in (toc or {})["entries"]
            if one["parent"] == target["id"]
        ]
        if below:
            return f"{target['number']} {target['title']}: {'; '.join(below)}", [source]
    return f"{target['number']} {target['title']} {target['text']}".replace("  ", " ").strip(), [source]


async def _followed(trail: _Trail, reg: str, found: Found, source: str) -> tuple[str, list[str]]:
    if found["status"] == "circular":
        return f"The references are circular: {' -> '.join(found['chain'])}.", [source]
    said, sources = [], [source]
    for link in found["references"]:
        if link["target"] is None:
            said.append(f"{link['reference']} does not exist: the reference is dangling.")
            continue
        further = await trail.call("resolve_reference", reg_id=reg, reference_text=link["reference"])
        target = (further or {}).get("target")
        if target:
            sources.append(place(reg, target["page"], target["id"]))
            said.append(f"{target['id']} {target['title']} {target['text']}".strip())
            if has_any(trail.query, ("circular", "循环")) and further and further["status"] == "circular":
                said.append("The references are circular.")
    return "\n".join(said), sources if said else []


# --- search -----------------------------------------------------------------------------


async def search_text(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer with the sentence that holds the words of the question."""
    trail = _Trail(ctx, context)
    words = query_terms(trail.query)
    regs = list(context.scope) or [""]
    hits: list[Found] = []
    for reg in regs:
        found = await trail.call("smart_search", query=trail.query, reg_id=reg, limit=_HITS)
        hits += (found or {}).get("results", ())
    prose = [hit for hit in hits if hit["kind"] != "table"]
    if not prose or not words:
        return trail.refuse("no place holds the words of the question")
    texts = [set(terms(f"{hit['title']} {hit['snippet']}")) for hit in prose]
    weight = {word: 1 / (1 + sum(word in text for text in texts)) for word in words}
    scores = [sum(weight[word] for word in words if word in text) / sum(weight.values()) for text in texts]
    plain = [sum(word in text for word in words) / len(words) for text in texts]
    at = max(range(len(prose)), key=lambda one: (plain[one], scores[one], -one))
    if plain[at] < _COVERED:
        return trail.refuse("no place holds enough of the words of the question")
    hit = prose[at]
    source = place(hit["reg_id"], hit["page"], hit["id"])
    return trail.answer(hit["snippet"] or hit["title"], [source], min(0.9, plain[at]))


# --- discovery, and one agent for all -----------------------------------------------------


async def discover(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Compare two places, or find places like a section."""
    trail = _Trail(ctx, context)
    named = list(
        dict.fromkeys(target.id for _, target in references_in(trail.query) if target.kind != "table")
    )
    for reg in await trail.regulations():
        if len(named) > 1:
            found = await trail.call("compare_sections", reg_id=reg, section_a=named[0], section_b=named[1])
            if found:
                sides = [found["a"], found["b"]]
                told = [f"{side['number']} {side['title']} {side['text']}".strip() for side in sides]
                same = "They are equal." if found["is_equal"] else "They differ."
                return trail.answer(
                    "\n".join([*told, same]), [place(reg, side["page"], side["id"]) for side in sides], 0.9
                )
        elif named:
            found = await trail.call("find_similar_content", reg_id=reg, query_text=named[0])
            hits = (found or {}).get("results", ())
            if hits:
                told = [f"{hit['id']} {hit['title']}" for hit in hits]
                return trail.answer(
                    "\n".join(told), [place(reg, hit["page"], hit["id"]) for hit in hits], 0.7
                )
    return trail.refuse("it names nothing to compare")


async def read_alone(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Try each kind of answer in turn, as one agent with all tools."""
    calls: list[ToolUse] = []
    named = references_in(half_width(context.query))
    order = [read_tables, search_text]
    if named:
        order = (
            [read_tables, read_references] if named[0][1].kind == "table" else [read_references, read_tables]
        )
    for policy in order:
        result = await policy(ctx, context)
        calls += result.tool_calls
        if result.success:
            return result
        await asyncio.sleep(0)
    return SpecialistResult(False, tool_calls=tuple(calls), error="no tool result answers the question")


POLICIES: Final = {
    "table": read_tables,
    "reference": read_references,
    "search": search_text,
    "discovery": discover,
}
