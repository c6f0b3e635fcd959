"""The statements of `actors/`, which act on nothing but their values, with calls as the things they touch.

The supervisor passes `work`, its unit of work, from helper to helper. A post and a change of a field of the
state have nothing in common, so such neighbours may stand in either order.

Rules
  - A method called for no value changes its receiver only, unless that is `self` or `work`.
  - The effects on `work` of its methods, and of the functions that get it first, are those of their
    statements and of all that they call with it. A function that gives it to an unknown one may do more.
  - A record that `ancestry` copies out of the tree is not a change, and the state has values only.
  - A local name that is another name of an attribute, as in `records = self._records`, is that attribute.
  - `update_session` changes the fields that a call names. A function changes each list that it gets.
"""

import ast
import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, reduce
from typing import Final, NamedTuple, cast

from tests.mutants.effects import ACTORS, CHANGING, effects_of, path_of
from tests.mutants.mutant import ROOT

FOLDER: Final = ROOT / "actors" / "supervisor"
MODULES: Final = frozenset(path.stem for path in FOLDER.glob("*.py"))
_WORK: Final = "work"
_FIELDS: Final = "work.update_session"
_STATE: Final = "work.state."
_COPIES: Final = "work.ancestry"

Functions = Mapping[str, ast.FunctionDef]


class Helper(NamedTuple):
    """The effects of a function on `work`, as paths, and the places of the lists among its parameters."""

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    lists: frozenset[int] = frozenset()

    def beside(self, called: "Helper") -> "Helper":
        """Return the effects together with those of a helper that is called."""
        return Helper(self.reads | called.reads, self.writes | called.writes, self.lists)


def in_pure_code(statement: ast.stmt) -> ast.stmt:
    """Return a statement of `actors/` in which calls read as changes of the things that they touch."""
    return _with_helpers(statement, helpers())


@cache
def helpers() -> Mapping[str, Helper]:
    """Return the helpers of the supervisor whose effects are known."""
    return helpers_in(path.read_text() for path in sorted(FOLDER.glob("*.py")))


def helpers_in(sources: Iterable[str]) -> Mapping[str, Helper]:
    """Return the helpers of some modules whose effects are known, methods as `work.name`."""
    found: dict[str, list[ast.FunctionDef]] = {}
    for source in sources:
        for name, function in _functions(ast.parse(source)):
            found.setdefault(name, []).append(function)
    known = {name: functions[0] for name, functions in found.items() if len(functions) == 1}
    own = {name: _own_effects(function, known) for name, function in known.items()}
    if _COPIES in own:
        own[_COPIES] = own[_COPIES]._replace(writes=frozenset())
    unsure = {name for name, function in known.items() if _gives_work_away(function, known)}
    made: dict[str, Helper] = {}
    for name, helper in own.items():
        reached = _reached(name, known)
        if not reached & unsure:
            made[name] = reduce(Helper.beside, (own[one] for one in reached), helper)
    return made


