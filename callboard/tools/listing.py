"""Format results of tools as lines of text. The last line says how much was cut."""

from collections.abc import Iterator
from typing import Final

from callboard.runtime.files.opening import shown
from callboard.runtime.files.whole_files import Entry

OUTPUT_CHARS_MAX: Final = 45_000
"""Characters of a result, below the default of `max_tool_output_chars`, so that its last line stays."""

LINE_CHARS_MAX: Final = 2_000
"""Characters of a line that are shown."""


def lines_of(text: str) -> list[str]:
    """Return the lines of a text. The last line break begins no further line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def numbered(lines: list[str], first: int) -> Iterator[str]:
    """Yield lines behind their numbers."""
    for number, line in enumerate(lines, first):
        if len(line) > LINE_CHARS_MAX:
            line = f"{line[:LINE_CHARS_MAX]}… [{len(line):,} characters]"
        yield f"{number:>6}\t{line}"


def fitting(lines: Iterator[str]) -> Iterator[str]:
    """Yield as many lines as a result has room for."""
    left = OUTPUT_CHARS_MAX
    for line in lines:
        left -= len(line) + 1
        if left < 0:
            return
        yield line


def listed(lines: list[str], is_cut: bool, advice: str) -> str:
    """Return lines as one text. is_cut, advice: the last line says that there are more, and what to do."""
    kept = list(fitting(iter(lines)))
    if is_cut or len(kept) < len(lines):
        kept.append(f"[these are the first {len(kept):,}, {advice}]")
    return "\n".join(kept) or "(nothing found)"


def described(entry: Entry) -> str:
    """Return an entry of a folder as a line."""
    name = shown(entry.path.rpartition("/")[2])
    if entry.kind == "file":
        return f"{name}  {entry.bytes:,} bytes"
    kinds = {
        "folder": "/",
        "link": "  link, not followed",
        "other": "  no file: a device, a pipe or a socket",
    }
    return name + kinds[entry.kind]
