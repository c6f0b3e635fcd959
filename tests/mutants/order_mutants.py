"""Mutants of order: two things that stand side by side change places.

    statements  two statements with effects, or one beside a condition that leaves the function
    posts       two posts of a tuple or a list, or the parts of a sum of posts

Left alone are pairs that are the same in any order: an assignment beside a statement that neither reads nor
changes its target. So is a statement that uses a name which the one before it binds for the first time,
because it would fail wherever it runs.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final

from tests.mutants.mutant import ROOT
from tests.mutants.random_mutants import Change, Place

_LEFT_ALONE: Final = (
    ast.Pass, ast.Import, ast.ImportFrom, ast.Assert, ast.Return, ast.Raise, ast.Continue, ast.Break,
    ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal, ast.AnnAssign,
)  # fmt: skip
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_ACTORS: Final = ("self", "work")
"""A call of a method of these may have an effect. Other calls in assignments are taken for pure ones."""


def places_of_order(path: Path) -> list[Place]:
    """Return the pairs of a module that may change places, each as a place of its own."""
    name = str(path.relative_to(ROOT))
    found = order_changes_in(path.read_text())
    return [Place(name, "order", change.node.lineno, (change,)) for change in found]


def order_changes_in(source: str) -> Iterator[Change]:
    """Yield the changes of order in the functions of a source."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, _FUNCTIONS):
            for node in _inside(function):
                yield from _of_statements(node)
                yield from _of_posts(node)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """Yield a function and the nodes in it, without those of the functions in it."""
    yield function
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _FUNCTIONS):
            yield from _inside(child)


def _of_statements(node: ast.AST) -> Iterator[Change]:
    for _, block in ast.iter_fields(node):
        if isinstance(block, list):
            for first, second in pairwise(block):
                if (
                    isinstance(first, ast.stmt)
                    and isinstance(second, ast.stmt)
                    and _may_differ(first, second)
                ):
                    yield _swapped(first, second)


def _may_differ(first: ast.stmt, second: ast.stmt) -> bool:
    if isinstance(first, _LEFT_ALONE) or isinstance(second, _LEFT_ALONE) or _is_docstring(first):
        return False
    if (_bound(first) - _used(first)) & _used(second):
        return False
    return not (_is_apart(first, second) or _is_apart(second, first))


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_apart(node: ast.stmt, other: ast.stmt) -> bool:
    """Return True for a pure assignment beside a statement that does without its targets."""
    if not isinstance(node, ast.Assign | ast.AugAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    texts = {ast.unparse(one) for target in targets for one in _parts(target)}
    if any(isinstance(one, ast.Await | ast.Yield) or _is_effect(one) for one in ast.walk(node)):
        return False
    if any("." in text or "[" in text for text in texts) and not isinstance(
        other, ast.Assign | ast.AugAssign
    ):
        return False  # a call may read or change the attribute, and a function may be left before it
    return not any(ast.unparse(one) in texts for one in ast.walk(other) if isinstance(one, ast.expr))


def _is_effect(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return False
    return ast.unparse(node.func).partition(".")[0] in _ACTORS


def _parts(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _bound(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _used(node: ast.AST) -> set[str]:
    """Return the names that a statement reads, with those that it changes by `+=`."""
    changed = {_name_of(one.target) for one in ast.walk(node) if isinstance(one, ast.AugAssign)}
    names = (one for one in ast.walk(node) if isinstance(one, ast.Name))
    return {one.id for one in names if isinstance(one.ctx, ast.Load) or one.id in changed}


def _name_of(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


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


def _is_post_or_more(node: ast.expr) -> bool:
    return _is_post(node) or isinstance(node, ast.Starred)
