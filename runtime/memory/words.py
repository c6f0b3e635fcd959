"""The words of a text, for a search that is the same for every script.

Rules
  - Text is folded first: compatible characters become one, upper case becomes lower case, and the accents of
    European scripts are dropped. So `CAFÉ` is found by `cafe`.
  - Scripts with spaces are split into words of letters, digits and their marks.
  - Scripts without spaces, such as Chinese, become overlapping pairs of characters: `长城很长` has the words
    `长城`, `城很`, `很长` and, so that its last character can be found alone, `长`. Every character begins
    one word, so a single character is looked for as the beginning of a word.
"""

import re
import unicodedata
from collections.abc import Iterator
from itertools import groupby
from typing import Final, NamedTuple

WORD_CHARS_MAX: Final = 64
"""Characters of a word that count."""

# Thai and Lao, Burmese, Khmer, kana, and Han with its extensions.
_WITHOUT_SPACES: Final = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af]"
)
_ACCENTS: Final = re.compile("[\u0300-\u036f]")


class Term(NamedTuple):
    """A word to look for. is_prefix: True finds every word that begins with it."""

    word: str
    is_prefix: bool = False


def words_of(text: str) -> list[str]:
    """Return the words of a text, in order.

    >>> words_of("Zürich, 长城!")
    ['zurich', '长城', '城']
    """
    return [word for run, is_dense in _runs(text) for word in (_pairs(run) if is_dense else [run])]


def terms_of(query: str) -> list[Term]:
    """Return the terms of a query, in order, each once.

    >>> terms_of("长 walls")
    [Term(word='长', is_prefix=True), Term(word='walls', is_prefix=False)]
    """
    found: dict[Term, None] = {}
    for run, is_dense in _runs(query):
        if is_dense and len(run) > 1:
            found.update(dict.fromkeys(map(Term, _pairs(run)[:-1])))
        else:
            found[Term(run, is_dense)] = None
    return list(found)


def _pairs(run: str) -> list[str]:
    """Return the pairs of a run of characters, and its last character."""
    return [run[place : place + 2] for place in range(len(run))]


def _runs(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the runs of characters that belong together, and True for those of scripts without spaces."""
    for kind, chars in groupby(_folded(text), _kind):
        if kind:
            run = "".join(chars)
            yield (run, True) if kind == "dense" else (run[:WORD_CHARS_MAX], False)


def _kind(char: str) -> str:
    if unicodedata.category(char)[0] not in "LNM":
        return ""
    return "dense" if _WITHOUT_SPACES.match(char) else "word"


def _folded(text: str) -> str:
    apart = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))
