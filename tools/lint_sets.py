"""The expressions of a module that are sets, and the places that depend on their order.

Text hashes differ from process to process, and with them the order of a set of texts.

An expression counts as a set if it is a set display, a call of `set` or `frozenset`, annotated as a set
anywhere in the module (names, parameters, attributes, results of functions, values of dicts), or computed
from a set by operators, by `keys()` of two dicts, or by methods that return sets.
"""

import ast
from collections.abc import Iterator
from typing import Final

SETS: Final = frozenset({"set", "frozenset", "Set", "FrozenSet", "AbstractSet", "MutableSet", "KeysView"})
MAKERS: Final = frozenset({"union", "intersection", "difference", "symmetric_difference"})
UNORDERED: Final = frozenset(
    {"sorted", "len", "min", "max", "any", "all", "set", "frozenset", "isinstance", "bool"}
)
"""Functions whose result does not depend on the order of their argument."""

_GETTERS = frozenset({"get", "pop", "setdefault"})


class Sets:
    """The sets of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self._names: set[str] = set()
        self._of_sets: set[str] = set()
        self._free: set[ast.AST] = set()
        for node in ast.walk(tree):
            self._learn(node)
        # Repeated until nothing is new: a name can be assigned from a name for a set that stands below it.
        while self._learn_assigned(tree):
            pass

    def _learn(self, node: ast.AST) -> None:
        match node:
            case ast.AnnAssign(target, annotation):
                self._annotated(_name(target), annotation)
            case ast.arg(name, annotation) if annotation is not None:
                self._annotated(name, annotation)
            case ast.FunctionDef(name=name, returns=returns) if returns is not None:
                self._annotated(name, returns)
            case ast.Call(func=ast.Name(id=called), args=[ast.GeneratorExp() as walked, *_]) if (
                called in UNORDERED
            ):
                # sum() is not free: a sum of floats depends on their order.
                self._free.add(walked)

    def _annotated(self, name: str, annotation: ast.expr) -> None:
        head = annotation.value if isinstance(annotation, ast.Subscript) else annotation
        if isinstance(annotation, ast.BinOp):  # set[int] | None
            self._annotated(name, annotation.left)
            self._annotated(name, annotation.right)
        elif _name(head) in SETS:
            self._names.add(name)
        elif isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Tuple):
            last = annotation.slice.elts[-1]
            if _name(last.value if isinstance(last, ast.Subscript) else last) in SETS:
                self._of_sets.add(name)

    def _learn_assigned(self, tree: ast.Module) -> bool:
        before = len(self._names)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and self.is_set(node.value):
                self._names |= {_name(target) for target in node.targets} - {""}
            elif isinstance(node, ast.NamedExpr) and self.is_set(node.value):
                self._names.add(node.target.id)
        return len(self._names) > before

    def is_set(self, node: ast.AST | None) -> bool:
        """Tell whether an expression is known to be a set."""
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.Name() | ast.Attribute():
                return _name(node) in self._names
            case ast.Subscript(value):
                return _name(value) in self._of_sets
            case ast.BinOp(left, ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right):
                return any(self.is_set(side) or _is_keys(side) for side in (left, right))
            case ast.IfExp(_, body, other):
                return self.is_set(body) or self.is_set(other)
            case ast.BoolOp(_, values):
                return any(self.is_set(value) for value in values)
            case ast.Call(func):
                return self._makes_set(func)
            case _:
                return False

    def _makes_set(self, func: ast.expr) -> bool:
        if isinstance(func, ast.Name):
            return func.id in ("set", "frozenset") or func.id in self._names
        if not isinstance(func, ast.Attribute):
            return False
        if func.attr in _GETTERS and _name(func.value) in self._of_sets:
            return True
        is_copy = func.attr in MAKERS | {"copy"} and self.is_set(func.value)
        return is_copy or func.attr in self._names

    # --- where order shows --------------------------------------------------------

    def ordered(self, node: ast.AST) -> Iterator[str]:
        """Yield the reason why a node depends on the order of a set, if it does."""
        match node:
            case ast.For(iter=walked) if self.is_set(walked):
                yield "a loop over a set; write sorted(...)"
            case (
                ast.ListComp(generators=parts)
                | ast.DictComp(generators=parts)
                | ast.GeneratorExp(generators=parts)
            ):
                if node not in self._free and any(self.is_set(part.iter) for part in parts):
                    yield "a comprehension over a set; write sorted(...)"
            case ast.Starred(value) if self.is_set(value):
                yield "a set is unpacked; write sorted(...)"
            case ast.Assign([ast.Tuple() | ast.List()], value) if self.is_set(value):
                yield "a set is unpacked; write sorted(...)"
            case ast.YieldFrom(value) | ast.FormattedValue(value) if self.is_set(value):
                yield "a set is walked in its own order; write sorted(...)"
            case ast.Call():
                yield from self._called(node)
            case _:
                pass

    def _called(self, node: ast.Call) -> Iterator[str]:
        called = _name(node.func)
        if isinstance(node.func, ast.Attribute) and self.is_set(node.func.value):
            if called == "pop":
                yield "pop() takes any item of a set; write min(...)"
            return
        walks = called in {
            "list",
            "tuple",
            "iter",
            "next",
            "enumerate",
            "zip",
            "map",
            "filter",
            "sum",
            "str",
            "repr",
        }
        walks = walks or called in {"join", "extend", "fromkeys", "chain", "reduce", "dict", "reversed"}
        if walks and any(self.is_set(argument) for argument in node.args):
            yield f"{called}() walks a set in its own order; write sorted(...)"


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_keys(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("keys", "items")
    )
