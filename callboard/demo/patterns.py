"""Patterns that cannot run away: regular expressions and globs, both on RE2, in time linear in the text.

A model writes these patterns. With Python's `re` an unlucky one takes minutes.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, Protocol

import re2

PATTERN_CHARS_MAX: Final = 1_000
_GLOB_PARTS: Final = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")", ",": "|"}


class Match(Protocol):
    """A place where a pattern matches, in bytes."""

    def start(self) -> int:
        """Where it begins."""
        ...

    def group(self) -> bytes:
        """What matches."""
        ...


class Pattern(Protocol):
    """A compiled pattern over bytes."""

    def search(self, data: bytes, pos: int = 0) -> Match | None:
        """The first match from this place on."""
        ...


@lru_cache(maxsize=512)
def regex(pattern: str) -> Pattern:
    """A regular expression in RE2's syntax; `^` and `$` match at every line.

    Raises ValueError for one that RE2 does not take (no look-around, no back references).
    """
    if len(pattern) > PATTERN_CHARS_MAX:
        raise ValueError(f"The pattern has {len(pattern)} characters; at most {PATTERN_CHARS_MAX} are taken.")
    return _compiled(f"(?m){pattern}", pattern)


@lru_cache(maxsize=64)
def any_regex(patterns: tuple[str, ...]) -> Pattern:
    """One pattern that matches wherever one of these does."""
    for pattern in patterns:
        regex(pattern)
    return _compiled("(?m)" + "|".join(f"(?:{pattern})" for pattern in patterns), " | ".join(patterns))


def any_glob(globs: Iterable[str]) -> Pattern:
    """Files by glob: without a slash it is about the name, with one about the whole path.

    `*` and `?` stay within one name, `**/` is any number of folders, `{a,b}` is one or the other.
    """
    return _any_glob(tuple(globs))


@lru_cache(maxsize=128)
def _any_glob(globs: tuple[str, ...]) -> Pattern:
    return _compiled("|".join(_glob_source(glob) for glob in globs) or "$.", " ".join(globs))


def _glob_source(glob: str) -> str:
    if len(glob) > PATTERN_CHARS_MAX:
        raise ValueError(f"The glob has {len(glob)} characters; at most {PATTERN_CHARS_MAX} are taken.")
    anchor = r"\A" if "/" in glob else r"(?:\A|/)"
    depth, at, source = 0, 0, anchor
    while at < len(glob):
        if glob.startswith("**", at):
            is_folder = glob.startswith("**/", at)
            source += "(?:.*/)?" if is_folder else ".*"
            at += 3 if is_folder else 2
            continue
        char = glob[at]
        depth += (char == "{") - (char == "}")
        is_plain = char not in _GLOB_PARTS or (char == "," and not depth)
        source += re2.escape(char) if is_plain else _GLOB_PARTS[char]
        at += 1
    return source + r"\z"


def _compiled(source: str, said: str) -> Pattern:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 64 << 20
    try:
        compiled: Pattern = re2.compile(source.encode("utf-8", "replace"), options)
    except re2.error as error:
        why = error.args[0] if error.args else b""
        text = why.decode("utf-8", "replace") if isinstance(why, bytes) else str(why)
        raise ValueError(f"{said[:200]!r} is no pattern that RE2 takes: {text}") from None
    return compiled
