"""Headings, captions, notes and references: how they are numbered in English and Chinese."""

import re
from typing import NamedTuple

from regreader.words import CJK, HAN_DIGITS, NUMBER_WORD, ORDINAL, half_width, numeral

_HAN = f"[{HAN_DIGITS}\\d]+"
_LETTER = r"(?:[a-z]|[A-Z])(?![A-Za-z0-9])"  # of 15a or 16A
_NUMBER = rf"(?:[A-Z]\.?)?\d+(?:[.-]\d+)*(?:{_LETTER})?"
_WORD = "chapter|part|title|article|art\\.|annex|appendix|schedule|section|sect?\\.|clause|rule|paragraph"
_KINDS = {
    "ch": "chapter", "part": "part", "tit": "part", "art": "article", "rule": "rule", "an": "annex", "app": "annex",
    "sch": "schedule", "sec": "section", "cl": "section", "par": "section", "§": "section", "章": "chapter",
    "编": "part", "部分": "part", "节": "section", "条": "article", "附录": "annex", "附件": "annex", "附表": "schedule",
}  # fmt: skip
"""The kinds of places by the beginnings of their words."""
KINDS = ("part", "chapter", "article", "rule", "section", "annex", "schedule")

_NAMED = (
    re.compile(
        rf"(?:\b(?P<word>{_WORD})s?\s*|(?P<sign>§+)\s*)"
        rf"(?P<number>{_NUMBER}|(?-i:[A-Z](?:\.\d+)*\b|[IVXLC]+\b)|(?:{NUMBER_WORD})\b)",
        re.IGNORECASE,
    ),
    re.compile(rf"\b(?P<number>{ORDINAL})\s+(?P<word>schedule|annex|appendix)\b", re.IGNORECASE),
    re.compile(rf"第\s*(?P<number>{_HAN}(?:\.\d+)*)\s*(?P<word>[章编节条]|部分)"),
    re.compile(rf"(?P<word>附录|附件|附表)\s*(?P<number>[A-Z](?:\.\d+)*|{_HAN}(?![-.\d]))"),
)
_PLAIN = re.compile(rf"(?P<number>{_NUMBER})(?P<dot>[.、．)]?)(?:\s+|(?=[{CJK}]))(?P<title>\S.*)")
_DOTTED = re.compile(rf"(?<![\w.-])(?:[A-Z](?:\.\d+)+|\d+(?:\.\d+)+)(?:{_LETTER})?(?![\d-]|\.\d)")
_FURTHER = re.compile(
    rf"\s*(?:,\s*(?:and|or)?|and|or|to|和|、|及|与|至)\s*({_NUMBER})(?![\w%])", re.IGNORECASE
)
_UNIT = re.compile(r"\s*(?:[%°€$]|(?:[kMGcmµ]?(?:m|g|l|s|V|A|W|Hz|Pa|N|J|B)|bar|dB|h|min|t)\b(?!\.\w))")
_TABLE = r"(?:tables?|表)\s*(?P<table>(?:[A-Z][-.]?)?\d+(?:[-.]\d+)*(?:[a-z](?![a-z]))?)"
_LABEL = r"(?:(?:foot)?note|注)\s*(?P<note>\d{1,3}|[a-z](?![a-z])|[*†‡§¶#]+)"
_TABLED = (
    re.compile(rf"(?<![A-Za-z]){_TABLE}(?:\s*,?\s*{_LABEL})?", re.IGNORECASE),
    re.compile(rf"{_LABEL}\s+(?:of|to|in|under|below)\s+{_TABLE}", re.IGNORECASE),
)
_CAPTION = re.compile(
    rf"(?:续|continued\s+)?{_TABLE}(?![\w.-]*\d)\s*[.:：—–-]?\s*(?P<rest>.*)", re.IGNORECASE
)
_CONTINUED = re.compile(r"[(（\[]?\s*(?:continued|cont\.?(?:'d|inued)?|续表?)\s*[)）\]]?", re.IGNORECASE)
_NOTE = re.compile(
    r"(?:(?:(?:foot)?note|注)\s*(?P<label>\d{1,3}|[a-z](?![a-z]))?\s*[.:：]\s*|(?P<sign>[*†‡§¶#]{1,4})\s*)(?P<text>\S.*)",
    re.IGNORECASE,
)
_END = (".", "。", ";", "；", "!", "?", "？", ",", "，", ":", "：")
_TITLE_MAX = 100  # characters
_RUN_IN = re.compile(r"[\"“]?[A-Z][^.。]{1,60}\.(?=\s+\S)|[（【〔][^）】〕]{2,20}[）】〕]")


class Heading(NamedTuple):
    """A heading, or the caption of a table. text: what follows the title on its line."""

    kind: str
    number: str
    title: str
    text: str = ""
    is_named: bool = False  # by a word such as "Article"


