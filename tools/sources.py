"""The Python files of the repository, folder by folder, as the measuring scripts count them."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
SHIPPED: Final = ("actors", "runtime", "replay", "callboard")
"""The folders that a wheel holds."""
TESTS: Final = ("tests",)


def python_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files below a folder, sorted."""
    # os.walk does not follow links: callboard/actors is a link to actors/, which would be counted twice.
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
        yield from (Path(place, name) for name in sorted(names) if name.endswith(".py"))


def files_of(*folders: str) -> list[Path]:
    """List the Python files of some folders of the repository."""
    return [path for folder in folders for path in python_files(ROOT / folder)]


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements within it: nine nodes of ten are expressions, which define nothing."""
    yield node
    for block in ("body", "handlers", "orelse", "finalbody", "cases"):
        inner = getattr(node, block, None)
        if isinstance(inner, list):  # the body of a lambda or of `a if b else c` is an expression
            for one in inner:
                yield from statements(one)
