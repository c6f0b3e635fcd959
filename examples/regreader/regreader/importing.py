"""The import of a folder. It finds the regulations and their encodings, and lists the files left out."""

import html
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from regreader.blocks import Item, Unreadable
from regreader.html_reader import read_html
from regreader.lines import TextReader, lines_of
from regreader.numbering import heading_of
from regreader.pages import paged
from regreader.regulation import Regulation
from regreader.structure import regulation_of
from regreader.words import DIGITS_MAX, HAN_DIGITS, half_width

_SUFFIXES = (".md", ".markdown", ".txt", ".text", ".html", ".htm", ".xhtml")
FILE_BYTES_MAX = 10_000_000
FOLDER_BYTES_MAX = 200_000_000
_BROKEN_MAX = 0.01  # of the characters of a file in UTF-8
_LOOKED_AT = 8192  # characters that tell if a file is binary


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder and those below it, but no hidden ones, in the order of their names."""
    return sorted(one for one in folder.rglob("*") if one.is_file() and not one.name.startswith("."))


def read_files(folder: Path, files: Iterable[Path]) -> Iterator[Regulation | str]:
    """Read files of a folder, each as one regulation named as the file. A text tells why a file is none."""
    total, taken = 0, set[str]()
    for path in files:
        name, size = path.relative_to(folder).as_posix(), path.stat().st_size
        try:
            if path.suffix.lower() not in _SUFFIXES:
                raise Unreadable("not a Markdown, text or HTML file")
            if size > FILE_BYTES_MAX or total + size > FOLDER_BYTES_MAX:
                bounds = f"files have at most {FILE_BYTES_MAX:,} bytes, folders {FOLDER_BYTES_MAX:,}"
                raise Unreadable(f"too large: {bounds}")
            total += size
            plain = re.sub(r"[^\w.-]+", "-", path.stem).strip("-") or "regulation"
            ids = itertools.chain([plain], (f"{plain}-{number}" for number in itertools.count(2)))
            found = read_file(path, next(one for one in ids if one not in taken), name)
            taken.add(found.id)
            yield found
        except Unreadable as error:
            yield f"{name}: {error}"


def read_file(path: Path, reg_id: str, source: str) -> Regulation:
    """Read one regulation. source: the name that it is told by. Raises Unreadable."""
    kind = path.suffix.lower()[1]
    try:
        title, items = _items(decoded(path.read_bytes()), kind)
    except OSError as error:
        raise Unreadable(f"unreadable: {error.strerror}") from None
    reader = TextReader(items, kind == "m")
    pages = [(number, reader.blocks_of(part)) for number, part in paged(items)]
    line = next((one for one in items if isinstance(one, str) and one.strip()), "")
    first = max(re.split(r"\s{2,}", line.strip()), key=len)
    found = regulation_of(reg_id, title, source, pages)
    found.title = found.title or ("" if heading_of(half_width(first), 0) else first) or reg_id
    return found


def _items(text: str, kind: str) -> tuple[str, list[Item]]:
    """Return the title that a file gives itself, and its items. kind: the first letter of its suffix."""
    if kind in "hx":
        found = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return html.unescape(" ".join(found[1].split())) if found else "", [*read_html(text)]
    matter = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL) if kind == "m" else None
    found = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", matter[1], re.MULTILINE) if matter else None
    return found[1] if found else "", lines_of(text[matter.end() :] if matter else text.strip("\f\n "))


def decoded(data: bytes) -> str:
    """Return the text of a file in UTF-8, UTF-16 or GB 18030; a few broken characters become U+FFFD."""
    is_wide = data.startswith((b"\xff\xfe", b"\xfe\xff"))
    try:
        text = data.decode("utf-16") if is_wide else data.decode("utf-8-sig", errors="replace")
        if text.count("\ufffd") > _BROKEN_MAX * len(text):
            text = data.decode("gb18030")
    except UnicodeDecodeError:
        text = "\0"
    head = text[:_LOOKED_AT]
    if "\0" in head or sum(char < " " and char not in "\n\r\t\f" for char in head) * 20 > len(head):
        raise Unreadable("binary, or in an unknown encoding: save it as UTF-8")
    if not text.strip():
        raise Unreadable("empty")
    if re.search(rf"(?:[^\w\s|+=─━═-]|[\d{HAN_DIGITS}]){{{DIGITS_MAX + 1}}}", text):
        raise Unreadable(f"no regulation: it has more than {DIGITS_MAX:,} digits or signs in a row")
    return re.sub("[\ue000-\ue004]", "", text.replace("\r\n", "\n").replace("\r", "\n"))  # our own signs
