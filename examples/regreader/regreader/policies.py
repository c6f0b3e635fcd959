"""Offline policies: programs that drive the specialists without a model.

They answer only from what tools return, and refuse if that does not cover the question. No rule knows a
particular question.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callboard import PolicyRun, ProgramContext, SpecialistContext, SpecialistResult, ToolUse
from regreader.numbering import references_in
from regreader.words import half_width, query_terms, terms

Found = dict[str, Any]
_FOLLOW: Final = ("refer", "points to", "leads to", "cites", "引用", "指向", "所引", "参见的", "依据的")
_LISTS: Final = ("list", "sections of", "sections in", "contents", "哪些", "列出", "目录")
_COVERED: Final = 0.6  # the part of a question's words that an answer must hold
_TABLES_MAX: Final = 3
_HITS: Final = 8
_TABLE_WORDS: Final = {*terms("table note 表 注")}


class _Run(PolicyRun):
    """The run of a policy here. query: the question with its digits as ASCII."""

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        super().__init__(ctx, context)
        self.query = half_width(context.query)

    async def found(self, tool: str, **arguments: object) -> Found:
        """Call a tool. Return {} if it has no result."""
        return await self.call(tool, **arguments) or {}

    async def regulations(self) -> list[str]:
        """Return the ids of the regulations in scope."""
        if self.context.scope:
            return list(self.context.scope)
        return [one["reg_id"] for one in (await self.found("list_regulations"))["regulations"]]

    def has_any(self, words: Sequence[str]) -> bool:
        """Return True if the question holds one of some words."""
        return any(word in self.query.casefold() for word in words)


def _source(reg: str, found: Found) -> str:
    return f"{reg} p.{found['page']} {found['id']}"


def _told(found: Found) -> str:
    parts = (found["number"], found["title"], found["text"])
    return " ".join(part for part in parts if part)


async def read_tables(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer from a cell of a table, or from one of its notes."""
    run = _Run(ctx, context)
    named = [target for _, target in references_in(run.query) if target.kind == "table"]
    hinted = next(iter(context.hints.get("note", ())), "")
    best: tuple[float, SpecialistResult] | None = None
    for reg in await run.regulations():
        for target in (target for target in named if target.note or hinted):
            asked = {"annotation_id": target.note or hinted, "table_id": target.number}
            if note := await run.found("lookup_annotation", reg_id=reg, **asked):
                place = {"page": note["page"], "id": f"table {note['table_id']} note {note['label']}"}
                return run.answer(note["text"], [_source(reg, place)], 0.95)
        seek = {"query": run.query, "reg_id": reg, "limit": _TABLES_MAX}
        likely = {} if named else await run.found("search_tables", **seek)
        numbers = [one.number for one in named if not hinted] + [
            hit["id"] for hit in likely.get("results", ())
        ]
        for number in numbers:
            table = await run.found("get_table_by_id", reg_id=reg, table_id=number)
            found = _cell_answer(run, reg, table, bool(named)) if table else None
            best = found if found and (best is None or found[0] > best[0]) else best
    return best[1] if best else run.refuse("no table or note has this")


def _cell_answer(run: _Run, reg: str, table: Found, is_named: bool) -> tuple[float, SpecialistResult] | None:
    """Return the answer from a table, and how well it fits. is_named: the question names the table."""
    words = set(query_terms(run.query))
    rows, columns, name = table["rows"], table["columns"], f"table {table['table_id']}"
    counts = range(1, min(max(map(len, rows), default=0), 3))  # of columns that tell rows apart
    first = next((one for one in counts if len({tuple(row[:one]) for row in rows}) == len(rows)), 1)
    labels = [set(terms(" ".join(row[:first]))) for row in rows]
    at = _best({at: len(label) * (label <= words) for at, label in enumerate(labels)})
    if at is None or len(columns) < 2:
        return None
    label = " ".join(dict.fromkeys(rows[at][:first]))
    known = {*terms(" ".join([table["caption"], label, *columns, table["table_id"]])), *_TABLE_WORDS}
    covered = len(words & known) / max(len(words), 1)
    if not is_named and covered < _COVERED:
        return None
    heads = {one: set(terms(columns[one])) for one in range(first, len(columns))}
    rest = words - labels[at]
    shares = {one: len(rest & head) / max(len(head), 1) for one, head in heads.items()}
    column = first if len(heads) == 1 else _best(shares)
    cells = {columns[one]: rows[at][one] for one in (heads if column is None else [column])}
    marks = {one["label"] for one in table["marks"] if one["row"] == at and one["column"] in cells}
    notes = [f"Note {note['label']}: {note['text']}" for note in table["notes"] if note["label"] in marks]
    said = ", ".join(f"{one} {value}" for one, value in cells.items())
    content = " ".join([f"{name} {table['caption']}, {label}: {said}.", *notes])
    where = {"table": f"{reg} {table['table_id']}", "row": label}
    data = {"cells": [{**where, "column": one, "value": value} for one, value in cells.items()]}
    sure = 0.6 if column is None else 0.9
    source = _source(reg, {"page": table["page"], "id": name})
    return covered + (column is not None), run.answer(content, [source], sure, data)


