"""The import of a folder. It finds the regulations and their encodings, and lists the files left out."""

import html
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from regreader.blocks import Unreadable
from regreader.html_reader import read_html, read_markdown
from regreader.numbering import heading_of
from regreader.regulation import Regulation
from regreader.structure import regulation_of
from regreader.text_reader import read_text
from regreader.words import DIGITS_MAX, HAN_DIGITS, half_width

_FORMS = {
    ".md": "Markdown", ".markdown": "Markdown", ".txt": "text", ".text": "text",
    ".html": "HTML", ".htm": "HTML", ".xhtml": "HTML",
}  # fmt: skip
FILE_BYTES_MAX = 10_000_000
FOLDER_BYTES_MAX = 200_000_000
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
            if path.suffix.lower() not in _FORMS:
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
    try:
        text = decoded(path.read_bytes())
    except OSError as error:
        raise Unreadable(f"unreadable: {error.strerror}") from None
    form, title = _FORMS[path.suffix.lower()], ""
    if form == "HTML":
        found = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        title, blocks = html.unescape(" ".join(found[1].split())) if found else "", read_html(text)
    elif form == "Markdown":
        blocks = read_markdown(re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.DOTALL))
    else:
        blocks = read_text(text)
        title = next((line.strip() for line in text.splitlines() if line.strip()), "")
        title = "" if heading_of(half_width(title)) else title
    made = regulation_of(reg_id, title, source, form, blocks)
    made.title = made.title or reg_id
    return made


def decoded(data: bytes) -> str:
    """Return the text of a file in UTF-8, or in GB 18030 with U+FFFD for broken characters."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("gb18030", errors="replace")
    head = text[:_LOOKED_AT]
    if (
        "\0" in head
        or text.count("\ufffd") * 20 > len(text)
        or sum(char < " " and char not in "\n\r\t\f" for char in head) * 20 > len(head)
    ):
        raise Unreadable("binary, or in an unknown encoding: save it as UTF-8")
    if not text.strip():
        raise Unreadable("empty")
    if re.search(rf"(?:[^\w\s|+=─━═-]|[\d{HAN_DIGITS}]){{{DIGITS_MAX + 1}}}", text):
        raise Unreadable(f"no regulation: it has more than {DIGITS_MAX:,} digits or signs in a row")
    return text.replace("\r\n", "\n").replace("\r", "\n")
