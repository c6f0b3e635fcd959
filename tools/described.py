"""Descriptions of parameters in docstrings: `name: text`, several to a paragraph.

Markdown would run them together, so the site shows them as lists.
"""

import re
from collections.abc import Iterable


def with_lists(text: str, names: Iterable[str]) -> str:
    """Start a list item wherever `name: ` begins a sentence. names: the names to look for."""
    known = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    if not known:
        return text
    described = rf"((?:{known})(?:, (?:{known}))*): "
    paragraphs = text.split("\n\n")
    return "\n\n".join(_listed(paragraph, described) for paragraph in paragraphs)


def _listed(paragraph: str, described: str) -> str:
    if paragraph.startswith((" ", ">>>")) or not re.search(rf"(?:^|[.;] |\n){described}", paragraph):
        return paragraph
    joined = re.sub(r"\n\s*", " ", paragraph)
    listed = re.sub(rf"(?:^|(?<=[.;]) ){described}", r"\n- **\1**: ", joined)
    return listed.replace("\n", "\n\n", 1) if not listed.startswith("\n") else listed[1:]
