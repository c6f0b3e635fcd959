"""Estimates of tokens: the bytes of a text, divided by a figure for its encoding.

The figures are the means over the runs and tables of `benchmarks/output_formats.py`, by the tokenizer
`o200k_base`; docs/tool-output.md has their errors. No tokenizer is asked at run time, so an
estimate is the same on every machine. It decides about `auto` and is shown to people, and about nothing else.
"""

from typing import Final, Literal, TypeAlias

Written: TypeAlias = Literal["text", "json", "yaml", "xml", "toon"]
"""The way in which a text was written. `text` is prose, code, or lines of a log."""

BYTES_PER_100_TOKENS: Final[dict[Written, int]] = {
    "text": 336,
    "json": 293,
    "yaml": 235,
    "xml": 292,
    "toon": 222,
}
"""Bytes of UTF-8 that hundred tokens have on average, by encoding."""


def estimated_tokens(text: str, written: Written = "text") -> int:
    """Return the estimated number of tokens of a text, rounded up.

    >>> estimated_tokens("")
    0
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return -(-size * 100 // BYTES_PER_100_TOKENS[written])
