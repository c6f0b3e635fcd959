"""The facts of a Python file, from its syntax tree. Nothing is run."""

import ast
import warnings
from collections.abc import Iterable
from itertools import islice
from threading import Lock
from typing import Final, TypeAlias

from callboard.demo.facts import PythonFile
from callboard.demo.text import one_line

_MAIN: Final = ("__name__ == '__main__'", "'__main__' == __name__")
# Python keeps one warnings filter per process, so only one thread at a time may change it.
_QUIET: Final = Lock()
_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


def syntax_tree(text: str) -> ast.Module:
    """Parse a source without warnings about the code of others. Raises ValueError if it does not parse."""
    try:
        with _QUIET, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"not the syntax of this Python: {one_line(str(error))}") from None


def python_file(path: str, text: str, problem: str = "") -> PythonFile:
    """Return the facts of a source; the problem of one that was not read or does not parse."""
    try:
        tree = syntax_tree(text)
    except ValueError as error:
        return PythonFile(path, problem=f"{path} is {error}.")
    imports = _imports(tree)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    cases = [node for node in classes if _is_case(node, "unittest" in imports)]
    mains = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) in _MAIN]
    return PythonFile(
        path,
        _first_sentence(tree),
        dict(islice(imports.items(), 60)),
        _lines([*_test_functions(tree, mains), *_test_classes(classes)]),
        _lines(cases),
        mains[0].lineno if mains else 0,
        problem,
    )


def _is_case(node: ast.ClassDef, imports_unittest: bool) -> bool:
    bases = [ast.unparse(base) for base in node.bases]
    is_derived = imports_unittest and bool(bases)  # from a base with another name, of this project
    return any(base.endswith("TestCase") for base in bases) or (is_derived and _has_tests(node))


def _has_tests(node: ast.ClassDef) -> bool:
    return any(isinstance(part, _Function) and part.name.startswith("test") for part in node.body)


def _test_functions(tree: ast.Module, mains: list[ast.If]) -> list[_Function]:
    """Return the tests among the functions. A script that calls its own has no need of a framework."""
    parts = [node for main in mains for node in ast.walk(main)]
    if any(isinstance(node, ast.Call) and ast.unparse(node.func).startswith("test") for node in parts):
        return []
    return [node for node in tree.body if isinstance(node, _Function) and node.name.startswith("test")]


def _test_classes(classes: list[ast.ClassDef]) -> list[ast.ClassDef]:
    """Return the plain classes of tests, without the mixins of others."""
    mixins = {ast.unparse(base) for node in classes for base in node.bases}
    plain = [node for node in classes if node.name.startswith("Test") and not node.bases]
    return [node for node in plain if _has_tests(node) and node.name not in mixins]


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the modules that are imported anywhere in a file."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found[node.module[:100]] = node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {name.name[:100]: node.lineno for name in node.names}
    return found


def _first_sentence(tree: ast.Module) -> str:
    paragraph = (ast.get_docstring(tree) or "").split("\n\n")[0]
    sentence = one_line(paragraph.partition(". ")[0]).rstrip(".")
    return f"{sentence}." if sentence else ""


def _lines(nodes: Iterable[_Function | ast.ClassDef]) -> dict[str, int]:
    return {node.name[:100]: node.lineno for node in islice(nodes, 2)}
