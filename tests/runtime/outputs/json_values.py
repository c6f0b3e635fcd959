"""Strategies for JSON values, with texts that every encoding has its trouble with."""

from typing import Any

from hypothesis import strategies as st

AWKWARD = (
    "",
    " ",
    "-",
    "- item",
    "true",
    "null",
    "no",
    "~",
    "1",
    "-3.5",
    "05",
    "1e-6",
    "1_000",
    "12:30",
    "a: b",
    "a, b|c\td",
    "[3]: x,y",
    "{k}",
    "# no comment",
    "line\nline",
    "\r",
    "</tool_result>",
    "a & b < c > \"d\" 'e'",
    "]]>",
    "\x07",
    "\x7f",
    "\x85",
    "\u2028",
    "\ufeff",
    "\ufffe",
    "é 你好 🚀",
    "key: [1",
    "!tag",
    "&a",
    "*a",
    "@x",
    "`x",
    "%x",
    "2026-05-01",
    "=",
    "<<",
)

TEXTS = st.sampled_from(AWKWARD) | st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
PLAIN: st.SearchStrategy[Any] = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(["id", "name", "a.b", "a-b", "item", "entry", "xml1", "1st"]) | TEXTS
TABLES = st.lists(KEYS, min_size=1, max_size=3, unique=True).flatmap(
    lambda names: st.lists(st.fixed_dictionaries(dict.fromkeys(names, PLAIN)), min_size=1, max_size=4)
)
VALUES = st.recursive(
    PLAIN | TABLES,
    lambda parts: st.lists(parts, max_size=3) | st.dictionaries(KEYS, parts, max_size=3),
    max_leaves=12,
)
