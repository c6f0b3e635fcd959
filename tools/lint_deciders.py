"""Check that deciders are pure functions of their arguments: `python -m tools.lint_deciders [FOLDER]`.

Each rule forbids one way in which the same state and message could give another result at another time, on
another machine, or under another Python:

    import      a module that can act, or that knows the time, chance or the machine
    builtin     `open`, `input`, `print`, `id`, `hash` (it differs from process to process), `eval` ...
    clock       an event's `at`: a decision does not depend on the time of posting
    set-order   the order of a set: a loop over one, a list made of one, `pop()`
    popitem     an item chosen by the order of a dict
    float       floats, and functions that return them: their sums differ between 3.11 and 3.12
    global      `global`, and a module's own list, dict or set that a function changes
    async       a coroutine, because other code can run between its steps

`decider_names.EXCEPTIONS` lists the exceptions with their reasons. An unused exception is reported.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tools.decider_names import BLOCKED, BUILTINS, CHANGERS, EXCEPTIONS, FLOATS, PURE
from tools.lint_sets import Sets


class Finding(NamedTuple):
    """A place in the source that breaks a rule."""

    file: str
    line: int
    function: str
    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.rule}: {self.text}"


def findings(source: str, file: str = "module.py", floats: frozenset[str] = frozenset()) -> list[Finding]:
    """List every place in a module that breaks a rule, exceptions included.

    floats: names that are floats in other modules.
    """
    tree = ast.parse(source)
    known = floats or float_names([tree])
    return sorted(_Linter(tree, file, known).all(), key=lambda found: (found.line, found.rule, found.text))


def folder_findings(folder: Path) -> list[str]:
    """List the findings of a folder that no exception covers, and the exceptions that cover no finding."""
    sources = {
        path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.glob("**/*.py"))
    }
    floats = float_names(ast.parse(source) for source in sources.values())
    found = [one for name, source in sources.items() for one in findings(source, name, floats)]
    wrong = [str(one) for one in found if (one.file, one.function, one.rule) not in EXCEPTIONS]
    used = {(one.file, one.function, one.rule) for one in found}
    # An exception for a deleted line would silently allow the next one there.
    stale = [key for key in EXCEPTIONS if key not in used and (folder / key[0]).exists()]
    return wrong + [
        f"{file}: {rule}: nothing in {where or 'the module'} needs its exception any more"
        for file, where, rule in stale
    ]


class _Linter:
    """One pass over a module that knows the function around each node."""

    def __init__(self, tree: ast.Module, file: str, floats: frozenset[str]) -> None:
        self.tree = tree
        self.file = file
        self.sets = Sets(tree)
        self.changeable = _changeable(tree)
        self.floats = floats

    def all(self) -> Iterator[Finding]:
        yield from self._visit(self.tree, "", False)

    def _visit(self, node: ast.AST, function: str, is_inside: bool) -> Iterator[Finding]:
        for rule, text in self._rules(node, is_inside):
            yield Finding(self.file, getattr(node, "lineno", 0), function, rule, text)
        name = getattr(node, "name", "")
        is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if is_function or isinstance(node, ast.ClassDef):
            function = f"{function}.{name}" if function else name
        for child in ast.iter_child_nodes(node):
            # `float` in an annotation is no float in a decision.
            if isinstance(child, ast.expr) and _is_annotation(node, child):
                continue
            yield from self._visit(child, function, is_inside or is_function)

    def _rules(self, node: ast.AST, is_inside: bool) -> Iterator[tuple[str, str]]:
        match node:
            case ast.Import(names):
                yield from (problem for alias in names for problem in _import(alias.name))
            case ast.ImportFrom(module):
                yield from _import(module or "")
            case ast.Name(id=name, ctx=ast.Load()) if name in BUILTINS:
                yield "builtin", f"{name} gives different answers at different times or places"
            case ast.Attribute(attr="at", ctx=ast.Load()):
                yield "clock", "when an event was posted is no part of a decision"
            case ast.Global() | ast.Nonlocal():
                yield "global", "a decider keeps nothing but the state that it returns"
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                yield "async", "a decision is made in one step"
            case ast.Call():
                yield from self._call(node, is_inside)
            case ast.BinOp() | ast.AugAssign():
                yield from self._arithmetic(node)
            case ast.Constant(value=float() as value):
                yield "float", f"{value!r}: count in whole tokens, micro-dollars and milliseconds"
            case ast.Assign(targets) | ast.Delete(targets) if is_inside:
                yield from (problem for target in targets for problem in self._changed(target))
        yield from (("set-order", text) for text in self.sets.ordered(node))

    def _call(self, node: ast.Call, is_inside: bool) -> Iterator[tuple[str, str]]:
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in FLOATS:
            yield "float", f"{name}() gives a float"
        if name == "popitem":
            yield "popitem", "say which item: min(d), or next(iter(d)) of a dict whose order is the log's"
        if name == "sum" and any(_is_float(part, self.floats) for arg in node.args for part in ast.walk(arg)):
            yield "float", "a sum of floats depends on the version of Python"
        if is_inside and name in CHANGERS and isinstance(node.func, ast.Attribute):
            yield from self._changed(node.func)

    def _arithmetic(self, node: ast.BinOp | ast.AugAssign) -> Iterator[tuple[str, str]]:
        if isinstance(node.op, ast.Div):
            yield "float", "/ gives a float; // and -(-a // b) do not"
        sides = (node.left, node.right) if isinstance(node, ast.BinOp) else (node.target, node.value)
        if any(_is_float(side, self.floats) for side in sides):
            yield "float", "arithmetic with a float"
        if isinstance(node, ast.AugAssign):
            yield from self._changed(node.target)

    def _changed(self, target: ast.expr) -> Iterator[tuple[str, str]]:
        """Report a change to an object of the module: to an item, an attribute, or by a method."""
        owner = target.value if isinstance(target, ast.Subscript | ast.Attribute) else None
        if isinstance(owner, ast.Name) and owner.id in self.changeable:
            yield "global", f"{owner.id} belongs to the module and outlives the decision"


def _import(module: str) -> Iterator[tuple[str, str]]:
    top = module.split(".")[0]
    if top not in PURE:
        yield "import", f"{module} {BLOCKED.get(top, 'is not known to be pure')}"
    elif module.startswith("callboard.") and not module.startswith("callboard.actors"):
        yield "import", f"{module} is not the core"


def _is_annotation(parent: ast.AST, child: ast.expr) -> bool:
    return child is getattr(parent, "annotation", None) or child is getattr(parent, "returns", None)


def _changeable(tree: ast.Module) -> frozenset[str]:
    """Collect the names of the module's own objects and of the constants that it imports."""
    found = set()
    for node in tree.body:
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        found |= {target.id for target in targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ImportFrom):
            # By convention of this code, upper-case names are constants of a module.
            found |= {alias.asname or alias.name for alias in node.names if alias.name.isupper()}
    return frozenset(found)


def float_names(trees: Iterable[ast.Module]) -> frozenset[str]:
    """Collect the names that are annotated as floats everywhere."""
    kinds: dict[str, set[bool]] = {}
    for node in (node for tree in trees for node in ast.walk(tree)):
        name = node.arg if isinstance(node, ast.arg) else ""
        if isinstance(node, ast.AnnAssign):
            name = node.target.id if isinstance(node.target, ast.Name) else getattr(node.target, "attr", "")
        annotation = getattr(node, "annotation", None)
        if name and annotation is not None:
            words = {part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)}
            kinds.setdefault(name, set()).add("float" in words)
    return frozenset(name for name, found in kinds.items() if found == {True})


def _is_float(node: ast.AST, names: frozenset[str]) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, float)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Div)
    return (node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")) in names


def main(arguments: list[str]) -> int:
    """Print the findings; return 1 if there are any."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent.parent / "actors"
    wrong = folder_findings(folder)
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
