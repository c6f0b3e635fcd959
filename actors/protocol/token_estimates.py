"""Estimates of tokens, by the content of a text: its words, digits, marks and white space.

    a word         a token, and a tenth of one for each letter behind the sixth; a space before it is part of
                   it, any other mark half a token; capitals begin a word
    digits         about a token for three
    marks          about a token, and a fifth of one for each mark behind the second
    white space    a token, up to and with line breaks
    other scripts  a third of a token for a byte

So the quotes of JSON, the indents of YAML and the commas of a table have their own cost beside any text. The
figures were fitted to the tokenizer `o200k_base` on recorded results and made tables; docs/tool-output.md has
their errors. No tokenizer is asked at run time, so an estimate is the same on every
machine. It decides about `auto` and is shown to people, and about nothing else.
"""

import re
from typing import Final

_PIECE: Final = re.compile(
    r"([^\r\n\w]?[A-Z]*[a-z]+|[^\r\n\w]?[A-Z]+)|(\d{1,3})|( ?(?:[!-/:-@[-`{-~]|[\x00-\x08\x0e-\x1f])+[\r\n]*)"
    r"|(\s*[\r\n]+|\s+)|([^\x00-\x7e]+)",
    re.ASCII,
)
_WORD, _MARKS, _OTHER = 1, 3, 5

_TOKEN: Final = 100  # hundredths, as all that follows
_COST: Final = (0, _TOKEN, 110, 90, _TOKEN, 0)  # of a piece, by its kind
_LETTER: Final = 10  # of a word, behind `_LETTERS`
_LETTERS: Final = 6
_FIRST_MARK: Final = 50  # of a word
_MARK: Final = 20  # behind the second
_BYTE: Final = 33

READ_CHARS_MAX: Final = 32_768
"""Characters of a text that are read. Of a longer one, parts at equal distances stand for the whole."""

_PARTS: Final = 8


def estimated_tokens(text: str) -> int:
    """Return the estimated number of tokens of a text, rounded up.

    >>> estimated_tokens("Ada wrote to Grace."), estimated_tokens("")
    (5, 0)
    """
    if len(text) <= READ_CHARS_MAX:
        return -(-_cost(text) // _TOKEN)
    part, apart = READ_CHARS_MAX // _PARTS, len(text) // _PARTS
    read = sum(_cost(text[start : start + part]) for start in range(0, _PARTS * apart, apart))
    return -(-read * len(text) // (READ_CHARS_MAX * _TOKEN))


def _cost(text: str) -> int:
    """Return the estimate of a text in hundredths of a token."""
    cost = 0
    for piece in _PIECE.finditer(text):
        length, kind = piece.end() - piece.start(), piece.lastindex or 0
        cost += _COST[kind]
        if kind == _WORD:
            first = text[piece.start()]
            cost += _LETTER * max(0, length - _LETTERS) + _FIRST_MARK * (first != " " and not first.isalpha())
        elif kind == _MARKS:
            cost += _MARK * max(0, length - 2)
        elif kind == _OTHER:
            cost += _BYTE * len(piece[0].encode("utf-8", "replace"))
    return cost
