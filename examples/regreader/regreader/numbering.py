"""Headings, captions, notes and references: how they are numbered in Chinese and English."""

import itertools
import re
from collections.abc import Callable, Container
from typing import NamedTuple

from regreader.words import CJK, HAN_DIGITS, NUMBER_WORD, ORDINAL, STOP, half_width, numeral

Notes = list[tuple[str, str]]  # labels and texts
_HAN_NUMERAL = f"[{HAN_DIGITS}\\d]+"
_TABLE_NUMBER = r"(?:(?:[A-Z][-.–]?)?\d+(?:[-.–](?:\d+|[A-Z]\b))*(?:[a-z](?![a-z]))?|\b(?-i:[IVX]+|[A-H])\b)"  # fmt: skip
_DOTTED = r"(?:[A-Z]\.)?\d+(?:\.\d+)*"
_SECTION = rf"{_DOTTED}(?:-\d+(?:\.\d+)*)?"  # some codes count 14-1, 14-2
_KINDS = {
    "ch": "chapter", "part": "part", "tit": "part", "art": "article", "rule": "article", "reg": "article",
    "an": "annex", "app": "annex", "sch": "schedule", "章": "chapter", "编": "part", "部分": "part", "节": "section", "条": "article",
    "附录": "annex", "附件": "annex", "附表": "schedule", "": "section",
}  # fmt: skip
"""The kinds of places by the beginnings of their words."""
_WORD = "chapter|part|title|article|annex|appendi(?:x|ces)|schedule|rule|regulation|(?:sub-?)?(?:section|clause)"  # fmt: skip
_NAMED = (
    re.compile(rf"\b(?P<word>{_WORD}|(?:ch|art|reg|app|sect?|cl|sch(?:ed)?)\.|para(?:graph|\.)(?=\s*[A-Z]?\.?\d+\.\d))(?:es|s)?\s*(?<![a-z])(?P<number>{_SECTION}|(?-i:[A-Z](?:\.\d+)*\b|[IVXLC]+\b)|(?:[ivx]{{2,4}}|{NUMBER_WORD})\b)", re.IGNORECASE),
    re.compile(rf"\b(?P<number>{ORDINAL})\s+(?P<word>schedule|annex|appendix)\b", re.IGNORECASE),
    re.compile(rf"第\s*(?P<number>{_HAN_NUMERAL}(?:\.\d+)*)\s*(?P<word>[章编节条]|部分)"),
    re.compile(rf"(?P<word>附录|附件|附表)\s*(?P<number>[A-Z](?:\.\d+)*|{_HAN_NUMERAL}(?![-.\d]))"),
)  # fmt: skip
_TITLE = re.compile(rf"(?:\s*[.:：—–-]+\s*|\s+|$|(?=[（《【〔{CJK}]))(.*)")
_NUMBERED = re.compile(rf"(?:§+\s*(?=\d)|(?P<annex>[A-Z])\.)?(?P<number>\d+(?:\.\d+)*|(?<=§)\d+-\d+|(?<=§ )\d+-\d+)\*?(?P<dot>[.、．)）]?)(?P<gap>\s*[:：—–-]\s+(?=[^\W\d])|\s+|(?=[{CJK}]))(?P<title>\S.*)")  # fmt: skip
_CAPTION = re.compile(rf"(?::\s+)?[\[(（【]?(?:(?P<cont>续|continued)\s*)?(?:Table|Tab\.|表)\s*(?:no\.?\s*)?[(（]?(?P<number>{_TABLE_NUMBER})(?![\w.-]*\d)[\])）】]?\s*(?P<rest>.*)", re.IGNORECASE)  # fmt: skip
_CONTINUED = re.compile(r"[(（\[]?\s*(?:continued|cont(?:inued|['’.]?d)?\.?|concluded|续表?|续完)(?:\s+(?:(?:on|from)\s+(?:the\s+)?(?:next\s+)?page\s*\d*|overleaf))?\s*[)）\]]?", re.IGNORECASE)  # fmt: skip
_NOTE_WORD = r"(?:(?:foot)?notes?\b|remarks?\b|N\.\s?B\.|注释?|备注|说明)"
_NOTE = re.compile(rf"[\[【(（]?{_NOTE_WORD}\s*[(（]?(?P<label>\d{{1,3}}|[a-zA-Z](?![a-zA-Z]))?[)）\]】]?\s*(?:[:：.—–-]+\s*|\s+(?=\D)|(?<=[)）\]】])|$)(?P<text>.*)", re.IGNORECASE)  # fmt: skip
_SPACED = re.compile(rf"(?<![{CJK}])([{CJK}])\s+(?=[{CJK}](?![{CJK}]))")  # as in a heading 总 则
_AROUND_TITLE = re.compile(r"^\s*(?:[(（](?:规范性|资料性|normative|informative)[^)）]*[)）]|to\s[^—–]{1,40}[—–])\s*|[\s(（]*(?:单位\s*[:：为]|units?\s*[:：]).*$", re.IGNORECASE)  # fmt: skip
_ITEM = re.compile(r"(?P<label>[*†‡§¶#※]{1,4}|\[(?:\d{1,3}|[a-z])\]|[(（]?(?:\d{1,3}|[a-z])[)）.、:：]|[①-⑳]|[¹²³⁴⁵⁶⁷⁸⁹⁾]+|\ue000[^\ue001]+\ue001|(?:\d{1,2}|[a-z])(?=\s))[)）]?[:：]?\s*(?P<text>.+)")  # fmt: skip
_SUPERSCRIPTS = str.maketrans("¹²³⁴⁵⁶⁷⁸⁹⁰⁾", "1234567890)")
ACT = re.compile(r"\d{1,3}[A-Z]?\.\s*[—–-]\s*\(1\)")  # the first paragraph of an article of an act
_VALUE = re.compile(
    r"(?:[kMGmcdµ](?:m|g|W|V|A|Hz|Pa|N|J|VA)|Hz|Pa|dB|bar|min|°C|%|℃)(?![A-Za-z])"
)  # a unit, no title
_LISTED_MAX = 24  # characters of "一、总则" or "IV. FEES" as a heading
_TITLE_MAX = 60  # characters of the title of a section with a full stop
_END = ".。;；!！?？,，:："