class Target(NamedTuple):
    """A place that words name. note: the label of a note of a table."""

    kind: str
    number: str
    note: str = ""

    @property
    def id(self) -> str:
        """Return the id of the place."""
        if self.note:
            return f"table {self.number} note {self.note}"
        return self.number if self.kind == "section" else f"{self.kind} {self.number}"


def kind_of(word: str) -> str:
    """Return the kind of place that a word such as "Art." names."""
    return next(kind for start, kind in _KINDS.items() if word.lower().startswith(start))


def heading_of(text: str) -> Heading | None:
    """Return the heading that its number makes a line, such as "Article 9 Fees" or "4.2. Powers"."""
    for pattern in _NAMED:
        found = pattern.match(text)
        rest = text[found.end() :] if found else ""
        if found and re.match(rf"\s*[.:：—–-]+\s*|\s+|$|[{CJK}（【〔]", rest):
            title = re.sub(r"^[\s.:：—–-]+", "", rest)
            if "a" <= title[:1] <= "z" or title.startswith(("(", ",")):
                return None  # "Section 5 applies to ..." begins with a reference
            groups = found.groupdict()
            kind = kind_of(groups["word"] or groups.get("sign") or "§")
            return _titled(kind, _canonical(found["number"]), title, is_named=True)
    if found := _PLAIN.fullmatch(text):
        return _titled("section", found["number"], found["title"])
    return None


def _titled(kind: str, number: str, words: str, is_named: bool = False) -> Heading:
    """Tell the title of a section from its text on the same line."""
    run_in = _RUN_IN.match(words)
    if run_in and not re.search(r"(?<!\S)[a-z]\w{4,}", run_in.group()):  # a title, and no sentence
        return Heading(
            kind, number, run_in.group().strip(" .。（）【】〔〕"), words[run_in.end() :].strip(), is_named
        )
    is_title = words.endswith(".") and words.istitle() and not re.search(r"\d", words)
    if (words.endswith(_END) or len(words) > _TITLE_MAX) and not is_title:
        return Heading(kind, number, "", words, is_named)
    return Heading(kind, number, words.rstrip(".。:"), "", is_named)


def _canonical(number: str) -> str:
    return number if re.fullmatch(r"[A-Z]?\.?\d.*", number) and not number.isdecimal() else numeral(number)


def caption_of(text: str) -> Heading | None:
    """Return the caption of a table, such as "Table 6-2 Speeds" or "续表6-2"."""
    found = _CAPTION.fullmatch(text)
    if not found or found["rest"].endswith(_END[:1]) or len(found["rest"]) > _TITLE_MAX:
        return None
    return Heading("table", table_id(found["table"]), _CONTINUED.sub("", found["rest"]).strip(" .:："))


def note_in(text: str) -> tuple[str, str] | None:
    """Return the label and the text of a paragraph such as "Note 1: ..." or "* ..."; None for others."""
    found = _NOTE.fullmatch(text)
    return (found["label"] or found["sign"] or "", found["text"]) if found else None


def table_id(number: str) -> str:
    """Return the number of a table as ids have it: 6-2 for 6.2."""
    return number.replace(".", "-") if re.fullmatch(r"\d+\.\d+", number) else number


def label_of(words: str) -> str:
    """Return the label in "Note 1", "注1", "[1]" or "*"."""
    return re.sub(r"(?i)^(?:(?:foot)?note|注)\s*|[\s\[\]()（）.:：]", "", half_width(words))


def references_in(text: str) -> list[tuple[str, Target]]:
    """Return the places that a text names, each with its words, in order."""
    found: list[tuple[int, str, Target]] = []
    taken: set[int] = set()

    def add(match: re.Match[str], target: Target) -> bool:
        if not taken.isdisjoint(range(*match.span())):
            return False
        taken.update(range(*match.span()))
        found.append((match.start(), match.group().strip(), target))
        return True

    for pattern in _TABLED[::-1]:
        for match in pattern.finditer(text):
            add(match, Target("table", table_id(match["table"]), label_of(match["note"] or "")))
    for pattern in _NAMED:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            kind = kind_of(groups["word"] or groups.get("sign") or "§")
            is_added, end = add(match, Target(kind, _canonical(match["number"]))), match.end()
            while is_added and (more := _FURTHER.match(text, end)):
                is_added, end = add(more, Target(kind, _canonical(more[1]))), more.end()
                found[-1] = (more.start(1), more[1], found[-1][2])
    for match in _DOTTED.finditer(text):
        if not _UNIT.match(text, match.end()):
            add(match, Target("section", match.group()))
    return [(words, target) for _, words, target in sorted(found, key=lambda one: one[0])]


def target_of(text: str) -> Target | None:
    """Return the place that a text names first, such as "see 6.2", "表6-2注1" or a plain number."""
    text = half_width(text).strip()
    if found := references_in(text) or references_in(text.title()):
        return found[0][1]
    if re.fullmatch(r"(?:[A-Z]\.?)?\d+-\d+", text):
        return Target("table", text)
    return Target("section", text) if re.fullmatch(rf"{_NUMBER}", text) else None
