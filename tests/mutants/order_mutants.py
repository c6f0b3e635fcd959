"""Mutants of order: two things that stand side by side change places.

    statements  two statements with effects, or one beside a condition that leaves the function
    posts       two posts of a tuple or a list, or the parts of a sum of posts

Left out are pairs of statements that do the same in either order as far as their texts show (`effects`),
and a statement that uses a name which the one before it binds for the first time, because it would fail
wherever it runs. Left out as well, although their order may matter, are the operands of a condition, the
arguments of a call, the cases of a `match`, statements that are not neighbours, and a `return`, `raise` or
`await` that would have to cross the statement before it.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.mutants.effects import commute, effects_of, exclude, meet
from tests.mutants.mutant import ROOT
from tests.mutants.pure_code import in_pure_code
from tests.mutants.random_mutants import Change, Place

_LEFT_ALONE: Final = (
    ast.Pass, ast.Import, ast.ImportFrom, ast.Assert, ast.Return, ast.Raise, ast.Continue, ast.Break,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.AnnAssign,
)  # fmt: skip
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def places_of_order(path: Path) -> list[Place]:
    """Return the pairs of a module that may change places, each as a place of its own."""
    name = str(path.relative_to(ROOT))
    found = order_changes_in(path.read_text(), is_pure=name.startswith("actors/"))
    return [Place(name, "order", change.node.lineno, (change,)) for change in found]


def order_changes_in(source: str, *, is_pure: bool = False) -> Iterator[Change]:
    """Yield the changes of order in the functions of a source. is_pure: True for code of `actors/`."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, _FUNCTIONS):
            for node in _inside(function):
                for first, second, last in _neighbours(node):
                    seen = (in_pure_code(first), in_pure_code(second)) if is_pure else (first, second)
                    own = _temporary(function, first, second, last)
                    if _may_differ(*seen, own, is_new=function.name == "__init__"):
                        yield _swapped(first, second)
                yield from _of_posts(node)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield a function and the nodes in it, without those of the functions in it."""
    yield function
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _FUNCTIONS):
            yield from _inside(child)


def _neighbours(node: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt, ast.stmt]]:
    """Yield each two statements that stand side by side, and the last one of their block."""
    for _, block in ast.iter_fields(node):
        if isinstance(block, list):
            for first, second in pairwise(block):
                if isinstance(first, ast.stmt) and isinstance(second, ast.stmt):
                    yield first, second, block[-1]


def _temporary(function: ast.AST, first: ast.stmt, second: ast.stmt, last: ast.stmt) -> frozenset[str]:
    """Return the names that one of two statements sets, and that only the rest of their block reads."""
    rest = range(first.lineno, (last.end_lineno or 0) + 1)
    assigned = [effects_of(one).writes for one in (first, second) if isinstance(one, ast.Assign)]
    read = effects_of(first).reads | effects_of(second).reads
    outside = {one.id for one in ast.walk(function) if isinstance(one, ast.Name) and one.lineno not in rest}
    return frozenset(path for paths in assigned for path in paths - outside - read if "." not in path)


def _may_differ(first: ast.stmt, second: ast.stmt, own: frozenset[str], *, is_new: bool) -> bool:
    """Return True if another order is worth a mutant.

    own: the names that only their block knows. is_new: no attribute of `self` has a value yet.
    """
    if isinstance(first, _LEFT_ALONE) or isinstance(second, _LEFT_ALONE) or _is_docstring(first):
        return False
    one, other = effects_of(first), effects_of(second)
    bound = (path for path in one.writes if is_new or "." not in path)
    new = frozenset(path for path in bound if not meet(frozenset({path}), one.reads))
    return not (meet(new, other.reads) or commute(one, other, own) or exclude(first, second))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _swapped(first: ast.stmt, second: ast.stmt) -> Change:
    """Return the change of both statements. Its node is their span."""
    span = ast.copy_location(ast.Expr(ast.Constant(None)), first)
    span.end_lineno, span.end_col_offset = second.end_lineno, second.end_col_offset
    return Change(span, f"{ast.unparse(second)}\n{ast.unparse(first)}")


def _of_posts(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for at, pair in enumerate(pairwise(elements)):
                if any(map(_is_post, pair)) and all(
                    _is_post(one) or isinstance(one, ast.Starred) for one in pair
                ):
                    swapped = [*elements[:at], pair[1], pair[0], *elements[at + 2 :]]
                    yield Change(node, ast.unparse(type(node)(swapped, ast.Load())))
        case ast.BinOp(left=left, op=ast.Add(), right=right) if "post" in ast.unparse(node).lower():
            yield Change(node, f"({ast.unparse(ast.BinOp(right, ast.Add(), left))})")


def _is_post(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return text.startswith("Post(") or (isinstance(node, ast.Starred) and "post" in text)