class Heading(NamedTuple):
    """A heading or a caption. goes_on: a section with its text on this line, or a table from before."""

    kind: str
    number: str
    title: str
    goes_on: bool = False


def heading_of(text: str, level: int) -> Heading | None:
    """Return the heading that the numbering of a paragraph makes it. level: 0 if only its words tell."""
    text = _SPACED.sub(r"\1", text)
    for pattern in _NAMED:
        found = pattern.match(text)
        titled = _TITLE.fullmatch(text, found.end()) if found else None
        if found and titled:
            target, title = _target(found), titled[1]
            is_sentence, is_long = title[-1:] in {*_END} or "，" in title, len(title) > _TITLE_MAX
            # "Section 5.2 applies to ..." begins with a reference, and is no heading
            is_named = target.kind in ("article", "section") or not (is_sentence or is_long)
            if level or found["word"] == "条" or (is_named and not "a" <= title[:1] <= "z"):
                is_clause = not level and (is_long or (is_sentence and target.kind == "article"))
                plain = title if is_clause or title.count(".") > 1 else title.rstrip(".。")
                return Heading(target.kind, target.number, plain_title(plain), is_clause)
    listed = re.fullmatch(r"([一二三四五六七八九十]+)\s*[、.]\s*(.+)|([IVX]+)\.\s+(.+)", text)
    if listed and (level or (len(text) <= _LISTED_MAX and text[-1] not in _END and text.upper() == text)):
        return Heading("chapter", numeral(listed[1] or listed[3]), listed[2] or listed[4])
    if level and (lettered := re.fullmatch(r"([A-Z]\d+(?:\.\d+)*)[.:)]?\s+(.+)", text)):
        return Heading("section", lettered[1], lettered[2])
    found = _NUMBERED.fullmatch(text)
    if found is None or (not level and _VALUE.match(found["title"])):
        return Heading("section", text, "") if level and re.fullmatch(_DOTTED, text) else None
    number = f"{found['annex']}.{found['number']}" if found["annex"] else found["number"]
    title, depth = found["title"].strip(), number.count(".") + 1
    is_open = len(title) > 90 or title.split()[-1] in STOP or re.search(r"\w{2}[.;]\s|[。；，]", title)
    is_clause = not level and bool(title[-1] in _END or is_open)
    if depth == 1 and not level and (is_clause or len(title) > 80 or found["dot"] in {*")）"}):
        return None  # an item of a list
    return Heading("section", number, title, is_clause)


