"""Regulations of tests: a file's text, imported into an index in memory."""

from pathlib import Path

from regreader.importing import read_file
from regreader.index import Index
from regreader.regulation import Regulation
from regreader.tools import Tools


def read(folder: Path, name: str, text: str) -> Regulation:
    """Read a file of this name and text."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return read_file(path, path.stem, path.name)


def tools_of(*regulations: Regulation) -> Tools:
    """Return the tools over an index of these regulations."""
    index = Index(":memory:")
    for one in regulations:
        index.put(one)
    return Tools(index)


def sections(one: Regulation) -> list[tuple[str, str, int]]:
    """Return the id, title and page of each section."""
    return [(section.id, section.title, section.page) for section in one.sections if section.kind != "front"]
