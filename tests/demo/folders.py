"""Small folders with known truth: ordinary ones from `truth/*.toml`, odd ones made here.

The truth of a folder is written down beside it, by hand. Nothing here calls the code under test.
"""

import os
import socket
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_TRUTH = Path(__file__).parent / "truth"


class Truth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The facts of one folder. See `truth/python.toml` for the keys."""

    framework: str
    basis: str
    entry: tuple[str, ...]
    modules: tuple[str, ...]
    also: tuple[str, ...] = ()
    says: str = ""
    files: dict[str, str] = {}


@cache
def ordinary() -> dict[str, Truth]:
    """Load the folders that consist of files only."""
    found: dict[str, Truth] = {}
    for path in sorted(_TRUTH.glob("*.toml")):
        found |= msgspec.convert(tomllib.loads(path.read_text()), dict[str, Truth])
    return found


def write(root: Path, files: dict[str, str]) -> None:
    """Make the files; the line break after an opening quote is not theirs."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.removeprefix("\n"))


def _empty(root: Path) -> Truth:
    return Truth("none", "none", ("none",), (), says="No test code was found")


def _only_binary_files(root: Path) -> Truth:
    (root / "data").mkdir()
    (root / "data" / "pytest.bin").write_bytes(b"\0\1import pytest\n" * 10)
    (root / "test_picture.py").write_bytes(b"import pytest\n\0\0\0\xff\xfe\n" * 100)
    (root / "conftest.pyc").write_bytes(bytes(range(256)))
    return Truth("unknown", "none", ("none",), (".", "data"), says="Not read: test_picture.py is binary")


def _huge_files(root: Path) -> Truth:
    (root / "tests").mkdir()
    with (root / "tests" / "test_sparse.py").open("wb") as file:
        file.truncate(50_000_000)
    with (root / "tests" / "test_dump.py").open("wb") as file:
        file.write(b"import pytest\n" * 400_000)
    (root / "app.py").write_text("print('x' * 10)\n\n\nif __name__ == '__main__':\n    print()\n")
    return Truth("unknown", "none", ("app.py",), (".", "tests"), says="too large")


def _unread_settings(root: Path) -> Truth:
    """Make manifests that are binary or too large to read, and so may declare anything."""
    (root / "setup.cfg").write_bytes(b"[options]\0")
    with (root / "pyproject.toml").open("wb") as file:
        file.write(b"[project.scripts]\na = 'a:main'\n[tool.pytest.ini_options]\n")
        file.truncate(50_000_000)
    return Truth("unknown", "none", ("unknown",), (".",), says="Not read: pyproject.toml is too large")


def _strange_names(root: Path) -> Truth:
    """Make names with spaces, newlines, escape sequences, other alphabets, invalid UTF-8 and backslashes."""
    for folder in ("my package", "new\nline", "\x1b[31mred", "größe", "back\\slash"):
        (root / folder).mkdir()
        (root / folder / "__init__.py").write_text(f'"""Of {folder.split()[0].encode().hex()}."""\n')
    raw = os.fsencode(root) + b"/bad\xff\xfename"
    Path(os.fsdecode(raw)).mkdir()
    (Path(os.fsdecode(raw)) / "test_\udce9t\udce9.py").write_text(
        "import pytest\n\n\ndef test_summer():\n    pass\n"
    )
    shown = ("bad\\udcff\\udcfename", "back\\\\slash", "größe", "my package", "new\\nline", "\\x1b[31mred")
    return Truth("pytest", "used", ("none",), shown)


def _links(root: Path) -> Truth:
    """Make a loop, a link to the root's parent, links to files outside, and one that leads nowhere."""
    outside = root.parent / f"{root.name}-outside"
    outside.mkdir()
    (outside / "test_secret.py").write_text("import pytest\n\n\ndef test_secret():\n    pass\n")
    (root / "pkg").mkdir()
    (root / "pkg" / "__init__.py").write_text("import unittest\n")
    (root / "pkg" / "loop").symlink_to(root, target_is_directory=True)
    (root / "tests").symlink_to(outside, target_is_directory=True)
    (root / "test_secret.py").symlink_to(outside / "test_secret.py")
    (root / "conftest.py").symlink_to("nowhere")
    return Truth("none", "none", ("none",), ("pkg",))


def _pipes_and_sockets(root: Path) -> Truth:
    (root / "tests").mkdir()
    os.mkfifo(root / "tests" / "test_fifo.py")
    os.mkfifo(root / "pyproject.toml")
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(root)
        try:
            server.bind("__main__.py")
        finally:
            os.chdir(here)
    (root / "tests" / "test_real.py").write_text(
        "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n"
    )
    return Truth("unittest", "used", ("none",), ("tests",))


def _deep(root: Path) -> Truth:
    """Make a hundred levels, with a test at the fortieth and one below the deepest level that is walked."""
    path = root
    for level in range(100):
        path = path / f"level{level}"
        path.mkdir()
        if level == 40:
            (path / "test_deep.py").write_text("def test_deep():\n    assert True\n")
        if level == 99:
            (path / "test_deepest.py").write_text(
                "import unittest\n\n\nclass T(unittest.TestCase):\n    pass\n"
            )
    return Truth("pytest", "used", ("none",), ("level0/level1",))


def _many_modules(root: Path) -> Truth:
    names = [f"mod{number:02}" for number in range(40)]
    for name in names:
        (root / name).mkdir()
        (root / name / "__init__.py").write_text(f'"""The module {name}."""\n')
    return Truth("none", "none", ("none",), tuple(names))


def _unreadable_settings(root: Path) -> Truth:
    """Write manifests that break the rules of their formats, beside a valid test."""
    (root / "pyproject.toml").write_text("[tool.pytest.ini_options\nbroken = \n")
    (root / "package.json").write_text("{'name': single quotes}")
    (root / "setup.cfg").write_text("no section = here\n")
    (root / "setup.py").write_text("from setuptools import setup\nsetup(\n")
    (root / "tox.ini").write_bytes(b"\xff\xfe\x00\x00")
    (root / "test_a.py").write_text("import unittest\n\n\nclass A(unittest.TestCase):\n    pass\n")
    return Truth("unittest", "used", ("none",), (".",))


ODD: Final[dict[str, Callable[[Path], Truth]]] = {
    "empty": _empty,
    "only_binary_files": _only_binary_files,
    "huge_files": _huge_files,
    "unread_settings": _unread_settings,
    "strange_names": _strange_names,
    "links": _links,
    "pipes_and_sockets": _pipes_and_sockets,
    "deep": _deep,
    "many_modules": _many_modules,
    "unreadable_settings": _unreadable_settings,
}


def build(name: str, root: Path) -> Truth:
    """Make the folder of this name in an empty folder, and return its truth."""
    root.mkdir(parents=True, exist_ok=True)
    if name in ODD:
        return ODD[name](root)
    truth = ordinary()[name]
    write(root, truth.files)
    return truth


NAMES: Final = (*ordinary(), *ODD)