def _best(scores: Mapping[int, float]) -> int | None:
    """Return the key of the highest score; None if that is 0, or several have it."""
    best = max(scores.values(), default=0)
    found = [at for at, score in scores.items() if score == best]
    return found[0] if best and len(found) == 1 else None


async def read_references(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer from the places that a question names, or from those that they refer to."""
    run = _Run(ctx, context)
    words_named = [words for words, _ in references_in(run.query)]
    named = [*dict.fromkeys(words_named or map(str, context.hints.get("section", ())))]
    said: list[str] = []
    sources: list[str] = []
    for reg, words in [(reg, words) for reg in await run.regulations() for words in named] if named else ():
        found = await run.found("resolve_reference", reg_id=reg, reference_text=words)
        if found.get("target"):
            texts, further = await (_followed if run.has_any(_FOLLOW) else _shown)(run, reg, found)
            said += texts
            sources += [_source(reg, one) for one in (found["target"], *further)] if texts else []
    if not said:
        return run.refuse(f"{', '.join(named)} does not exist" if named else "it names no place")
    return run.answer("\n".join(said), sources, 0.9)


async def _shown(run: _Run, reg: str, found: Found) -> tuple[list[str], list[Found]]:
    """Return the text of a place, or its parts if it has none or the question asks for a list."""
    target = found["target"]
    if run.has_any(_LISTS) or not target["text"]:
        entries = (await run.found("get_toc", reg_id=reg)).get("entries", ())
        below = [
            f"{one['number']} {one['title']}".strip() for one in entries if one["parent"] == target["id"]
        ]
        if below:
            return [f"{target['number']} {target['title']}: {'; '.join(below)}"], []
    return [_told(target)], []


async def _followed(run: _Run, reg: str, found: Found) -> tuple[list[str], list[Found]]:
    """Return the texts of the places that a place refers to, and these places."""
    if found["status"] == "circular":
        return [f"The references are circular: {' -> '.join(found['chain'])}."], []
    said, places = [], []
    for link in found["references"]:
        further = await run.found("resolve_reference", reg_id=reg, reference_text=link["reference"])
        if target := further.get("target"):
            places.append(target)
            said.append(f"{target['id']} {target['title']} {target['text']}".strip())
            said += ["The references are circular."] if further["status"] == "circular" else []
        else:
            said.append(f"{link['reference']} does not exist: the reference is dangling.")
    return said, places


async def search_text(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer with the sentence that holds the words of the question."""
    run = _Run(ctx, context)
    words = query_terms(run.query)
    hits: list[Found] = []
    for reg in context.scope or [""]:
        found = await run.found("smart_search", query=run.query, reg_id=reg, limit=_HITS)
        hits += [hit for hit in found.get("results", ()) if hit["kind"] != "table"]
    held = [{*terms(f"{hit['title']} {hit['snippet']}")}.intersection(words) for hit in hits]
    weight = {word: 1 / (1 + sum(word in one for one in held)) for word in words}  # rare words tell more
    ranks = [(len(one), sum(weight[word] for word in one), -at) for at, one in enumerate(held)]
    covered, _, at = max(ranks, default=(0, 0, 0))
    if covered < max(_COVERED * len(words), 1):
        return run.refuse("no place holds enough of the words of the question")
    hit = hits[-at]
    sure = min(0.9, covered / len(words))
    return run.answer(hit["snippet"] or hit["title"], [_source(hit["reg_id"], hit)], sure)


async def discover(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Compare two places, or find places like a section."""
    run = _Run(ctx, context)
    named = [*dict.fromkeys(one.id for _, one in references_in(run.query) if one.kind != "table")]
    for reg in await run.regulations() if named else ():
        if len(named) > 1:
            found = await run.found("compare_sections", reg_id=reg, section_a=named[0], section_b=named[1])
            places = [found["a"], found["b"]] if found else []
            said = [*map(_told, places), "They are equal." if found.get("is_equal") else "They differ."]
        else:
            found = await run.found("find_similar_content", reg_id=reg, query_text=named[0])
            places = found.get("results", [])
            said = [f"{hit['id']} {hit['title']}" for hit in places]
        if places:
            sure = 0.9 if len(named) > 1 else 0.7
            return run.answer("\n".join(said), [_source(reg, one) for one in places], sure)
    return run.refuse("it names nothing to compare")


async def read_alone(ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Try each kind of answer in turn, as one agent with all tools."""
    named = references_in(half_width(context.query))
    is_table = named[0][1].kind == "table" if named else not context.hints.get("section")
    calls: list[ToolUse] = []
    first = (read_tables, read_references) if is_table else (read_references, read_tables)
    for policy in (*first, search_text):
        result = await policy(ctx, context)
        calls += result.tool_calls
        if result.success:
            return result
    return SpecialistResult(False, tool_calls=tuple(calls), error="no tool result answers the question")


POLICIES: Final = {
    "table": read_tables, "reference": read_references, "search": search_text, "discovery": discover,
}  # fmt: skip
