"""Measure the shape of the code: `python -m tools.style_metrics [--worst N]`.

lines      physical lines of a file
code       lines that hold a token other than a comment or a docstring
function   a def at any depth; overloads and bodies of only `...` are left out
any        each use of the name `Any`, apart from its import
branches   1 and one for each if, loop, handler, case, comprehension and boolean operation
percentile nearest rank, so always a value that occurs
"""

import argparse
import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.import_graph import cycle, import_graph
from tools.sources import ROOT, SHIPPED, TESTS, files_of

Function = ast.FunctionDef | ast.AsyncFunctionDef

NO_CODE: Final = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
)
BRANCHES: Final = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.BoolOp,
    ast.match_case,
    ast.comprehension,
)


@dataclass(frozen=True, slots=True)
class FunctionShape:
    """The size of one function. code: lines; where: file and name."""

    where: str
    code: int
    branches: int


@dataclass(frozen=True, slots=True)
class ModuleShape:
    """The size of one file."""

    where: str
    lines: int
    code: int
    functions: tuple[FunctionShape, ...]
    any_uses: int


def module_shape(text: str, where: str = "module.py") -> ModuleShape:
    """Measure one file. text: its source."""
    tree = ast.parse(text)
    # A docstring is a STRING token like any other, so its lines are taken off afterwards.
    code = _code_lines(text) - _docstring_lines(tree)
    functions = tuple(_function_shapes(tree, code, where))
    any_uses = sum(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(tree))
    return ModuleShape(where, len(text.splitlines()), len(code), functions, any_uses)


def style_figures() -> dict[str, float]:
    """Measure the repository: figure -> value."""
    shipped = shapes(files_of(*SHIPPED))
    code = sum(one.code for one in shipped)
    functions = [function for one in shipped for function in one.functions]
    # An empty __init__.py says nothing about the size of modules.
    lines = [one.lines for one in shipped if one.code]
    return {
        "shipped_lines": sum(one.lines for one in shipped),
        "module_lines_p90": percentile(lines, 90),
        "module_lines_max": max(lines),
        "function_code_p90": percentile([one.code for one in functions], 90),
        "function_code_max": max(one.code for one in functions),
        "branches_p90": percentile([one.branches for one in functions], 90),
        "test_to_code": round(sum(one.code for one in shapes(files_of(*TESTS))) / code, 2),
        "any_per_1000": round(1_000 * sum(one.any_uses for one in shipped) / code, 1),
        "import_cycles": 1 if cycle(import_graph(files_of(*SHIPPED))) else 0,
    }


def shapes(paths: Iterable[Path]) -> list[ModuleShape]:
    """Measure some files of the repository."""
    return [module_shape(path.read_text(), path.relative_to(ROOT).as_posix()) for path in paths]


def percentile(values: Iterable[int], percent: int) -> int:
    """Return the nearest-rank percentile of at least one value."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def _code_lines(text: str) -> set[int]:
    return {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }


def _docstring_lines(tree: ast.AST) -> set[int]:
    """Collect the lines of every string that stands alone: docstrings, and notes below constants."""
    return {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node.value.value, str)
        for line in _span(node)
    }


def _function_shapes(tree: ast.AST, code: set[int], where: str) -> Iterator[FunctionShape]:
    for node in ast.walk(tree):
        if isinstance(node, Function) and not _is_stub(node):
            branches = 1 + sum(isinstance(part, BRANCHES) for part in ast.walk(node))
            lines = sum(line in code for line in _span(node))
            yield FunctionShape(f"{where}:{node.lineno} {node.name}", lines, branches)


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_stub(node: Function) -> bool:
    """Tell whether a function only declares a signature."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    is_dots = bool(body) and all(ast.unparse(statement) == "..." for statement in body)
    return is_dots or any("overload" in ast.unparse(one) for one in node.decorator_list)


def main() -> None:
    """Print the figures and, if asked, the largest files and functions."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--worst", type=int, default=0, help="also name so many of the largest")
    worst: int = parser.parse_args().worst
    for name, value in style_figures().items():
        print(f"{name:20}{value:>10,}")
    shipped = shapes(files_of(*SHIPPED))
    functions = [function for one in shipped for function in one.functions]
    for module in sorted(shipped, key=lambda one: -one.lines)[:worst]:
        print(f"{module.lines:6} lines     {module.where}")
    for function in sorted(functions, key=lambda one: -one.code)[:worst]:
        print(f"{function.code:6} code lines {function.where}")
    for function in sorted(functions, key=lambda one: -one.branches)[:worst]:
        print(f"{function.branches:6} branches  {function.where}")


if __name__ == "__main__":
    main()
