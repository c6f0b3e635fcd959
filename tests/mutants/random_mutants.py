"""Random mutants: places of a module at which one small change makes another program, and draws among them.

    compare    `<` becomes `<=` or `>=`, `==` becomes `!=`, `in` becomes `not in`, `is` becomes `is not`, ...
    logic      `and` becomes `or`, an operand or a `not` goes, a condition gets a `not`
    number     a number is one more or one less, True becomes False
    operator   `+` becomes `-`, `*` becomes `//`, `min` becomes `max`, `any` becomes `all`, ...
    return     `return x` returns None
    statement  a statement goes
    swap       two arguments that stand side by side change places
    empty      a collection is empty
    element    a collection loses an element, a table a row
    case       a `match` loses a case, or a case its guard
    keyword    a call loses a keyword: of a `replace`, the field stays as it was

A place is one node and one kind of change. Places are drawn, not changes, so that a comparison with two
boundaries is as likely as one with a single opposite.

Texts are left alone, and so are annotations, types, asserts, `__all__`, imports and the arguments of an
exception: a change there is no fault of a rule. `strict=` of a `zip` is an assert, too. The least, the
greatest, the sum and the union of some values are the same in any order, so the arguments of `min`, `max`,
`plus`, `add`, `together`, `united` and `narrow` never change places. `return False` returns no None, which is
false as well, and a `match` without its `case _: pass` is the same. Changes that fail wherever they run would
flatter the sample: so a pair that is unpacked at once never gets shorter, and the only assignment of a name
stays.

Two tools were looked at for the drawing. Mutmut has no class bodies and tables among its places. Cosmic Ray
writes each mutant into the sources, and has neither statements nor keywords among its operators. Both make
all mutants of a project, and run one command for each. What is wanted here is less: a draw, with the seed in
the table, whose mutants go through the stages of `random_sample`.
"""

import ast
import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random
from typing import Final, NamedTuple, TypeAlias, TypeVar

from tests.mutants.mutant import ROOT, Mutant

_T = TypeVar("_T")

