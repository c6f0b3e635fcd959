"""Passages: the sentence of a few places that answers a question, found by the words that it holds."""

import itertools
import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from regreader.numbering import references_in
from regreader.tools import Found
from regreader.words import query_terms, terms

_AMOUNT = re.compile(
    r"(?i)\bhow (?:many|much|long|often|old|high|wide|deep|far|large)\b|percentage|多少|多久|多高|多大|几"
)
_NUMBER = re.compile(
    r"(?i)\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty|hundred|half|quarter|once|twice|"
    r"majority|unlimited|perpetual)\b|[一二三四五六七八九十百]"
)  # fmt: skip
_POINTS = re.compile(
    r"(?i)\bsee\b|refer to|(?:set out|given|specified|listed|described|defined|stated|laid down) in|"
    r"accordance with|same as|按|见|参见|依照|规定于"
)
_POINTER_MAX = (4, 300)  # further words, and characters, of a text that only points elsewhere
_SENTENCE = re.compile(r"(?<=[.;!?])\s+(?=[\"“(]?[A-Z0-9(])|(?<=[。；！？])|\n")
_ENDS = re.compile(r"[.;:!?。；：！？)）\"”'’\d]$")  # of a whole sentence
_WHAT = re.compile(r"(?i)(?:what|who) (?:is|are|does .* mean)|什么是")
_MEANS = re.compile(r"((?:\S+\s+){1,9}?)(?:means?|is|are|refers? to|shall mean)\b(?! not)")
_ASKING = {
    *terms("many much long often high wide deep far large number percentage get allowed say says said")
}
_COVERED = 0.75  # the weight of a question's words that an answer must hold
_LEAD = 1.005  # of the best passage over one of another place
_DEFINITION, _WORD, _OWN = (
    0.3,
    0.02,
    0.1,
)  # further weights: of a definition, of signs, of words beside titles
_SUBJECT = 8  # words of a sentence in which its subject stands
_SHORT = 500  # characters of a paragraph that is shown whole


class Passage(NamedTuple):
    """A sentence of a place, or two, with the paragraph that shows it. held: the question's words in it."""

    text: str
    sentence: str
    place: Found
    held: set[str]
    bonus: float


def words_of(question: str) -> set[str]:
    """Return the words that name the subject of a question."""
    return {*query_terms(question)} - _ASKING


def passage_for(question: str, places: Sequence[tuple[Found, set[str]]]) -> tuple[Passage | None, str]:
    """Return the passage that answers a question, or None and the reason.

    places: each with the words of its title and those above it.
    """
    asked, is_amount = words_of(question), _AMOUNT.search(question)
    found = [one for place, title in places for one in _passages(question, asked, place, title)]
    found = [one for one in found if not is_amount or _NUMBER.search(one.text)]
    if not found:
        return None, "no place holds the words of the question"
    counts = Counter(word for one in found for word in one.held)
    weight = {word: 1 / (1 + counts[word]) for word in asked}  # rare words tell more
    total = sum(weight.values())
    ranks = [sum(weight[word] for word in one.held) / total + one.bonus for one in found]
    at = max(range(len(ranks)), key=lambda at: (ranks[at], -len(found[at].text)))
    best = found[at]
    if ranks[at] - best.bonus < _COVERED or len(asked - best.held) > (len(asked) - 1) // 4:
        return None, "no place holds enough of the words of the question"
    others = [rank for rank, one in zip(ranks, found, strict=True) if one.place is not best.place]
    if ranks[at] < _LEAD * max(others, default=0):
        return None, f"several places hold its words: name one, such as {best.place['id']}"
    return best, ""


def _passages(question: str, asked: set[str], place: Found, title: set[str]) -> list[Passage]:
    """Return the sentences of a place that hold half of the words of a question, and say more."""
    own, plain, found = {*terms(place["title"])}, terms(question), list[Passage]()
    wanted = {pair for pair in itertools.pairwise(plain) if asked.issuperset(pair)}
    for paragraph in place["text"].split("\n"):
        sentences = [one.strip() for one in _SENTENCE.split(paragraph) if one and one.strip()]
        for text in sentences + [" ".join(pair) for pair in itertools.pairwise(sentences)]:
            words = terms(text)
            known = asked.intersection(words)
            if len({*words} - asked) < 2 or 2 * len(known) < len(asked) or not _ENDS.search(text):
                continue
            pairs, begins = (
                wanted.intersection(itertools.pairwise(words)),
                asked.intersection(words[:_SUBJECT]),
            )
            bonus = _OWN * len(known) / len(asked) + _WORD * (
                2 * len(pairs) + 2 * len(begins) + len(own & asked)
            )
            bonus += _DEFINITION * (_WHAT.match(question) is not None and _defines(text, asked))
            whole = text if len(paragraph) > _SHORT else paragraph
            found.append(Passage(whole, text, place, known | (asked & title), bonus))
    return found


def _defines(text: str, asked: set[str]) -> bool:
    found = _MEANS.match(text)
    return found is not None and asked <= {*terms(found[1])}


def is_pointer(text: str, asked: set[str]) -> bool:
    """Return True for a text that only points to other places: without them it says nothing that is new."""
    named, (words_max, size_max) = references_in(text), _POINTER_MAX
    if not named or not _POINTS.search(text) or len(text) > size_max:
        return False
    for words, _ in named:
        text = text.replace(words, " ")
    return len({*query_terms(_POINTS.sub(" ", text))} - asked) <= words_max
