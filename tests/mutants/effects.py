"""The effects of a statement, as far as its text shows them: the names it reads and writes, and if it leaves.

Two statements commute if neither writes a name that the other reads or writes, and at most one of them does
anything else. So do two conditions of which one at most holds, and two that refuse different values, since
either refusal is right; parts that both of them want do not count. The following is taken for granted,
because no text shows it:

    names        two paths of attributes are two things: `self.a` and `work.state.a` are never the same
    containers   a method with the name of a container's, such as `add` or `pop`, touches its receiver only;
                 the same of a task, an event or a clock, such as `done` or `time`; and one with the name of
                 a text's or path's, such as `strip` or `with_name`, changes nothing
    values       what is called for its value does nothing else, unless it is a method of `self` or `work`
    classes      an object of one class is not of another one, and names of constants are of different values
    bases        the `__init__` of a base neither reads nor sets an attribute that its subclass sets
    leaving      no `finally` reads a name that is written in a branch which returns
    errors       no reading, and no method of a container, raises
"""

import ast
import builtins
from collections.abc import Iterable
from functools import reduce
from typing import Final, NamedTuple

_READING: Final = (
    "cancelled", "copy", "count", "done", "endswith", "get", "index", "is_set", "items", "join", "keys",
    "lower", "lstrip", "partition", "removeprefix", "removesuffix", "rpartition", "rstrip", "split",
    "startswith", "strip", "time", "total", "union", "upper", "values", "with_name", "with_suffix",
)  # fmt: skip
CHANGING: Final = (
    "add", "append", "appendleft", "clear", "difference_update", "discard", "extend", "insert", "move_to_end",
    "pop", "popitem", "popleft", "remove", "reverse", "setdefault", "sort", "subtract", "update",
)  # fmt: skip
_BUILTINS: Final = frozenset(dir(builtins))
_OPAQUE: Final = (ast.Await, ast.Yield, ast.YieldFrom, ast.With, ast.AsyncWith, ast.AsyncFor, ast.Try)
ACTORS: Final = ("self", "work")
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


class Effects(NamedTuple):
    """The effects of a statement. Names are paths, such as `self.state`.

    does_more: True if it calls, awaits or yields anything that may do more than the paths show.
    returns, skips: True if it may leave the function, or the turn of a loop around it.
    results: the texts of what it may return or raise.
    """

    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    does_more: bool = False
    returns: bool = False
    skips: bool = False
    results: frozenset[str] = frozenset()

    def __or__(self, other: "Effects") -> "Effects":
        """Return the effects of both."""
        return Effects(
            self.reads | other.reads,
            self.writes | other.writes,
            self.does_more or other.does_more,
            self.returns or other.returns,
            self.skips or other.skips,
            self.results | other.results,
        )

    def is_seen_outside(self) -> bool:
        """Return True if more than a local name of the function is different afterwards."""
        return self.does_more or any("." in path for path in self.writes)


def commute(one: Effects, other: Effects, temporary: frozenset[str] = frozenset()) -> bool:
    """Return True if two statements with these effects do the same in either order.

    temporary: the names that only the rest of their block reads.
    """
    if meet(one.writes, other.reads | other.writes) or meet(other.writes, one.reads):
        return False
    one, other = (each._replace(writes=each.writes - temporary) for each in (one, other))
    return _leave_alike(one, other) or (_is_harmless_beside(one, other) and _is_harmless_beside(other, one))


def _leave_alike(one: Effects, other: Effects) -> bool:
    """Return True for two that do nothing but return one constant, and read nothing in common."""
    is_seen = any(each.is_seen_outside() or each.skips for each in (one, other))
    return not is_seen and len(one.results | other.results) == 1 and not meet(one.reads, other.reads)


def _is_harmless_beside(one: Effects, other: Effects) -> bool:
    """Return True if it does not matter to `one` that `other` may leave, or may do more than is shown."""
    if other.returns and (one.is_seen_outside() or one.returns or one.skips):
        return False
    if other.skips and (one.writes or one.does_more or one.returns or one.skips):
        return False
    return not (other.does_more and one.is_seen_outside())