def is_run_in(text: str) -> bool:
    """Return True for a number and a title in bold letters, which the text follows on the same line."""
    heading = heading_of(half_width(text).rstrip(" .:。："), 0)
    return heading is not None and heading.title != "" and not heading.goes_on


def act_heading_of(text: str) -> Heading | None:
    """Return the heading of an article of an act, which has a bare number: "2. In this Order ..."."""
    found = re.fullmatch(r"(\d{1,3}[A-Z]?)\.(?:\s*[—–-])?\s*(.+)", text)
    return Heading("article", found[1], found[2], True) if found else None


def plain_title(text: str) -> str:
    """Return a title without "(informative)" or "to Part 7 —" before it, and without a unit behind it."""
    text = _AROUND_TITLE.sub("", text).strip()
    return text[1:-1] if re.fullmatch(r"[(（][^)）]*[)）]", text) else text


def caption_of(text: str) -> Heading | None:
    """Return the caption in a paragraph; None for other text."""
    found = _CAPTION.fullmatch(text)
    if _CONTINUED.fullmatch(text):
        return Heading("table", "", "", True)  # of the table before
    if found is None or len(found["rest"]) > 160:
        return None
    rest = found["rest"].strip()
    mark = _CONTINUED.search(rest)
    goes_on = bool(found["cont"] or (mark and (mark.start() == 0 or mark.end() == len(rest))))
    title = plain_title(_CONTINUED.sub("", rest) if goes_on else rest)
    return Heading("table", table_id(found["number"]), title.strip(" :：.,，—–-"), goes_on)


def table_id(text: str) -> str:
    """Return the number of a table, from a number or a text such as "Table 6-2" or "表6-2"."""
    found = re.search(_TABLE_NUMBER, half_width(text), re.IGNORECASE)
    number = found.group().replace("–", "-") if found else text.strip()
    return numeral(number) if number.isalpha() else number


def label_of(text: str) -> str:
    """Return the label of a note, from "Note 1", "注1", "1)", "¹" or "①"."""
    text = half_width(text).strip().strip("\ue000\ue001").translate(_SUPERSCRIPTS)
    text = "".join(str(ord(char) - 0x245F) if "①" <= char <= "⑳" else char for char in text)
    text = re.sub(r"^(?:table\b|表).*?(?=note|注)", "", text, flags=re.IGNORECASE)
    text = re.sub(rf"^(?:{_NOTE_WORD}|notes?|脚注)\s*", "", text, flags=re.IGNORECASE)
    return text.strip(" ()（）[]【】.:：、^").lower() or "note"


def notes_of(text: str, is_known: Callable[[str], bool] = lambda label: False) -> Notes | None:
    """Return the notes in a paragraph, None without one. is_known: tells if a bare letter or number is a label."""
    several = re.split(r"\s*[;；]?\s*(?=(?:\bNotes?\s*|注\s*)\d{1,2}\s*[:：.])", text, flags=re.IGNORECASE)
    if len(several := [one for one in several if one]) > 1 and _NOTE.fullmatch(several[0]):
        return [note for one in several for note in notes_of(one) or ()]
    if found := _NOTE.fullmatch(text):
        words = re.sub(r"(?i)^(?:to|of|for|on)\s+table\s+\S+?\s*[:.]?$", "", found["text"].strip())
        if found["label"]:
            return [(label_of(found["label"]), words)]
        return _items(words) or ([("note", words)] if words else [])
    item = _ITEM.fullmatch(text)
    if item is None:
        return None
    label = label_of(item["label"])
    is_sign = not item["label"].strip("()（）.、:：").isalnum() or item["label"][0] in "①②③④⑤⑥⑦⑧⑨¹²³⁴⁵⁶⁷⁸⁹"
    return [(label, item["text"].strip())] if is_sign or is_known(label) else None