_COMPARED: Final[dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_OPPOSITES: Final = {"min": "max", "max": "min", "any": "all", "all": "any"}
_ANY_ORDER: Final = ("min", "max", "plus", "add", "together", "united", "narrow")
_DELETED: Final = (
    ast.Assign, ast.AugAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Raise, ast.Continue, ast.Break,
    ast.Delete, ast.Return,
)  # fmt: skip
_OPEN: Final = (ast.Module, ast.ClassDef)
_TAKEN_APART: Final = (ast.Return, ast.Yield, ast.IfExp)
"""A tuple that stands in one of these is mostly a pair or a triple."""

_COLLECTIONS: Final = (ast.List, ast.Tuple, ast.Set, ast.Dict)
_EMPTY: Final = {
    ast.List: "[]", ast.ListComp: "[]", ast.Tuple: "()", ast.Set: "set()", ast.SetComp: "set()",
    ast.Dict: "{}", ast.DictComp: "{}", ast.GeneratorExp: "(())",
}  # fmt: skip
_TYPES: Final = frozenset({"TypeAlias", "Literal", "TypeVar", "NewType", "cast"})
"""A value of such a name says something to the type checker only."""


class Change(NamedTuple):
    """One way to change a place. node: the replaced one. text: the source in its place."""

    node: ast.expr | ast.stmt
    text: str


class Place(NamedTuple):
    """A place of a module, with its changes. path: below the repository."""

    path: str
    kind: str
    line: int
    changes: tuple[Change, ...]


PlacesIn: TypeAlias = Callable[[Path], list[Place]]
"""The places of a module that are of some kind."""


def places(path: Path) -> list[Place]:
    """Return the places of a module, in the order of its source."""
    name = str(path.relative_to(ROOT))
    found = changes_in(path.read_text())
    return [Place(name, kind, changes[0].node.lineno, tuple(changes)) for kind, changes in found]


def changes_in(source: str) -> list[tuple[str, list[Change]]]:
    """Return the kind and the changes of each place of a source. Some may be no program, or the same one."""
    return [(kind, changes) for kind, changes in _Places(source).inside(ast.parse(source)) if changes]


def changed(source: str, change: Change) -> str:
    """Return the source with a change in it."""
    lines = source.splitlines(keepends=True)
    node = change.node
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    head = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    tail = lines[node.end_lineno - 1].encode()[node.end_col_offset :].decode()
    indent = head[: len(head) - len(head.lstrip())]
    text = change.text.replace("\n", f"\n{indent}")
    return "".join([*lines[: node.lineno - 1], head, text, tail, *lines[node.end_lineno :]])


def is_another(source: str, other: str) -> bool:
    """Return True if a changed source is a program, and another one."""
    try:
        compile(other, "<mutant>", "exec")
    except SyntaxError:
        return False
    return ast.dump(ast.parse(other)) != ast.dump(ast.parse(source))


class _Places:
    """Finds the changes of one source."""

    def __init__(self, source: str) -> None:
        self._lines = source.splitlines()
        self._twice: set[str] = set()

    def inside(self, node: ast.AST, parent: ast.AST | None = None) -> Iterator[tuple[str, list[Change]]]:
        """Yield the kind and the changes of each place inside a node, itself included."""
        if _is_left_alone(node):
            return
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            self._twice = _bound_twice(node)
        yield from self._at(node, parent)
        for field, value in ast.iter_fields(node):
            if _is_only_typing(node, field):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.inside(child, node)

    def _at(self, node: ast.AST, parent: ast.AST | None) -> Iterator[tuple[str, list[Change]]]:
        match node:
            case ast.Compare():
                yield "compare", list(_compared(node))
            case ast.BoolOp():
                yield "logic", [_with_op(node), *_without_operands(node)]
            case ast.UnaryOp(op=ast.Not()):
                yield "logic", [_as(node, node.operand)]
            case ast.Constant(value=bool() as is_so):
                yield "number", [Change(node, str(not is_so))]
            case ast.Constant(value=int() as number):
                yield "number", [Change(node, f"({number + by})") for by in (1, -1)]
            case ast.BinOp() if type(node.op) in _OPERATORS:
                yield "operator", [_with_op(node)]
            case ast.AugAssign() if type(node.op) in _OPERATORS:
                yield "operator", [_with_op(node)]
            case ast.Return(value=ast.expr() as value) if not _is_constant(value, None, False):
                yield "return", [Change(node, "return None")]
            case ast.Match():
                yield "case", list(_without_cases(node))
            case ast.Call():
                yield from _of_call(node)
            case _:
                pass
        if isinstance(node, ast.If | ast.IfExp | ast.While) and not _is_never_negated(node.test):
            yield "logic", [Change(node.test, f"(not ({ast.unparse(node.test)}))")]
        if isinstance(node, ast.expr) and type(node) in _EMPTY and not _is_unpacked(node, parent):
            yield "empty", [Change(node, _EMPTY[type(node)])]
            if isinstance(node, _COLLECTIONS) and len(_elements(node)) > 1:
                yield "element", list(_without_elements(node))
        if isinstance(node, _DELETED) and not isinstance(parent, _OPEN) and self._may_go(node):
            yield "statement", [Change(node, "pass")]

    def _may_go(self, node: ast.stmt) -> bool:
        match node:
            case ast.If():
                return not self._lines[node.lineno - 1][node.col_offset :].startswith("elif")
            case ast.Return():
                return node.value is None
            case ast.Assign(targets=[ast.Name(id=name)]):
                return name in self._twice
            case ast.Assign(targets=[ast.Tuple(elts=parts)]):
                return all(isinstance(one, ast.Name) and one.id in self._twice for one in parts)
            case _:
                return True


def _bound_twice(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Return the names that have a value in a function without one of their assignments."""
    bound = [one.arg for one in ast.walk(function.args) if isinstance(one, ast.arg)]
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.append(node.id)
    return {name for name in bound if bound.count(name) > 1}


def _is_left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Assert() | ast.JoinedStr():
            return True
        case ast.Expr(value=ast.Constant()) | ast.keyword(arg="strict"):  # a docstring; an assert of `zip`
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.AnnAssign(annotation=annotation):
            return "TypeAlias" in ast.unparse(annotation)
        case ast.Call(func=ast.Name(id=name)) | ast.Subscript(value=ast.Name(id=name)):
            return name in _TYPES
        case ast.expr():
            return isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        case _:
            return False


def _is_only_typing(node: ast.AST, field: str) -> bool:
    """Return True for annotations and bases, which say nothing of a rule, and for texts of exceptions."""
    if isinstance(node, ast.ClassDef):
        return field != "body"
    return isinstance(node, ast.Raise) or field in ("annotation", "returns", "decorator_list")


def _compared(node: ast.Compare) -> Iterator[Change]:
    for at, op in enumerate(node.ops):
        for other in _COMPARED[type(op)]:
            new = copy.copy(node)
            new.ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            yield _as(node, new)


def _with_op(node: ast.BoolOp | ast.BinOp | ast.AugAssign) -> Change:
    if isinstance(node, ast.BoolOp):
        op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return _as(node, ast.BoolOp(op, node.values))
    new = copy.copy(node)
    new.op = _OPERATORS[type(node.op)]()
    return _as(node, new)


def _without_operands(node: ast.BoolOp) -> Iterator[Change]:
    for at in range(len(node.values)):
        rest = [*node.values[:at], *node.values[at + 1 :]]
        yield _as(node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _without_cases(node: ast.Match) -> Iterator[Change]:
    for at, case in enumerate(node.cases):
        if len(node.cases) > 1 and not _does_nothing(case):
            yield Change(node, ast.unparse(ast.Match(node.subject, _without(node.cases, at))))
        if case.guard is not None:
            open_case = ast.match_case(case.pattern, None, case.body)
            cases = [*node.cases[:at], open_case, *node.cases[at + 1 :]]
            yield Change(node, ast.unparse(ast.Match(node.subject, cases)))


def _does_nothing(case: ast.match_case) -> bool:
    """Return True for `case _: pass`, without which the `match` does the same."""
    return ast.unparse(case.pattern) == "_" and all(isinstance(one, ast.Pass) for one in case.body)


def _of_call(node: ast.Call) -> Iterator[tuple[str, list[Change]]]:
    if isinstance(node.func, ast.Name) and node.func.id in _OPPOSITES:
        yield "operator", [Change(node.func, _OPPOSITES[node.func.id])]
    swaps = [
        _call(node, [*node.args[:at], node.args[at + 1], node.args[at], *node.args[at + 2 :]], node.keywords)
        for at in range(len(node.args) - 1)
        if not any(isinstance(one, ast.Starred) for one in node.args[at : at + 2])
    ]
    if swaps and not _is_in_any_order(node):
        yield "swap", swaps
    named = [at for at, one in enumerate(node.keywords) if one.arg not in (None, "strict")]
    if named:
        yield (
            "keyword",
            [_call(node, node.args, [*node.keywords[:at], *node.keywords[at + 1 :]]) for at in named],
        )


def _is_in_any_order(node: ast.Call) -> bool:
    """Return True for the names of `_ANY_ORDER`. With a key, the first of two that are equal counts."""
    return ast.unparse(node.func) in _ANY_ORDER and not node.keywords


def _is_never_negated(test: ast.expr) -> bool:
    """Return True for a `not`, which goes instead, and for the code of type checkers."""
    return isinstance(test, ast.UnaryOp) or ast.unparse(test) == "TYPE_CHECKING"


def _call(node: ast.Call, args: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Change:
    return Change(node, ast.unparse(ast.Call(node.func, list(args), list(keywords))))


def _elements(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> list[ast.expr]:
    return list(node.values) if isinstance(node, ast.Dict) else node.elts


def _without_elements(node: ast.List | ast.Tuple | ast.Set | ast.Dict) -> Iterator[Change]:
    for at in range(len(_elements(node))):
        new = copy.copy(node)
        if isinstance(new, ast.Dict):
            new.keys, new.values = _without(new.keys, at), _without(new.values, at)
        else:
            new.elts = _without(new.elts, at)
        yield _as(node, new)


def _without(values: list[_T], at: int) -> list[_T]:
    return [*values[:at], *values[at + 1 :]]


def _is_unpacked(node: ast.AST, parent: ast.AST | None) -> bool:
    """Return True for a tuple of fixed size that its reader takes apart, and for the parts of a type."""
    if not isinstance(node, ast.Tuple):
        return False
    is_fixed = not any(isinstance(one, ast.Starred) for one in node.elts)
    if isinstance(parent, ast.Assign):
        return any(isinstance(target, ast.Tuple) for target in parent.targets)
    return isinstance(parent, ast.Subscript) or (isinstance(parent, _TAKEN_APART) and is_fixed)


def _is_constant(node: ast.expr, *values: object) -> bool:
    return isinstance(node, ast.Constant) and any(node.value is one for one in values)


def _as(node: ast.expr | ast.stmt, new: ast.AST) -> Change:
    text = ast.unparse(new)
    is_open = isinstance(new, ast.Compare | ast.BoolOp | ast.BinOp | ast.UnaryOp | ast.IfExp | ast.Lambda)
    return Change(node, f"({text})" if is_open else text)


# --- drawing --------------------------------------------------------------------------


def draw(folders: Sequence[str], count: int, seed: int, places_in: PlacesIn = places) -> list[Mutant]:
    """Return this many mutants of the modules below these folders, in random order.

    Each place is as likely as any other, and has one mutant at most. places_in: those of a module.
    """
    random = Random(seed)
    modules = sorted(path for folder in folders for path in modules_below(ROOT / folder))
    found = [place for path in modules for place in places_in(path)]
    random.shuffle(found)
    drawn = (mutant_of(place, random.choice(place.changes)) for place in found)
    return list(islice((one for one in drawn if is_another(one.old, one.new)), count))


def modules_below(path: Path) -> Iterator[Path]:
    """Yield the modules of a folder, or the module itself."""
    yield from [path] if path.is_file() else path.rglob("*.py")


def mutant_of(place: Place, change: Change) -> Mutant:
    """Return a change as a mutant: its old text is the whole module, which occurs in it exactly once."""
    path = ROOT / place.path
    source = path.read_text()
    new = changed(source, change)
    folder, _, rest = place.path.removesuffix(".py").partition("/")
    name = f"{place.path}:{place.line} {place.kind}"
    return Mutant(name, _difference(source, new), rest.replace("/", "."), source, new, folder=folder)


def _difference(source: str, new: str) -> str:
    """Return the lines that differ, before and after, on one line."""
    before, after = source.splitlines(), new.splitlines()
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    gone, come = (" ".join(line.strip() for line in lines) for lines in (before, after))
    return f"{gone} => {come}"