def meet(some: frozenset[str], others: frozenset[str]) -> bool:
    """Return True if a path of some is one of the others, or is a part of one, or has one as a part."""
    return any(
        one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
        for one in some
        for other in others
    )


def exclude(first: ast.stmt, second: ast.stmt) -> bool:
    """Return True for two conditions of which one at most holds, or either of which may be the first."""
    if not (isinstance(first, ast.If) and isinstance(second, ast.If)) or first.orelse or second.orelse:
        return False
    tests, both = (effects_of(first.test), effects_of(second.test)), (effects_of(first), effects_of(second))
    if any(test.does_more or test.writes for test in tests):
        return False
    if _one_at_most(first.test, second.test):
        return not (_may_change(both[0], tests[1]) or _may_change(both[1], tests[0]))
    is_same = ast.dump(first.body[-1]) == ast.dump(second.body[-1]) or all(map(_refuses, (first, second)))
    own = _without_the_same(first.test, second.test)
    return len(first.body) == len(second.body) == 1 and is_same and not meet(own[0], own[1])


def _without_the_same(one: ast.expr, other: ast.expr) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names that each of two tests reads in parts of its own; all, if one has no such part."""
    wants = [
        test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else [test]
        for test in (one, other)
    ]
    both = set.intersection(*({ast.dump(part) for part in parts} for parts in wants))
    own = [[part for part in parts if ast.dump(part) not in both] for parts in wants]
    first, second = (_together(some).reads for some in (own if all(own) else wants))
    return first, second


def _may_change(one: Effects, test: Effects) -> bool:
    is_open = any(path.partition(".")[0] in ACTORS for path in test.reads)
    return meet(one.writes, test.reads) or (one.does_more and is_open and not one.returns)


def _refuses(condition: ast.If) -> bool:
    return isinstance(condition.body[-1], ast.Raise)


def _one_at_most(first: ast.expr, second: ast.expr) -> bool:
    """Return True if two tests want one expression to have other values, or to be of other classes."""
    return any(
        one[0] == other[0] and not one[1] & other[1] for one in _wanted(first) for other in _wanted(second)
    )


def _wanted(test: ast.expr) -> list[tuple[str, set[str]]]:
    """Return the expressions of which a test wants one of some values or classes, each with those."""
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            return [one for value in values for one in _wanted(value)]
        case ast.Call(func=ast.Name(id="isinstance"), args=[subject, classes]):
            return [(f"type of {ast.unparse(subject)}", set(ast.unparse(classes).split(" | ")))]
        case ast.Compare(left=subject, ops=[ast.Eq()], comparators=[value]) if _is_fixed(value):
            kind = "value" if isinstance(value, ast.Constant) else "name of the value"
            return [(f"{kind} of {ast.unparse(subject)}", {ast.unparse(value)})]
        case ast.Compare(left=subject, ops=[ast.Is()], comparators=[ast.Constant(None)]):
            text = ast.unparse(subject)
            none = [(f"{kind} of {text}", {"None"}) for kind in ("value", "type", "presence")]
            return [*_truth(subject, "false"), *none]
        case ast.Compare(left=subject, ops=[ast.IsNot()], comparators=[ast.Constant(None)]):
            return [(f"presence of {ast.unparse(subject)}", {"some"})]
        case ast.UnaryOp(op=ast.Not(), operand=subject):
            return _truth(subject, "false")
        case _:
            return _truth(test, "true")


def _truth(test: ast.expr, value: str) -> list[tuple[str, set[str]]]:
    return [(f"truth of {ast.unparse(test)}", {value})]


def effects_of(node: ast.AST) -> Effects:
    """Return the effects of a statement or an expression, with those of its parts."""
    path = path_of(node)
    match node:
        case ast.Name() if path in _BUILTINS:
            return Effects()
        case ast.Name(ctx=ast.Load()) | ast.Attribute(ctx=ast.Load()) if path:
            return Effects(reads=frozenset({path}))
        case ast.Name() | ast.Attribute() if path:
            return _written(path)
        case ast.Assign(targets=[target], value=ast.Call(func=func, args=[former], keywords=changes)) if (
            path_of(func).rpartition(".")[2] == "replace"
            and path_of(target) == path_of(former) != ""
            and all(one.arg for one in changes)
        ):
            return _together(changes) | _written(*(f"{path_of(target)}.{one.arg}" for one in changes))
        case ast.AugAssign(target=target, value=value):
            changed = effects_of(target)
            return changed | Effects(reads=changed.writes) | effects_of(value)
        case ast.Subscript(value=value, slice=at, ctx=ast.Store() | ast.Del()):
            name = _element(value, at)
            return (_written(name) if name else _changed(value)) | effects_of(at)
        case ast.MatchAs(name=str() as name) | ast.MatchStar(name=str() as name):
            return _written(name) | _of_parts(node)
        case ast.Expr(value=ast.Call(func=func) as call) if ast.unparse(func) == "super().__init__":
            return _written("self.args") | _together([*call.args, *call.keywords])
        case ast.Expr(value=ast.Call(func=func) as call) if not _is_of_container(func):
            return Effects(does_more=True) | _of_parts(call)
        case ast.Call(func=func):
            return _of_call(func) | _together([*node.args, *(one.value for one in node.keywords)])
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp() | ast.Lambda():
            return _without_own_names(node)
        case ast.Return() | ast.Raise():
            return Effects(returns=True, results=frozenset({ast.unparse(node)})) | _of_parts(node)
        case ast.If(test=test, body=[*_, ast.Return()], orelse=[]):
            both = _of_parts(node)
            acts = both.does_more or any("." in path for path in both.writes)
            return both._replace(writes=effects_of(test).writes, does_more=acts)
        case ast.Try(handlers=handlers) if handlers and all(_leaves(one.body) for one in handlers):
            return Effects(returns=True) | _of_parts(node)
        case ast.Continue() | ast.Break():
            return Effects(skips=True)
        case _ if isinstance(node, _LOOPS):
            return _of_parts(node)._replace(skips=False)
        case _ if isinstance(node, _OPAQUE):
            return Effects(does_more=True) | _of_parts(node)
        case _:
            return _of_parts(node)


def _leaves(block: list[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Return | ast.Raise)


def path_of(node: ast.AST) -> str:
    """Return the path of a name or of an attribute of an attribute of a name; "" for anything else."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{path}.{name}" if (path := path_of(value)) else ""
        case _:
            return ""


