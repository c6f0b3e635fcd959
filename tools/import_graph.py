"""Which module of callboard imports which: a graph, and its first cycle if it has one."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tools.sources import ROOT

Graph = Mapping[str, frozenset[str]]
"""Module -> the modules of callboard that it imports, those inside functions included."""


def import_graph(paths: Iterable[Path]) -> Graph:
    """Read the imports of some files of the repository."""
    texts = {module_name(path.relative_to(ROOT)): path.read_text() for path in paths}
    return {module: frozenset(_imported(text, texts.keys()) - {module}) for module, text in texts.items()}


def module_name(path: Path) -> str:
    """Return the dotted name under which users import a file. path: relative to the repository."""
    parts = [*path.parts[:-1], path.stem] if path.stem != "__init__" else list(path.parts[:-1])
    return ".".join(parts if parts[0] == "callboard" else ["callboard", *parts])


def cycle(graph: Graph) -> list[str]:
    """Return the modules of one import cycle, the first of them twice; empty if there is no cycle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def _imported(text: str, known: Iterable[str]) -> set[str]:
    return {name for name in _names(ast.parse(text)) if name in known}


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import name`: the name can be a module of the package.
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
