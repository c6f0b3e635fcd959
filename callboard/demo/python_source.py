"""The facts of a Python file, from its syntax tree. Nothing is run."""

import ast
import warnings
from collections.abc import Iterable
from itertools import chain, islice
from threading import Lock
from typing import Final, TypeAlias, TypeGuard

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
    cases = filter(_is_derived_case if "unittest" in imports else _is_case, classes)
    mains = [*filter(_is_main, tree.body)]
    return PythonFile(
        path,
        _first_sentence(tree),
        dict(islice(imports.items(), 60)),
        _lines([*_test_functions(tree, mains), *_test_classes(classes)]),
        _lines(cases),
        mains[0].lineno if mains else 0,
        problem,
    )


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in _MAIN


def _is_test(node: ast.stmt) -> TypeGuard[_Function]:
    return isinstance(node, _Function) and node.name.startswith("test")


def _is_case(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith("TestCase") for base in node.bases)


def _is_derived_case(node: ast.ClassDef) -> bool:
    # The base may be a test case of the project itself, by any name.
    return _is_case(node) or (bool(node.bases) and any(map(_is_test, node.body)))


def _test_functions(tree: ast.Module, mains: list[ast.stmt]) -> list[_Function]:
    """Return the tests among the functions. A script that calls its own has no need of a framework."""
    nodes = chain.from_iterable(map(ast.walk, mains))
    called = [ast.unparse(node.func) for node in nodes if isinstance(node, ast.Call)]
    calls_tests = any(name.startswith("test") for name in called)
    return [] if calls_tests else [node for node in tree.body if _is_test(node)]


def _is_plain(node: ast.ClassDef) -> bool:
    return node.name.startswith("Test") and not node.bases and any(map(_is_test, node.body))


def _test_classes(classes: list[ast.ClassDef]) -> list[ast.ClassDef]:
    """Return the plain classes of tests, without the mixins of others."""
    mixins = {ast.unparse(base) for node in classes for base in node.bases}
    return [node for node in filter(_is_plain, classes) if node.name not in mixins]


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the modules that are imported anywhere in a file."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            found[node.module[:100]] = node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(dict.fromkeys(map(_name_of, node.names), node.lineno))
    return found


def _name_of(alias: ast.alias) -> str:
    return alias.name[:100]


def _first_sentence(tree: ast.Module) -> str:
    paragraph = (ast.get_docstring(tree) or "").split("\n\n")[0]
    sentence = one_line(paragraph.partition(". ")[0]).rstrip(".")
    return f"{sentence}." if sentence else ""


def _lines(nodes: Iterable[_Function | ast.ClassDef]) -> dict[str, int]:
    return {node.name[:100]: node.lineno for node in islice(nodes, 2)}
