"""Paths as tools give them, and names as models read them."""

import json
import os
from functools import lru_cache
from typing import Final

from callboard.actors.protocol.bundle_entries import PATH_CHARS_MAX
from callboard.actors.protocol.errors import FileError

_SHOWN_CHARS_MAX: Final = 200


@lru_cache(1_024)
def relative(path: str) -> str:
    """Return a path below the root in one form; `.` is the root. Raises FileError for any other path."""
    _check(path)
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise FileError(f"{shown(path)}: a path may not contain `..`; write it from the root", "bad_path")
    return "/".join(parts) or "."


def _check(path: object) -> None:
    if not isinstance(path, str):
        raise FileError(f"a path is a text, not {type(path).__name__}", "bad_path")
    if len(path) > PATH_CHARS_MAX:
        raise FileError(f"the path has {len(path):,} characters, more than {PATH_CHARS_MAX:,}", "bad_path")
    if "\0" in path:
        raise FileError(f"{shown(path)}: a path may not contain NUL", "bad_path")
    if path.startswith("/"):
        raise FileError(f"{shown(path)}: paths are relative to the root; leave out the first /", "bad_path")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise FileError(f"{shown(path)}: the path is not Unicode text", "bad_path") from None


def shown(path: str) -> str:
    """Return a path for a line of text: as it is, or as a JSON text if it holds control characters.

    A line break or a mark of direction in a name could forge other lines.
    """
    text = path if len(path) <= _SHOWN_CHARS_MAX else path[:_SHOWN_CHARS_MAX] + "…"
    return text if text.isprintable() and text == text.strip() else json.dumps(text)


def joined(folder: str, name: str) -> str:
    """Return the path of a name in a folder."""
    return name if folder == "." else f"{folder}/{name}"