def _functions(module: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module that get `work` first, and the methods of its unit of work."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and [one.arg for one in node.args.args][:1] == [_WORK]:
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and node.name == "UnitOfWork":
            for method in node.body:
                if isinstance(method, ast.FunctionDef):
                    yield f"{_WORK}.{method.name}", cast(ast.FunctionDef, _Renamed().visit(method))


class _Renamed(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(_WORK if node.id == "self" else node.id, node.ctx)


# --- the effects of one function ------------------------------------------------------


def _own_effects(function: ast.FunctionDef, known: Functions) -> Helper:
    """Return the effects of a function's statements, without those of the helpers that it calls."""
    none = dict.fromkeys(known, Helper())
    others = dict(_other_names(function))
    reads, writes = set[str](), set[str]()
    for statement in function.body:
        found = effects_of(_with_helpers(statement, none))
        reads |= {_renamed(path, others) for path in found.reads}
        writes |= {_renamed(path, others) for path in found.writes}
    lists = (at for at, one in enumerate(function.args.args) if "list" in ast.unparse(one))
    return Helper(_of_work(reads), _of_work(writes), frozenset(lists))


def _other_names(function: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield the local names that are assigned a path of `work`, each with that path."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple | ast.Name):
            target, value = node.targets[0], node.value
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = value.elts if isinstance(value, ast.Tuple) else [value]
            for one, path in zip(map(path_of, names), map(path_of, values), strict=False):
                if path.startswith(f"{_WORK}."):
                    yield one, path


def _renamed(path: str, others: Mapping[str, str]) -> str:
    first, dot, rest = path.partition(".")
    return f"{others.get(first, first)}{dot}{rest}"


def _of_work(paths: set[str]) -> frozenset[str]:
    return frozenset(path for path in paths if path.startswith(f"{_WORK}."))


# --- calls ----------------------------------------------------------------------------


def _called(call: ast.Call) -> str:
    """Return the name of the helper that a call may be of; "" if it gets no `work` first."""
    owner, _, name = path_of(call.func).rpartition(".")
    if owner == _WORK:
        return f"{_WORK}.{name}"
    is_given = bool(call.args) and path_of(call.args[0]) == _WORK
    return name if is_given and (not owner or owner in MODULES) else ""


def _reached(name: str, known: Functions) -> set[str]:
    """Return the helpers that a helper may call, with itself."""
    found, left = {name}, [name]
    while left:
        for node in ast.walk(known[left.pop()]):
            called = _called(node) if isinstance(node, ast.Call) else ""
            if called in known and called not in found | {_FIELDS}:
                found.add(called)
                left.append(called)
    return found


def _gives_work_away(function: ast.FunctionDef, known: Functions) -> bool:
    """Return True if a function calls one that is not known with `work`, or stores it."""
    names = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == _WORK]
    is_first = [node for node in ast.walk(function) if isinstance(node, ast.Call) and _called(node) in known]
    plain = [node for node in ast.walk(function) if isinstance(node, ast.Attribute) and node.value in names]
    return len(names) > len(plain) + sum(not path_of(one.func).startswith(f"{_WORK}.") for one in is_first)


def _with_helpers(statement: ast.stmt, known: Mapping[str, Helper]) -> ast.stmt:
    return cast(ast.stmt, _PureCalls(known).visit(copy.deepcopy(statement)))


class _PureCalls(ast.NodeTransformer):
    def __init__(self, known: Mapping[str, Helper]) -> None:
        self._known = known

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        match node.value:
            case ast.Call(func=ast.Attribute(value=receiver) as func) if path_of(receiver) not in ACTORS:
                if _called(node.value) not in self._known and ast.unparse(receiver) != "super()":
                    func.attr = CHANGING[0]
            case _:
                pass
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name, given = _called(node), [*node.args, *(one.value for one in node.keywords)]
        if path_of(node.func).startswith(_STATE):
            return ast.Tuple([node.func, *given], ast.Load())
        if (helper := self._known.get(name)) is None:
            return node
        lists = [path_of(one) for at, one in enumerate(node.args) if at in helper.lists]
        fields = [f"{_WORK}.state.{one.arg}" for one in node.keywords if one.arg] if name == _FIELDS else []
        written = [*(fields or helper.writes), *(f"{one}.*" for one in lists if one)]
        values = [one for one in given if path_of(one) != _WORK]
        values += (_node(one, ast.Load()) for one in (helper.reads if not fields else ()))
        return ast.Tuple([*values, *(_node(one, ast.Store()) for one in written)], ast.Load())


def _node(path: str, context: ast.expr_context) -> ast.expr:
    first, *rest = path.split(".")
    found: ast.expr = ast.Name(first, ast.Load())
    for at, name in enumerate(rest, 1):
        found = ast.Attribute(found, name, context if at == len(rest) else ast.Load())
    return found
