"""The import of a folder. It finds the regulations and their encodings, and lists the files left out."""

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regreader.blocks import Item
from regreader.html_reader import TooDeep, read_html
from regreader.lines import TextReader, lines_of
from regreader.numbering import heading_of
from regreader.pages import paged
from regreader.regulation import Regulation
from regreader.structure import regulation_of
from regreader.words import DIGITS_MAX, half_width

_FORMS: Final = {
    ".md": "markdown", ".markdown": "markdown", ".txt": "text", ".text": "text", ".html": "html",
    ".htm": "html", ".xhtml": "html",
}  # fmt: skip
FILE_BYTES_MAX: Final = 10_000_000
FOLDER_BYTES_MAX: Final = 200_000_000
_DIGITS: Final = re.compile(r"[\d零〇一二三四五六七八九十百两]+")
_BROKEN_MAX: Final = 0.01  # of the characters of a file in UTF-8
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@dataclass
class Skipped:
    """A file that was not imported, and the reason."""

    path: str
    reason: str


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder and those below it, but no hidden ones, in the order of their names."""
    return sorted(one for one in folder.rglob("*") if one.is_file() and not one.name.startswith("."))


def read_files(folder: Path, files: Iterable[Path]) -> Iterator[Regulation | Skipped]:
    """Read files of a folder, each as one regulation that is named as the file."""
    total = 0
    taken: dict[str, int] = {}
    for path in files:
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        if path.suffix.lower() not in _FORMS:
            yield Skipped(name, "not a Markdown, text or HTML file")
        elif size > FILE_BYTES_MAX or total + size > FOLDER_BYTES_MAX:
            bounds = f"files have at most {FILE_BYTES_MAX:,} bytes, folders {FOLDER_BYTES_MAX:,}"
            yield Skipped(name, f"too large: {bounds}")
        else:
            total += size
            reg_id = re.sub(r"[^\w.-]+", "-", path.stem).strip("-") or "regulation"
            while reg_id in taken:
                taken[reg_id] += 1
                reg_id = f"{reg_id}-{taken[reg_id]}"
            found = read_file(path, reg_id, name)
            taken |= {reg_id: 1} if isinstance(found, Regulation) else {}
            yield found


def read_file(path: Path, reg_id: str, name: str) -> Regulation | Skipped:
    """Read one regulation. name: the name that it is told by."""
    form = _FORMS[path.suffix.lower()]
    try:
        text = decoded(path.read_bytes())
        if text is None:
            return Skipped(name, "binary, or in an unknown encoding: save it as UTF-8")
        if not text.strip():
            return Skipped(name, "empty")
        if any(len(found.group()) > DIGITS_MAX for found in _DIGITS.finditer(text)):
            return Skipped(name, f"no regulation: it has a number of more than {DIGITS_MAX:,} digits")
        title, items = _read(text.replace("\r\n", "\n").replace("\r", "\n"), form)
    except OSError as error:
        return Skipped(name, f"unreadable: {error.strerror}")
    except TooDeep as error:
        return Skipped(name, str(error))
    reader = TextReader(items, form == "markdown")
    line = next((one for one in items if isinstance(one, str) and one.strip()), "")
    first = max(re.split(r"\s{2,}", line.strip()), key=len)
    pages = [(number, reader.blocks_of(part)) for number, part in paged(items)]
    found = regulation_of(reg_id, title, name, pages)
    found.title = found.title or ("" if heading_of(half_width(first), 0) else first) or reg_id
    return found


def _read(text: str, form: str) -> tuple[str, list[Item]]:
    """Return the title that a file gives itself, and its items."""
    if form == "html":
        found = _TITLE.search(text)
        return html.unescape(" ".join(found[1].split())) if found else "", [*read_html(text)]
    matter = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL) if form == "markdown" else None
    found = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", matter[1], re.MULTILINE) if matter else None
    return found[1] if found else "", lines_of(text[matter.end() :] if matter else text.strip("\f\n "))


def decoded(data: bytes) -> str | None:
    """Return the text of a file in UTF-8, UTF-16 or GB 18030; None for a binary one.

    A few broken characters become U+FFFD.
    """
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    if b"\x00" in data[:8192] and not is_wide:
        return None
    try:
        text = data.decode("utf-16") if is_wide else data.decode("utf-8-sig", errors="replace")
        if text.count("\ufffd") > _BROKEN_MAX * len(text):
            text = data.decode("gb18030")
    except UnicodeDecodeError:
        return None
    controls = sum(char < " " and char not in "\n\r\t\f" for char in text[:8192])
    return text if controls * 20 <= min(len(text), 8192) else None