def _of_call(func: ast.expr) -> Effects:
    match func:
        case ast.Attribute(value=value, attr=name) if name in _READING:
            return effects_of(value)
        case ast.Attribute(value=value, attr=name) if name in CHANGING:
            return _changed(value)
        case _:
            return Effects(does_more=path_of(func).partition(".")[0] in ACTORS) | effects_of(func)


def _is_of_container(func: ast.expr) -> bool:
    return isinstance(func, ast.Attribute) and func.attr in CHANGING


def _element(container: ast.expr, key: ast.expr) -> str:
    """Return the path of an element whose key is a constant, "" for another: two names may be one key."""
    path = path_of(container)
    return f"{path}.[{ast.unparse(key)}]" if path and _is_fixed(key) else ""


def _is_fixed(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or path_of(value).rpartition(".")[2].isupper()


def _changed(container: ast.expr) -> Effects:
    """Return the effects of a change of a container. One inside another, as `a[b]`, is taken for that one."""
    if path := path_of(container):
        return Effects(frozenset({path})) | _written(path, f"{path}.*")
    if isinstance(container, ast.Subscript):
        return _changed(container.value) | effects_of(container)
    return Effects(does_more=True) | effects_of(container)


def _written(*paths: str) -> Effects:
    return Effects(writes=frozenset(paths))


def _without_own_names(node: ast.AST) -> Effects:
    own = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    own |= {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    found = _of_parts(node)
    reads = {path for path in found.reads if path.partition(".")[0] not in own}
    return found._replace(reads=frozenset(reads), writes=found.writes - own)


def _of_parts(node: ast.AST) -> Effects:
    return _together(ast.iter_child_nodes(node))


def _together(nodes: Iterable[ast.AST]) -> Effects:
    return reduce(Effects.__or__, map(effects_of, nodes), Effects())
