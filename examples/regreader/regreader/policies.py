"""Offline policies: they drive the specialists without a model, and answer only what tools return."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from callboard import PolicyRun, ProgramContext, SpecialistContext, SpecialistResult
from regreader.numbering import Target, references_in
from regreader.tools import Found
from regreader.words import half_width, query_terms, terms

Part = tuple[str, list[Found]]  # a part of an answer: its text, and the places that it is from
_FOLLOW = ("refer", "points to", "leads to", "cites", "引用", "指向", "所引", "参见的", "依据的")
_LISTS = ("list", "sections of", "sections in", "contents", "哪些", "列出", "目录")
_COVERED = 0.6  # the part of a question's words that an answer must hold
_TABLES_MAX = 3
_HITS = 8
_TABLE_WORDS = {*terms("table note 表 注")}


class Policy(PolicyRun):
    """The work on one question. named: the places that it names; if it names none, its plain numbers."""

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        super().__init__(ctx, context)
        self.query = half_width(context.query)
        plain = [(one, Target("section", one)) for one in context.hints.get("section", ())]
        self.named = references_in(self.query) or plain

    async def each(self, tool: str, asked: Sequence[Found]) -> list[Any]:
        """Call a tool for each regulation in scope, with each of some arguments. Return the results."""
        regs = await self._regulations() if asked else ()
        found = [await self.call(tool, reg_id=reg, **one) for reg in regs for one in asked]
        return [one for one in found if one]

    async def _regulations(self) -> Sequence[str]:
        """Return the regulations in scope: without a scope those that the question quotes, or all."""
        if self.context.scope:
            return self.context.scope
        known = (await self.call("list_regulations") or {}).get("regulations", ())
        quoted = set(self.context.hints.get("regulation", ()))
        meant = [one for one in known if quoted & {one["reg_id"], one["title"]}]
        return [one["reg_id"] for one in meant or known]

    def join(self, parts: list[Part], confidence: float, data: Found | None = None) -> SpecialistResult:
        """Report an answer, with the names of the regulations if its parts are from several."""
        is_mixed = len({places[0]["reg_id"] for _, places in parts}) > 1
        said = [f"{places[0]['reg_id']}: {text}" if is_mixed else text for text, places in parts]
        places = [f"{one['reg_id']} p.{one['page']} {one['id']}" for _, places in parts for one in places]
        return self.answer("\n".join(said), places, confidence, data)

    def has_any(self, words: Sequence[str]) -> bool:
        """Return True if the question holds one of some words."""
        return any(word in self.query.casefold() for word in words)

    async def table(self) -> SpecialistResult:
        """Answer from a note of a table, or from one of its cells."""
        named = [target for _, target in self.named if target.kind == "table"]
        hinted = next(iter(self.context.hints.get("note", ())), "")
        labels = [(one.number, one.note or hinted) for one in named if one.note or hinted]
        asked = [{"annotation_id": label, "table_id": number} for number, label in labels]
        if notes := await self.each("lookup_annotation", asked):
            return self.join([(note["text"], [note]) for note in notes], 0.95)
        if named and hinted:
            return self.refuse("the table or its note does not exist")
        tables = await self.each("get_table_by_id", [{"table_id": one.number} for one in named])
        if not named:
            found = await self.each("search_tables", [{"query": self.query, "limit": _TABLES_MAX}])
            hits = [(hit["reg_id"], hit["id"]) for one in found for hit in one["results"]]
            tables = [await self.call("get_table_by_id", reg_id=reg, table_id=number) for reg, number in hits]
        answers = [one for table in tables if table and (one := self._cell_answer(table, bool(named)))]
        if not answers:
            return self.refuse("no table has a row and a column for this")
        return max(answers, key=lambda one: one[0])[1]

    def _cell_answer(self, table: Found, is_named: bool) -> tuple[float, SpecialistResult] | None:
        """Return the answer from a table, and how well it fits. is_named: the question names the table."""
        words = set(query_terms(self.query))
        rows, columns, number, caption = (table[key] for key in ("rows", "columns", "table_id", "caption"))
        one, two = (len({tuple(row[:count]) for row in rows}) for count in (1, 2))
        first = 2 if one < len(rows) == two and len(columns) > 2 else 1  # columns before name the row
        labels = [" ".join(dict.fromkeys(row[:first])) for row in rows]
        named = {at: set(terms(label)) for at, label in enumerate(labels)}
        at = _best({at: len(label) for at, label in named.items() if label and label <= words})
        if at is None or len(columns) < 2:
            return None
        known = {*terms(" ".join([caption, labels[at], *columns, number])), *_TABLE_WORDS}
        covered = len(words & known) / len(words)
        if not is_named and covered < _COVERED:
            return None
        column = _column_of(columns, first, words - named[at])
        shown = range(first, len(columns)) if column is None else [column]
        cells = {columns[one]: rows[at][one] for one in shown}
        marks = {one["label"] for one in table["marks"] if one["row"] == at and one["column"] in cells}
        notes = [f"Note {note['label']}: {note['text']}" for note in table["notes"] if note["label"] in marks]
        said = ", ".join(f"{name} {value}" for name, value in cells.items())
        content = " ".join([f"table {number} {caption}, {labels[at]}: {said}.", *notes])
        where = {"table": f"{table['reg_id']} {number}", "row": labels[at]}
        data = {"cells": [{**where, "column": name, "value": value} for name, value in cells.items()]}
        is_sure = column is not None
        return covered + is_sure, self.join([(content, [table])], 0.9 if is_sure else 0.6, data)

    async def reference(self) -> SpecialistResult:
        """Answer from the places that a question names, or from those that they refer to."""
        named = dict.fromkeys(words for words, _ in self.named)
        part_of = self._followed if self.has_any(_FOLLOW) else self._shown
        found = await self.each("resolve_reference", [{"reference_text": words} for words in named])
        parts = [await part_of(one) for one in found if one["target"]]
        if said := [part for part in parts if part[0]]:
            return self.join(said, 0.9)
        return self.refuse(f"{', '.join(named)} does not exist" if named else "it names no place")

    async def _shown(self, found: Found) -> Part:
        """Return the text of a place, or its parts if it has none or the question asks for a list."""
        target, inner = found["target"], list[str]()
        if self.has_any(_LISTS) or not target["text"]:
            entries = (await self.call("get_toc", reg_id=found["reg_id"]) or {}).get("entries", ())
            inner = [_told(one) for one in entries if one["parent"] == target["id"]]
        head = f"{target['number']} {target['title']}: " if inner else _told(target)
        return head + "; ".join(inner), [target]

    async def _followed(self, found: Found) -> Part:
        """Return the texts of the places that a place refers to."""
        if found["status"] == "circular":
            return f"The references are circular: {' -> '.join(found['chain'])}.", [found["target"]]
        said, places, reg = [], [found["target"]], found["reg_id"]
        for words in (link["reference"] for link in found["references"]):
            further = await self.call("resolve_reference", reg_id=reg, reference_text=words) or {}
            if target := further.get("target"):
                places.append(target)
                said.append(f"{target['id']} {target['title']} {target['text']}".strip())
                said += ["The references are circular."] if further["status"] == "circular" else []
            else:
                said.append(f"{words} does not exist: the reference is dangling.")
        return "\n".join(said), places

    async def search(self) -> SpecialistResult:
        """Answer with the sentence that holds the words of the question."""
        words = set(query_terms(self.query))
        found = await self.each("smart_search", [{"query": self.query, "limit": _HITS}])
        hits = [hit for one in found for hit in one["results"] if hit["kind"] != "table"]
        held = [words.intersection(terms(f"{hit['title']} {hit['snippet']}")) for hit in hits]
        weight = {word: 1 / (1 + sum(word in one for one in held)) for word in words}  # rare words tell more
        ranks = [(len(one), sum(weight[word] for word in one)) for one in held]
        best = max(ranks, default=(0, 0))
        if not words or best[0] / len(words) < _COVERED:
            return self.refuse("no place holds enough of the words of the question")
        hit = hits[ranks.index(best)]
        return self.join([(hit["snippet"] or hit["title"], [hit])], min(0.9, best[0] / len(words)))

    async def discovery(self) -> SpecialistResult:
        """Compare two places, or find places like a section."""
        named = [*dict.fromkeys(one.id for _, one in self.named if one.kind != "table")]
        parts: list[Part] = []
        if len(named) > 1:
            pair = {"section_a": named[0], "section_b": named[1]}
            for found in await self.each("compare_sections", [pair]):
                places = [found["a"], found["b"]]
                end = "They are equal." if found["is_equal"] else "They differ."
                parts.append(("\n".join([*map(_told, places), end]), places))
        else:
            found = await self.each("find_similar_content", [{"query_text": one} for one in named])
            parts = [(f"{hit['id']} {hit['title']}", [hit]) for one in found for hit in one["results"]]
        if not parts:
            return self.refuse("it names nothing to compare")
        return self.join(parts, 0.9 if len(named) > 1 else 0.7)

    async def reader(self) -> SpecialistResult:
        """Try each kind of answer in turn, as one agent with all tools."""
        named = references_in(self.query)
        order = [self.table, self.reference] if named else [self.table, self.search, self.reference]
        if named and named[0][1].kind != "table":
            order.reverse()
        for answer in order:
            if (result := await answer()).success:
                return result
        return self.refuse("no tool result answers the question")


def _column_of(columns: list[str], first: int, words: set[str]) -> int | None:
    """Return the one column that shares the most with the words; the only one, if there is but one."""
    names = {at: set(terms(columns[at])) for at in range(first, len(columns))}
    shares = {at: len(words & name) / len(name) for at, name in names.items() if words & name}
    return first if len(names) == 1 else _best(shares)


def _best(counts: Mapping[int, float]) -> int | None:
    """Return the key of the highest number; None without numbers, or if several are the highest."""
    best = [key for key, count in counts.items() if count == max(counts.values())]
    return best[0] if len(best) == 1 else None


def _told(place: Found) -> str:
    return " ".join(part for part in (place["number"], place["title"], place.get("text")) if part)


async def drive(name: str, ctx: ProgramContext, context: SpecialistContext) -> SpecialistResult:
    """Answer a question as the specialist of a name."""
    answer: Callable[[], Awaitable[SpecialistResult]] = getattr(Policy(ctx, context), name)
    return await answer()