def _items(text: str) -> Notes:
    """Split "1. one; 2. two" or "①one②two", if its numbers count from 1 up."""
    text = re.sub("[①-⑳]", lambda found: f" {label_of(found.group())}) ", text)
    several = re.search(rf"^1\s+(?=[A-Z{CJK}]).*[;；。.]\s*2\s", text.strip())
    signs = rf"\s+(?=[A-Z\d{CJK}])" if several else r"[.)、．）]\s*"
    parts = re.split(rf"(?:^|(?<=[\s;；。.]))(\d{{1,2}}){signs}", text.strip())
    labels, texts = parts[1::2], parts[2::2]
    if labels != [str(number) for number in range(1, len(labels) + 1)] or parts[0].strip():
        return []
    return [(label, one.strip(" ;；")) for label, one in zip(labels, texts, strict=True)]


class Target(NamedTuple):
    """The target of a reference. note: its label, for a note of a table."""

    kind: str
    number: str
    note: str = ""

    @property
    def id(self) -> str:
        """Return the name of the target."""
        name = self.number if self.kind == "section" else f"{self.kind} {self.number}"
        return f"{name} note {self.note}" if self.note else name

    @property
    def names(self) -> list[str]:
        """Return the ids that the target can have: laws say section for article, and 6.2 for table 6-2."""
        kinds = {"section": ("article", "chapter"), "article": ("section",), "chapter": ("section",)}
        others = kinds.get(self.kind, ()) if "." not in self.number else ()
        number = self.number if self.number.startswith("unnumbered") else table_id(self.number)
        same = [number, number.replace("-", "."), re.sub(r"(?<=\d)\.", "-", number), number.upper()]
        forms = same if self.kind == "table" else [self.number]
        return [Target(kind, form, self.note).id for kind in (self.kind, *others) for form in forms]


_POINTS = r"see(?:\s+also)?|(?:according|refer|referred|subject|pursuant|contrary)\s+to|(?:accordance|compl\w+|conform\w*)\s+with|under|(?:requirement|condition|provision|purpose|term|procedure|exception)s?\s+(?:of|in)|(?:specified|described|given|required|set\s+out|laid\s+down|defined|listed|provided|stated|shown|found|determined|permitted|allowed|covered|governed|mentioned|prescribed)\s+(?:in|by)"  # fmt: skip
_UNIT = r"\d|\s*[%°℃‰]|\s*(?:[kMGmcdµ]?(?:m|g|W|V|A|Hz|Pa|bar|s|h|l|t|N|J)|dB|min)\b"
_REFERENCES = (
    re.compile(rf"第\s*(?P<chapter>{_HAN_NUMERAL})\s*章\s*第\s*(?P<number>{_HAN_NUMERAL})\s*节"),
    re.compile(rf"(?:foot)?notes?\s+(?P<note>\w+|[*†‡※]+)(?:\s+and\s+\w+)?\s+(?:of|to|in|under|below)\s+table\s+(?P<table>{_TABLE_NUMBER})", re.IGNORECASE),
    re.compile(rf"(?:tables?|tab\.|(?<!附)表)\s*(?P<table>{_TABLE_NUMBER})\s*(?:[,，、的中（(]?\s*(?:see\s+)?(?:(?:foot)?notes?|注)\s*(?P<note>\d+|[a-z](?![a-z])|[①-⑳]|[*†‡※]+))?", re.IGNORECASE),
    re.compile(r"第\s*(?P<number>(?:[A-Z]\.)?\d+(?:\.\d+)+)(?=\s*[、，和及至])"),
    re.compile(r"(?P<number>(?:[A-Z]\.)?\d+(?:\.\d+)+)(?:\s*[条节款](?!\d)|(?=\s*(?:的(?:规定|要求|条件|方法)|规定的|所[列述])))"),
    *_NAMED,
    re.compile(rf"§+\s*(?P<number>{_SECTION})"),
    re.compile(rf"(?:\b(?:{_POINTS})\s+|见|[按参依遵]照?|依据|根据|符合)\s*(?P<number>(?-i:[A-Z])\.?\d+(?:\.\d+)*|\d+(?:\.\d+)+)(?!{_UNIT})", re.IGNORECASE),
    re.compile(r"\bas\s+(?P<number>(?:[A-Z]\.)?\d+(?:\.\d+)+)(?=\s+(?:say|require|provide|state|allow|permit|set|show|prescribe|describe)s\b)", re.IGNORECASE),
)  # fmt: skip
_BARE = (
    re.compile(rf"(?<=[^A-Za-z0-9_.,-])(?P<number>[A-Z]\.\d+(?:\.\d+)*|\d+(?:\.\d+){{2,}})(?![A-Za-z\d-]|\.\d|{_UNIT})"),
    re.compile(r"(?:(?<!factor )(?<!ratio )(?<!value )(?<!slope )(?<!gradient )(?<!depth )(?<!width )(?<!creased )(?<!reduced )(?<!plied )(?<!divided )\b(?:of|by|in|with|per|at|notwithstanding|(?:tested|made|built|designed|fitted|works?)\s+to)\s+|执行|[与同除（(])(?P<number>\d+\.\d+)(?=\s*(?:$|\.\s|\.$|[,;:)。，；）的外相]|(?:above|below|is|are|shall|may|must|and|or)\b))"),
    re.compile(r"(?:\b(?:where|when|if|unless|that|which|as|and|or|but)\s+)?(?P<number>\d+\.\d+)(?=\s+(?:above|below|has|have|does|applies|apply|requires|says|allows|permits)\b)"),
)  # fmt: skip
"""Places without a word for them, which count if there is such a place."""
_AND = r"\s*(?:,\s*and|,|、|，|and|or|及|和|或|to|至)\s*"
_FURTHER = re.compile(rf"(?i){_AND}([A-Z]\.\d+(?:\.\d+)*|\d+(?:\.\d+)+|\d+[-–]\d+)(?![\d%℃°])")
_OF_SEVERAL = re.compile(rf"(?i){_AND}((?:[A-Z]\.)?\d+(?:[-–.]\d+)*|(?-i:[A-Z])\b)(?![\d%℃°])")

