"""Text from files and names, made printable and short."""


def printable(text: str) -> str:
    """Escape every character that could move a cursor."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str, length: int = 160) -> str:
    """Return a text on one printable line, cut to a length."""
    line = printable(" ".join(text[: 4 * length].split()))
    return line if len(line) <= length else line[: length - 1] + "…"


def many(count: int, word: str) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`."""
    return f"{count:,} {word}{'s' * (count != 1)}"
