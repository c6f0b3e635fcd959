"""Offline policies: they drive the specialists without a model, and answer only what tools return."""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from callboard import ProgramContext
from callboard.orchestrator import PolicyRun, SpecialistContext, SpecialistResult
from regreader.numbering import references_in
from regreader.passages import is_pointer, passage_for, words_of
from regreader.tools import Found
from regreader.words import half_width, terms

Part = tuple[str, list[Found]]  # a part of an answer: its text, and the places that it is from
_FOLLOW = re.compile(r"(?i)\brefer|points to|leads to|\bcites?\b|引用|指向|所引|参见的|依据的")
_LISTS = re.compile(r"(?i)\blists?\b|sections (?:of|in)|contents|哪些|列出|目录")
_VALUE = re.compile(r"[\w%]")  # a cell without one, such as "—", has no value
_COVERED = 0.75  # the part of the words of a question that a table must hold
_TABLES_MAX = 3
_HITS = 12
_LONG = 1_500  # characters of a place that is answered by its best paragraphs
_TABLE_WORDS = {*terms("table note 表 注")}


class Policy(PolicyRun):
    """The work on one question. named: the places that it names, with their words."""

    def __init__(self, ctx: ProgramContext, context: SpecialistContext) -> None:
        super().__init__(ctx, context)
        self.query = half_width(context.query)
        self.named = references_in(self.query)
        self.asked = words_of(self.query)

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
        quoted = set(re.findall(r"[\"“《]([^\"”》]+)[\"”》]", self.query))
        meant = [one for one in known if quoted & {one["reg_id"], one["title"]}]
        return [one["reg_id"] for one in meant or known]

    def join(self, parts: list[Part], confidence: float, data: Found | None = None) -> SpecialistResult:
        """Report an answer, with the names of the regulations if its parts are from several."""
        is_mixed = len({places[0]["reg_id"] for _, places in parts}) > 1
        said = [f"{places[0]['reg_id']}: {text}" if is_mixed else text for text, places in parts]
        return self.answer(
            "\n".join(said), [_source(one) for _, places in parts for one in places], confidence, data
        )

    # --- tables -----------------------------------------------------------------------

    async def table(self) -> SpecialistResult:
        """Answer from a note of a table, or from one of its cells."""
        named = [target for _, target in self.named if target.kind == "table"]
        notes = [{"annotation_id": one.note, "table_id": one.number} for one in named if one.note]
        if found := await self.each("lookup_annotation", notes):
            return self.join([(note["text"], [note]) for note in found], 0.95)
        if notes:
            return self.refuse("the table or its note does not exist")
        tables = await self.each("get_table_by_id", [{"table_id": one.number} for one in named])
        if named and not tables:
            return self.refuse("the table does not exist")
        if not named:
            hits = await self.each("search_tables", [{"query": self.query, "limit": _TABLES_MAX}])
            places = [(hit["reg_id"], hit["id"]) for one in hits for hit in one["results"]]
            tables = [
                await self.call("get_table_by_id", reg_id=reg, table_id=number) for reg, number in places
            ]
        answers = [one for table in tables if table and (one := self._cell_answer(table, bool(named)))]
        if not answers:
            return self.refuse("no table has a row and a column for this")
        best = max(answers, key=lambda one: one[0])
        return best[1]

    def _cell_answer(self, table: Found, is_named: bool) -> tuple[float, SpecialistResult] | None:
        """Return the answer from a table, and how well it fits. is_named: the question names the table."""
        rows, columns, number, caption = (table[key] for key in ("rows", "columns", "table_id", "caption"))
        one, two = (len({tuple(row[:count]) for row in rows}) for count in (1, 2))
        first = 2 if one < len(rows) == two and len(columns) > 2 else 1  # columns before name the row
        labels = [" ".join(dict.fromkeys(row[:first])) for row in rows]
        named = {at: set(terms(label)) for at, label in enumerate(labels)}
        at = _best({at: len(label) for at, label in named.items() if label and label <= self.asked})
        if at is None or len(columns) < 2:
            return None
        known = {*terms(" ".join([caption, labels[at], *columns, number])), *_TABLE_WORDS}
        covered = len(self.asked & known) / max(1, len(self.asked))
        column = _column_of(columns, first, self.asked - named[at])
        if not is_named and (covered < _COVERED or column is None):
            return None
        cells = {
            columns[one]: rows[at][one]
            for one in (range(first, len(columns)) if column is None else [column])
        }
        cells = {name: value for name, value in cells.items() if _VALUE.search(value)}
        if not cells:
            return None
        marks = {one["label"] for one in table["marks"] if one["row"] == at and one["column"] in cells}
        notes = [f"Note {note['label']}: {note['text']}" for note in table["notes"] if note["label"] in marks]
        said = ", ".join(f"{name} {value}" for name, value in cells.items())
        content = " ".join([f"table {number} {caption}, {labels[at]}: {said}.", *notes])
        where = {"table": f"{table['reg_id']} {number}", "row": labels[at]}
        data = {"cells": [{**where, "column": name, "value": value} for name, value in cells.items()]}
        is_sure = column is not None
        return covered + is_sure, self.join([(content, [table])], 0.9 if is_sure else 0.6, data)

    # --- places -----------------------------------------------------------------------

    async def reference(self) -> SpecialistResult:
        """Answer from the places that a question names, or from those that they refer to."""
        named = list(dict.fromkeys(words for words, _ in self.named))
        asked = [" in ".join([words, *(one for one in named if one != words)]) for words in named]
        found = await self.each("resolve_reference", [{"reference_text": words} for words in asked])
        wrong = [_why_not(one) for one in found if not one["target"]]
        found = [one for one in found if one["target"]]
        held = {(one["reg_id"], one["target"]["section"]) for one in found}
        # Not the chapter of an article that is named with it.
        inner = [one for one in found if (one["reg_id"], one["target"]["id"]) not in held]
        part_of = self._followed if _FOLLOW.search(self.query) else self._shown
        parts = [part for one in inner if (part := await part_of(one))[0]]
        if parts:
            return self.join(parts, 0.9, {"open": wrong} if wrong else None)
        wrong += [f"{one['reference']} only points to what does not exist" for one in inner]
        return self.refuse("; ".join(wrong) or "the question names no place")

    async def _shown(self, found: Found) -> Part:
        """Return the text of a place, or its parts if it has none or the question asks for a list."""
        target, inner = found["target"], list[str]()
        if _LISTS.search(self.query) or not target["text"]:
            entries = (await self.call("get_toc", reg_id=found["reg_id"]) or {}).get("entries", ())
            inner = [_told(one) for one in entries if one["parent"] == target["id"]]
        if not target["text"] and not inner:
            return (_told(target) if target["title"] else "", [target])
        if inner:
            return f"{target['number']} {target['title']}: {'; '.join(inner)}", [target]
        text = target["text"] if len(target["text"]) <= _LONG else self._best_of(target["text"])
        said, further = await self._beyond(target, text)
        if not further and is_pointer(text, self.asked):
            return "", []
        return f"{_told({**target, 'text': text})}{said}", [target, *further]

    def _best_of(self, text: str) -> str:
        """Return the paragraphs of a long text that hold the most words of the question, in their order."""
        paragraphs = text.split("\n")
        ranks = sorted(range(len(paragraphs)), key=lambda at: -len(self.asked & {*terms(paragraphs[at])}))
        chosen, size = list[int](), 0
        for at in ranks:
            size += len(paragraphs[at])
            if chosen and size > _LONG:
                break
            chosen.append(at)
        return "\n".join(paragraphs[at] for at in sorted(chosen))

    async def _followed(self, found: Found) -> Part:
        """Return the texts of the places that a place refers to."""
        said, places = [], [found["target"]]
        for link in found["references"]:
            further = await self._resolved(found["reg_id"], link)
            if target := further.get("target"):
                places.append(target)
                said.append(f"{target['id']} {target['title']} {target['text']}".strip())
            else:
                said.append(f"{link['reference']} does not exist: the reference is dangling.")
        return "\n".join(said), places

    async def _resolved(self, reg: str, link: Found) -> Found:
        return (
            await self.call(
                "resolve_reference", reg_id=reg, reference_text=link["target"] or link["reference"]
            )
            or {}
        )

    async def _beyond(self, place: Found, text: str) -> tuple[str, list[Found]]:
        """Return what the places say that a text only points to, and these places; "" if it answers."""
        if not is_pointer(text, self.asked):
            return "", []
        whole = await self.call("resolve_reference", reg_id=place["reg_id"], reference_text=place["id"]) or {}
        links = [one for one in whole.get("references", ()) if one["reference"] in text]
        found = [
            one for link in links if (one := (await self._resolved(place["reg_id"], link)).get("target"))
        ]
        return "".join(f"\n{_told(one)}" for one in found), found

    # --- words ------------------------------------------------------------------------

    async def search(self) -> SpecialistResult:
        """Answer with the passage that holds the words of the question, if one place alone does."""
        found = await self.each("smart_search", [{"query": self.query, "limit": _HITS}])
        hits = [hit for one in found for hit in one["results"] if hit["kind"] != "table"]
        asked = dict.fromkeys((hit["reg_id"], hit["id"]) for hit in hits)
        wholes = [
            await self.call("resolve_reference", reg_id=reg, reference_text=name) for reg, name in asked
        ]
        targets = [one["target"] for one in wholes if one and one["target"]]
        titles = {reg: await self._titles(reg) for reg in dict.fromkeys(one["reg_id"] for one in targets)}
        best, why = passage_for(self.query, [(one, titles[one["reg_id"]](one["id"])) for one in targets])
        if best is None:
            return self.refuse(why)
        more, further = await self._beyond(best.place, best.sentence)
        if not further and is_pointer(best.sentence, self.asked):
            return self.refuse(f"{best.place['id']} only points to a place that does not exist")
        return self.join([(best.text + more, [best.place, *further])], 0.8)

    async def _titles(self, reg: str) -> Callable[[str], set[str]]:
        """Return a function from the id of a place to the words of its title and those above it."""
        entries = (await self.call("get_toc", reg_id=reg) or {}).get("entries", ())
        known = {one["id"]: one for one in entries}

        def words(name: str) -> set[str]:
            one = known.get(name)
            return {*terms(one["title"])} | words(one["parent"]) if one else set()

        return words

    async def reader(self) -> SpecialistResult:
        """Answer by the references in the question, as one agent with all tools."""
        kinds = [target.kind for _, target in self.named]
        if kinds:
            return await (self.table() if "table" in kinds else self.reference())
        result = await self.table()
        return result if result.success else await self.search()


def _why_not(found: Found) -> str:
    name = found["reference"].partition(" in ")[0]
    if found["status"] == "ambiguous":
        return f"{name} is ambiguous: {', '.join(found['candidates'][:5])}"
    return f"{name} does not exist"


def _source(place: Found) -> str:
    page = f"p.{place['page']} " if place["page"] else ""
    return f"{place['reg_id']} {page}{place['id']}"


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