_NOTES = re.compile(rf"(?i){_AND}(\d{{1,2}}|[a-z])\b(?![.\d])")


def references_in(text: str, known: Container[str] = ()) -> list[tuple[str, Target]]:
    """Return the references in a text, with their words, in order. known: numbers that are ones without a word."""
    text, taken = half_width(text), set[int]()  # the places of the characters of references
    found: list[tuple[int, str, Target]] = []
    for match in itertools.chain.from_iterable(pattern.finditer(text) for pattern in (*_REFERENCES, *_BARE)):
        if not taken.isdisjoint(range(*match.span())) or (match.re in _BARE and match["number"] not in known):
            continue
        target, end = _target(match), match.end()
        found.append((match.start(), match.group().strip(" （("), target))
        words, kind = match.group(), target.kind
        is_several = re.search(r"(?i)notes\s+\w+$", words)
        further = _NOTES if is_several else _OF_SEVERAL if words.split()[0].endswith("s") else _FURTHER
        while more := further.match(text, end):
            number = numeral(more[1].replace("–", "-"))
            also = Target("section" if "." in number and kind != "table" else kind, number)
            found.append(
                (more.start(1), more[1], target._replace(note=number) if further is _NOTES else also)
            )
            end = more.end()
        taken.update(range(match.start(), end))
    return [(words, target) for _, words, target in sorted(found, key=lambda one: one[0])]


def _target(match: re.Match[str]) -> Target:
    groups: dict[str, str] = {"table": "", "word": "", "note": "", "chapter": ""} | match.groupdict(
        default=""
    )
    if groups["table"]:
        return Target("table", table_id(groups["table"]), label_of(groups["note"]) if groups["note"] else "")
    number, word = groups["number"], groups["word"].lower()
    if groups["chapter"]:
        return Target("section", f"{numeral(groups['chapter'])}.{numeral(number)}")
    kind = next(kind for start, kind in _KINDS.items() if word.startswith(start))
    return Target("section" if "." in number else kind, numeral(number))


def target_of(text: str) -> Target | None:
    """Return the target that a text names first, such as "see 6.2", "表6-2注1" or a plain number."""
    number, found = half_width(text).strip(), references_in(text) or references_in(text.upper())
    if found or re.fullmatch(r"(?:[A-Z][-.]?)?\d+-\d+", number):
        return found[0][1] if found else Target("table", number)
    if named := re.search(rf"^{_DOTTED}$|^[A-Z]\d+(?:\.\d+)*$|(?:[A-Z]\.)?\d+(?:\.\d+)+", number):
        return Target("section", named.group())
    heading = heading_of(f"{number} x", 1)
    return Target(heading.kind, heading.number) if heading else None
