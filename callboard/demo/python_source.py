"""The facts of a Python file, from its syntax tree. Nothing is run."""

import ast
import warnings
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
    if problem:
        return PythonFile(path, problem=problem)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    functions = [node for node in tree.body if isinstance(node, _Function)]
    definitions = {f"class {node.name}": node.lineno for node in classes}
    definitions |= {f"def {node.name}": node.lineno for node in functions}
    mains = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) in _MAIN]
    called = [
        ast.unparse(node.func) for main in mains for node in ast.walk(main) if isinstance(node, ast.Call)
    ]
    collected = [] if any(name.startswith("test") for name in called) else functions
    tests = {node.name: node.lineno for node in collected if node.name.startswith("test")}
    cases = {}
    imports = _imports(tree)
    bases = {node.name: [ast.unparse(base) for base in node.bases] for node in classes}
    for node in classes:
        has_tests = any(isinstance(part, _Function) and part.name.startswith("test") for part in node.body)
        is_mixin = any(node.name in each for each in bases.values())
        is_case = has_tests and bool(node.bases) and "unittest" in imports
        if is_case or any(base.endswith("TestCase") for base in bases[node.name]):
            cases[node.name] = node.lineno
        elif has_tests and not node.bases and not is_mixin and node.name.startswith("Test"):
            tests[node.name] = node.lineno
    public = {name: line for name, line in definitions.items() if " _" not in name}
    says = one_line((ast.get_docstring(tree) or "").split("\n\n")[0].partition(". ")[0]).rstrip(".")
    says += "." if says else ""
    line = mains[0].lineno if mains else 0
    return PythonFile(path, says, _few(imports), _few(public, 12), _few(tests, 2), _few(cases, 2), line)


def _imports(tree: ast.Module) -> dict[str, int]:
    """Return the modules that are imported anywhere in a file."""
    found: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            found |= dict.fromkeys([module] if module else [name.name for name in node.names], node.lineno)
    return found


def _few(names: dict[str, int], at_most: int = 60) -> dict[str, int]:
    return {name[:100]: line for name, line in islice(names.items(), at_most)}
